"""Documents whose examples are executed.

```python mine.py      a file: its name stands after the language
```console             a session: `$ ` before what is typed (further lines of it: `> `), then what it prints, where
$ intercode …          `…` stands for anything within a line, and on a line of its own for any lines
```
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    file: str | None
    body: str


class Command(NamedTuple):
    typed: str
    prints: str


def blocks(document: Path) -> list[Block]:
    return [Block(language, file or None, body) for language, file, body in _FENCE.findall(document.read_text("utf-8"))]


def commands(body: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        typed, *lines = part.split("\n")
        while lines and lines[0].startswith("> "):
            typed += "\n" + lines.pop(0)[2:]
        yield Command(typed, "\n".join(lines).strip())


def fits(shown: str, printed: str) -> bool:
    """Whether `printed` is what a document shows; blanks at the ends of lines do not count."""
    lines = _trimmed(shown).split("\n")
    pattern = "".join("(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + "\n" for line in lines)
    return re.fullmatch(pattern, _trimmed(printed) + "\n") is not None


def carry_out(document: Path, folder: Path, environment: Mapping[str, str], *, seconds: float = 120) -> int:
    """Write the document's files into `folder`, type its commands there in turn, and compare; how many commands there were."""
    count = 0
    for block in blocks(document):
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.body, "utf-8")
        for command in commands(block.body) if block.language == "console" else ():
            printed = _type(command.typed, folder, environment, seconds)
            assert fits(command.prints, printed), f"$ {command.typed}\nshould print:\n{command.prints}\nprints:\n{printed}"
            count += 1
    return count


def _type(command: str, folder: Path, environment: Mapping[str, str], seconds: float) -> str:
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    return done.stdout


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))
