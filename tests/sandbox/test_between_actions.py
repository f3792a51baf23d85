"""Who starts something between two actions, from a trap or a thread, is watched as during one."""

from __future__ import annotations

import time

import pytest
from families import wait_until

from intercode.sandbox.base import MIB, Limits, Program
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template

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
hog() {
    [[ $BASH_COMMAND == *"read -r -N 24"* ]] || return
    trap - DEBUG
    python3 /tmp/hog > /dev/null 2>&1 &
}
set -T; trap hog DEBUG
"""
"""It fires in the loop in which the shell waits for its next action."""
IN_A_THREAD = "import threading; threading.Thread(target=lambda: exec(open('/tmp/hog').read(), {})).start()"


@pytest.mark.parametrize(("program", "action"), [("bash", IN_A_TRAP), ("python", IN_A_THREAD)], ids=["bash", "python"])
def test_memory_that_is_taken_between_actions_is_counted(template: Template, program: Program, action: str) -> None:
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
