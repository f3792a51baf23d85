"""A document's commands, as a reader follows them: its files are written, its lines typed, and what
they print is compared.

`name.py` …: and a fenced block    that file, the last one that the paragraph before names
```console                         `$ line` and what it prints; … stands for anything, blanks count
                                   as one
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_FILE = re.compile(r"`([\w/]+\.(?:jsonl?|py|sh)|[\w/]*Dockerfile)`")


@dataclass(frozen=True)
class Step:
    """A file to write, or a line to type with what it should print."""

    file: str | None
    text: str
    printed: str = ""


def steps(document: str) -> list[Step]:
    found, end = [], 0
    for block in BLOCK.finditer(document):
        before, end = document[end : block.start()].rstrip(), block.end()
        paragraph = before.rpartition("\n\n")[2]
        named = _FILE.findall(paragraph)
        if block[1] == "console":
            typed = [
                part.partition("\n") for part in re.split(r"^\$ ", block[2], flags=re.MULTILINE)[1:]
            ]
            found += [Step(None, line, printed) for line, _, printed in typed]
        elif named:
            found.append(Step(named[-1], block[2]))
    return found


def follow(
    step: Step, folder: Path, environment: Mapping[str, str], *, ends: Sequence[int] = (0,)
) -> None:
    """Raises AssertionError with what was printed where that differs, or the line ends with another
    status."""
    if step.file:
        path = folder / step.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step.text)
        return
    done = subprocess.run(
        ["bash", "-c", step.text],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode in ends, f"$ {step.text}\n{done.stdout}"
    pattern = ".*?".join(re.escape(part) for part in re.split(" ?… ?", _blanks(step.printed)))
    assert re.fullmatch(pattern, _blanks(done.stdout), re.DOTALL), f"$ {step.text}\n{done.stdout}"


def _blanks(text: str) -> str:
    return " ".join(text.split())
