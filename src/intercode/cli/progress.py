"""The line that shows how a run goes: refreshed twice a second on a terminal, else printed every
ten seconds.

    120 of 300 · success 43.3 % (37.9–48.9) · 2 errors · 1.2 M tokens · $0.31 · 85 episodes/min · 3
    replies awaited, the oldest for 95 s · model server: HTTP 429, trying again (2) · 3 hosts · 24
    workers · faults: node-b 2

The interval is that of the report. A resumed run counts its earlier episodes everywhere but in the
episodes per minute.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from intercode.cli.output import say

if TYPE_CHECKING:
    from intercode.models import Model, Pending
    from intercode.types import Episode

EVERY = 10.0
"""Seconds between two lines if stderr is not a terminal."""
PATIENCE = 5.0
"""Seconds after which a reply is called awaited."""


@contextmanager
def progress(
    total: int,
    earlier: Collection[Episode] = (),
    *,
    quiet: bool,
    model: Model | None = None,
    nodes: Callable[[], str] | None = None,
) -> Iterator[Callable[[Episode], None]]:
    """Show on stderr how a run of `total` episodes goes; yields a function that takes each finished
    episode.

    `earlier` are the episodes of a resumed run that are not played again. Only with `model` does
    the line show tokens, cost and pending questions. `nodes` returns a note about other machines.
    """
    if quiet:
        yield lambda episode: None
        return
    state = _Progress(total, earlier, model, nodes)
    live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    with _refresh(state.line) if live else _print_lines(state.line):
        yield state.add


class _Progress:
    """Running sums over the finished episodes. One thread adds episodes, another reads the line."""

    def __init__(
        self,
        total: int,
        earlier: Collection[Episode],
        model: Model | None,
        nodes: Callable[[], str] | None,
    ) -> None:
        import threading

        self._total, self._model, self._nodes, self._lock = total, model, nodes, threading.Lock()
        self._count = self._errors = self._tokens = 0
        self._cost = 0.0
        self._counts: dict[str, tuple[int, int]] = {}  # by task: scored episodes, and solved ones
        for episode in earlier:
            self.add(episode)
        self._earlier, self._started = len(earlier), time.monotonic()

    def add(self, episode: Episode) -> None:
        with self._lock:
            self._count += 1
            self._errors += episode.error is not None
            if episode.reward is not None:
                scored, solved = self._counts.get(episode.task, (0, 0))
                self._counts[episode.task] = (scored + 1, solved + episode.success)
            if self._model is not None:
                self._tokens += episode.usage.tokens
                self._cost += episode.usage.cost

    def line(self) -> str:
        """Return the line as of now."""
        from intercode.report.text import one_line

        with self._lock:
            parts = list(self._sums())
        parts += self._waits()
        if self._nodes:
            parts.append(self._nodes())
        return one_line(" · ".join(parts), 400)

    def _sums(self) -> Iterator[str]:
        from intercode.report.summary import interval_of_counts, span

        yield f"{self._count} of {self._total}"
        if counts := list(self._counts.values()):
            rate = sum(solved for _, solved in counts) / sum(scored for scored, _ in counts)
            yield f"success {100 * rate:.1f} % ({span(interval_of_counts(counts))})"
        if self._errors:
            yield f"{self._errors} error{'s' * (self._errors > 1)}"
        tokens, cost = self._tokens, self._cost
        if tokens >= 999_500:
            yield f"{tokens / 1e6:.1f} M tokens"
        elif tokens >= 1000:
            yield f"{tokens / 1e3:.0f} k tokens"
        elif tokens:
            yield f"{tokens} tokens"
        if cost:
            yield f"${cost:.2f}" if cost >= 0.1 else f"${cost:.4f}"
        if self._count > self._earlier:
            seconds = max(time.monotonic() - self._started, 1e-9)
            speed = 60 * (self._count - self._earlier) / seconds
            yield f"{speed:.0f} episodes/min" if speed >= 10 else f"{speed:.1f} episodes/min"

    def _waits(self) -> Iterator[str]:
        """Yield notes about questions that the model has not answered; a model need not have
        `pending`."""
        pending: list[Pending] = getattr(self._model, "pending", list)()
        if not pending:
            return
        seconds = time.monotonic() - pending[0].since
        if seconds >= PATIENCE and len(pending) == 1:
            yield f"1 reply awaited for {seconds:.0f} s"
        elif seconds >= PATIENCE:
            yield f"{len(pending)} replies awaited, the oldest for {seconds:.0f} s"
        worst = max(pending, key=lambda question: question.failed)
        if worst.failed:
            yield f"model server: {worst.why}, trying again ({worst.failed})"


@contextmanager
def _refresh(line: Callable[[], str]) -> Iterator[None]:
    """Show the line on the terminal within the block."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)
    with Live(
        get_renderable=lambda: Text(line()), console=console, refresh_per_second=2, transient=True
    ):
        yield


@contextmanager
def _print_lines(line: Callable[[], str]) -> Iterator[None]:
    """Print the line every `EVERY` seconds within the block, until stderr cannot be written."""
    import threading

    ended = threading.Event()

    def print_lines() -> None:
        with suppress(OSError, ValueError):
            while not ended.wait(EVERY):
                say(line(), err=True)

    thread = threading.Thread(target=print_lines, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
