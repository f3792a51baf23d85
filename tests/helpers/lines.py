"""The episodes that a run has written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def episodes(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's episodes.jsonl, without the time that each turn took, which differs
    between equal runs."""
    found = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    for episode in found:
        for turn in episode["turns"]:
            assert turn.pop("seconds") >= 0
            assert turn.pop("reply_seconds", 0) >= 0
    return found
