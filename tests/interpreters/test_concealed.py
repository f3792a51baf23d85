"""Processes that conceal themselves are ended, weighed and named like others.

One whose first thread has ended looks like a zombie; one that is not dumpable lets nobody see its namespaces.
"""

from __future__ import annotations

from textwrap import indent

import pytest
from graded import Grade, passed

from intercode.sandbox.local import LocalSandbox

WAYS = {
    "without its first thread": "libc.pthread_exit(None)",
    "not dumpable": "libc.prctl(4, 0, 0, 0, 0)\n        time.sleep(60)",
}
FORGED = [("\\rVmPTE: -999999", "time.sleep(60)"), ("a\\rVmPTE: 1", "libc.pthread_exit(None)")]
BEATING = "time.sleep(0.2); len({open('/tmp/beat').read() for _ in range(50) if not time.sleep(0.01)}) > 1"


@pytest.fixture(params=WAYS)
def concealed(request: pytest.FixtureRequest) -> str:
    """Python that defines `start`: a process that soon holds so many megabytes, and lives visibly; `see` waits for it."""
    return f"""
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
def beat(megabytes):
    time.sleep(0.3)
    held = bytearray(megabytes << 20)
    while True:
        open('/tmp/beat', 'w').write(str(time.time()))
        time.sleep(0.02)
def start(megabytes):
    if os.fork() == 0:
        os.setsid()
        threading.Thread(target=beat, args=(megabytes,)).start()
        {WAYS[request.param]}
def see():
    while not os.path.exists('/tmp/beat'): time.sleep(0.01)
"""


def test_it_goes_on_after_its_action(python: LocalSandbox, concealed: str) -> None:
    python.exec(f"{concealed}\nstart(1)\nsee()")
    assert python.exec(BEATING).output == "True\n"


def test_the_test_that_started_it_ends_it(grade: Grade, python: LocalSandbox, concealed: str) -> None:
    code = f"{concealed}\ndef f(x):\n{indent('start(1); see(); return 42', '    ')}"
    assert passed(grade(code, "f", tests=["assert it(1) == 42"])) == [True]
    assert python.exec(f"import time\n{BEATING}").output == "False\n"


def test_the_end_of_its_time_ends_it(python: LocalSandbox, concealed: str) -> None:
    assert python.exec(f"{concealed}\nstart(1)\nsee()\ntime.sleep(60)", timeout=2).timed_out
    assert python.exec(BEATING).output == "False\n"


def test_what_it_holds_is_counted(python: LocalSandbox, concealed: str) -> None:
    done = python.exec(f"{concealed}\nfor _ in range(4): start({python.limits.memory // 3 >> 20})\ntime.sleep(5)", timeout=9)
    assert "memory limit of 1024 MiB exceeded" in done.output


@pytest.mark.parametrize("name", ["a\\rVmPTE: x", "a\\rNSpid: x", "a\\nVmPTE: x"])
def test_a_name_is_no_line_of_what_the_kernel_says(python: LocalSandbox, name: str) -> None:
    rename = f"import ctypes, os, time; ctypes.CDLL(None).prctl(15, b'{name}', 0, 0, 0)"
    assert python.exec(f"{rename}; time.sleep(0.3)\n1").output == "1\n"
    python.exec("if os.fork() == 0:\n    os.setsid()\n    time.sleep(60)")
    assert python.exec("1").output == "1\n"


@pytest.mark.parametrize(("name", "end"), FORGED)
def test_a_name_takes_nothing_off_what_is_held(python: LocalSandbox, name: str, end: str) -> None:
    action = f"""
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
def hold():
    time.sleep(0.3)
    held = bytearray({python.limits.memory // 3 >> 20} << 20)
    time.sleep(60)
for _ in range(4):
    if os.fork() == 0:
        libc.prctl(15, b'{name}', 0, 0, 0)
        threading.Thread(target=hold).start()
        {end}
time.sleep(5)
"""
    assert "memory limit of 1024 MiB exceeded" in python.exec(action, timeout=9).output


def test_an_interpreter_that_is_not_dumpable_is_played_on(python: LocalSandbox) -> None:
    python.exec("import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)")
    assert python.exec("1").output == "1\n"
