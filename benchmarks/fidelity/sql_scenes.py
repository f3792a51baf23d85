"""A recorded SQL turn, executed again as it was or in another way, and what was printed then.

Way      how a statement is executed: settings of the session, and a rewriting of the statement
Bench    one server on Spider's databases, with the answers that it gave before
Book     one recording: its episodes by task, and which of its rewards cannot have weighed order
Scene    one turn whose reward is not the recorded one

Recorded observations are Python tuples as they were printed; they are read back without being executed.
"""

from __future__ import annotations

import ast
import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from fidelity.sql_data import SqlRun, dump, task_file
from intercode.engines import Answer, Engine, databases, engine_maker
from intercode.envs.sqlground import Gold, database, execute_gold
from intercode.recordings import RecordedEpisode, Recording
from intercode.rewards import sql_paper
from intercode.rewards.paper_sql import overlap
from intercode.runner.replay import TOLERANCE
from intercode.tasks import open_data
from intercode.types import Table, Task

_SECONDS = 10.0
_EXACT = 1e-9
_CALLS: dict[str, Callable[..., Any]] = {
    "Decimal": Decimal,
    "datetime.datetime": datetime.datetime,
    "datetime.date": datetime.date,
    "datetime.timedelta": datetime.timedelta,
}


@dataclass(frozen=True)
class Way:
    """How to execute a statement; `settings` is a statement that goes before it in the same session."""

    name: str
    settings: str = ""
    rewrite: Callable[[str], str] = str


AS_IS = Way("as it is")


class Bench:
    """Answers of one server on Spider's databases. Not for several threads."""

    def __init__(self, engine: str = "mariadb") -> None:
        self._engine: Engine = engine_maker(engine, databases(dump()))()
        self._answers: dict[tuple[object, ...], Answer] = {}
        self._golds: dict[str, Gold] = {}
        self.tasks = {task.id: task for task in open_data(task_file(), env="sql").tasks}

    def close(self) -> None:
        self._engine.close()

    def gold(self, task: Task) -> Gold:
        """The gold by the referee's account, with what its order means."""
        if task.id not in self._golds:
            self._golds[task.id] = execute_gold(self._engine, task)
        return self._golds[task.id]

    def answer(self, task: Task, statements: Sequence[str], way: Way) -> Answer:
        """What the last of these statements returns, when it is executed in this way after the others."""
        db = database(task, self._engine)
        key = (db, *statements, way)
        if key not in self._answers:
            self._answers[key] = self._execute(db, statements, way)
        return self._answers[key]

    def _execute(self, db: str, statements: Sequence[str], way: Way) -> Answer:
        self._engine.open(db)
        for statement in [*statements[:-1], *([way.settings] if way.settings else [])]:
            self._engine.run(statement, seconds=_SECONDS)
        return self._engine.run(way.rewrite(statements[-1]), seconds=_SECONDS)


@dataclass(frozen=True)
class Book:
    """One recording, and the server that it is executed on."""

    run: SqlRun
    recording: Recording
    bench: Bench

    def scene(self, task: Task, index: int) -> Scene:
        return Scene(self, task, self.recording.find(task), index)

    def of(self, task: Task) -> Iterator[Scene]:
        """The turns of a task's episode that were scored."""
        last = [len(self.recording.find(task).rewards) - 1]
        submitted = self.recording.protocol == "submit"
        yield from (self.scene(task, index) for index in (last if submitted else range(last[0] + 1)))

    @cached_property
    def tasks(self) -> Sequence[Task]:
        return [task for task in self.bench.tasks.values() if self.recording.has(task)]

    @cached_property
    def unweighed(self) -> Sequence[int]:
        """Places, in the file's order, of episodes with a reward that is the bare overlap of rows that do have an order.

        A weighed one is rounded to two digits, so one with more digits was not weighed.
        """
        return [place for place, task in enumerate(self.tasks) if any(scene.unweighed for scene in self.of(task))]

    @cached_property
    def weighed(self) -> Sequence[int]:
        """Places of episodes with a reward that is the rounded product, and not the overlap."""
        return [place for place, task in enumerate(self.tasks) if any(scene.weighed for scene in self.of(task))]


@dataclass(frozen=True)
class Scene:
    """One turn. `acted` is the turn whose answer it was scored by: its own, or the last one before that had code."""

    book: Book
    task: Task
    then: RecordedEpisode
    index: int

    @cached_property
    def acted(self) -> int:
        recording = self.book.recording
        if recording.protocol == "paper" and not recording.standing:
            return self.index
        executed = [place for place in range(self.index + 1) if self.then.actions[place] not in (None, "submit")]
        return executed[-1] if executed else self.index

    @property
    def recorded(self) -> float:
        return self.then.rewards[self.index]

    @property
    def observation(self) -> str:
        return self.then.observations[self.acted]

    @property
    def action(self) -> str:
        return self.then.actions[self.acted] or ""

    @cached_property
    def seen(self) -> Table | None:
        """The rows that were printed then; None where it was an error, or is not to be read."""
        return read_rows(self.observation)

    def agent(self, way: Way = AS_IS) -> Answer:
        """The action after the episode's earlier ones."""
        earlier = [action for action in self.then.actions[: self.acted] if action not in (None, "submit")]
        return self.book.bench.answer(self.task, [*filter(None, earlier), self.action], way)

    def gold(self, way: Way = AS_IS) -> Answer:
        """The gold on pristine content."""
        return self.book.bench.answer(self.task, [self.task.gold], way)

    def hits(self, gold: Table | None, *, ordered: bool | None = None) -> bool:
        """Whether the rows that were printed then earn the recorded reward against this gold."""
        weighed = self.book.recording.reward == "paper" if ordered is None else ordered
        return abs(sql_paper(self.seen, gold, ordered=weighed).reward - self.recorded) <= TOLERANCE

    @cached_property
    def overlap(self) -> float | None:
        """Of the rows that were printed then with the gold's; None where they do not have an order."""
        gold = self.book.bench.gold(self.task).table
        if self.seen is None or gold is None:
            return None
        shared, common = overlap(*([str(row) for row in side.rows] for side in (self.seen, gold)))
        return shared if len(common) > 1 else None

    @property
    def share(self) -> float | None:
        """Of the gold's rows those that were printed then; None where there are none to find, or nothing was returned."""
        gold = self.book.bench.gold(self.task).table
        if self.seen is None or gold is None or not gold.rows:
            return None
        _, common = overlap(*([str(row) for row in side.rows] for side in (self.seen, gold)))
        return common.total() / len(gold.rows)

    @property
    def bare(self) -> bool:
        """Whether the recorded reward is the overlap, to its last digit."""
        return self.overlap is not None and abs(self.recorded - self.overlap) < _EXACT

    @property
    def unweighed(self) -> bool:
        return self.bare and abs(round(self.recorded, 2) - self.recorded) > _EXACT

    @property
    def weighed(self) -> bool:
        return self.overlap is not None and abs(self.overlap - self.recorded) > TOLERANCE and self.hits(self.gold().table)

    def with_reward(self, reward: float) -> Scene:
        """The same turn, as if this reward had been recorded."""
        rewards = list(self.then.rewards)
        rewards[self.index] = reward
        return replace(self, then=replace(self.then, rewards=rewards))

    def beside(self) -> list[Scene]:
        """The episode's scored turns with rows, this one first."""
        others = [scene for scene in self.book.of(self.task) if scene.index != self.index and scene.seen is not None]
        return [self, *(replace(scene, then=self.then) for scene in others)]


def read_rows(text: str) -> Table | None:
    """A list of tuples as the driver's values were printed; None if the text is something else."""
    if not text.startswith("["):
        return None
    try:
        rows = _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return Table((), tuple(rows)) if all(isinstance(row, tuple) for row in rows) else None


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Tuple(elts=parts):
            return tuple(_value(part) for part in parts)
        case ast.List(elts=parts):
            return [_value(part) for part in parts]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.Call(func=function, args=parts, keywords=named):
            return _CALLS[ast.unparse(function)](*map(_value, parts), **{str(one.arg): _value(one.value) for one in named})
    raise ValueError(ast.dump(node))
