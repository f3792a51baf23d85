"""The chroot sandbox: who its processes are, that nobody is left, and that a tree is left as it was found."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from intercode.envs import prepare
from intercode.errors import ForkError, SandboxDied, SandboxUnavailable
from intercode.sandbox import cache
from intercode.sandbox.build import with_script
from intercode.sandbox.chroot import berth
from intercode.sandbox.chroot.sandbox import ChrootSandbox
from intercode.sandbox.chroot.tree import Tree, copy
from intercode.sandbox.guest import walk

pytestmark = pytest.mark.slow


@pytest.fixture
def sandbox(tree: Tree) -> Iterator[ChrootSandbox]:
    with ChrootSandbox(tree) as made:
        yield made


def of(uid: int) -> list[int]:
    """The living processes of a user; orphans stay dead until the machine's first process has looked after them."""
    listed = subprocess.run(["ps", "-o", "pid=,stat=", "-u", str(uid)], capture_output=True, text=True).stdout.split()
    return [int(pid) for pid, state in zip(listed[::2], listed[1::2], strict=True) if state[0] != "Z"]


def times_too(folder: Path) -> dict[str, Any]:
    """Everything in a tree but devices, with contents, modes and times."""
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        found = {
            path: (walk.describe(root, path), os.lstat(f"{folder}{path}")) for path in walk.look_at_all(root) if path != "/"
        }
    finally:
        os.close(root)
    return {path: (state, info.st_mtime_ns, info.st_nlink) for path, (state, info) in found.items()}


def test_a_reset_leaves_the_tree_as_the_template_is(sandbox: ChrootSandbox, tree: Tree) -> None:
    sandbox.exec("rm -rf /etc /var/lib; mkdir /etc; ln -s / /var/lib; echo x > /etc/passwd; chmod 700 /usr/bin; touch /usr")
    sandbox.exec("cd /usr/bin; ln perl /tmp/linked; echo >> /usr/bin/bash; chmod u+s /usr/bin/env; mkfifo /tmp/p; touch /new")
    sandbox.reset()
    assert sandbox.diff() == {}
    wanted = times_too(tree.root)
    for path, found in times_too(sandbox._berth.tree).items():
        assert found == wanted.get(path, found) or path.startswith(("/dev", "/proc", "/sys")), path


REPLACED = {
    "a folder of the agent's": "rmdir /proc && mkdir /proc && echo 42 > /proc/note",
    "a link": "rmdir /sys && ln -s /etc /sys",
    "no folder": "rmdir /proc /sys",
}
OTHER_DEVICES = "rmdir /proc && mv /dev /proc && mkdir -p /dev/shm && mkfifo /dev/null"
LOOK = "ls -A /proc /sys; stat -c '%A %U %n' /proc /sys /dev; test -c /dev/null && test -c /dev/urandom && echo devices"


@pytest.mark.parametrize("script", REPLACED.values(), ids=REPLACED)
def test_folders_that_are_not_looked_at_are_put_back(sandbox: ChrootSandbox, script: str) -> None:
    clean = sandbox.exec(LOOK).output
    assert "devices" in clean
    for _ in range(2):
        assert sandbox.exec(script).exit_code == 0
        assert sandbox.exec(LOOK).output != clean
        sandbox.reset()
        assert sandbox.exec(LOOK).output == clean
        sandbox.reset()


def test_a_tree_with_other_devices_is_given_up(tree: Tree) -> None:
    with ChrootSandbox(tree) as sandbox:
        clean = sandbox.exec(LOOK).output
        assert sandbox.exec(OTHER_DEVICES).exit_code == 0
        began = time.monotonic()
        with pytest.raises(SandboxDied):
            sandbox.reset()
        sandbox.close()
        assert time.monotonic() - began < 20
    with ChrootSandbox(tree) as after:
        assert after.exec(LOOK).output == clean


def test_attributes_of_folders_end_with_the_episode(sandbox: ChrootSandbox) -> None:
    places = [sandbox._berth.tree, sandbox._berth.tree / "etc"]
    for place in places:
        os.setxattr(place, "user.note", b"42")
    assert [os.listxattr(place) for place in places] == [["user.note"]] * 2
    sandbox.reset()
    assert [os.listxattr(place) for place in places] == [[], []]


def test_everybody_is_ended_by_reset_and_by_close(tree: Tree) -> None:
    spread = "setsid sleep 4321 > /dev/null 2>&1 & (setsid sleep 4321 > /dev/null 2>&1 &) & disown -a"
    with ChrootSandbox(tree) as sandbox:
        uid = sandbox.uid
        sandbox.exec(spread)
        before = of(uid)
        sandbox.reset()
        assert len(before) >= 2
        assert set(before).isdisjoint(of(uid))
        sandbox.exec(spread)
    assert of(uid) == []


def test_what_a_killed_guest_leaves_is_ended_by_close(tree: Tree) -> None:
    with ChrootSandbox(tree) as sandbox:
        uid = sandbox.uid
        sandbox.exec("setsid sleep 4321 > /dev/null 2>&1 &")
        os.kill(sandbox._cell.pid, signal.SIGKILL)
        with pytest.raises(SandboxDied):
            sandbox.exec("true")
        assert of(uid) != []
    assert of(uid) == []


def test_two_sandboxes_are_different_users_and_cannot_reach_each_other(sandbox: ChrootSandbox, tree: Tree) -> None:
    with ChrootSandbox(tree) as other:
        pid = int(other.exec("sleep 4321 & echo $!").output)
        said = sandbox.exec(f"kill -9 {pid}; id -u; kill -9 -1").output
        assert ("not permitted" in said, str(other.uid) in said) == (True, False)
        assert other.exec(f"kill -0 {pid} && echo alive").output == "alive\n"


def test_a_running_process_cannot_be_copied(sandbox: ChrootSandbox) -> None:
    sandbox.exec("sleep 300 & until [ -e /tmp/x ]; do touch /tmp/x; done")
    with pytest.raises(ForkError, match="process"):
        sandbox.fork()


def test_what_a_script_changes_becomes_part_of_the_tree(tree: Tree) -> None:
    made = with_script(
        tree, "mkdir /made; echo x > /made/file; chmod 4755 /made/file; rm /etc/motd /etc/issue", name="a script"
    )
    assert isinstance(made, Tree)
    with ChrootSandbox(made) as sandbox:
        assert (
            sandbox.exec("stat -c %a /made/file; ls /etc/issue 2>&1 | wc -l; find / -nouser | grep -c made").output
            == "4755\n1\n2\n"
        )
        assert sandbox.diff() == {}


def test_copies_that_nobody_has_are_cleared(tree: Tree) -> None:
    with ChrootSandbox(tree) as first:
        with ChrootSandbox(tree) as second:
            left = cache.root() / "cages" / str(second.uid)
        assert left in berth.clear()
        assert not left.exists()
        assert first.exec("echo alive").output == "alive\n"


def test_a_run_says_that_its_wall_is_weak(exported: str, tree: Tree, tmp_path: Path) -> None:
    """On a task without files of its own: nothing has to be copied."""
    data = tmp_path / "tasks.jsonl"
    data.write_text('{"query": "Where are you?", "gold": "pwd"}\n')
    assert prepare("bash", sandbox="chroot", image=exported, data=str(data)).facts()["wall"] == "weak"
    assert "wall" not in prepare("bash", image=exported, data=str(data)).facts()


def is_open_in_a_child(number: int) -> bool:
    """Once it leads to /dev/null, as a number does that is used again."""
    with open(os.devnull) as nothing:
        again = number if nothing.fileno() == number else os.dup2(nothing.fileno(), number)
        pid = os.fork()
        if pid == 0:
            os._exit(os.path.exists(f"/proc/self/fd/{again}"))
        return os.waitpid(pid, 0)[1] != 0


def test_a_forked_child_closes_no_number_that_is_used_again(tree: Tree) -> None:
    with ChrootSandbox(tree) as sandbox:
        pid = os.fork()
        if pid == 0:
            os._exit(is_open_in_a_child(sandbox._berth._lock))
        assert os.waitpid(pid, 0)[1] != 0, "in the child of a child"
    assert is_open_in_a_child(sandbox._berth._lock), "after the sandbox was closed"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become an ordinary user")
def test_an_ordinary_user_is_told_of_the_other_backends(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = os.fork()
    if pid == 0:
        os.setresuid(1000, 1000, 1000)
        try:
            ChrootSandbox(tree)
        except SandboxUnavailable as error:
            os._exit(0 if "--sandbox local" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes chroot sandboxes")
@pytest.mark.parametrize("place", ["dev", "proc", "sys"])
def test_a_link_out_of_the_template_is_not_followed_by_the_copy(tmp_path: Path, place: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    (tmp_path / "layer" / "tree").mkdir(parents=True)
    (tmp_path / "layer" / "tree" / place).symlink_to(victim)
    copy(Tree(tmp_path / "layer", "a link"), tmp_path / "copied", 61001)
    assert (list(victim.iterdir()), stat.S_IMODE(victim.stat().st_mode)) == ([], 0o700)
    assert (tmp_path / "copied" / place).is_dir()
    assert not (tmp_path / "copied" / place).is_symlink()
