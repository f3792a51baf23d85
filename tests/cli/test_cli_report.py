"""`intercode report` and `show`: one run closely, two compared, the page and the plots; runs,
episodes and transcripts."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_words import EVAL_KEYS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(box: Path, run_once: Any) -> Path:
    """The folder of a run over two epochs that solves all, `gold`, and of one that solves two tasks
    of five."""
    answers = "ls /box | wc -l\ncat /nowhere\ncat /nowhere\nls /box\ncat /box/a\n"
    guess = ("score", "answers", "--env", "bash", "--data", box, "--out", "guess")
    run_once(*guess, files={"answers": answers})
    gold = ("eval", "bash", "--data", box, "--agent", "gold", "--epochs", 2, "--out", "gold")
    return Path(run_once(*gold))


@pytest.fixture(autouse=True)
def guessed(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True)


def test_one_run_is_looked_at_closely_also_while_it_is_written(cli: Any, tmp_path: Path) -> None:
    whole = cli("report", "guess", "--json").json
    assert set(whole) == EVAL_KEYS | {"analysis", "data"}
    found = whole["analysis"]
    assert [row["solved"] for row in found["by_turn"]] == [0.0, 0.4]
    assert found["actions"]["all"]["errors"] == 0.4
    assert {row["name"]: row["episodes"] for row in found["failures"]} == {
        "only errors": 2,
        "wrong answer": 1,
    }
    assert found["failures"][0]["examples"][0]["action"] == "cat /nowhere"
    with (tmp_path / "guess" / "episodes.jsonl").open("a") as file:
        file.write('{"schema": 1, "task": "torn')
    assert cli("report", "guess", "--json").json == whole
    shown = cli("report", "guess")
    assert (shown.status, shown.err) == (0, "")
    assert all(
        words in shown.out
        for words in ("by turn", "only errors", "every action failed", "exploring %")
    )
    rates = cli("report", "gold", "--json").json["pass_at_k"]
    assert {k: part["rate"] for k, part in rates.items()} == {"1": 1.0, "2": 1.0}


def test_two_runs_are_compared_task_by_task(cli: Any, tmp_path: Path) -> None:
    both = cli("report", "guess", "gold", "--json").json
    assert both["runs"][0] == cli("report", "guess", "--json").json
    found = both["comparison"]
    assert (found["tasks"], found["difference"], found["p_value"], found["lost"]) == (
        5,
        0.6,
        0.25,
        [],
    )
    assert [flip["task"] for flip in found["gained"]] == ["first", "last", "touch"]
    shown = cli("report", "guess", "gold")
    assert "3 tasks solved more often by gold than by guess" in shown.out
    assert "touch: Make the empty file" in shown.out
    assert "gold minus guess: success on 5 shared tasks" in shown.out
    assert re.search(r"guess %  gold %  difference .*\n.*\n.* 40\.0 +100\.0 +\+60\.0", shown.out)
    assert shown.out.index(" guess ") < shown.out.index(" gold ")
    turned = cli("report", "gold", "guess").out
    assert "guess minus gold: success" in turned
    assert " -60.0 " in turned
    assert turned.index(" gold ") < turned.index(" guess ")
    three = ("report", "guess", "gold", "gold")
    assert [one["tasks"] for one in cli(*three, "--json").json["comparisons"]] == [5, 5]
    assert "gold minus" in cli(*three, "--html", "p.html").out
    assert "gold minus 1: guess: success on 5 shared tasks" in (tmp_path / "p.html").read_text()
    assert [run["run"] for run in cli("report", ".", "--json").json["runs"]] == [
        "gold",
        "guess",
    ], "a folder of runs"
    file = tmp_path / "guess" / "episodes.jsonl"
    file.write_text(file.read_text().replace('"task": "', '"task": "other-'))
    assert "no task is scored in both gold and guess" in cli("report", "guess", "gold").out


def test_an_empty_argument_is_named(cli: Any) -> None:
    for words, argument in (
        (("report",), "RUN..."),
        (("show", "guess"), "[TASK...]"),
        (("data", "get"), "NAME"),
        (("report", "guess", "--html"), "--html"),
    ):
        done = cli(*words, "")
        assert (done.status, f"'{argument}': it is empty" in done.err) == (2, True)


def test_the_page_and_the_plots_are_written_beside_what_is_printed(
    cli: Any, tmp_path: Path
) -> None:
    plain = cli("report", "guess", "--json")
    more = cli("report", "guess", "--json", "--html", "p.html", "--plots", "plots")
    assert (more.status, more.out) == (0, plain.out)
    assert "the page is in p.html" in more.err
    assert (tmp_path / "p.html").read_text().startswith("<!DOCTYPE html>")
    assert {path.name for path in (tmp_path / "plots").iterdir()} >= {
        "success-by-turn.svg",
        "errors-by-turn.svg",
    }
    lost = cli("report", "guess", "--html", tmp_path / "nowhere" / "p.html")
    assert (lost.status, "nowhere/p.html cannot be written" in lost.err) == (2, True)
    kept = cli("report", "guess", "--html", tmp_path / "guess" / "episodes.jsonl")
    assert (kept.status, "is not a page" in kept.err) == (2, True)


def test_what_is_no_run_is_named(cli: Any, tmp_path: Path) -> None:
    for name, content in (("damaged", "{"), ("nameless", '{"env": "bash"}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(content)
    (tmp_path / "folder").mkdir()
    for name, status, blamed in (
        ("folder", 2, "holds no run"),
        ("damaged", 3, "damaged"),
        ("nameless", 3, "nameless/run.json is damaged: agent must be there, as text"),
    ):
        done = cli("report", name, "--json")
        assert (done.status, done.out) == (status, "")
        assert blamed in done.err


def test_a_file_of_a_run_leads_to_its_folder_and_a_run_may_have_just_begun(
    cli: Any, tmp_path: Path
) -> None:
    for command in ("report", "show", "replay", "view"):
        done = cli(command, "guess/episodes.jsonl")
        assert (done.status, "name its folder, guess" in done.err) == (2, True), command
    (tmp_path / "gold" / "episodes.jsonl").write_text("")
    done = cli("show", "gold", "--failed")
    assert (done.status, "has begun, and no episode has ended yet" in done.err) == (0, True)


def test_a_run_whose_data_are_elsewhere_says_so(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "then.jsonl").write_text('{"query": "Print 1.", "gold": "echo 1"}')
    cli("eval", "bash", "--data", "then.jsonl", "--agent", "noop", "--out", "moved")
    (tmp_path / "then.jsonl").rename(tmp_path / "now.jsonl")
    fault = "the data of moved were at then.jsonl, which is not here; say where they are now"
    for words in (
        ("show", "moved", "0"),
        ("replay", "moved"),
        ("rescore", "moved", "--reward", "paper"),
    ):
        assert fault in cli(*words).err, words
        done = cli(*words, "--data", "now.jsonl")
        assert (done.status, done.err) == (0, ""), words
    assert "gold's command\n  › echo 1\n" in cli("show", "moved", "0", "--data", "now.jsonl").out
    (tmp_path / "then.jsonl").write_text('{"query": "Print 1.", "gold": "echo 2"}')
    assert "are not the data of moved; name the run's own with --data" in cli("show", "moved").err


def test_a_failed_episode_is_shown_with_the_golds_of_all_rounds(cli: Any, tmp_path: Path) -> None:
    rounds = [{"query": f"Print {number}.", "gold": f"echo {number}"} for number in (1, 2)]
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"rounds": rounds}))
    cli("eval", "bash", "--data", "tasks.jsonl", "--agent", "noop", "--out", "rounds")
    shown = cli("show", "rounds", "0").out
    assert "gold's command\n  › echo 1\n    \n    # next round\n    echo 2\n" in shown, shown


def test_episodes_are_listed_chosen_and_printed(cli: Any, tmp_path: Path) -> None:
    assert cli("export", "guess", "--format", "intercode", "--out", "log.json").status == 0
    for words, tasks in (
        ("guess", ["count", "first", "last", "names", "touch"]),
        ("guess --failed", ["first", "last", "touch"]),
        ("guess --failed touch first", ["first", "touch"]),
        ("guess --ended error", []),
        ("guess --failed --ambiguous", []),
        ("guess --why only\xa0errors", ["first", "touch"]),
        ("guess --ended stopped", []),
        ("guess --grep /nowhere", ["first", "touch"]),
        ("gold --epoch 1 --limit 2", ["count", "first"]),
        ("log.json --failed", ["first", "last", "touch"]),
    ):
        chosen = [word.replace("\xa0", " ") for word in words.split(" ")]
        records = cli("show", *chosen, "--json").json["episodes"]
        assert [record["task"] for record in records] == tasks, words
        done = cli("show", *chosen)
        assert done.status == 0
        assert [
            task for task in ("count", "first", "last", "names", "touch") if task in done.out
        ] == tasks, done.out
    records = [
        json.loads(line)
        for line in (tmp_path / "guess" / "episodes.jsonl").read_text().splitlines()
    ]
    assert cli("show", "guess", "last", "--json").json["episodes"] == [
        {**each, "why": "wrong answer"} for each in records if each["task"] == "last"
    ]
    one = cli("show", "guess", "last").out
    assert all(
        words in one
        for words in ("✗ task last", "› cat /box/a\n│ apple\n", "  - plum\n", "  + apple\n")
    ), one
    tail = one.split("agent's final action")[1]
    assert tail == "\n  › cat /box/a\n\n  gold's command\n  › cat /box/c\n\n", tail
    assert "› ls /box | wc -l" in cli("show", "guess", "--grep", "wc -l").out, (
        "a single episode is printed"
    )
    assert "no episode failed" in cli("show", "gold", "--failed").err
    unknown = cli("show", "guess", "--why", "tired")
    assert (unknown.status, "cut off, refused, never ran" in unknown.err) == (2, True)
    unknown = cli("show", "guess", "lst")
    assert (unknown.status, "; it has last" in unknown.err) == (2, True)


def test_runs_of_a_folder_are_listed(cli: Any, tmp_path: Path) -> None:
    rows = {Path(row["run"]).name: row for row in cli("show", ".", "--json").json["runs"]}
    found = cli("report", "guess", "--json").json
    assert set(rows) == {"guess", "gold"}
    assert {
        key: rows["guess"][key] for key in ("success_rate", "ci95", "episodes", "mean_reward")
    } == {key: found[key] for key in ("success_rate", "ci95", "episodes", "mean_reward")}
    assert rows["gold"]["date"][:10] in cli("show", ".").out
    assert cli("show", ".", "last").status == 2


def test_runs_some_levels_deep_are_listed_by_their_paths(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "runs" / "demo").mkdir(parents=True)
    for name in ("guess", "gold"):
        (tmp_path / name).rename(tmp_path / "runs" / "demo" / name)
    shutil.copytree(tmp_path / "runs" / "demo" / "gold", tmp_path / "runs" / "gold")
    settings = tmp_path / "runs" / "gold" / "run.json"
    settings.write_text(settings.read_text().replace('"env": "bash"', '"env": "sql"'))
    paths = ["runs/demo/gold", "runs/demo/guess", "runs/gold"]
    assert [row["run"] for row in cli("show", "runs", "--json").json["runs"]] == paths
    assert "demo/guess" in cli("show", "runs").out
    report = cli("report", "runs")
    assert [line for line in report.out.splitlines() if line in ("bash", "sql")] == ["bash", "sql"]
    assert all(name in report.out for name in ("demo/guess", " gold", "demo/gold")), report.out


def test_one_bad_entry_of_a_folder_hides_no_other_runs(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(
        "".join(f'{{"query": "Print {n}.", "gold": "echo {n}"}}\n' for n in range(3))
    )
    cli("eval", "bash", "--data", "t.jsonl", "--agent", "gold", "--out", "runs/good")
    runs = tmp_path / "runs"
    for name in ("damaged", "garbage", "list"):
        shutil.copytree(runs / "good", runs / name)
    records = (runs / "good" / "episodes.jsonl").read_text().splitlines(keepends=True)
    (runs / "damaged" / "episodes.jsonl").write_text(records[0] + "{}\n\n" + records[2])
    (runs / "garbage" / "episodes.jsonl").write_text("{}\n")
    (runs / "list" / "run.json").write_text("[1]")
    (runs / "loop").symlink_to("loop")
    (runs / "nowhere").symlink_to("none")
    (runs / "notes").mkdir()
    reasons = {
        "runs/loop: Too many levels of symbolic links",
        "runs/nowhere: No such file or directory",
        "runs/damaged/episodes.jsonl, line 2 is not an episode",
        "runs/garbage/episodes.jsonl, line 1 is not an episode",
        "runs/list/run.json is damaged: not an object",
    }
    for command in ("show", "report"):
        done = cli(command, "runs", "--json")
        assert (done.status, len(done.err.splitlines())) == (3, len(reasons))
        assert {reason for reason in reasons if f"left out: {reason}" in done.err} == reasons
        counts = {run["run"]: run["episodes"] for run in done.json["runs"]}
        assert counts == {"runs/good": 3, "runs/damaged": 2}
    for words in (("show", "runs/damaged"), ("export", "runs/damaged", "--format", "jsonl")):
        done = cli(*words)
        assert (done.status, done.err.count("line 2 is not an episode")) == (3, 1)
    again = cli(
        *("eval", "bash", "--data", "t.jsonl", "--agent", "gold", "--json"),
        *("--resume", "runs/damaged"),
    )
    assert (again.status, again.json["episodes"]) == (3, 3)
    assert cli("report", "runs/good", "runs/garbage").status == 3
    assert cli("report", "runs/good").status == 0
