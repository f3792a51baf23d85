"""A child that prepares itself in Python and then becomes a program: in shared memory, or (from Python 3.14 on) in a copy."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from intercode.sandbox import base

_FOLDER = str(Path(base.__file__).parent)
_HEAD = f"import os, signal, sys; sys.path.insert(0, {_FOLDER!r}); from guest import spawn, kernel\n"
_COPY = "sys.version_info = (3, 14)\n"

pytestmark = pytest.mark.parametrize("way", [_HEAD, _HEAD + _COPY], ids=["sharing", "forking"])


def printed(way: str, script: str) -> str:
    """By a process of its own, which has one thread."""
    code = way + textwrap.dedent(script)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout


def test_what_was_prepared_holds_in_the_program(way: str) -> None:
    script = """
        read, write = os.pipe()
        os.write(write, b"echo $0; pwd; umask; kill -s TERM $$; echo still alive")
        os.close(write)
        def prepare():
            os.dup2(read, 0)
            os.chdir("/usr")
            os.umask(0o027)
            kernel.ignore(signal.SIGTERM)
        print(os.waitpid(spawn.spawn(prepare, "/bin/bash", "by-this-name"), 0)[1])
    """
    assert printed(way, script) == "by-this-name\n/usr\n0027\nstill alive\n0\n"


def test_nothing_of_it_is_left_behind_in_the_parent(way: str) -> None:
    script = """
        def mine():
            status = open("/proc/self/status").read()
            ignored = [line for line in status.splitlines() if line.startswith("SigIgn")]
            return os.getcwd(), len(os.listdir("/proc/self/fd")), ignored, signal.getsignal(signal.SIGTERM)
        def prepare():
            os.chdir("/usr")
            kernel.ignore(signal.SIGTERM)
            os.close(0)
        before = mine()
        for _ in range(500):
            assert os.waitpid(spawn.spawn(prepare, "/bin/true", "true"), 0)[1] == 0
        def deep(n):
            return deep(n - 1) if n else spawn.spawn(prepare, "/bin/true", "true")
        os.waitpid(deep(300), 0)
        print(mine() == before)
    """
    assert printed(way, script) == "True\n"


@pytest.mark.parametrize(
    ("prepare", "program", "words"), [("1 / 0", "/bin/true", "division by zero"), ("0", "/bin/none", "/bin/none")]
)
def test_what_goes_wrong_in_the_child_is_raised_in_the_parent(way: str, prepare: str, program: str, words: str) -> None:
    script = f"""
        try:
            spawn.spawn(lambda: {prepare}, {program!r}, "x")
        except OSError as error:
            print({words!r} in str(error))
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            print("no child is left")
    """
    assert printed(way, script).splitlines() == ["True", "no child is left"]
