"""The program that is pid 1 for the agent: sends signals to all other processes on request, and
ends with its standard input.

    loop: if read(0, byte, 1) ≤ 0: exit_group(0)
          kill(-1, byte)
          write(0, byte, 1)

Each episode starts one, so it is a statically linked ELF file of 178 bytes: a bash takes ten times
its 0.1 ms. It is called bash, as the first process in a container often is, and the agent may look
into it too: `find /` must not fail at /proc/1. On processors other than x86_64, the file is a copy
of this machine's bash.
"""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

from intercode_sandbox.identity import identity

_X86_64 = (
    "31c0"  # loop: xor eax, eax (read)
    "31ff"  # xor edi, edi
    "488d7424c0"  # lea rsi, [rsp - 64]
    "ba01000000"  # mov edx, 1
    "0f05"  # syscall
    "85c0"  # test eax, eax
    "7e1f"  # jle end
    "b83e000000"  # mov eax, 62 (kill)
    "83cfff"  # or edi, -1
    "0fb67424c0"  # movzx esi, byte [rsp - 64]
    "0f05"  # syscall
    "b801000000"  # mov eax, 1 (write)
    "31ff"  # xor edi, edi
    "488d7424c0"  # lea rsi, [rsp - 64]
    "0f05"  # syscall
    "ebcd"  # jmp loop
    "b8e7000000"  # end: mov eax, 231 (exit_group)
    "0f05"  # syscall
)
_BASE = 0x400000
_HEADERS = 64 + 56
_MACHINE_X86_64, _LOAD, _READ_AND_EXECUTE, _PAGE = 62, 1, 5, 4096


def write(folder: Path) -> None:
    """Write the program as the file `bash` in `folder`."""
    path = folder / "bash"
    if os.uname().machine == "x86_64":
        path.write_bytes(_elf(bytes.fromhex(_X86_64)))
    else:
        shutil.copyfile("/bin/bash", path)
    identity().own(path)
    path.chmod(0o555)


def _elf(code: bytes) -> bytes:
    """Return an ELF file of one segment, with the headers and the code (System V gABI, chapters 4
    and 5)."""
    entry = _BASE + _HEADERS
    size = _HEADERS + len(code)
    kind = b"\x7fELF" + bytes([2, 1, 1]).ljust(12, b"\0")
    head = struct.pack("<HHIQQQIHHHHHH", 2, _MACHINE_X86_64, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return (
        kind
        + head
        + struct.pack("<IIQQQQQQ", _LOAD, _READ_AND_EXECUTE, 0, _BASE, _BASE, size, size, _PAGE)
        + code
    )
