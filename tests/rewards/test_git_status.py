"""`git_status` against real git: random trees are committed and changed, and both must report the same."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from intercode.rewards.git_status import IGNORED, Entry, ignored, status, text
from intercode.types import Change

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed; it is the oracle here")

NAMES = ["a", "b", "c d", "é", "x.txt", ".hid", "bin", "home", "q'uote", 'dq"', "back\\", "tab\t", "a-", "a.b", "ü b", "z"]
TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}


def state(path: Path) -> Change:
    info = path.lstat()
    kind = TYPES.get(stat.S_IFMT(info.st_mode), "other")
    digest = hashlib.md5(path.read_bytes()).hexdigest() if kind == "file" else None
    target = os.readlink(path) if kind == "link" else None
    return Change("added", kind, stat.S_IMODE(info.st_mode), digest, target)  # type: ignore[arg-type]


def snapshot(top: Path) -> dict[str, Change]:
    """Absolute path, as if `top` were `/`, → state; the repository itself is left out."""
    found = {}
    for folder, folders, files in os.walk(top):
        if folder == str(top):
            folders.remove(".git")
            files = [name for name in files if name != ".gitignore"]
        for name in folders + files:
            path = Path(folder, name)
            found["/" + str(path.relative_to(top))] = state(path)
    return found


def changed(before: dict[str, Change], after: dict[str, Change]) -> dict[str, Change]:
    removed = {path: Change("removed", old.type) for path, old in before.items() if path not in after}
    other = {path: now if path not in before else replace(now, kind="changed") for path, now in after.items()}
    return removed | {path: now for path, now in other.items() if before.get(path) != after[path]}


def git(top: Path, *arguments: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "LC_ALL": "C"}
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main", "-c", "gc.auto=0"]
    command = ["git", *identity, *arguments]
    done = subprocess.run(command, cwd=top, env=environment, capture_output=True, check=True)
    return done.stdout.decode(errors="surrogateescape")


def commit(top: Path) -> dict[str, Change]:
    """Make the repository and return what it tracks."""
    git(top, "init", "-q")
    (top / ".gitignore").write_text("\n".join(sorted(IGNORED)) + "\n")
    git(top, "add", "-A")
    git(top, "commit", "-q", "--allow-empty", "-m", "start")
    return {path: now for path, now in snapshot(top).items() if now.type in ("file", "link") and not ignored(path)}


def grow(top: Path, dice: random.Random, count: int) -> None:
    for _ in range(count):
        path = top.joinpath(*dice.choices(NAMES, k=dice.randint(1, 4)))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            make(path, dice)
        except OSError:
            continue


def make(path: Path, dice: random.Random) -> None:
    what = dice.randrange(8)
    if what == 0:
        path.mkdir()
    elif what == 1:
        path.symlink_to(dice.choice([*NAMES, "..", "/nowhere"]))
    elif what == 2 and not path.exists():
        os.mkfifo(path)
    elif not path.is_symlink() and not path.is_fifo():
        path.write_text(str(dice.random()))
        path.chmod(dice.choice([0o644, 0o755, 0o600]))


def delete(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def disturb(top: Path, dice: random.Random) -> None:
    """One random change to a path that exists."""
    paths = sorted(path for path in top.rglob("*") if ".git" not in str(path.relative_to(top)))
    if not paths:
        return
    path, what = dice.choice(paths), dice.randrange(8)
    if what == 0 and path.is_file() and not path.is_symlink():
        path.write_text(str(dice.random()))
    elif what == 1:
        delete(path)
    elif what == 2 and not path.is_symlink():
        path.chmod(dice.choice([0o755, 0o744, 0o700, 0o611, 0o644]) | (0o700 if path.is_dir() else 0))
    elif what == 3:
        path.rename(path.with_name("moved " + str(dice.randrange(9))))
    elif what == 4:
        delete(path)
        make(path, dice)
    elif what == 5 and path.is_file():
        delete(path)
        path.mkdir()
        (path / dice.choice(NAMES)).write_text("in a folder now")
    elif what == 6 and path.is_dir() and not path.is_symlink():
        (path / f"new{dice.random()}").mkdir()
    elif what == 7 and path.is_dir() and not path.is_symlink() and dice.random() < 0.3:
        git(path, "init", "-q")


def agree(top: Path, tracked: dict[str, Change], before: dict[str, Change]) -> None:
    changes = changed(before, snapshot(top))
    assert text(status(changes, tracked)) == git(top, "status", "--short")


@needs_git
@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.soak) for block in range(1, 8))])
def test_random_trees_have_the_status_that_git_prints(tmp_path: Path, block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        dice, top = random.Random(seed), tmp_path / str(seed)
        top.mkdir()
        grow(top, dice, dice.randint(0, 25))
        tracked, before = commit(top), snapshot(top)
        for _ in range(3):
            for _ in range(dice.randint(0, 4)):
                disturb(top, dice)
            grow(top, dice, dice.randint(0, 3))
            agree(top, tracked, before)
        shutil.rmtree(top)


@needs_git
def test_names_that_are_not_utf8_are_quoted_as_git_quotes_them(tmp_path: Path) -> None:
    tracked, before = commit(tmp_path), snapshot(tmp_path)
    for byte in (b"\x01", b"\x1f", b"\x7f", b"\x80", b"\xff", b" ", b"a b", b"a-b", b"#", b"~", b"*", b"\r", b"\n"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/n" + byte)).write_text("")
    agree(tmp_path, tracked, before)


@needs_git
def test_a_repository_in_the_tree_is_one_entry_even_when_it_is_empty(tmp_path: Path) -> None:
    (tmp_path / "known").mkdir()
    (tmp_path / "known" / "file").write_text("")
    tracked, before = commit(tmp_path), snapshot(tmp_path)
    for name in ("new", "known", "known/sub", "deep/er"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        git(tmp_path / name, "init", "-q")
    agree(tmp_path, tracked, before)


def test_without_the_templates_states_every_change_of_a_tracked_path_is_one_of_content() -> None:
    changes = {"/a": Change("changed", "file", 0o600, "1")}
    assert status(changes, ["/a"]) == [Entry("M", "a")]
    assert status(changes, {"/a": Change("added", "file", 0o644, "1")}) == []


def test_files_below_a_removed_folder_are_deleted_even_if_only_the_folder_is_listed() -> None:
    assert status({"/a": Change("removed", "dir")}, {"/a/b/c", "/d"}) == [Entry("D", "a/b/c")]
