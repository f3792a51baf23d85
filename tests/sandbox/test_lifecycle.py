"""Sandboxes end with their owner, however that ends; several live side by side; nothing piles up.

Owners that die are real processes: small scripts that print the pids of their bwrap processes and wait.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import survivors
from families import mounts

import intercode
from intercode.errors import ForkError, SandboxDied, SandboxUnavailable, UsageError
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template

ALONE = 4  # the keeper, the cell, the anchor and the shell of a sandbox without a copy
OWNER = """
import os, sys, time
from intercode.errors import UsageError
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import base

sandboxes = [LocalSandbox(base(None)) for _ in range(3)]
twin = sandboxes[0].fork()
for sandbox in sandboxes:
    sandbox.exec("setsid sleep 4444 > /dev/null 2>&1 & sleep 4445 &")
print(*(sandbox._wall.wall._process.pid for sandbox in sandboxes), flush=True)
"""
WAITS = "sandboxes[0].exec('sleep 60', timeout=60)"
FORKS = """
child = os.fork()
if child == 0:
    for use in (sandboxes[0].diff, sandboxes[0].reset, twin.fork, lambda: sandboxes[1].exec("true")):
        try:
            use()
        except UsageError as error:
            print(error, flush=True)
    sandboxes[0].close()
    print("child waits", flush=True)
    time.sleep(60)
print(sandboxes[0].exec("echo parent works").output, end="", flush=True)
time.sleep(60)
"""


@contextmanager
def owner(rest: str) -> Iterator[tuple[subprocess.Popen[str], set[str]]]:
    """A process with sandboxes, and the pid namespaces of these."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER + rest], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        pids = [int(word) for word in process.stdout.readline().split()]
        spaces = {space for pid in pids for space in survivors.spaces(pid)}
        assert len(pids) == 3
        assert len(spaces) >= 6
        try:
            yield process, spaces
        finally:
            process.kill()


def keeper_of(sandbox: LocalSandbox) -> int:
    """The process that bwrap became pid 1 of the wall with."""
    bwrap = sandbox._wall.wall._process.pid
    return min(survivors.descendants(bwrap))


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
    return True


class TestTheDeathOfTheOwner:
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
    def test_ends_every_process_and_leaves_no_mount(self, number: int) -> None:
        before = mounts()
        with owner(WAITS) as (process, spaces):
            process.send_signal(number)
            process.wait()
            assert survivors.left_in(spaces) == []
        assert mounts() == before

    def test_by_a_normal_exit_with_open_sandboxes_does_too(self) -> None:
        with owner("sys.stdin.readline()") as (process, spaces):
            process.communicate("\n", timeout=10)
            assert process.returncode == 0
            assert survivors.left_in(spaces) == []

    def test_ends_its_sandboxes_though_a_forked_child_lives_on(self) -> None:
        with owner(FORKS) as (process, spaces):
            assert process.stdout
            lines = [process.stdout.readline() for _ in range(6)]
            refusals = [line for line in lines if "belongs to the process that made it" in line]
            assert len(refusals) == 4
            assert {"parent works\n", "child waits\n"} <= set(lines)
            child = survivors.children_called(process.pid, Path(sys.executable).resolve().name)
            process.kill()
            process.wait()
            assert survivors.left_in(spaces) == []
            for pid in child:
                os.kill(pid, signal.SIGKILL)


class TestADeadWall:
    @pytest.mark.parametrize("victim", ["bwrap", "keeper"])
    def test_is_told_by_the_next_call_and_survives_nowhere(self, template: Template, victim: str) -> None:
        sandbox = LocalSandbox(template)
        sandbox.exec("sleep 300 & x=1")
        bwrap, keeper = sandbox._wall.wall._process.pid, keeper_of(sandbox)
        spaces = survivors.spaces(bwrap)
        os.kill(bwrap if victim == "bwrap" else keeper, signal.SIGKILL)
        assert survivors.left_in(spaces) == []
        for use in (
            lambda: sandbox.exec("echo x"),
            sandbox.diff,
            sandbox.fork,
            sandbox.reset,
            lambda: sandbox.read("/etc/passwd"),
        ):
            with pytest.raises(SandboxDied, match="sandbox"):
                use()
        sandbox.close()
        sandbox.close()
        with pytest.raises(UsageError, match="closed"):
            sandbox.exec("echo x")

    def test_in_the_middle_of_an_action_is_told_at_once(self, template: Template) -> None:
        with LocalSandbox(template) as sandbox:
            keeper = keeper_of(sandbox)
            killer = threading.Timer(0.3, os.kill, (keeper, signal.SIGKILL))
            killer.start()
            start = time.monotonic()
            with pytest.raises(SandboxDied, match="exec"):
                sandbox.exec("sleep 30")
            killer.join()
            assert time.monotonic() - start < 5

    def test_whose_first_process_was_killed_takes_no_shells_end_for_the_agents_doing(self, template: Template) -> None:
        for _ in range(8):
            with LocalSandbox(template) as sandbox:
                killer = threading.Timer(0.1, os.kill, (first_inside(sandbox), signal.SIGKILL))
                killer.start()
                with pytest.raises(SandboxDied, match="first process"):
                    sandbox.exec("sleep 30")
                killer.join()


class TestManySandboxes:
    def test_of_eight_threads_do_not_meet(self, template: Template) -> None:
        seen: dict[int, list[str]] = {}

        def work(number: int) -> None:
            with LocalSandbox(template) as sandbox:
                seen[number] = [sandbox.exec(f"x=${{x-}}{number}; echo $x > /tmp/x; cat /tmp/x").output for _ in range(5)]
                sandbox.reset()
                seen[number].append(sandbox.exec("echo ${x-none}; ls /tmp").output)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == {n: [f"{n}" * times + "\n" for times in range(1, 6)] + ["none\n"] for n in range(8)}

    def test_weigh_less_than_ten_mebibytes_each(self, template: Template) -> None:
        with ExitStack() as alive:
            sandboxes = [alive.enter_context(LocalSandbox(template)) for _ in range(10)]
            for sandbox in sandboxes:
                sandbox.exec("ls / > /tmp/x")
            walls = [sandbox._wall.wall._process.pid for sandbox in sandboxes]
            family = {pid for wall in walls for pid in {wall, *survivors.descendants(wall)}}
            assert sum(pss(pid) for pid in family) / len(sandboxes) <= 10 * 2**20

    def test_started_by_a_thread_outlive_it(self, template: Template) -> None:
        made: list[LocalSandbox] = []
        thread = threading.Thread(target=lambda: made.append(LocalSandbox(template)))
        thread.start()
        thread.join()
        with made[0] as sandbox:
            assert sandbox.exec("echo alive").output == "alive\n"


@pytest.mark.slow
def test_three_hundred_resets_and_forks_leave_no_descriptor_and_no_process(template: Template) -> None:
    with LocalSandbox(template) as sandbox:
        keeper, wall = keeper_of(sandbox), sandbox._wall.wall._process.pid
        sandbox.fork().close()
        assert until(lambda: len(survivors.descendants(wall)) == ALONE)
        sandbox.reset()
        own, kept = descriptors(os.getpid()), descriptors(keeper)
        for _ in range(150):
            sandbox.exec("echo x > /tmp/x; x=1")
            with sandbox.fork() as twin:
                assert twin.exec("echo $x").output == "1\n"
            sandbox.reset()
        assert until(lambda: len(survivors.descendants(wall)) == ALONE)
        assert descriptors(os.getpid()) == own
        assert until(lambda: descriptors(keeper) <= kept)  # fewer if it still held the first copy's when these were counted


def first_inside(sandbox: LocalSandbox) -> int:
    """What is pid 1 for the agent."""
    spaces = {pid: survivors.numbers(pid) for pid in survivors.descendants(sandbox._wall.wall._process.pid)}
    deepest = max(map(len, spaces.values()))
    (found,) = (pid for pid, numbers in spaces.items() if len(numbers) == deepest and numbers[-1] == 1)
    return found


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def pss(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 0


def test_a_machine_without_descriptors_is_told_and_nothing_is_lost(template: Template) -> None:
    with LocalSandbox(template) as sandbox, no_descriptors():
        for act in (lambda: LocalSandbox(template), sandbox.fork, sandbox.reset):
            with pytest.raises(SandboxUnavailable, match="no room for a sandbox: Too many open files"):
                act()
    with LocalSandbox(template) as sandbox:
        assert sandbox.exec("echo honest").output == "honest\n"


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Nothing more can be opened by this process."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as taken:
        taken.callback(resource.setrlimit, resource.RLIMIT_NOFILE, allowed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, allowed[1]))
        with suppress(OSError):
            while True:
                taken.enter_context(open(os.devnull))
        yield


def test_an_interpreter_is_asked_for_as_what_it_is(template: Template) -> None:
    with pytest.raises(UsageError, match="persistent"):
        LocalSandbox(template, program="python", session="stateless")


def test_a_copy_that_cannot_be_given_its_state_is_closed(template: Template, tmp_path: Path) -> None:
    """Its process is gone, and the original goes on."""
    changes = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    with LocalSandbox(template) as sandbox:
        wall = sandbox._wall.wall._process.pid
        sandbox.exec("x=1")
        before = len(survivors.descendants(wall))
        with pytest.raises(ForkError, match="state"):
            sandbox._sibling({"cwd": "/", "status": 0}, b"exit 3\n", changes)
        assert until(lambda: len(survivors.descendants(wall)) == before)
        assert sandbox.exec("echo $x").output == "1\n"
    os.close(changes)


@pytest.mark.parametrize(("limit", "what"), [("-u 100", r"128 processes \(`ulimit -u`\)"), ("-n 300", "512 open files")])
def test_a_machine_that_grants_too_little_is_named(tmp_path: Path, module_cache: Path, limit: str, what: str) -> None:
    """Else a gold that runs out of processes would be blamed. The cache is filled before, with as many as that takes."""
    intercode.make("bash").close()
    code = "import intercode; intercode.make('bash')"
    command = ["bash", "-c", f'ulimit {limit} && exec "$@"', "bash", sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert re.search(
        rf"SandboxUnavailable: a sandbox needs {what}.*, and {limit[3:]} is the limit here; raise it\n", done.stderr
    )
