"""A report as one HTML file, from the viewer's templates: it needs no network, no script and no
other file.

    settings · figures · two runs compared · charts · tasks × runs          each figure leads to
    each run in detail ── its episodes: failed ones by cause, errors, solved ── folded transcripts

Ids are made of numbers. The page is bounded, so that it can be sent: transcripts of failed episodes
come first, and those without room are counted. Its own policy forbids scripts, frames and requests
of any kind, should a text of an episode ever get through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from intercode.envs import language_of
from intercode.report import charts, markup, tables
from intercode.report.analysis import ConfigAndEpisodes, find_categories, in_order
from intercode.report.summary import Config, EpisodeRow, lean
from intercode.report.text import one_line
from intercode.report.transcript import state_of, steps, verdict
from intercode.report.turns import task_order
from intercode.types import Episode
from intercode.view.compared import RANKS, TaskRow, facts_of, settings, task_rows
from intercode.view.pages import make_templates, style

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
BUDGET = 4_000_000
"""Bytes of transcripts in a page."""
_TURNS = 30
"""Turns shown of a long transcript: half from its beginning, half from its end."""
_TASKS = 1_000
"""Rows of a table of tasks."""

Key = tuple[int, str, int]
"""An episode: the number of its run, its task and its epoch."""


def page(whole: Config, runs: Sequence[ConfigAndEpisodes]) -> str:
    """Return the page of `runs`; `whole` is the result of `side_by_side` for them."""
    return _Page(whole, runs).write()


class _Page:
    """The data of the page. `transcripts` contains the id and the HTML of each episode for which
    there is room."""

    def __init__(self, whole: Config, runs: Sequence[ConfigAndEpisodes]) -> None:
        self.whole, self.runs, self.names = whole, runs, tables.labels(whole["runs"])
        self.configs = [config for config, _ in runs]
        self.templates = make_templates(root="")
        self.episodes = [lean(episodes) for _, episodes in runs]
        self.groups, rows = [], []
        for config, episodes in zip(self.configs, self.episodes, strict=True):
            self.groups.append(_groups(config, episodes))
            rows.append([EpisodeRow.of(episode, config) for episode in episodes])
        self.tasks, self.row_of = task_rows(rows), dict[tuple[int, str], TaskRow]()
        for row in self.tasks:
            for number, result in enumerate(row.results):
                if result:
                    self.row_of[number, row.task] = row
        self.transcripts = self._write_transcripts()

    def write(self) -> str:
        runs, flips, differences = self.whole["runs"], {}, list(tables.comparisons(self.whole))
        if "comparison" in self.whole:
            for title, tasks in tables.changed_tasks(self.whole).items():
                flips[title] = self._tasks([self.row_of[0, flip["task"]] for flip in tasks])
        excluded = []
        for name, run in zip(self.names, runs, strict=True):
            if run.get("excluded"):
                excluded.append((name, run["excluded"]))
        total = sum(map(len, self.episodes))
        return self.templates.get_template("report.html").render(
            policy=Markup(POLICY),
            style=Markup(style() + charts.PAGE_STYLE),
            names=self.names,
            facts=[" · ".join(facts_of(config)) for config in self.configs],
            settings=settings(self.configs),
            overview=list(tables.overview(runs)),
            figure_link=self._figure_link,
            excluded=excluded,
            differences=differences,
            flips=flips,
            charts=[Markup(charts.svg(chart)) for chart in charts.charts(self.whole)],
            tasks=self._tasks(self.tasks),
            result_url=self._result_url,
            total=total,
            left_out=total - len(self.transcripts),
            runs=list(map(self._run, range(len(runs)))),
        )

    def _figure_link(self, row: tables.Row, column: str) -> str | None:
        """Return where a figure of the overview leads."""
        run = self.names.index(row["run"]) if "run" in row else 0
        group = {"success %": "solved", "errors": "error"}.get(column, "")
        if group not in self.groups[run]:
            return None
        return f"#{_group_id(run, group)}"

    def _tasks(self, tasks: Sequence[TaskRow]) -> dict[str, Any]:
        """Return the rows of a table of tasks × runs, and how many tasks there are; if there are
        too many, those that all runs solved are left out first."""

        def solved(row: TaskRow) -> bool:
            return set(row.shares) <= {1, None}

        chosen = {row.id for row in sorted(tasks, key=solved)[:_TASKS]}
        shown = [row for row in tasks if row.id in chosen]
        return {"rows": shown, "count": len(tasks)}

    def _result_url(self, run: int, row: TaskRow) -> str:
        """Return the link to the transcript of a run's result on a task."""
        epoch = row.results[run].first.epoch
        transcript = self.transcripts.get((run, row.task, epoch))
        return f"#{transcript[0]}" if transcript else ""

    def _run(self, number: int) -> dict[str, Any]:
        """Return the figures of a run in detail, and its episodes in groups."""

        def link(row: tables.Row, column: str) -> str | None:
            if column != "episodes" or "category" not in row:
                return None
            return f"#{_group_id(number, row['category'])}"

        groups = []
        for name, episodes in self.groups[number].items():
            keys = [(number, episode.task, episode.epoch) for episode in episodes]
            shown = [self.transcripts[key][1] for key in keys if key in self.transcripts]
            anchor = _group_id(number, name)
            groups.append({"id": anchor, "name": name, "count": len(keys), "transcripts": shown})
        sections = list(tables.details(self.whole["runs"][number]["analysis"]))
        return {"name": self.names[number], "sections": sections, "link": link, "groups": groups}

    def _write_transcripts(self) -> dict[Key, tuple[str, Markup]]:
        """Return the transcripts for which there is room; those of failed and ambiguous episodes
        come first."""
        transcripts: dict[Key, tuple[str, Markup]] = {}
        places, room = [], BUDGET
        for number, episodes in enumerate(self.episodes):
            for at, episode in enumerate(episodes):
                rank = RANKS[state_of(episode)], task_order(episode.task), episode.epoch
                places.append((rank, number, at))
        for place, (_, number, at) in enumerate(sorted(places)):
            episode, anchor = self.runs[number][1][at], f"e{place}"
            language = language_of(self.configs[number])
            turns = []
            for step in steps(episode):
                turns.append(Markup(markup.turn(step, language, anchor=f"{anchor}t")))
            half = _TURNS // 2 if len(turns) > _TURNS else len(turns)
            content = self.templates.get_template("transcript.html").render(
                id=anchor,
                state=state_of(episode),
                task=episode.task,
                epoch=episode.epoch,
                query=one_line(episode.query, 120),
                whole_query=Markup(markup.bounded(episode.query)),
                all_runs=self.row_of[number, episode.task].id if len(self.runs) > 1 else "",
                verdict=Markup(markup.verdict(verdict(episode), language)),
                beginning=turns[:half],
                end=turns[half:][-half:],
                count=len(turns),
            )
            room -= len(content.encode())
            if room < 0:
                break
            transcripts[number, episode.task, episode.epoch] = anchor, Markup(content)
        return transcripts


def _groups(config: Config, episodes: Sequence[Episode]) -> dict[str, list[Episode]]:
    """Return the episodes by cause of failure, then those with errors, and the solved ones; without
    empty groups."""
    ordered, groups = in_order(episodes), find_categories(config, episodes)
    unscored = [episode for episode in ordered if episode.reward is None]
    groups["error"] = [episode for episode in ordered if episode.error is not None]
    groups["not scored"] = [episode for episode in unscored if episode.error is None]
    groups["solved"] = [episode for episode in ordered if episode.success]
    return {name: group for name, group in groups.items() if group}


def _group_id(run: int, name: str) -> str:
    return f"run{run}-{name.replace(' ', '-')}"
