"""Archives are the same if they hold the same, however they are packed; real tools pack."""

from __future__ import annotations

import gzip
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from intercode.envs import archives
from intercode.envs.bash.compare import bash_exact
from intercode.types import Change, Outcome, Task

FILES = {"a.txt": "apple\n" * 500, "b.txt": "banana\n", "d/c.txt": "cherry\n"}
TAR = "tar -cz a.txt b.txt d"
ZIP = f"{sys.executable} -m zipfile -c x.zip a.txt b.txt; cat x.zip"
TWICE = "echo new > a; echo new > b; tar cf x.tar a b"
PACKED: list[tuple[str, list[str], list[str]]] = [
    (
        TAR,
        [
            "tar -c b.txt a.txt d | gzip -9",
            "tar -cz ./a.txt ./b.txt d/c.txt",
            "touch -d 2001-01-01 a.txt; " + TAR,
            "tar -c --owner=nobody:1 a.txt b.txt d | gzip -1",
        ],
        [
            "tar -c a.txt b.txt d",
            "tar -cj a.txt b.txt d",
            "tar -cz a.txt b.txt",
            "gzip -c a.txt",
            f"{TAR} | head -c 60",
            "tar -cz -C d ../a.txt ../b.txt c.txt 2>/dev/null",
            f"echo x >> a.txt; {TAR}",
            f"mkdir e; {TAR} e",
            f"ln -s a.txt l; {TAR} l",
            f"{TAR}; echo more",
        ],
    ),
    *(
        (
            f"{tool} -1 < a.txt",
            [f"{tool} -9 < a.txt", f"(head -c 9 a.txt | {tool}; tail -c +10 a.txt | {tool})"],
            ["cat a.txt"],
        )
        for tool in ("gzip", "bzip2", "xz")
    ),
    (
        ZIP,
        [ZIP.replace("a.txt b.txt", "b.txt a.txt")],
        [ZIP.replace("a.txt", ""), f"echo x >> a.txt; {ZIP}"],
    ),
    (
        f"{TWICE}; cat x.tar",
        ["echo old > a; echo new > b; tar cf x.tar a b; echo new > a; tar rf x.tar a; cat x.tar"],
        [  # a link to what is replaced; more behind a damaged header; more behind the end
            "echo old > a; ln a b; tar cf x.tar a b; rm a; echo new > a; tar rf x.tar a; cat x.tar",
            f"{TWICE}; echo > c; tar cf z c; head -c 2048 x.tar; head -c 512 /dev/urandom; cat z",
            f"{TWICE}; echo > c; tar cf z c; cat x.tar z",
        ],
    ),
]

Digests = Callable[[str], tuple[str, ...]]


@pytest.fixture
def digests(tmp_path: Path) -> Digests:
    """Of what is held in an archive that a command prints, and of owners, modes and times."""

    def digests(command: str) -> tuple[str, ...]:
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        for name, content in FILES.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(content)
        packed = subprocess.run(
            ["bash", "-c", command], cwd=place, stdout=subprocess.PIPE, timeout=20
        ).stdout
        return archives.digests_of([packed])[0]

    return digests


@pytest.mark.parametrize(("packed", "same", "other"), PACKED, ids=[row[0] for row in PACKED])
def test_an_archive_is_what_it_holds_under_which_names(
    packed: str, same: list[str], other: list[str], digests: Digests
) -> None:
    held = digests(packed)[0]
    assert [command for command in same if digests(command)[:1] != (held,)] == []
    assert [command for command in other if digests(command)[:1] == (held,)] == []


def test_what_is_no_archive_or_holds_too_much_has_no_members(digests: Digests) -> None:
    data = [
        b"",
        b"text",
        b"PK\3\4",
        b"\x1f\x8b\x08",
        b"BZh9",
        b"\0" * 257 + b"ustar" + b"\xff" * 600,
    ]
    assert archives.digests_of(data) == [()] * len(data)
    assert (
        digests("head -c 100M /dev/zero | gzip -1")
        == digests("truncate -s 9G big; tar -cSf - big")
        == ()
    )


@pytest.mark.soak
def test_what_takes_long_to_read_costs_the_reader_only() -> None:
    """Each empty part is short, and the rest is copied for each."""
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.thread_time()
    assert archives.digests_of([gzip.compress(b"") * 300_000, gzip.compress(b"x")]) == [(), ()]
    assert time.thread_time() - began < 1
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 64 << 20


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("owners", "tar -c --mtime=2024-01-02 --owner=nobody:65534 a.txt b.txt d"),
        ("permissions", "chmod 600 b.txt; tar -c --mtime=2024-01-02 a.txt b.txt d"),
        ("timestamps", "tar -c --mtime=2024-01-03 a.txt b.txt d"),
    ],
)
def test_owners_modes_and_times_count_where_the_query_names_them(
    words: str, command: str, digests: Digests
) -> None:
    def packed(command: str) -> Outcome:
        held, *attributes = digests(command)
        change = Change("added", "file", 0o644, command, held=held, attributes=tuple(attributes))
        return Outcome("", {"/x.tar": change})

    preserved = "tar -c --mtime=2024-01-02 a.txt b.txt d"
    gold, same, other = packed(preserved), packed(f"{preserved} | cat"), packed(command)
    how = ("", f"with their {words} ", "at the best level ")
    plain, asked, level = (
        Task("1", f"Pack the files {words}into /x.tar.", preserved) for words in how
    )
    assert bash_exact(other, gold, plain).success
    assert not bash_exact(packed("tar -c a.txt"), gold, plain).success
    # the bytes count where the query says how to pack
    assert not bash_exact(same, gold, level).success
    assert bash_exact(same, gold, asked).success
    assert not bash_exact(other, gold, asked).success
