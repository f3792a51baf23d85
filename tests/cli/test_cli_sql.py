"""`intercode` on SQL as a user has it: eval, score, check, replay and report, on both engines, and
what wrong usage says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_words import EVAL_KEYS, REPLAY_KEYS
from lines import episodes
from orchard import DUCKDB, ENGINES, GOLDS, skip_unless_there, write_data

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    skip_unless_there(request.param)
    return str(request.param)


@pytest.fixture
def orchard(tmp_path: Path) -> Path:
    return write_data(tmp_path / "orchard")


def by_task(run: Path) -> dict[str, Any]:
    """The episodes of a run, without the time that each turn took."""
    lines = episodes(run)
    found = {line["task"]: line for line in lines}
    assert len(found) == len(lines)
    return found


def test_golds_solve_all_and_nothing_solves_none(
    cli: Any, orchard: Path, tmp_path: Path, engine: str
) -> None:
    world = ("--data", orchard, "--engine", engine, "--json")
    gold = cli("eval", "sql", "--agent", "gold", "--out", "gold", "--show-schema", *world)
    assert (gold.status, gold.err, gold.json["success_rate"], gold.json["errors"]) == (
        0,
        "run: gold\n",
        1.0,
        0,
    )
    assert set(gold.json) == EVAL_KEYS | {"by_hardness"}
    assert json.loads((tmp_path / "gold" / "run.json").read_text())["handicap"] is True
    assert all(
        "CREATE TABLE" in episode["query"] for episode in by_task(tmp_path / "gold").values()
    )
    noop = cli("eval", "sql", "--agent", "noop", *world)
    assert (noop.status, noop.json["success_rate"], noop.json["errors"]) == (0, 0.0, 0)
    again = cli("eval", "sql", "--agent", "replay:gold", "--show-schema", *world).json
    assert (again["success_rate"], again["mean_turns"]) == (
        gold.json["success_rate"],
        gold.json["mean_turns"],
    )
    require_equal(cli("replay", "gold", "--json"))


def require_equal(replayed: Any) -> None:
    found = replayed.json
    assert (replayed.status, replayed.err, set(found)) == (0, "", REPLAY_KEYS)
    assert found["turns"] == found["agree"] == found["observations_equal"] > 6
    assert found["recorded_success_rate"] == found["replayed_success_rate"]


@pytest.mark.rest
@pytest.mark.parametrize("count", [6, pytest.param(65, marks=pytest.mark.soak)])
def test_golds_solve_all_on_an_engine_of_the_users_own(cli: Any, count: int) -> None:
    skip_unless_there(DUCKDB)
    words = ("sql", "--engine", DUCKDB, "--limit", count, "--json")
    found = cli("eval", *words, "--agent", "gold", "--robust").json
    assert (found["success_rate"], found["robust_rate"], found["errors"]) == (1.0, 1.0, 0)
    checked = cli("check", *words).json
    assert (checked["gold_ok"], checked["noop_paid"], checked["broken"]) == (count, 0, [])


def test_a_run_by_the_papers_protocol_is_the_same_when_executed_again(
    cli: Any, orchard: Path
) -> None:
    skip_unless_there("mariadb")
    world = ("--data", orchard, "--engine", "mariadb")
    cli("eval", "sql", "--agent", "retrieval", "--protocol", "paper", "--out", "run", *world)
    require_equal(cli("replay", "run", "--json"))


def test_predictions_are_scored_in_both_forms(cli: Any, orchard: Path, tmp_path: Path) -> None:
    answers = {**GOLDS, "count": "SELECT 8", "none": None, "kinds": "SELECT oops"}
    lines = [
        json.dumps({"task": task, "action": action}) + "\n" for task, action in answers.items()
    ]
    (tmp_path / "ids.jsonl").write_text("".join(reversed(lines)))
    (tmp_path / "lines.sql").write_text(
        "".join((answer or "") + "\n" for answer in answers.values())
    )
    seen = []
    for name in ("ids.jsonl", "lines.sql"):
        words = ("score", name, "--env", "sql", "--data", orchard, "--out", f"{name}.run", "--json")
        done = cli(*words)
        assert (done.status, done.json["episodes"], done.json["errors"]) == (0, 7, 0)
        seen.append(by_task(tmp_path / (name + ".run")))
    assert seen[0] == seen[1]
    assert {name for name, episode in seen[0].items() if not episode["success"]} == {
        "count",
        "none",
        "kinds",
    }


def test_a_task_without_a_prediction_is_an_error(cli: Any, orchard: Path, tmp_path: Path) -> None:
    (tmp_path / "some.jsonl").write_text(
        json.dumps({"task": "count", "action": GOLDS["count"]}) + "\n"
    )
    done = cli("score", "some.jsonl", "--env", "sql", "--data", orchard, "--json")
    assert (done.status, done.json["success_rate"], done.json["errors"]) == (3, 1.0, 6)
    assert "no prediction for task" in done.err


WRONG = [
    ("--data bird.json", "there are no databases; name them with --dump FILE or --databases DIR"),
    (
        "--engine oracle",
        "there is no engine 'oracle'; there are sqlite, mariadb, module:Class and path.py:Class",
    ),
    (
        "--engine mysql://me:secret@127.0.0.1:1/",
        "for a running server, dump the databases (mariadb-dump",
    ),
    (
        "--dump shop.sql --engine sqlite",
        "the databases are a MySQL dump, and sqlite loads portable SQL or SQLite files: use"
        " --engine mariadb",
    ),
    (
        "--databases files --engine mariadb",
        "the databases are SQLite files, and mariadb loads a MySQL dump or portable SQL: use"
        " --engine sqlite",
    ),
]


def test_wrong_usage_says_what_to_do(cli: Any, tmp_path: Path) -> None:
    bird = {
        "question_id": 1,
        "query": "Q",
        "gold": "SELECT 1",
        "evidence": "E",
        "difficulty": "simple",
        "db_id": "x",
    }
    (tmp_path / "bird.json").write_text(json.dumps([bird]))
    (tmp_path / "shop.sql").write_text("CREATE TABLE t (a INT);")
    (tmp_path / "files" / "empty").mkdir(parents=True)
    (tmp_path / "files" / "shop.sqlite").write_bytes(b"SQLite format 3\0")
    for words, said in WRONG:
        done = cli("eval", "sql", "--agent", "gold", *words.split(), "--json")
        assert (done.status, done.out) == (2, "")
        assert said in done.err
        assert "secret" not in done.err
