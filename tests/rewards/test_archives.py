"""Archives are the same if they hold the same, however they are packed; real tools pack."""

from __future__ import annotations

import gzip
import io
import os
import resource
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from intercode.rewards import archives, bash_exact
from intercode.types import Change, Outcome, Task

FILES = {"a.txt": "apple\n" * 500, "b.txt": "banana\n", "d/c.txt": "cherry\n"}
PACKED = "tar -cz a.txt b.txt d"
SAME = [
    "tar -c b.txt a.txt d | gzip -9",
    "tar -cz ./a.txt ./b.txt d/c.txt",
    "touch -d 2001-01-01 a.txt; tar -cz a.txt b.txt d",
    "tar -c a.txt b.txt d | pigz 2>/dev/null || tar -c --owner=nobody:1 a.txt b.txt d | gzip -1",
]
OTHER = [
    "tar -c a.txt b.txt d",
    "tar -cj a.txt b.txt d",
    "tar -cz a.txt b.txt",
    "tar -cz -C d ../a.txt ../b.txt c.txt 2>/dev/null",
    "echo x >> a.txt; tar -cz a.txt b.txt d",
    "mkdir e; tar -cz a.txt b.txt d e",
    "ln -s a.txt l; tar -cz a.txt b.txt d l",
    "gzip -c a.txt",
    "tar -cz a.txt b.txt d | head -c 60",
    "tar -cz a.txt b.txt d; echo more",
]


def run(command: str, place: Path) -> bytes:
    for name, content in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content)
    return subprocess.run(["bash", "-c", command], cwd=place, stdout=subprocess.PIPE, timeout=20).stdout


def digests(command: str, place: Path) -> tuple[str, ...]:
    """Of what is held, and of owners, modes and times."""
    place.mkdir()
    (found,) = archives.held([run(command, place)])
    return found


def held(command: str, place: Path) -> str | None:
    return next(iter(digests(command, place)), None)


@pytest.mark.parametrize("command", SAME)
def test_packed_in_another_way_it_holds_the_same(command: str, tmp_path: Path) -> None:
    assert held(command, tmp_path / "ours") == held(PACKED, tmp_path / "theirs") is not None


@pytest.mark.parametrize("command", OTHER)
def test_another_format_name_content_or_end_is_not_the_same(command: str, tmp_path: Path) -> None:
    assert held(command, tmp_path / "ours") != held(PACKED, tmp_path / "theirs")


@pytest.mark.parametrize("tool", ["gzip", "bzip2", "xz"])
def test_a_compressed_file_is_what_it_was_before(tool: str, tmp_path: Path) -> None:
    fast, best, twice = (held(f"{how}", tmp_path / name) for name, how in enumerate_ways(tool))
    assert fast == best == twice is not None


def enumerate_ways(tool: str) -> list[tuple[str, str]]:
    halves = f"(head -c 1000 a.txt | {tool}; tail -c +1001 a.txt | {tool})"
    return [("fast", f"{tool} -1 -c a.txt"), ("best", f"{tool} -9 -c < a.txt"), ("twice", halves)]


def test_a_zip_holds_its_members(tmp_path: Path) -> None:
    run("true", tmp_path)
    for name, names, method in (("x", ["a.txt", "b.txt"], 0), ("y", ["b.txt", "a.txt"], 8), ("z", ["a.txt"], 8)):
        with zipfile.ZipFile(tmp_path / name, "w", method) as made:
            for each in names:
                made.write(tmp_path / each, each)
    x, y, z = archives.held((tmp_path / name).read_bytes() for name in "xyz")
    assert x == y != ()
    assert x != z


@pytest.mark.parametrize("data", [b"", b"text", b"PK\3\4", b"\x1f\x8b\x08", b"BZh9", b"\0" * 257 + b"ustar" + b"\xff" * 600])
def test_what_is_no_archive_has_no_members(data: bytes) -> None:
    assert archives.held([data]) == [()]


TWO = "echo new > a; echo new > b; tar cf x.tar a b"
SAME_TWO = "echo old > a; echo new > b; tar cf x.tar a b; echo new > a; tar rf x.tar a"
OTHER_TWO = {
    "a link to what is replaced": "echo old > a; ln a b; tar cf x.tar a b; rm a; echo new > a; tar rf x.tar a",
    "more behind a damaged header": f"{TWO}; echo > c; tar cf z c; "
    "(head -c 2048 x.tar; head -c 512 /dev/urandom; cat z) > y; mv y x.tar",
    "more behind the end": f"{TWO}; echo > c; tar cf z c; cat z >> x.tar",
}


def test_a_member_that_is_replaced_is_what_it_was_replaced_by(tmp_path: Path) -> None:
    assert held(f"{SAME_TWO}; cat x.tar", tmp_path / "ours") == held(f"{TWO}; cat x.tar", tmp_path / "theirs") is not None


@pytest.mark.parametrize("command", OTHER_TWO.values(), ids=OTHER_TWO)
def test_what_extracts_to_something_else_is_not_the_same(command: str, tmp_path: Path) -> None:
    assert held(f"{command}; cat x.tar", tmp_path / "ours") != held(f"{TWO}; cat x.tar", tmp_path / "theirs")


def test_what_holds_more_than_there_is_room_for_is_not_opened(tmp_path: Path) -> None:
    assert held("head -c 100M /dev/zero | gzip", tmp_path / "bomb") is None
    assert held("truncate -s 9G big; tar -czS big", tmp_path / "holes") is None


def linked(size: int, links: int) -> bytes:
    """A file and hard links to it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", format=tarfile.USTAR_FORMAT) as archive:
        file = tarfile.TarInfo("a")
        file.size = size
        archive.addfile(file, io.BytesIO(bytes(size)))
        for number in range(links):
            link = tarfile.TarInfo(f"l{number}")
            link.type, link.linkname = tarfile.LNKTYPE, "a"
            archive.addfile(link)
    return made.getvalue()


def costs(data: bytes) -> tuple[list[tuple[str, ...]], float, int]:
    """The digests, seconds of the caller's own processor, bytes by which its largest memory grew."""
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.thread_time()
    found = archives.held([data, gzip.compress(b"x")])
    return found, time.thread_time() - began, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


@pytest.mark.parametrize(("size", "links"), [(20_000_000, 60), (10, 20_000)])
def test_many_names_of_one_file_cost_what_one_does(size: int, links: int) -> None:
    found, seconds, grown = costs(linked(size, links))
    assert () not in found
    assert seconds < 1
    assert grown < 64 << 20


def test_what_takes_long_to_read_costs_the_reader_only() -> None:
    """Each empty part is short, and the rest is copied for each."""
    found, seconds, grown = costs(gzip.compress(b"") * 300_000)
    assert found == [(), ()]
    assert seconds < 1
    assert grown < 64 << 20


def test_a_lower_limit_of_the_callers_own_stays(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"x"))
    ask = "import sys; from intercode.rewards import archives; print(archives.held([open(sys.argv[1], 'rb').read()])[0])"
    bound = ["prlimit", "--as=800000000:800000000", sys.executable, "-c", ask, str(tmp_path / "a.gz")]
    command = [*(["setpriv", "--bounding-set", "-sys_resource"] if os.getuid() == 0 else []), *bound]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.strip() not in ("", "()")


def test_the_reward_compares_what_they_hold_unless_the_query_says_how_to_pack() -> None:
    def packed(digest: str, held: str | None) -> Outcome:
        return Outcome("", {"/x.gz": Change("added", "file", 0o644, digest, held=held)})

    task, best = Task("1", "Compress x.", "gzip x"), Task("1", "Compress x at the best level.", "gzip -9 x")
    assert bash_exact(packed("1", "a"), packed("2", "a"), task).success
    assert not bash_exact(packed("1", "a"), packed("2", "b"), task).success
    assert not bash_exact(packed("1", None), packed("2", "b"), task).success
    assert not bash_exact(packed("1", "a"), packed("2", "a"), best).success


PRESERVED = "tar -c --mtime=2024-01-02 a.txt b.txt d"


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("owners", f"{PRESERVED} --owner=nobody:65534"),
        ("permissions", f"chmod 600 b.txt; {PRESERVED}"),
        ("timestamps", "tar -c --mtime=2024-01-03 a.txt b.txt d"),
    ],
)
def test_owners_modes_and_times_count_where_the_query_names_them(words: str, command: str, tmp_path: Path) -> None:
    def packed(command: str, name: str) -> Outcome:
        held, *attributes = digests(command, tmp_path / name)
        change = Change("added", "file", 0o644, name, held=held, attributes=tuple(attributes))
        return Outcome("", {"/x.tar": change})

    gold, same, other = packed(PRESERVED, "gold"), packed(f"{PRESERVED} | cat", "same"), packed(command, "other")
    plain, asked = (Task("1", f"Pack the files {how}into /x.tar.", PRESERVED) for how in ("", f"with their {words} "))
    assert bash_exact(other, gold, plain).success
    assert bash_exact(same, gold, asked).success
    assert not bash_exact(other, gold, asked).success
