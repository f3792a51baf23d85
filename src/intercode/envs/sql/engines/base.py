"""The engine contract: one private database server for one environment. It knows of no task and no reward.

    Databases (read-only) ──► open(db) ──► run, run, … ──► open(db) ──► … ──► close
                                 ▲             │
                                 └─────────────┘  nothing of the last episode is left: content, session, locks, accounts

    run        as the agent: all rights in its own database, none elsewhere
    run_gold   as the referee: reads any database, as it was before anyone wrote

A statement that fails is an answer (`Answer.error`), as it is to any client. What raises: `UsageError` (an unknown database, a
closed engine), `SandboxDied` (the server is gone; `open` starts a new one).
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from intercode.errors import DataError, SandboxDied, SandboxError, UsageError
from intercode.sandbox.base import MIB, Sandbox
from intercode.types import Table


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that one answer holds; what is beyond is left in the server (`Table.cut`)."""

    rows: int = 100_000
    bytes: int = 8 * MIB


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said to one statement.

    `table` is None for a statement without a result set, and after an error. `error` is the server's message. `affected`: rows
    changed. `timed_out`: it was stopped. `lost`: the session ended and a new one took its place; what was committed stands.
    """

    table: Table | None = None
    error: str | None = None
    affected: int = 0
    timed_out: bool = False
    lost: bool = False


class Engine(ABC):
    """One database server. Not thread-safe: one thread at a time; use one engine per worker."""

    dialect: str
    """As sqlglot calls it: `mysql` or `sqlite`."""
    databases: Sequence[str]
    """The databases' names, sorted."""

    @abstractmethod
    def open(self, db: str) -> None:
        """Begin an episode on `db`: its pristine content, a fresh session, the agent's rights."""

    @abstractmethod
    def run(self, statement: str, *, seconds: float) -> Answer:
        """One statement as the agent; stopped after `seconds`."""

    @abstractmethod
    def run_gold(self, db: str, statement: str, *, seconds: float = 60.0) -> Answer:
        """One statement as the referee, on the pristine content of `db`; it may only read.

        Raises `UsageError` if the content of `db` was changed in this episode and no pristine one is at hand.
        """

    @abstractmethod
    def schema(self, db: str) -> str:
        """The CREATE statements of the pristine `db`, as the server prints them."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Name, version and the settings that decide results; they belong to the run."""

    @abstractmethod
    def close(self) -> None:
        """End the server. May be called twice."""

    def table(self, db: str, statement: str, *, seconds: float = 60.0) -> Table:
        """What the referee reads. Raises `DataError` for a statement that gives no rows."""
        answer = self.run_gold(db, statement, seconds=seconds)
        if answer.table is None:
            raise DataError(f"database {db}: {answer.error}; in {statement[:200]}")
        return answer.table

    def name_of(self, db: str) -> str:
        """The database's true name; upper and lower case do not count. Raises `UsageError` if there is none."""
        for name in self.databases:
            if name.lower() == db.lower():
                return name
        known = ", ".join(self.databases[:8]) + (" …" if len(self.databases) > 8 else "")
        raise UsageError(f"there is no database {db!r}; there are {known or 'none'}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@contextlib.contextmanager
def closed_on_failure(begun: Engine | Sandbox) -> Iterator[None]:
    """What was begun is closed if the rest of its beginning fails."""
    try:
        yield
    except BaseException:
        begun.close()
        raise


_LIMIT_PASSED = "exceeded: all processes were killed"


def died(sandbox: Sandbox, message: str, *, words: Callable[[], str] = str) -> SandboxDied:
    """The error for a server that is gone. A sandbox ends everything in it at its limits on memory and processes, and says so
    to whoever asks next; `words` gives a server's last ones, that its own limit on memory was reached among them. In both
    cases the agent's statement did it, however the episode would go another time."""
    try:
        said = sandbox.exec("", argv=["true"], cwd="/", timeout=2).output
        full = words().rstrip().endswith("MemoryError")
    except SandboxError as error:
        return SandboxDied(message, by_agent=isinstance(error, SandboxDied) and error.by_agent)
    return SandboxDied(": ".join(filter(None, (message, said.strip()))), by_agent=full or _LIMIT_PASSED in said)
