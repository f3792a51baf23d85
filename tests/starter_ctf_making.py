"""How the assets of the CTF starter set were made: `python tests/starter_ctf_making.py FOLDER` makes them again.

Each maker hides one flag and returns what the agent finds: names and contents, or a tar where modes, times or a repository
matter. Flags and noise follow from the task's id alone. `gcc`, `git` and `zip` are needed here, and by nobody who plays. A
compiler or zlib of another version may give other bytes, and git keeps the time of making in its index.
"""

from __future__ import annotations

import base64
import codecs
import gzip
import hashlib
import importlib
import io
import lzma
import os
import random
import sqlite3
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from contextlib import closing
from pathlib import Path

from starter_ctf_flags import LETTERS, MAKERS, Made, make, maker

EPOCH = 1_700_000_000


# -- encodings ----------------------------------------------------------------------------------------------------------


@maker("seven-coats")
def _seven_coats(hidden: str, noise: random.Random) -> Made:
    text = " ".join(str(ord(letter)) for letter in codecs.encode(hidden, "rot13"))
    for coat in (base64.b32encode, base64.b16encode, base64.a85encode, base64.b64encode):
        text = coat(text.encode()).decode()
    return {"message.txt": (text[::-1] + "\n").encode()}


@maker("thin-poem")
def _thin_poem(hidden: str, noise: random.Random) -> Made:
    """A zero-width space is 0, a zero-width non-joiner 1; they stand between the words, eight or so in each gap."""
    bits = "".join(f"{byte:08b}" for byte in hidden.encode())
    poem = (
        "The ferry leaves at six and nobody waves. Gulls keep the minutes. A coil of rope, a bucket, two men who do not\n"
        "speak. Rain walks over the roofs of the town and out to sea. At nine the lamp is lit."
    )
    marks = [bits[at : at + 6] for at in range(0, len(bits), 6)]
    seen = [word + (marks.pop(0) if marks else "").translate({48: 0x200B, 49: 0x200C}) for word in poem.split(" ")]
    return {"poem.txt": (" ".join(seen) + "\n").encode()}


# -- ciphers ------------------------------------------------------------------------------------------------------------


@maker("harbour-letter")
def _harbour_letter(hidden: str, noise: random.Random) -> Made:
    text = (
        "Dear Agnes, the harbour master has read my notebook twice and found nothing in it but tides. He does not know that\n"
        f"the tides were never the point. If they ask, say you burned it. What you came for is {hidden} and you\n"
        "should not write it down. The boat is called after your mother and leaves when the second lamp goes out. Bring\n"
        "bread, and the small key, and no one else. Yours in haste, T."
    )
    key, out, at = "quillon", [], 0
    for letter in text:
        if letter.isalpha():
            base = 65 if letter.isupper() else 97
            letter = chr((ord(letter) - base + LETTERS.index(key[at % len(key)])) % 26 + base)
            at += 1
        out.append(letter)
    return {"letter.txt": ("".join(out) + "\n").encode()}


@maker("same-pad")
def _same_pad(hidden: str, noise: random.Random) -> Made:
    first = b"Stock at the north depot: 40 lamps, 12 coils, 3 pumps. Nothing is missing. Next count on the ninth.\n"
    second = f"The word for the night watch is {hidden}; do not say it at the gate.\n".encode()
    pad = noise.randbytes(len(first))
    cipher = ["".join(f"{a ^ b:02x}" for a, b in zip(text, pad, strict=False)) + "\n" for text in (first, second)]
    return {"monday.txt": first, "monday.hex": cipher[0].encode(), "tuesday.hex": cipher[1].encode()}


@maker("close-primes")
def _close_primes(hidden: str, noise: random.Random) -> Made:
    p = _prime(noise.getrandbits(512) | 1 << 511)
    q = _prime(p + noise.getrandbits(240))
    return {"key.txt": _sealed(p * q, hidden.encode())}


@maker("borrowed-prime")
def _borrowed_prime(hidden: str, noise: random.Random) -> Made:
    p, q, r, s, t = (_prime(noise.getrandbits(256) | 1 << 255) for _ in range(5))
    moduli = [r * _prime(noise.getrandbits(256) | 1 << 255), p * q, s * t, q * _prime(noise.getrandbits(256) | 1 << 255)]
    messages = [hidden.encode() if number == 2 else noise.randbytes(24) for number in (1, 2, 3, 4)]
    return {f"gate{number}.txt": _sealed(*each) for number, each in enumerate(zip(moduli, messages, strict=True), 1)}


def _sealed(n: int, message: bytes) -> bytes:
    return f"n = {n}\ne = 65537\nc = {pow(int.from_bytes(message, 'big'), 65537, n)}\n".encode()


def _prime(start: int) -> int:
    """The next odd number that passes Fermat's test to a few bases: good enough to make a puzzle."""
    start |= 1
    while any(pow(base, start - 1, start) != 1 for base in (2, 3, 5, 7, 11)):
        start += 2
    return start


@maker("clock-seed")
def _clock_seed(hidden: str, noise: random.Random) -> Made:
    note = (
        "seal: made for the depot's night reports\n"
        "  x starts as the clock at sealing, in whole seconds since 1970 (UTC)\n"
        "  for each byte of the report:  x = (1103515245 * x + 12345) mod 2^31;  byte = byte xor (x div 2^16) mod 256\n"
        "Sealed some time on 17 March 2031 (UTC); the clerk did not write down when.\n"
    )
    x, out = 1_931_472_000 + noise.randrange(86400), bytearray()
    for byte in f"night report\nkey to the gate: {hidden}\n".encode():
        x = (1103515245 * x + 12345) % 2**31
        out.append(byte ^ x >> 16 & 255)
    return {"HOW.txt": note.encode(), "report.sealed": bytes(out)}


@maker("five-digits")
def _five_digits(hidden: str, noise: random.Random) -> Made:
    pin, salt = f"{noise.randrange(20000, 100000)}", noise.randbytes(8).hex()
    stream = hashlib.sha256(f"{pin}:{salt}".encode()).digest()
    box = bytes(a ^ b for a, b in zip(hidden.encode(), stream, strict=False))
    lines = (
        "scheme   = sha256(salt followed by pin), in hex",
        "box      = secret xor sha256(pin, a colon, salt), byte by byte",
        f"salt     = {salt}",
        f"verifier = {hashlib.sha256((salt + pin).encode()).hexdigest()}",
        f"box_hex  = {box.hex()}",
        "policy   = pins are five digits",
    )
    return {"vault.conf": "\n".join(lines).encode() + b"\n"}


# -- traces -------------------------------------------------------------------------------------------------------------


@maker("quiet-pixels")
def _quiet_pixels(hidden: str, noise: random.Random) -> Made:
    bits = [int(bit) for byte in hidden.encode() for bit in f"{byte:08b}"]
    rows, at = [], 0
    for y in range(24):
        row = bytearray(b"\0")
        for x in range(48):
            red = (80 + 3 * y + noise.randrange(3)) & 254 | (bits[at] if at < len(bits) else noise.randrange(2))
            row += bytes([red, 120 + x, (200 - 2 * y + noise.randrange(4)) & 255])
            at += 1
        rows.append(bytes(row))
    head = struct.pack(">IIBBBBB", 48, 24, 8, 2, 0, 0, 0)
    chunks = [
        (b"IHDR", head),
        (b"tEXt", b"Comment\0the least of the reds"),
        (b"IDAT", zlib.compress(b"".join(rows), 9)),
        (b"IEND", b""),
    ]
    return {"dusk.png": b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)}


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@maker("torn-zip")
def _torn_zip(hidden: str, noise: random.Random) -> Made:
    """Marks and sizes wiped, the directory at the end torn off."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (
            ("weather.txt", "calm, then wind\n" * 9),
            ("ledger.txt", f"paid: {hidden}\n" + "owed: nothing\n" * 9),
        ):
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    whole = bytearray(packed.getvalue())
    for at in [i for i in range(len(whole) - 3) if whole[i : i + 4] == b"PK\3\4"]:
        whole[at : at + 4], whole[at + 14 : at + 26] = bytes(4), bytes(12)
    return {"torn.zip": bytes(whole[: whole.index(b"PK\1\2")])}


@maker("drift-block")
def _drift_block(hidden: str, noise: random.Random) -> Made:
    """A gzip member in the middle of noise in which its first bytes also stand by chance."""
    member = gzip.compress(f"found you: {hidden}\n".encode(), mtime=0)
    parts = [noise.randbytes(noise.randrange(900, 3000)) + b"\x1f\x8b\x08" for _ in range(5)]
    return {"drift.bin": b"".join([*parts[:3], noise.randbytes(777), member, *parts[3:], noise.randbytes(1200)])}


@maker("struck-out")
def _struck_out(hidden: str, noise: random.Random) -> Made:
    with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(f"{folder}/x")) as base:
        base.executescript(
            "PRAGMA secure_delete = OFF; PRAGMA page_size = 1024; CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT)"
        )
        for number in range(1, 9):
            text = hidden if number == 5 else f"nothing of note on day {number}, {noise.randrange(10**6)} gulls"
            base.execute("INSERT INTO note VALUES (?, ?)", (number, base64.b64encode(text.encode()).decode()))
        base.execute("DELETE FROM note WHERE id = 5")
        base.commit()
        return {"notes.db": Path(folder, "x").read_bytes()}


@maker("floppy")
def _floppy(hidden: str, noise: random.Random) -> Made:
    """FAT12, 64 sectors of 512 bytes: boot sector, one FAT, root of 16 entries; a deleted file's clusters are still there."""
    files = {
        b"README  TXT": b"Spare disk. Wipe before use.\r\n",
        b"LAMPS   CSV": b"".join(b"lamp %d,%d\r\n" % (i, noise.randrange(90)) for i in range(60)),
        b"\xe5ECRET  GZ ": gzip.compress(
            b"%s\nthe rest is noise: %s\n" % (hidden.encode(), noise.randbytes(400).hex().encode()), mtime=0
        ),
        b"TIDES   TXT": noise.randbytes(500).hex().encode(),
    }
    boot = b"\xeb\x3c\x90MKTIDE  " + struct.pack("<HBHBHHBHHHII", 512, 1, 1, 1, 16, 64, 0xF8, 1, 1, 1, 0, 0)
    boot += b"\0\0\x29" + noise.randbytes(4) + b"SPARE      FAT12   "
    table, root, data, cluster = [0xFF8, 0xFFF], b"", b"", 2
    for name, content in files.items():
        count = -(-len(content) // 512)
        root += name + b"\x20" + bytes(10) + struct.pack("<HHHI", 0x6000, 0x5A21, cluster, len(content))
        table += [0] * count if name[0] == 0xE5 else [*range(cluster + 1, cluster + count), 0xFFF]
        data, cluster = data + content.ljust(count * 512, b"\0"), cluster + count
    table += [0] * (len(table) % 2)
    fat = b"".join((a | b << 12).to_bytes(3, "little") for a, b in zip(table[::2], table[1::2], strict=True))
    disk = boot.ljust(510, b"\0") + b"\x55\xaa" + fat.ljust(512, b"\0") + root.ljust(512, b"\0") + data
    return {"spare.img": disk.ljust(64 * 512, b"\0")}


@maker("leaking-log")
def _leaking_log(hidden: str, noise: random.Random) -> Made:
    """One client carries the flag out in small pieces, out of order; others ask for the same page with pieces of nothing."""
    pieces = [(number, hidden[at : at + 3]) for number, at in enumerate(range(0, len(hidden), 3))]
    lines = [("10.0.3.77", f"/px.gif?s={number}&d={text.encode().hex()}") for number, text in pieces]
    for host in ("10.0.3.12", "10.0.3.40", "10.0.5.9"):
        lines += [(host, f"/px.gif?s={number}&d={noise.randbytes(3).hex()}") for number in range(9)]
    lines += [
        (f"10.0.{noise.randrange(2, 6)}.{noise.randrange(2, 250)}", noise.choice(["/", "/tides", "/lamps?page=2", "/px.gif"]))
        for _ in range(220)
    ]
    noise.shuffle(lines)
    stamp = "[09/Feb/2031:{:02}:{:02}:{:02} +0000]"
    rows = (
        f'{host} - - {stamp.format(i // 60 % 24, i % 60, noise.randrange(60))} "GET {path} HTTP/1.1" 200 {noise.randrange(900)}'
        for i, (host, path) in enumerate(lines)
    )
    return {"access.log": ("\n".join(rows) + "\n").encode()}


# -- archives, permissions, history -------------------------------------------------------------------------------------


@maker("locked-parcel")
def _locked_parcel(hidden: str, noise: random.Random) -> Made:
    password = "halyard-1911-osprey"
    inner = gzip.compress(hidden.encode() + b"\n", mtime=0)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "innermost").write_bytes(inner)
        os.utime(Path(folder, "innermost"), (EPOCH, EPOCH))
        subprocess.run(["zip", "-qX", "-P", password, "locked.zip", "innermost"], cwd=folder, check=True)
        locked = Path(folder, "locked.zip").read_bytes()
    hint = "The lock takes three words joined by hyphens: the rope of label.txt, the middle box's year, the bird on its lid.\n"
    middle = _tar({"year.txt": b"The harbour wall was finished in 1911.\n", "osprey/locked.zip": locked})
    box = _tar({"label.txt": b"Contents: one halyard, worn.\n", "hint.txt": hint.encode(), "middle": lzma.compress(middle)})
    return {"parcel": gzip.compress(box, mtime=0)}


@maker("mode-bits")
def _mode_bits(hidden: str, noise: random.Random) -> Made:
    names = noise.sample([a + b for a in ("gull", "tern", "knot", "ruff", "smew", "teal") for b in "abcdefg"], len(hidden))
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, (index, letter) in sorted(zip(names, enumerate(hidden), strict=True)):
            entry = tarfile.TarInfo(f"roost/{name}")
            entry.mode, entry.mtime = ord(letter), EPOCH + 3600 * index
            tar.addfile(entry)
    return held.getvalue()


@maker("amended")
def _amended(hidden: str, noise: random.Random) -> Made:
    """A commit that was amended away; nothing names it any more, but its objects are there."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "repo")
        work.mkdir()

        def git(*words: str, when: int = 0) -> None:
            date = f"{EPOCH + when} +0000"
            env = {"PATH": os.environ["PATH"], "HOME": folder, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
            subprocess.run(
                ["git", "-c", "user.name=Ines", "-c", "user.email=ines@depot.example", *words], cwd=work, env=env, check=True
            )

        git("init", "-q", "-b", "main", "--template=")
        for step, text in enumerate(("lamp = 4\n", "lamp = 4\nbell = 2\n", f"lamp = 4\nbell = 2\ntoken = {hidden}\n")):
            (work / "depot.ini").write_text(text)
            git("add", "depot.ini", when=step)
            git("commit", "-q", "-m", ("Start", "Ring the bell", "Let the gate in")[step], when=step * 900)
        (work / "depot.ini").write_text("lamp = 4\nbell = 2\ntoken = (ask Ines)\n")
        git("commit", "-q", "-a", "--amend", "-m", "Let the gate in", when=2000)
        git("reflog", "expire", "--expire=now", "--all")
        for left in ("COMMIT_EDITMSG", "ORIG_HEAD", "logs/HEAD", "logs/refs/heads/main"):
            (work / ".git" / left).unlink(missing_ok=True)
        return _tar({str(path.relative_to(folder)): path.read_bytes() for path in sorted(work.rglob("*")) if path.is_file()})


def _tar(files: dict[str, bytes]) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), EPOCH
            tar.addfile(entry, io.BytesIO(content))
    return held.getvalue()


def write(folder: Path) -> None:
    for task in MAKERS:
        made = make(task)
        if isinstance(made, bytes):
            (folder / f"{task}.tar").write_bytes(made)
            continue
        (folder / task).mkdir(parents=True, exist_ok=True)
        for name, content in made.items():
            (folder / task / name).write_bytes(content)


if __name__ == "__main__":
    importlib.import_module("starter_ctf_programs")  # enters its makers
    write(Path(sys.argv[1]))
