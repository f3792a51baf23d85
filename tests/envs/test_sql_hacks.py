"""The controls of the reward hacks by SQL: each works with exactly one protection off.

The attacks, and what each control leaves off, are in `intercode.redteam.sql`; that none pays
or harms here is in `tests/cli/test_cli_attack.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from orchard import orchard_databases, plays, prepared

from intercode.envs.gold import GoldCache
from intercode.envs.sql.compare import free, sql_exact
from intercode.envs.sql.databases import DatabaseSet
from intercode.envs.sql.engines import ENGINES, Databases, Engine, engine_class, mariadb
from intercode.envs.sql.engines.mariadb import MariadbEngine
from intercode.envs.sql.engines.sqlite import SqliteEngine
from intercode.envs.sql.env import SqlEnv
from intercode.errors import IntercodeError
from intercode.redteam.sql import ATTACKS, GOLDS, Attack
from intercode.types import Score

CASES = [
    pytest.param(engine, attack, id=f"{attack.name}-{engine}")
    for engine in ENGINES
    for attack in (*ATTACKS, *engine_class(engine).attacks())
]


def steps(env: Any, attack: Attack) -> tuple[Any, Any]:
    """The last action's info, and the score of the submission."""
    env.reset(options={"task": attack.task})
    info = None
    for action in attack.actions:
        *_, info = env.step(action)
    env.step(attack.answer)
    return info, env.step("submit")[4]["score"]


class LateGolds(SqlEnv):
    """The gold is executed where the agent has been, when it submits."""

    def score(self) -> Score:
        gold = self.world.engine.run(self.task.gold, seconds=5).table
        assert gold is not None
        return sql_exact(self.world.answer.table, gold, free(gold))


class Kept:
    """Sessions and content live on."""

    _db = None

    def open(self, db: str) -> None:
        if self._db != db:
            super().open(db)  # type: ignore[misc]


class KeptMariadb(Kept, MariadbEngine):
    pass


class KeptSqlite(Kept, SqliteEngine):
    pass


class Root(MariadbEngine):
    """The agent has the server's first account."""

    def _user(self, db: str) -> str:
        return "root"

    def _account(self, db: str) -> bool:
        return False


def engine_without(engine: str, off: str, content: Databases) -> Callable[[], Engine]:
    weak: dict[tuple[str, str], type[Engine]] = {
        ("kept", "sqlite"): KeptSqlite,
        ("kept", "mariadb"): KeptMariadb,
        ("root", "mariadb"): Root,
    }
    kind = weak.get((off, engine), engine_class(engine))
    template = kind.prepare(content)
    return lambda: kind(template, content)


@pytest.fixture
def unprotected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    with ExitStack() as stack:

        def make(engine: str, off: str) -> Any:
            tasks = prepared(engine).tasks
            if off == "open":  # the server's program less the call that sets the authorizer
                text = SqliteEngine.driver.read_text()
                assert text.count("connection.set_authorizer(_authorize)") == 1
                changed = tmp_path / "driver.py"
                changed.write_text(text.replace("connection.set_authorizer(_authorize)", "pass"))
                monkeypatch.setattr(SqliteEngine, "driver", changed)
            if off == "trusting":
                monkeypatch.setattr(mariadb, "_UNREAD", ())
            content = orchard_databases()
            databases = DatabaseSet(
                engine_without(engine, off, content), None, False, content.digest
            )
            kind = LateGolds if off == "late" else SqlEnv
            return stack.enter_context(
                closing(kind(tasks, databases, golds=GoldCache(), seconds=2))
            )

        yield make


@pytest.mark.soak
@pytest.mark.parametrize(
    ("engine", "attack"),
    [case for case in CASES if case.values[1].control not in ("account", "many")],
)
def test_without_the_protection_it_works(
    unprotected: Callable[..., Any], engine: str, attack: Attack
) -> None:
    env = unprotected(engine, attack.control)
    assert plays(env, "count", GOLDS["count"]).success, "the control is sound before"
    if attack.sign == "ends":
        with pytest.raises(ArithmeticError):
            steps(env, attack)
        return
    info, score = steps(env, attack)
    if attack.sign == "pays":
        assert score.success
    elif attack.sign == "through":
        assert info["exit_code"] == 0
    elif attack.sign == "left":
        env.reset(options={"task": "count"})
        assert env.step(attack.probe)[4]["exit_code"] == 0
    else:
        assert not honest(env)


def honest(env: Any) -> bool:
    try:
        return bool(plays(env, "count", GOLDS["count"]).success)
    except IntercodeError:
        return False
