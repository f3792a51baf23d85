"""A child that prepares itself in Python and then becomes a program: in shared memory, or (from Python 3.14 on) in a copy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from intercode.sandbox import base

HEAD = f"import os, signal, sys; sys.path.insert(0, {str(Path(base.__file__).parent)!r}); from guest import spawn, kernel\n"
SCRIPT = """
def mine():
    ignored = [line for line in open("/proc/self/status") if line.startswith("SigIgn")]
    return os.getcwd(), len(os.listdir("/proc/self/fd")), ignored, signal.getsignal(signal.SIGTERM)
def prepare():
    os.dup2(read, 0)
    os.chdir("/usr")
    kernel.ignore(signal.SIGTERM)
before = mine()
for _ in range(100):
    read, write = os.pipe()
    os.write(write, b"echo $0; pwd; kill -s TERM $$; echo still alive")
    os.close(write)
    assert os.waitpid(spawn.spawn(prepare, "/bin/bash", "by-this-name"), 0)[1] == 0
    os.close(read)
for wrong, program in [(lambda: 1 / 0, "/bin/true"), (lambda: 0, "/bin/none")]:
    try:
        spawn.spawn(wrong, program, "x")
    except OSError as error:
        print(error)
print("nothing is left" if mine() == before else mine())
"""


@pytest.mark.parametrize("way", ["", "sys.version_info = (3, 14)\n"], ids=["sharing", "forking"])
def test_what_was_prepared_holds_in_the_program_alone_and_what_went_wrong_is_raised(way: str) -> None:
    done = subprocess.run([sys.executable, "-c", HEAD + way + SCRIPT], capture_output=True, text=True, check=True, timeout=60)
    *told, first, second, last = done.stdout.splitlines()
    assert told == ["by-this-name", "/usr", "still alive"] * 100
    assert ("division by zero" in first, "/bin/none" in second, last) == (True, True, "nothing is left")
