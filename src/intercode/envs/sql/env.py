"""SqlEnv: actions are SQL statements, the world is a database server, the answer is what the last statement returned.

    reset ──► the gold, by the referee's account, on pristine content (once for all environments) ──► the agent's session
    step  ──► one statement ──► its rows as Python tuples, or `Error executing query: MESSAGE`

Each environment has a server of its own (`engines/`). Where tasks are marked `general`, or with `robust=True`, an episode that
looks solved is played again on second contents, which a seeded generator makes of the databases; what that gave stands in
`parts["robust"]`, and a `general` task must hold there as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, Literal, Self

from intercode.env import EnvFactory, GoldRun, InterCodeEnv, Protocol, View
from intercode.envs.gold import GoldCache, each_gold
from intercode.envs.rewards import best, judged, require_reward, reward_name
from intercode.envs.sql.compare import sql_exact
from intercode.envs.sql.databases import Gold, Worlds, database, execute_gold, worlds
from intercode.envs.sql.engines import Answer, Engine
from intercode.errors import DataError
from intercode.paper.sql_reward import sql_paper
from intercode.tasks import Preprocess, open_data
from intercode.tasks.issues import TaskIssue
from intercode.types import ExecResult, Score, Table, Task

Reward = Literal["exact", "paper", "overlap"] | Callable[[Table | None, Table | None, Task], Score]
_NOTHING = Answer()
SECONDS = 10.0


class SqlEnv(InterCodeEnv):
    """`worlds` makes its engines; `golds` may be shared. `handicap` puts the schema into the first observation, as the paper's
    easier setting does. `seconds` is a statement's time limit. `reward="overlap"` is the paper's before it weighed the order of
    rows: its ReAct runs were scored so. Other arguments are those of `InterCodeEnv`."""

    language = "sql"
    live_forks = False

    def __init__(
        self,
        tasks: Sequence[Task],
        worlds: Worlds,
        *,
        reward: Reward = "exact",
        golds: GoldCache[Gold] | None = None,
        handicap: bool = False,
        seconds: float = SECONDS,
        **how: Any,
    ) -> None:
        super().__init__(tasks, **how)
        require_reward(reward, ("exact", "paper", "overlap"), "answer, gold's answer, task")
        self.reward, self._worlds, self._golds = reward, worlds, golds or GoldCache[Gold]()
        self._handicap, self._seconds = handicap, seconds
        self._engine = worlds.first()
        self._elsewhere: Engine | None = None
        self._last = _NOTHING

    @classmethod
    def prepare(  # type: ignore[override]
        cls,
        *,
        data: str | None = None,
        limit: int | None = None,
        dump: str | Path | None = None,
        databases: str | Path | None = None,
        engine: str | None = None,
        handicap: bool = False,
        robust: bool = False,
        protocol: Protocol = "submit",
        reward: Reward | None = None,
        session: str | None = None,
        seconds: float = SECONDS,
        max_turns: int | None = 10,
        view: View | None = None,
        keep_going: bool = False,
        preprocess: Preprocess | None = None,
        gold_fields: Sequence[str] | None = None,
    ) -> EnvFactory:
        """Load data and databases once. `protocol="paper"` implies the paper's reward.

        A session with the server lives as long as its episode, whatever `session` says: so it did in the paper.
        """
        reward = reward or ("paper" if protocol == "paper" else "exact")
        records = preprocess or cls.preprocess
        found = open_data(data, env="sql", limit=limit, preprocess=records, gold_fields=gold_fields)
        made = worlds(found, dump=dump, databases=databases, engine=engine, robust=robust, paper=reward in ("paper", "overlap"))
        golds = GoldCache[Gold]()
        how = {"protocol": protocol, "max_turns": max_turns, "view": view, "keep_going": keep_going}
        asked = {"reward": reward, "golds": golds, "handicap": handicap, "seconds": seconds}
        facts = {"data": found.name, "data_digest": found.digest, "reward": reward_name(reward), "statement_seconds": seconds}
        return EnvFactory(
            found.tasks,
            lambda: cls(found.tasks, made, **asked, **how),  # type: ignore[arg-type]
            lambda: {**facts, **made.facts()},
        )

    def run_gold(self, task: Task) -> GoldRun:
        try:
            golds = [execute_gold(self._engine, task)]
            if task.general and self._worlds.second:
                golds.append(execute_gold(self._other(self._worlds.second), task))
        except DataError as error:
            return GoldRun(None, "", (str(error),))
        faults = list(golds[0].faults)
        if task.general and not self._as_published:
            passing = (sql_exact(a.table, b.table, b.order).success for a, b in permutations(golds, 2))
            if golds[0].evidence == golds[-1].evidence or (self.reward == "exact" and any(passing)):
                why = "is marked general, but the gold has the same outcome on both contents: a constant answer passes"
                faults.append(TaskIssue(why, "not_general"))
            faults += [f"on the second contents: {fault}" for gold in golds[1:] for fault in gold.faults]
        return GoldRun([gold.evidence for gold in golds], "\n".join(gold.summary for gold in golds), tuple(faults))

    def first_observation(self, task: Task) -> str:
        if not self._handicap:
            return task.query
        return f"{task.query}\n\nThe database has this schema:\n\n{self._engine.schema(database(task, self._engine))}"

    def start_episode(self, task: Task) -> None:
        self._execute_golds(self._engine)
        self._engine.open(database(task, self._engine))
        self._last = _NOTHING

    def execute(self, action: str) -> ExecResult:
        self._last = self._engine.run(action, seconds=self._seconds)
        failed = self._last.error is not None or self._last.timed_out
        return ExecResult(
            output=_shown(self._last, self.protocol),
            exit_code=int(failed),
            timed_out=self._last.timed_out,
            session_lost=self._last.lost,
            overflow="rows" if self._last.table is not None and self._last.table.cut else None,
            cwd="",
        )

    @property
    def _as_published(self) -> bool:
        """The paper's reward knows no second contents."""
        return self.reward in ("paper", "overlap")

    @property
    def _must_hold(self) -> bool:
        return self.task.general and not self._as_published

    def score(self) -> Score:
        score = self._compare(self._engine, self._last.table)
        if not (score.success and (self._must_hold or self._worlds.robust)) or self._worlds.second is None:
            return score
        try:
            holds = self._holds_elsewhere(self._other(self._worlds.second))
        except DataError:  # the gold itself fails there
            if self._must_hold:
                raise
            return score
        parts = {**score.parts, "robust": float(holds)}
        if holds or not self._must_hold:
            return Score(score.reward, True, parts)
        return Score(0.0, False, parts)

    def copy_world(self, twin: Self, live: bool) -> None:
        twin._engine, twin._elsewhere = self._worlds.first(), None

    def close_world(self) -> None:
        for engine in (self._engine, self._elsewhere):
            if engine is not None:
                engine.close()

    def _compare(self, engine: Engine, answer: Table | None) -> Score:
        return best(self._beside(answer, self._gold(engine, task), task) for task in self._with_golds)

    def _beside(self, answer: Table | None, gold: Gold, task: Task) -> Score:
        if callable(self.reward):
            return judged(self.reward, answer, gold.table, task)
        if self.reward != "exact":
            return sql_paper(answer, gold.table, ordered=self.reward == "paper")
        return sql_exact(answer, gold.table, gold.order)

    @property
    def _with_golds(self) -> list[Task]:
        """The task with each gold that the reward compares with; the paper's compares with one."""
        return [self.task] if self._as_published else each_gold(self.task)

    def _gold(self, engine: Engine, task: Task) -> Gold:
        where = "second" if engine is self._elsewhere else "first"
        return self._golds.get((task.id, task.gold, where), lambda: execute_gold(engine, task))

    def _execute_golds(self, engine: Engine) -> None:
        """All at once, since they need pristine content: call it before the episode begins there. An alternative that fails
        is worth nothing; under `exact` the gold itself must run, for nothing else could be compared with it."""
        gold, *_ = [self._gold(engine, task) for task in self._with_golds]
        if self.reward == "exact" and gold.table is None:
            raise DataError(f"task {self.task.id}: {'; '.join(gold.faults)}; see `intercode check`")

    def _other(self, make: Callable[[], Engine]) -> Engine:
        self._elsewhere = self._elsewhere or make()
        return self._elsewhere

    def _holds_elsewhere(self, engine: Engine) -> bool:
        """The whole episode again, on the second contents."""
        self._execute_golds(engine)
        engine.open(database(self.task, engine))
        answer = _NOTHING
        for action in self._actions:
            if not self._submits(action):
                answer = engine.run(action, seconds=self._seconds)
        return self._compare(engine, answer.table).success


def _shown(answer: Answer, protocol: Protocol) -> str:
    """What the agent sees. The first system's driver gave rows as tuples, and called a statement without rows an error."""
    if answer.error is not None:
        return f"Error executing query: {answer.error}"
    if answer.table is None:
        done = f"OK, {answer.affected} row{'' if answer.affected == 1 else 's'} affected"
        return "Error executing query: No result set to fetch from." if protocol == "paper" else done
    rows = str(list(answer.table.rows))
    if not answer.table.cut:
        return rows
    kept = (
        f"only the first {len(answer.table.rows)} rows; there are more" if answer.table.rows else "the first row is too large"
    )
    return f"{rows}\n[{kept}]"
