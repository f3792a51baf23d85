"""The keyboard as a model: what is asked is shown, what is typed is the reply.

    bash> for f in /box/*; do        an unfinished Bash or Python construct goes on, SQL goes on until `;`;
      ..> cat $f; done               an empty line ends Python and SQL too; in every language, what stands between
    bash> :tasks                     two lines ``` is one action as it is; `:word` is for the program, not the environment

Ctrl-C clears what was typed, a second one on nothing leaves, as Ctrl-D does. Nothing that the sandbox prints can steer the
terminal: what is not printable is shown as an escape. Needs no terminal: piped lines are taken as typed ones.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import click

from intercode.cli.history import History
from intercode.cli.unfinished import goes_on
from intercode.report.text import visible
from intercode.submission import ANSWER, is_submission
from intercode.types import Message, Reply, Tool

FENCE = "```"
_COMMAND = re.compile(r":([a-z]+)(?:\s+(.*))?")
_BUSY = "[the action goes on until it ends or its time is up; Ctrl-C again leaves]"


class Left(Exception):
    """The player does not want to go on."""


class Keyboard:
    """Answers with what is typed. `commands` are called with what follows their `:word`; `after` is called once an action
    has been shown, for what else is to be said of it. Commands may raise, to leave the episode.
    """

    name = "keyboard"

    def __init__(
        self,
        language: str,
        submission: re.Pattern[str],
        commands: dict[str, Callable[[str], None]],
        after: Callable[[], None] | None = None,
    ) -> None:
        self._language, self._submission, self._commands, self._after = language, submission, commands, after
        self._history = History(language)
        self._reading = self._warned = False
        self._typed = ""

    def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0) -> Reply:
        show(messages[-1]["content"], **({"bold": True} if len(messages) == 1 else {}))
        if self._after is not None and len(messages) > 1:
            self._after()
        self._warned = False
        while True:
            text = self._read()
            command = _COMMAND.fullmatch(text.strip()) if text.startswith(":") else None
            if command is not None:
                self._order(command[1], (command[2] or "").strip())
            elif text.strip():
                self._history.add(text)
                return Reply(text)

    @contextlib.contextmanager
    def attended(self) -> Iterator[None]:
        """Within the block Ctrl-C interrupts the typing at once, and an action only when it is pressed again."""
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._typed = self._history.typed()
        if self._reading or self._warned:
            raise KeyboardInterrupt
        self._warned = True
        os.write(2, f"\n{_BUSY}\n".encode())

    def _order(self, word: str, rest: str) -> None:
        if word in self._commands:
            self._commands[word](rest)
        else:
            note(f"there is no :{word}; there are {', '.join(f':{known}' for known in self._commands)}")

    def _read(self) -> str:
        """One whole action or command. Raises `Left`."""
        lines: list[str] = []
        while True:
            line = self._line(f"{self._language}> " if not lines else " " * (len(self._language) - 2) + "..> ")
            if line is None:
                lines = []
                continue
            lines.append(line)
            text = "\n".join(lines)
            if lines[0] == FENCE:
                if len(lines) > 1 and line == FENCE:
                    return "\n".join(lines[1:-1])
            elif text.startswith(":") or self._submits(text) or not goes_on(text, self._language):
                return text

    def _submits(self, text: str) -> bool:
        """Whether it submits as it stands. The answer of `submit ANSWER` in Bash may go on, as any of Bash's words may."""
        return self._submission is not ANSWER and is_submission(text, self._submission)

    def _line(self, prompt: str) -> str | None:
        """What was typed; None if it was taken back."""
        self._reading = True
        try:
            line = input(prompt)
            line.encode()  # some locales let other bytes through, as halves of surrogate pairs
            self._warned = False
            return line
        except EOFError:
            raise Left from None
        except UnicodeError:
            note("that is not UTF-8")
        except KeyboardInterrupt:
            self._clear()
        finally:
            self._reading = False
        return None

    def _clear(self) -> None:
        """A second Ctrl-C with nothing typed in between leaves."""
        click.echo()
        if self._warned and not self._typed:
            raise Left
        self._warned = True
        note("[Ctrl-C again, Ctrl-D or :quit leaves]")


def show(text: str, **style: Any) -> None:
    """As it would be read, and nothing that a terminal obeys."""
    if text:
        click.echo(click.style(visible(text), **style) if style else visible(text))


def note(text: str) -> None:
    show(text, dim=True)
