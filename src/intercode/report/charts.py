"""What is worth drawing of a report, as numbers: the page and the files of `--plots` draw the same charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from intercode.report.rows import labels
from intercode.report.summary import LEVELS

Series = Mapping[str, Sequence[tuple[str, float]]]


@dataclass(frozen=True)
class Chart:
    """`series`: for each run its points, a label and a percentage each. `lines`: the labels are numbers in order."""

    name: str
    title: str
    axis: str
    series: Series
    lines: bool = True


def charts(whole: Mapping[str, Any]) -> list[Chart]:
    """The charts of `side_by_side`'s report that have something to show."""
    runs = dict(zip(labels(whole["runs"]), whole["runs"], strict=True))

    def series(points: Callable[[Mapping[str, Any]], Iterable[tuple[object, float | None]]]) -> Series:
        shares = {run: points(found) for run, found in runs.items()}
        return {run: [(str(label), 100 * share) for label, share in each if share is not None] for run, each in shares.items()}

    solved = series(lambda run: [(row["turn"], row["solved"]) for row in run["analysis"]["by_turn"]])
    errors = series(lambda run: [(row["turn"], row["errors"]) for row in run["analysis"]["by_turn"]])
    chances = series(lambda run: [(k, part["rate"]) for k, part in run.get("pass_at_k", {}).items()])
    levels = series(lambda run: [(level, part["success_rate"]) for level, part in run.get("by_hardness", {}).items()])
    failures = series(lambda run: [(row["name"], row["share"]) for row in run["analysis"]["failures"]])
    drawn = [
        Chart("success-by-turn", "Success by turn: solved so far, % of episodes", "turn", solved),
        Chart("errors-by-turn", "Errors by turn: code that failed, % of turns", "turn", errors),
        Chart("pass-at-k", "Solved by one of k attempts, % of tasks", "k", chances),
        Chart("hardness", "Success by hardness, % of episodes", "", levels, lines=False),
        Chart("failures", "Why episodes failed, % of failed episodes", "", failures, lines=False),
    ]
    return [chart for chart in drawn if any(chart.series.values())]


def order(series: Series) -> list[str]:
    """All labels of a chart, in the order in which the runs have them; levels of hardness the easiest first."""
    found = list(dict.fromkeys(label for points in series.values() for label, _ in points))
    return sorted(found, key=LEVELS.index) if set(found) <= set(LEVELS) else found
