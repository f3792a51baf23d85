"""What was typed before, for the arrow keys: one file per language, one JSON text a line, since actions have many lines.

$XDG_STATE_HOME/intercode/history.LANGUAGE       ~/.local/state if it is not set; readable by its owner only
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType

KEPT = 1000


class History:
    """Without a terminal or readline there is none; where the file cannot be written, it lasts as long as the program."""

    def __init__(self, language: str) -> None:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self._file = Path(state) / "intercode" / f"history.{language}"
        self._readline = _readline()
        if self._readline:
            for text in self._past():
                self._readline.add_history(text)

    def add(self, text: str) -> None:
        if self._readline is None:
            return
        self._readline.add_history(text)
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with open(descriptor, "a", encoding="utf-8") as file:
                file.write(json.dumps(text) + "\n")

    def typed(self) -> str:
        """What stands in the line that is being typed."""
        return "" if self._readline is None else self._readline.get_line_buffer()

    def _past(self) -> list[str]:
        try:
            lines = self._file.read_text("utf-8").splitlines()
            return [str(json.loads(line)) for line in lines[-KEPT:]]
        except (OSError, ValueError):
            return []


def _readline() -> ModuleType | None:
    if not sys.stdin.isatty():
        return None
    try:
        import readline
    except ImportError:
        return None
    readline.clear_history()
    readline.set_auto_history(False)
    return readline
