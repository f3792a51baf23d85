"""What the agent's interpreter says of itself is bounded where it is received: the host holds
little of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from graded import passed

from intercode.envs.python.grading import Grader
from intercode.envs.python.suite import read_suite
from intercode.types import Task
from intercode_sandbox.local import LocalSandbox

GROWTH = 32 << 20
FLOOD = """
import inspect, os, struct
def flood(*_):
    body = b'[' + b'[],' * (20 << 20)  # its claimed size or more
    for fd in os.listdir('/proc/self/fd'):
        try:
            if os.readlink('/proc/self/fd/' + fd).startswith('socket'):
                out = memoryview(struct.pack('!I', {size}) + body)
                while out: out = out[os.write(int(fd), out):]
        except OSError: pass
    os._exit(0)
inspect.signature = f = flood
def main(): print('a\\n' * (20 << 20))
def forever():
    while True: print('é ' * 100_000)
"""
"""A message that would be much larger as the value that it means, and lines that would be much
larger as a list."""


def peak(*, anew: bool = False) -> int:
    """Return the most memory that this process has had, from now on with `anew`."""
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) << 10


@pytest.mark.parametrize("size", [60 << 20, (1 << 32) - 1])
def test_a_hostile_interpreter_does_not_fill_the_hosts_memory(
    python: LocalSandbox, referee: LocalSandbox, size: int
) -> None:
    grader = Grader(referee, seconds=2.0)
    function = read_suite(Task("t", "q", "def it(): 0", {"tests": ["assert it() == 1"]}))
    program = read_suite(Task("t", "q", "print(1)", {"cases": {"inputs": [""], "outputs": ["1"]}}))
    before = peak(anew=True)
    python.exec(FLOOD.format(size=size))
    assert grader.describe(python, "f") is None
    assert passed(grader.grade(python, function, name="f")) == [False]
    for name in ("f", "main", "forever"):
        assert passed(grader.grade(python, program, name=name)) == [False]
    python.reset()
    python.exec("def f(): return 1\ndef main(): print(1)")
    assert passed(
        grader.grade(python, function, name="f") + grader.grade(python, program, name="main")
    ) == [True, True]
    assert peak() - before < GROWTH
    json.loads("[" + "[]," * (4 << 20) + "0]")
    assert peak() - before > GROWTH
