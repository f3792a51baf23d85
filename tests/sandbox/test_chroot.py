"""The chroot sandbox: who its processes are, that nobody is left, and that a tree is left as it was found."""

from __future__ import annotations

import os
import signal
import subprocess
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
from intercode.sandbox.chroot.tree import Tree
from intercode.sandbox.docker.images import DockerImage
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


def test_a_run_says_that_its_wall_is_weak(image: DockerImage, exported: str, tree: Tree, tmp_path: Path) -> None:
    """On a task without files of its own: nothing has to be copied."""
    data = tmp_path / "tasks.jsonl"
    data.write_text('{"query": "Where are you?", "gold": "pwd"}\n')
    assert prepare("bash", sandbox="chroot", image=exported, data=str(data)).facts()["wall"] == "weak"
    assert "wall" not in prepare("bash", image=exported, data=str(data)).facts()


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
