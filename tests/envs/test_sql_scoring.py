"""What SqlEnv calls solved: order, ties and names of columns on real servers, variant data, golds
that are no yardstick."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from orchard import CONSTANT, DUCKDB, ENGINES, GOLDS, plays, skip_unless_there, write_data

import intercode
from intercode.envs.sql.compare import Order, difference, sql_exact
from intercode.envs.sql.databases import execute_gold, read_databases
from intercode.envs.sql.engines import Engine, engine_maker
from intercode.errors import DataError
from intercode.types import Table, Task
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


SHOP = """
CREATE TABLE t (
  id INTEGER NOT NULL, g VARCHAR(10), n INTEGER, f FLOAT, q DECIMAL(20,6), PRIMARY KEY (id));
INSERT INTO t VALUES
  (1, 'x', 10, 0.1, 0.000012), (2, 'x', 20, 1.7, 1.5), (3, 'y', 20, 3.3, 2.5),
  (4, 'y', 31, 123456.789, 3.5);
"""
PLACE = "RANK() OVER (ORDER BY n DESC)"
ANY = "SELECT id FROM t ORDER BY id DESC"
BY_N = "SELECT id FROM t ORDER BY n, id DESC"
TIES = [
    (f"SELECT id, {PLACE} FROM t ORDER BY 2", f"SELECT id, {PLACE} FROM t ORDER BY 2, id DESC"),
    (f"SELECT id FROM t ORDER BY {PLACE}", "SELECT id FROM t ORDER BY n DESC, id DESC"),
    (f"SELECT id, {PLACE} r FROM t ORDER BY -r", f"SELECT id, {PLACE} FROM t ORDER BY n, id DESC"),
    (
        f"SELECT id, {PLACE} r FROM t ORDER BY r, length(g)",
        f"SELECT id, {PLACE} FROM t ORDER BY 2, id DESC",
    ),
    ("SELECT id FROM t ORDER BY COUNT(*) OVER (PARTITION BY g)", ANY),
    ("SELECT id FROM t ORDER BY n - AVG(n) OVER ()", BY_N),
    ("SELECT * FROM t ORDER BY 3", "SELECT * FROM t ORDER BY n, id DESC"),
    ("SELECT * FROM t ORDER BY length(g), 3 LIMIT 2", "SELECT * FROM t WHERE n < 31 AND id <> 2"),
    ("SELECT n AS n2, id FROM t ORDER BY n2 + 0", "SELECT n, id FROM t ORDER BY n, id DESC"),
    ("SELECT id, abs(n) n FROM t ORDER BY abs(n)", "SELECT id, n FROM t ORDER BY n, id DESC"),
    ("SELECT id, -n AS n FROM t ORDER BY n + 0", "SELECT id, -n FROM t ORDER BY n, id DESC"),
    ("SELECT id, n + 1 AS g FROM t ORDER BY length(g)", "SELECT id, n + 1 FROM t ORDER BY id DESC"),
    (
        "SELECT id AS n, n AS m FROM t ORDER BY m",
        "SELECT id AS n, n AS m FROM t ORDER BY 2, 1 DESC",
    ),
    ("SELECT DISTINCT g FROM t ORDER BY length(g)", "SELECT DISTINCT g FROM t ORDER BY g DESC"),
    ("SELECT DISTINCT g FROM t ORDER BY length(g) LIMIT 1", "SELECT 'y'"),
    ("SELECT id FROM t ORDER BY (SELECT COUNT(*) FROM t u WHERE u.g = t.g)", ANY),
    (
        "SELECT g, COUNT(*) c FROM t GROUP BY g ORDER BY RANK() OVER (ORDER BY COUNT(*))",
        "SELECT g, 2 FROM t GROUP BY g ORDER BY g DESC",
    ),
    (
        "SELECT a.*, b.* FROM t a JOIN t b ON a.n = b.n ORDER BY 3",
        "SELECT a.*, b.* FROM t a JOIN t b ON a.n = b.n ORDER BY a.n, a.id DESC",
    ),
    (
        "SELECT id, n FROM t WHERE id < 3 UNION SELECT id, n FROM t WHERE id > 2 ORDER BY 2",
        "SELECT id, n FROM t ORDER BY n, id DESC",
    ),
]
"""Golds, and the same rows with those that tie in another order."""
IN_ORDER = [
    (f"SELECT id FROM t ORDER BY {PLACE}", BY_N),
    (f"SELECT id, {PLACE} r FROM t ORDER BY -r", f"SELECT id, {PLACE} FROM t ORDER BY 2"),
    ("SELECT id FROM t ORDER BY COUNT(*) OVER (PARTITION BY g), n", ANY),
    ("SELECT * FROM t ORDER BY 3", "SELECT * FROM t ORDER BY id DESC"),
    ("SELECT id, -n AS n FROM t ORDER BY n + 0", "SELECT id, -n FROM t ORDER BY 2"),
    (
        "SELECT id AS n, n AS m FROM t ORDER BY n",
        "SELECT id AS n, n AS m FROM t ORDER BY 2, 1 DESC",
    ),
]
"""Golds, and the same rows in a wrong order."""


@pytest.fixture(scope="module", params=[*ENGINES, DUCKDB])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    skip_unless_there(request.param)
    folder = tmp_path_factory.mktemp("databases")
    (folder / "shop.sql").write_text(SHOP)
    with engine_maker(request.param, read_databases(folder))() as engine:
        yield engine


def accepts(engine: Engine, gold: str, answer: str) -> bool:
    right = execute_gold(engine, Task("one", "Print it.", gold))
    return sql_exact(engine.table("shop", answer), right.table, right.order).success


def test_rows_that_tie_under_any_key_are_free_and_no_others(shop: Engine) -> None:
    some = slice(None, None, 4 if shop.name == "duckdb" else 1)  # a dialect, and rules of all
    assert [pair for pair in TIES[some] if not accepts(shop, *pair)] == []
    assert [pair for pair in IN_ORDER[some] if accepts(shop, *pair)] == []


@pytest.mark.parametrize("shop", ["mariadb"], indirect=True)  # which alone shortens numbers
def test_a_float_or_a_deviation_that_the_server_shortens_is_the_same_number(shop: Engine) -> None:
    """And a FLOAT, or another scale, in the answer alone loosens nothing."""
    for column in ("COALESCE(f, 0)", "IF(f > 0, f, 0)", "GREATEST(f, 0)", "f + 0", "f"):
        assert accepts(shop, "SELECT f FROM t", f"SELECT {column} FROM t"), column
    by_row = "SELECT g, AVG(f), SUM(f) FROM t GROUP BY id, g"
    assert accepts(shop, "SELECT g, f, f AS h FROM t", by_row)
    for gold, answer in (
        ("STDDEV(n)", "SQRT(VARIANCE(n))"),
        ("STD(q)", "SQRT(VAR_POP(q))"),
        ("VARIANCE(n)", "AVG(POW(n - 20.25, 2))"),
        ("1 / 300", "1e0 / 300"),
    ):
        assert accepts(shop, f"SELECT {gold} FROM t", f"SELECT {answer} FROM t"), gold
    for gold, answer in (
        ("SELECT f FROM t", "SELECT f * 1.0001e0 FROM t"),
        ("SELECT 1e0 / 3", "SELECT CAST(1e0 / 3 AS FLOAT)"),
        ("SELECT 16777216", "SELECT CAST(16777216 AS FLOAT)"),
        ("SELECT 2500001.25", "SELECT CAST(2500001.25 AS FLOAT)"),
        ("SELECT STDDEV(n) FROM t", "SELECT STDDEV(n) + 0.0001 FROM t"),
        ("SELECT SQRT(VARIANCE(n)) FROM t", "SELECT STDDEV(n) FROM t"),
        ("SELECT q FROM t WHERE id = 1", "SELECT 0.0000"),
        ("SELECT 8.1e-09", "SELECT 0.0000"),
    ):
        assert not accepts(shop, gold, answer), gold


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
    # the rows of the variant data, which are others
    (
        "weights",
        CONSTANT,
        ["robust"],
        None,
        mock.ANY,
        [["apple", 160], ["pear", 43], ["plum", 9], ["quince", 6]],
    ),
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
        shown = {k: v for k, v in found["agent"].items() if k != "unmatched"}
        assert agent in (None, shown), answer
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
    assert found["agent"]["unmatched"] == list(range(len(found["agent"]["rows"])))


def test_the_marks_of_listed_rows_come_from_all_rows(sql: Any) -> None:
    env = sql()
    env.reset(options={"task": "lost"})
    # 4 and 7 are right; 7 stands below the rows that are listed
    others = " UNION ALL ".join(f"SELECT {number}" for number in range(100, 130))
    env.step(f"SELECT 4 UNION ALL SELECT 4 UNION ALL {others} UNION ALL SELECT 7")
    found = env.step("submit")[4]["outcomes"]
    assert (found["gold"]["unmatched"], found["missing"]) == ([], [])
    assert (found["agent"]["unmatched"], len(found["extra"])) == ([*range(1, 20)], 10)


@pytest.mark.parametrize(
    ("agent", "missing", "extra"),
    [
        ("ab", [], []),  # a ties with c, and the OFFSET of the gold skips either
        ("ad", [1], [1]),
        ("dd", [0, 1], [0, 1]),
        ("b", [0], []),
        ("acb", [], [1]),
    ],
)
def test_another_row_of_a_cut_tie_is_not_missing(
    agent: str, missing: list[int], extra: list[int]
) -> None:
    rows = [("a",), ("c",), ("b",)]
    order = Order(tuple(rows), (0, 0, 1), 1)
    gold = Table(("x",), tuple(rows[1:]))
    answer = Table(("x",), tuple((letter,) for letter in agent))
    assert difference(answer, gold, order) == (missing, extra)


# -- golds that are no yardstick -------------------------------------------------------------------

BROKEN = [
    {"id": "sound", "query": "Print the trees.", "gold": "SELECT id FROM tree"},
    {"id": "fails", "query": "Print what is not there.", "gold": "SELECT height FROM tree"},
    {"id": "moody", "query": "Print a number.", "gold": "SELECT RANDOM()"},
    {"id": "lost", "query": "Print the attic.", "gold": "SELECT 1", "db": "attic"},
    {"id": "constant", "query": "Print one, anywhere.", "gold": "SELECT 1", "general": True},
    {"id": "twice", "query": "print the TREES.", "gold": "SELECT id FROM tree WHERE id > 0"},
    {
        "id": "shuffled",
        "query": "Print them as they fall.",
        "gold": "SELECT id FROM tree ORDER BY RANDOM()",
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
def test_every_planted_fault_is_found_and_the_sound_task_is_not_blamed(tmp_path: Path) -> None:
    skip_unless_there("sqlite")
    data = str(write_data(tmp_path / "planted", BROKEN))
    factory = intercode.prepare("sql", data=data, engine="sqlite")
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
