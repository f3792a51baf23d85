"""What SqlEnv calls solved: order, ties and names of columns on real servers, variant data, golds
that are no yardstick."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from orchard import CONSTANT, ENGINES, GOLDS, plays, skip_unless_there, write_data

import intercode
from intercode.errors import DataError
from intercode.validate.check import check


def test_an_answer_is_judged_as_a_careful_person_would(sql: Any) -> None:
    env = sql()
    for task, answer, solved in (
        ("kinds", "SELECT kind, COUNT(*) AS n FROM tree GROUP BY kind ORDER BY n DESC, kind", True),
        (
            "kinds",
            "SELECT kind, COUNT(*) AS n FROM tree GROUP BY kind ORDER BY n DESC, kind DESC",
            True,
        ),
        ("kinds", "SELECT kind, COUNT(*) AS n FROM tree GROUP BY kind ORDER BY n", False),
        ("kinds", "SELECT COUNT(*) AS n, kind FROM tree GROUP BY kind ORDER BY 1 DESC", True),
        ("kinds", "SELECT COUNT(*) AS x, kind AS y FROM tree GROUP BY kind ORDER BY 1 DESC", False),
        ("kinds", "SELECT kind AS y, COUNT(*) AS x FROM tree GROUP BY kind ORDER BY 2 DESC", True),
        ("kinds", "SELECT kind, COUNT(*) AS n, 1 FROM tree GROUP BY kind ORDER BY n DESC", False),
        ("oldest", "SELECT id, planted FROM tree WHERE id = 1", True),
        ("oldest", "SELECT id, planted FROM tree WHERE id = 2", False),
        ("oldest", "SELECT id, planted FROM tree WHERE planted = 1990", False),
        ("oldest", "SELECT id, NULL AS planted FROM tree WHERE id = 1", False),
        ("count", "SELECT 7.0", True),
        ("count", "SELECT '7'", False),
        ("count", "SELECT 7 UNION ALL SELECT 7", False),
        ("lost", "SELECT id FROM picking WHERE mark = 'Z' ORDER BY id DESC", True),
        ("lost", "SELECT id FROM picking WHERE mark IN ('Z', 'R')", False),
        ("words", "SELECT word FROM cask ORDER BY id DESC", False),
    ):
        score = plays(env, task, answer)
        assert (score.success, score.reward == 1.0) == (solved, solved), answer


# -- variant data ----------------------------------------------------------------------------------


def test_a_right_episode_holds_elsewhere_and_a_constant_does_not(sql: Any) -> None:
    """The whole episode is played there: what it changed before is part of it, and is gone after
    it."""
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
        assert (constant.reward, constant.success, constant.parts["robust"]) == (
            0.0,
            False,
            0.0,
        ), actions
        assert constant.parts["rows"] == 1.0, "it was right where it was played"
    assert "robust" not in plays(env, "weights", "SELECT 1, 2").parts, (
        "a wrong answer is not played again"
    )


def test_robust_is_told_of_tasks_that_are_not_general_only_when_it_is_asked_for(sql: Any) -> None:
    constant = ("SELECT * FROM mark", "SELECT * FROM picking", "SELECT 4 UNION ALL SELECT 7")
    for options in ({}, {"robust": True}):
        score = plays(sql(**options), "lost", *constant)
        assert (score.reward, score.success, score.parts.get("robust")) == (
            1.0,
            True,
            0.0 if options else None,
        )
    assert plays(sql(robust=True), "lost", GOLDS["lost"]).parts["robust"] == 1.0


OUTCOMES = [
    ("count", "SELECT 8 AS n", ["rows"], {"columns": ["n"], "rows": [[8]]}, [[7]], [[8]]),
    ("count", GOLDS["count"], [], {"columns": ["COUNT(*)"], "rows": [[7]]}, [], []),
    ("words", "SELECT word FROM cask ORDER BY id DESC", ["order"], None, [], []),
    # it ties with the gold's row
    (
        "oldest",
        "SELECT id, planted FROM tree WHERE id = 3",
        [],
        None,
        [],
        [],
    ),
    ("lost", "SELECT id, mark FROM picking WHERE id = 4", ["rows"], None, [[4], [7]], [[4, "Z"]]),
    (
        "lost",
        "SELECT id FROM picking WHERE id < 6 ORDER BY id",
        ["rows"],
        None,
        [[7]],
        [[1], [2], [3], [5]],
    ),
    ("weights", CONSTANT, ["robust"], None, [], []),
    ("count", "DELETE FROM picking", ["rows"], {"rows": []}, None, None),
]


def test_an_episode_ends_with_what_was_compared_in_a_few_kilobytes(sql: Any) -> None:
    env = sql()
    for task, answer, failed, agent, missing, extra in OUTCOMES:
        env.reset(options={"task": task})
        env.step(answer)
        found = env.step("submit")[4]["outcomes"]
        assert (found["failed"], found.get("missing"), found.get("extra")) == (
            failed,
            missing,
            extra,
        ), answer
        assert agent in (None, found["agent"]), answer
    env.reset(options={"task": "count"})
    env.step("SELECT oops")
    found = env.step("submit")[4]["outcomes"]
    assert (found["failed"], "oops" in found["agent"]["error"], found["gold"]["rows"]) == (
        ["error"],
        True,
        [[7]],
    )
    env.reset(options={"task": "count"})
    env.step("SELECT 1.5, CURRENT_DATE, x'00ff', a.*, b.* FROM picking a, picking b, picking c")
    found = env.step("submit")[4]["outcomes"]
    assert (found["agent"]["rows_total"], len(json.dumps(found)) < 8000) == (512, True)
    assert 0 < len(found["extra"]) < len(found["agent"]["rows"]) <= 20


# -- golds that are no yardstick -------------------------------------------------------------------

BROKEN = [
    {"id": "sound", "query": "Print the trees.", "gold": "SELECT id FROM tree"},
    {"id": "fails", "query": "Print what is not there.", "gold": "SELECT height FROM tree"},
    {"id": "moody", "query": "Print a number.", "gold": "SELECT {random}"},
    {"id": "lost", "query": "Print the attic.", "gold": "SELECT 1", "db": "attic"},
    {"id": "constant", "query": "Print one, anywhere.", "gold": "SELECT 1", "general": True},
    {"id": "twice", "query": "print the TREES.", "gold": "SELECT id FROM tree WHERE id > 0"},
    {
        "id": "shuffled",
        "query": "Print them as they fall.",
        "gold": "SELECT id FROM tree ORDER BY {random}",
    },
]
FOUND = {
    "fails": "gold fails",
    "moody": "two executions of the gold differ",
    "lost": "'attic'",
    "constant": "a constant answer passes",
    "twice": "asks the same as task sound",
    "shuffled": "two executions of the gold differ",
}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_every_planted_fault_is_found_and_the_sound_task_is_not_blamed(
    engine: str, tmp_path: Path
) -> None:
    skip_unless_there(engine)
    random = "RANDOM()" if engine == "sqlite" else "RAND()"
    planted = [{**task, "gold": task["gold"].format(random=random)} for task in BROKEN]
    factory = intercode.prepare(
        "sql", data=str(write_data(tmp_path / "planted", planted)), engine=engine
    )
    found = check(factory, factory.tasks)
    whys: dict[str, str] = {}
    for finding in found["broken"]:
        whys[finding["task"]] = whys.get(finding["task"], "") + finding["why"] + "\n"
    assert set(whys) == set(FOUND)
    assert {name: why for name, why in whys.items() if FOUND[name] not in why} == {}
    assert (found["tasks"], found["noop_paid"], found["nondeterministic"]) == (7, 0, 2)


def test_a_gold_that_fails_is_an_error_under_exact_and_earns_nothing_under_paper(
    tmp_path: Path,
) -> None:
    skip_unless_there("sqlite")
    data = str(
        write_data(
            tmp_path / "data", [{"id": "bad", "query": "Print.", "gold": "SELECT height FROM tree"}]
        )
    )
    env: Any = intercode.make("sql", data=data, engine="sqlite")
    with pytest.raises(
        DataError, match="task bad: gold fails: no such column: height; see `intercode check`"
    ):
        env.reset()
    env.close()
    env = intercode.make("sql", data=data, engine="sqlite", protocol="paper")
    env.reset()
    assert env.step("SELECT height FROM tree")[1] == 0.0
    env.close()
