"""Executed inside by the tests: every readable place that holds one of the words, which come turned
around.

    python3 flag_search.py WORD… /ROOT…

Files whole; of each process its variables, arguments and all memory that it can be read of. Its own
is left out.
"""

from __future__ import annotations

import os
import re
import sys

WORDS = [word[::-1].encode() for word in sys.argv[1:] if not word.startswith("/")]
START = WORDS[0].partition(b"{")[0]
"""What all flags begin with; looked for first, since one plain text is found fastest."""
PATTERN = re.compile(b"|".join(map(re.escape, WORDS)))


def look(path: str, spans: list[tuple[int, int]]) -> None:
    try:
        with open(path, "rb", 0) as file:
            for start, end in spans:
                try:
                    file.seek(start)
                    data = file.read(min(end - start, 1 << 28))
                except (OSError, OverflowError, ValueError):
                    continue
                if data and START in data and PATTERN.search(data):
                    print(path)
                    return
    except OSError:
        pass


def look_at_processes() -> None:
    for process in filter(str.isdigit, os.listdir("/proc")):
        if int(process) != os.getpid():
            look(f"/proc/{process}/environ", [(0, 1 << 28)])
            look(f"/proc/{process}/cmdline", [(0, 1 << 28)])
            try:
                lines = open(f"/proc/{process}/maps").read().splitlines()
            except OSError:
                continue
            spans = [[int(word, 16) for word in line.split()[0].split("-")] for line in lines]
            look(f"/proc/{process}/mem", [(start, end) for start, end in spans])


for root in filter(lambda word: word.startswith("/"), sys.argv[1:]):
    if root == "/proc":
        look_at_processes()
        continue
    for folder, _, files in os.walk(root):
        for path in (os.path.join(folder, name) for name in files):
            if os.path.isfile(path) and not os.path.islink(path):
                look(path, [(0, os.path.getsize(path))])
