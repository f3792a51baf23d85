"""SqlEnv: actions are SQL statements, the world is a database server, the answer is the result of
the last statement.

    reset ──► the gold, executed as the grader on original content (once for all environments)
          ──► the agent's session
    step  ──► a statement, or several in turn ──► the rows of the last one as Python tuples, or
              `Error executing query: MESSAGE`

Each environment has its own server (`engines/`). If a task is marked `general`, or with
`robust=True`, an episode that looks solved is replayed on variant data, which a seeded generator
derives from the databases (`variants/`). `parts["robust"]` contains the result, and a `general`
task must be solved there too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from intercode.envs.gold import GoldCache
from intercode.envs.judged import JudgedEnv
from intercode.envs.judges import Judge
from intercode.envs.rewards import is_papers, require_reward, reward_name
from intercode.envs.sql.databases import DatabaseSet, Gold, database, prepare_databases, texts_in
from intercode.envs.sql.documents import as_rounds, document_of
from intercode.envs.sql.engines import Engine
from intercode.envs.sql.judge import Reward, SqlJudge
from intercode.envs.sql.language import LANGUAGE
from intercode.envs.sql.layouts import LAYOUTS
from intercode.envs.sql.lint import lint
from intercode.envs.sql.options import SECONDS, SqlOptions
from intercode.envs.sql.test_cases import TEST_CASES, TESTED, TestCasesJudge
from intercode.envs.sql.world import SqlWorld
from intercode.factory import chosen_reward
from intercode.tasks import DataSet
from intercode.types import Prepared, Task, TaskIssue


class SqlEnv(JudgedEnv[SqlWorld]):
    """An environment for SQL tasks. `databases` makes its engines, and `golds` may be shared.

    `handicap` adds the schema to the first observation, as in the paper's easier setting. `seconds`
    is a statement's time limit. `reward="overlap"` is the paper's reward without the order of rows,
    which was used for its ReAct runs, and `reward="bird"` is BIRD's own. The other arguments are
    those of `InterCodeEnv`.
    """

    Options = SqlOptions
    language = LANGUAGE
    layouts = LAYOUTS
    fields = ("db", "db_id", "evidence", "order_counts", "preprocess_sql", TEST_CASES, "conditions")
    judged_by = ("order_counts",)
    gold_pattern = re.compile(
        r"[\s(]*(?:SELECT|WITH|INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER)\s", re.I
    )
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
        golds: GoldCache[Gold | None] | None = None,
        handicap: bool = False,
        seconds: float = SECONDS,
        **options: Any,
    ) -> None:
        super().__init__(tasks, **options)
        if reward is not None or not hasattr(type(self), "reward"):
            self.reward = reward or "exact"
        require_reward(self.reward, self.rewards, "answer, gold's answer, task")
        self._databases, self._golds = databases, golds or GoldCache[Gold | None]()
        self._handicap, self._seconds = handicap, seconds
        self.world = self._make_world(databases.make_engine)
        self.judges = self.make_judges()

    def _make_world(self, make_engine: Callable[[], Engine], data: str = "original") -> SqlWorld:
        # `exact` skips sentences
        as_v1 = self.rules.scores_steps
        return SqlWorld(
            make_engine,
            seconds=self._seconds,
            as_v1=as_v1,
            skips_sentences=self.reward == "exact" and not as_v1,
            data=data,
        )

    def make_judges(self) -> Mapping[str, Judge[SqlWorld]]:
        make_variant = self._databases.make_variant
        outcomes = SqlJudge(
            self._golds,
            (lambda: self._make_world(make_variant, "variant")) if make_variant else None,
            reward=self.reward,
            rewards=self.rewards,
            papers=is_papers(self.reward, self.rewards),
            robust=self._databases.robust,
        )
        return {"outcome": outcomes, TEST_CASES: TestCasesJudge()}

    def kind_of(self, task: Task) -> str:
        decides = self.reward in ("exact", "bird") and texts_in(task, TEST_CASES)
        return TEST_CASES if decides else "outcome"

    @staticmethod
    def preprocess(record: dict[str, Any]) -> dict[str, Any]:
        return as_rounds(record)

    @classmethod
    def lint(cls, task: Task) -> Iterator[TaskIssue]:
        yield from lint(task)

    @classmethod
    def prepare_world(cls, data: DataSet, options: SqlOptions) -> Prepared:
        """Load the databases once."""
        reward, named = chosen_reward(cls, options)
        databases = prepare_databases(data, options, paper=is_papers(named, cls.rewards))
        facts = {"reward": reward_name(named), "statement_seconds": options.seconds}
        arguments = {
            "databases": databases,
            "reward": reward,
            "golds": GoldCache[Gold | None](),
            "handicap": options.handicap,
            "seconds": options.seconds,
        }
        return Prepared(arguments, lambda: {**facts, **databases.facts()})

    def begin_round(self) -> None:
        super().begin_round()
        self.world.forget_answer()

    def look_up(self, word: str, name: str) -> str | None:
        db = database(self.task, self.world.engine)
        documents = self._databases.documents.get(db, {})
        if word == "schema" and word not in documents:
            text: str = self.world.engine.schema(db)
            return text
        return document_of(documents, self.task, word, name)

    def first_observation(self, task: Task) -> str:
        """Return the query, with the task's `evidence`, and with the schema if it is asked for."""
        text = task.query
        if evidence := task.extra.get("evidence"):
            text += f"\n\nExternal knowledge: {evidence}"
        if self.kind_of(task) == TEST_CASES:
            text += f"\n\n{TESTED}"
        if self._handicap:
            db = database(task, self.world.engine)
            text += f"\n\nThe database has this schema:\n\n{self.world.engine.schema(db)}"
            if described := self._databases.descriptions.get(db):
                text += f"\n\nIts columns:\n\n{described}"
        return text
