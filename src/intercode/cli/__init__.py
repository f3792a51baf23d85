"""The command line: parse options, call the library, print what it returns.

    eval.py   eval, score    report.py  report, merge, replay, rescore   options.py   shared options
    play.py   play           image.py   data, image, doctor              output.py    tables, JSON
    check.py  check          show.py    show                             progress.py  how a run goes

`doors.COMMANDS` names the commands, those of wings as well; each is imported when it is used, so
`intercode --help` costs little more than importing click. Exit status: 0 done, 1 a check failed,
2 wrong usage, 3 a fault of data, machine, server or disk, 130 interrupted, 141 the reader of the
output has closed it. An entry of a folder or a file that cannot be read (`EntryLeftOut`) is printed
to stderr, and the status is 3.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` imports much more
import errno
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from intercode import __version__
from intercode.cli.lazy import LazyGroup
from intercode.doors import COMMANDS
from intercode.errors import DISK_FULL, EntryLeftOut, IntercodeError, UsageError
from intercode.plugins import describe_error, fault_of, is_user_code

_BROKEN_STREAM = (errno.EIO, errno.EBADF)
_OF_A_PATH = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)
"""Numbers of errors that a path of the caller's may cause in any function that opens it."""
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep


class _Group(LazyGroup):
    """Turns errors into exit statuses, and lists the commands by purpose."""

    def main(self, *words: Any, **options: Any) -> Any:
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # the caller closed it
                setattr(sys, name, open(os.devnull, mode))
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        # otherwise the exit status of programs would be lost
        if _signal.getsignal(_signal.SIGCHLD) == _signal.SIG_IGN:
            _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors in (
            "strict",
            "surrogateescape",
        ):
            # print a question mark for what the encoding lacks
            sys.stdout.reconfigure(errors="replace")
        stdout = sys.stdout
        try:
            with _naming_left_out() as named:
                try:
                    status = super().main(*words, **{**options, "standalone_mode": False})
                except SystemExit as leaving:
                    # if nobody reads stdout, rich and click exit with 1, and click replaces it
                    if sys.stdout is not stdout or isinstance(leaving.__context__, BrokenPipeError):
                        _end(141, lambda: None)  # as a shell reports of a program killed by SIGPIPE
                    status = leaving.code
            sys.exit(3 if named and status in (None, 0, 1) else status)
        except click.ClickException as error:
            _end(error.exit_code, error.show)
        except OSError as error:
            if error.errno in _BROKEN_STREAM:
                _end(
                    3,
                    f"{error.filename or 'a terminal or a disk'} cannot be read or written: "
                    f"{error.strerror}",
                )
            if error.errno in _OF_A_PATH and error.filename:
                _end(2, f"{os.fsdecode(error.filename)}: {error.strerror}")
            if error.errno not in DISK_FULL:
                _end(3, str(fault_of(error)))
            where = error.filename or "stdout, or a file of the run, the cache or TMPDIR"
            _end(3, f"{where} cannot be written: {error.strerror}")

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except click.ClickException:
            raise
        except IntercodeError as error:
            notes = ", ".join((str(error), *getattr(error, "__notes__", ())))
            _end(2 if isinstance(error, UsageError) else 3, notes)
        except (KeyboardInterrupt, click.exceptions.Abort) as interrupt:
            _end(130, str(interrupt) or "interrupted")
        except (Exception, SystemExit) as error:
            if is_user_code(error) and not (
                isinstance(error, OSError) and error.errno in (*_BROKEN_STREAM, *DISK_FULL)
            ):
                env = context.meta.get("intercode.env", "")  # agents and rewards name themselves
                owner = f"the environment {env}" if ":" in env else "code of yours"
                _end(
                    2,
                    f"{owner} raised "
                    f"{', '.join((describe_error(error), *getattr(error, '__notes__', ())))}",
                )
            if isinstance(error, (OSError, SystemExit, click.exceptions.Exit)):
                raise
            _end(3, str(fault_of(error)))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()])


@contextmanager
def _naming_left_out() -> Iterator[list[str]]:
    """Print each `EntryLeftOut` once, and our other warnings; yields the list of the former."""
    named, show_other = list[str](), warnings.showwarning

    def show(message: Any, category: Any, filename: str, *where: Any) -> None:
        if category is EntryLeftOut and str(message) not in named:
            named.append(str(message))
            _say_error(message)
        elif category is RuntimeWarning and filename.startswith(_OURS):
            _say_error(message)
        elif category is not EntryLeftOut:
            show_other(message, category, filename, *where)

    with warnings.catch_warnings():
        warnings.simplefilter("always", EntryLeftOut)
        warnings.showwarning = show  # type: ignore[assignment]
        yield named


def _say_error(text: object) -> None:
    from intercode.cli.output import say

    say(f"intercode: {text}", err=True)


def _end(status: int, why: str | Callable[[], object]) -> NoReturn:
    """Print `why`, or call it to print itself, and exit with `status`, even if stdout and stderr
    cannot be written."""
    with suppress(OSError):
        why() if callable(why) else _say_error(why)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # discard the buffer, else the interpreter tries again when it exits
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
    sys.exit(status)


def _help_width() -> int:
    """Return the width of the help. click would import `shutil` for it, a twentieth of the time of
    `intercode --help`."""
    with suppress(ValueError, OSError):
        return (
            min(max(int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size(1).columns, 52), 110)
            - 2
        )
    return 78


@click.group(
    cls=_Group,
    lazy={name: where for commands in COMMANDS.values() for name, (where, _) in commands.items()},
    context_settings={"help_option_names": ["-h", "--help"], "terminal_width": _help_width()},
)
@click.version_option(__version__)
def main() -> None:
    """Measure agents whose actions are code, in reinforcement-learning environments.

    `intercode COMMAND --help` explains a command. Try `intercode eval bash --agent gold` first: it
    needs no model.

    Exit status: 0 done, 1 a check failed, 2 wrong usage, 3 a fault of the data, the machine, the
    model server or the disk, 130 interrupted, 141 the reader of the output has closed it.
    """
