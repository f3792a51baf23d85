"""Chains of processes, each of which starts the next and ends at once, are ended although none is there for long."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from graded import Grade, passed
from kept import needs_bwrap

from intercode.sandbox import anchor
from intercode.sandbox.build import make_template
from intercode.sandbox.local import LocalSandbox

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the chain is machine code for x86_64")

TRIES = 8
CHAIN = anchor._elf(
    bytes.fromhex(
        "b839000000"  # next: mov eax, 57 (fork)
        "0f05"  # syscall
        "85c0"  # test eax, eax
        "7ef5"  # jle next (the child, or an error)
        "31ff"  # xor edi, edi
        "b83c000000"  # mov eax, 60 (exit)
        "0f05"  # syscall
    )
)
"""Starts the next in less time than the guest takes to look for it, as a shell or an interpreter cannot."""
STARTS = "trap '' INT; setsid -f /tmp/chain; setsid -f /tmp/chain; trap - INT"
STARTED = f"""
import subprocess
def f(x):
    subprocess.run(["bash", "-c", {STARTS!r}])
    return 42
"""


@pytest.fixture(scope="module")
def bash(module_cache: Path) -> Iterator[LocalSandbox]:
    needs_bwrap()
    with LocalSandbox(make_template()) as sandbox:
        yield sandbox


def planted(sandbox: LocalSandbox) -> None:
    sandbox.reset()
    sandbox.write("/tmp/chain", CHAIN, mode=0o755)


def born_meanwhile(sandbox: LocalSandbox) -> int:
    """How many processes began in a moment, by the pids of this one and the next."""
    before = int(sandbox.exec("", argv=["sh", "-c", "echo $$"]).output)
    time.sleep(0.2)
    return int(sandbox.exec("", argv=["sh", "-c", "echo $$"]).output) - before


def test_in_their_time_they_go_on(bash: LocalSandbox) -> None:
    planted(bash)
    bash.exec(STARTS)
    assert born_meanwhile(bash) > 20


def test_the_end_of_their_time_ends_them(bash: LocalSandbox) -> None:
    for _ in range(TRIES):
        planted(bash)
        assert bash.exec(f"{STARTS}; sleep 60", timeout=0.3).timed_out
        assert born_meanwhile(bash) < 20


def test_the_test_that_started_them_ends_them(grade: Grade, python: LocalSandbox) -> None:
    for _ in range(TRIES):
        planted(python)
        assert passed(grade(STARTED, "f", tests=["assert it(1) == 42"])) == [True]
        assert born_meanwhile(python) < 20
