"""At its time-out an action ends, whatever it does; what it printed stays, and so do the jobs of
earlier actions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from intercode_sandbox.base import MIB, Limits
from intercode_sandbox.guest import wire
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.results import ExecResult
from intercode_sandbox.template import Template

pytestmark = pytest.mark.slow

LIMIT = 0.2
# seconds over the limit: wide, for machines that others use too; benchmarks/timeouts.py measures
SLACK = 2.0

PATIENT = {
    "a program": "sleep 60",
    "a program that ignores all it may": "(trap '' INT TERM HUP QUIT USR1 USR2 TSTP; sleep 60)",
    "a program of its own session": "setsid -w sleep 60",
    "a program that forks on at signals": "(trap 'sleep 60 & sleep 60' INT TERM; sleep 60)",
    "a program that cannot be read": (
        "cp /usr/bin/sleep /tmp/sleep; chmod 111 /tmp/sleep; setsid -w /tmp/sleep 60"
    ),
    "a builtin loop": "while :; do :; done",
    "a loop that goes on at interrupts": "while :; do sleep 60; done",
    "a pipeline that is busy": "yes | cat | cat > /dev/null",
    "a nested substitution": 'echo "$(echo "$(sleep 60)")"',
    "a process substitution": "cat <(sleep 60)",
    "waiting for a job": "sleep 60 & wait",
    "a coprocess": "coproc sleep 60; wait",
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


@pytest.fixture(scope="module")
def shared(template: Template) -> Iterator[LocalSandbox]:
    with LocalSandbox(template, limits=Limits(memory=256 * MIB)) as made:
        yield made


def lost_at_its_limit(sandbox: LocalSandbox, action: str) -> bool:
    """Stop the action at its limit, with what it printed before; whether the session was lost."""
    start = time.monotonic()
    result = sandbox.exec(f"echo early; {action}", timeout=LIMIT)
    assert LIMIT <= time.monotonic() - start < LIMIT + SLACK
    assert (result.timed_out, result.exit_code) == (True, None)
    assert result.output.startswith("early\n")
    return result.session_lost


@pytest.mark.parametrize(
    "action", PATIENT.values(), ids=[name.replace(" ", "-") for name in PATIENT]
)
def test_the_action_ends_and_the_session_goes_on(sandbox: LocalSandbox, action: str) -> None:
    sandbox.exec("cd /tmp; mine=kept; sleep 300 & job=$!")
    assert not lost_at_its_limit(sandbox, action)
    result = sandbox.exec(
        'echo "$? $mine"; kill -0 $job && echo alive; jobs -r | grep -c "sleep 300"', timeout=5
    )
    assert result.output.endswith("130 kept\nalive\n1\n")
    assert result.cwd == "/tmp"
    listed = sandbox.exec("", argv=["ps", "-eo", "args="]).output.splitlines()
    assert [
        line for line in listed if line.startswith(("sleep 60", "/tmp/sleep", "yes", "cat"))
    ] == []


@pytest.mark.parametrize(
    "action", STUBBORN.values(), ids=[name.replace(" ", "-") for name in STUBBORN]
)
def test_a_shell_that_does_not_come_back_is_replaced_and_earlier_jobs_live(
    sandbox: LocalSandbox, action: str
) -> None:
    sandbox.exec("cd /tmp; sleep 300 & echo $! > /tmp/job")
    assert lost_at_its_limit(sandbox, action)
    assert sandbox.exec("pwd; kill -0 $(cat /tmp/job) && echo alive").output == "/tmp\nalive\n"


def test_stateless_actions_and_programs_end_as_well(
    sandbox: LocalSandbox, template: Template
) -> None:
    with LocalSandbox(template, session="stateless") as stateless:
        stateless.exec("setsid sleep 300 > /dev/null 2>&1 &")
        for action in ("(trap '' INT TERM; sleep 60)", "while :; do :; done", "sleep 60 | cat"):
            lost_at_its_limit(stateless, action)
            assert (
                stateless.exec("pgrep -f 'sleep 30[0]' > /dev/null && echo alive").output
                == "alive\n"
            )
    sandbox.exec("x=kept")
    result = sandbox.exec(
        "", argv=["bash", "-c", "echo early; trap '' INT TERM; sleep 60; :"], timeout=LIMIT
    )
    assert (result.timed_out, result.output) == (True, "early\n")
    assert sandbox.exec("echo $x").output == "kept\n"


def test_stop_ends_an_action_early_and_nothing_else(sandbox: LocalSandbox) -> None:
    assert not sandbox.stop()
    stops = threading.Timer(LIMIT, sandbox.stop)
    stops.start()
    start = time.monotonic()
    result = sandbox.exec("x=1; sleep 60", timeout=60)
    assert result.timed_out
    assert time.monotonic() - start < LIMIT + SLACK
    sandbox._sock.send(wire.STOP)  # as if it came just after the end of the action
    assert sandbox.exec("echo $x").output == "1\n"


def test_a_stop_right_after_the_start_neither_kills_nor_is_lost(sandbox: LocalSandbox) -> None:
    sandbox.exec("x=1")
    for _ in range(10):
        with ThreadPoolExecutor(1) as pool:
            action = pool.submit(sandbox.exec, "sleep 60")
            while not sandbox.stop():
                time.sleep(0)
            for _ in range(9):
                sandbox.stop()
        result: ExecResult = action.result()
        assert result.timed_out
        assert not result.session_lost
        assert sandbox.exec("echo $x").output == "1\n"


def test_many_time_outs_in_a_row_keep_actions_and_answers_in_step(sandbox: LocalSandbox) -> None:
    """An interrupt that comes late must not end, swallow or answer the next action."""
    for number in range(40):
        sandbox.exec("sleep 60" if number % 2 else "while :; do :; done", timeout=0.02)
        result = sandbox.exec(f"echo {number}; (exit {number})", timeout=5)
        assert (result.output.splitlines()[-1], result.exit_code) == (str(number), number)


def test_a_long_action_that_was_not_read_to_its_end_is_not_mixed_with_the_next(
    sandbox: LocalSandbox,
) -> None:
    """Its text is longer than the pipe to the shell holds, and the shell is given no time to read
    it."""
    assert sandbox.exec(f": {'x' * 4_000_000}", timeout=0.05).timed_out
    last = [sandbox.exec("echo next", timeout=5) for _ in range(2)][-1]
    assert (last.output, last.exit_code) == ("next\n", 0)
