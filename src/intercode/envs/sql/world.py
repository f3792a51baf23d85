"""SqlWorld: a database server and the agent's session in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Self

from intercode.envs.sql.databases import database, run_in_turn, set_up
from intercode.envs.sql.engines import Answer, Engine
from intercode.envs.sql.language import without_submit
from intercode.types import ExecResult, Task

NOTHING = Answer()
_NO_SQL = re.compile(
    r"syntax error|incomplete input|unrecognized token|error in your SQL syntax", re.IGNORECASE
)
"""Matches the errors of SQLite and MariaDB for a text that they cannot parse."""


class SqlWorld:
    """A server, the last statement's result and the answer, which is the same, unless
    `skips_sentences`: then a statement that is no SQL, such as a sentence, leaves the answer as it
    was. `seconds` is an action's time limit; `as_v1` is InterCode v1's form of observations.
    `data` is original or variant."""

    def __init__(
        self,
        make_engine: Callable[[], Engine],
        *,
        seconds: float,
        as_v1: bool,
        skips_sentences: bool,
        data: str = "original",
    ) -> None:
        self._make_engine, self._seconds = make_engine, seconds
        self._as_v1, self._skips_sentences, self.data = as_v1, skips_sentences, data
        self.engine = make_engine()
        self.last = self.answer = NOTHING

    def start(self, task: Task) -> None:
        self.engine.open(database(task, self.engine))
        set_up(self.engine, task)
        self.last = self.answer = NOTHING

    def act(self, action: str) -> ExecResult:
        run, seconds = self.engine.run, self._seconds
        self.last = (
            run(action, seconds=seconds)
            if self._as_v1
            else run_in_turn(run, without_submit(action), seconds=seconds)
        )
        keeps = self._skips_sentences and self.answer is not NOTHING
        if not (keeps and _NO_SQL.search(self.last.error or "")):
            self.answer = self.last
        return ExecResult(
            output=_observation(self.last, self._seconds, as_v1=self._as_v1),
            exit_code=int(self.last.error is not None or self.last.timed_out),
            timed_out=self.last.timed_out,
            session_lost=self.last.lost,
            overflow="rows" if self.last.table is not None and self.last.table.cut else None,
            cwd="",
        )

    def forget_answer(self) -> None:
        self.last = self.answer = NOTHING

    def files(self) -> None:
        """Return None: no programs can be run next to the session, and there are no services."""

    def session_lost(self) -> bool:
        return False

    def fork(self, *, live: bool) -> Self:
        assert not live  # a session cannot be copied
        return type(self)(
            self._make_engine,
            seconds=self._seconds,
            as_v1=self._as_v1,
            skips_sentences=self._skips_sentences,
            data=self.data,
        )

    def close(self) -> None:
        self.engine.close()


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
