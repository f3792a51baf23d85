"""What SqlEnv calls solved: order, ties and names of columns on real servers, and the second contents."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from orchard import CONSTANT, ENDLESS, ENGINES, GOLDS, plays, prepared, skip_unless_there, write

import intercode
from intercode.agents import Act, Moves, Step, gold, noop
from intercode.engines import databases, engine_maker
from intercode.envs.sql import SqlEnv
from intercode.envs.sqlground import Worlds
from intercode.errors import DataError
from intercode.runner.check import check
from intercode.runner.run import evaluate
from intercode.types import Task


@pytest.mark.parametrize(
    ("task", "answer", "solved"),
    [
        ("kinds", "SELECT kind, COUNT(*) AS n FROM tree GROUP BY kind ORDER BY n DESC, kind", True),
        ("kinds", "SELECT kind, COUNT(*) AS n FROM tree GROUP BY kind ORDER BY n DESC, kind DESC", True),
        ("kinds", "SELECT kind, COUNT(*) AS n FROM tree GROUP BY kind ORDER BY n", False),
        ("kinds", "SELECT kind, COUNT(*) AS n FROM tree GROUP BY kind ORDER BY kind DESC", False),
        ("kinds", "SELECT COUNT(*) AS n, kind FROM tree GROUP BY kind ORDER BY 1 DESC", True),
        ("kinds", "SELECT COUNT(*) AS x, kind AS y FROM tree GROUP BY kind ORDER BY 1 DESC", False),
        ("kinds", "SELECT kind AS y, COUNT(*) AS x FROM tree GROUP BY kind ORDER BY 2 DESC", True),
        ("kinds", "SELECT kind, COUNT(*) AS n, 1 FROM tree GROUP BY kind ORDER BY n DESC", False),
        ("kinds", "SELECT kind, COUNT(*) AS n FROM tree GROUP BY kind ORDER BY n DESC LIMIT 3", False),
        ("oldest", "SELECT id, planted FROM tree WHERE id = 1", True),
        ("oldest", "SELECT id, planted FROM tree WHERE id = 3", True),
        ("oldest", "SELECT id, planted FROM tree WHERE id = 2", False),
        ("oldest", "SELECT id, planted FROM tree WHERE planted = 1990", False),
        ("oldest", "SELECT id, NULL AS planted FROM tree WHERE id = 1", False),
        ("count", "SELECT 7.0", True),
        ("count", "SELECT 7.1", False),
        ("count", "SELECT '7'", False),
        ("count", "SELECT 7 UNION ALL SELECT 7", False),
        ("lost", "SELECT id FROM picking WHERE mark = 'Z' ORDER BY id DESC", True),
        ("lost", "SELECT 4 UNION SELECT 7", True),
        ("lost", "SELECT id FROM picking WHERE mark IN ('Z', 'R')", False),
        ("words", "SELECT word FROM cask ORDER BY id DESC", False),
    ],
)
def test_an_answer_is_judged_as_a_careful_person_would(sql: Any, task: str, answer: str, solved: bool) -> None:
    score = plays(sql(), task, answer)
    assert (score.success, score.reward == 1.0) == (solved, solved)


def test_the_reward_tells_how_near_an_answer_is(sql: Any) -> None:
    env = sql()
    assert plays(env, "lost", "SELECT 4").parts["rows"] == 0.5
    assert 0 < plays(env, "lost", "SELECT 4").reward < 1
    assert plays(env, "words", "SELECT word FROM cask ORDER BY id DESC").parts == {"rows": 1.0, "order": 0.0, "columns": 1.0}


# -- second contents ----------------------------------------------------------------------------------------------------


def test_a_right_statement_holds_elsewhere_and_a_constant_does_not(sql: Any) -> None:
    env = sql()
    right, constant = plays(env, "weights", GOLDS["weights"]), plays(env, "weights", CONSTANT)
    assert (right.reward, right.success, right.parts["robust"]) == (1.0, True, 1.0)
    assert (constant.reward, constant.success, constant.parts["robust"]) == (0.0, False, 0.0)
    assert constant.parts["rows"] == 1.0, "it was right where it was played"


def test_a_wrong_answer_is_not_played_again(sql: Any) -> None:
    assert "robust" not in plays(sql(), "weights", "SELECT 1, 2").parts


def test_the_whole_episode_is_played_elsewhere(sql: Any) -> None:
    """What it changed before is part of it, and its answer must come of what is there."""
    env = sql()
    honest = ("CREATE TEMPORARY TABLE w AS " + GOLDS["weights"], "SELECT * FROM w")
    stored = ("CREATE TEMPORARY TABLE w AS " + CONSTANT, "SELECT * FROM w")
    assert plays(env, "weights", *honest).success
    assert not plays(env, "weights", *stored).success
    assert plays(env, "weights", "SELECT oops", "DELETE FROM mark", GOLDS["weights"]).success


def test_a_look_then_an_answer_loses_nothing_where_a_task_is_not_general(sql: Any) -> None:
    for options in ({}, {"robust": True}):
        env = sql(**options)
        score = plays(env, "lost", "SELECT * FROM mark", "SELECT * FROM picking", "SELECT 4 UNION ALL SELECT 7")
        assert (score.reward, score.success) == (1.0, True), options
        assert ("robust" in score.parts) == bool(options)


def test_robust_is_told_for_every_solved_task_when_it_is_asked_for(sql: Any) -> None:
    env = sql(robust=True)
    assert plays(env, "lost", GOLDS["lost"]).parts["robust"] == 1.0
    assert plays(env, "count", "SELECT 7").parts["robust"] == 0.0
    assert plays(env, "count", "SELECT 7").success
    assert "robust" not in plays(env, "count", "SELECT 8").parts


def test_the_papers_reward_knows_no_second_contents(sql: Any) -> None:
    env = sql(reward="paper")
    assert plays(env, "weights", re.sub(r"(\d+)", r"SUM(\1)", CONSTANT)).success


def test_what_an_episode_changed_elsewhere_is_gone_as_well(sql: Any) -> None:
    env = sql()
    assert plays(env, "weights", "UPDATE picking SET mark = 'K'", GOLDS["weights"]).success
    assert plays(env, "weights", "DROP TABLE mark", GOLDS["weights"]).success
    assert plays(env, "weights", GOLDS["weights"]).success


def test_a_fork_is_scored_elsewhere_too(sql: Any) -> None:
    env = sql("weights", "CREATE TABLE w AS " + GOLDS["weights"])
    twin, other = env.fork(), env.fork()
    twin.step("SELECT * FROM w")
    other.step(CONSTANT)
    assert (twin.step("submit")[1], other.step("submit")[1]) == (1.0, 0.0)
    for each in (twin, other):
        each.close()


def test_a_gold_that_fails_elsewhere_costs_an_answer_nothing_but_in_a_general_task(tmp_path: Path) -> None:
    tasks = prepared("sqlite").tasks
    first = databases(write(tmp_path / "first") / "databases")
    other = write(tmp_path / "other") / "databases"
    (other / "orchard.sql").write_text("CREATE TABLE stump (id INTEGER);\n")
    worlds = Worlds(engine_maker("sqlite", first), engine_maker("sqlite", databases(other)), True, "")
    env = SqlEnv(tasks, worlds)
    score = plays(env, "lost", GOLDS["lost"])
    assert (score.success, "robust" in score.parts) == (True, False)
    with pytest.raises(DataError, match="task weights: gold fails"):
        plays(env, "weights", GOLDS["weights"])
    env.close()


def test_a_general_gold_is_found_that_a_constant_answer_satisfies_where_rows_tie(tmp_path: Path) -> None:
    places = []
    for name, last in (("first", 7), ("other", 6)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "d.sql").write_text(
            f"CREATE TABLE t (id INTEGER, age INTEGER);\nINSERT INTO t VALUES (1, 5), (2, 7), (3, {last});\n"
        )
        places.append(engine_maker("sqlite", databases(tmp_path / name)))
    task = Task(
        "oldest", "Which one is the oldest?", "SELECT id FROM t ORDER BY age DESC LIMIT 1", {"db": "d", "general": True}
    )
    env = SqlEnv([task], Worlds(*places, True, ""))
    (fault,) = env.try_gold(task).faults
    assert "a constant answer passes" in fault
    env.close()
    env = SqlEnv([task], Worlds(*places, True, ""), reward=lambda answer, gold, task: float(answer == gold))
    assert env.try_gold(task).faults == ()
    env.close()


# -- golds that are no yardstick ----------------------------------------------------------------------------------------

BROKEN = [
    {"id": "sound", "query": "Print the trees.", "gold": "SELECT id FROM tree"},
    {"id": "fails", "query": "Print what is not there.", "gold": "SELECT height FROM tree"},
    {"id": "writes", "query": "Fell them.", "gold": "DELETE FROM tree"},
    {"id": "moody", "query": "Print a number.", "gold": "SELECT {random}"},
    {"id": "lost", "query": "Print the attic.", "gold": "SELECT 1", "db": "attic"},
    {"id": "constant", "query": "Print one, anywhere.", "gold": "SELECT 1", "general": True},
    {"id": "empty", "query": "Print nothing.", "gold": ";"},
    {"id": "twice", "query": "print the TREES.", "gold": "SELECT id FROM tree WHERE id > 0"},
    {"id": "shuffled", "query": "Print them as they fall.", "gold": "SELECT id FROM tree ORDER BY {random}"},
]
FOUND = {
    "fails": "gold fails",
    "writes": "gold fails",
    "moody": "two executions of the gold differ",
    "lost": "'attic'",
    "constant": "a constant answer passes",
    "empty": "gold",
    "twice": "asks the same as task sound",
    "shuffled": "two executions of the gold differ",
}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_planted_fault_is_found_and_the_sound_task_is_not_blamed(engine: str, tmp_path: Path) -> None:
    skip_unless_there(engine)
    random = "RANDOM()" if engine == "sqlite" else "RAND()"
    planted = [{**task, "gold": task["gold"].format(random=random)} for task in BROKEN]
    setting = intercode.prepare("sql", data=str(write(tmp_path / "planted", planted)), engine=engine)
    found = check(setting, setting.tasks)
    whys: dict[str, str] = {}
    for finding in found["broken"]:
        whys[finding["task"]] = whys.get(finding["task"], "") + finding["why"] + "\n"
    assert set(whys) == set(FOUND)
    assert {name: why for name, why in whys.items() if FOUND[name] not in why} == {}
    assert (found["tasks"], found["noop_paid"], found["nondeterministic"]) == (9, 0, 2)


def test_a_gold_that_fails_is_an_error_under_exact_and_earns_nothing_under_paper(tmp_path: Path) -> None:
    skip_unless_there("sqlite")
    data = str(write(tmp_path / "data", [{"id": "bad", "query": "Print.", "gold": "SELECT height FROM tree"}]))
    env: Any = intercode.make("sql", data=data, engine="sqlite")
    with pytest.raises(DataError, match="task bad: gold fails: no such column: height; see `intercode check`"):
        env.reset()
    env.close()
    env = intercode.make("sql", data=data, engine="sqlite", protocol="paper")
    env.reset()
    assert env.step("SELECT height FROM tree")[1] == 0.0
    env.close()


def test_a_gold_without_end_is_found_and_the_server_lives_on(tmp_path: Path) -> None:
    """Neither one that the server can stop, nor one that it cannot."""
    skip_unless_there("sqlite")
    content = databases(write(tmp_path / "data") / "databases")
    stuck = "SELECT instr(hex(zeroblob(9000000)), hex(zeroblob(4000000)) || '1')"
    with engine_maker("sqlite", content)() as engine:
        for gold in (ENDLESS["sqlite"], stuck):
            assert engine.run_gold("orchard", gold, seconds=0.2).timed_out
            engine.open("orchard")
            table = engine.run("SELECT COUNT(*) FROM tree", seconds=5).table
            assert table is not None
            assert table.rows == ((7,),)


# -- the starter set ----------------------------------------------------------------------------------------------------


def _starter(engine: str, **options: Any) -> Any:
    skip_unless_there(engine)
    return intercode.prepare("sql", engine=engine, max_turns=None, **options)


def look_then_answer(task: Task, protocol: str) -> Moves:
    """Looks with the gold, and answers with the rows that it saw, written as constants."""
    seen = yield Act(task.gold)
    assert isinstance(seen, Step)
    rows = eval(seen.observation, {"Decimal": Decimal, "datetime": datetime})
    yield Act(" UNION ALL ".join("SELECT " + ", ".join(map(_literal, row)) for row in rows))
    yield Act("submit")


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int | float | Decimal) else "'" + str(value).replace("'", "''") + "'"


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("options", [{}, {"protocol": "paper"}], ids=str)
def test_golds_solve_the_starter_set_and_nothing_solves_none(engine: str, options: dict[str, Any]) -> None:
    setting = _starter(engine, **options)
    golds = evaluate(setting, gold, tasks=setting.tasks)
    assert [episode.task for episode in golds if not episode.success] == []
    nothing = evaluate(setting, noop, tasks=setting.tasks)
    assert [episode.task for episode in nothing if episode.success or episode.error] == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_looking_and_answering_solves_what_is_not_general_and_nothing_else(engine: str) -> None:
    setting = _starter(engine, robust=True)
    episodes = evaluate(setting, look_then_answer, tasks=setting.tasks)
    general = {task.id for task in setting.tasks if task.general}
    assert [episode.error for episode in episodes if episode.error] == []
    assert [episode.task for episode in episodes if episode.success == (episode.task in general)] == []
    assert all(episode.parts["robust"] in (0.0, 1.0) for episode in episodes)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_golds_hold_on_the_second_contents(engine: str) -> None:
    setting = _starter(engine, robust=True)
    episodes = evaluate(setting, gold, tasks=setting.tasks)
    assert [episode.task for episode in episodes if episode.parts.get("robust") != 1.0] == []


def test_prepare_is_shared_and_golds_are_executed_once() -> None:
    setting = prepared("sqlite")
    one: Any = setting()
    other: Any = setting()
    assert plays(one, "count", GOLDS["count"]).success
    key = ("count", GOLDS["count"], "first")
    executed = one._golds.get(key, lambda: pytest.fail("executed again"))
    assert executed is other._golds.get(key, lambda: pytest.fail("executed again"))
    one.close()
    other.close()
