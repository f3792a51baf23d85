"""The data of the viewer's pages; templates/ has their HTML. They work without JavaScript; view.js
adds keys and updates.

    runs ─┬─► the episodes of a run ──► an episode: verdict, turns, forks, the same task elsewhere
          └─► two or more runs, task by task

Every address holds the whole state of its page: filters, order, page, turn. An element with
`data-part` is replaced when the page changes on the server; with `data-each` its children are, one
by one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from intercode.errors import DataError
from intercode.report import markup
from intercode.report.summary import FIGURES, figures, hardness_order, number
from intercode.report.tables import WORDS, figure_cells, minute, without_empty
from intercode.report.text import count_of, one_line, visible
from intercode.report.transcript import ShownTurn, first_difference, last_action, steps, verdict
from intercode.report.turns import task_order
from intercode.runs.folders import RunFolder, others
from intercode.runs.index import FACETS, SORTS
from intercode.types import Episode, line_of, parents_of
from intercode.view.compared import TaskResult, facts_of, results_by_task, settings

ROWS = 100
"""Rows of a table on one page."""
_WINDOW = 60_000
"""Characters of turns on one page."""
_LINKS = 300
"""Turns that the strip above the turns links to."""
_DEEPEST = 50
"""Forks of forks that a tree shows one below the other; the turns after them appear in one row."""
_NEWEST = "-date"
_FACTS = ("date", "env", "data", "agent", "model")
"""The facts that the list of runs shows besides figures."""
_SAID = {"state": "result", "category": "cause", "text": "the text"}

Params = Mapping[str, str]


def make_templates(**values: object) -> Environment:
    """Return the templates, which know `values`. They escape what they show, and make control
    characters visible."""
    templates = Environment(
        loader=PackageLoader("intercode.view"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    templates.globals |= {
        "number": number,
        "count_of": count_of,
        "one_line": one_line,
        "name_of": _name_of,
        "mark": lambda state: Markup(markup.mark(state)),
        "words": WORDS,
        **values,
    }
    return templates


def style() -> str:
    """Return the styles of all pages."""
    places = (("intercode.report", "transcript.css"), ("intercode.view", "static/view.css"))
    return "".join(files(package).joinpath(name).read_text("utf-8") for package, name in places)


class Pages:
    """Writes pages. `root` is the path under which the viewer is served, with the token."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._templates = make_templates(
            root=root,
            url=self.url,
            episode_url=self._episode_url,
            exact=_exact,
            money=lambda cost: f"{cost:.4f}" if cost else "–",
        )

    def url(self, *path: str, **params: object) -> str:
        """Return an address in the viewer; parameters that are None or empty are left out."""
        chosen = {name: value for name, value in params.items() if value not in (None, "")}
        where = "/".join(
            (self.root, *(quote(part, safe="", errors="surrogatepass") for part in path))
        )
        return where + (
            f"?{urlencode(chosen, doseq=True, errors='surrogatepass')}" if chosen else ""
        )

    def error(self, title: str, why: str) -> str:
        return self._fill("error", title=title, why=why)

    def runs(self, runs: Sequence[RunFolder], params: Params) -> str:
        """Return the page of all runs. `q` chooses those with a word, `sort` orders them."""
        word, sort = params.get("q", ""), params.get("sort", _NEWEST)
        rows = [row for row in map(_run_row, runs) if word.lower() in " ".join(row.texts).lower()]
        titles = [*without_empty([row.figures for row in rows]), {}][0]
        shown = [figure for figure in FIGURES if figure.title in titles]
        columns = {"name": "run"} | {name: name for name in _FACTS}
        columns |= {figure.key or figure.title: figure.title for figure in shown}
        name = sort.removeprefix("-") if sort.removeprefix("-") in columns else "date"
        rows.sort(key=lambda row: row.order(name), reverse=sort.startswith("-"))
        return self._fill(
            "runs",
            events=self.url("events"),
            rows=rows,
            columns=columns,
            facts=_FACTS,
            figures=shown,
            numbers=[figure.key or figure.title for figure in shown],
            word=word,
            sort=sort,
            default_sort=_NEWEST,
            address=lambda **changes: self.url("", **{"q": word, "sort": sort, **changes}),
        )

    def episodes(self, run: RunFolder, params: Params, share: float) -> str:
        """Return the list of a run's episodes. `share` of the file is indexed."""
        chosen, config, totals = _chosen(params), run.config, run.figures()
        starts = run.index.find(chosen, chosen.get("text", ""), chosen.get("sort", "task"))
        page, last = _page(params, len(starts))
        columns = {
            "state": "result",
            "task": "task",
            "query": "query",
            "reward": "reward",
            "ended": "ended",
            "category": "why it failed",
            "turns": "turns",
            "tokens": "tokens",
            "cost": "cost $",
            "seconds": "action s",
        }
        for name in ("tokens", "cost"):
            if not totals[name]:
                del columns[name]
        labels = {name: columns[name] for name in ("state", "category")}
        facets = {
            name: values
            for name, values in run.facets().items()
            if len(values) > 1 or name in chosen
        }
        if "hardness" in facets:
            facets["hardness"] = sorted(
                facets["hardness"], key=lambda value: hardness_order(value[0])
            )
        live = []
        for episode, changed in run.live()[:ROWS]:
            actions = [turn.action for turn in episode.turns if turn.action]
            live.append(
                {
                    "task": episode.task,
                    "epoch": episode.epoch,
                    "turns": len(episode.turns),
                    "ago": max(0, round(time.time() - changed)),
                    "action": one_line(actions[-1] if actions else "–"),
                }
            )
        planned = config.get("planned")
        return self._fill(
            "episodes",
            events=self.url("events", run=run.name),
            trail=self._trail(run),
            run=run,
            found=totals,
            share=share,
            facts=facts_of(config),
            planned=planned if isinstance(planned, int) else None,
            figures=without_empty([figure_cells(totals)]),
            settings=settings([config]),
            live=live,
            causes=run.facets().get("category", []),
            facets=facets,
            labels=labels,
            columns=columns,
            chosen={**dict.fromkeys((*FACETS, "text", "sort")), **chosen},
            sort=chosen.get("sort", "task"),
            count=len(starts),
            rows=run.index.page(starts[page * ROWS : (page + 1) * ROWS]),
            page=page,
            last=last,
            address=lambda **changes: self.url("run", run.name, **{**chosen, **changes}),
        )

    def episode(
        self,
        runs: Mapping[str, RunFolder],
        run: RunFolder,
        episode: Episode,
        start: int | None,
        params: Params,
        beside: tuple[RunFolder, Episode] | None = None,
    ) -> str:
        """Return the page of an episode, whose record begins at byte `start`; None while it is
        played.

        `turn` is the first turn to show; without it the turn that differs from `beside`, another
        episode of the task.
        """
        chosen = _chosen(params)
        all_steps = steps(episode)
        key = {"task": episode.task, "epoch": episode.epoch}
        differs = first_difference(episode, beside[1]) if beside else None
        windows = _windows(all_steps) or [[]]
        target = _whole(params.get("turn")) or differs or (len(all_steps) if start is None else 1)
        now = next(
            (
                place
                for place, window in enumerate(windows)
                if window and window[-1].number >= target
            ),
            len(windows) - 1,
        )
        near = {step.number for step in windows[now]}

        def turn_url(turn: int) -> str:
            here = {**chosen, **key, "beside": params.get("beside"), "turn": turn}
            return (
                f"#t{turn}"
                if turn in near
                else self.url("run", run.name, "episode", **here) + f"#t{turn}"
            )

        def whole(turn: int, part: str) -> str:
            return self.url("run", run.name, "text", **key, turn=turn, part=part)

        starts = run.index.find(chosen, chosen.get("text", ""), chosen.get("sort", "task"))
        place = starts.index(start) if start is not None and start in starts else None
        around = [] if place is None else run.index.page(starts[max(0, place - 1) : place + 2])
        rows = {row["start"]: row for row in around}
        word, every = chosen.get("text", ""), -(-len(all_steps) // _LINKS)
        hits = [
            bool(word) and (word in (step.turn.action or "") or word in step.turn.observation)
            for step in all_steps
        ]
        strip = [
            (step, hit)
            for step, hit in zip(all_steps, hits, strict=True)
            if hit or (step.number - 1) % every == 0
        ]
        golds, why = run.golds if start is not None else ({}, "")
        commands = f'<p class="quiet">No gold is shown: {markup.text(why)}.</p>' if why else ""
        if gold := golds.get(episode.task):
            commands = markup.commands(gold, last_action(episode), run.language)
        title = f"{_name_of(episode.task)}{_epoch(episode.epoch)}"
        return self._fill(
            "episode",
            events=self.url("events", run=run.name) if start is None else "",
            trail=self._trail(run, chosen),
            run=run,
            chosen=chosen,
            **key,
            title=title,
            query=Markup(markup.bounded(episode.query)),
            finished=start is not None,
            verdict=Markup(markup.verdict(verdict(episode), run.language)),
            commands=Markup(commands),
            place=place,
            count=len(starts),
            filters=", ".join(
                f"{_SAID.get(name, name)} {value}"
                for name, value in chosen.items()
                if name != "sort"
            ),
            before=rows.get(starts[place - 1]) if place else None,
            after=(
                rows.get(starts[place + 1])
                if place is not None and place + 1 < len(starts)
                else None
            ),
            elsewhere=others(runs, run, episode.task, episode.epoch)[:ROWS],
            differs=differs,
            beside=f"{beside[0].name}{_epoch(beside[1].epoch)}" if beside else "",
            tree=_tree(episode) if any(turn.after is not None for turn in episode.turns) else [],
            line={place + 1 for place in line_of(episode.turns)} if start is not None else set(),
            turn_url=turn_url,
            title_of=lambda number: all_steps[number - 1].title,
            strip=strip if len(all_steps) > 4 or any(hits) else [],
            earlier=windows[now - 1][-1].number if now else None,
            later=windows[now + 1][0].number if now + 1 < len(windows) else None,
            turns=[Markup(markup.turn(step, run.language, whole)) for step in windows[now]],
        )

    def compare(self, runs: Sequence[RunFolder], params: Params) -> str:
        """Return a table of tasks × runs; `only=different` leaves out tasks that all runs solved
        equally often."""
        names = [run.name for run in runs]
        only = params.get("only")
        results = [results_by_task(run.index.all()) for run in runs]
        first = results[0]
        tasks = sorted({task for by_task in results for task in by_task}, key=task_order)
        if only:
            tasks = [
                task for task in tasks if len({_share(by_task, task) for by_task in results}) > 1
            ]
        page, last = _page(params, len(tasks))
        shown = tasks[page * ROWS : (page + 1) * ROWS]

        def cell(run: RunFolder, result: TaskResult | None) -> dict[str, Any] | None:
            if result is None:
                return None
            row = result.first
            beside = None
            if run is not runs[0] and row.task in first:
                beside = f"{first[row.task].first.epoch}~{names[0]}"
            return {"result": result, "url": self._episode_url(run, row._asdict(), beside=beside)}

        queries = [run.queries(shown) for run in runs]
        rows = [
            {
                "task": task,
                "id": "",
                "cells": [
                    cell(run, by_task.get(task)) for run, by_task in zip(runs, results, strict=True)
                ],
                "query": next((by_task[task] for by_task in queries if task in by_task), ""),
            }
            for task in shown
        ]
        figure_rows = []
        for run, by_task in zip(runs, results, strict=True):
            pairs = [(_share(first, task), _share(by_task, task)) for task in by_task]
            changes = [b - a for a, b in pairs if a is not None and b is not None]
            gained, lost = sum(by > 0 for by in changes), sum(by < 0 for by in changes)
            figure_rows.append(
                {
                    "run": run.name,
                    **figure_cells(run.figures()),
                    "shared tasks": "–" if run is runs[0] else str(len(changes)),
                    "tasks gained": "–" if run is runs[0] else str(gained),
                    "tasks lost": "–" if run is runs[0] else str(lost),
                }
            )

        def address(**changes: object) -> str:
            return self.url("compare", **{"run": names, "only": only, **changes})

        return self._fill(
            "compare",
            trail=[("compare", address())],
            names=names,
            only=only,
            run_link=lambda row, column: self.url("run", row["run"]) if column == "run" else None,
            figures=without_empty(
                figure_rows, keep=("run", "shared tasks", "tasks gained", "tasks lost")
            ),
            settings=settings([run.config for run in runs]),
            rows=rows,
            count=len(tasks),
            page=page,
            last=last,
            address=address,
        )

    def _fill(
        self,
        template: str,
        *,
        trail: Sequence[tuple[str, str]] = (),
        events: str = "",
        **values: Any,
    ) -> str:
        return self._templates.get_template(f"{template}.html").render(
            trail=trail, events=events, **values
        )

    def _trail(self, run: RunFolder, chosen: Params | None = None) -> list[tuple[str, str]]:
        return [(run.name, self.url("run", run.name, **(chosen or {})))]

    def _episode_url(
        self, run: RunFolder, row: Mapping[str, Any], chosen: Params | None = None, **more: object
    ) -> str:
        return self.url(
            "run",
            run.name,
            "episode",
            **(chosen or {}),
            task=row["task"],
            epoch=row["epoch"],
            **more,
        )


@dataclass(frozen=True)
class _RunRow:
    """A row of the list of runs: facts and figures as text, and the figures as numbers by key."""

    name: str
    played: bool
    facts: Mapping[str, str]
    figures: dict[str, str]
    values: Mapping[str, Any]

    @property
    def texts(self) -> list[str]:
        return [self.name, *self.facts.values(), *self.figures.values()]

    def order(self, column: str) -> tuple[bool, Any]:
        """Return a key that sorts by a column; a run without the figure comes first."""
        texts = {"name": self.name, **self.facts}
        value = texts[column] if column in texts else {**self.figures, **self.values}[column]
        return value is not None, value


def _run_row(run: RunFolder) -> _RunRow:
    config = run.config
    totals = figures(config, [])
    with suppress(DataError):  # its own page says why there is no index
        totals = run.figures()
    facts = {name: str(config.get(name) or "") for name in _FACTS}
    facts["date"] = minute(config.get("created"))
    return _RunRow(run.name, run.is_played, facts, figure_cells(totals), totals)


def _share(results: Mapping[str, TaskResult], task: str) -> float | None:
    return results[task].share if task in results else None


def _chosen(params: Params) -> dict[str, str]:
    """Return the parameters that choose and order a list of episodes."""
    chosen = {name: params[name] for name in (*FACETS, "text", "sort") if params.get(name)}
    if chosen.get("sort", "task").removeprefix("-") not in SORTS:
        del chosen["sort"]
    return chosen


def _page(params: Params, count: int) -> tuple[int, int]:
    """Return the numbers of the requested page and of the last one, from 0."""
    last = max(0, (count - 1) // ROWS)
    return min(last, max(0, _whole(params.get("page")) - 1)), last


def _windows(all_steps: Sequence[ShownTurn]) -> list[list[ShownTurn]]:
    """Split the turns into pieces that fit on a page."""
    windows, size = list[list[ShownTurn]](), _WINDOW
    for step in all_steps:
        now = step.turn
        texts = (
            step.reasoning,
            now.thought,
            now.action,
            now.action,
            now.observation,
            now.reply,
            *map(str, step.messages),
        )
        length = sum(min(len(text or ""), markup.LONGEST) for text in texts) + 300
        if size + length > _WINDOW:
            windows.append([])
            size = 0
        windows[-1].append(step)
        size += length
    return windows


def _tree(episode: Episode) -> list[dict[str, Any]]:
    """Return the branches of an episode: each item has `turns` (numbers) without a fork between
    them, and the items `below`."""
    children: dict[int, list[int]] = {}
    for place, before in parents_of(episode.turns).items():
        children.setdefault(before, []).append(place)

    def item(place: int, depth: int = 0) -> dict[str, Any]:
        row = [place]
        while len(below := children.get(row[-1], [])) == 1:
            row.append(below[0])
        if depth == _DEEPEST:
            row, below = [place, *_below(children, place)], []
        return {
            "turns": [turn + 1 for turn in row],
            "score": episode.turns[row[-1]].score,
            "below": [item(turn, depth + 1) for turn in below],
        }

    return [item(place) for place in children.get(-1, [])]


def _below(children: Mapping[int, Sequence[int]], place: int) -> list[int]:
    """Return all turns that come after one, in order."""
    places = [place]
    for at in places:
        places += children.get(at, ())
    return sorted(places[1:])


def _name_of(task: str) -> str:
    """Return the id of a task as a link shows it."""
    return one_line(task) or "(no name)"


def _exact(value: str | None) -> Markup:
    """Return the value of a field, which a form sends back: escaped, but not made visible."""
    return escape((value or "").encode(errors="replace").decode())


def _epoch(epoch: int) -> str:
    return f" epoch {epoch}" if epoch else ""


def _whole(value: str | None) -> int:
    return int(value) if value and value.isdecimal() and len(value) < 10 else 0
