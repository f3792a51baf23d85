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
from typing import Any

import click

from intercode.cli import attacking, evaluating, examining, giving, machine, playing, reporting
from intercode.cli.show import help_width, say
from intercode.errors import IntercodeError, UsageError


class _Group(click.Group):
    """Turns our errors into exit statuses, in this one place."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except IntercodeError as error:
            say(f"intercode: {error}", err=True)
            sys.exit(2 if isinstance(error, UsageError) else 3)
        except (KeyboardInterrupt, click.exceptions.Abort) as interrupt:
            say(f"intercode: {str(interrupt) or 'interrupted'}", err=True)
            sys.exit(130)
        except OSError as error:
            if error.filename is not None or error.errno not in _UNWRITABLE:
                raise
            _forget_stdout()
            say(f"intercode: stdout cannot be written: {error.strerror}", err=True)
            sys.exit(3)


_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def _forget_stdout() -> None:
    """Else the interpreter would try again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "terminal_width": help_width()})
@click.version_option(package_name="intercode")
def main() -> None:
    """Interactive coding as a reinforcement-learning environment: measure agents whose actions are code.

    Exit status: 0 done, 1 what was checked fell short, 2 wrong usage, 3 a fault of data, machine, server or disk, 130
    interrupted.
    """


for room in (evaluating, playing, examining, attacking, reporting, giving, machine):
    for command in room.COMMANDS:
        main.add_command(command)
