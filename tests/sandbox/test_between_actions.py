"""Who starts something between two actions, from a trap or a thread, is watched as during one."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from families import wait_until

from intercode_sandbox.base import MIB, Limits, Program
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import Template

pytestmark = pytest.mark.slow

HOG = """
import mmap, time
held = []
for part in range(40):
    held.append(mmap.mmap(-1, 10 << 20))
    for at in range(0, 10 << 20, 4096): held[-1][at] = 1
    open('/tmp/beat', 'a').write('.')
    time.sleep(0.02)
"""
IN_A_TRAP = """
hog() { python3 /tmp/hog > /dev/null 2>&1 & }
trap hog USR1; (sleep 0.3; kill -USR1 $$) > /dev/null 2>&1 &
"""
"""It fires while the shell waits for its next action."""
IN_A_THREAD = (
    "import threading; threading.Thread(target=lambda: exec(open('/tmp/hog').read(), {})).start()"
)


@pytest.mark.parametrize(
    ("program", "action"), [("bash", IN_A_TRAP), ("python", IN_A_THREAD)], ids=["bash", "python"]
)
def test_memory_that_is_taken_between_actions_is_counted(
    template: Template, program: Program, action: str
) -> None:
    with LocalSandbox(template, limits=Limits(memory=256 * MIB), program=program) as sandbox:
        sandbox.write("/tmp/hog", HOG.encode())
        sandbox.write("/tmp/beat", b"")
        sandbox.exec(action)
        assert wait_until(lambda: len(sandbox.read("/tmp/beat")) > 5)
        beats = -1
        while beats != (beats := len(sandbox.read("/tmp/beat"))):
            time.sleep(0.3)
        assert beats < 39
        assert "memory limit of 256 MiB exceeded" in sandbox.exec("1").output


def test_a_comparison_ends_only_after_the_signal_that_stops_processes_was_sent(
    template: Template,
) -> None:
    """A later signal would stop the next action's first process, and the sandbox would never
    answer."""
    others = _first_processes()
    with LocalSandbox(template, session="stateless") as sandbox:
        sandbox.exec("sleep 1 > /dev/null &")
        first = _first_processes() - others
        _signal(first, signal.SIGSTOP)
        timer = threading.Timer(1.8, _signal, (first, signal.SIGCONT))
        timer.start()
        began = time.monotonic()
        sandbox.diff()
        assert time.monotonic() - began > 1.4
        assert sandbox.exec("echo on").output == "on\n"
        timer.join()


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        os.kill(pid, number)


def _first_processes() -> set[int]:
    """Return the pids, as the machine counts, of the processes below this one that are pid 1 for an
    agent."""
    table = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            table[int(status.parent.name)] = dict(
                line.split(":\t", 1) for line in status.read_text().splitlines()
            )
    ours = {os.getpid()}
    while more := {pid for pid, fields in table.items() if int(fields["PPid"]) in ours} - ours:
        ours |= more
    return {
        pid
        for pid in ours
        if table[pid]["NSpid"].split()[-1] == "1" and table[pid]["Name"] == "bash"
    }
