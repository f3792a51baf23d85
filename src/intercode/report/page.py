"""A report as one HTML page, and its charts as SVG files.

The page needs no network, no script and no other file. Episodes hold whatever agents and programs printed, so every text
passes `_text`, and the page's own policy forbids scripts, frames and requests of any kind, should a text ever get through.

    lines: one polyline for each run over 0 to 100 %
    bars:  one row for each label, with one bar for each run
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from intercode.report import tables
from intercode.report.summary import hardness_order
from intercode.report.text import one_line, visible

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400, 220, 34, 12, 10, 34
BAR, GAP, NAMES, FIGURES = 14, 8, 118, 44
ROW = 18
"""Height of a line of text above the chart."""
COLOURS = ("#0b62c4", "#b4470e", "#18794e", "#8e3fb5", "#a0154f", "#5c6470")
"""Colours of the runs; a seventh run uses the first colour again."""
STYLE = """\
text{font:12px "Liberation Sans",sans-serif}.end{text-anchor:end}.middle{text-anchor:middle}
line{stroke:#d8dce2}polyline{fill:none;stroke:currentColor;stroke-width:2}"""

Found = Mapping[str, Any]
Series = Mapping[str, Sequence[tuple[str, float]]]


def page(whole: Found) -> str:
    """Return the page of `side_by_side`'s report."""
    names = tables.labels(whole["runs"])
    style = files("intercode.report").joinpath("page.css").read_text("utf-8")
    body = "\n".join(_body(whole, names))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_text(f"intercode report: {' and '.join(names)}")}</title>
<style>
{style}</style>
</head>
<body><main>
{body}
</main></body>
</html>
"""


def _body(whole: Found, names: Sequence[str]) -> Iterator[str]:
    runs = whole["runs"]
    yield f"<h1>{_text(' and '.join(names))}</h1>"
    yield "<p>Every figure's rule is in docs/report.md of intercode. Intervals are at 95 %.</p>"
    yield from map(_section, tables.overview(runs))
    for run, name in zip(runs, names, strict=True):
        if run.get("excluded"):
            yield f"<p>{_text(name)} leaves out {len(run['excluded'])} broken tasks: {_text(', '.join(run['excluded']))}</p>"
    if "comparison" in whole:
        yield f"<h2>{_text(names[1])} minus {_text(names[0])}</h2>"
        yield from map(_section, tables.comparison(whole["comparison"], most=sys.maxsize))
    yield f'<h2>Charts</h2><div class="charts">{"".join(map(svg, charts(whole)))}</div>'
    for run, name in zip(runs, names, strict=True):
        yield f"<h2>{_text(name)}</h2>"
        yield from map(_section, tables.details(run["analysis"]))
        for row in run["analysis"]["failures"]:
            examples = "".join(map(_example, row["examples"]))
            yield f"<details><summary>Episodes: {_text(row['name'])}</summary>{examples}</details>"


def _section(section: tables.Section) -> str:
    """Return a line of text, or a title and a table, which scrolls by itself if it is too wide."""
    if not section.rows:
        return f"<p>{_text(section.title)}</p>"
    head = "".join(f"<th>{_text(name)}</th>" for name in section.rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{_text(text)}</td>' for text in row.values())}</tr>" for row in section.rows)
    return f'<h3>{_text(section.title)}</h3><div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _example(example: Found) -> str:
    action = "no code" if example["action"] is None else example["action"]
    parts = ", ".join(f"{name} {value:.2g}" for name, value in example["parts"].items())
    epoch = f", epoch {example['epoch']}" if example["epoch"] else ""
    return (
        f"<h3>Task {_text(example['task'])}{epoch}</h3><p>{_text(example['query'])}</p>"
        f"{f'<p>parts of the reward: {_text(parts)}</p>' if parts else ''}"
        f"<p>last action</p><pre>{_text(action)}</pre><p>its output</p><pre>{_text(example['observation']) or 'nothing'}</pre>"
    )


# -- charts -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chart:
    """A chart as numbers. `series` has the points of each run, (label, percentage); `lines`: labels are numbers in order."""

    name: str
    title: str
    axis: str
    series: Series
    lines: bool = True


def charts(whole: Found) -> list[Chart]:
    """Return the charts of `side_by_side`'s report, without empty ones."""
    runs = dict(zip(tables.labels(whole["runs"]), whole["runs"], strict=True))

    def series(points: Callable[[Found], Iterable[tuple[object, float | None]]]) -> Series:
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


def draw(whole: Found, folder: str | Path) -> None:
    """Write each chart of `side_by_side`'s report to FOLDER/NAME.svg, and make the folder. Raises `OSError`."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for chart in charts(whole):
        Path(folder, f"{chart.name}.svg").write_text(svg(chart), "utf-8")


def svg(chart: Chart) -> str:
    """Return the chart as an SVG document: its title, the name of each run if there are several, and the marks."""
    runs = list(chart.series) if len(chart.series) > 1 else []
    top = ROW * (len(runs) + 1) + 6
    height, marks = (HEIGHT, list(_lines(chart))) if chart.lines else _bars(chart)
    head = f'<text x="8" y="{ROW - top}">{_text(chart.title)}</text>'
    for number, run in enumerate(runs):
        y = ROW * (number + 2) - top
        head += f'<rect x="8" y="{y - 9}" width="10" height="10" fill="{COLOURS[number % len(COLOURS)]}"/>'
        head += f'<text x="24" y="{y}">{_text(one_line(run, 60))}</text>'
    return (
        f'<svg viewBox="0 {-top} {WIDTH} {height + top}" role="img" xmlns="http://www.w3.org/2000/svg"><style>{STYLE}</style>'
        f'<rect y="{-top}" width="100%" height="100%" fill="#fff"/>{head}{"".join(marks)}</svg>'
    )


def _lines(chart: Chart) -> Iterator[str]:
    labels = sorted({int(label) for points in chart.series.values() for label, _ in points})
    first, last = labels[0], labels[-1]

    def x(label: int) -> float:
        return LEFT + 8 + (WIDTH - LEFT - RIGHT - 16) * (label - first) / max(1, last - first)

    def y(percent: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - percent / 100)

    for percent in (0, 25, 50, 75, 100):
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(percent):.1f}" y2="{y(percent):.1f}"/>'
        yield f'<text x="{LEFT - 6}" y="{y(percent) + 4:.1f}" class="end">{percent}</text>'
    for label in labels[:: -(-len(labels) // 12)]:
        yield f'<text x="{x(label):.1f}" y="{HEIGHT - BOTTOM + 15}" class="middle">{label}</text>'
    yield f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" class="end">{_text(chart.axis)}</text>'
    for number, points in enumerate(chart.series.values()):
        colour = COLOURS[number % len(COLOURS)]
        yield f'<polyline color="{colour}" points="{" ".join(f"{x(int(at)):.1f},{y(value):.1f}" for at, value in points)}"/>'
        for at, value in points if len(points) == 1 else ():
            yield f'<circle cx="{x(int(at)):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>'


def _bars(chart: Chart) -> tuple[int, list[str]]:
    runs = [dict(points) for points in chart.series.values()]
    labels = list(dict.fromkeys(label for points in runs for label in points))
    if chart.name == "hardness":
        labels.sort(key=hardness_order)
    row, marks = BAR * len(runs) + GAP, []
    for at, label in enumerate(labels):
        middle = at * row + BAR * len(runs) / 2 + 4
        marks.append(f'<text x="{NAMES - 8}" y="{middle:.1f}" class="end">{_text(label)}</text>')
        for number, points in enumerate(runs):
            if label in points:
                y, length = at * row + number * BAR, (WIDTH - NAMES - FIGURES) * points[label] / 100
                colour = COLOURS[number % len(COLOURS)]
                marks.append(f'<rect x="{NAMES}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>')
                marks.append(f'<text x="{NAMES + length + 5:.1f}" y="{y + BAR - 4}">{points[label]:.1f}</text>')
    return len(labels) * row, marks


def _text(text: str) -> str:
    return escape(visible(text))
