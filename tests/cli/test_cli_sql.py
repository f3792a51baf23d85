"""`intercode` on SQL as a user has it: eval, score, check, replay and report, on both engines, and what wrong usage says."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
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


def turns(run: Path) -> dict[str, Any]:
    """The episodes of a run by task, without the time that each turn took."""
    lines = episodes(run)
    found = {line["task"]: line for line in lines}
    assert len(found) == len(lines)
    return found


# -- eval, report, replay -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["submit", "paper"])
def test_golds_solve_all_and_nothing_solves_none(cli: Any, orchard: Path, engine: str, protocol: str) -> None:
    words = ("--data", orchard, "--engine", engine, "--protocol", protocol, "--json")
    gold = cli("eval", "sql", "--agent", "gold", "--out", "gold", *words)
    assert (gold.status, gold.err, gold.json["success_rate"], gold.json["errors"]) == (0, "run: gold\n", 1.0, 0)
    assert set(gold.json) == EVAL_KEYS | {"by_hardness"}
    noop = cli("eval", "sql", "--agent", "noop", "--out", "noop", *words)
    assert (noop.status, noop.json["success_rate"], noop.json["errors"]) == (0, 0.0, 0)


def test_the_report_breaks_success_down_by_hardness(cli: Any, orchard: Path) -> None:
    skip_unless_there("sqlite")
    answers = [GOLDS[task["id"]] if task["id"] != "lost" else "SELECT 4" for task in TASKS]
    (orchard / "answers").write_text("\n".join(answers))
    cli("score", orchard / "answers", "--env", "sql", "--data", orchard, "--out", "run", "--json")
    found = cli("report", "run", "--json").json["by_hardness"]
    assert list(found) == ["easy", "medium", "hard"]
    assert {level: (row["episodes"], row["success_rate"]) for level, row in found.items()} == {
        "easy": (2, 0.5),
        "medium": (2, 1.0),
        "hard": (1, 1.0),
    }
    shown = cli("report", "run")
    assert shown.status == 0
    assert "50.0 of 2" in shown.out


def test_runs_on_different_engines_are_compared_by_force_only(cli: Any, orchard: Path) -> None:
    for engine in ENGINES:
        skip_unless_there(engine)
        cli("eval", "sql", "--agent", "gold", "--data", orchard, "--engine", engine, "--out", engine, "--json")
    refused = cli("report", "sqlite", "mariadb")
    assert refused.status == 2
    assert "userlands" in refused.err
    assert cli("report", "sqlite", "mariadb", "--force").status == 0


@pytest.mark.parametrize(("agent", "protocol"), [("gold", "submit"), ("retrieval", "paper")])
def test_a_run_of_ours_is_the_same_when_executed_again(cli: Any, orchard: Path, engine: str, agent: str, protocol: str) -> None:
    words = ("--data", orchard, "--engine", engine, "--json")
    cli("eval", "sql", "--agent", agent, "--protocol", protocol, "--out", "run", *words)
    done = cli("replay", "run", "--env", "sql", *words)
    found = done.json
    assert (done.status, done.err, set(found)) == (0, "", REPLAY_KEYS)
    assert found["turns"] == found["agree"] == found["observations_equal"] > 6
    assert found["recorded_success_rate"] == found["replayed_success_rate"]


def test_a_run_replayed_as_an_agent_earns_the_same(cli: Any, orchard: Path, engine: str) -> None:
    words = ("--data", orchard, "--engine", engine, "--json")
    first = cli("eval", "sql", "--agent", "gold", "--out", "run", *words).json
    again = cli("eval", "sql", "--agent", "replay:run", "--out", "again", *words).json
    assert (again["success_rate"], again["mean_turns"]) == (first["success_rate"], first["mean_turns"])


def test_the_handicap_reaches_the_agent_and_the_run(cli: Any, orchard: Path, tmp_path: Path) -> None:
    skip_unless_there("sqlite")
    cli("eval", "sql", "--agent", "gold", "--data", orchard, "--handicap", "--limit", 2, "--out", "run", "--json")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["handicap"] is True
    assert all("CREATE TABLE" in episode["query"] for episode in turns(tmp_path / "run").values())


def test_robust_is_reported_and_costs_nothing(cli: Any, orchard: Path, tmp_path: Path) -> None:
    skip_unless_there("sqlite")
    answers = {"count": "SELECT 7", "lost": GOLDS["lost"], "weights": CONSTANT}
    (tmp_path / "some.jsonl").write_text("".join(json.dumps({"task": k, "action": v}) + "\n" for k, v in answers.items()))
    tasks = write(tmp_path / "three", [task for task in TASKS if task["id"] in answers])
    words = ("--env", "sql", "--data", tasks, "--robust", "--out", "run", "--json")
    assert cli("score", "some.jsonl", *words).json["success_rate"] == pytest.approx(2 / 3)
    found = {name: (e["success"], e["parts"]["robust"]) for name, e in turns(tmp_path / "run").items()}
    assert found == {"count": (True, 0.0), "lost": (True, 1.0), "weights": (False, 0.0)}


# -- score --------------------------------------------------------------------------------------------------------------


def test_predictions_are_scored_in_both_forms(cli: Any, orchard: Path, tmp_path: Path, engine: str) -> None:
    answers = {**GOLDS, "count": "SELECT 8", "none": None, "kinds": "SELECT oops"}
    (tmp_path / "ids.jsonl").write_text(
        "".join(json.dumps({"task": k, "action": v}) + "\n" for k, v in reversed(answers.items()))
    )
    (tmp_path / "lines.sql").write_text("".join((answer or "") + "\n" for answer in answers.values()))
    seen = []
    for name in ("ids.jsonl", "lines.sql"):
        done = cli("score", name, "--env", "sql", "--data", orchard, "--engine", engine, "--out", name + ".run", "--json")
        assert (done.status, done.json["episodes"], done.json["errors"]) == (0, 7, 0)
        seen.append(turns(tmp_path / (name + ".run")))
    assert seen[0] == seen[1]
    assert {name for name, episode in seen[0].items() if not episode["success"]} == {"count", "none", "kinds"}


def test_a_task_without_a_prediction_is_an_error_and_the_others_are_scored(cli: Any, orchard: Path, tmp_path: Path) -> None:
    skip_unless_there("sqlite")
    (tmp_path / "some.jsonl").write_text(json.dumps({"task": "count", "action": GOLDS["count"]}) + "\n")
    done = cli("score", "some.jsonl", "--env", "sql", "--data", orchard, "--out", "run", "--json")
    assert (done.status, done.json["success_rate"], done.json["errors"]) == (3, 1.0, 6)
    assert "no prediction for task" in done.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"task": "nosuch", "action": "SELECT 1"}\n', "'nosuch', which is not among these tasks"),
        ("SELECT 1\n", "has 1 lines for 7 tasks"),
        ('{"task": "count"}\n', "line 1"),
    ],
)
def test_predictions_that_do_not_fit_are_the_datas_fault(cli: Any, orchard: Path, tmp_path: Path, text: str, said: str) -> None:
    skip_unless_there("sqlite")
    (tmp_path / "bad").write_text(text)
    done = cli("score", "bad", "--env", "sql", "--data", orchard, "--out", "run", "--json")
    assert (done.status, done.out) == (3, "")
    assert said in done.err
    assert not (tmp_path / "run").exists()


# -- check --------------------------------------------------------------------------------------------------------------


def test_a_sound_set_passes_the_check(cli: Any, orchard: Path, engine: str) -> None:
    for how in ([], ["--protocol", "paper"]):
        done = cli("check", "sql", "--data", orchard, "--engine", engine, "--json", *how)
        assert (done.status, done.err, set(done.json)) == (0, "", CHECK_KEYS)
        assert (done.json["gold_ok"], done.json["noop_paid"], done.json["broken"]) == (7, 0, [])


def test_broken_tasks_are_named(cli: Any, tmp_path: Path, engine: str) -> None:
    random = "RANDOM()" if engine == "sqlite" else "RAND()"
    planted = {"fails": "SELECT height FROM tree", "moody": f"SELECT {random}", "sound": "SELECT id FROM tree"}
    tasks = [{"id": name, "query": name, "gold": gold} for name, gold in planted.items()]
    data = write(tmp_path / "planted", [*tasks, {"id": "attic", "query": "x", "gold": "SELECT 1", "db": "attic"}])
    done = cli("check", "sql", "--data", data, "--engine", engine, "--json")
    assert (done.status, done.json["nondeterministic"]) == (1, 1)
    assert {finding["task"] for finding in done.json["broken"]} == {"fails", "moody", "attic"}


# -- wrong usage --------------------------------------------------------------------------------------------------------

BIRD = '[{"question_id": 1, "query": "Q", "gold": "SELECT 1", "evidence": "E", "difficulty": "simple", "db_id": "x"}]'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data", "bird.json"], "there are no databases; name them with --dump FILE or --databases DIR"),
        (["--dump", "bird.json", "--databases", "."], "not with both"),
        (["--engine", "oracle"], "there is no engine 'oracle'; there are sqlite and mariadb"),
        (["--engine", "mysql://me:secret@127.0.0.1:1/"], "dump its databases (mariadb-dump"),
        (["--dump", "shop.sql", "--engine", "sqlite"], "use --engine mariadb (apt-get install mariadb-server)"),
        (["--databases", "files", "--engine", "mariadb"], "MariaDB does not load SQLite files; use --engine sqlite"),
        (["--databases", "files/empty"], "holds no database"),
        (["--databases", "nowhere"], "does not exist"),
        (["--tree", "."], "the environment sql takes no tree"),
        (["--image", "x"], "the environment sql takes no image"),
        (["--setup", "bird.json"], "the environment sql takes no setup"),
        (["--data", "nowhere"], "nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_says_what_to_do(cli: Any, tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "bird.json").write_text(BIRD)
    (tmp_path / "shop.sql").write_text("CREATE TABLE t (a INT);")
    (tmp_path / "files" / "empty").mkdir(parents=True)
    (tmp_path / "files" / "shop.sqlite").write_bytes(b"SQLite format 3\0")
    done = cli("eval", "sql", "--agent", "gold", *words, "--json")
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert "secret" not in done.err


@pytest.mark.parametrize("option", [["--engine", "sqlite"], ["--robust"]], ids=" ".join)
def test_bash_takes_no_option_of_sql(cli: Any, option: list[str]) -> None:
    done = cli("eval", "bash", "--agent", "gold", *option)
    assert done.status == 2
    assert f"the environment bash takes no {option[0].strip('-')}" in done.err


def test_databases_that_do_not_load_are_the_datas_fault(cli: Any, orchard: Path, engine: str) -> None:
    (orchard / "databases" / "cellar.sql").write_text("CREATE TABEL cask (id INTEGER);\n")
    done = cli("eval", "sql", "--agent", "gold", "--data", orchard, "--engine", engine, "--json")
    assert (done.status, done.out) == (3, "")
    assert "cellar" in done.err
    assert "TABEL" in done.err


# -- two at once --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("empty_cache")
def test_two_evaluations_at_once_do_not_disturb_each_other(cli: Any, orchard: Path, tmp_path: Path, engine: str) -> None:
    """Both have to prepare the same databases first, and each writes to its own in every episode."""
    (tmp_path / "felling.py").write_text(FELLING)
    words = ("eval", "sql", "--data", orchard, "--engine", engine, "--agent", "felling:agent", "--epochs", 3, "--json")
    with ThreadPoolExecutor(2) as threads:
        done = list(threads.map(lambda name: cli(*words, "--out", name), ("left", "right")))
    for each in done:
        assert (each.status, each.json["episodes"], each.json["success_rate"], each.json["errors"]) == (0, 21, 1.0, 0)


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
