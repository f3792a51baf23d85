"""`intercode` on SQL as a user has it: eval, score, check, replay and report, on both engines, and what wrong usage says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_words import CHECK_KEYS, EVAL_KEYS, REPLAY_KEYS
from lines import episodes
from orchard import CONSTANT, ENGINES, GOLDS, TASKS, skip_unless_there, write

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    skip_unless_there(request.param)
    return str(request.param)


@pytest.fixture
def orchard(tmp_path: Path) -> Path:
    return write(tmp_path / "orchard")


def by_task(run: Path) -> dict[str, Any]:
    """The episodes of a run, without the time that each turn took."""
    lines = episodes(run)
    found = {line["task"]: line for line in lines}
    assert len(found) == len(lines)
    return found


def test_golds_solve_all_and_nothing_solves_none(cli: Any, orchard: Path, tmp_path: Path, engine: str) -> None:
    world = ("--data", orchard, "--engine", engine, "--json")
    gold = cli("eval", "sql", "--agent", "gold", "--out", "gold", "--handicap", *world)
    assert (gold.status, gold.err, gold.json["success_rate"], gold.json["errors"]) == (0, "run: gold\n", 1.0, 0)
    assert set(gold.json) == EVAL_KEYS | {"by_hardness"}
    assert json.loads((tmp_path / "gold" / "run.json").read_text())["handicap"] is True
    assert all("CREATE TABLE" in episode["query"] for episode in by_task(tmp_path / "gold").values())
    noop = cli("eval", "sql", "--agent", "noop", *world)
    assert (noop.status, noop.json["success_rate"], noop.json["errors"]) == (0, 0.0, 0)
    again = cli("eval", "sql", "--agent", "replay:gold", "--handicap", *world).json
    assert (again["success_rate"], again["mean_turns"]) == (gold.json["success_rate"], gold.json["mean_turns"])


@pytest.mark.parametrize(("agent", "protocol"), [("gold", "submit"), ("retrieval", "paper")])
def test_a_run_of_ours_is_the_same_when_executed_again(cli: Any, orchard: Path, engine: str, agent: str, protocol: str) -> None:
    cli("eval", "sql", "--agent", agent, "--protocol", protocol, "--out", "run", "--data", orchard, "--engine", engine)
    done = cli("replay", "run", "--json")
    found = done.json
    assert (done.status, done.err, set(found)) == (0, "", REPLAY_KEYS)
    assert found["turns"] == found["agree"] == found["observations_equal"] > 6
    assert found["recorded_success_rate"] == found["replayed_success_rate"]


def test_runs_on_different_engines_are_compared_by_force_only(cli: Any, orchard: Path) -> None:
    for engine in ENGINES:
        skip_unless_there(engine)
        cli("eval", "sql", "--agent", "gold", "--data", orchard, "--engine", engine, "--out", engine, "--limit", 1)
    refused = cli("report", "sqlite", "mariadb")
    assert refused.status == 2
    assert "userlands" in refused.err
    assert cli("report", "sqlite", "mariadb", "--force").status == 0


def test_predictions_are_scored_in_both_forms(cli: Any, orchard: Path, tmp_path: Path, engine: str) -> None:
    answers = {**GOLDS, "count": "SELECT 8", "none": None, "kinds": "SELECT oops"}
    lines = [json.dumps({"task": task, "action": action}) + "\n" for task, action in answers.items()]
    (tmp_path / "ids.jsonl").write_text("".join(reversed(lines)))
    (tmp_path / "lines.sql").write_text("".join((answer or "") + "\n" for answer in answers.values()))
    seen = []
    for name in ("ids.jsonl", "lines.sql"):
        done = cli("score", name, "--env", "sql", "--data", orchard, "--engine", engine, "--out", name + ".run", "--json")
        assert (done.status, done.json["episodes"], done.json["errors"]) == (0, 7, 0)
        seen.append(by_task(tmp_path / (name + ".run")))
    assert seen[0] == seen[1]
    assert {name for name, episode in seen[0].items() if not episode["success"]} == {"count", "none", "kinds"}


def test_the_report_breaks_success_down_by_hardness(cli: Any, orchard: Path) -> None:
    answers = [GOLDS[task["id"]] if task["id"] != "lost" else "SELECT 4" for task in TASKS]
    (orchard / "answers").write_text("\n".join(answers))
    cli("score", orchard / "answers", "--env", "sql", "--data", orchard, "--out", "run", "--json")
    found = cli("report", "run", "--json").json["by_hardness"]
    rates = {"easy": (2, 0.5), "medium": (2, 1.0), "hard": (1, 1.0)}
    assert {level: (row["episodes"], row["success_rate"]) for level, row in found.items()} == rates
    assert list(found) == list(rates)
    assert "50.0 of 2" in cli("report", "run").out


def test_robust_is_reported_and_costs_nothing(cli: Any, tmp_path: Path) -> None:
    answers = {"count": "SELECT 7", "lost": GOLDS["lost"], "weights": CONSTANT}
    (tmp_path / "some.jsonl").write_text("".join(json.dumps({"task": k, "action": v}) + "\n" for k, v in answers.items()))
    tasks = write(tmp_path / "three", [task for task in TASKS if task["id"] in answers])
    words = ("--env", "sql", "--data", tasks, "--robust", "--out", "run", "--json")
    assert cli("score", "some.jsonl", *words).json["success_rate"] == pytest.approx(2 / 3)
    found = {name: (e["success"], e["parts"]["robust"]) for name, e in by_task(tmp_path / "run").items()}
    assert found == {"count": (True, 0.0), "lost": (True, 1.0), "weights": (False, 0.0)}


def test_predictions_that_do_not_fit_are_the_datas_fault(cli: Any, orchard: Path, tmp_path: Path) -> None:
    for text, said in (
        ('{"task": "nosuch", "action": "SELECT 1"}\n', "'nosuch', which is not among these tasks"),
        ("SELECT 1\n", "has 1 lines for 7 tasks"),
        ('{"task": "count"}\n', "line 1"),
    ):
        (tmp_path / "bad").write_text(text)
        done = cli("score", "bad", "--env", "sql", "--data", orchard, "--out", "run", "--json")
        assert (done.status, done.out) == (3, "")
        assert said in done.err
        assert not (tmp_path / "run").exists()
    (tmp_path / "some.jsonl").write_text(json.dumps({"task": "count", "action": GOLDS["count"]}) + "\n")
    done = cli("score", "some.jsonl", "--env", "sql", "--data", orchard, "--json")
    assert (done.status, done.json["success_rate"], done.json["errors"]) == (3, 1.0, 6)
    assert "no prediction for task" in done.err


def test_broken_tasks_are_named_and_sound_ones_are_not(cli: Any, tmp_path: Path, engine: str) -> None:
    random = "RANDOM()" if engine == "sqlite" else "RAND()"
    planted = {"fails": "SELECT height FROM tree", "moody": f"SELECT {random}", "stray": "SELECT 1"}
    tasks = [{"id": name, "query": name, "gold": gold} for name, gold in planted.items()]
    data = write(tmp_path / "planted", [*TASKS, *tasks[:2], {**tasks[2], "db": "attic"}])
    done = cli("check", "sql", "--data", data, "--engine", engine, "--json")
    assert (done.status, done.err, set(done.json)) == (1, "", CHECK_KEYS)
    assert (done.json["gold_ok"], done.json["noop_paid"], done.json["nondeterministic"]) == (len(TASKS), 0, 1)
    assert {finding["task"] for finding in done.json["broken"]} == set(planted)


def test_databases_that_do_not_load_are_the_datas_fault(cli: Any, orchard: Path, engine: str) -> None:
    (orchard / "databases" / "cellar.sql").write_text("CREATE TABEL cask (id INTEGER);\n")
    done = cli("eval", "sql", "--agent", "gold", "--data", orchard, "--engine", engine, "--json")
    assert (done.status, done.out) == (3, "")
    assert "cellar" in done.err
    assert "TABEL" in done.err


WRONG = [
    ("--data bird.json", "there are no databases; name them with --dump FILE or --databases DIR"),
    ("--dump bird.json --databases .", "not with both"),
    ("--engine oracle", "there is no engine 'oracle'; there are sqlite and mariadb"),
    ("--engine mysql://me:secret@127.0.0.1:1/", "dump its databases (mariadb-dump"),
    ("--dump shop.sql --engine sqlite", "use --engine mariadb (apt-get install mariadb-server)"),
    ("--databases files --engine mariadb", "MariaDB does not load SQLite files; use --engine sqlite"),
    ("--databases files/empty", "holds no database"),
    ("--tree .", "the environment sql takes no tree"),
]


def test_wrong_usage_says_what_to_do(cli: Any, tmp_path: Path) -> None:
    bird = {"question_id": 1, "query": "Q", "gold": "SELECT 1", "evidence": "E", "difficulty": "simple", "db_id": "x"}
    (tmp_path / "bird.json").write_text(json.dumps([bird]))
    (tmp_path / "shop.sql").write_text("CREATE TABLE t (a INT);")
    (tmp_path / "files" / "empty").mkdir(parents=True)
    (tmp_path / "files" / "shop.sqlite").write_bytes(b"SQLite format 3\0")
    for words, said in WRONG:
        done = cli("eval", "sql", "--agent", "gold", *words.split(), "--json")
        assert (done.status, done.out) == (2, "")
        assert said in done.err
        assert "secret" not in done.err


FELLING = """
from intercode.agents import Act

def agent(task, protocol):
    for action in ("CREATE TABLE mine (id INTEGER)", "INSERT INTO mine VALUES (1)"):
        seen = yield Act(action)
        assert seen.observation.startswith("OK"), "another one's table is here"
    yield Act(task.gold)
    yield Act("submit")

agent.needs_model = False
"""


@pytest.mark.usefixtures("empty_cache")
def test_two_workers_that_write_to_the_same_databases_do_not_disturb_each_other(
    cli: Any, orchard: Path, tmp_path: Path, engine: str
) -> None:
    (tmp_path / "felling.py").write_text(FELLING)
    words = ("--data", orchard, "--engine", engine, "--agent", "felling:agent", "--epochs", 2, "--workers", 2, "--json")
    done = cli("eval", "sql", *words)
    assert (done.status, done.json["episodes"], done.json["success_rate"], done.json["errors"]) == (0, 14, 1.0, 0)
