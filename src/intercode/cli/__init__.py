"""The command line: it parses, calls, and prints; what is done is done elsewhere.

    options.py ──► evaluating.py   eval, score                    ──► show.py
              ──► playing.py      play                           ──► keyboard.py
              ──► examining.py    check, replay
                  attacking.py    attack
                  reporting.py    report
                  giving.py       export, rescore
                  machine.py      data, image, doctor

Imports stay inside the commands, pathlib's and json's too, so that `intercode --help` costs little more than click itself.
Exit status: 0 done, 1 the checked thing fell short, 2 wrong usage, 3 a fault of data, machine, server or disk, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from intercode import __version__
from intercode.cli import attacking, evaluating, examining, giving, machine, playing, reporting
from intercode.cli.show import help_width, say
from intercode.errors import DISK_FULL, IntercodeError, UsageError
from intercode.plugins import describe_error, fault_of, is_user_code


class _Group(click.Group):
    """Turns our errors into exit statuses, in this one place."""

    def main(self, *words: Any, **options: Any) -> Any:
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # closed
                setattr(sys, name, open(os.devnull, mode))
        if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
            sys.stdout.reconfigure(errors="replace")  # what its encoding lacks is a question mark
        try:
            return super().main(*words, **options)
        except OSError as error:
            if error.errno in (errno.EIO, errno.EBADF):
                _end(3, f"{error.filename or 'a terminal or a disk'} cannot be read or written: {error.strerror}")
            if error.errno not in DISK_FULL:
                _end(3, str(fault_of(error)))
            where = error.filename or "stdout, or a file of the run, the cache or TMPDIR"
            _end(3, f"{where} cannot be written: {error.strerror}")

    def make_context(self, *words: Any, **options: Any) -> click.Context:
        try:
            return super().make_context(*words, terminal_width=help_width(), **options)
        except click.ClickException as error:
            _end(error.exit_code, error.show)

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except click.ClickException as error:
            _end(error.exit_code, error.show)
        except IntercodeError as error:
            _end(2 if isinstance(error, UsageError) else 3, str(error))
        except (KeyboardInterrupt, click.exceptions.Abort) as interrupt:
            _end(130, str(interrupt) or "interrupted")
        except (Exception, SystemExit) as error:
            if is_user_code(error) and not (isinstance(error, OSError) and error.errno in (errno.EIO, errno.EBADF, *DISK_FULL)):
                env = context.meta.get("intercode.env", "")  # agents, rewards and the like name themselves
                whose = f"the environment {env}" if ":" in env else "code of yours"
                _end(2, f"{whose} raised {', '.join((describe_error(error), *getattr(error, '__notes__', ())))}")
            if isinstance(error, (OSError, SystemExit, click.exceptions.Exit)):
                raise
            _end(3, str(fault_of(error)))


def _end(status: int, why: str | Callable[[], object]) -> NoReturn:
    """The status counts where stderr is full, too. `why` is said, or shows itself."""
    with suppress(OSError):
        why() if callable(why) else say(f"intercode: {why}", err=True)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # what cannot be written is forgotten, else the interpreter would try again at its end
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
    sys.exit(status)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Interactive coding as a reinforcement-learning environment: measure agents whose actions are code.

    Exit status: 0 done, 1 what was checked fell short, 2 wrong usage, 3 a fault of data, machine, server or disk, 130
    interrupted.
    """


for room in (evaluating, playing, examining, attacking, reporting, giving, machine):
    for command in room.COMMANDS:
        main.add_command(command)
