"""What the commands print: one JSON object, or tables, reasons of errors and progress for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pathlib import Path

    from intercode.types import Episode


def say(text: str, *, err: bool = False) -> None:
    """A line that may hold words of tasks, agents or programs: nothing in it is obeyed by a terminal."""
    from intercode.report.text import visible

    click.echo(visible(text), err=err)


def print_json(found: object) -> None:
    import json

    click.echo(json.dumps(found))


def show_summaries(summaries: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(summaries[0] if len(summaries) == 1 else {"runs": summaries})
        return
    from rich.console import Console

    from intercode.report.tables import overview

    Console().print(*overview(summaries), sep="\n")
    for summary in summaries:
        click.echo(f"run: {summary['run']}")
        if "excluded" in summary:
            say(f"left out as broken: {len(summary['excluded'])} tasks (run.json says why): {', '.join(summary['excluded'])}")


@contextmanager
def written(place: str) -> Iterator[None]:
    """A file or folder that cannot be written is wrong usage."""
    from intercode.errors import UsageError

    try:
        yield
    except OSError as error:
        raise UsageError(f"{place} cannot be written: {error.strerror}") from error


def show_reasons(episodes: Sequence[Episode], where: str = "") -> None:
    from intercode.report import reasons

    if listed := reasons(episodes):
        say("\n  ".join([f"intercode: errors{where}:", *listed]), err=True)


def show_left_out(episodes: Sequence[Episode]) -> None:
    if shortened := sum(any(turn.left_out for turn in episode.turns) for episode in episodes):
        plural = "1 conversation was" if shortened == 1 else f"{shortened} conversations were"
        click.echo(f"intercode: {plural} too long for the model; the oldest parts were left out (see left_out)", err=True)


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; go on with --resume --out {folder}") from None


@contextmanager
def progress(total: int, *, quiet: bool) -> Iterator[Callable[[Episode], None]]:
    """A bar with the success so far."""
    solved: list[bool] = []
    with bar("episodes", total, quiet=quiet) as advance:

        def tick(episode: Episode) -> None:
            solved.append(episode.success)
            advance(f"success {sum(solved) / len(solved):6.1%}")

        yield tick


@contextmanager
def bar(what: str, total: int, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A bar on stderr, where that is a terminal; what is yielded makes one step and may change its text."""
    if quiet or not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda text: bar.update(task, advance=1, description=text)
