"""The charts of a report, as SVG: for the page, which has their style, and as files that stand
alone on white.

lines:  one polyline for each run over 0 to 100 %
bars:   one row for each label, with one bar for each run
points: one point for each run, with its interval
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from intercode.report import markup, tables
from intercode.report.summary import hardness_order
from intercode.report.text import one_line
from intercode.store import write_whole

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400, 220, 34, 12, 10, 34
BAR, GAP, NAMES, FIGURES = 14, 8, 118, 44
ROW = 18
"""Height of a line of text above the chart."""
COLOURS = ("#0b62c4", "#b4470e", "#18794e", "#8e3fb5", "#a0154f", "#5c6470")
"""Colours of the runs; a seventh run uses the first colour again."""
_ON_DARK = ("#74b0f4", "#e8935f", "#63c596", "#cb93ec", "#f08bb0", "#aab3bd")
_STYLE = """\
svg text{font:12px "Liberation Sans",sans-serif;fill:currentColor}.end{text-anchor:end}\
.middle{text-anchor:middle}
svg rect,circle{fill:currentColor}polyline,path{fill:none;stroke:currentColor;stroke-width:2}
"""

Found = Mapping[str, Any]
Series = Mapping[str, Sequence[tuple[str, float]]]


def _colours(colours: Sequence[str], grid: str) -> str:
    """Return the style of the runs and of the grid. Variables would be shorter, but rsvg-convert
    knows none."""
    return f"svg line{{stroke:{grid}}}" + "".join(
        f".s{number}{{color:{colour}}}" for number, colour in enumerate(colours)
    )


STYLE = _STYLE + _colours(COLOURS, "#d8dce2")
PAGE_STYLE = f"{STYLE}\n@media (prefers-color-scheme: dark) {{{_colours(_ON_DARK, '#343b44')}}}"
"""The style of all charts in a page."""


@dataclass(frozen=True)
class Chart:
    """A chart as numbers: `series` has the points of each run, (label, percentage); `spans` the
    interval of each run's point.

    Labels of lines and points are numbers; those of lines are in order.
    """

    name: str
    title: str
    axis: str
    series: Series
    kind: Literal["lines", "bars", "points"] = "lines"
    spans: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def charts(whole: Found) -> list[Chart]:
    """Return the charts of `side_by_side`'s report, without empty ones."""
    runs = dict(zip(tables.labels(whole["runs"]), whole["runs"], strict=True))

    def series(points: Callable[[Found], Iterable[tuple[object, float | None]]]) -> Series:
        shares = {run: points(found) for run, found in runs.items()}
        return {
            run: [(str(label), 100 * share) for label, share in each if share is not None]
            for run, each in shares.items()
        }

    priced = all(run["cost"] for run in runs.values())
    unit, spent = ("$", "cost") if priced else ("tokens", "tokens")
    expense = {
        name: [(str(run[spent] / run["episodes"]), 100 * run["success_rate"])]
        for name, run in runs.items()
        if run[spent] and run["success_rate"] is not None
    }
    spans = {name: (100 * runs[name]["ci95"][0], 100 * runs[name]["ci95"][1]) for name in expense}
    solved = series(
        lambda run: [(row["turn"], row["solved"]) for row in run["analysis"]["by_turn"]]
    )
    errors = series(
        lambda run: [(row["turn"], row["errors"]) for row in run["analysis"]["by_turn"]]
    )
    chances = series(
        lambda run: [(k, part["rate"]) for k, part in run.get("pass_at_k", {}).items()]
    )
    levels = series(
        lambda run: [
            (level, part["success_rate"]) for level, part in run.get("by_hardness", {}).items()
        ]
    )
    failures = series(
        lambda run: [(row["name"], row["share"]) for row in run["analysis"]["failures"]]
    )
    drawn = [
        Chart("success-by-turn", "Success by turn: solved so far, % of episodes", "turn", solved),
        Chart(
            f"success-by-{spent}",
            f"Success and {spent}: % of episodes",
            f"{unit} per episode",
            expense,
            "points",
            spans,
        ),
        Chart(
            "gains",
            "Second run against the first, % of tasks",
            "",
            _gains(whole.get("comparison")),
            "bars",
        ),
        Chart("errors-by-turn", "Errors by turn: code that failed, % of turns", "turn", errors),
        Chart("pass-at-k", "Solved by one of k attempts, % of tasks", "k", chances),
        Chart("hardness", "Success by hardness, % of episodes", "", levels, "bars"),
        Chart("failures", "Why episodes failed, % of failed episodes", "", failures, "bars"),
    ]
    return [chart for chart in drawn if any(chart.series.values())]


def _gains(found: Found | None) -> Series:
    if found is None:
        return {}
    gained, lost = len(found["gained"]), len(found["lost"])
    counts = {"gained": gained, "lost": lost, "no change": found["tasks"] - gained - lost}
    return {
        "tasks": [
            (f"{name} ({count})", 100 * count / found["tasks"]) for name, count in counts.items()
        ]
    }


def draw(whole: Found, folder: str | Path) -> None:
    """Write each chart of `side_by_side`'s report to FOLDER/NAME.svg, and make the folder. Raises
    `OSError`."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for chart in charts(whole):
        write_whole(Path(folder, f"{chart.name}.svg"), svg(chart, alone=True))


def svg(chart: Chart, *, alone: bool = False) -> str:
    """Return the chart as an SVG document: its title, the name of each run if there are several,
    and the marks.

    `alone`: with its own style, on white.
    """
    runs = list(chart.series) if len(chart.series) > 1 else []
    top = ROW * (len(runs) + 1) + 6
    height = HEIGHT
    if chart.kind == "bars":
        height, marks = _bars(chart)
    else:
        marks = list(_lines(chart) if chart.kind == "lines" else _points(chart))
    head = f'<text x="8" y="{ROW - top}">{markup.text(chart.title)}</text>'
    for number, run in enumerate(runs):
        y = ROW * (number + 2) - top
        head += f'<rect x="8" y="{y - 9}" width="10" height="10" class="{_class(number)}"/>'
        head += f'<text x="24" y="{y}">{markup.text(one_line(run, 60))}</text>'
    style = (
        f'<style>{STYLE}</style><path d="M0 {-top}h{WIDTH}v{height + top}H0z" '
        'style="fill:#fff;stroke:none"/>'
    )
    return (
        f'<svg viewBox="0 {-top} {WIDTH} {height + top}" role="img" '
        f'aria-label="{markup.text(chart.title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{style if alone else ""}{head}{"".join(marks)}</svg>'
    )


def _class(number: int) -> str:
    return f"s{number % len(COLOURS)}"


def _y(percent: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - percent / 100)


def _grid(labels: Iterable[tuple[float, str]], axis: str) -> Iterator[str]:
    """Yield the lines from 0 to 100 %, and the labels of the axis at their places."""
    for percent in (0, 25, 50, 75, 100):
        yield (
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(percent):.1f}" '
            f'y2="{_y(percent):.1f}"/>'
        )
        yield f'<text x="{LEFT - 6}" y="{_y(percent) + 4:.1f}" class="end">{percent}</text>'
    for x, label in labels:
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 15}" class="middle">{label}</text>'
    yield f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" class="end">{markup.text(axis)}</text>'


def _lines(chart: Chart) -> Iterator[str]:
    labels = sorted({int(label) for points in chart.series.values() for label, _ in points})
    first, last = labels[0], labels[-1]

    def x(label: int) -> float:
        return LEFT + 8 + (WIDTH - LEFT - RIGHT - 16) * (label - first) / max(1, last - first)

    yield from _grid(
        [(x(label), str(label)) for label in labels[:: -(-len(labels) // 12)]], chart.axis
    )
    for number, points in enumerate(chart.series.values()):
        places = " ".join(f"{x(int(at)):.1f},{_y(value):.1f}" for at, value in points)
        yield f'<polyline class="{_class(number)}" points="{places}"/>'
        for at, value in points if len(points) == 1 else ():
            yield (
                f'<circle cx="{x(int(at)):.1f}" cy="{_y(value):.1f}" r="3" '
                f'class="{_class(number)}"/>'
            )


def _points(chart: Chart) -> Iterator[str]:
    most = max(float(at) for points in chart.series.values() for at, _ in points)

    def x(amount: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * amount / most * 0.95

    ticks = (0, most / 2, most)
    yield from _grid(
        [(x(amount), f"{amount:,.0f}" if most > 1000 else f"{amount:.2g}") for amount in ticks],
        chart.axis,
    )
    for number, (run, points) in enumerate(chart.series.items()):
        low, high = chart.spans[run]
        for at, value in points:
            middle = x(float(at))
            yield f'<path class="{_class(number)}" d="M{middle:.1f} {_y(low):.1f}V{_y(high):.1f}"/>'
            yield f'<circle cx="{middle:.1f}" cy="{_y(value):.1f}" r="4" class="{_class(number)}"/>'


def _bars(chart: Chart) -> tuple[int, list[str]]:
    runs = [dict(points) for points in chart.series.values()]
    labels = list(dict.fromkeys(label for points in runs for label in points))
    if chart.name == "hardness":
        labels.sort(key=hardness_order)
    row, marks = BAR * len(runs) + GAP, []
    for at, label in enumerate(labels):
        middle = at * row + BAR * len(runs) / 2 + 4
        marks.append(
            f'<text x="{NAMES - 8}" y="{middle:.1f}" class="end">{markup.text(label)}</text>'
        )
        for number, points in enumerate(runs):
            if label in points:
                y, length = at * row + number * BAR, (WIDTH - NAMES - FIGURES) * points[label] / 100
                marks.append(
                    f'<rect x="{NAMES}" y="{y}" width="{length:.1f}" height="{BAR - 2}" '
                    f'class="{_class(number)}"/><text x="{NAMES + length + 5:.1f}" '
                    f'y="{y + BAR - 4}">{points[label]:.1f}</text>'
                )
    return len(labels) * row, marks
