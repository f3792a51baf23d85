"""SqlEnv on both engines: what an agent sees and is told, where an episode ends and the next
begins, and forks."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from orchard import ENDLESS, GOLDS, Pool, plays, skip_unless_there, write_data

import intercode
from intercode.envs.sql.engines import Engine
from intercode.errors import DataError
from intercode.types import Score

pytestmark = pytest.mark.slow

KEYS = {"exit_code", "timed_out", "truncated_output", "session_lost", "limits"}
MANY = "SELECT a.id FROM picking a, picking b, picking c, picking d, picking e"


# -- what is seen ----------------------------------------------------------------------------------


def test_rows_errors_and_changes_are_seen_as_python_prints_them(sql: Any) -> None:
    env = sql("count")
    for statement, seen in (
        (
            "SELECT id, kind, planted FROM tree WHERE id > 3 AND id < 6 ORDER BY id",
            "[(4, 'plum', None), (5, 'quince', 2001)]",
        ),
        ("SELECT id FROM tree WHERE id > 99", "[]"),
        ("SELECT 'ünd ☃', NULL", "[('ünd ☃', None)]"),
        ("UPDATE tree SET line_no = 9 WHERE kind = 'apple'", "OK, 3 rows affected"),
        ("DELETE FROM picking WHERE id = 1", "OK, 1 row affected"),
        ("CREATE TABLE basket (id INTEGER)", "OK, 0 rows affected"),
    ):
        observation, reward, terminated, truncated, info = env.step(statement)
        assert (observation, reward, terminated, truncated) == (seen, 0.0, False, False)
        assert info == {
            "exit_code": 0,
            "timed_out": False,
            "truncated_output": False,
            "session_lost": False,
            "limits": (),
        }
    observation, reward, *_, info = env.step("SELECT some FROM nowhere")
    assert observation.startswith("Error executing query: ")
    assert "nowhere" in observation
    assert (reward, info["exit_code"]) == (0.0, 1)


def test_a_statement_out_of_time_is_ended_and_said(sql: Any, servers: Pool) -> None:
    long = {
        "mariadb": "SET STATEMENT max_statement_time = 0 FOR SELECT SLEEP(60)",
        "sqlite": "SELECT instr(hex(zeroblob(9000000)), hex(zeroblob(4000000)) || '1')",
    }
    for statement in (ENDLESS[servers.engine], long[servers.engine]):
        env = sql("count", seconds=0.3)
        began = time.monotonic()
        seen, *_, info = env.step(statement)
        assert 0.27 <= time.monotonic() - began < 20
        assert (info["timed_out"], info["exit_code"]) == (True, 1)
        assert seen.startswith(
            "Error executing query: "
            "the statement was stopped after 0.3 seconds, its time limit\n[timed out;"
        )
        assert env.step(GOLDS["count"])[0] == "[(7,)]"
        assert env.step("submit")[1] == 1.0


def test_a_cut_result_is_told_and_never_an_answer(
    sql: Any, servers: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "max_rows", 5000)
    env = sql("count", seconds=10)
    large = {"sqlite": "hex(zeroblob(5000000))", "mariadb": "REPEAT('a', 9000000)"}[servers.engine]
    assert env.step(f"SELECT {large}")[0] == "[]\n[the first row is too large]"
    seen, *_, info = env.step(MANY)
    assert info["truncated_output"]
    assert seen.endswith("[only the first 5000 rows; there are more]")
    assert "characters cut" in seen
    assert not env.step("submit")[4]["score"].success


def test_the_handicap_shows_the_pristine_schema_first(sql: Any) -> None:
    env = sql("count", "CREATE TABLE basket (id INTEGER)", "DROP TABLE picking", handicap=True)
    seen, _ = env.reset(options={"task": "count"})
    assert seen.startswith("How many trees are there?")
    assert seen.count("CREATE TABLE") == 3
    assert "tree_id" in seen
    assert "picking" in seen
    assert "cask" not in seen
    assert "basket" not in seen


# -- the two protocols -----------------------------------------------------------------------------


def test_only_the_submission_is_scored_and_the_answer_is_what_the_last_statement_returned(
    sql: Any,
) -> None:
    env = sql("count")
    _, reward, *_, info = env.step(GOLDS["count"])
    assert (reward, set(info)) == (0.0, KEYS)
    for action in ("", ";", "-- submit", "submit;", "SUBMIT"):
        assert env.step(action)[2] is False, "it only looks like a submission"
    env.step(GOLDS["count"])
    seen, reward, terminated, truncated, info = env.step(" submit\n")
    assert (seen, reward, terminated, truncated) == ("", 1.0, True, False)
    assert set(info) == KEYS | {"score", "ended", "outcomes"}
    assert info["score"] == Score(1.0, True, {"rows": 1.0, "order": 1.0, "columns": 1.0})
    assert info["outcomes"]["rule"] == "same rows"
    for last in ("SELECT 8", "SELECT oops", "DELETE FROM picking"):
        assert plays(env, "count", GOLDS["count"], last).reward == 0.0, last
    for text in ("The answer is in the rows above.", "Answer: 8", "SELECT FROM WHERE"):
        assert plays(env, "count", GOLDS["count"], text).reward == 1.0, "it is no SQL"
    for end in ("\nsubmit", "; submit;", "\n\n  Submit"):
        assert plays(env, "count", "SELECT 8", GOLDS["count"] + end).reward == 1.0, end
    assert not plays(env, "count").success, "an answer does not pass from one episode to the next"


def test_under_the_papers_protocol_every_step_is_scored_and_reward_1_ends(sql: Any) -> None:
    env = sql("kinds", protocol="paper")
    for action, seen, reward in (
        ("SELECT 1", "[(1,)]", 0.0),
        ("DELETE FROM mark", "Error executing query: No result set to fetch from.", 0.0),
        (
            "SELECT kind, COUNT(*) FROM tree WHERE kind <> 'plum' GROUP BY kind ORDER BY 2 DESC",
            "[('apple', 3), (",
            0.75,
        ),
        ("submit", "Error executing query", 0.0),
    ):
        observation, given, terminated, _, info = env.step(action)
        assert observation.startswith(seen)
        assert (given, info["score"].reward, terminated) == (reward, reward, False)
    _, reward, terminated, _, info = env.step(GOLDS["kinds"])
    assert (reward, terminated, info["ended"]) == (1.0, True, "solved")
    _, reward, terminated, _, info = sql("words", protocol="paper").step(
        "SELECT word FROM cask ORDER BY id DESC"
    )
    assert (reward, terminated, info["score"].parts["order"]) == (-1.0, False, -1.0)
    assert sql("none", protocol="paper").step("SELECT id FROM tree WHERE id < 0")[1] == 1.0, (
        "empty results are equal"
    )


# -- databases -------------------------------------------------------------------------------------


def test_nothing_of_an_episode_is_left_in_the_next_nor_seen_by_another(sql: Any) -> None:
    env = sql(
        "count",
        "DELETE FROM picking",
        "DROP TABLE mark",
        "CREATE TABLE basket (id INTEGER)",
        "BEGIN",
        "DELETE FROM tree",
    )
    other = sql("count")
    assert other.step("SELECT COUNT(*) FROM picking")[0] == "[(8,)]"
    env.reset(options={"task": "count"})
    assert env.step("SELECT COUNT(*) FROM picking")[0] == "[(8,)]"
    assert env.step("SELECT code FROM mark ORDER BY code")[0] == "[('K',), ('R',), ('Z',)]"
    assert env.step("SELECT * FROM basket")[0].startswith("Error")
    assert env.step("SELECT word FROM cask")[0].startswith("Error"), "it is another database's"
    assert env.step(GOLDS["count"])[0] == "[(7,)]"


@pytest.mark.parametrize(
    ("named", "said"),
    [(None, "names no database"), ("attic", "'attic'.*field `db`"), (5, "'5'.*field `db`")],
)
def test_a_task_without_a_database_is_the_datas_fault(
    tmp_path: Path, named: object, said: str
) -> None:
    skip_unless_there("sqlite")
    folder = write_data(
        tmp_path / "data", [{"id": "lone", "query": "Print.", "gold": "SELECT 1", "db": named}]
    )
    with (
        closing(intercode.make("sql", data=str(folder), engine="sqlite")) as env,
        pytest.raises(DataError, match=f"task lone.*{said}"),
    ):
        env.reset()


# -- forks -----------------------------------------------------------------------------------------


def test_a_fork_has_content_session_and_turns_and_lives_on_its_own(sql: Any) -> None:
    env = sql(
        *(
            "count",
            "DELETE FROM picking WHERE id > 2",
            "CREATE TABLE basket (id INTEGER)",
            "INSERT INTO basket VALUES (5)",
        ),
        *("CREATE TEMPORARY TABLE later AS SELECT 7 AS id", "BEGIN", "DELETE FROM mark"),
        max_turns=10,
    )
    left, right = env.fork(), env.fork()
    assert (left.turn, left.step("SELECT * FROM later")[0]) == (6, "[(7,)]")
    left.step("ROLLBACK")
    assert left.step("SELECT COUNT(*) FROM mark")[0] == "[(3,)]", "the transaction was open"
    left.step("DELETE FROM basket")
    right.step("DROP TABLE basket")
    assert right.step("SELECT COUNT(*) FROM basket")[0].startswith("Error")
    assert env.step("SELECT id FROM basket")[0] == "[(5,)]"
    left.close()
    child = right.fork()
    right.close()
    assert plays(child, "count", "SELECT COUNT(*) FROM picking", GOLDS["count"]).success, (
        "and begins anew"
    )
    child.close()
