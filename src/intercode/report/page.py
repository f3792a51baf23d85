"""A report as one HTML page, which needs no network, no script and no other file.

    settings · figures · two runs compared · charts · tasks × runs          each figure leads to
    each run in detail ── its episodes: failed ones by cause, errors, solved ── folded transcripts

Episodes hold whatever agents and programs printed, so every text passes `markup.text`, and the
page's own policy forbids scripts, frames and requests of any kind, should a text ever get through.
Ids are made of numbers. The page is bounded, so that it can be sent: transcripts of failed episodes
come first, and what has no room is counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from intercode.envs import language_of
from intercode.report import charts, markup, tables
from intercode.report.analysis import Run, find_categories
from intercode.report.text import one_line
from intercode.report.transcript import State, state_of, steps, verdict
from intercode.report.turns import task_order
from intercode.types import Episode

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
BUDGET = 4_000_000
"""Bytes of transcripts in a page."""
_TURNS = 30
"""Turns of a transcript: the first half and the last half of so many."""
_TASKS = 1_000
"""Rows of a table of tasks."""
_RANKS: Mapping[State, int] = {"failed": 0, "ambiguous": 0, "fault": 1, "unscored": 1, "solved": 2}
_SETTINGS = (
    "created",
    "env",
    "data",
    "data_digest",
    "data_from",
    "tree",
    "databases",
    "dump",
    "engine",
    "assets",
    "limit",
    "tasks",
    "everything",
    "agent",
    "agent_source",
    "model",
    "prompt",
    "turns",
    "epochs",
    "seed",
    "temperature",
    "reply_tokens",
    "protocol",
    "reward",
    "session",
    "tell",
    "submits",
    "handicap",
    "sandbox",
    "wall",
    "files",
    "image",
    "setup",
    "userland",
    "episode_cost",
    "episode_tokens",
    "episode_seconds",
    "max_cost",
    "max_tokens",
    "max_seconds",
    "price",
    "planned",
    "workers",
    "git_commit",
    "versions",
    "rescored_from",
    "played_for",
)
"""The settings that are shown."""

Found = Mapping[str, Any]
Link = Callable[[tables.Row, str], str | None]
Key = tuple[int, str, int]
"""An episode: the number of its run, its task and its epoch."""


def page(whole: Found, runs: Sequence[Run]) -> str:
    """Return the page of `runs`; `whole` is what `side_by_side` found in them."""
    names = tables.labels(whole["runs"])
    style = "".join(
        files("intercode.report").joinpath(name).read_text("utf-8")
        for name in ("transcript.css", "page.css")
    )
    body = "\n".join(_Page(whole, runs, names).body())
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{markup.text(f"intercode report: {' and '.join(names)}")}</title>
<style>
{style}{charts.PAGE_STYLE}
</style>
</head>
<body><main>
{body}
</main></body>
</html>
"""


class _Page:
    """The parts of the page. `transcripts` has the id and the HTML of each episode for which there
    is room."""

    def __init__(self, whole: Found, runs: Sequence[Run], names: Sequence[str]) -> None:
        self.whole, self.runs, self.names = whole, runs, names
        self.groups = [_groups(*run) for run in runs]
        self.by_task: list[dict[str, list[Episode]]] = [{} for _ in runs]
        for (_, episodes), by_task in zip(runs, self.by_task, strict=True):
            for episode in sorted(episodes, key=lambda episode: episode.epoch):
                by_task.setdefault(episode.task, []).append(episode)
        tasks = {task for by_task in self.by_task for task in by_task}
        self.rows = {task: f"k{row}" for row, task in enumerate(sorted(tasks, key=task_order))}
        self.transcripts = self._write_transcripts()

    def body(self) -> Iterator[str]:
        runs = self.whole["runs"]
        links = {"comparison": "Comparison"} if "comparison" in self.whole else {}
        links |= {"charts": "Charts", "tasks": "Tasks"} | {
            f"run{at}": one_line(name, 40) for at, name in enumerate(self.names)
        }
        nav = "".join(
            f'<a href="#{name}">{markup.text(title)}</a>' for name, title in links.items()
        )
        yield f"<nav>{nav}</nav><h1>{markup.text(' and '.join(self.names))}</h1>"
        yield from self._facts()
        yield from (_section(section, self._figure) for section in tables.overview(runs))
        for run, name in zip(runs, self.names, strict=True):
            if run.get("excluded"):
                excluded = one_line(", ".join(run["excluded"]), 1_000)
                yield (
                    f"<p>{markup.text(name)} leaves out {len(run['excluded'])} broken tasks: "
                    f"{markup.text(excluded)}</p>"
                )
        compared, flips = self.whole.get("comparison"), dict[str, list[str]]()
        if "comparison" in self.whole:
            yield (
                f'<h2 id="comparison">{markup.text(self.names[1])} minus '
                f"{markup.text(self.names[0])}</h2>"
            )
            yield from map(_section, tables.differences(compared))
        if compared:
            flips = {name: [flip["task"] for flip in compared[name]] for name in ("gained", "lost")}
            counts = (
                f'<a href="#{name}">{len(tasks):,} tasks {name}</a>'
                for name, tasks in flips.items()
            )
            yield f"<p>{' · '.join(counts)}</p>"
        drawn = "".join(f"<div>{charts.svg(chart)}</div>" for chart in charts.charts(self.whole))
        yield f'<h2 id="charts">Charts</h2><div class="charts">{drawn}</div>'
        for name, tasks in flips.items():
            yield (
                f'<h2 id="{name}">{name.capitalize()}: '
                f"{len(tasks):,} tasks</h2>{self._tasks(tasks) if tasks else ''}"
            )
        yield '<h2 id="tasks">Tasks</h2>'
        signs = "✓ solved, ✗ not solved, ≈ ambiguous, ! fault, 2/3: solved in two of three epochs"
        yield f"<p>{signs}. Signs lead to transcripts.</p>"
        yield self._tasks(list(self.rows), named=True)
        total = sum(len(episodes) for _, episodes in self.runs)
        if total > len(self.transcripts):
            yield (
                f"<p>The transcripts of {total - len(self.transcripts):,} of {total:,} episodes "
                "have no room in this page; <code>intercode view</code> shows all.</p>"
            )
        for number in range(len(self.runs)):
            yield from self._run(number)

    def _facts(self) -> Iterator[str]:
        """Yield where the runs come from, and their settings."""
        configs = [config for config, _ in self.runs]
        for config, name in zip(configs, self.names, strict=True):
            found = [
                str(config[key]) for key in ("env", "data", "agent", "model") if config.get(key)
            ]
            facts = one_line(" · ".join([tables.minute(config.get("created")), *found]), 300)
            yield f"<p><strong>{markup.text(name)}</strong> {markup.text(facts)}</p>"
        rows = []
        for key in _SETTINGS:
            values = [config.get(key) for config in configs]
            if any(value not in (None, "", [], {}, False) for value in values):
                texts = [
                    value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                    for value in values
                ]
                named = f"<mark>{key}</mark>" if len(set(texts)) > 1 and key != "created" else key
                cells = "".join(f"<td>{markup.text(one_line(text, 300))}</td>" for text in texts)
                rows.append(f'<tr><th scope="row">{named}</th>{cells}</tr>')
        differ = " (those that differ are marked)" if len(configs) > 1 else ""
        table = _table(["setting", *self.names], rows)
        yield f"<details><summary>Settings{differ}</summary>{table}</details>"
        yield (
            "<p>The rule of each figure is in docs/report.md of intercode. "
            "Intervals are at 95 %.</p>"
        )

    def _figure(self, row: tables.Row, column: str) -> str | None:
        """Return where a figure of the overview leads."""
        run = self.names.index(row["run"]) if "run" in row else 0
        group = {"success %": "solved", "errors": "error"}.get(column, "")
        return _group_id(run, group) if group in self.groups[run] else None

    def _tasks(self, tasks: Sequence[str], *, named: bool = False) -> str:
        """Return a table of tasks × runs; if there are too many, those that all runs solved are
        left out first."""

        def solved(task: str) -> bool:
            return all(
                episode.success for by_task in self.by_task for episode in by_task.get(task, ())
            )

        kept, rows = set(sorted(tasks, key=solved)[:_TASKS]), []
        for task in filter(kept.__contains__, tasks):
            cells = "".join(
                f"<td>{self._cell(number, task)}</td>" for number in range(len(self.runs))
            )
            query = one_line(
                next(by_task[task][0].query for by_task in self.by_task if task in by_task), 160
            )
            anchor = f' id="{self.rows[task]}"' if named else ""
            name = f'<th scope="row">{markup.text(one_line(task))}</th>'
            rows.append(f"<tr{anchor}>{name}{cells}<td>{markup.text(query)}</td></tr>")
        more = f"<p>and {len(tasks) - len(rows):,} more tasks</p>" if len(tasks) > len(rows) else ""
        heads = ["task", *(one_line(name, 60) for name in self.names), "query"]
        return f'<div class="tasks">{_table(heads, rows)}</div>{more}'

    def _cell(self, run: int, task: str) -> str:
        """Return how a run did on a task, with a link to the transcript: of several epochs to the
        first that was not solved."""
        if not (episodes := self.by_task[run].get(task)):
            return "–"
        scored = [episode for episode in episodes if episode.reward is not None]
        first = min(episodes, key=lambda episode: _RANKS[state_of(episode)])
        solved = f"{sum(episode.success for episode in scored)}/{len(scored)}"
        shown = solved if len(scored) > 1 else markup.mark(state_of(first))
        anchor, _ = self.transcripts.get((run, task, first.epoch), ("", ""))
        return f'<a href="#{anchor}">{shown}</a>' if anchor else shown

    # -- one run -----------------------------------------------------------------------------------

    def _run(self, number: int) -> Iterator[str]:
        def figure(row: tables.Row, column: str) -> str | None:
            return (
                _group_id(number, row["category"])
                if column == "episodes" and "category" in row
                else None
            )

        yield f'<h2 id="run{number}">{markup.text(self.names[number])}</h2>'
        yield from (
            _section(section, figure)
            for section in tables.details(self.whole["runs"][number]["analysis"])
        )
        for name, episodes in self.groups[number].items():
            keys = [(number, episode.task, episode.epoch) for episode in episodes]
            shown = [self.transcripts[key][1] for key in keys if key in self.transcripts]
            left = (
                f" ({len(keys) - len(shown):,} of them without a transcript in this page)"
                if len(shown) < len(keys)
                else ""
            )
            yield (
                f'<h3 id="{_group_id(number, name)}">{name}: {len(episodes):,} episodes{left}</h3>'
            )
            yield from shown

    def _write_transcripts(self) -> dict[Key, tuple[str, str]]:
        """Return the transcripts for which there is room; those of failed and ambiguous episodes
        come first."""
        found: dict[Key, tuple[str, str]] = {}
        room = BUDGET
        episodes = [
            (number, episode) for number, (_, each) in enumerate(self.runs) for episode in each
        ]
        episodes.sort(
            key=lambda each: (
                _RANKS[state_of(each[1])],
                task_order(each[1].task),
                each[1].epoch,
                each[0],
            )
        )
        for at, (number, episode) in enumerate(episodes):
            content = self._transcript(number, episode, f"e{at}")
            room -= len(content.encode())
            if room < 0:
                break
            found[number, episode.task, episode.epoch] = f"e{at}", content
        return found

    def _transcript(self, number: int, episode: Episode, anchor: str) -> str:
        """Return a folded transcript. Its id is inside, so that browsers unfold it for a link."""
        all_steps, language = steps(episode), language_of(self.runs[number][0])
        half = _TURNS // 2 if len(all_steps) > _TURNS else len(all_steps)
        turns = [
            markup.turn(step, language, anchor=f"{anchor}t")
            for step in (*all_steps[:half], *all_steps[half:][-half:])
        ]
        if len(turns) < len(all_steps):
            turns.insert(
                half, f'<p class="gap">… {len(all_steps) - len(turns):,} turns left out …</p>'
            )
        epoch = f" epoch {episode.epoch}" if episode.epoch else ""
        title = f"{markup.mark(state_of(episode))} {markup.text(one_line(episode.task))}{epoch}"
        query = markup.text(one_line(episode.query, 120))
        back = f' <a href="#{self.rows[episode.task]}">all runs</a>' if len(self.runs) > 1 else ""
        return (
            f'<details><summary>{title} <span class="quiet">{query}</span></summary>'
            f'<div class="transcript" id="{anchor}"'
            f' tabindex="-1"><p>{markup.bounded(episode.query)}{back}</p>'
            f"{markup.verdict(verdict(episode))}{''.join(turns)}</div></details>"
        )


def _groups(config: Mapping[str, Any], episodes: Sequence[Episode]) -> dict[str, list[Episode]]:
    """Return the episodes by cause of failure, then those with errors, and the solved ones; without
    empty groups."""
    found = {
        name: [case.episode for case in cases]
        for name, cases in find_categories(config, episodes).items()
    }
    ordered = sorted(episodes, key=lambda episode: (task_order(episode.task), episode.epoch))
    found["error"] = [episode for episode in ordered if episode.error is not None]
    found["not scored"] = [
        episode for episode in ordered if episode.reward is None and episode.error is None
    ]
    found["solved"] = [episode for episode in ordered if episode.success]
    return {name: each for name, each in found.items() if each}


def _group_id(run: int, name: str) -> str:
    return f"run{run}-{name.replace(' ', '-')}"


def _section(section: tables.Section, link: Link = lambda row, column: None) -> str:
    """Return a line of text, or a title and a table. `link` returns where a cell leads."""
    if not section.rows:
        return f"<p>{markup.text(section.title)}</p>"

    def cell(row: tables.Row, column: str) -> str:
        shown, target = markup.text(row[column]), link(row, column)
        return f'<td><a href="#{target}">{shown}</a></td>' if target else f"<td>{shown}</td>"

    rows = [f"<tr>{''.join(cell(row, column) for column in row)}</tr>" for row in section.rows]
    return f"<h3>{markup.text(section.title)}</h3>{_table(section.rows[0], rows)}"


def _table(heads: Iterable[str], rows: Iterable[str]) -> str:
    """Return a table, which scrolls by itself if it is too wide. `rows` are HTML."""
    head = "".join(f'<th scope="col">{markup.text(name)}</th>' for name in heads)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
