"""Actions that end at once go past the cell: with the same results, and with nobody unwatched."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from families import wait_until
from survivors import descendants

from intercode.sandbox.base import Limits
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template

SMALL = Limits(processes=24, memory=64 << 20)
ACTIONS = [
    "x=1",
    "echo $x",
    "cd /usr/lib; pwd",
    "false",
    "echo $?",
    "echo wörter",
    "printf 'no newline'",
    "f() { return 7; }; f",
    "echo $?; f",
    "shopt -s nocasematch; [[ A == a ]] && echo same",
    "printf '\\xff\\0raw'",
    "echo to stderr >&2",
    "for i in {1..300}; do echo line $i; done",
    "printf '%70000s' x",
    "nonsense=",
    ")",
    "echo 'unbalanced",
    "cd /nowhere",
    "mkdir /tmp/deep && cd /tmp/deep && rmdir /tmp/deep",
    "pwd",
    "echo kept > /tmp/file; read -r line < /tmp/file; echo $line",
    "  ",
    "#",
    "set -- a b; echo $#",
    "trap 'echo trapped' USR1; kill -USR1 $$",
    "(exit 3)",
    "echo $?",
    "sleep 5 &",
    "kill %1; wait; echo gone",
    "exec 5> /tmp/other; echo text >&5; exec 5>&-",
    "x=2; exit 4",
    "echo ${x-none}",
    "echo again",
]


@pytest.fixture
def sandbox(template: Template) -> Iterator[LocalSandbox]:
    with LocalSandbox(template, limits=SMALL) as made:
        yield made


def warm(sandbox: LocalSandbox) -> LocalSandbox:
    """Until the host speaks to bash itself: a slow machine takes some tries."""
    assert wait_until(lambda: sandbox.exec(":").exit_code == 0 and sandbox._shortcut is not None)
    return sandbox


def woken(pid: int) -> int:
    """How often a process went to sleep, which it does once for each time that it is woken."""
    return next(
        int(line.split()[1]) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("volunt")
    )


def cell(sandbox: LocalSandbox) -> int:
    """The parent of the session's shell."""
    stats = [Path(f"/proc/{pid}/stat").read_text().split() for pid in descendants(sandbox._wall.wall._process.pid)]
    names = {int(stat[0]): stat[1] for stat in stats}
    return next(int(stat[3]) for stat in stats if stat[1] == "(bash)" and names[int(stat[3])] != "(bwrap)")


def test_the_results_are_the_cells(template: Template) -> None:
    with LocalSandbox(template) as short, LocalSandbox(template) as long:
        long._lends = False
        warm(short)
        for action in ACTIONS * 3:
            assert short.exec(action) == long.exec(action), action
        assert short.diff() == long.diff()


def test_most_builtins_leave_the_cell_asleep(sandbox: LocalSandbox) -> None:
    watched = cell(warm(sandbox))

    def batch() -> int:
        before = woken(watched)
        for _ in range(40):
            sandbox.exec("x=1")
        return woken(watched) - before

    assert wait_until(lambda: batch() < 10)
    sandbox._lends = sandbox._alone = False
    assert batch() >= 40, "and else each one wakes it"


def test_a_fork_knows_what_the_cell_slept_through(sandbox: LocalSandbox) -> None:
    warm(sandbox)
    for _ in range(5):
        sandbox.exec("cd /usr; x=5; (exit 9)")
        sandbox.exec("f() { return 9; }; cd /usr/lib; f")
    with sandbox.fork() as twin:
        assert twin.exec("echo $? $x; pwd").output == "9 5\n/usr/lib\n"


def test_a_shell_that_ends_at_once_is_replaced_where_it_was(sandbox: LocalSandbox) -> None:
    for _ in range(3):
        warm(sandbox).exec("cd /usr/lib")
        result = sandbox.exec("exit 3")
        assert (result.exit_code, result.session_lost, result.cwd) == (3, True, "/usr/lib")
        assert sandbox.exec("echo alive; pwd").output == "alive\n/usr/lib\n"


def test_what_a_quick_action_starts_is_watched(sandbox: LocalSandbox) -> None:
    for _ in range(3):
        warm(sandbox)
        outputs = [sandbox.exec("sleep 60 &").output for _ in range(30)]
        assert any("limit of 24 processes exceeded" in output for output in outputs)
        sandbox.reset()
    warm(sandbox)
    for _ in range(3):
        sandbox.exec("{ x=$(printf '%20000000s' x); sleep 60; } &")
    assert wait_until(lambda: "memory limit of 64 MiB exceeded" in sandbox.exec("sleep 0.05; sleep 0.05").output)


def test_what_a_quick_action_left_running_prints_into_the_next(sandbox: LocalSandbox) -> None:
    warm(sandbox).exec("{ read -t 0.1 < <(sleep 1); echo late; } &")
    assert sandbox.exec("sleep 0.4").output == "late\n"


def test_an_action_that_takes_longer_is_timed_out_by_the_cell(sandbox: LocalSandbox) -> None:
    for _ in range(3):
        result = warm(sandbox).exec("echo begun; while :; do :; done", timeout=0.2)
        assert (result.output, result.timed_out) == ("begun\n", True)
        assert sandbox.exec("echo $?").output == "130\n"


def test_a_reset_leaves_no_descriptor(sandbox: LocalSandbox) -> None:
    counts = set()
    for _ in range(10):
        warm(sandbox)
        sandbox.reset()
        counts.add(len(os.listdir("/proc/self/fd")))
    assert len(counts) == 1


def test_where_descriptors_are_few_all_goes_by_the_cell(sandbox: LocalSandbox) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = [os.dup(0) for _ in range(100)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(used) + 40, hard))
    try:
        assert [sandbox.exec("echo here").output for _ in range(200)] == ["here\n"] * 200
        assert sandbox._shortcut is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in used:
            os.close(fd)
    sandbox.reset()
    warm(sandbox)
