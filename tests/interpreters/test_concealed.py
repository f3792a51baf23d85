"""Processes that conceal themselves are ended, weighed and named like others.

One whose first thread has ended looks like a zombie; one that is not dumpable lets nobody see its namespaces.
That a test ends those that it started is held by the attack `a process that stays` (`tests/envs/test_python_hacks.py`).
"""

from __future__ import annotations

import pytest

from intercode.sandbox.local import LocalSandbox

ENDS = {
    "without its first thread": ("a\\rVmPTE: 1", "libc.pthread_exit(None)"),
    "not dumpable": ("\\rVmPTE: -999999", "libc.prctl(4, 0, 0, 0, 0)\n        time.sleep(60)"),
}
BEATING = "len({open('/tmp/beat').read() for _ in range(10) if not time.sleep(0.03)}) > 2"


@pytest.fixture(params=ENDS)
def concealed(request: pytest.FixtureRequest) -> str:
    """Python that defines `start`: a process that soon holds so many megabytes, and lives visibly.

    Its name is made to read as a line of its memory in /proc.
    """
    name, end = ENDS[request.param]
    return f"""
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
def beat(megabytes):
    held = bytearray(megabytes << 20)
    while True:
        open('/tmp/beat', 'w').write(str(time.time()))
        time.sleep(0.02)
def start(megabytes):
    if os.fork() == 0:
        os.setsid()
        libc.prctl(15, b'{name}', 0, 0, 0)
        threading.Thread(target=beat, args=(megabytes,)).start()
        {end}
    while not os.path.exists('/tmp/beat'): time.sleep(0.01)
"""


def test_it_lives_through_actions_and_the_end_of_its_time_ends_it(python: LocalSandbox, concealed: str) -> None:
    python.exec(f"{concealed}\nstart(1)")
    assert python.exec(BEATING).output == "True\n"
    python.reset()
    assert python.exec(f"{concealed}\nstart(1)\ntime.sleep(60)", timeout=0.5).timed_out
    assert python.exec(BEATING).output == "False\n"


def test_what_it_holds_is_counted(python: LocalSandbox, concealed: str) -> None:
    done = python.exec(f"{concealed}\nfor _ in range(4): start({python.limits.memory // 3 >> 20})\ntime.sleep(5)", timeout=9)
    assert "memory limit of 1024 MiB exceeded" in done.output
