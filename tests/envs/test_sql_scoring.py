"""What SqlEnv calls solved: order, ties and names of columns on real servers, second contents, golds that are no yardstick."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from orchard import CONSTANT, ENGINES, GOLDS, plays, prepared, skip_unless_there, write

import intercode
from intercode.engines import databases, engine_maker
from intercode.envs.sql import SqlEnv
from intercode.envs.sqlground import Worlds
from intercode.errors import DataError
from intercode.runner.check import check
from intercode.types import Task


def test_an_answer_is_judged_as_a_careful_person_would(sql: Any) -> None:
    env = sql()
    for task, answer, solved in (
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
    ):
        score = plays(env, task, answer)
        assert (score.success, score.reward == 1.0) == (solved, solved), answer


def test_the_reward_tells_how_near_an_answer_is(sql: Any) -> None:
    env = sql()
    near = plays(env, "lost", "SELECT 4")
    assert (near.parts["rows"], 0 < near.reward < 1) == (0.5, True)
    assert plays(env, "words", "SELECT word FROM cask ORDER BY id DESC").parts == {"rows": 1.0, "order": 0.0, "columns": 1.0}


# -- second contents ----------------------------------------------------------------------------------------------------


def test_a_right_episode_holds_elsewhere_and_a_constant_does_not(sql: Any) -> None:
    """The whole episode is played there: what it changed before is part of it, and is gone after it."""
    env = sql()
    for actions in (
        (GOLDS["weights"],),
        ("CREATE TEMPORARY TABLE w AS " + GOLDS["weights"], "SELECT * FROM w"),
        ("SELECT oops", "DELETE FROM mark", "UPDATE picking SET mark = 'K'", GOLDS["weights"]),
        ("DROP TABLE mark", GOLDS["weights"]),
    ):
        right = plays(env, "weights", *actions)
        assert (right.reward, right.success, right.parts["robust"]) == (1.0, True, 1.0), actions
    for actions in ((CONSTANT,), ("CREATE TEMPORARY TABLE w AS " + CONSTANT, "SELECT * FROM w")):
        constant = plays(env, "weights", *actions)
        assert (constant.reward, constant.success, constant.parts["robust"]) == (0.0, False, 0.0), actions
        assert constant.parts["rows"] == 1.0, "it was right where it was played"
    assert "robust" not in plays(env, "weights", "SELECT 1, 2").parts, "a wrong answer is not played again"


def test_robust_is_told_of_tasks_that_are_not_general_only_when_it_is_asked_for(sql: Any) -> None:
    constant = ("SELECT * FROM mark", "SELECT * FROM picking", "SELECT 4 UNION ALL SELECT 7")
    for options in ({}, {"robust": True}):
        score = plays(sql(**options), "lost", *constant)
        assert (score.reward, score.success, score.parts.get("robust")) == (1.0, True, 0.0 if options else None)
    assert plays(sql(robust=True), "lost", GOLDS["lost"]).parts["robust"] == 1.0


def test_a_fork_is_scored_elsewhere_too(sql: Any) -> None:
    env = sql("weights", "CREATE TABLE w AS " + GOLDS["weights"])
    with closing(env.fork()) as twin:
        twin.step("SELECT * FROM w")
        env.step(CONSTANT)
        assert (twin.step("submit")[1], env.step("submit")[1]) == (1.0, 0.0)


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


def test_prepare_is_shared_and_golds_are_executed_once() -> None:
    setting = prepared("sqlite")
    with closing(setting()) as one, closing(setting()) as other:
        assert plays(one, "count", GOLDS["count"]).success
        key = ("count", GOLDS["count"], "first")
        executed = [env._golds.get(key, lambda: pytest.fail("executed again")) for env in (one, other)]  # type: ignore[attr-defined]
        assert executed[0] is executed[1]
