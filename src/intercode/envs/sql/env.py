"""SqlEnv: actions are SQL statements, the world is a database server, the answer is the result of
the last statement.

    reset ──► the gold, executed as the grader on original content (once for all environments)
          ──► the agent's session
    step  ──► one statement ──► its rows as Python tuples, or `Error executing query: MESSAGE`

Each environment has its own server (`engines/`). If a task is marked `general`, or with
`robust=True`, an episode that looks solved is replayed on variant data, which a seeded generator
derives from the databases (`variants/`). `parts["robust"]` contains the result, and a `general`
task must be solved there too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import permutations
from pkgutil import resolve_name
from typing import Any, ClassVar, Self

from intercode.env import GoldRun, InterCodeEnv, World, shorten_text
from intercode.envs.gold import GoldCache, split_golds
from intercode.envs.rewards import (
    best_score,
    call_reward,
    is_papers,
    require_reward,
    reward_name,
)
from intercode.envs.sql.compare import Row, difference
from intercode.envs.sql.content import Content, read_content
from intercode.envs.sql.databases import (
    DatabaseSet,
    Gold,
    database,
    execute_gold,
    prepare_databases,
)
from intercode.envs.sql.engines import Answer, Engine
from intercode.envs.sql.language import LANGUAGE, without_submit
from intercode.envs.sql.layouts import LAYOUTS
from intercode.envs.sql.lint import lint
from intercode.envs.sql.options import SECONDS, SqlOptions
from intercode.errors import DataError
from intercode.tasks import DataSet
from intercode.types import ExecResult, Score, Table, Task, TaskIssue, View

Reward = str | Callable[[Table | None, Table | None, Task], Score]
_NOTHING = Answer()
_NO_SQL = re.compile(
    r"syntax error|incomplete input|unrecognized token|error in your SQL syntax", re.IGNORECASE
)
"""Matches the errors of SQLite and MariaDB for a text that they cannot parse."""
_ROWS, _DIFFERENT, _TEXT = 20, 10, View(150, 50)
"""The most rows of a table and of a difference in `outcomes`, and the most characters of a text."""
_TABLE_BYTES, _DIFFERENCE_BYTES = 1500, 1000


class SqlEnv(InterCodeEnv):
    """An environment for SQL tasks. `databases` makes its engines, and `golds` may be shared.

    `handicap` adds the schema to the first observation, as in the paper's easier setting. `seconds`
    is a statement's time limit. `reward="overlap"` is the paper's reward without the order of rows,
    which was used for its ReAct runs, and `reward="bird"` is BIRD's own. The other arguments are
    those of `InterCodeEnv`.
    """

    Options = SqlOptions
    language = LANGUAGE
    layouts = LAYOUTS
    judged_by = ("order_counts",)
    rewards: ClassVar = {
        "exact": "intercode.envs.sql.compare:sql_exact",
        "bird": "intercode.envs.sql.compare:sql_bird",
        "paper": "intercode.interop.v1.sql:sql_paper",
        "overlap": "intercode.interop.v1.sql:sql_overlap",
    }
    live_forks = False

    def __init__(
        self,
        tasks: Sequence[Task],
        databases: DatabaseSet,
        *,
        reward: Reward | None = None,
        golds: GoldCache[Gold] | None = None,
        handicap: bool = False,
        seconds: float = SECONDS,
        **options: Any,
    ) -> None:
        super().__init__(tasks, **options)
        if reward is not None or not hasattr(type(self), "reward"):
            self.reward = reward or "exact"
        require_reward(self.reward, self.rewards, "answer, gold's answer, task")
        self._databases, self._golds = databases, golds or GoldCache[Gold]()
        self._handicap, self._seconds = handicap, seconds
        self._engine = databases.make_engine()
        self._variant: Engine | None = None
        self._last = self._answer = _NOTHING
        self._score: Score | None = None
        self._content: Content | None = None

    @classmethod
    def lint(cls, task: Task) -> Iterator[TaskIssue]:
        yield from lint(task)

    @classmethod
    def prepare_world(cls, data: DataSet, options: SqlOptions) -> World:
        """Load the databases once."""
        reward, named = cls._choose_reward(options)
        databases = prepare_databases(
            data,
            dump=options.dump,
            databases=options.databases,
            engine=options.engine,
            robust=options.robust,
            paper=is_papers(named, cls.rewards),
        )
        facts = {"reward": reward_name(named), "statement_seconds": options.seconds}
        arguments = {
            "databases": databases,
            "reward": reward,
            "golds": GoldCache[Gold](),
            "handicap": options.handicap,
            "seconds": options.seconds,
        }
        return World(arguments, lambda: {**facts, **databases.facts()})

    def run_gold(self, task: Task) -> GoldRun:
        try:
            golds = [execute_gold(self._engine, task)]
            if task.general and (variant := self._variant_engine()):
                golds.append(execute_gold(variant, task))
        except DataError as error:
            return GoldRun(None, "", (str(error),))
        faults = list(golds[0].faults)
        if task.general and not self._is_papers:
            passing = (b.score(a.table, a.content).success for a, b in permutations(golds, 2))
            if golds[0].evidence == golds[-1].evidence or (self.reward == "exact" and any(passing)):
                why = (
                    "is marked general, but the gold has the same outcome on the variant data: "
                    "a constant answer passes"
                )
                faults.append(TaskIssue(why, "not_general"))
            faults += [
                f"on the variant data: {fault}" for gold in golds[1:] for fault in gold.faults
            ]
        summary = "\n".join(
            str(list(gold.table.rows) if gold.table else gold.answer.error) for gold in golds
        )
        return GoldRun([gold.evidence for gold in golds], summary, tuple(faults))

    def first_observation(self, task: Task) -> str:
        """Return the query, with the task's `evidence`, and with the schema if it is asked for."""
        text = task.query
        if evidence := task.extra.get("evidence"):
            text += f"\n\nExternal knowledge: {evidence}"
        if self._handicap:
            db = database(task, self._engine)
            text += f"\n\nThe database has this schema:\n\n{self._engine.schema(db)}"
            if described := self._databases.descriptions.get(db):
                text += f"\n\nIts columns:\n\n{described}"
        return text

    def start_episode(self, task: Task) -> None:
        self._execute_golds(self._engine)
        self._engine.open(database(task, self._engine))
        self._last, self._score = _NOTHING, None
        self._answer = _NOTHING

    def execute(self, action: str) -> ExecResult:
        self._last = self._run(self._engine, action)
        self._answer = self._answer_after(self._answer, self._last)
        failed = self._last.error is not None or self._last.timed_out
        return ExecResult(
            output=_observation(self._last, self._seconds, as_v1=self.rules.as_v1),
            exit_code=int(failed),
            timed_out=self._last.timed_out,
            session_lost=self._last.lost,
            overflow="rows" if self._last.table is not None and self._last.table.cut else None,
            cwd="",
        )

    def _run(self, engine: Engine, action: str) -> Answer:
        statement = action if self.rules.scores_steps else without_submit(action)
        return engine.run(statement, seconds=self._seconds)

    def score(self) -> Score:
        self._score = score = self._compare(self._engine, self._answer.table)
        must_hold = self.task.general and not self._is_papers
        if (
            not (score.success and (must_hold or self._databases.robust))
            or (variant := self._variant_engine()) is None
        ):
            return score
        answer = _NOTHING
        try:
            self._execute_golds(variant)
            variant.open(database(self.task, variant))
        except DataError:  # the gold itself fails on the variant data
            if must_hold:
                raise
            return score
        for action in self._actions:
            if not self._submits(action):
                last = self._run(variant, action)
                answer = self._answer_after(answer, last)
        again = self._compare(variant, answer.table)
        solved = again.success or not must_hold
        self._score = Score(
            score.reward if solved else 0.0,
            solved,
            {**score.parts, "robust": float(again.success)},
            rule=score.rule if solved else again.rule,
        )
        return self._score

    def _answer_after(self, answer: Answer, last: Answer) -> Answer:
        """Return the answer after a statement: under `exact`, one that is no SQL, such as a
        sentence, leaves the answer as it was."""
        reads = self.reward == "exact" and not self.rules.scores_steps
        skips = reads and answer is not _NOTHING and _NO_SQL.search(last.error or "")
        return answer if skips else last

    def outcomes(self) -> dict[str, Any]:
        """Return the final comparison in about 8 KB: the conditions that failed, both tables, and
        their difference.

        failed          "error" (the last statement failed), otherwise any of "rows", "order",
                        "changes" (the gold writes) and "robust" (the variant data)
        rule            why `exact` accepted or refused the rows, in words
        agent, gold     columns, rows (at most 20; `rows_total` if there are more) or the error
        missing, extra  rows only in the gold, and rows only in the agent's (at most 10 each); if
                        the gold writes, those of the first table that differs
        """
        gold = self._gold(self._engine, self.task)
        answer = self._answer
        parts = self._score.parts if self._score else {}
        right = {
            "rows": (
                parts.get("rows", parts.get("iou", 1.0)) == 1
                and not (answer.table and answer.table.cut)
            ),
            "order": parts.get("columns", 1.0) < 1 or parts.get("order", 1.0) == 1,
            "changes": parts.get("changes", 1.0) == 1,
            "robust": parts.get("robust", 1.0) == 1,
        }
        failed = (
            ["error"]
            if answer.error is not None and gold.content is None
            else [name for name, holds in right.items() if not holds]
        )
        report: dict[str, Any] = {
            "failed": failed,
            **({"rule": self._score.rule} if self._score and self._score.rule else {}),
            "agent": _answer_json(answer),
            "gold": _answer_json(gold.answer),
        }
        agent_rows, gold_rows, order = gold.compared(answer.table, self._content)
        if agent_rows is not None and gold_rows is not None:
            missing, extra = difference(agent_rows, gold_rows, order)
            report["missing"] = _rows_json(missing[:_DIFFERENT], _DIFFERENCE_BYTES)
            report["extra"] = _rows_json(extra[:_DIFFERENT], _DIFFERENCE_BYTES)
        return report

    def copy_world(self, copy: Self, live: bool) -> None:
        copy._engine, copy._variant = self._databases.make_engine(), None

    def close_world(self) -> None:
        for engine in (self._engine, self._variant):
            if engine is not None:
                engine.close()

    @property
    def _is_papers(self) -> bool:
        """Return whether the reward is one of the paper's, which use one gold and no variants."""
        return is_papers(self.reward, self.rewards)

    def _compare(self, engine: Engine, answer: Table | None) -> Score:
        golds = [(self._gold(engine, task), task) for task in self._tasks_by_gold]
        content = None
        expected = [gold.content.catalog for gold, _ in golds if gold.content is not None]
        if expected and self.reward == "exact":
            written = "\n".join(task.gold for _, task in golds)
            with suppress(DataError):  # the agent's own view, or the whole database, is broken
                content = read_content(engine, database(self.task, engine), written, expected)
        if engine is self._engine:
            self._content = content

        def score(gold: Gold, task: Task) -> Score:
            if callable(self.reward):
                return call_reward(self.reward, answer, gold.table, task)
            if self.reward != "exact":
                result: Score = resolve_name(self.rewards[self.reward])(answer, gold.table)
                return result
            return gold.score(answer, content)

        return best_score(score(gold, task) for gold, task in golds)

    @property
    def _tasks_by_gold(self) -> list[Task]:
        """Return a copy of the task for each gold that the reward compares with."""
        return [self.task] if self._is_papers else split_golds(self.task)

    def _gold(self, engine: Engine, task: Task) -> Gold:
        data = "variant" if engine is self._variant else "original"
        return self._golds.get((task.id, task.gold, data), lambda: execute_gold(engine, task))

    def _execute_golds(self, engine: Engine) -> None:
        """Execute all golds. They need the original content, so call this before the episode begins
        on the engine.

        An alternative gold that fails never matches. Raises `DataError` if the first gold fails
        under `exact` or `bird`.
        """
        gold, *_ = [self._gold(engine, task) for task in self._tasks_by_gold]
        written = gold.content is not None and self.reward == "exact"
        if self.reward in ("exact", "bird") and gold.table is None and not written:
            why = "; ".join(gold.faults) or "the gold writes, which only the reward exact compares"
            raise DataError(f"task {self.task.id}: {why}; see `intercode check`")

    def _variant_engine(self) -> Engine | None:
        if self._variant is None and self._databases.make_variant:
            self._variant = self._databases.make_variant()
        return self._variant


def _observation(answer: Answer, seconds: float, *, as_v1: bool) -> str:
    """Return the agent's observation. InterCode v1 printed rows as tuples, and an error for a
    statement without rows."""
    if answer.timed_out:
        return (
            "Error executing query: "
            f"the statement was stopped after {seconds:g} seconds, its time limit"
        )
    if answer.error is not None:
        return f"Error executing query: {answer.error}"
    if answer.table is None:
        done = f"OK, {answer.affected} row{'' if answer.affected == 1 else 's'} affected"
        return "Error executing query: No result set to fetch from." if as_v1 else done
    rows, count = str(list(answer.table.rows)), len(answer.table.rows)
    if not answer.table.cut:
        return rows
    cut = f"only the first {count} rows; there are more" if count else "the first row is too large"
    return f"{rows}\n[{cut}]"


# -- outcomes as JSON ------------------------------------------------------------------------------


def _answer_json(answer: Answer) -> dict[str, Any]:
    if answer.table is None:
        return (
            {"rows": []}
            if answer.error is None
            else {"error": shorten_text(answer.error), "rows": []}
        )
    names = _rows_json([answer.table.columns], _TABLE_BYTES)
    rows = _rows_json(answer.table.rows[:_ROWS], _TABLE_BYTES)
    report = {"columns": names[0] if names else [], "rows": rows}
    return (
        report
        if len(rows) == len(answer.table.rows)
        else {**report, "rows_total": len(answer.table.rows)}
    )


def _rows_json(rows: Iterable[Row], size: int) -> list[list[Any]]:
    """Return as many of the first rows as fit into `size` bytes: numbers and NULL unchanged, other
    values as text."""
    listed: list[list[Any]] = []
    for row in rows:
        values = [
            (
                value
                if value is None or (isinstance(value, int | float) and abs(value) < float("inf"))
                else _TEXT.shorten(shorten_text(str(value)))[0]
            )
            for value in row
        ]
        size -= len(json.dumps(values))
        if size < 0:
            break
        listed.append(values)
    return listed
