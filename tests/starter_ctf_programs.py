"""The programs of the CTF starter set: native code, bytecode, and code for a machine that never was."""

from __future__ import annotations

import dis
import io
import random
import subprocess
import tempfile
from pathlib import Path

from starter_ctf_flags import Made, maker

GATE = r"""
static const unsigned char table[] = { %s };
static long call(long n, long a, const void *b, long c) {
    long r; __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory"); return r;
}
void _start(void) {
    unsigned char word[64]; long got = call(0, 0, word, 64), right = 0;
    for (unsigned i = 0; i < sizeof table && i < got; i++, right++)
        if ((unsigned char)((word[i] ^ (0x35 + 11 * i)) + 3 * i) != table[i]) break;
    if (right == sizeof table) call(1, 1, "open\n", 5); else call(1, 1, "shut\n", 5);
    call(60, right, 0, 0); __builtin_unreachable();
}
"""


@maker("gate")
def _gate(hidden: str, noise: random.Random) -> Made:
    """x86-64 without a C library; its exit status tells how many letters from the left were right."""
    table = ", ".join(str(((byte ^ (0x35 + 11 * i) & 255) + 3 * i) & 255) for i, byte in enumerate(hidden.encode()))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "gate.c").write_text(GATE % table)
        options = (
            "-Os -static -nostdlib -fno-stack-protector -fno-asynchronous-unwind-tables -Wl,--build-id=none,-N -o gate gate.c"
        )
        subprocess.run(["gcc", *options.split()], cwd=folder, check=True)
        return {"gate": Path(folder, "gate").read_bytes()}


LISTED = """
def check(word):
    if len(word) != {length}:
        return False
    carry = 90
    for place, letter in enumerate(word):
        carry = (ord(letter) * 7 + place * 13 ^ carry) % 256
        if carry != WANTED[place]:
            return False
    return True
"""


@maker("listing")
def _listing(hidden: str, noise: random.Random) -> Made:
    wanted, carry, held = [], 90, io.StringIO()
    for place, letter in enumerate(hidden):
        carry = (ord(letter) * 7 + place * 13 ^ carry) % 256
        wanted.append(carry)
    dis.dis(compile(LISTED.format(length=len(hidden)), "check", "exec").co_consts[0], file=held)
    return {"check.dis": f"WANTED = {bytes(wanted).hex(' ')} (hex)\n\n{held.getvalue()}".encode()}


@maker("tide-machine")
def _tide_machine(hidden: str, noise: random.Random) -> Made:
    manual = (
        "TIDE-4, a machine with one register R of 8 bits, 0 at the start. All sums are modulo 256.\n"
        "  READ      take the next letter of the input; R becomes R xor its code\n"
        "  MUL n     R becomes R times n\n"
        "  ADD n     R becomes R plus n\n"
        "  SWAP      the upper and the lower four bits of R change places\n"
        "  MUST n    stop with status 1 unless R is n\n"
        "  HALT      stop with status 0\n"
    )
    lines, r = [], 0
    for byte in hidden.encode():
        factor, extra = noise.choice([3, 5, 7, 11, 13]), noise.randrange(256)
        r = ((r ^ byte) * factor + extra) % 256
        r = r >> 4 | (r & 15) << 4
        lines += ["READ", f"MUL {factor}", f"ADD {extra}", "SWAP", f"MUST {r}"]
    return {"manual.txt": manual.encode(), "lock.tide": "\n".join([*lines, "HALT", ""]).encode()}
