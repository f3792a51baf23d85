"""Second solvers for the CTF starter set, written apart from the golds and in another way where there is one.

Each gets what the agent gets, names and contents (`modes` has a tar's modes and times), and returns the flag.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import itertools
import lzma
import math
import platform
import re
import stat
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

Files = Mapping[str, bytes]
FLAG = re.compile(rb"intercode\{[a-z]{16}\}")
FREQUENT = dict(zip("etaoinshrdlcumwfgypbvkjxqz", (12.7, 9.1, 8.2, 7.5, 7, 6.7, 6.3, 6.1, 6, 4.3, 4, 2.8, 2.8, 2.4, 2.4, 2.2, 2, 2, 1.9, 1.5, 1, 0.8, 0.2, 0.2, 0.1, 0.1), strict=True))  # fmt: skip  # noqa: E501


def found(text: bytes) -> str | None:
    hit = FLAG.search(text)
    return hit[0].decode() if hit else None


def first(texts: Iterator[bytes]) -> str | None:
    return next((flag for text in texts if (flag := found(text))), None)


def seven_coats(files: Files) -> str | None:
    """Breadth first: whatever decodes is a coat."""
    rot = bytes.maketrans(b"abcdefghijklmnopqrstuvwxyz", b"nopqrstuvwxyzabcdefghijklm")
    coats: list[Callable[[bytes], bytes]] = [
        lambda text: text[::-1],
        lambda text: text.translate(rot),
        lambda text: bytes(int(code) for code in text.split()),
        base64.b16decode,
        base64.b32decode,
        base64.a85decode,
        lambda text: base64.b64decode(text, validate=True),
    ]
    layer = {files["message.txt"].strip()}
    while layer:
        if flag := first(iter(layer)):
            return flag
        layer = {under for text in layer for under in _taken_off(text, coats) if under and under.isascii()}
    return None


def _taken_off(text: bytes, coats: list[Callable[[bytes], bytes]]) -> Iterator[bytes]:
    for coat in coats:
        with suppress(ValueError):
            yield coat(text)


def thin_poem(files: Files) -> str | None:
    marks = re.findall("[\u200b\u200c]", files["poem.txt"].decode())
    number = sum((mark == "\u200c") << place for place, mark in enumerate(reversed(marks)))
    return found(number.to_bytes(len(marks) // 8, "big"))


def harbour_letter(files: Files) -> str | None:
    """By the frequencies of English alone, without the known word."""
    text = files["letter.txt"].decode()
    letters = [ord(letter) - 97 for letter in text.lower() if letter.isalpha()]
    for period in range(2, 12):
        key = [_likeliest(letters[start::period]) for start in range(period)]
        clear = iter(chr((code - key[at % period]) % 26 + 97) for at, code in enumerate(letters))
        if flag := found("".join(next(clear) if letter.isalpha() else letter for letter in text).encode()):
            return flag
    return None


def _likeliest(column: list[int]) -> int:
    counts = Counter(column)
    return max(
        range(26), key=lambda shift: sum(n * math.log(FREQUENT[chr((code - shift) % 26 + 97)]) for code, n in counts.items())
    )


def same_pad(files: Files) -> str | None:
    size = len(files["tuesday.hex"].strip()) // 2
    one, other = (int(files[name][: 2 * size], 16) for name in ("monday.hex", "tuesday.hex"))
    return found((one ^ other ^ int.from_bytes(files["monday.txt"][:size], "big")).to_bytes(size, "big"))


def close_primes(files: Files) -> str | None:
    """The sum of the primes is a little more than twice the root."""
    n, e, c = _numbers(files["key.txt"])
    total = next(
        s for s in itertools.count(math.isqrt(4 * n)) if s * s >= 4 * n and math.isqrt(s * s - 4 * n) ** 2 == s * s - 4 * n
    )
    return found(_bytes(pow(c, pow(e, -1, n - total + 1), n)))


def borrowed_prime(files: Files) -> str | None:
    """Each modulus against the product of all the others."""
    keys = [_numbers(text) for text in files.values()]
    product = math.prod(n for n, _, _ in keys)
    shared = ((math.gcd(n, product // n), n, e, c) for n, e, c in keys)
    return first(_bytes(pow(c, pow(e, -1, math.lcm(p - 1, n // p - 1)), n)) for p, n, e, c in shared if 1 < p < n)


def _numbers(text: bytes) -> list[int]:
    return [int(number) for number in re.findall(rb"= (\d+)", text)]


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def clock_seed(files: Files) -> str | None:
    """The generator's constants after k steps, so that each byte is reached from the seed at once; the day by itself."""
    import datetime

    sealed = files["report.sealed"]
    start = int(datetime.datetime(2031, 3, 17, tzinfo=datetime.UTC).timestamp())
    steps, a, b = [], 1, 0
    for _ in sealed:
        a, b = a * 1103515245 % 2**31, (b * 1103515245 + 12345) % 2**31
        steps.append((a, b))

    def opened(seed: int) -> bytes:
        return bytes(byte ^ ((a * seed + b) % 2**31 // 65536) % 256 for byte, (a, b) in zip(sealed, steps, strict=True))

    return first(opened(start + second) for second in range(86400))


def five_digits(files: Files) -> str | None:
    """By the form of what is in the box, without the verifier."""
    conf = {
        key.strip(): value.strip() for key, value in (line.split("=") for line in files["vault.conf"].decode().splitlines())
    }
    box = int(conf["box_hex"], 16)
    size = len(conf["box_hex"]) // 2
    pins = map("".join, itertools.product("0123456789", repeat=5))
    streams = (hashlib.sha256(f"{pin}:{conf['salt']}".encode()).digest()[:size] for pin in pins)
    return first((box ^ int.from_bytes(stream, "big")).to_bytes(size, "big") for stream in streams)


def quiet_pixels(files: Files) -> str | None:
    import numpy as np

    data = files["dusk.png"]
    at = data.index(b"IDAT")
    raw = np.frombuffer(zlib.decompress(data[at + 4 : at + 4 + int.from_bytes(data[at - 4 : at], "big")]), np.uint8)
    width, height = (int.from_bytes(data[place : place + 4], "big") for place in (16, 20))
    reds = raw.reshape(height, 1 + 3 * width)[:, 1::3]
    return found(np.packbits(reds & 1).tobytes())


def torn_zip(files: Files) -> str | None:
    """By the header's own fields: the length of the name says where the stream begins."""
    data = files["torn.zip"]
    starts = (at for at in range(len(data) - 30) if data[at : at + 4] == bytes(4) and data[at + 8 : at + 10] == b"\x08\0")
    sizes = ((at, int.from_bytes(data[at + 26 : at + 28], "little")) for at in starts)
    return first(zlib.decompressobj(-15).decompress(data[at + 30 + size :]) for at, size in sizes if 0 < size < 50)


def drift_block(files: Files) -> str | None:
    return first(_unzipped(files["drift.bin"], 1))


def floppy(files: Files) -> str | None:
    """Whatever gzip wrote at the start of a sector, without looking at the file system."""
    return first(_unzipped(files["spare.img"], 512))


def _unzipped(data: bytes, stride: int) -> Iterator[bytes]:
    for at in range(0, len(data), stride):
        if data[at : at + 2] == b"\x1f\x8b":
            with suppress(OSError, EOFError, zlib.error):
                yield gzip.GzipFile(fileobj=io.BytesIO(data[at:])).read1(4096)


def struck_out(files: Files) -> str | None:
    """All notes begin alike when encoded; a flag's first letters give its code away."""
    code = base64.b64encode(b"intercode{")[:12]
    at = files["notes.db"].index(code)
    return found(base64.b64decode(files["notes.db"][at : at + 36]))


def leaking_log(files: Files) -> str | None:
    sent: dict[bytes, list[tuple[int, bytes]]] = defaultdict(list)
    for line in files["access.log"].splitlines():
        if b"?s=" in line:
            number, piece = line.split(b"?s=")[1].split()[0].split(b"&d=")
            sent[line.split()[0]].append((int(number), bytes.fromhex(piece.decode())))
    return first(b"".join(piece for _, piece in sorted(pieces)) for pieces in sent.values())


def locked_parcel(files: Files) -> str | None:
    """Every word, year and folder of the boxes, three at a time."""
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(files["parcel"]))) as outer:
        boxed = {entry.name: outer.extractfile(entry).read() for entry in outer}  # type: ignore[union-attr]
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(boxed["middle"]))) as inner:
        birds = {Path(entry.name).parts[0] for entry in inner if "/" in entry.name}
        years = set(re.findall(r"\d{4}", inner.extractfile("year.txt").read().decode()))  # type: ignore[union-attr]
        locked = inner.extractfile(inner.getnames()[-1]).read()  # type: ignore[union-attr]
    ropes = set(re.findall(r"[a-z]{5,}", boxed["label.txt"].decode()))
    return first(_opened(locked, "-".join(words)) for words in itertools.product(ropes, years, birds))


def _opened(locked: bytes, password: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(locked)) as archive, suppress(RuntimeError, zlib.error, zipfile.BadZipFile):
        return gzip.decompress(archive.read(archive.namelist()[0], pwd=password.encode()))
    return b""


def mode_bits(modes: list[tarfile.TarInfo]) -> str | None:
    """As `ls -l` shows them."""
    shown = (stat.filemode(entry.mode)[1:] for entry in sorted(modes, key=lambda entry: entry.mtime))
    return found(bytes(int("".join("0" if bit == "-" else "1" for bit in mode), 2) for mode in shown))


def amended(files: Files) -> str | None:
    """Every object there is, without git."""
    return first(zlib.decompress(content) for name, content in files.items() if "/objects/" in name)


def gate(files: Files) -> str | None:
    """The program itself is asked: it ends with the number of letters that were right."""
    if platform.machine() != "x86_64":
        pytest.skip("the program is for x86-64")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "gate")
        program.write_bytes(files["gate"])
        program.chmod(0o755)
        word = b""
        while len(word) < 27:
            word = max((word + bytes([code]) for code in range(97, 126)), key=lambda guess: _right(program, guess))
        return found(word)


def _right(program: Path, guess: bytes) -> int:
    return subprocess.run([program], input=guess, stdout=subprocess.DEVNULL, check=False).returncode


def listing(files: Files) -> str | None:
    """Each letter from the value before it, by the inverse of 7."""
    wanted = bytes.fromhex(files["check.dis"].decode().splitlines()[0].split("= ")[1].removesuffix(" (hex)"))
    before = bytes([90]) + wanted
    letters = ((value ^ carry) - 13 * place for place, (value, carry) in enumerate(zip(wanted, before, strict=False)))
    return found(bytes(letter * pow(7, -1, 256) % 256 for letter in letters))


def tide_machine(files: Files) -> str | None:
    """Run forwards: of all letters the one with which the machine goes on."""
    blocks = files["lock.tide"].decode().split("READ\n")[1:]
    word, r = b"", 0
    for block in blocks:
        letter = next(code for code in range(256) if _passes(block, r ^ code) is not None)
        r = _passes(block, r ^ letter) or 0
        word += bytes([letter])
    return found(word)


def _passes(block: str, r: int) -> int | None:
    for op, *operand in (line.split() for line in block.splitlines()):
        n = int(operand[0]) if operand else 0
        if op == "MUST" and r != n:
            return None
        r = {"MUL": r * n % 256, "ADD": (r + n) % 256, "SWAP": r // 16 + r % 16 * 16}.get(op, r)
    return r


SOLVERS: dict[str, Callable[[Files], str | None]] = {
    solver.__name__.replace("_", "-"): solver
    for solver in (
        seven_coats, thin_poem, harbour_letter, same_pad, close_primes, borrowed_prime, clock_seed, five_digits, quiet_pixels,
        torn_zip, drift_block, floppy, struck_out, leaking_log, locked_parcel, amended, gate, listing, tide_machine,
    )
}  # fmt: skip
