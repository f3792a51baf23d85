"""What the terminal shows: runs side by side, one run looked at closely, and two compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from intercode.report import rows
from intercode.report.summary import Summary
from intercode.report.text import one_line, visible

FLIPS = 10
"""Tasks listed of those that one run gained, and of those that it lost."""


def table(found: Sequence[rows.Row]) -> Table:
    """Rows as a table; long words are folded, so that no number is cut."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in found[0]:
        words = name in rows.WORDS
        cells = [name, *(row[name] for row in found)]
        longest = max(len(word) for cell in cells for word in (cell.split() or [""])) if words else max(map(len, cells))
        made.add_column(
            Text(visible(name)),
            justify="left" if words else "right",
            no_wrap=not words,
            min_width=min(longest, 6) if words else longest,
            overflow="fold",
        )
    for row in found:
        made.add_row(*(Text(visible(cell)) for cell in row.values()))  # as they are: brackets in a name are no markup
    return made


def overview(summaries: Sequence[Summary]) -> Iterator[RenderableType]:
    """What `eval` prints: success, chances with several epochs, and hardness."""
    yield table(rows.overview(summaries))
    if len(summaries) == 1:
        yield from _titled("success % with k attempts", rows.chances(summaries[0]))
    yield from _titled("success % by hardness", rows.levels(summaries))


def closely(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The tables of one run's `analysis`."""
    yield from _titled("by turn: solved by then, and code that failed, in %", rows.turns(found))
    yield from _titled("what turns were", rows.actions(found))
    yield from (Text(sentence) for sentence in rows.sentences(found))
    yield from _titled("success by data set", rows.data_sets(found))
    yield from _titled("why episodes failed", rows.failures(found))


def comparison(found: Mapping[str, Any] | None) -> Iterator[RenderableType]:
    """Two runs compared: overall and by hardness, and the tasks that changed sides."""
    if found is None:
        yield Text("the runs have no task in common, so they are not compared")
        return
    yield from _titled("success % on the same tasks, the second run less the first", rows.differences(found))
    if found["unpaired"]:
        yield Text(f"{found['unpaired']} tasks are in one of the runs only, and are left out")
    for name in ("gained", "lost"):
        flips = found[name]
        yield Text(f"{name} ({len(flips)})")
        yield from (Text(f"  {one_line(rows.flip(flip), 77)}") for flip in flips[:FLIPS])
        if len(flips) > FLIPS:
            yield Text(f"  and {len(flips) - FLIPS} more: --json and --html list them all")


def _titled(title: str, found: Sequence[rows.Row]) -> Iterator[RenderableType]:
    if found:
        yield Text(title)
        yield table(found)
