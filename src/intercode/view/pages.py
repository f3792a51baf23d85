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
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from intercode.errors import DataError
from intercode.report import markup
from intercode.report.summary import FIGURES, column, figures, grouped, hardness_order, number
from intercode.report.tables import WORDS, figure_cells, minute, without_empty
from intercode.report.text import LONGEST, count_of, one_line, visible
from intercode.report.transcript import ShownTurn, first_difference, last_action, steps, verdict
from intercode.runs.folders import RunFolder, others
from intercode.runs.index import FACETS, SORTS
from intercode.types import Episode, line_of, parents_of
from intercode.view.compared import TaskRow, facts_of, settings, task_rows

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

_CHOICES = (*FACETS, "text", "sort")
"""The parameters that choose and order a list of episodes."""

Params = Mapping[str, str]
_NONE: Params = {}


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
    return files("intercode.report").joinpath("transcript.css").read_text("utf-8") + files(
        "intercode.view"
    ).joinpath("static/view.css").read_text("utf-8")


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
        where = self.root
        for name in path:
            where += "/" + quote(name, safe="", errors="surrogatepass")
        if chosen:
            where += f"?{urlencode(chosen, doseq=True, errors='surrogatepass')}"
        return where

    def error(self, title: str, why: str) -> str:
        return self._fill("error", title=title, why=why)

    def runs(self, runs: Sequence[RunFolder], params: Params) -> str:
        """Return the page of all runs. `q` chooses those with a word, `sort` orders them."""
        word, sort = params.get("q", ""), params.get("sort", _NEWEST)
        rows = [row for row in map(_run_row, runs) if word.lower() in " ".join(row.texts).lower()]
        titles = set().union(*without_empty(column(rows, "figures")))
        shown = [figure for figure in FIGURES if figure.title in titles]
        columns = {"name": "run", **{name: name for name in _FACTS}}
        columns |= {figure.key: figure.title for figure in shown}
        name = sort.removeprefix("-")
        if name not in columns:
            name = "date"
        rows.sort(key=lambda row: row.order(name), reverse=sort.startswith("-"))
        return self._fill(
            "runs",
            events=self.url("events"),
            rows=rows,
            columns=columns,
            facts=_FACTS,
            figures=shown,
            numbers=column(shown, "key"),
            word=word,
            sort=sort,
            default_sort=_NEWEST,
            address=lambda **changes: self.url("", **{"q": word, "sort": sort, **changes}),
        )

    def episodes(self, run: RunFolder, params: Params, share: float) -> str:
        """Return the list of a run's episodes. `share` of the file is indexed."""
        chosen, config, totals = _chosen(params), run.config, run.figures()
        starts = _find(run, chosen)
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
        facets = {}
        for name, values in run.facets().items():
            if len(values) > 1 or name in chosen:
                facets[name] = values
        if "hardness" in facets:
            facets["hardness"] = sorted(facets["hardness"], key=lambda row: hardness_order(row[0]))
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
            live=_live(run),
            causes=run.facets().get("category", []),
            facets=facets,
            labels={"state": "result", "category": "why it failed"},
            columns=columns,
            chosen={**dict.fromkeys(_CHOICES), **chosen},
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
        other: tuple[RunFolder, Episode] | None,
    ) -> str:
        """Return the page of an episode, whose record begins at byte `start`; None while it is
        played.

        `turn` is the first turn to show, and `to` the last one; without them the turn that differs
        from `other`, another episode of the task with its run, which is shown beside it. With
        `beside=gold` the gold's command is.
        """
        chosen, all_steps = _chosen(params), steps(episode)
        key = {"task": episode.task, "epoch": episode.epoch}
        sent = {**chosen, **key, "epoch": str(episode.epoch), "beside": params.get("beside", "")}
        differs, other_name, beside = None, "", dict[int, Markup]()
        result = _result(run, episode, start)
        if other:
            differs = first_difference(episode, other[1]) or 0
        target = (
            whole_number(params.get("turn")) or differs or (len(all_steps) if start is None else 1)
        )
        target, until = min(target, len(all_steps)), None
        if last := whole_number(params.get("to")):
            until = max(last, target)
        shown = all_steps[target - 1 : until] if until else all_steps
        windows, now = _windows(shown), 0
        while now + 1 < len(windows) and windows[now][-1].number < target:
            now += 1
        first = windows[now][0].number if windows[now] else 1
        end = until
        if windows[now][-1:] != all_steps[-1:]:
            end = windows[now][-1].number
        if other:
            other_name = f"{other[0].name}{_epoch(other[1].epoch)}"
            for step in steps(other[1])[first - 1 : end]:
                beside[step.number] = Markup(markup.turn(step, run.language, anchor="b"))
        elif params.get("beside") == "gold" and result["gold"]:
            other_name, beside = "the gold", {1: result["gold"]} if first == 1 else {}

        def turn_url(turn: int) -> str:
            if any(step.number == turn for step in windows[now]):
                return f"#t{turn}"
            more = {"beside": params.get("beside"), "turn": turn}
            return f"{self._episode_url(run, key, chosen, **more)}#t{turn}"

        def whole(turn: int, part: str) -> str:
            return self.url("run", run.name, "text", **key, turn=turn, part=part)

        turns = list[tuple[str, str]]()
        for step in windows[now]:
            turns.append(
                (Markup(markup.turn(step, run.language, whole)), beside.pop(step.number, ""))
            )
        turns += [("", right) for right in beside.values()]
        return self._fill(
            "episode",
            events=self.url("events", run=run.name) if start is None else "",
            trail=self._trail(run, chosen),
            run=run,
            chosen=chosen,
            **key,
            title=f"{_name_of(episode.task)}{_epoch(episode.epoch)}",
            query=Markup(markup.bounded(episode.query)),
            **result,
            **_place(run, chosen, start),
            elsewhere=others(runs, run, episode)[:ROWS],
            differs=differs,
            beside=other_name,
            until=until,
            target=target,
            last_turn=len(all_steps),
            sent=sent if all(map(_is_plain, sent.values())) else {},
            tree=_tree(episode),
            turn_url=turn_url,
            title_of=lambda number: all_steps[number - 1].title,
            strip=_strip(all_steps, chosen.get("text", "")),
            earlier=windows[now - 1][-1].number if now else None,
            later=windows[now + 1][0].number if now + 1 < len(windows) else None,
            turns=turns,
        )

    def compare(self, runs: Sequence[RunFolder], params: Params) -> str:
        """Return a table of tasks × runs; `only=different` leaves out tasks that all runs solved
        equally often."""
        names, only = column(runs, "name"), params.get("only")
        rows = task_rows([run.index.all() for run in runs])
        compared = _compared_figures(runs, rows)
        if only:
            rows = [row for row in rows if len(set(row.shares)) > 1]
        page, last = _page(params, len(rows))

        def url(number: int, row: TaskRow) -> str:
            beside = None
            if number and row.results[0]:
                beside = f"{row.results[0].first.epoch}~{names[0]}"
            first = row.results[number].first._asdict()
            return self._episode_url(runs[number], first, beside=beside)

        def address(**changes: object) -> str:
            return self.url("compare", **{"run": names, "only": only, **changes})

        return self._fill(
            "compare",
            trail=[("compare", address())],
            names=names,
            only=only,
            run_link=lambda row, name: self.url("run", row["run"]) if name == "run" else None,
            figures=compared,
            settings=settings(column(runs, "config")),
            rows=rows[page * ROWS : (page + 1) * ROWS],
            result_url=url,
            count=len(rows),
            page=page,
            last=last,
            address=address,
        )

    def _fill(self, template: str, **values: Any) -> str:
        page = self._templates.get_template(f"{template}.html")
        return page.render({"trail": (), "events": "", **values})

    def _trail(self, run: RunFolder, chosen: Params = _NONE) -> list[tuple[str, str]]:
        return [(run.name, self.url("run", run.name, **chosen))]

    def _episode_url(
        self, run: RunFolder, row: Mapping[str, Any], chosen: Params = _NONE, **more: object
    ) -> str:
        task, epoch = row["task"], row["epoch"]
        return self.url("run", run.name, "episode", **chosen, task=task, epoch=epoch, **more)


class _RunRow(NamedTuple):
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
        value = {**self.values, "name": self.name, **self.facts}[column]
        return value is not None, value


def _run_row(run: RunFolder) -> _RunRow:
    config = run.config
    totals = figures(config, [])
    with suppress(DataError):  # its own page says why there is no index
        totals = run.figures()
    facts = {name: str(config.get(name) or "") for name in _FACTS}
    facts |= {"date": minute(config.get("created")), "agent": totals["agent"]}
    return _RunRow(run.name, run.is_played, facts, figure_cells(totals), totals)


def _compared_figures(runs: Sequence[RunFolder], tasks: Sequence[TaskRow]) -> list[dict[str, str]]:
    """Return the figures of each run, and how many tasks it solved more or less often than the
    first run."""
    rows, counts, first_name = [], dict[str, int](), runs[0].name
    for place, run in enumerate(runs):
        changes = []
        for task in tasks:
            first, share = task.shares[0], task.shares[place]
            if first is not None and share is not None:
                changes.append(share - first)
        gained, lost = sum(by > 0 for by in changes), sum(by < 0 for by in changes)
        counts = {
            "shared tasks": len(changes),
            f"more often than {first_name}": gained,
            f"less often than {first_name}": lost,
        }
        row = {"run": run.name, **figure_cells(run.figures())}
        if run is runs[0]:
            row |= dict.fromkeys(counts, "–")
        else:
            row |= {name: f"{count:,}" for name, count in counts.items()}
        rows.append(row)
    return without_empty(rows, keep=("run", *counts))


def _chosen(params: Params) -> dict[str, str]:
    """Return the parameters that choose and order a list of episodes."""
    chosen = {name: params[name] for name in _CHOICES if params.get(name)}
    if chosen.get("sort", "task").removeprefix("-") not in SORTS:
        del chosen["sort"]
    return chosen


def _find(run: RunFolder, chosen: Params) -> Sequence[int]:
    """Return where the records of the chosen episodes begin."""
    return run.index.find(chosen, chosen.get("text", ""), chosen.get("sort", "task"))


def _live(run: RunFolder) -> list[dict[str, Any]]:
    """Return the rows of the episodes that are being played."""
    rows = []
    for episode, changed in run.live()[:ROWS]:
        actions = [turn.action for turn in episode.turns if turn.action]
        rows.append(
            {
                "task": episode.task,
                "epoch": episode.epoch,
                "turns": len(episode.turns),
                "ago": max(0, round(time.time() - changed)),
                "action": one_line(["–", *actions][-1]),
            }
        )
    return rows


def _page(params: Params, count: int) -> tuple[int, int]:
    """Return the numbers of the requested page and of the last one, from 0."""
    last = max(0, (count - 1) // ROWS)
    return min(last, max(0, whole_number(params.get("page")) - 1)), last


def _result(run: RunFolder, episode: Episode, start: int | None) -> dict[str, Any]:
    """Return the verdict of a finished episode, the gold's command, and the turns that count."""
    golds, why = run.golds if start is not None else ({}, "")
    commands = command = ""
    if why:
        commands = f'<p class="quiet">No gold is shown: {markup.text(why)}.</p>'
    elif gold := golds.get(episode.task):
        commands = markup.commands(gold, last_action(episode), run.language)
        command = markup.command(gold, run.language)
    return {
        "gold": Markup(command),
        "finished": start is not None,
        "verdict": Markup(markup.verdict(verdict(episode), run.language)),
        "commands": Markup(commands),
        "line": {place + 1 for place in line_of(episode.turns) if start is not None},
    }


def _place(run: RunFolder, chosen: Params, start: int | None) -> dict[str, Any]:
    """Return the place of an episode in its list, the rows before and after it, and the filters of
    the list in words."""
    starts = _find(run, chosen)
    filters = [f"{_SAID.get(key, key)} {value}" for key, value in chosen.items() if key != "sort"]
    values: dict[str, Any] = {
        "place": None,
        "before": None,
        "after": None,
        "count": len(starts),
        "filters": ", ".join(filters),
    }
    if start is not None and start in starts:
        place = starts.index(start)
        nearby = starts[max(0, place - 1) : place + 2]
        rows = {row["start"]: row for row in run.index.page(nearby) if row["start"] != start}
        values |= {"place": place, "before": rows.get(nearby[0]), "after": rows.get(nearby[-1])}
    return values


def _strip(all_steps: Sequence[ShownTurn], word: str) -> list[tuple[ShownTurn, bool]]:
    """Return the turns that the strip links to, and whether `word` is in them."""
    every, strip, hits = -(-len(all_steps) // _LINKS), [], 0
    for step in all_steps:
        hit = bool(word) and (word in (step.turn.action or "") or word in step.turn.observation)
        hits += hit
        if hit or (step.number - 1) % every == 0:
            strip.append((step, hit))
    if not hits and len(all_steps) <= 4:
        return []
    return strip


def _windows(all_steps: Sequence[ShownTurn]) -> list[list[ShownTurn]]:
    """Split the turns into pieces that fit on a page; one empty piece without turns."""
    windows, size = [list[ShownTurn]()], 0
    for step in all_steps:
        turn, length = step.turn, 300
        texts = (step.reasoning, turn.thought, turn.action, turn.action, turn.observation)
        for text in (*texts, turn.reply, *map(str, step.messages)):
            length += min(len(text or ""), LONGEST)
        if windows[-1] and size + length > _WINDOW:
            windows.append([])
            size = 0
        windows[-1].append(step)
        size += length
    return windows


def _tree(episode: Episode) -> list[dict[str, Any]]:
    """Return the branches of an episode with forks: each item has `turns` (numbers) without a fork
    between them, and the items `below`."""
    if all(turn.after is None for turn in episode.turns):
        return []
    parents = parents_of(episode.turns)
    children = grouped(parents, parents.get)

    def item(place: int, depth: int = 0) -> dict[str, Any]:
        row = [place]
        while len(below := children.get(row[-1], [])) == 1:
            row += below
        if depth == _DEEPEST:
            row, below = [place, *_below(children, place)], []
        return {
            "turns": [turn + 1 for turn in row],
            "score": episode.turns[row[-1]].score,
            "below": [item(turn, depth + 1) for turn in below],
        }

    return list(map(item, children.get(-1, [])))


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


def _is_plain(value: object) -> bool:
    """Return whether a form can send a value as it is shown."""
    return visible(str(value)) == value


def _epoch(epoch: int) -> str:
    return f" epoch {epoch}" * bool(epoch)


def whole_number(value: str | None) -> int:
    if not value or not value.isdecimal() or len(value) >= 10:
        return 0
    return int(value)
