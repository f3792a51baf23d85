"""Reward hacks by SQL, by mechanism: none pays, none harms the next episode on the same server, and each has its control.

The attacks, and what each control leaves off, are in `intercode.attacks.sql`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from orchard import ENDLESS, Pool, orchard_databases, plays, pool

from intercode.attacks.orchard import GOLDS
from intercode.attacks.sql import ATTACKS, ENGINES, TRIGGER, Attack
from intercode.engines import Databases, Engine, mariadbd, session, sqlite, sqlite_guest
from intercode.engines.mariadb import MariadbEngine
from intercode.envs.golds import Golds
from intercode.envs.sql import SqlEnv
from intercode.envs.sqlground import Worlds
from intercode.errors import IntercodeError
from intercode.rewards import sql_exact
from intercode.rewards.exact_sql import free
from intercode.types import Score, Table, Task

CASES = [
    pytest.param(engine, attack, id=f"{attack.name}-{engine}")
    for engine in ENGINES
    for attack in ATTACKS
    if engine in attack.engines
]


def steps(env: Any, engine: str, attack: Attack) -> tuple[Any, Any]:
    """The last action's info, and the score of the submission."""
    env.reset(options={"task": attack.task})
    info = None
    for action in attack.actions:
        *_, info = env.step(action.format(trigger=TRIGGER[engine]))
    env.step(attack.answer)
    return info, env.step("submit")[4]["score"]


# -- protected ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def worker() -> Iterator[Callable[[str], Any]]:
    """One environment on each engine, for all attacks in turn."""
    pools: dict[str, Pool] = {}
    envs: dict[str, Any] = {}

    def get(engine: str) -> Any:
        if engine not in envs:
            pools[engine] = Pool(engine)
            envs[engine] = pools[engine].lent()(seconds=2)
        return envs[engine]

    yield get
    for each in pools.values():
        each.close()


@pytest.mark.parametrize(("engine", "attack"), CASES)
def test_it_does_not_pay_and_does_not_harm(worker: Callable[[str], Any], engine: str, attack: Attack) -> None:
    env = worker(engine)
    info, score = steps(env, engine, attack)
    assert not score.success
    if attack.sign == "through":
        assert info["exit_code"] == 1, "it is refused"
    env.reset(options={"task": "count"})
    if attack.probe:
        assert env.step(attack.probe)[4]["exit_code"] == 1
    env.step(GOLDS["count"])
    assert env.step("submit")[1] == 1.0
    for task in ("words", "weights", "kinds"):
        assert plays(env, task, GOLDS[task]).success, task


# -- with exactly one protection off --------------------------------------------------------------------------------------


class LateGolds(SqlEnv):
    """The gold is executed where the agent has been, when it submits."""

    def _compare(self, engine: Engine, answer: Table | None) -> Score:
        gold = engine.run(self.task.gold, seconds=5).table
        assert gold is not None
        return sql_exact(answer, gold, free(gold))


class KeptMariadb(MariadbEngine):
    """Sessions and content live on."""

    def open(self, db: str) -> None:
        if self._db != db:
            super().open(db)


class KeptSqlite(sqlite.SqliteEngine):
    """Sessions and content live on."""

    def open(self, db: str) -> None:
        if self._db != db:
            super().open(db)


class Root(MariadbEngine):
    """The agent has the server's first account."""

    def _user(self, db: str) -> str:
        return "root"

    def _account(self, db: str) -> bool:
        return False


class KeptAccount(MariadbEngine):
    """The agent's account is made once. (Without that, the next line of defence is a new server.)"""

    def _account(self, db: str) -> bool:
        self._made = getattr(self, "_made", set())
        known, _ = db in self._made, self._made.add(db)
        return not known and super()._account(db)

    def _restart(self) -> None:
        raise IntercodeError("the agent's login was refused")


class Many(MariadbEngine):
    """Several statements in one piece."""

    def open(self, db: str) -> None:
        super().open(db)
        self._end_session()
        self._session = self._server.session(self._user(db), db=db, many=True)


def engine_without(engine: str, off: str, content: Databases) -> Callable[[], Engine]:
    if engine == "sqlite":
        kind = KeptSqlite if off == "kept" else sqlite.SqliteEngine
        prepared = sqlite.prepare(content)
        return lambda: kind(prepared, content)
    kinds = {"kept": KeptMariadb, "root": Root, "account": KeptAccount, "many": Many}
    made = mariadbd.prepare(content)
    return lambda: kinds.get(off, MariadbEngine)(made)


@pytest.fixture
def unprotected(worker: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    made: list[SqlEnv] = []

    def make(engine: str, off: str) -> Any:
        tasks: list[Task] = worker(engine).tasks
        if off == "open":
            monkeypatch.setattr(sqlite_guest, "__file__", str(without_authorizer(tmp_path)))
        if off == "trusting":
            monkeypatch.setattr(session, "_UNREAD", ())
        content = orchard_databases()
        worlds = Worlds(engine_without(engine, off, content), None, False, content.digest)
        kind = LateGolds if off == "late" else SqlEnv
        made.append(kind(tasks, worlds, golds=Golds(), seconds=2))
        return made[-1]

    yield make
    for env in made:
        env.close()


def without_authorizer(folder: Path, instead: str = "") -> Path:
    """The server's program less the call that sets it."""
    text = Path(sqlite_guest.__file__).read_text()
    call = "connection.set_authorizer(_rights)"
    assert text.count(call) == 1
    changed = folder / "server.py"
    changed.write_text(text.replace(call, instead or "pass"))
    return changed


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "attack"), CASES)
def test_without_the_protection_it_works(unprotected: Callable[..., Any], engine: str, attack: Attack) -> None:
    env = unprotected(engine, attack.control)
    assert plays(env, "count", GOLDS["count"]).success, "the control is sound before"
    if attack.sign == "ends":
        with pytest.raises(ArithmeticError):
            steps(env, engine, attack)
        return
    info, score = steps(env, engine, attack)
    if attack.sign == "pays":
        assert score.success
    elif attack.sign == "through":
        assert info["exit_code"] == 0
    elif attack.sign == "left":
        env.reset(options={"task": "count"})
        *_, info = env.step(attack.probe)
        assert info["exit_code"] == 0
    else:
        assert not honest(env)


def honest(env: Any) -> bool:
    try:
        return bool(plays(env, "count", GOLDS["count"]).success)
    except IntercodeError:
        return False


# -- time -----------------------------------------------------------------------------------------------------------------

WITHOUT_END = {
    ("mariadb", "sleep"): ENDLESS["mariadb"],
    ("mariadb", "sleep with its own limit"): "SET STATEMENT max_statement_time = 0 FOR SELECT SLEEP(60)",
    ("mariadb", "benchmark"): "SELECT BENCHMARK(100000000000, MD5('x'))",
    ("mariadb", "cross join"): "SELECT COUNT(*) FROM " + ", ".join(f"tree t{n}" for n in range(12)),
    (
        "mariadb",
        "procedure",
    ): "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; WHILE 1 DO DO SLEEP(9); END WHILE; END",
    ("sqlite", "cross join"): "SELECT COUNT(*) FROM " + ", ".join(f"tree t{n}" for n in range(12)),
    ("sqlite", "recursion"): ENDLESS["sqlite"],
    ("sqlite", "one long call"): "SELECT instr(hex(zeroblob(9000000)), hex(zeroblob(4000000)) || '1')",
}


@pytest.mark.parametrize(("engine", "name"), WITHOUT_END, ids=str)
def test_a_statement_without_end_is_stopped_in_time_and_harms_nobody(engine: str, name: str) -> None:
    with pool(engine) as own:
        make = own.lent()
        for seconds in (0.2, 0.6):  # the longer limit is the control: it does go on
            env = make("count", "DELETE FROM picking", seconds=seconds)
            began = time.monotonic()
            *_, info = env.step(WITHOUT_END[engine, name])
            took = time.monotonic() - began
            assert info["timed_out"]
            assert 0.9 * seconds <= took < seconds + 0.9
            assert not env.step("submit")[4]["score"].success
            assert plays(env, "count", "SELECT COUNT(*) FROM picking", GOLDS["count"]).success


def test_extensions_are_not_even_looked_for(
    worker: Callable[[str], Any], unprotected: Callable[..., Any], tmp_path: Path
) -> None:
    """The control is a server that lets them be loaded: it looks for the file."""
    env = worker("sqlite")
    env.reset(options={"task": "count"})
    assert "not authorized" in env.step("SELECT load_extension('/srv/nowhere')")[0]
    assert plays(env, "count", GOLDS["count"]).success
    changed = without_authorizer(tmp_path, "connection.enable_load_extension(True)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_guest, "__file__", str(changed))
        env = unprotected("sqlite", "")
        env.reset(options={"task": "count"})
        assert "nowhere" in env.step("SELECT load_extension('/srv/nowhere')")[0]
