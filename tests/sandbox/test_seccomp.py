"""The filter answers each call as its tables say. That the kernel takes it so is seen in the
attacks."""

from __future__ import annotations

import struct
import subprocess
import sys
from errno import EINVAL, ENOSYS, EPERM

import pytest

from intercode_sandbox import seccomp

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
LET, ERRNO = 0x7FFF0000, 0x00050000
JUDGED_BY_ARGUMENT = ("_CLONE", "_SOCKET", "_IOCTL", "_PRLIMIT", "_SETSOCKOPT")


def answer(program: bytes, audit: int, number: int) -> int:
    """What the filter says of a call with arguments 0 (classic BPF: the four kinds it has)."""
    data, at = struct.pack("<IIQ6Q", number, audit, 0, *[0] * 6), 0
    while True:
        kind, true, false, value = struct.unpack_from("HBBI", program, 8 * at)
        if kind == 0x06:
            return int(value)
        if kind == 0x20:
            (loaded,) = struct.unpack_from("<I", data, value)
            at += 1
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[kind]
            at += 1 + (true if holds else false)


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize(
    "left_out", [frozenset[str](), frozenset({"mount", "keyctl"})], ids=["whole", "weakened"]
)
def test_each_number_has_the_answer_of_its_table(machine: str, left_out: frozenset[str]) -> None:
    column, audit = ARCHITECTURES[machine]
    program = seccomp.program(machine=machine, leave_out=left_out)
    tables = ((seccomp._REFUSED, EPERM), (seccomp._ABSENT, ENOSYS))
    said = {
        row[column]: ERRNO | errno
        for table, errno in tables
        for name, row in table.items()
        if name not in left_out
    }
    others = {getattr(seccomp, name)[column] for name in JUDGED_BY_ARGUMENT}
    said |= dict.fromkeys(
        (*range(seccomp._LAST_REVIEWED + 1, 600), 0x40000000, 0x40000001), ERRNO | ENOSYS
    )
    for number in {*range(600), 0x40000000, 0x40000001} - others:
        assert answer(program, audit, number) == said.get(number, LET), number


CALL = """
import ctypes, sys
from intercode_sandbox.guest import kernel
libc = ctypes.CDLL(None, use_errno=True)
if len(sys.argv) > 1:
    kernel.install_filter(bytes.fromhex(sys.argv[1]))
mseal, page_of_nobody = ctypes.c_long(462), ctypes.c_long(1)
libc.syscall(mseal, page_of_nobody, ctypes.c_long(1), ctypes.c_long(0))
print(ctypes.get_errno())
"""


def call(*programs: bytes) -> int:
    """Return the errno of the call under a filter, or without one."""
    command = [sys.executable, "-c", CALL, *(program.hex() for program in programs)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_a_call_above_the_last_reviewed_one_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    if call() == ENOSYS:
        pytest.skip("this kernel has no such call")
    assert call(seccomp.program()) == EINVAL
    monkeypatch.setattr(seccomp, "_LAST_REVIEWED", 461)
    assert call(seccomp.program()) == ENOSYS
