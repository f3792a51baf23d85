"""The keyboard as a model: what is asked is shown, what is typed is the reply.

    bash> ls /box                    a line is an action
    bash> ```                        what stands between two lines ``` is one action as it is
      ..> cat <<END
    bash> :tasks                     `:word` is for the program, not the environment

Ctrl-C clears what was typed; during an action it leaves, as Ctrl-D does at the prompt. Nothing that the sandbox prints can
steer the terminal: what is not printable is shown as an escape. Needs no terminal: piped lines are taken as typed ones.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click

from intercode.report.text import visible
from intercode.types import Message, Reply, Tool

FENCE = "```"
_COMMAND = re.compile(r":([a-z]+)(?:\s+(.*))?\s*")


class Left(Exception):
    """The player does not want to go on."""


class Keyboard:
    """Answers with what is typed. `commands` are called with what follows their `:word`; `after` is called once an action
    has been shown, for what else is to be said of it. Commands may raise, to leave the episode.
    """

    name = "keyboard"

    def __init__(
        self, language: str, commands: dict[str, Callable[[str], None]], after: Callable[[], None] | None = None
    ) -> None:
        self._language, self._commands, self._after = language, commands, after
        if sys.stdin.isatty():
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401  the arrow keys of input()

    def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0) -> Reply:
        show(messages[-1]["content"], **({"bold": True} if len(messages) == 1 else {}))
        if self._after is not None and len(messages) > 1:
            self._after()
        while True:
            text = self._read()
            command = _COMMAND.fullmatch(text)
            if command is None and text.strip():
                return Reply(text)
            if command is not None and command[1] in self._commands:
                self._commands[command[1]]((command[2] or "").strip())
            elif command is not None:
                note(f"there is no :{command[1]}; there are {', '.join(f':{known}' for known in self._commands)}")

    def _read(self) -> str:
        """Return an action or a command. Raises `Left` at the end of the input."""
        while True:
            try:
                text = input(f"{self._language}> ")
                if text == FENCE:
                    text = "\n".join(iter(partial(input, " " * (len(self._language) - 2) + "..> "), FENCE))
                text.encode()  # some locales let other bytes through, as halves of surrogate pairs
                return text
            except EOFError:
                raise Left from None
            except UnicodeError:
                note("that is not UTF-8")
            except KeyboardInterrupt:
                note("\n[Ctrl-D or :quit leaves]")


def show(text: str, **style: Any) -> None:
    """As it would be read, and nothing that a terminal obeys."""
    if text:
        click.echo(click.style(visible(text), **style) if style else visible(text))


def note(text: str) -> None:
    show(text, dim=True)
