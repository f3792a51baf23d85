"""Archives that agents send to `copy_out`: none writes outside of the target, hangs, or has no
limit."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from intercode_sandbox import copying


def member(name: str, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def link(name: str, to: str) -> tarfile.TarInfo:
    return member(name, type=tarfile.SYMTYPE, linkname=to)


def folder(name: str) -> tarfile.TarInfo:
    return member(name, type=tarfile.DIRTYPE, mode=0o755)


def unpack(target: Path, *members: tarfile.TarInfo | tuple[str, bytes]) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for each in members:
            if isinstance(each, tuple):
                name, content = each
                tar.addfile(member(name, size=len(content)), io.BytesIO(content))
            else:
                tar.addfile(each)
    archive.seek(0)
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        copying._unpack(tar, target)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "key").write_text("mine")
    return tmp_path / "victim"


def untouched(victim: Path) -> bool:
    return {path.name: path.read_text() for path in victim.iterdir()} == {"key": "mine"}


def test_no_file_and_no_link_is_made_through_a_link(tmp_path: Path, victim: Path) -> None:
    target = tmp_path / "target"
    unpack(target, link("a", str(victim)), link("b", "../victim"), link("c", "x/../../victim"))
    assert list(target.iterdir()) == []
    for name in ("a/key", "a/new", "b/key", "c/key"):
        unpack(target, link(name[0], str(victim)), link(name, "/etc/passwd"), (name, b"theirs"))
        assert untouched(victim)
    (target / "own").symlink_to(victim)
    for wrong in (("own/key", b"theirs"), link("own/key", "x"), folder("own/new")):
        with pytest.raises(OSError, match="a link is in the way"):
            unpack(target, wrong)
    assert untouched(victim)


def test_links_of_several_calls_lead_nowhere_else(tmp_path: Path, victim: Path) -> None:
    target = tmp_path / "target"
    unpack(target, folder("s"), folder("s/d"), link("l", "s/d"), link("a", "l/../../victim"))
    unpack(target, link("l", "."))
    assert not (target / "a").exists()
    assert os.readlink(target / "l") == "."
    unpack(target, ("a", b"pwned"))
    assert (target / "a").read_bytes() == b"pwned"
    assert untouched(victim)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target", "victim"]


def test_links_that_stay_below_are_kept(tmp_path: Path) -> None:
    unpack(tmp_path, folder("s"), ("s/file", b"1"), link("s/up", "../s/file"), link("one", "s/up"))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "s" / "up").read_bytes() == b"1"
    unpack(tmp_path, ("one", b"2"), link("s/file", "other"))
    assert (tmp_path / "one").read_bytes() == b"2"
    assert not (tmp_path / "one").is_symlink()
    assert os.readlink(tmp_path / "s" / "file") == "other"


def test_names_above_the_target_stay_behind(tmp_path: Path, victim: Path) -> None:
    unpack(
        tmp_path / "target", ("../victim/key", b"x"), (f"{victim}/key", b"x"), ("a/../../b", b"")
    )
    assert untouched(victim)
    assert list((tmp_path / "target").iterdir()) == []


def test_hard_links_are_copied_and_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twins = [member(f"twin{n}", type=tarfile.LNKTYPE, linkname="file") for n in range(3)]
    lost = member("lost", type=tarfile.LNKTYPE, linkname="nothing")
    unpack(tmp_path, ("file", b"x" * 100), *twins, lost)
    assert (tmp_path / "twin2").read_bytes() == b"x" * 100
    assert not (tmp_path / "lost").exists()
    monkeypatch.setattr(copying, "LARGEST", 350)
    with pytest.raises(OSError, match="larger than 350 bytes"):
        unpack(tmp_path, ("file", b"x" * 100), *twins)
    monkeypatch.setattr(copying, "_MOST", 3)
    with pytest.raises(OSError, match="more than 3 files"):
        unpack(tmp_path, *[(f"f{n}", b"") for n in range(4)])


def test_a_negative_size_does_not_hang(tmp_path: Path) -> None:
    head = bytearray(member("file", size=1).tobuf())
    head[124:136] = (-512).to_bytes(12, "big", signed=True)
    head[148:156] = b" " * 8
    head[148:156] = f"{sum(head):06o}\0 ".encode()
    with (
        pytest.raises((OSError, tarfile.TarError)),
        tarfile.open(fileobj=io.BytesIO(bytes(head) + bytes(1024)), mode="r:") as tar,
    ):
        copying._unpack(tar, tmp_path)
