"""Executed inside by the tests: every readable place that holds one of the words, which come turned around.

    python3 flag_search.py WORD… /ROOT…

Files whole; of each process its variables, arguments and all memory that it can be read of. Its own memory is left out.
"""

from __future__ import annotations

import os
import re
import sys

WORDS = [word for word in sys.argv[1:] if not word.startswith("/")]
ROOTS = [word for word in sys.argv[1:] if word.startswith("/")]
PATTERN = re.compile(b"|".join(re.escape(word[::-1].encode()) for word in WORDS))
START = WORDS[0][::-1].partition("{")[0].encode()
"""What all flags begin with; looked for first, since one plain text is found fastest."""
PIECE = 1 << 24


def in_bytes(data: bytes) -> bool:
    return START in data and PATTERN.search(data) is not None


def holds(path: str) -> bool:
    """Pieces overlap by more than a word."""
    before = b""
    try:
        with open(path, "rb") as file:
            while piece := file.read(PIECE):
                if in_bytes(before + piece):
                    return True
                before = piece[-256:]
    except OSError:
        pass
    return False


def memory_holds(process: str) -> bool:
    try:
        with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
            for line in maps:
                start, end = (int(word, 16) for word in line.split()[0].split("-"))
                if part_holds(memory, start, end):
                    return True
    except OSError:
        pass
    return False


def part_holds(memory: object, start: int, end: int) -> bool:
    try:
        memory.seek(start)  # type: ignore[attr-defined]
        return in_bytes(memory.read(min(end - start, 1 << 28)))  # type: ignore[attr-defined]
    except (OSError, OverflowError, ValueError):
        return False


def search_processes() -> None:
    for process in filter(str.isdigit, os.listdir("/proc")):
        if int(process) == os.getpid():
            continue
        for name in ("environ", "cmdline"):
            if holds(f"/proc/{process}/{name}"):
                print(f"/proc/{process}/{name}")
        if memory_holds(process):
            print(f"/proc/{process}/mem")


for root in ROOTS:
    if root == "/proc":
        search_processes()
        continue
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path) and holds(path):
                print(path)
