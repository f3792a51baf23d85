"""Files of the repository that a script writes."""

from __future__ import annotations

import sys
from pathlib import Path


def write_or_check(path: Path, text: str) -> int:
    """Write a file, or with `--check` return 1 if it has another text."""
    if "--check" in sys.argv:
        return path.read_text("utf-8") != text
    path.write_text(text, "utf-8")
    return 0
