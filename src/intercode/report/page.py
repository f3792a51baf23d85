"""A report as one HTML page, and its charts as SVG files.

The page needs no network, no script and no other file, and follows the reader's light or dark mode. Episodes hold whatever
agents and programs printed, so every text passes `_text`, and the page's own policy forbids scripts, frames and requests of
any kind, should a text ever get through. The style sheet is page.css; it colours the charts by the classes s0, s1, …

    lines: one polyline for each run over 0 to 100 %, a dot and a tooltip for each point if they are few
    bars:  one row for each label, with one bar for each run
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from intercode.report import tables
from intercode.report.summary import LEVELS
from intercode.report.text import one_line, visible

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
FOR_ALL = "Every figure's rule is in docs/report.md of intercode. Intervals are at 95 %."
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400, 220, 34, 12, 10, 34
BAR, GAP, NAMES, FIGURES = 14, 8, 118, 44
DOTS = 200
COLOURS = 6
"""Runs with a colour of their own; further runs use the colours again."""
ROW = 18
"""Height of a line of text above the chart in a file."""
STYLE = """\
text{font:12px "Liberation Sans",sans-serif;fill:#59636e}.name{fill:#1b1f24}.grid{stroke:#d8dce2}
polyline{fill:none;stroke:currentColor;stroke-width:2}circle,rect{fill:currentColor}.ground{color:#fff}
.s0{color:#0b62c4}.s1{color:#b4470e}.s2{color:#18794e}.s3{color:#8e3fb5}.s4{color:#a0154f}.s5{color:#5c6470}
.s1 polyline{stroke-dasharray:7 3}.s2 polyline{stroke-dasharray:2 3}.s3 polyline{stroke-dasharray:9 3 2 3}"""
"""The style of a file: page.css's rules with plain colours, since programs that convert SVG know no variables."""

Found = dict[str, Any]
Series = Mapping[str, Sequence[tuple[str, float]]]


def page(whole: Found) -> str:
    """Return the page of `side_by_side`'s report."""
    names = tables.labels(whole["runs"])
    title = f"intercode report: {' and '.join(names)}"
    style = files("intercode.report").joinpath("page.css").read_text("utf-8")
    body = "\n".join(_body(whole, names))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_text(title)}</title>
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
    yield f"<h1>{_name(' and '.join(names))}</h1>"
    yield f'<p class="quiet">{FOR_ALL}</p>'
    if len(runs) > 1:
        yield _table(_transpose(tables.overview_rows(runs)))
    else:
        titles = {"n": "episodes", "95 %": "interval, %", "mean": "mean reward", "turns": "mean turns", "s": "seconds"}
        cells = tables.overview_rows(runs)[0].items()
        cards = "".join(f"<div><dt>{_text(titles.get(key, key))}</dt><dd>{_text(cell)}</dd></div>" for key, cell in cells)
        yield f'<dl class="figures">{cards}</dl>'
        if (excluded := runs[0].get("excluded")) is not None:
            yield f"<p>Left out as broken: {len(excluded)} tasks: {_text(', '.join(excluded))}</p>"
    if "comparison" in whole:
        yield from _comparison(whole["comparison"], names)
    yield "<h2>Charts</h2>"
    if len(names) > 1:
        marks = (f'<li class="s{at % COLOURS}"><span>{_text(name)}</span></li>' for at, name in enumerate(names))
        yield f'<ul class="legend">{"".join(marks)}</ul>'
    figures = (f"<figure><figcaption>{_text(chart.title)}</figcaption>{svg(chart)}</figure>" for chart in charts(whole))
    yield f'<div class="charts">{"".join(figures)}</div>'
    yield _titled("Success by hardness, % of episodes", _transpose(tables.hardness_rows(runs)))
    for run, name in zip(runs, names, strict=True):
        yield from _details(run, name)


def _details(run: Found, name: str) -> Iterator[str]:
    found = run["analysis"]
    yield f"<h2>{_name(name)}: turn by turn</h2>"
    yield f"<p>{_text(' '.join(tables.sentences(found)))}</p>"
    sections = (
        _titled("Episodes solved so far, and code that failed, in %", tables.turn_rows(found)),
        _titled("Turns by what happened", tables.action_rows(found)),
        _titled("Success with k attempts, in %", tables.pass_at_k_rows(run)),
        _titled("Success by data set", tables.data_set_rows(found)),
    )
    yield f'<div class="tables">{"".join(sections)}</div>'
    yield f"<h2>{_name(name)}: why episodes failed</h2>"
    for row in found["failures"]:
        count = f"{row['episodes']} ({100 * row['share']:.1f} %)"
        head = f'<summary><b>{_text(row["name"])}</b>: {count} <span class="quiet">{_text(row["rule"])}</span>'
        yield f"<details>{head}</summary>{''.join(map(_example, row['examples']))}</details>"


def _example(example: Found) -> str:
    action = "no code" if example["action"] is None else example["action"]
    parts = ", ".join(f"{name} {value:.2g}" for name, value in example["parts"].items())
    epoch = f", epoch {example['epoch']}" if example["epoch"] else ""
    return (
        f"<h3>Task {_text(example['task'])}{epoch}</h3><p>{_text(example['query'])}</p>"
        f"{f'<p class=quiet>parts of the reward: {_text(parts)}</p>' if parts else ''}"
        f'<p class="quiet">last action</p><pre>{_text(action)}</pre>'
        f'<p class="quiet">its output</p><pre>{_text(example["observation"]) or "nothing"}</pre>'
    )


def _comparison(found: Found | None, names: Sequence[str]) -> Iterator[str]:
    yield "<h2>The same tasks in both</h2>"
    if found is None:
        yield "<p>The runs have no task in common, so they are not compared.</p>"
        return
    part = tables.difference_rows(found)[0]
    yield (
        f"<p>The second, {_text(names[1])}, minus the first, {_text(names[0])}: <b>{part['change']} points</b> of success "
        f"({part['95 %']}), p = {part['p']} in a paired test over {part['tasks']} tasks.</p>"
    )
    if found["unpaired"]:
        yield f"<p>{found['unpaired']} tasks are in one of the runs only, and are left out.</p>"
    yield _table(tables.difference_rows(found))
    for name, which in (("gained", "second"), ("lost", "first")):
        listed = "".join(f"<li>{_text(one_line(tables.flip(each), 250))}</li>" for each in found[name])
        head = f"<b>{name}</b> ({len(found[name])}): tasks that the {which} run solved more often"
        yield f"<details><summary>{head}</summary><ul>{listed}</ul></details>"


def _titled(title: str, found: Sequence[tables.Row]) -> str:
    return f"<section><h3>{_text(title)}</h3>{_table(found)}</section>" if found else ""


def _transpose(found: Sequence[tables.Row]) -> list[tables.Row]:
    """Return a table with rows and columns exchanged, which suits a narrow screen if the runs are few."""
    first, *others = found[0] if found else ["run"]
    return [{"": column, **{row[first]: row[column] for row in found}} for column in others]


def _table(found: Sequence[tables.Row]) -> str:
    """Return rows as a table, which scrolls by itself if it is too wide."""
    kinds = {name: ' class="words"' if name in tables.WORDS else "" for name in found[0]}
    head = "".join(f'<th scope="col"{kind}>{_name(name)}</th>' for name, kind in kinds.items())
    lines = ("".join(f"<td{kinds[name]}>{_text(cell)}</td>" for name, cell in row.items()) for row in found)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


# -- charts -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chart:
    """A chart as numbers. `series` has the points of each run, (label, percentage); `lines`: labels are numbers in order."""

    name: str
    title: str
    axis: str
    series: Series
    lines: bool = True


def charts(whole: Mapping[str, Any]) -> list[Chart]:
    """Return the charts of `side_by_side`'s report, without empty ones."""
    runs = dict(zip(tables.labels(whole["runs"]), whole["runs"], strict=True))

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
    """Return all labels of a chart in the order of the runs; levels of hardness from easy to hard."""
    found = list(dict.fromkeys(label for points in series.values() for label, _ in points))
    return sorted(found, key=LEVELS.index) if set(found) <= set(LEVELS) else found


def draw(whole: Mapping[str, Any], folder: str | Path) -> None:
    """Write each chart of `side_by_side`'s report to FOLDER/NAME.svg, and make the folder. Raises `OSError`."""
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
    """Return the chart as SVG below `head`, which takes `top` units above it."""
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
        points_xy = [(_x(label, labels), _y(value)) for label, value in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points_xy)
        yield f'<g class="s{number % COLOURS}"><polyline points="{path}"/>'
        for (x, y), (label, value) in zip(points_xy, points, strict=True) if len(points) <= DOTS else ():
            tip = f"{_text(run)}, {_text(chart.axis)} {label}: {value:.1f} %"
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{tip}</title></circle>'
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
                y, length = at * row + number * BAR, (WIDTH - NAMES - FIGURES) * value / 100
                marks.append(
                    f'<g class="s{number % COLOURS}"><rect x="{NAMES}" y="{y}" width="{length:.1f}" height="{BAR - 2}">'
                    f"<title>{_text(f'{run}, {label}')}: {value:.1f} %</title></rect></g>"
                    f'<text class="tick" x="{NAMES + length + 5:.1f}" y="{y + BAR - 4}">{value:.1f}</text>'
                )
    return len(labels) * row, marks


def _name(text: str) -> str:
    """Return a name that a browser may break after an underscore."""
    return _text(text).replace("_", "_<wbr>")


def _text(text: str) -> str:
    return escape(visible(text))
