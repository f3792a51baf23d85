"""An engine of either kind on given databases, and short ways to put a statement to one."""

from __future__ import annotations

from typing import Any

from orchard import skip_unless_there

from intercode.envs.sql.engines import Answer, Databases, Engine, engine_maker


def make(name: str, sources: Databases) -> Engine:
    """Skips where it is not installed."""
    skip_unless_there(name)
    return engine_maker(name, sources)()


def ask(engine: Engine, statement: str, seconds: float = 10.0) -> Answer:
    return engine.run(statement, seconds=seconds)


def rows(engine: Engine, statement: str) -> list[tuple[Any, ...]]:
    answer = ask(engine, statement)
    assert answer.table is not None, f"{statement}: {answer.error}"
    return list(answer.table.rows)


def gold(engine: Engine, db: str, statement: str) -> list[tuple[Any, ...]]:
    answer = engine.run_gold(db, statement)
    assert answer.table is not None, f"{statement}: {answer.error}"
    return list(answer.table.rows)


def do(engine: Engine, *statements: str) -> None:
    for statement in statements:
        answer = ask(engine, statement)
        assert answer.error is None, f"{statement}: {answer.error}"


def refused(engine: Engine, statement: str) -> str:
    answer = ask(engine, statement)
    assert answer.error is not None, f"{statement} was not refused: {answer}"
    return answer.error
