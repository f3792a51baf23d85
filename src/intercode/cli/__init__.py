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

import sys
from typing import Any

import click

from intercode.cli import attacking, evaluating, examining, giving, machine, playing, reporting
from intercode.cli.show import say
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


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="intercode")
def main() -> None:
    """Interactive coding as a reinforcement-learning environment: measure agents whose actions are code."""


for room in (evaluating, playing, examining, attacking, reporting, giving, machine):
    for command in room.COMMANDS:
        main.add_command(command)
