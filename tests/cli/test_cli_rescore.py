"""`intercode rescore` and `intercode export`: what becomes of a run that was played."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_words import EVAL_KEYS, write_tasks

from intercode.runs.signing import with_signature

pytestmark = pytest.mark.slow

AGENT = """
from intercode.agents import Act


def mixed(task, protocol):
    # one task is not submitted, one prints what never comes again, one only looks, one submits its
    # answer; they are right
    if task.id == "names":
        yield Act("date +%s%N >&2; ls /box")
    elif task.id == "first":
        yield Act("ls /box")
    elif task.id == "count":
        yield Act("submit 3")
    else:
        yield Act(task.gold)
    if task.id != "last":
        yield Act("submit")


mixed.needs_model = False
"""


@pytest.fixture(scope="module")
def played(box: Path, run_once: Any) -> Path:
    words = ("eval", "bash", "--data", box, "--agent", "mine:mixed", "--epochs", 2, "--out", "run")
    return Path(run_once(*words, files={"mine.py": AGENT})) / "run"


@pytest.fixture
def mixed(played: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(played, tmp_path / "run"))


def episodes(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]


def rewrite(run: Path, **settings: Any) -> None:
    config = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(with_signature({**config, **settings})))


def test_a_new_run_has_the_new_scores_and_tells_how_each_was_had(
    cli: Any, box: Path, mixed: Path
) -> None:
    first, *others = episodes(mixed)
    error = {**others[-1], "reward": None, "success": False, "ended": None, "error": "model: down"}
    write_tasks(mixed / "episodes.jsonl", [{**first, "ended": "limit"}, *others[:-1], error])
    before = (mixed / "episodes.jsonl").read_bytes()
    done = cli("rescore", "run", "--reward", "paper", "--data", box, "--out", "again", "--json")
    found = done.json
    assert (done.status, done.err) == (3, "")
    assert set(found) > EVAL_KEYS
    assert (found["reward"], found["rescored_from"], found["episodes"], found["errors"]) == (
        "paper",
        "run",
        10,
        1,
    )
    rows = {row["task"]: row for row in found["rescored"] if not row["epoch"]}
    hows = {"last": "observed", **dict.fromkeys(["count", "touch", "first", "names"], "executed")}
    assert {task: row["how"] for task, row in rows.items()} == hows
    assert {task: row["differs"] for task, row in rows.items() if row["differs"] is not None} == {
        "names": 0
    }
    assert (rows["last"]["reward"], rows["count"]["recorded"], rows["count"]["reward"]) == (
        0.0,
        1.0,
        1.0,
    )
    assert (rows["first"]["recorded"], rows["first"]["success"]) == (0.0, False)
    assert 0.3 < rows["first"]["reward"] < 1
    (kept,) = [row for row in found["rescored"] if row["how"] == "kept"]
    assert (kept["task"], kept["reward"], kept["error"]) == (error["task"], None, "model: down")
    assert (mixed / "episodes.jsonl").read_bytes() == before
    shown = cli("report", "again", "--json").json
    assert {key: shown[key] for key in EVAL_KEYS} == {key: found[key] for key in EVAL_KEYS}
    cli("rescore", "again", "--reward", "exact", "--data", box, "--out", "back")
    then, now = (episodes(mixed.parent / run) for run in ("run", "back"))
    key = "task", "epoch", "reward", "success", "ended", "parts", "turns"
    assert {str([e[k] for k in key]) for e in then} == {str([e[k] for k in key]) for e in now}, (
        "and back"
    )


def test_a_run_of_schema_1_is_reported_rescored_and_resumed(
    cli: Any, box: Path, mixed: Path
) -> None:
    new = cli("report", "run", "--json").json
    old = [
        {key: value for key, value in each.items() if key != "outcomes"} | {"schema": 1}
        for each in episodes(mixed)
    ]
    write_tasks(mixed / "episodes.jsonl", old[:-1])
    (mixed.parent / "mine.py").write_text(AGENT)
    resumed = cli(
        "eval", "bash", "--agent", "mine:mixed", "--epochs", 2, "--data", box, "--resume", "run"
    )
    assert (resumed.status, [each["schema"] for each in episodes(mixed)]) == (0, [1] * 9 + [2])
    shown = cli("report", "run", "--json").json
    assert {key: shown[key] for key in EVAL_KEYS - {"seconds"}} == {
        key: new[key] for key in EVAL_KEYS - {"seconds"}
    }
    assert cli("rescore", "run", "--reward", "paper", "--data", box, "--out", "again").status == 0


def test_values_of_the_old_reward_are_left_out(cli: Any, box: Path, tmp_path: Path) -> None:
    cli("eval", "bash", "--data", box, "--agent", "gold", "--limit", 1, "--values", "--out", "run")
    cli("rescore", "run", "--reward", "paper", "--data", box, "--out", "again")
    then, now = (episodes(tmp_path / run) for run in ("run", "again"))
    assert [turn.get("value") for turn in then[0]["turns"]] == [1.0, None]
    assert [turn.get("value") for turn in now[0]["turns"]] == [None, None]
    assert json.loads((tmp_path / "again/run.json").read_text())["values"] is False


def test_no_task_or_agent_steers_the_terminal(cli: Any, tmp_path: Path) -> None:
    evil, shown = "\x1b]0;owned\x07\u202e", r"\x1b]0;owned\x07\u202e"
    raises = (
        f"def raises(task, protocol):\n    raise ValueError({evil!r})\n    yield\n\n"
        "raises.needs_model = False\n"
    )
    (tmp_path / "mine.py").write_text(raises)
    write_tasks(
        tmp_path / "evil.jsonl", [{"id": evil, "query": "Fail.", "gold": "printf x; exit 3"}]
    )
    world = ("--data", "evil.jsonl")
    cli("eval", "bash", *world, "--agent", "noop", "--out", "run")
    (record,) = episodes(tmp_path / "run")
    record["turns"][0]["score"] = 0.5
    write_tasks(tmp_path / "run/episodes.jsonl", [record])
    for words in (
        ("rescore", "run", "--reward", "paper", *world),
        ("check", "bash", *world),
        ("replay", "run", "--env", "bash", *world),
        ("eval", "bash", *world, "--agent", "mine:raises"),
    ):
        said = "".join((done := cli(*words)).out + done.err)
        assert not set(said) & set("\x1b\x07\u202e"), words
        assert shown in said, words


def test_what_cannot_be_scored_again_is_refused(cli: Any, box: Path, mixed: Path) -> None:
    words, data = ("rescore", "run", "--reward", "paper", "--out"), ("--data", box)
    assert "by exact already" in cli("rescore", "run", "--reward", "exact", *data).err
    assert cli(*words, "run", *data).status == 2
    for settings, more, says in (
        ({"data_from": None}, (), "does not say where its data"),
        ({"tree": "gone"}, data, "cannot be rebuilt"),
        ({"tree": None, "userland": {"bash": "4"}}, data, "--force"),
    ):
        rewrite(mixed, **settings)
        done = cli(*words, "again", *more)
        assert (done.status, done.out) == (2, "")
        assert says in done.err
    assert cli(*words, "forced", *data, "--force").status == 0
    rewrite(mixed, data_digest="0")
    assert "not the data of run" in cli(*words, "again", *data, "--force").err
    assert not (mixed.parent / "again").exists()
    (mixed / "run.json").write_text("{}")
    assert "does not say its agent and env" in cli("rescore", "run", "--reward", "paper").err


def test_an_export_goes_to_stdout_or_into_a_file(cli: Any, mixed: Path) -> None:
    done = cli("export", "run", "--format", "chat", "--only", "successful", alone=True)
    assert (done.status, done.err) == (0, "intercode: 4 rows from 4 episodes\n")
    assert all(json.loads(line)["success"] for line in done.out.splitlines())
    assert cli("export", "run", "--format", "intercode", "--out", "log.json").status == 0
    assert (mixed.parent / "log.json").exists()
