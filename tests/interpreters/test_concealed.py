"""Processes that conceal themselves are weighed like others.

One whose first thread has ended looks like a zombie; one that is not dumpable lets nobody see its
namespaces. That they are ended is held by the attacks `a process that stays …`
(`intercode.redteam.python`).
"""

from __future__ import annotations

import pytest

from intercode_sandbox.local import LocalSandbox

ENDS = {
    "without its first thread": ("a\\rVmPTE: 1", "libc.pthread_exit(None)"),
    "not dumpable": ("\\rVmPTE: -999999", "libc.prctl(4, 0, 0, 0, 0)\n        time.sleep(60)"),
}


@pytest.fixture(params=ENDS)
def concealed(request: pytest.FixtureRequest) -> str:
    """Python that defines `start`: a process that holds so many megabytes.

    Its name is made to read as a line of its memory in /proc.
    """
    name, end = ENDS[request.param]
    return f"""
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
def hold(megabytes):
    held = bytearray(megabytes << 20)
    time.sleep(60)
def start(megabytes):
    if os.fork() == 0:
        os.setsid()
        libc.prctl(15, b'{name}', 0, 0, 0)
        threading.Thread(target=hold, args=(megabytes,)).start()
        {end}
"""


def test_what_it_holds_is_counted(python: LocalSandbox, concealed: str) -> None:
    done = python.exec(
        f"{concealed}\nfor _ in range(4): start({python.limits.memory // 3 >> 20})\ntime.sleep(5)",
        timeout=9,
    )
    assert "memory limit of 1024 MiB exceeded" in done.output
