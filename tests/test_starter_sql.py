"""The starter set for SQL keeps what its README promises, on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kept import lent
from orchard import ENGINES, skip_unless_there
from starter_sql_answers import BLIND, SECOND

import intercode
from intercode.envs.sql.compare import sql_exact
from intercode.envs.sql.databases import execute_gold
from intercode.tasks import open_data
from intercode.types import Table, View

pytestmark = pytest.mark.slow

TASKS = {task.id: task for task in open_data(None, env="sql").tasks}


@pytest.fixture(scope="module")
def envs() -> Iterator[dict[str, Any]]:
    with lent(intercode.make) as make:
        for engine in ENGINES:
            skip_unless_there(engine)
        yield {
            engine: make("sql", engine=engine, view=View(head=None), max_turns=None)
            for engine in ENGINES
        }


@pytest.mark.slow
def test_golds_agree_on_both_engines_and_no_two_tasks_have_one_answer(envs: dict[str, Any]) -> None:
    seen: list[tuple[str, Table]] = []
    for task in TASKS.values():
        here, there = (execute_gold(env.world.engine, task) for env in envs.values())
        assert here.table is not None, task.id
        assert sql_exact(there.table, here.table, here.order).success, task.id
        assert repr(here.table.rows) not in ("()", "((0,),)", "((1,),)", "((None,),)"), task.id
        assert [other for other, table in seen if set(table.rows) == set(here.table.rows)] == [], (
            task.id
        )
        seen.append((task.id, here.table))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_second_solution_is_right_and_a_blind_guess_is_wrong(
    envs: dict[str, Any], engine: str
) -> None:
    """A guess knows tables and columns, and has not read the notes in which a definition stands."""
    assert set(BLIND) == {task.id for task in TASKS.values() if task.extra["looks"]}
    for answers, right in ((SECOND, True), (BLIND, False)):
        for name, statement in answers.items():
            envs[engine].reset(options={"task": name})
            assert envs[engine].step(statement)[4]["exit_code"] == 0, name
            assert envs[engine].step("submit")[4]["score"].success is right, name
