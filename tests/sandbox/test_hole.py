"""The reach of an agent that took over its episode server: a server with a hole, a request that
executes any Python code in it, tries to get out; and gets out where the protection is off."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from intercode_sandbox import cache
from intercode_sandbox.host import Host
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import Template

HOLE = """

def _hole(self, request):
    names = {"self": self, "os": os, "kernel": kernel, "wire": wire, "time": time}
    exec(compile(request["payload"], "hole", "exec", 0x1000000), names)  # annotations are texts
    return {"said": names["main"]()}


EpisodeServer._op_hole = _hole
"""


def reach(self: Any, os: Any, kernel: Any) -> dict[str, list[str]]:
    """Runs in the server. Return what it could do to itself and to each process that it sees."""
    proc, done = self._table.proc, dict[str, list[str]]()

    def attempt(whom: str, what: str, action: Callable[..., object], *arguments: object) -> None:
        try:
            action(*arguments)
        except OSError:
            return
        done.setdefault(whom, []).append(what)

    def call(name: str, *arguments: object) -> None:
        kernel._check(getattr(kernel._libc, name)(*arguments), name)

    def write(path: str) -> None:
        fd = os.open(path, os.O_WRONLY, dir_fd=proc)
        os.write(fd, b"1")

    def look(path: str) -> None:
        os.open(path, os.O_RDONLY, dir_fd=proc)

    def join(pid: int, flags: int) -> None:
        kernel.join(os.pidfd_open(pid), flags)

    for name, *arguments in [
        ("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, b""),
        ("umount2", b"/dev/shm", 2),
        ("pivot_root", b"/tmp", b"/tmp"),
        ("unshare", kernel.NEWUSER),
        ("unshare", kernel.NEWNS),
        ("chroot", b"/tmp"),
        ("sethostname", b"x", 1),
        ("open_by_handle_at", 0, 0, 0),
    ]:
        attempt("itself", str(name), call, name, *arguments)
    for name in ("kernel/ns_last_pid", "user/max_user_namespaces", "net/ipv4/ip_forward"):
        attempt("itself", name, write, f"sys/{name}")
    everyone = list(map(int, filter(str.isdigit, os.listdir(proc))))
    inside = [pid for pid in everyone if self._table._is_inside(pid)] + [os.getpid()]
    for pid in sorted(set(everyone) - set(inside)) + inside:
        whom = "its own" if pid in inside else self._table._read(f"{pid}/status").decode()[:20]
        for name in ("mem", "environ", "root", "cwd", "ns/mnt", "ns/user", "fd/0"):
            attempt(whom, name, look, f"{pid}/{name}")
        attempt(whom, "ptrace", call, "ptrace", 16, pid, 0, 0)
        for flags in (kernel.NEWNS, kernel.NEWNET, kernel.NEWPID, kernel.NEWIPC, kernel.NEWUSER):
            attempt(whom, "setns", join, pid, flags)
    return done


def lie_in_wait(self: Any, os: Any, wire: Any, time: Any) -> str:
    """Runs in the server. Between its episodes, while the supervisor's children work in the
    supervisor's memory, it tries to open that; the file `found` counts how often it could."""
    proc, found = self._table.proc, []
    receive = wire.receive_with_fds

    def race(*arguments: Any) -> Any:
        with_last = os.open("sys/kernel/ns_last_pid", os.O_RDONLY, dir_fd=proc)
        last = int(os.read(with_last, 32))
        os.close(with_last)
        until = time.monotonic() + 0.03
        while time.monotonic() < until:
            for pid in range(last + 1, last + 9):
                for name in ("mem", "root", "ns/mnt"):
                    try:
                        os.close(os.open(f"{pid}/{name}", os.O_RDONLY, dir_fd=proc))
                        program = os.readlink(f"{pid}/exe", dir_fd=proc)
                    except OSError:
                        break
                    if "python" in program:
                        found.append(name)
        return receive(*arguments)

    def count(*_: Any) -> Any:
        return {"said": len(found)}

    wire.receive_with_fds = race
    type(self)._op_found = count
    return "waits"


@contextmanager
def with_hole(template: Template, folder: Path, *replaced: str) -> Iterator[LocalSandbox]:
    """A sandbox whose guest has the hole, and lacks a line of code."""
    with pytest.MonkeyPatch.context() as patch:
        guest = folder / "guest"
        shutil.copytree(cache.GUEST, guest, ignore=shutil.ignore_patterns("__pycache__"))
        with (guest / "episode.py").open("a") as file:
            file.write(HOLE)
        for line in replaced:
            players = guest / "players.py"
            text = players.read_text()
            assert line in text
            players.write_text(text.replace(line, "pass"))
        patch.setattr(cache, "GUEST", guest)
        patch.setattr(Host, "spares", False)
        cache.guest_folder.cache_clear()
        try:
            with LocalSandbox(template) as sandbox:
                yield sandbox
        finally:
            cache.guest_folder.cache_clear()


def execute(sandbox: LocalSandbox, function: Callable[..., Any]) -> Any:
    source = inspect.getsource(function)
    names = ", ".join(inspect.signature(function).parameters)
    payload = f"{source}\ndef main():\n    return {function.__name__}({names})\n"
    reply, _ = sandbox._request("hole", payload.encode(), wait=30)
    return reply["said"]


@pytest.mark.parametrize("kind", ["player", "fork"])
def test_it_reaches_nothing_but_its_own_episode(
    template: Template, tmp_path: Path, kind: str
) -> None:
    with with_hole(template, tmp_path) as sandbox, sandbox.sibling() as other:
        other.exec("sleep 60 &")
        sandbox.reset()
        with sandbox.fork() as fork:
            reached = execute({"player": sandbox, "fork": fork}[kind], reach)
        assert reached.pop("its own")  # so that the attempts are sound
        assert reached == {}
        assert other.exec("echo alive").output == "alive\n"


def test_it_cannot_open_the_memory_of_the_supervisors_children(
    template: Template, tmp_path: Path
) -> None:
    with with_hole(template, tmp_path / "on") as sandbox:
        assert ambush(sandbox) == 0
    with with_hole(template, tmp_path / "off", "kernel.let_be_seen(seen=False)") as sandbox:
        assert ambush(sandbox) > 0


def ambush(sandbox: LocalSandbox) -> int:
    """Lie in wait in a player; return how often it found the supervisor's memory open."""
    sandbox.reset()
    assert execute(sandbox, lie_in_wait) == "waits"
    for _ in range(20):
        sandbox.reset()
    reply, _ = sandbox._request("found")
    return int(reply["said"])
