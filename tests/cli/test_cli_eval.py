"""`intercode eval`: what it prints, what it leaves, how it ends, and whom it blames."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from cli_words import EVAL_KEYS, INTERCODE, write_tasks
from families import wait_until

from intercode.runs.evaluation import new_folder
from intercode.types import Episode, Sample, ToolCall, Turn, Usage

pytestmark = pytest.mark.slow


def test_one_json_object_with_the_fixed_keys(cli: Any, box: Path) -> None:
    done = cli("eval", "bash", "--data", box, "--agent", "gold", "--out", "run", "--json")
    assert (done.status, done.err) == (0, "run: run\n")
    found = done.json
    assert set(found) == EVAL_KEYS
    low, high = found.pop("ci95")
    assert 0.5 < low < high == 1.0
    assert found.pop("seconds") > 0
    assert found == {
        "run": "run", "env": "bash", "agent": "gold", "model": None, "reward": "exact",
        "episodes": 5, "success_rate": 1.0, "mean_reward": 1.0, "mean_turns": 2.0, "errors": 0,
        "tokens": 0, "cost": 0.0,
    }  # fmt: skip


def test_on_a_terminal_a_table_a_bar_and_the_runs_folder(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    """The bar goes to stderr and is gone in the end; stdout has the table only."""
    ours, theirs = pty.openpty()
    words = ["eval", "bash", "--data", str(box), "--agent", "gold"]
    process = subprocess.Popen(
        [INTERCODE, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs, text=True
    )
    os.close(theirs)
    out, _ = process.communicate(timeout=60)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    (folder,) = (tmp_path / "runs").iterdir()
    assert process.returncode == 0
    assert "success" in shown
    assert f"run: runs/{folder.name}" in out
    assert "\x1b" not in out
    assert out.endswith(f"next: `intercode show runs/{folder.name}` lists the episodes\n")
    assert new_folder(tmp_path / "runs", "bash", "gold") != new_folder(
        tmp_path / "runs", "bash", "gold"
    )


def test_after_a_run_a_line_says_what_to_type_next(cli: Any, box: Path, tmp_path: Path) -> None:
    noop = cli("eval", "bash", "--data", box, "--agent", "noop", "--out", "noop")
    assert "next: `intercode show noop --failed` lists the failed episodes\n" in noop.out
    write_tasks(tmp_path / "t.jsonl", [{"id": "a", "query": "q", "gold": "date +%N"}])
    gold = cli("eval", "bash", "--data", "t.jsonl", "--agent", "gold", "--out", "gold")
    assert "1 gold failed; `intercode check bash --data t.jsonl` says why" in gold.err
    rounds = [{"query": f"Print {number}.", "gold": f"echo {number}"} for number in (1, 2)]
    write_tasks(tmp_path / "t.jsonl", [{"rounds": rounds}])
    few = cli(
        "eval", "bash", "--data", "t.jsonl", "--agent", "gold", "--turns", "1", "--out", "few"
    )
    assert "1 episode had too few turns for all rounds; raise --turns" in few.err
    assert "gold failed" not in few.err


def test_the_run_records_all_that_decides_its_results(cli: Any, box: Path, tmp_path: Path) -> None:
    cli(
        "eval",
        "bash",
        "--data",
        box,
        "--agent",
        "gold",
        "--out",
        "run",
        "--seed",
        7,
        "--epochs",
        2,
        "--protocol",
        "paper",
    )
    config = json.loads((tmp_path / "run" / "run.json").read_text())
    assert {
        "versions",
        "data_digest",
        "template",
        "userland",
        "created",
        "git_commit",
        "prompt",
    } <= set(config)
    assert {
        "seed": 7,
        "epochs": 2,
        "protocol": "paper",
        "reward": "paper",
        "session": "stateless",
    }.items() <= config.items()
    lines = [
        json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    ]
    assert len({(line["task"], line["epoch"]) for line in lines}) == len(lines) == 10
    keys = {
        "schema",
        "task",
        "epoch",
        "seed",
        "query",
        "turns",
        "reward",
        "success",
        "parts",
        "ended",
        "error",
    }
    assert set(lines[0]) - {"outcomes", "takes_answer"} == keys
    described = (Path(__file__).parents[2] / "docs" / "run-folder.md").read_text()
    known = {
        field.name for kind in (Episode, Turn, Usage, ToolCall, Sample) for field in fields(kind)
    }  # type: ignore[arg-type]
    assert [
        name
        for name in sorted({*config, *lines[0], *lines[0]["turns"][0], *known})
        if f"`{name}`" not in described
    ] == []


def test_a_folder_with_a_run_needs_resume_and_the_same_settings(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    go = ("eval", "bash", "--data", box, "--out", "run", "--json")
    assert (
        "it held no run: a new one begins"
        in (first := cli(*go, "--agent", "gold", "--resume", "run")).err
    )
    written = (tmp_path / "run" / "episodes.jsonl").read_bytes()
    again = cli(*go, "--agent", "gold")
    assert (again.status, again.out) == (2, "")
    assert "--resume" in again.err
    other = cli(*go, "--agent", "noop", "--resume", "run")
    assert (other.status, other.out) == (2, "")
    assert "agent: 'gold' → 'noop'" in other.err
    resumed = cli(*go, "--agent", "gold", "--resume", "run", "--workers", 1)
    assert (resumed.status, resumed.json) == (0, first.json)
    assert (tmp_path / "run" / "episodes.jsonl").read_bytes() == written
    other = cli("score", "--resume", "run")
    assert (other.status, "continue with `intercode eval --resume run`" in other.err) == (2, True)


WRONG = [
    ("nosuch --agent gold", "nosuch"),
    ("intercode.env:InterCodeEnv --agent gold", "InterCodeEnv"),
    ("bash --agent golden", "module:function"),
    ("bash --agent human", "intercode play bash"),
    ("bash --agent nosuch:agent", "'nosuch:agent' cannot be loaded"),
    ("bash --agent try_again", "--model"),
    ("bash --agent best_of --model tiny", "--temperature"),
    ("bash --agent try_again --model tiny --max-cost 1", "--price"),
    ("bash --agent gold --data=", "'--data': it is empty"),
    ("bash --agent gold --setup EMPTY", "'--setup': it is empty"),
    ("bash --agent gold --data /nowhere", "/nowhere"),
    ("bash --agent gold --data nl2bash_fs_1", "intercode data get nl2bash_fs_1"),
    ("bash --agent gold --image nosuch", "image build nosuch"),
    ("bash --agent gold --out a --resume b", "two folders"),
    ("bash --agent gold --max-seconds nan", "--max-seconds"),
    ("bash --agent gold --reward generous", "reward 'generous': use 'exact'"),
    (
        "bash --agent gold --engine sqlite",
        "the environment bash takes no --engine, which is an option of sql",
    ),
    ("bash --agent gold --task nosuch", "no task has the id 'nosuch'"),
    ("bash --agent gold --nosuch", "--nosuch"),
]


@pytest.mark.parametrize(("words", "blamed"), WRONG, ids=[words for words, _ in WRONG])
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(
    cli: Any, tmp_path: Path, words: str, blamed: str
) -> None:
    variables = {"INTERCODE_BASE_URL": "http://127.0.0.1:9/v1", "XDG_CACHE_HOME": str(tmp_path)}
    given = [word.replace("EMPTY", "") for word in words.split()]
    done = cli("eval", *given, "--json", **variables)
    assert (done.status, done.out) == (2, "")
    assert blamed in done.err
    assert list(tmp_path.iterdir()) == [], "nothing was begun"


def test_a_new_run_that_a_mistake_ends_at_once_is_removed(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    (tmp_path / "rewards.py").write_text("def two(agent, gold, task):\n    return 2\n")
    for mistake in (["--reward", "rewards:two"], ["--agent", "exec:nosuch", "--model", "tiny"]):
        words = ("eval", "bash", "--data", box, "--agent", "gold", *mistake, "--out", run)
        done = cli(*words, INTERCODE_BASE_URL="http://127.0.0.1:9/v1")
        assert (done.status, run.exists()) == (2, False), done.err


def test_a_misspelt_field_is_said_again_at_the_end_and_the_status_is_1(
    cli: Any, tmp_path: Path
) -> None:
    task = {"id": "a", "query": "Print 1.", "gold": "echo 1", "verfy": "true"}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task))
    done = cli("eval", "bash", "--data", "tasks.jsonl", "--agent", "gold", "--out", "run")
    assert done.status == 1
    assert done.err.count("the field 'verfy' (task a) is not read; did you mean 'verify'?") == 2
    assert done.err.rstrip().endswith("'verify'?")


def test_a_setup_script_is_the_starting_point_and_is_named_where_it_fails(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    gold = "n=$(ls /box | wc -l); echo $n; [ $n = 4 ] || (exit 3)"
    write_tasks(tmp_path / "tasks.jsonl", [{"id": "four", "query": "How many?", "gold": gold}])
    go = ("eval", "bash", "--agent", "gold", "--data", "tasks.jsonl", "--tree", box / "tree")
    (tmp_path / "setup.sh").write_text("rm /box/a; touch /box/{d,e}\n")
    assert cli(*go, "--setup", "setup.sh", "--out", "with").err == "run: with\n"
    (tmp_path / "setup.sh").write_text("echo about to fail; exit 4\n")
    failed = cli(*go, "--setup", "setup.sh")
    assert failed.status == 3
    assert "setup.sh ended with status 4" in failed.err
    assert "about to fail" in failed.err


def test_an_interrupted_run_ends_with_130_and_can_be_resumed(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    slow = (
        "def agent(task, protocol):\n    yield Act('sleep 0.3; ' + task.gold)\n"
        "    yield Act('submit')\n"
    )
    (tmp_path / "slow.py").write_text(
        f"from intercode.agents import Act\n{slow}agent.needs_model = False\n"
    )
    words = [
        "eval",
        "bash",
        "--data",
        str(box),
        "--agent",
        "slow:agent",
        "--out",
        "run",
        "--workers",
        "1",
        "--json",
    ]
    file = tmp_path / "run" / "episodes.jsonl"
    with subprocess.Popen(
        [INTERCODE, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert wait_until(lambda: file.exists() and file.read_bytes().count(b"\n") >= 1, 30)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert err == "run: run\nintercode: interrupted; continue with `intercode eval --resume run`\n"
    assert 1 <= file.read_bytes().count(b"\n") < 5
    resumed = cli("eval", "--resume", "run", "--json")
    assert (resumed.status, resumed.json["episodes"], resumed.json["success_rate"]) == (0, 5, 1.0)
    assert len({json.loads(line)["task"] for line in file.read_text().splitlines()}) == 5


def test_agents_and_environments_of_the_working_folder_are_found(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "from intercode.envs.bash.env import BashEnv\n"
        "from intercode.agents import gold as agent\n"
        "class Env(BashEnv): pass\n"
        "def lost(task, protocol):\n"
        "    return 7\n"
        "agent.needs_model = lost.needs_model = False\n"
    )
    (tmp_path / "random.py").write_text("1 / 0\n")
    found = cli("eval", "mine:Env", "--data", box, "--agent", "mine:agent", "--json", alone=True)
    assert (found.status, found.json["success_rate"]) == (
        0,
        1.0,
    ), "a module hides none of the same name"
    lost = cli("eval", "bash", "--data", box, "--agent", "mine:lost")
    assert lost.status == 2
    assert "mine:lost returned 7" in lost.err
    (tmp_path / "broken.py").write_text("1 / 0\n")
    broken = cli("eval", "bash", "--data", box, "--agent", "broken:agent")
    assert (broken.status, "ZeroDivisionError" in broken.err) == (2, True)
