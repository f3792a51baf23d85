"""SqlJudge: the rows of the answer, and what a gold that writes leaves in the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from pkgutil import resolve_name
from typing import Any

from intercode.envs.gold import GoldCache, Key
from intercode.envs.judges import Attempt
from intercode.envs.judges.outcome import (
    Comparison,
    Facts,
    OutcomeJudge,
    not_general,
    on_other_data,
)
from intercode.envs.rewards import call_reward
from intercode.envs.sql.compare import Row, difference, free
from intercode.envs.sql.content import Content, first_difference, read_content
from intercode.envs.sql.databases import Gold, database, execute_gold, whole_gold
from intercode.envs.sql.engines import Answer
from intercode.envs.sql.world import SqlWorld
from intercode.errors import DataError
from intercode.types import GoldRun, Score, Table, Task, View, shorten_text
from intercode.user import golds_of

Reward = str | Callable[[Table | None, Table | None, Task], Score]
Seen = tuple[Answer, Content | None]
"""The agent's answer, and, where a gold writes, the content that its episode leaves."""
SqlComparison = Comparison[SqlWorld, Seen, Gold]
_ROWS, _DIFFERENT, _TEXT = 20, 10, View(150, 50)
"""The most rows of a table and of a difference in `outcomes`, and the most characters of a text."""
_TABLE_BYTES, _DIFFERENCE_BYTES = 1500, 1000


class SqlJudge(OutcomeJudge[SqlWorld, Seen, Gold]):
    """A judge by rows. `reward` is a function, or one of the names that the paths `rewards`
    explain. `robust`: also try variant data for tasks that need not hold there."""

    def __init__(
        self,
        golds: GoldCache[Gold | None],
        make_variant: Callable[[], SqlWorld] | None,
        *,
        reward: Reward,
        rewards: dict[str, str],
        papers: bool,
        robust: bool,
    ) -> None:
        super().__init__(golds, make_variant, papers=papers)
        self._reward, self._robust, self._exact = reward, robust, reward == "exact"
        self._scorer: Any = resolve_name(rewards[reward]) if isinstance(reward, str) else reward

    def key(self, world: SqlWorld, task: Task) -> Key:
        return (task.id, *golds_of(task), world.data)

    def run(self, world: SqlWorld, task: Task, *, first: bool) -> Gold:
        """Execute a gold. An alternative that fails never matches. Raises `DataError` if the first
        gold fails under `exact` or `bird`."""
        gold = execute_gold(world.engine, task)
        written = gold.content is not None and self._exact
        if first and self._reward in ("exact", "bird") and gold.table is None and not written:
            why = "; ".join(gold.faults)
            why = why or "the gold writes, which only the reward exact compares"
            raise DataError(f"task {task.id}: {why}; see `intercode check`")
        return gold

    def look(self, world: SqlWorld, attempt: Attempt) -> Seen:
        catalogs, texts, content = [], [], None
        for posed, gold in self.golds_of(world, attempt.task):
            texts.append(whole_gold(posed))
            if gold.content is not None:
                catalogs.append(gold.content.catalog)
        if catalogs and self._exact:
            with suppress(DataError):  # the agent's own view, or the whole database, is broken
                db = database(attempt.task, world.engine)
                content = read_content(world.engine, db, "\n".join(texts), catalogs)
        return world.answer, content

    def compare(self, world: SqlWorld, agent: Seen, gold: Gold, task: Task) -> Score:
        answer, content = agent
        if self._exact:
            return gold.score(answer.table, content)
        if callable(self._reward):
            return call_reward(self._reward, answer.table, gold.table, task)
        score: Score = self._scorer(answer.table, gold.table)
        return score

    def facts(self, gold: Gold) -> Facts:
        return gold.facts

    def wrong_facts(self, world: SqlWorld, agent: Seen, gold: Gold) -> Facts:
        seen, wanted = agent[1], gold.content
        if not (seen and wanted):
            return frozenset()
        return frozenset(seen.evidence.items() ^ wanted.evidence.items())

    def must_hold_twice(self, task: Task) -> bool:
        return task.general and not self.papers

    def looks_twice(self, task: Task) -> bool:
        return self._robust or self.must_hold_twice(task)

    def join(self, score: Score, again: Score, task: Task) -> Score:
        parts = {**score.parts, "robust": float(again.success)}
        if again.success or not self.must_hold_twice(task):
            return Score(score.reward, True, parts, rule=score.rule)
        return Score(0.0, False, parts, rule=on_other_data(again.rule))

    def no_value(self, world: SqlWorld, task: Task) -> str:
        for _, gold in self.golds_of(world, task):
            if self._exact and gold.content is not None:
                return "the gold writes, and to read what was written ends the agent's session"
        return super().no_value(world, task)

    def show(
        self, score: Score, first: SqlComparison, again: SqlComparison | None = None
    ) -> dict[str, Any]:
        """Return the comparison in about 8 KB: the conditions that failed, both tables, and their
        difference; with `"failed": ["robust"]` those on the variant data.

        failed          "error" (the last statement failed), otherwise any of "rows", "order",
                        "changes" (the gold writes) and "robust" (the variant data)
        rule            why `exact` accepted or refused the rows, in words
        agent, gold     columns, rows (at most 20; `rows_total` if there are more) or the error
        missing, extra  rows only in the gold, and rows only in the agent's (at most 10 each); if
                        the gold writes, those of the first table that differs
        unmatched       in agent and gold, unless the gold writes: the places, from 0, of the listed
                        rows that the other side lacks
        """
        parts = score.parts
        shown = again if again and not score.success else first
        gold = self.gold(shown.world, self.tasks_of(shown.task)[0])
        answer, content = shown.agent
        failed = []
        is_cut = answer.table is not None and answer.table.cut
        if is_cut or parts.get("rows", parts.get("iou", 1.0)) != 1:
            failed.append("rows")
        if parts.get("columns", 1.0) >= 1 and parts.get("order", 1.0) != 1:
            failed.append("order")
        failed += [name for name in ("changes", "robust") if parts.get(name, 1.0) != 1]
        if shown is not first:
            failed = ["robust"]
        elif answer.error is not None and gold.content is None:
            failed = ["error"]
        report: dict[str, Any] = {"failed": failed}
        if score.rule:
            report["rule"] = score.rule
        report |= {"agent": _answer_json(answer), "gold": _answer_json(gold.answer)}
        agent_rows, gold_rows, order = answer.table, gold.table, gold.order
        if gold.content is not None:
            _, name = first_difference(content, gold.content)
            if content is None or name is None:
                return report
            agent_rows = content.tables[name]
            gold_rows = gold.content.tables[name]
            order = free(gold_rows)
        if agent_rows is None or gold_rows is None:
            return report
        missing, extra = difference(agent_rows, gold_rows, order)
        for name, side, table, places in (
            ("missing", "gold", gold_rows, missing),
            ("extra", "agent", agent_rows, extra),
        ):
            rows = [table.rows[place] for place in places[:_DIFFERENT]]
            report[name] = _rows_json(rows, _DIFFERENCE_BYTES)
            if gold.content is None:
                count = len(report[side]["rows"])
                report[side]["unmatched"] = [place for place in places if place < count]
        return report

    def examine(self, world: SqlWorld, task: Task) -> GoldRun:
        try:
            golds = [execute_gold(world.engine, task)]
            if task.general and (variant := self.variant()):
                golds.append(execute_gold(variant.engine, task))
        except DataError as error:
            return GoldRun(None, "", (str(error),))
        faults = list(golds[0].faults)
        if self.must_hold_twice(task):

            def passes(agent: Gold, gold: Gold) -> bool:
                return self._exact and gold.score(agent.table, agent.content).success

            faults += not_general(golds, golds[0].evidence == golds[-1].evidence, passes)
            for gold in golds[1:]:
                faults += [f"on the variant data: {fault}" for fault in gold.faults]
        summary = "\n".join(
            str(list(gold.table.rows) if gold.table else gold.answer.error) for gold in golds
        )
        return GoldRun([gold.evidence for gold in golds], summary, tuple(faults))


def _answer_json(answer: Answer) -> dict[str, Any]:
    if answer.table is None:
        if answer.error is None:
            return {"rows": []}
        return {"error": shorten_text(answer.error), "rows": []}
    names = _rows_json([answer.table.columns], _TABLE_BYTES)
    rows = _rows_json(answer.table.rows[:_ROWS], _TABLE_BYTES)
    report: dict[str, Any] = {"columns": names[0] if names else [], "rows": rows}
    if len(rows) < len(answer.table.rows):
        report["rows_total"] = len(answer.table.rows)
    return report


def _rows_json(rows: Iterable[Row], size: int) -> list[list[Any]]:
    """Return as many of the first rows as fit into `size` bytes: numbers and NULL unchanged, other
    values as text."""
    encoded: list[list[Any]] = []
    for row in rows:
        values = []
        for value in row:
            is_number = isinstance(value, int | float) and abs(value) < float("inf")
            if value is not None and not is_number:
                value = _TEXT.shorten(shorten_text(str(value)))[0]
            values.append(value)
        size -= len(json.dumps(values))
        if size < 0:
            break
        encoded.append(values)
    return encoded
