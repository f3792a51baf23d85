"""`git_status` against real git: random trees are committed and changed, and both must report the
same."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from trees import changed, snapshot

from intercode.interop.v1.git_status import IGNORED, Entry, ignored, status, text
from intercode.types import Change

needs_git = pytest.mark.skipif(
    shutil.which("git") is None, reason="git is not installed; it is the oracle here"
)

NAMES = [
    "a",
    "b",
    "c d",
    "é",
    "x.txt",
    ".hid",
    "bin",
    "home",
    "q'uote",
    'dq"',
    "back\\",
    "tab\t",
    "a-",
    "a.b",
    "ü b",
    "z",
]
OWN = (".git", ".gitignore")


def git(top: Path, *arguments: str) -> str:
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "LC_ALL": "C",
    }
    identity = [
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@localhost",
        "-c",
        "init.defaultBranch=main",
        "-c",
        "gc.auto=0",
    ]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=top, env=environment, capture_output=True, check=True
    )
    return done.stdout.decode(errors="surrogateescape")


def commit(top: Path) -> dict[str, Change]:
    """Make the repository and return what is in it."""
    git(top, "init", "-q")
    (top / ".gitignore").write_text("\n".join(sorted(IGNORED)) + "\n")
    git(top, "add", "-A")
    git(top, "commit", "-q", "--allow-empty", "-m", "start")
    return snapshot(top, *OWN)


def agree(top: Path, before: dict[str, Change]) -> None:
    tracked = {
        path: now
        for path, now in before.items()
        if now.type in ("file", "link") and not ignored(path)
    }
    assert text(status(changed(before, snapshot(top, *OWN)), tracked)) == git(
        top, "status", "--short"
    )


def make(path: Path, dice: random.Random) -> None:
    what = dice.randrange(8)
    if what == 0:
        path.mkdir()
    elif what == 1:
        # git is odd with links to themselves
        path.symlink_to(dice.choice([*NAMES, "..", "/nowhere"]).replace(path.name, "..", 1))
    elif what == 2 and not path.exists():
        os.mkfifo(path)
    elif not path.is_symlink() and not path.is_fifo():
        path.write_text(str(dice.random()))
        path.chmod(dice.choice([0o644, 0o755, 0o600]))


def grow(top: Path, dice: random.Random, count: int) -> None:
    for _ in range(count):
        path = top.joinpath(*dice.choices(NAMES, k=dice.randint(1, 4)))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            make(path, dice)
        except OSError:
            continue


def disturb(top: Path, dice: random.Random) -> None:
    """One random change to a path that exists."""
    paths = sorted(path for path in top.rglob("*") if ".git" not in str(path.relative_to(top)))
    if not paths:
        return
    path, what = dice.choice(paths), dice.randrange(8)
    folder = path.is_dir() and not path.is_symlink()
    if what == 0 and path.is_file() and not path.is_symlink():
        path.write_text(str(dice.random()))
    elif what == 1 and not path.is_symlink():
        path.chmod(dice.choice([0o755, 0o744, 0o700, 0o611, 0o644]) | (0o700 if folder else 0))
    elif what == 2:
        path.rename(path.with_name(f"moved {dice.random()}"))
    elif what in (3, 4, 5):
        shutil.rmtree(path) if folder else path.unlink()
        if what == 4:
            make(path, dice)
        elif what == 5 and not folder:
            path.mkdir()
            (path / dice.choice(NAMES)).write_text("in a folder now")
    elif what == 6 and folder:
        (path / f"new{dice.random()}").mkdir()
    elif what == 7 and folder and dice.random() < 0.3:
        git(path, "init", "-q")


@pytest.mark.slow
@needs_git
@pytest.mark.parametrize(
    "block", [0, *(pytest.param(block, marks=pytest.mark.soak) for block in range(1, 8))]
)
def test_random_trees_have_the_status_that_git_prints(tmp_path: Path, block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        dice, top = random.Random(seed), tmp_path / str(seed)
        top.mkdir()
        grow(top, dice, dice.randint(0, 25))
        before = commit(top)
        for _ in range(3):
            for _ in range(dice.randint(0, 4)):
                disturb(top, dice)
            grow(top, dice, dice.randint(0, 3))
            agree(top, before)
        shutil.rmtree(top)


@needs_git
def test_odd_names_are_quoted_and_a_repository_in_the_tree_is_one_entry_as_git_does(
    tmp_path: Path,
) -> None:
    (tmp_path / "known").mkdir()
    (tmp_path / "known" / "file").write_text("")
    before = commit(tmp_path)
    for name in (
        b"\x01",
        b"\x1f",
        b"\x7f",
        b"\x80",
        b"\xff",
        b" ",
        b"a b",
        b"a-b",
        b"#",
        b"~",
        b"*",
        b"\r",
        b"\n",
    ):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/n" + name)).write_text("")
    agree(tmp_path, before)
    for folder in ("new", "known", "known/sub", "deep/er"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        git(tmp_path / folder, "init", "-q")
    agree(tmp_path, before)


def test_a_tracked_file_differs_by_its_content_or_a_folder_in_its_place() -> None:
    changes = {"/a": Change("changed", "file", 0o600, "1")}
    assert status(changes, {"/a": Change("added", "file", 0o644, "2")}) == [Entry("M", "a")]
    assert status(changes, {"/a": Change("added", "file", 0o644, "1")}) == []
    tracked = dict.fromkeys(("/a/b/c", "/d"), Change("added", "file", 0o644, "1"))
    assert status({"/a": Change("removed", "dir")}, tracked) == [Entry("D", "a/b/c")]
