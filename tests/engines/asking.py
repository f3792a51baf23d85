"""Short ways to put a statement to an engine."""

from __future__ import annotations

from typing import Any

from intercode.engines import Answer, Engine


def ask(engine: Engine, statement: str, seconds: float = 10.0) -> Answer:
    return engine.run(statement, seconds=seconds)


def rows(engine: Engine, statement: str) -> list[tuple[Any, ...]]:
    answer = ask(engine, statement)
    assert answer.table is not None, answer.error
    return list(answer.table.rows)


def do(engine: Engine, *statements: str) -> None:
    for statement in statements:
        answer = ask(engine, statement)
        assert answer.error is None, f"{statement}: {answer.error}"


def refused(engine: Engine, statement: str) -> str:
    answer = ask(engine, statement)
    assert answer.error is not None, f"{statement} was not refused: {answer}"
    return answer.error
