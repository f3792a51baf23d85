"""SqlEnv on both engines: what an agent sees and is told, turn by turn, and where one episode ends and the next begins."""

from __future__ import annotations

from typing import Any

import pytest
from orchard import ENDLESS, GOLDS, Pool, plays, skip_unless_there, write

import intercode
from intercode.errors import DataError, UsageError
from intercode.types import Score, Table, Task

KEYS = {"exit_code", "timed_out", "truncated_output", "session_lost"}
MANY = "SELECT a.id FROM picking a, picking b, picking c, picking d, picking e, picking f"


@pytest.fixture
def engine(servers: Pool) -> str:
    return servers.engine


# -- what is seen -------------------------------------------------------------------------------------------------------


def test_rows_are_seen_as_python_prints_them(sql: Any) -> None:
    env = sql("count")
    seen, reward, terminated, truncated, info = env.step(
        "SELECT id, kind, planted FROM tree WHERE id > 3 AND id < 6 ORDER BY id"
    )
    assert seen == "[(4, 'plum', None), (5, 'quince', 2001)]"
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info == {"exit_code": 0, "timed_out": False, "truncated_output": False, "session_lost": False}
    assert env.step("SELECT id FROM tree WHERE id > 99")[0] == "[]"
    assert env.step("SELECT 'ünd ☃', NULL")[0] == "[('ünd ☃', None)]"


def test_an_error_is_seen_and_costs_a_turn(sql: Any) -> None:
    env = sql("count", max_turns=2)
    seen, reward, terminated, truncated, info = env.step("SELECT some FROM nowhere")
    assert seen.startswith("Error executing query: ")
    assert "nowhere" in seen
    assert (reward, terminated, truncated, info["exit_code"]) == (0.0, False, False, 1)
    assert env.step("SELEKT 1")[3], "that was the last turn"


@pytest.mark.parametrize(
    ("statement", "seen"),
    [
        ("UPDATE tree SET line_no = 9 WHERE kind = 'apple'", "OK, 3 rows affected"),
        ("DELETE FROM picking WHERE id = 1", "OK, 1 row affected"),
        ("CREATE TABLE basket (id INTEGER)", "OK, 0 rows affected"),
    ],
)
def test_what_is_no_query_says_how_many_rows_it_changed(sql: Any, statement: str, seen: str) -> None:
    assert sql("count").step(statement)[0] == seen


def test_a_statement_without_rows_is_called_an_error_as_the_paper_did(sql: Any) -> None:
    env = sql("count", protocol="paper")
    seen, reward, *_, info = env.step("DELETE FROM picking")
    assert seen == "Error executing query: No result set to fetch from."
    assert (reward, info["score"].reward) == (0.0, 0.0)


def test_a_statement_out_of_time_is_ended_and_said(sql: Any, engine: str) -> None:
    env = sql("count", seconds=0.3)
    seen, *_, info = env.step(ENDLESS[engine])
    assert info["timed_out"]
    assert info["exit_code"] == 1
    assert seen.endswith("[timed out; what the action started was ended]")
    assert env.step(GOLDS["count"])[0] == "[(7,)]"
    assert env.step("submit")[1] == 1.0


def test_a_row_that_is_too_large_is_told(sql: Any, engine: str) -> None:
    env = sql("count", seconds=10)
    large = {"sqlite": "hex(zeroblob(5000000))", "mariadb": "REPEAT('a', 9000000)"}[engine]
    assert env.step(f"SELECT {large}")[0] == "[]\n[the first row is too large]"


def test_a_cut_result_is_told_and_never_an_answer(sql: Any) -> None:
    env = sql("count", seconds=10)
    seen, *_, info = env.step(MANY)
    assert info["truncated_output"]
    assert seen.endswith("[only the first 100000 rows; there are more]")
    assert "characters cut" in seen
    assert not env.step("submit")[4]["score"].success


def test_equal_episodes_have_equal_infos(sql: Any, engine: str) -> None:
    """Also where a statement ran out of time, and where it failed."""
    actions = ("SELECT * FROM tree", "oops", ENDLESS[engine], "DELETE FROM picking", GOLDS["weights"], "submit")

    def told(env: Any) -> list[Any]:
        env.reset(seed=1, options={"task": "weights"})
        return [env.step(action) for action in actions]

    first, other = sql(seconds=0.2), sql(seconds=0.2)
    assert told(first) == told(first) == told(other)


def test_the_handicap_shows_the_schema_first(sql: Any) -> None:
    plain, helped = sql(), sql(handicap=True)
    query, _ = plain.reset(options={"task": "count"})
    seen, _ = helped.reset(options={"task": "count"})
    assert query == "How many trees are there?"
    assert seen.startswith(query)
    assert seen.count("CREATE TABLE") == 3
    assert "tree_id" in seen
    assert "cask" not in seen
    assert "CREATE TABLE" in helped.reset(options={"task": "words"})[0]


def test_the_handicap_shows_the_pristine_schema(sql: Any) -> None:
    env = sql("count", "CREATE TABLE basket (id INTEGER)", "DROP TABLE picking", handicap=True)
    seen, _ = env.reset(options={"task": "count"})
    assert "picking" in seen
    assert "basket" not in seen


# -- the submit protocol ------------------------------------------------------------------------------------------------


def test_only_the_submission_is_scored(sql: Any) -> None:
    env = sql("count")
    _, reward, *_, info = env.step(GOLDS["count"])
    assert (reward, set(info)) == (0.0, KEYS)
    seen, reward, terminated, truncated, info = env.step(" submit\n")
    assert (seen, reward, terminated, truncated) == ("", 1.0, True, False)
    assert set(info) == KEYS | {"score", "ended"}
    assert info["score"] == Score(1.0, True, {"rows": 1.0, "order": 1.0, "columns": 1.0})


def test_the_answer_is_what_the_last_statement_returned(sql: Any) -> None:
    env = sql()
    assert plays(env, "count", GOLDS["count"], "SELECT 8").reward == 0.0
    assert plays(env, "count", GOLDS["count"], "SELECT oops").reward == 0.0, "an error is no answer"
    assert plays(env, "count", GOLDS["count"], "DELETE FROM picking").reward == 0.0, "nor is a change"
    assert plays(env, "count", "SELECT oops", GOLDS["count"]).success
    assert not plays(env, "count").success, "nor is nothing"


def test_an_answer_does_not_pass_from_one_episode_to_the_next(sql: Any) -> None:
    env = sql()
    assert plays(env, "count", GOLDS["count"]).success
    assert not plays(env, "count").success


def test_the_turns_end_without_a_submission(sql: Any) -> None:
    env = sql("count", GOLDS["count"], max_turns=2)
    _, reward, terminated, truncated, info = env.step(GOLDS["count"])
    assert (reward, terminated, truncated, info["ended"]) == (0.0, False, True, "turns")
    with pytest.raises(UsageError, match="over"):
        env.step("submit")


@pytest.mark.parametrize("action", [None, 3, b"SELECT 1", "SELECT\0 1", "SELECT '\ud800'"])
def test_what_is_no_text_is_the_callers_fault_and_costs_no_turn(sql: Any, action: Any) -> None:
    env = sql("count")
    with pytest.raises(UsageError, match="action"):
        env.step(action)
    assert env.turn == 0


@pytest.mark.parametrize("action", ["", ";", "  ", "-- submit", "/* submit */", "submit;", "SUBMIT", "\n\t"])
def test_what_only_looks_like_a_submission_ends_nothing(sql: Any, action: str) -> None:
    env = sql("count", GOLDS["count"])
    assert env.step(action)[2] is False


# -- the paper's protocol -----------------------------------------------------------------------------------------------


def test_every_step_is_scored_and_reward_1_ends(sql: Any) -> None:
    env = sql("kinds", protocol="paper")
    _, reward, terminated, *_ = env.step("SELECT 1")
    assert (reward, terminated) == (0.0, False)
    _, reward, terminated, _, info = env.step(
        "SELECT kind, COUNT(*) FROM tree WHERE kind <> 'plum' GROUP BY kind ORDER BY 2 DESC"
    )
    assert (reward, terminated) == (0.75, False)
    assert info["score"].parts["iou"] == 0.75
    _, reward, terminated, _, info = env.step(GOLDS["kinds"])
    assert (reward, terminated, info["ended"]) == (1.0, True, "solved")


def test_rows_in_reversed_order_earn_less_than_nothing(sql: Any) -> None:
    env = sql("words", protocol="paper")
    _, reward, terminated, _, info = env.step("SELECT word FROM cask ORDER BY id DESC")
    assert (reward, terminated, info["score"].parts["order"]) == (-1.0, False, -1.0)
    assert env.step(GOLDS["words"])[1:3] == (1.0, True)


def test_a_submission_is_no_word_of_the_papers_protocol(sql: Any) -> None:
    seen, reward, terminated, *_ = sql("count", protocol="paper").step("submit")
    assert seen.startswith("Error executing query")
    assert (reward, terminated) == (0.0, False)


def test_two_empty_results_are_equal(sql: Any) -> None:
    assert sql("none", protocol="paper").step("SELECT id FROM tree WHERE id < 0")[1] == 1.0
    assert plays(sql(), "none", "SELECT id FROM tree WHERE id < 0").success


# -- tasks and databases ------------------------------------------------------------------------------------------------


def test_a_task_is_played_on_its_own_database(sql: Any) -> None:
    env = sql("words")
    assert env.step(GOLDS["words"])[0] == "[('sesame',), ('cinnamon',)]"
    env.reset(options={"task": "count"})
    assert env.step("SELECT word FROM cask")[0].startswith("Error")


def test_nothing_of_an_episode_is_left_in_the_next(sql: Any) -> None:
    env = sql(
        "count", "DELETE FROM picking", "DROP TABLE mark", "CREATE TABLE basket (id INTEGER)", "BEGIN", "DELETE FROM tree"
    )
    env.reset(options={"task": "count"})
    assert env.step("SELECT COUNT(*) FROM picking")[0] == "[(8,)]"
    assert env.step("SELECT code FROM mark ORDER BY code")[0] == "[('K',), ('R',), ('Z',)]"
    assert env.step("SELECT * FROM basket")[0].startswith("Error")
    assert env.step(GOLDS["count"])[0] == "[(7,)]"


def test_two_environments_do_not_see_each_other(sql: Any) -> None:
    one, other = sql("count", "DELETE FROM picking"), sql("count")
    assert other.step("SELECT COUNT(*) FROM picking")[0] == "[(8,)]"
    assert one.step("SELECT COUNT(*) FROM picking")[0] == "[(0,)]"


def test_a_function_scores_instead(sql: Any) -> None:
    seen: list[Any] = []

    def longest(agent: Table | None, gold: Table | None, task: Task) -> Score:
        seen.append((agent, gold, task.id))
        return Score(0.5, True, {"mine": 2.0})

    env = sql("count", reward=longest)
    env.step("SELECT 1 AS one")
    assert env.step("submit")[4]["score"] == Score(0.5, True, {"mine": 2.0})
    (agent, gold, task) = seen[0]
    assert (agent.rows, gold.rows, task) == (((1,),), ((7,),), "count")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"reward": "generous"}, "generous"),
        ({"protocol": "sometimes"}, "sometimes"),
        ({"engine": "oracle"}, "there is no engine 'oracle'"),
        ({"engine": "http://localhost/"}, "--engine takes no address of a running server"),
        ({"databases": "/nowhere"}, "/nowhere"),
        ({"dump": "a.sql", "databases": "b"}, "not with both"),
        ({"data": "/nowhere"}, "nowhere"),
        ({"tree": "x"}, "takes no tree"),
    ],
)
def test_wrong_options_are_the_callers_fault(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        intercode.make("sql", **options)


def test_a_task_without_a_database_is_the_datas_fault(tmp_path: Any) -> None:
    skip_unless_there("sqlite")
    wrong: list[tuple[object, str]] = [
        (None, "names no database"),
        ("attic", "'attic'.*field `db`"),
        (5, "holds 5, which is no text"),
    ]
    for number, (named, said) in enumerate(wrong):
        folder = write(tmp_path / str(number), [{"id": "lone", "query": "Print.", "gold": "SELECT 1", "db": named}])
        env = intercode.make("sql", data=str(folder), engine="sqlite")
        with pytest.raises(DataError, match=f"task lone.*{said}"):
            env.reset()
        env.close()
