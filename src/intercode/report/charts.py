"""What is worth drawing of a report, as numbers: the page and the files of `--plots` draw the same charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    drawn = [
        Chart("success-by-turn", "Success by turn: solved so far, % of episodes", "turn", _by_turn(runs, "solved")),
        Chart("errors-by-turn", "Errors by turn: code that failed, % of turns", "turn", _by_turn(runs, "errors")),
        Chart("pass-at-k", "Solved by one of k attempts, % of tasks", "k", _chances(runs)),
        Chart("hardness", "Success by hardness, % of episodes", "", _levels(runs), lines=False),
        Chart("failures", "Why episodes failed, % of failed episodes", "", _failures(runs), lines=False),
    ]
    return [chart for chart in drawn if any(chart.series.values())]


def _by_turn(runs: Mapping[str, Mapping[str, Any]], what: str) -> Series:
    return {
        run: [(str(row["turn"]), 100 * row[what]) for row in found["analysis"]["by_turn"] if row[what] is not None]
        for run, found in runs.items()
    }


def _chances(runs: Mapping[str, Mapping[str, Any]]) -> Series:
    return {run: [(k, 100 * part["rate"]) for k, part in found.get("pass_at_k", {}).items()] for run, found in runs.items()}


def _levels(runs: Mapping[str, Mapping[str, Any]]) -> Series:
    return {
        run: [(level, 100 * part["success_rate"]) for level, part in found.get("by_hardness", {}).items()]
        for run, found in runs.items()
    }


def _failures(runs: Mapping[str, Mapping[str, Any]]) -> Series:
    return {run: [(row["name"], 100 * row["share"]) for row in found["analysis"]["failures"]] for run, found in runs.items()}


def order(series: Series) -> list[str]:
    """All labels of a chart, in the order in which the runs have them; levels of hardness the easiest first."""
    found = list(dict.fromkeys(label for points in series.values() for label, _ in points))
    return sorted(found, key=LEVELS.index) if set(found) <= set(LEVELS) else found
