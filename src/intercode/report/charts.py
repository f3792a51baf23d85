"""Charts of a report as SVG: one line for each run over 0 to 100 %. The page contains their style;
a separate file has its own, on white."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from intercode.report import markup, tables
from intercode.report.summary import Config
from intercode.report.text import one_line
from intercode.runs.store import write_whole

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400, 220, 34, 12, 10, 34
ROW = 18
"""Height of a line of text above the chart."""
LABELS = 12
"""The most labels of the axis."""
COLOURS = ("#0b62c4", "#b4470e", "#18794e", "#8e3fb5", "#a0154f", "#5c6470")
"""Colours of the runs; a seventh run uses the first colour again."""
_ON_DARK = ("#74b0f4", "#e8935f", "#63c596", "#cb93ec", "#f08bb0", "#aab3bd")
_STYLE = """\
svg text{font:12px "Liberation Sans",sans-serif;fill:currentColor}.end{text-anchor:end}\
.middle{text-anchor:middle}
svg rect,circle{fill:currentColor}polyline{fill:none;stroke:currentColor;stroke-width:2}
"""


def _colours(colours: Sequence[str], grid: str) -> str:
    """Return the style of the runs and of the grid. Variables would be shorter, but rsvg-convert
    does not support them."""
    style = f"svg line{{stroke:{grid}}}"
    for number, colour in enumerate(colours):
        style += f".s{number}{{color:{colour}}}"
    return style


STYLE = _STYLE + _colours(COLOURS, "#d8dce2")
PAGE_STYLE = f"{STYLE}\n@media (prefers-color-scheme: dark) {{{_colours(_ON_DARK, '#343b44')}}}"
"""The style of all charts in a page."""


Points = Sequence[tuple[int, float]]


class Chart(NamedTuple):
    """A chart as numbers: `series` contains the points of each run, (place, percentage), in
    order."""

    name: str
    title: str
    axis: str
    series: Mapping[str, Points]


def charts(whole: Config) -> list[Chart]:
    """Return the charts of `side_by_side`'s report, without empty ones."""
    solved, errors, chances = dict[str, Points](), dict[str, Points](), dict[str, Points]()
    for name, run in zip(tables.labels(whole["runs"]), whole["runs"], strict=True):
        turns = run["analysis"]["by_turn"]
        solved[name] = [(row["turn"], 100 * row["solved"]) for row in turns]
        errors[name] = [
            (row["turn"], 100 * row["errors"]) for row in turns if row["errors"] is not None
        ]
        by_k = run.get("pass_at_k", {})
        chances[name] = [(int(k), 100 * part["rate"]) for k, part in by_k.items()]
    drawn = (
        Chart(
            "success-by-turn",
            "Solved so far, % of episodes (to the run's last turn)",
            "turn",
            solved,
        ),
        Chart("errors-by-turn", "Code that failed, % of turns", "turn", errors),
        Chart("pass-at-k", "Solved by one of k attempts, % of tasks", "k", chances),
    )
    return [chart for chart in drawn if any(chart.series.values())]


def draw(whole: Config, folder: str | Path) -> None:
    """Write each chart of `side_by_side`'s report to FOLDER/NAME.svg, and make the folder. Raises
    `OSError`."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for chart in charts(whole):
        write_whole(Path(folder, f"{chart.name}.svg"), svg(chart, alone=True))


def svg(chart: Chart, *, alone: bool = False) -> str:
    """Return the chart as an SVG document: its title, the name of each run if there are several,
    and the lines.

    `alone`: with its own style, on white.
    """
    runs = list(chart.series)
    if len(runs) == 1:
        runs = []
    top, title = ROW * (len(runs) + 1) + 6, markup.text(chart.title)
    drawing = (
        f'<svg viewBox="0 {-top} {WIDTH} {HEIGHT + top}" role="img" '
        f'aria-label="{title}" xmlns="http://www.w3.org/2000/svg">'
    )
    if alone:
        drawing += f"<style>{STYLE}</style>"
        drawing += f'<path d="M0 {-top}h{WIDTH}v{HEIGHT + top}H0z" style="fill:#fff"/>'
    drawing += f'<text x="8" y="{ROW - top}">{title}</text>'
    for number, run in enumerate(runs):
        y = ROW * (number + 2) - top
        drawing += f'<rect x="8" y="{y - 9}" width="10" height="10" class="{_class(number)}"/>'
        drawing += f'<text x="24" y="{y}">{markup.text(one_line(run, 60))}</text>'
    return f"{drawing}{_lines(chart)}</svg>"


def _class(number: int) -> str:
    return f"s{number % len(COLOURS)}"


def _y(percent: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - percent / 100)


def _lines(chart: Chart) -> str:
    places = sorted(dict(chain.from_iterable(chart.series.values())))
    first, last = places[0], places[-1]

    def x(at: int) -> float:
        return LEFT + 8 + (WIDTH - LEFT - RIGHT - 16) * (at - first) / max(1, last - first)

    drawing = ""
    for percent in (0, 25, 50, 75, 100):
        y = _y(percent)
        drawing += f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        drawing += f'<text x="{LEFT - 6}" y="{y + 4:.1f}" class="end">{percent}</text>'
    for at in places[:: -(-len(places) // LABELS)]:
        drawing += f'<text x="{x(at):.1f}" y="{HEIGHT - BOTTOM + 15}" class="middle">{at}</text>'
    drawing += (
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" class="end">{markup.text(chart.axis)}</text>'
    )
    for number, points in enumerate(chart.series.values()):
        path = [f"{x(at):.1f},{_y(value):.1f}" for at, value in points]
        drawing += f'<polyline class="{_class(number)}" points="{" ".join(path)}"/>'
        if points:  # where the run ends
            left, top = path[-1].split(",")
            drawing += f'<circle cx="{left}" cy="{top}" r="3" class="{_class(number)}"/>'
    return drawing
