"""A chart as inline SVG, coloured by the page's style sheet (classes s0, s1, …): no scripts, no fonts, no dependency.

lines: one polyline a run over 0 to 100 %, a dot and a tooltip for each point where they are few
bars:  one row a label, in it one bar a run
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from intercode.report.charts import Chart, order
from intercode.report.text import visible

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400, 220, 34, 12, 10, 34
BAR, GAP, NAMES, FIGURES = 14, 8, 118, 44
DOTS = 200
COLOURS = 6
"""Runs that the style sheet tells apart; more begin again."""


def svg(chart: Chart) -> str:
    height, marks = (HEIGHT, _lines(chart)) if chart.lines else _bars(chart)
    title = _text(chart.title)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}" xmlns="http://www.w3.org/2000/svg">'
        f"{''.join(marks)}</svg>"
    )


def _lines(chart: Chart) -> Iterator[str]:
    labels = sorted(order(chart.series), key=int)
    yield from _grid()
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


def _grid() -> Iterator[str]:
    for value in (0, 25, 50, 75, 100):
        y = _y(value)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value}</text>'


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
