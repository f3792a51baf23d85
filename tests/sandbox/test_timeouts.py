"""At its time-out an action ends, whatever it does; what it printed stays, and so do the jobs of earlier actions."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from intercode.sandbox.base import MIB, Limits
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template

LIMIT = 0.3
SLACK = 2.0  # seconds over the limit: wide, for machines that others use too; benchmarks/timeouts.py measures

PATIENT = {
    "a program": "sleep 60",
    "a program that ignores interrupts": "(trap '' INT; sleep 60)",
    "a program that ignores all it may": "(trap '' INT TERM HUP QUIT USR1 USR2 TSTP; sleep 60)",
    "a program of its own session": "setsid -w sleep 60",
    "a program that forks on at signals": "(trap 'sleep 60 & sleep 60' INT TERM; sleep 60)",
    "a builtin loop": "while :; do :; done",
    "a loop over programs": "while :; do /usr/bin/true; done",
    "a loop that goes on at interrupts": "while :; do sleep 60; done",
    "nested functions": "f() { g; }; g() { h; }; h() { sleep 60; }; f",
    "a pipeline": "sleep 60 | cat | cat",
    "a pipeline that is busy": "yes | cat | cat > /dev/null",
    "a substitution": "x=$(sleep 60)",
    "a nested substitution": 'echo "$(echo "$(sleep 60)")"',
    "a subshell in a subshell": "( ( (sleep 60) ) )",
    "a process substitution": "cat <(sleep 60)",
    "waiting for a job": "sleep 60 & wait",
    "a coprocess": "coproc sleep 60; wait",
    "an eval": "eval 'eval \"sleep 60\"'",
    "a sourced file": "echo 'sleep 60' > /tmp/file; . /tmp/file",
    "a shell in a shell": "bash -c 'bash -c \"sleep 60; :\"; :'",
    "a read from a FIFO": "mkfifo /tmp/fifo; cat /tmp/fifo",
    "a stopped program": "(kill -STOP $BASHPID)",
}
STUBBORN = {
    "the shell itself ignores interrupts": "trap '' INT; while :; do :; done",
    "the shell's trap loops": "trap 'while :; do :; done' INT; while :; do :; done",
    "the shell is stopped": "kill -STOP $$",
    "the shell became a program": "exec sleep 60",
    "the shell executes nothing": "set -n",
}


@pytest.fixture
def sandbox(template: Template) -> Iterator[LocalSandbox]:
    with LocalSandbox(template, limits=Limits(memory=256 * MIB)) as made:
        yield made


def ends_in_time(sandbox: LocalSandbox, action: str) -> bool:
    """Whether it is stopped at its limit, with what it printed before."""
    start = time.monotonic()
    result = sandbox.exec(f"echo early; {action}", timeout=LIMIT)
    took = time.monotonic() - start
    assert result.timed_out
    assert result.exit_code is None
    assert result.output.startswith("early\n")
    return LIMIT <= took < LIMIT + SLACK


@pytest.mark.parametrize("action", PATIENT.values(), ids=[name.replace(" ", "-") for name in PATIENT])
def test_the_action_ends_and_the_session_goes_on(sandbox: LocalSandbox, action: str) -> None:
    sandbox.exec("cd /tmp; mine=kept; sleep 300 & job=$!")
    assert ends_in_time(sandbox, action)
    result = sandbox.exec('echo "$mine"; kill -0 $job && echo alive; jobs -r | grep -c "sleep 300"', timeout=5)
    assert result.output.endswith("kept\nalive\n1\n")
    assert not result.session_lost
    assert result.cwd == "/tmp"
    assert born_after(sandbox) == []


@pytest.mark.parametrize("action", STUBBORN.values(), ids=[name.replace(" ", "-") for name in STUBBORN])
def test_a_shell_that_does_not_come_back_is_replaced_and_earlier_jobs_live(sandbox: LocalSandbox, action: str) -> None:
    sandbox.exec("cd /tmp; sleep 300 & echo $! > /tmp/job")
    start = time.monotonic()
    result = sandbox.exec(f"echo early; {action}", timeout=LIMIT)
    assert time.monotonic() - start < LIMIT + SLACK
    assert (result.timed_out, result.session_lost, result.exit_code) == (True, True, None)
    assert result.output.startswith("early\n")
    assert sandbox.exec("pwd; kill -0 $(cat /tmp/job) && echo alive").output == "/tmp\nalive\n"


@pytest.mark.parametrize("action", ["sleep 60", "(trap '' INT TERM; sleep 60)", "while :; do :; done", "sleep 60 | cat"])
def test_stateless_actions_end_as_well(template: Template, action: str) -> None:
    with LocalSandbox(template, session="stateless") as sandbox:
        sandbox.exec("setsid sleep 300 > /dev/null 2>&1 &")
        assert ends_in_time(sandbox, action)
        assert sandbox.exec("pgrep -f 'sleep 30[0]' > /dev/null && echo alive").output == "alive\n"


def test_a_program_that_cannot_be_read_ends_as_well(sandbox: LocalSandbox) -> None:
    sandbox.exec("cp /usr/bin/sleep /tmp/dark; chmod 111 /tmp/dark")
    seen = "grep -qx dark /proc/[0-9]*/comm && echo alive"
    action = f"(setsid /tmp/dark 60 &); until {seen}; do :; done; sleep 60"
    ended = sandbox.exec(action, timeout=2)
    assert (ended.timed_out, ended.output) == (True, "alive\n")
    assert sandbox.exec(seen).output == ""


def test_a_program_given_as_argv_ends_and_the_shell_is_not_touched(sandbox: LocalSandbox) -> None:
    sandbox.exec("x=kept")
    result = sandbox.exec("", argv=["bash", "-c", "echo early; trap '' INT TERM; sleep 60; :"], timeout=LIMIT)
    assert (result.timed_out, result.output) == (True, "early\n")
    assert sandbox.exec("echo $x").output == "kept\n"


@pytest.mark.slow
def test_many_time_outs_in_a_row_keep_actions_and_answers_in_step(sandbox: LocalSandbox) -> None:
    """An interrupt that comes late must not end, swallow or answer the next action."""
    for number in range(40):
        sandbox.exec("sleep 60" if number % 2 else "while :; do :; done", timeout=0.02)
        result = sandbox.exec(f"echo {number}; (exit {number})", timeout=5)
        assert (result.output.splitlines()[-1], result.exit_code) == (str(number), number)


def test_an_interrupt_that_finds_the_shell_waiting_changes_nothing(sandbox: LocalSandbox) -> None:
    """The kernel may deliver one when the action that it was meant for has just ended by itself."""
    sandbox.exec("(exit 5)")
    result = sandbox.exec("", argv=["pkill", "-INT", "-x", "bash"], timeout=5)
    assert (result.exit_code, sandbox.exec("echo $?").output) == (0, "5\n")
    assert sandbox.exec("echo next").output == "next\n"


def test_after_a_time_out_the_last_status_is_that_of_an_interrupt(sandbox: LocalSandbox) -> None:
    sandbox.exec("sleep 60", timeout=0.05)
    assert sandbox.exec("echo $?").output == "130\n"


@pytest.mark.slow
def test_a_long_action_that_was_not_read_to_its_end_is_not_mixed_with_the_next(sandbox: LocalSandbox) -> None:
    """Its text is longer than the pipe to the shell holds, and the shell is given no time to read it."""
    result = sandbox.exec(f": {'x' * 4_000_000}", timeout=0.05)
    assert result.timed_out
    last = [sandbox.exec("echo next", timeout=5) for _ in range(2)][-1]
    assert (last.output, last.exit_code) == ("next\n", 0)


def test_partial_output_is_whole_up_to_the_time_out(sandbox: LocalSandbox) -> None:
    result = sandbox.exec("for i in {1..20000}; do echo $i; done; printf end; sleep 60", timeout=3)
    assert result.output.startswith("".join(f"{i}\n" for i in range(1, 20001)) + "end")


def born_after(sandbox: LocalSandbox) -> list[str]:
    """Sleepers and spinners of the timed-out action."""
    listed = sandbox.exec("", argv=["ps", "-eo", "args="]).output.splitlines()
    return [line for line in listed if line.startswith(("sleep 60", "yes", "cat"))]
