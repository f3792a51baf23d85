"""Output of the commands: one JSON object, or tables, error messages and a progress bar for
people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from intercode.errors import UsageError
from intercode.plugins import is_user_code

if TYPE_CHECKING:
    from rich.console import Console

    from intercode.report.tables import Section
    from intercode.runs.store import RunStore
    from intercode.types import Episode

_WIDEST = 10_000
"""Columns that a table may take in a file."""


def say(text: str, *, err: bool = False) -> None:
    """Print a line that may contain text from tasks, agents or programs; control characters become
    escapes."""
    from intercode.report.text import visible

    click.echo(visible(text), err=err)


def print_json(value: object) -> None:
    import json

    click.echo(json.dumps(value))


def show_summaries(summaries: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(summaries[0])
        return
    from intercode.report.tables import overview
    from intercode.report.text import count_of

    show_tables(overview(summaries))
    for summary in summaries:
        click.echo(f"run: {summary['run']}")
        if tasks := summary.get("excluded"):
            count = count_of(len(tasks), "task")
            say(f"left out as broken: {count} (run.json says why): {', '.join(tasks)}")


def show_tables(sections: Iterable[Section]) -> None:
    """Print tables and lines; in a file at full width."""
    from intercode.report.tables import render

    make_console().print(*render(sections), sep="\n")


def make_console() -> Console:
    """Return stdout for rich; as wide as needed if it is not a terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDEST
    return console


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Raise `UsageError` if `path` cannot be written, or `StoreError` if the disk is full."""
    from intercode.errors import DISK_FULL, StoreError, UsageError
    from intercode.runs.store import require_plain_output

    require_plain_output(path)
    try:
        yield
    except OSError as error:
        kind = StoreError if error.errno in DISK_FULL else UsageError
        raise kind(f"{path} cannot be written: {error.strerror}") from error


def show_reasons(episodes: Sequence[Episode], where: str = "") -> None:
    """Print to stderr why episodes have no result."""
    from intercode.report.summary import reasons

    if lines := reasons(episodes):
        say("\n  ".join([f"intercode: errors{where}:", *lines]), err=True)


@contextmanager
def resumable(store: RunStore) -> Iterator[None]:
    """Tell the user how to continue the run after an interrupt or a mistake; a new run that a
    mistake ends before there is any work to keep is removed."""
    try:
        yield
    except KeyboardInterrupt:
        from intercode.cli.options import resume_line

        raise KeyboardInterrupt(f"interrupted; continue with {resume_line(store.path)}") from None
    except (Exception, SystemExit) as error:
        if isinstance(error, UsageError) or is_user_code(error):
            if store.has_work():
                from intercode.runner.warm_env import HOW_TO_RESUME_CHANGED

                error.add_note(HOW_TO_RESUME_CHANGED)
            elif store.begins:
                store.remove()
        raise


@contextmanager
def bar(what: str, total: int, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show a bar on stderr if that is a terminal; yields a function that makes one step and sets
    the text."""
    if quiet or not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda text: bar.update(task, advance=1, description=text)
