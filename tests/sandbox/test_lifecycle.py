"""Sandboxes end with their owner, however that ends; several live side by side; nothing piles up.

Owners that die are real processes: small scripts that print the pids of their bwrap processes and
wait.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import families
import pytest
from families import mounts, wait_until

import intercode
from intercode.errors import SandboxDied
from intercode_sandbox.host import Host
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import Template

pytestmark = pytest.mark.slow

SPARE = 3  # an episode server, init and the shell
ALONE = 4  # the supervisor, the episode server, init and the shell of a sandbox without a copy
OWNER = """
import os, sys, time
from intercode.errors import UsageError
from intercode_sandbox.host import Host
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import base

sandboxes = [LocalSandbox(base(None)) for _ in range(2)]
twin = sandboxes[0].fork()
for sandbox in sandboxes:
    sandbox.exec("setsid sleep 4444 > /dev/null 2>&1 & sleep 4445 &")
print(*(sandbox.host._process.pid for sandbox in sandboxes), flush=True)
"""
WAITS = "sandboxes[0].exec('sleep 60', timeout=60)"
FORKS = """
child = os.fork()
if child == 0:
    one, other = sandboxes[:2]
    for use in (one.diff, one.reset, twin.fork, lambda: other.exec("true")):
        try:
            use()
        except UsageError as error:
            print(error, flush=True)
    sandboxes[0].close()
    print("child", os.getpid(), flush=True)
    time.sleep(60)
print(sandboxes[0].exec("echo parent works").output, end="", flush=True)
time.sleep(60)
"""


@contextmanager
def owner(rest: str) -> Iterator[tuple[subprocess.Popen[str], set[str]]]:
    """A process with sandboxes, and the pid namespaces of these."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER + rest],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        pids = [int(word) for word in process.stdout.readline().split()]
        spaces = {space for pid in pids for space in families.spaces(pid)}
        assert len(pids) == 2
        assert len(spaces) >= 4
        try:
            yield process, spaces
        finally:
            process.kill()


def supervisor_of(sandbox: LocalSandbox) -> int:
    """The process that is pid 1 inside."""
    return min(pid for pid, _ in families.family(sandbox.host._process.pid))


class TestTheDeathOfTheOwner:
    @pytest.mark.parametrize("end", ["kill", "terminate", "exit"])
    def test_ends_every_process_and_leaves_no_mount(self, end: str) -> None:
        before = mounts()
        with owner("sys.stdin.readline()" if end == "exit" else WAITS) as (process, spaces):
            if end == "exit":
                process.communicate("\n", timeout=10)
            else:
                getattr(process, end)()
                process.wait()
            assert families.left_in(spaces) == set()
        assert mounts() == before

    def test_ends_its_sandboxes_though_a_forked_child_lives_on(self) -> None:
        with owner(FORKS) as (process, spaces):
            assert process.stdout
            lines = [process.stdout.readline() for _ in range(6)]
            refusals = [line for line in lines if "belongs to the process that made it" in line]
            assert len(refusals) == 4
            assert "parent works\n" in lines
            (child,) = (int(line.split()[1]) for line in lines if line.startswith("child "))
            process.kill()
            process.wait()
            assert families.left_in(spaces) == set()
            os.kill(child, signal.SIGKILL)


class TestADeadWall:
    @pytest.mark.parametrize("victim", ["bwrap", "supervisor"])
    def test_is_told_by_the_next_call_and_survives_nowhere(
        self, template: Template, victim: str
    ) -> None:
        sandbox = LocalSandbox(template)
        sandbox.exec("sleep 300 & x=1")
        bwrap, supervisor = sandbox.host._process.pid, supervisor_of(sandbox)
        spaces = families.spaces(bwrap)
        os.kill(bwrap if victim == "bwrap" else supervisor, signal.SIGKILL)
        assert families.left_in(spaces) == set()
        uses = (
            lambda: sandbox.exec("echo x"),
            sandbox.diff,
            sandbox.fork,
            sandbox.reset,
            lambda: sandbox.read("/etc/passwd"),
        )
        for use in uses:
            with pytest.raises(SandboxDied, match="sandbox"):
                use()
        sandbox.close()

    def test_in_the_middle_of_an_action_is_told_at_once_and_is_not_the_agents_doing(
        self, template: Template
    ) -> None:
        for victim, words in [(supervisor_of, "exec"), (first_inside, "first process")]:
            with LocalSandbox(template) as sandbox:
                killer = threading.Timer(0.1, os.kill, (victim(sandbox), signal.SIGKILL))
                killer.start()
                with pytest.raises(SandboxDied, match=words):
                    sandbox.exec("sleep 30")
                killer.join()


def test_a_sandbox_outlives_the_thread_that_started_it(template: Template) -> None:
    made: list[LocalSandbox] = []
    thread = threading.Thread(target=lambda: made.append(LocalSandbox(template)))
    thread.start()
    thread.join()
    with made[0] as sandbox:
        assert sandbox.exec("echo alive").output == "alive\n"


@pytest.mark.slow
def test_a_hundred_resets_and_forks_leave_no_descriptor_and_no_process(template: Template) -> None:
    with LocalSandbox(template) as sandbox:
        supervisor, bwrap = supervisor_of(sandbox), sandbox.host._process.pid
        sandbox.fork().close()
        assert wait_until(lambda: len(families.family(bwrap)) == ALONE)
        sandbox.reset()
        assert wait_until(lambda: len(families.family(bwrap)) == ALONE + SPARE)
        own, kept = descriptors(os.getpid()), descriptors(supervisor)
        for _ in range(50):
            sandbox.exec("echo x > /tmp/x; x=1")
            with sandbox.fork() as twin:
                assert twin.exec("echo $x").output == "1\n"
            sandbox.reset()
        assert wait_until(lambda: len(families.family(bwrap)) == ALONE + SPARE)
        assert descriptors(os.getpid()) == own
        # fewer, if it had yet to close the first one
        assert wait_until(lambda: descriptors(supervisor) <= kept)


@pytest.mark.slow
def test_the_next_episode_starts_while_one_is_played_and_ends_with_its_sandbox(
    template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalSandbox(template) as sandbox, sandbox.fork() as other:
        bwrap = sandbox.host._process.pid
        for _ in range(3):
            sandbox.exec("echo x > /tmp/x; x=1; cd /tmp; sleep 60 &")
            sandbox.reset()
            assert sandbox.exec("echo $x $PWD; jobs; ls /tmp").output == "/\n"
            assert sandbox.diff() == {}
        assert wait_until(lambda: len(families.family(bwrap)) == 2 * ALONE - 1 + SPARE)
        sandbox.close()
        assert wait_until(lambda: len(families.family(bwrap)) == ALONE)
        monkeypatch.setattr(Host, "spares", False)
        other.reset()
        assert wait_until(lambda: len(families.family(bwrap)) == ALONE)


@pytest.mark.slow
def test_the_next_episode_starts_when_the_host_is_quiet_and_not_beside_an_action(
    template: Template,
) -> None:
    with LocalSandbox(template) as sandbox:
        bwrap = sandbox.host._process.pid

        def alive_in_an_action() -> int:
            alive: list[int] = []
            sandbox.reset()
            timer = threading.Timer(0.5, lambda: alive.append(len(families.family(bwrap))))
            timer.start()
            sandbox.exec("sleep 1.5")
            timer.join()
            assert wait_until(lambda: len(families.family(bwrap)) == ALONE + SPARE)
            return alive[0]

        # on a busy machine an action may come too late
        assert ALONE + 1 in (alive_in_an_action() for _ in range(5))


def test_a_death_shows_at_once_though_a_sibling_began_while_a_spare_waited(
    template: Template,
) -> None:
    with LocalSandbox(template) as sandbox:
        bwrap = sandbox.host._process.pid

        def jobs() -> list[int]:
            return [pid for pid, _ in families.family(bwrap) if "4321" in families.arguments(pid)]

        sandbox.reset()
        with sandbox.sibling():
            assert wait_until(lambda: len(families.family(bwrap)) > 2 * ALONE)
            sandbox.reset()
            sandbox.exec("sleep 4321 &")
            assert wait_until(jobs)
            (job,) = jobs()
            os.kill(parent(parent(job)), signal.SIGKILL)
            began = time.monotonic()
            with pytest.raises(SandboxDied):
                sandbox.exec("true", timeout=10)
            assert time.monotonic() - began < 9


def test_an_interpreter_shares_nothing_with_the_supervisor(template: Template) -> None:
    with LocalSandbox(template, program="python") as sandbox:
        sandbox.reset()
        maps = sandbox.exec("print(open('/proc/self/maps').read())").output
        reads = "import gc\nfor o in gc.get_objects():\n  try: list(o)\n  except BaseException: 0"
        assert (sandbox.exec(reads).exit_code, sandbox.session_lost()) == (0, False)
        assert sandbox.exec("import os; print(os.listdir('/proc/self/fd'))").output.count("'") < 12
    assert "libc" in maps or "python" in maps
    assert " rw-s " not in maps


def first_inside(sandbox: LocalSandbox) -> int:
    """What is pid 1 for the agent."""
    numbers: dict[int, list[str]] = {}  # a process's pid in each namespace, from ours to its own
    for pid, _ in families.family(sandbox.host._process.pid):
        (line,) = re.findall(r"^NSpid:(.*)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        numbers[pid] = line.split()
    deepest = max(map(len, numbers.values()))
    (found,) = (pid for pid, found in numbers.items() if len(found) == deepest and found[-1] == "1")
    return found


def parent(pid: int) -> int:
    return int((families.stat(pid) or ["", "0"])[1])


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.parametrize(
    ("limit", "what"), [("-u 100", r"128 processes \(`ulimit -u`\)"), ("-n 300", "1024 open files")]
)
def test_a_machine_that_grants_too_little_is_named(tmp_path: Path, limit: str, what: str) -> None:
    """Else a gold that runs out of processes would be blamed. The cache is filled before, with as
    many as that takes."""
    intercode.make("bash").close()
    code = "import intercode; intercode.make('bash')"
    command = ["bash", "-c", f'ulimit {limit} && exec "$@"', "bash", sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert re.search(
        rf"SandboxUnavailable: a sandbox needs {what}.*, and {limit[3:]} is the limit here; raise"
        r" it\n",
        done.stderr,
    )
