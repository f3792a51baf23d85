"""Processes of a test: what ends one fails the test; a test's own threads and processes ask in
turns and give no verdict."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path

import pytest
from graded import Grade, passed

from intercode.errors import DataError, SandboxDied
from intercode_sandbox.identity import identity
from intercode_sandbox.local import LocalSandbox

pytestmark = pytest.mark.slow

CASES = {"inputs": ["1\n", "2\n"], "outputs": ["2\n", "4\n"]}
DIES_IN_ONE_TEST = """
import os
def f(x):
    if x == 1 and not os.path.exists('/tmp/x'):
        open('/tmp/x', 'w')
        os.kill(os.getpid(), 9)
    return 1
"""
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


def test_a_program_that_kills_itself_fails(grade: Grade) -> None:
    found = grade(
        "import os\nif input() == '1': os.kill(os.getpid(), 11)\nprint(4)", None, cases=CASES
    )
    assert [(result.passed, result.why) for result in found] == [
        (False, "ended with status -11"),
        (True, ""),
    ]


def test_an_answer_that_dies_in_one_test_fails_it_and_is_not_asked_again(grade: Grade) -> None:
    found = grade(DIES_IN_ONE_TEST, "f", tests=["assert it(1) == 1", "assert it(2) == 2"])
    assert [result.passed for result in found] == [False, False]
    assert found[0].why == "the interpreter ended during the call"


@pytest.mark.parametrize("pauses", [(0.7, 0.45, 0.2, 0), ()], ids=["late", "never"])
def test_an_answer_that_does_not_read_what_it_is_asked_is_late(
    grade: Grade, pauses: tuple[float, ...]
) -> None:
    """Its arguments do not fit into the line at once: the host waits while the answer does, and
    counts that."""
    code = f"""
import socket, sys, time
def f(x):
    frame = sys._getframe()
    while frame and not isinstance(frame.f_locals.get('line'), socket.socket):
        frame = frame.f_back
    line = frame.f_locals['line']
    for pause in {pauses}:
        line.sendall(b'\\0\\0\\0\\x0e{{"value": [1]}}')
        time.sleep(pause)
        size = int.from_bytes(line.recv(4, socket.MSG_WAITALL), 'big')
        line.recv(size, socket.MSG_WAITALL)
    time.sleep(60)
"""
    began = time.monotonic()
    (result,) = grade(
        code, "f", seconds=1, tests=["assert [it([0] * 300_000) for _ in range(4)] == [1] * 4"]
    )
    assert (result.passed, result.why) == (False, "ran out of time")
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("test", [THREADS, PROCESSES], ids=["threads", "processes"])
def test_threads_and_processes_of_a_test_each_get_their_own_answers(
    grade: Grade, test: str
) -> None:
    assert passed(grade("def f(n): return n", "f", tests=[test], seconds=10)) == [True]


def test_only_the_process_that_received_a_test_gives_the_verdict(grade: Grade) -> None:
    """The child passes, the parent fails later."""
    test = "import os, time\nif os.fork(): time.sleep(0.3)\nelse: it = lambda: 1\nassert it() == 1"
    assert passed(grade("def f(): return 2", "f", tests=[test])) == [False]


def test_a_test_that_gives_up_a_call_is_judged_at_once(grade: Grade) -> None:
    test = (
        "import threading\nthread = threading.Thread(target=it, daemon=True)\nthread.start()\n"
        "thread.join(0.2)\nassert {}"
    )
    began = time.monotonic()
    found = grade(
        "import time\ndef f(): time.sleep(60)",
        "f",
        seconds=30,
        tests=[test.format(end) for end in (1, 0)],
    )
    assert (passed(found), time.monotonic() - began < 25) == ([True, False], True)


def test_a_test_that_ends_its_own_process_or_is_too_large_is_the_datas_fault(grade: Grade) -> None:
    for test, words in (
        ("import os; os._exit(0)", "ends its own process"),
        (f"it(1)  # {'x' * (65 << 20)}", "more than the 64 MiB"),
    ):
        with pytest.raises(DataError, match=words):
            grade("def f(x): return 42", "f", tests=[test])


def descendants(pid: int) -> list[int]:
    """The processes below `pid`, parents first; one that ends meanwhile may be missing."""
    children = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += [int(child) for child in (task / "children").read_text().split()]
    return [*children, *(each for child in children for each in descendants(child))]


def test_an_agent_that_may_start_no_process_fails_and_a_machine_without_room_is_an_error(
    grade: Grade, python: LocalSandbox
) -> None:
    own_limit = (
        "import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (1, 1))\ndef f(): return 1"
    )
    assert [result.why for result in grade(own_limit, "f", tests=["assert it() == 1"])] == [
        "the interpreter ended during the call"
    ]
    python.reset()
    assert passed(grade("def f(): return 1", "f", tests=["assert it() == 1"])) == [True]
    for pid in descendants(python.host._process.pid):
        limited = subprocess.run(["prlimit", f"--pid={pid}", "--nproc=1"], **identity().popen())
        assert limited.returncode == 0 or not Path(f"/proc/{pid}").exists()
    with pytest.raises(SandboxDied, match="Resource temporarily unavailable"):
        grade("1", "f", tests=["assert it() == 1"])
