"""Who starts something between two actions, from a trap or a thread, is watched as during one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from families import wait_until
from kept import needs_bwrap

from intercode.sandbox.base import MIB, Limits
from intercode.sandbox.build import make_template
from intercode.sandbox.local import LocalSandbox

MEMORY = Limits(memory=256 * MIB)
HOG = """
import mmap, time
held = []
for part in range(40):
    held.append(mmap.mmap(-1, 10 << 20))
    for at in range(0, 10 << 20, 4096): held[-1][at] = 1
    open('/tmp/beat', 'w').write(str(part))
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


@contextmanager
def session(program: str) -> Iterator[LocalSandbox]:
    needs_bwrap()
    with LocalSandbox(make_template(), limits=MEMORY, program=program) as sandbox:  # type: ignore[arg-type]
        yield sandbox


@pytest.mark.parametrize(("program", "action"), [("bash", IN_A_TRAP), ("python", IN_A_THREAD)], ids=["bash", "python"])
def test_memory_that_is_taken_between_actions_is_counted(program: str, action: str, module_cache: Path) -> None:
    with session(program) as sandbox:
        sandbox.write("/tmp/hog", HOG.encode())
        sandbox.exec(action)
        assert wait_until(lambda: beats(sandbox) > 5, 10)
        assert wait_until(lambda: not grows(sandbox), 10)
        assert beats(sandbox) < 39
        assert "memory limit of 256 MiB exceeded" in sandbox.exec("1").output


def beats(sandbox: LocalSandbox) -> int:
    try:
        return int(sandbox.read("/tmp/beat") or 0)
    except FileNotFoundError:
        return 0


def grows(sandbox: LocalSandbox) -> bool:
    before = beats(sandbox)
    time.sleep(0.5)
    return beats(sandbox) != before
