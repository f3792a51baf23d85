"""Check each `pip install` line of the documents, the examples and the messages.

    .venv/bin/python scripts/install_lines.py

Print the lines. Exit status 1 if one names this package other than by its folder (it is on no
index) or an extra that does not exist. `printed_commands.py` resolves them.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
_LINE = re.compile(r"pip install ([^-{`\"#\n&)][^`\"#\n&)]*?)(?=  | *[`\"#\n&)])")


def printed_lines(root: Path) -> list[str]:
    """Return what follows `pip install` in the tracked files of a clone."""
    command = ["git", "ls-files", "*.md", "docs/*.txt", "src/*.py", "examples"]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    texts = [(root / name).read_text(errors="replace") for name in done.stdout.split()]
    return sorted(set(_LINE.findall("\n".join(texts))))


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras, faults = project["optional-dependencies"], []
    for line in printed_lines(ROOT):
        print(f"pip install {line}")
        for word in shlex.split(line):
            ours = re.fullmatch(r"\.(?:\[([\w,]+)\])?", word)
            unknown = {*(ours[1] or "").split(",")} - {"", *extras} if ours else set()
            if unknown or "intercode" in word:
                faults.append(line)
    for line in faults:
        print(f"does not work: pip install {line}", file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
