"""A chart as SVG, in the page (coloured by its style sheet: classes s0, s1, …) or in a file: no scripts, no dependency.

lines: one polyline a run over 0 to 100 %, a dot and a tooltip for each point where they are few
bars:  one row a label, in it one bar a run
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from intercode.report.charts import Chart, charts, order
from intercode.report.text import one_line, visible

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400, 220, 34, 12, 10, 34
BAR, GAP, NAMES, FIGURES = 14, 8, 118, 44
DOTS = 200
COLOURS = 6
"""Runs that the style sheet tells apart; more begin again."""
ROW = 18
"""Height of a line of text above the chart of a file."""
STYLE = """\
text{font:12px "Liberation Sans",sans-serif;fill:#59636e}.name{fill:#1b1f24}.grid{stroke:#d8dce2}
polyline{fill:none;stroke:currentColor;stroke-width:2}circle,rect{fill:currentColor}.ground{color:#fff}
.s0{color:#0b62c4}.s1{color:#b4470e}.s2{color:#18794e}.s3{color:#8e3fb5}.s4{color:#a0154f}.s5{color:#5c6470}
.s1 polyline{stroke-dasharray:7 3}.s2 polyline{stroke-dasharray:2 3}.s3 polyline{stroke-dasharray:9 3 2 3}"""
"""Of a file: page.css's rules with plain colours, since programs that convert SVG know no variables."""


def draw(whole: Mapping[str, Any], folder: str | Path) -> None:
    """Write each chart of `side_by_side`'s report to FOLDER/NAME.svg; the folder is made. Raises OSError."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for chart in charts(whole):
        runs = list(chart.series) if len(chart.series) > 1 else []
        top = ROW * (len(runs) + 1) + 6
        head = [f'<style>{STYLE}</style><rect class="ground" y="{-top}" width="100%" height="100%"/>']
        head.append(f'<text class="name" x="8" y="{ROW - top}">{_text(chart.title)}</text>')
        for number, run in enumerate(runs):
            y = ROW * (number + 2) - top
            head.append(f'<g class="s{number % COLOURS}"><rect x="8" y="{y - 9}" width="10" height="10"/></g>')
            head.append(f'<text x="24" y="{y}">{_text(one_line(run, 60))}</text>')
        Path(folder, f"{chart.name}.svg").write_text(svg(chart, "".join(head), top), "utf-8")


def svg(chart: Chart, head: str = "", top: int = 0) -> str:
    """Return the chart below `head`, which takes the `top` units above it."""
    height, marks = (HEIGHT, _lines(chart)) if chart.lines else _bars(chart)
    title = _text(chart.title)
    return (
        f'<svg viewBox="0 {-top} {WIDTH} {height + top}" role="img" aria-label="{title}" xmlns="http://www.w3.org/2000/svg">'
        f"{head}{''.join(marks)}</svg>"
    )


def _lines(chart: Chart) -> Iterator[str]:
    labels = sorted(order(chart.series), key=int)
    for percent in (0, 25, 50, 75, 100):
        height = _y(percent)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{percent}</text>'
    step = -(-len(labels) // 12)
    for label in labels[::step]:
        yield f'<text class="tick" x="{_x(label, labels):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{label}</text>'
    yield f'<text class="tick" x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{_text(chart.axis)}</text>'
    for number, (run, points) in enumerate(chart.series.items()):
        places = [(_x(label, labels), _y(value)) for label, value in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<g class="s{number % COLOURS}"><polyline points="{path}"/>'
        for (x, y), (label, value) in zip(places, points, strict=True) if len(points) <= DOTS else ():
            said = f"{_text(run)}, {_text(chart.axis)} {label}: {value:.1f} %"
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{said}</title></circle>'
        yield "</g>"


def _x(label: str, labels: Sequence[str]) -> float:
    first, last = int(labels[0]), int(labels[-1])
    return LEFT + 8 + (WIDTH - LEFT - RIGHT - 16) * (int(label) - first) / max(1, last - first)


def _y(value: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / 100)


def _bars(chart: Chart) -> tuple[int, list[str]]:
    labels, runs = order(chart.series), list(chart.series.items())
    row, marks = BAR * len(runs) + GAP, []
    for at, label in enumerate(labels):
        middle = at * row + BAR * len(runs) / 2 + 4
        marks.append(f'<text class="name" x="{NAMES - 8}" y="{middle:.1f}" text-anchor="end">{_text(label)}</text>')
        for number, (run, points) in enumerate(runs):
            if (value := dict(points).get(label)) is not None:
                marks.append(_bar(f"{run}, {label}", number, value, at * row + number * BAR))
    return len(labels) * row, marks


def _bar(said: str, number: int, value: float, y: int) -> str:
    long = (WIDTH - NAMES - FIGURES) * value / 100
    return (
        f'<g class="s{number % COLOURS}"><rect x="{NAMES}" y="{y}" width="{long:.1f}" height="{BAR - 2}">'
        f"<title>{_text(said)}: {value:.1f} %</title></rect></g>"
        f'<text class="tick" x="{NAMES + long + 5:.1f}" y="{y + BAR - 4}">{value:.1f}</text>'
    )


def _text(text: str) -> str:
    return escape(visible(text))
