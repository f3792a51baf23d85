"""A report as one HTML page: it needs no network, no script and no other file, and follows the reader's light or dark.

Episodes hold whatever agents and programs printed, so every text passes `_text`, and the page's own policy forbids
scripts, frames and requests of any kind, should a text ever get through. The style sheet is page.css.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from intercode.report import rows
from intercode.report.charts import charts
from intercode.report.svg import COLOURS, svg
from intercode.report.text import one_line, visible

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
FOR_ALL = "Every figure's rule is in docs/report.md of intercode. Intervals are at 95 %."

Found = dict[str, Any]


def page(whole: Found) -> str:
    """The page of `side_by_side`'s report."""
    runs = whole["runs"]
    named = rows.labels(runs)
    title = f"intercode report: {' and '.join(named)}"
    style = files("intercode.report").joinpath("page.css").read_text("utf-8")
    body = "\n".join(_body(whole, named))
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


def _body(whole: Found, named: Sequence[str]) -> Iterator[str]:
    runs = whole["runs"]
    yield f"<h1>{_name(' and '.join(named))}</h1>"
    yield f'<p class="quiet">{FOR_ALL}</p>'
    if len(runs) == 1:
        yield _figures(runs[0])
    else:
        yield _table(_turned(rows.overview(runs)))
    if "comparison" in whole:
        yield from _comparison(whole["comparison"], named)
    yield from _charts(whole, named)
    yield _titled("Success by hardness, % of episodes", _turned(rows.levels(runs)))
    for run, name in zip(runs, named, strict=True):
        yield from _closely(run, name)


def _figures(run: Found) -> str:
    """The run's few numbers, as cards."""
    cells = rows.overview([run])[0]
    names = {"n": "episodes", "95 %": "interval, %", "mean": "mean reward", "turns": "mean turns", "s": "seconds"}
    cards = "".join(f"<div><dt>{_text(names.get(key, key))}</dt><dd>{_text(cell)}</dd></div>" for key, cell in cells.items())
    excluded = run.get("excluded")
    note = f"<p>Left out as broken: {len(excluded)} tasks: {_text(', '.join(excluded))}</p>" if excluded is not None else ""
    return f'<dl class="figures">{cards}</dl>{note}'


def _charts(whole: Found, named: Sequence[str]) -> Iterator[str]:
    yield "<h2>Charts</h2>"
    if len(named) > 1:
        marks = (f'<li class="s{at % COLOURS}"><span>{_text(name)}</span></li>' for at, name in enumerate(named))
        yield f'<ul class="legend">{"".join(marks)}</ul>'
    drawn = (f"<figure><figcaption>{_text(chart.title)}</figcaption>{svg(chart)}</figure>" for chart in charts(whole))
    yield f'<div class="charts">{"".join(drawn)}</div>'


def _closely(run: Found, name: str) -> Iterator[str]:
    found = run["analysis"]
    yield f"<h2>{_name(name)}: turn by turn</h2>"
    yield f"<p>{_text(' '.join(rows.sentences(found)))}</p>"
    tables = (
        _titled("Solved by then, and code that failed, in %", rows.turns(found)),
        _titled("What turns were", rows.actions(found)),
        _titled("Success with k attempts, in %", rows.chances(run)),
        _titled("Success by data set", rows.data_sets(found)),
    )
    yield f'<div class="tables">{"".join(tables)}</div>'
    yield f"<h2>{_name(name)}: why episodes failed</h2>"
    yield from map(_category, found["failures"])


def _category(row: Found) -> str:
    counted = f"{row['episodes']} ({100 * row['share']:.1f} %)"
    head = f'<summary><b>{_text(row["name"])}</b>: {counted} <span class="quiet">{_text(row["rule"])}</span>'
    examples = "".join(map(_example, row["examples"]))
    return f"<details>{head}</summary>{examples}</details>"


def _example(example: Found) -> str:
    action = "no code" if example["action"] is None else example["action"]
    parts = ", ".join(f"{name} {value:.2g}" for name, value in example["parts"].items())
    epoch = f", epoch {example['epoch']}" if example["epoch"] else ""
    return (
        f"<h3>Task {_text(example['task'])}{epoch}</h3><p>{_text(example['query'])}</p>"
        f"{f'<p class=quiet>parts of the reward: {_text(parts)}</p>' if parts else ''}"
        f'<p class="quiet">last action</p><pre>{_text(action)}</pre>'
        f'<p class="quiet">what it printed</p><pre>{_text(example["observation"]) or "nothing"}</pre>'
    )


def _comparison(found: Found | None, named: Sequence[str]) -> Iterator[str]:
    yield "<h2>The same tasks in both</h2>"
    if found is None:
        yield "<p>The runs have no task in common, so they are not compared.</p>"
        return
    part = rows.differences(found)[0]
    yield (
        f"<p>The second, {_text(named[1])}, less the first, {_text(named[0])}: <b>{part['change']} points</b> of success "
        f"({part['95 %']}), p = {part['p']} in a paired test over {part['tasks']} tasks.</p>"
    )
    if found["unpaired"]:
        yield f"<p>{found['unpaired']} tasks are in one of the runs only, and are left out.</p>"
    yield _table(rows.differences(found))
    for name, which in (("gained", "second"), ("lost", "first")):
        listed = "".join(f"<li>{_text(one_line(rows.flip(each), 250))}</li>" for each in found[name])
        said = f"<b>{name}</b> ({len(found[name])}): tasks that the {which} alone solved, or solved more often"
        yield f"<details><summary>{said}</summary><ul>{listed}</ul></details>"


def _titled(title: str, found: Sequence[rows.Row]) -> str:
    return f"<section><h3>{_text(title)}</h3>{_table(found)}</section>" if found else ""


def _turned(found: Sequence[rows.Row]) -> list[rows.Row]:
    """A table with its rows as columns: a few runs read better so on a narrow screen."""
    first, *others = found[0] if found else ["run"]
    return [{"": column, **{row[first]: row[column] for row in found}} for column in others]


def _table(found: Sequence[rows.Row]) -> str:
    """Rows as a table that scrolls by itself where it is too wide."""
    kinds = {name: ' class="words"' if name in rows.WORDS else "" for name in found[0]}
    head = "".join(f'<th scope="col"{kind}>{_name(name)}</th>' for name, kind in kinds.items())
    lines = ("".join(f"<td{kinds[name]}>{_text(cell)}</td>" for name, cell in row.items()) for row in found)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _name(text: str) -> str:
    """A name that may be broken after an underscore."""
    return _text(text).replace("_", "_<wbr>")


def _text(text: str) -> str:
    return escape(visible(text))
