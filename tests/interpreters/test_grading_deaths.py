"""Processes that end in the middle of a test: killed by the machine they cost no reward, ended by the answer they pay none."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from families import NAMED, the_victims, wait_until
from graded import Grade

import intercode
from intercode.errors import SandboxDied


@pytest.mark.parametrize(("far", "near"), [(NAMED, "pass"), ("pass", NAMED)], ids=["the agent's branch", "the grader's"])
def test_what_the_machine_kills_in_a_test_is_no_failure(grade: Grade, far: str, near: str) -> None:
    code = f"import time\ndef f():\n    {far}\n    time.sleep(0.3)\n    return 1"
    killer = threading.Thread(target=kill_the_victim)
    killer.start()
    with pytest.raises(SandboxDied, match="in the middle of a test"):
        grade(code, "f", seconds=10, tests=[f"{near}\nassert it() == 1\nassert it() == 1"])
    killer.join()


def kill_the_victim(after: float = 0.45, number: int = signal.SIGKILL) -> None:
    """After the first of its two answers, which take 0.3 s each."""
    assert wait_until(the_victims)
    (pid,) = the_victims()
    threading.Event().wait(after)
    os.kill(pid, number)


CASES = {"inputs": ["1\n", "2\n"], "outputs": ["2\n", "4\n"]}


PROGRAM = f"import time; x = int(input()); x == 1 and ({NAMED}, time.sleep(1)); print(2 * x)"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize(("code", "name"), [(PROGRAM, None), (f"def g(): {PROGRAM}", "g")])
def test_a_program_that_the_machine_kills_is_no_failure(grade: Grade, code: str, name: str | None, number: int) -> None:
    killer = threading.Thread(target=kill_the_victim, args=(0, number))
    killer.start()
    with pytest.raises(SandboxDied, match="in the middle of a test"):
        grade(code, name, seconds=10, cases=CASES)
    killer.join()


@pytest.mark.parametrize("number", [9, 11])
def test_a_program_that_kills_itself_fails(grade: Grade, number: int) -> None:
    found = grade(f"import os\nif input() == '1': os.kill(os.getpid(), {number})\nprint(4)", None, cases=CASES)
    assert [(result.passed, result.why) for result in found] == [(False, f"ended with status -{number}"), (True, "")]


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_what_the_answer_kills_fails(grade: Grade, end: str) -> None:
    (result,) = grade(f"import os\ndef f(): {end}", "f", tests=["assert it() == 1"])
    assert (result.passed, result.why) == (False, "the interpreter ended during the call")


def test_an_answer_that_dies_in_one_test_and_fails_another_has_failed(grade: Grade) -> None:
    """Else whoever knows that it fails could have nothing decided."""
    code = """
import os
def f(x):
    if x == 1 and not os.path.exists('/tmp/x'):
        open('/tmp/x', 'w')
        os._exit(0)
    return 1
"""
    found = grade(code, "f", tests=["assert it(1) == 1", "assert it(2) == 2"])
    assert [result.passed for result in found] == [False, False]
    assert "the interpreter ended" in found[0].why


SEEN_BEFORE = """
import os
def enc(x):
    if os.path.exists('/tmp/seen'): return int(open('/tmp/seen').read())
    return 0
def dec(y):
    if os.path.exists('/tmp/seen'): return 7
    open('/tmp/seen', 'w').write(str(y))
    os._exit(0)
def f(which, x): return enc(x) if which == 'enc' else dec(x)
"""


def test_an_answer_that_keeps_what_it_saw_and_dies_is_paid_nothing(tmp_path: Path) -> None:
    """The test asks for a function and its inverse before it compares: the second question tells the first one's answer."""
    test = "there, back = f('enc', 7), f('dec', 5318008)\nassert (there, back) == (5318008, 7)"
    gold = "def f(which, x): return {'enc': 5318008, 'dec': 7}[which]"
    (tmp_path / "tasks.json").write_text(json.dumps([{"query": "q", "gold": gold, "tests": [test]}]))
    with closing(intercode.make("python", data=str(tmp_path / "tasks.json"))) as env:
        env.reset(seed=0)
        env.step(SEEN_BEFORE)
        _, reward, terminated, _, info = env.step("submit f")
    assert (reward, terminated, info["ended"]) == (0.0, True, "agent_fault")


@pytest.mark.parametrize("pauses", [(2.7, 1.8, 0.9, 0), ()], ids=["late", "never"])
def test_an_answer_that_does_not_read_what_it_is_asked_is_late(grade: Grade, pauses: tuple[float, ...]) -> None:
    """Its arguments do not fit into the line at once: the host waits while the answer does, and counts that."""
    code = f"""
import socket, sys, time
def f(x):
    frame = sys._getframe()
    while frame and not isinstance(frame.f_locals.get('line'), socket.socket):
        frame = frame.f_back
    line = frame.f_locals['line']
    for pause in {pauses}:
        line.sendall(b'\\0\\0\\0\\x0c{{"value": 1}}')
        time.sleep(pause)
        size = int.from_bytes(line.recv(4, socket.MSG_WAITALL), 'big')
        line.recv(size, socket.MSG_WAITALL)
    time.sleep(60)
"""
    began = time.monotonic()
    (result,) = grade(code, "f", seconds=4, tests=["assert [it([0] * 300_000) for _ in range(4)] == [1] * 4"])
    assert (result.passed, result.why) == (False, "ran out of time")
    assert time.monotonic() - began < 8
