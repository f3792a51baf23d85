"""Processes of a test: what ends one fails the test; a test's own threads and processes ask in turns and give no verdict."""

from __future__ import annotations

import time

import pytest
from graded import Grade, passed

CASES = {"inputs": ["1\n", "2\n"], "outputs": ["2\n", "4\n"]}


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


THREADS = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    assert list(pool.map(it, range(20))) == list(range(20))
"""
PROCESSES = """
import multiprocessing
fork = multiprocessing.get_context('fork')
found = fork.SimpleQueue()
asked = [fork.Process(target=lambda n=n: found.put((n, it(n)))) for n in range(9)]
for each in asked: each.start()
assert sorted(found.get() for _ in asked) == [(n, n) for n in range(9)]
"""


@pytest.mark.parametrize("test", [THREADS, PROCESSES], ids=["threads", "processes"])
def test_threads_and_processes_of_a_test_each_get_their_own_answers(grade: Grade, test: str) -> None:
    assert passed(grade("def f(n): return n", "f", tests=[test], seconds=10)) == [True]


def test_only_the_process_that_received_a_test_gives_the_verdict(grade: Grade) -> None:
    """The child passes, the parent fails later."""
    test = "import os, time\nif os.fork(): time.sleep(0.3)\nelse: it = lambda: 1\nassert it() == 1"
    assert passed(grade("def f(): return 2", "f", tests=[test])) == [False]


def test_a_test_that_gives_up_a_call_is_judged_at_once(grade: Grade) -> None:
    test = "import threading\nthread = threading.Thread(target=it, daemon=True)\nthread.start()\nthread.join(0.2)\nassert {}"
    began = time.monotonic()
    found = grade("import time\ndef f(): time.sleep(60)", "f", seconds=5, tests=[test.format(end) for end in (1, 0)])
    assert (passed(found), time.monotonic() - began < 4) == ([True, False], True)


def test_nobody_in_the_graders_cell_can_look_into_its_interpreters(grade: Grade) -> None:
    opens = "import os\n{}_ = open(f'/proc/{{os.getppid()}}/mem', 'r+b')\n{}"
    agent = opens.format("def f():\n    ", "    return 1")
    assert passed(grade(agent, "f", tests=[opens.format("", "it()"), "assert it() == 1"])) == [False, True]
