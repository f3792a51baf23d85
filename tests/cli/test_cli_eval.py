"""`intercode eval`: what it prints, what it leaves, how it ends, and whom it blames."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_words import EVAL_KEYS, INTERCODE, TASKS
from families import wait_until

from intercode.runner.evaluation import new_folder

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
        "run": "run", "env": "bash", "agent": "gold", "model": None, "reward": "exact", "episodes": 5,
        "success_rate": 1.0, "mean_reward": 1.0, "mean_turns": 2.0, "errors": 0, "tokens": 0, "cost": 0.0,
    }  # fmt: skip


def test_without_json_a_table_and_the_runs_folder(cli: Any, box: Path, tmp_path: Path) -> None:
    done = cli("eval", "bash", "--data", box, "--agent", "noop", "--limit", 2)
    (folder,) = (tmp_path / "runs").iterdir()
    assert (done.status, done.err) == (0, f"run: runs/{folder.name}\n")
    assert f"run: runs/{folder.name}" in done.out
    assert "noop" in done.out
    assert len((folder / "episodes.jsonl").read_text().splitlines()) == 2


def test_runs_that_start_in_one_second_have_a_folder_each(tmp_path: Path) -> None:
    names = {new_folder(tmp_path / "runs", "bash", "m:f").name for _ in range(5)}
    assert len(names) == 5
    assert any(name.endswith("-2") for name in names)


def test_the_run_records_all_that_decides_its_results(cli: Any, box: Path, tmp_path: Path) -> None:
    cli("eval", "bash", "--data", box, "--agent", "gold", "--out", "run", "--seed", 7, "--epochs", 2, "--protocol", "paper")
    config = json.loads((tmp_path / "run" / "run.json").read_text())
    assert {"versions", "data_digest", "template", "userland", "created", "git_commit", "prompt"} <= set(config)
    assert {"seed": 7, "epochs": 2, "protocol": "paper", "reward": "paper", "session": "stateless"}.items() <= config.items()
    lines = [json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()]
    assert len({(line["task"], line["epoch"]) for line in lines}) == len(lines) == 10
    assert {"schema", "task", "epoch", "seed", "query", "turns", "reward", "success", "parts", "ended", "error"} == set(
        lines[0]
    )


def test_a_folder_with_a_run_needs_resume_and_the_same_settings(cli: Any, box: Path, tmp_path: Path) -> None:
    go = ("eval", "bash", "--data", box, "--out", "run", "--json")
    first = cli(*go, "--agent", "gold")
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


def test_an_empty_folder_may_be_there_and_a_foreign_one_is_left_alone(cli: Any, box: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    go = ("eval", "bash", "--data", box, "--agent", "gold", "--limit", 1, "--json", "--out")
    assert cli(*go, "empty").status == 0
    refused = cli(*go, "full")
    assert (refused.status, refused.out) == (2, "")
    assert "full is not empty and holds no run" in refused.err
    assert os.listdir(tmp_path / "full") == ["thesis.txt"]


NUMBERS = ("--temperature", "--reply-seconds", "--max-cost", "--max-seconds", "--episode-cost", "--episode-seconds")


@pytest.mark.parametrize(
    ("words", "blamed"),
    [
        (["--agent", "nosuch"], "unknown agent 'nosuch'"),
        (["--agent", "os:nosuch"], "no 'nosuch'"),
        (["--agent", ":nosuch"], "unknown agent ':nosuch'"),
        (["--agent", "nosuch:agent"], "'nosuch' cannot be imported"),
        (["--agent", "replay:/nowhere"], "/nowhere cannot be read"),
        (["--agent", "try_again"], "--model"),
        (["--agent", "try_again", "--model", ""], "'--model': it is empty"),
        (["--agent", "gold", "--data", ""], "'--data': it is empty"),
        (["--agent", "gold", "--image", ""], "'--image': it is empty"),
        (["--agent", "gold", "--out", ""], "'--out': it is empty"),
        (["--agent", "try_again", "--model", "scripted:/nowhere"], "/nowhere"),
        (["--agent", "gold", "--data", "/nowhere"], "/nowhere"),
        (["--agent", "gold", "--tree", "/nowhere"], "--tree"),
        (["--agent", "gold", "--image", "nosuch"], "image build nosuch"),
        (["--agent", "gold", "--sandbox", "nosuch"], "--sandbox"),
        (["--agent", "gold", "--out", "a", "--resume", "b"], "two folders"),
        (["--agent", "gold", "--workers", "0"], "--workers"),
        (["--agent", "gold", "--max-cost", "-1"], "--max-cost"),
        (["--agent", "try_again", "--model", "tiny", "--max-cost", "1"], "--price"),
        (["--agent", "gold", "--price", "1"], "--price"),
        (["--agent", "gold", "--price", "1,-2"], "--price"),
        (["--agent", "gold", "--price", "1,nan"], "--price"),
        *((["--agent", "gold", option, "nan"], option) for option in NUMBERS),
        (["--agent", "gold", "--temperature", "inf"], "--temperature"),
        (["--agent", "gold", "--temperature", "-1"], "--temperature"),
        (["--agent", "gold", "--reply-tokens", "0"], "--reply-tokens"),
        (["--agent", "gold", "--reward", "generous"], "--reward"),
        (["--agent", "gold", "--nosuch"], "--nosuch"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(cli: Any, tmp_path: Path, words: list[str], blamed: str) -> None:
    done = cli("eval", "bash", "--json", *words, INTERCODE_BASE_URL="http://127.0.0.1:9/v1")
    assert (done.status, done.out) == (2, "")
    assert blamed in done.err
    assert list(tmp_path.iterdir()) == [], "nothing was begun"


@pytest.mark.parametrize(
    "env", ["nosuch", "nosuch:Class", ":Class", ".x:Class", "os:path", "json:JSONDecoder", "intercode.env:InterCodeEnv"]
)
def test_what_is_no_environment_is_wrong_usage(cli: Any, env: str) -> None:
    done = cli("eval", env, "--agent", "gold") if env != "intercode.env:InterCodeEnv" else cli("check", env)
    assert done.status == 2
    assert env in done.err or "InterCodeEnv" in done.err


@pytest.mark.parametrize(
    ("name", "content", "blamed"),
    [
        ("bad.jsonl", '{"query": "q"}\n', "line 1"),
        ("bad.jsonl", '{"query": "q", "gold": "g"}\n{"query": \n', "line 2"),
        ("bad.json", "[]", "bad.json"),
        ("bad.csv", "query,answer\nq,a\n", "gold"),
        ("twice.jsonl", '{"id": "a", "query": "q", "gold": "g"}\n' * 2, "'a'"),
    ],
)
def test_malformed_data_ends_with_3_and_names_the_place(cli: Any, tmp_path: Path, name: str, content: str, blamed: str) -> None:
    (tmp_path / name).write_text(content)
    done = cli("eval", "bash", "--agent", "gold", "--data", name, "--json")
    assert (done.status, done.out) == (3, "")
    assert name in done.err
    assert blamed in done.err


def test_a_setup_script_that_fails_is_named_with_what_it_printed(cli: Any, box: Path, tmp_path: Path) -> None:
    (tmp_path / "setup.sh").write_text("echo about to fail; exit 4\n")
    done = cli("eval", "bash", "--agent", "gold", "--data", box, "--setup", "setup.sh")
    assert done.status == 3
    assert "setup.sh ended with status 4" in done.err
    assert "about to fail" in done.err


def test_a_setup_script_is_the_starting_point(cli: Any, box: Path, tmp_path: Path) -> None:
    (tmp_path / "setup.sh").write_text("rm /box/a; touch /box/{d,e}\n")
    (tmp_path / "tasks.jsonl").write_text(
        '{"query": "How many?", "gold": "n=$(ls /box | wc -l); echo $n; [ $n = 4 ] || (exit 3)"}\n'
    )
    go = ("eval", "bash", "--agent", "gold", "--data", "tasks.jsonl", "--tree", box / "tree", "--json")
    assert cli(*go, "--setup", "setup.sh", "--out", "with").json["success_rate"] == 1.0
    found = cli("check", "bash", "--data", "tasks.jsonl", "--tree", box / "tree")
    assert "status 3" in found.out, "three without it"


def test_the_order_of_output_streams_on_a_terminal(box: Path, tmp_path: Path, module_cache: Path) -> None:
    """The bar goes to stderr and is gone in the end; stdout has the table only."""
    ours, theirs = pty.openpty()
    words = ["eval", "bash", "--data", str(box), "--agent", "gold", "--out", "run"]
    process = subprocess.Popen([INTERCODE, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    out, _ = process.communicate(timeout=60)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert process.returncode == 0
    assert "success" in shown
    assert "run: run" in out
    assert "\x1b" not in out


def test_an_interrupted_run_ends_with_130_and_can_be_resumed(cli: Any, box: Path, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "from intercode.agents import Act\n"
        "def agent(task, protocol):\n"
        "    yield Act('sleep 0.4; ' + task.gold)\n"
        "    yield Act('submit')\n"
        "agent.needs_model = False\n"
    )
    words = ["eval", "bash", "--data", str(box), "--agent", "slow:agent", "--out", "run", "--workers", "1", "--json"]
    file = interrupted(words, tmp_path)
    resumed = cli("eval", "--resume", "run", "--json", PYTHONPATH=str(tmp_path))
    assert (resumed.status, resumed.json["episodes"], resumed.json["success_rate"]) == (0, 5, 1.0)
    assert len({json.loads(line)["task"] for line in file.read_text().splitlines()}) == 5


def test_an_interrupted_score_can_be_resumed_as_well(cli: Any, box: Path, tmp_path: Path) -> None:
    (tmp_path / "slow").write_text("".join(f"sleep 0.4; {task['gold']}\n" for task in TASKS))
    words = ["score", "slow", "--env", "bash", "--data", str(box), "--out", "run", "--workers", "1", "--json"]
    interrupted(words, tmp_path)
    resumed = cli("score", "--resume", "run", "--json")
    assert (resumed.status, resumed.json["episodes"], resumed.json["success_rate"]) == (0, 5, 1.0)
    other = cli("eval", "--resume", "run")
    assert (other.status, "go on with `intercode score --resume run`" in other.err) == (2, True)


def interrupted(words: list[str], folder: Path) -> Path:
    """The episodes of a run in FOLDER/run that was interrupted after the first one."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    with subprocess.Popen(
        [INTERCODE, *words], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        file = folder / "run" / "episodes.jsonl"
        assert wait_until(lambda: file.exists() and file.read_bytes().count(b"\n") >= 1, 30)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert err == f"run: run\nintercode: interrupted; go on with `intercode {words[0]} --resume run`\n"
    assert 1 <= file.read_bytes().count(b"\n") < 5
    return file


def test_agents_and_environments_of_the_working_folder_are_found(cli: Any, box: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from intercode.envs.bash import BashEnv\n"
        "from intercode.agents import gold as agent\n"
        "class Env(BashEnv): pass\n"
        "def lost(task, protocol):\n"
        "    return 7\n"
        "agent.needs_model = lost.needs_model = False\n"
    )
    found = cli("eval", "mine:Env", "--data", box, "--agent", "mine:agent", "--json")
    assert (found.status, found.json["success_rate"]) == (0, 1.0)
    lost = cli("eval", "bash", "--data", box, "--agent", "mine:lost")
    assert lost.status == 2
    assert "mine:lost returned 7" in lost.err
    (tmp_path / "random.py").write_text("1 / 0\n")
    assert cli("eval", "bash", "--data", box, "--agent", "mine:agent").status == 0, "a module hides none of the same name"
    (tmp_path / "broken.py").write_text("1 / 0\n")
    broken = cli("eval", "bash", "--data", box, "--agent", "broken:agent")
    assert (broken.status, "ZeroDivisionError" in broken.err) == (2, True)


def test_two_processes_cannot_use_one_folder(cli: Any, box: Path, tmp_path: Path) -> None:
    (tmp_path / "held").mkdir()
    descriptor = os.open(tmp_path / "held", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        done = cli("eval", "bash", "--data", box, "--agent", "gold", "--out", "held", "--json")
    finally:
        os.close(descriptor)
    assert (done.status, done.out) == (3, "")
    assert "in use by another process" in done.err


def test_a_budget_that_is_spent_ends_early_and_says_how_to_go_on(cli: Any, box: Path, tmp_path: Path) -> None:
    """The first task takes no time, the second more than there is."""
    (tmp_path / "slow.py").write_text(
        "import os\n"
        "from intercode.agents import Act\n"
        "def agent(task, protocol):\n"
        f"    pause = os.environ['PAUSE'] if task.id == {TASKS[1]['id']!r} else '0'\n"
        "    yield Act(f'sleep {pause}; {task.gold}')\n"
        "    yield Act('submit')\n"
        "agent.needs_model = False\n"
    )
    go = ("eval", "bash", "--data", box, "--agent", "slow:agent", "--workers", 1, "--out", "run", "--json")
    early = cli(*go, "--max-seconds", 3, PYTHONPATH=str(tmp_path), PAUSE="4")
    assert (early.status, early.json["errors"], early.json["episodes"]) == (0, 0, 1)
    assert "--max-seconds" in early.err
    assert "--resume" in early.err
    whole = cli(*go, "--max-seconds", 60, "--resume", "run", PYTHONPATH=str(tmp_path), PAUSE="0")
    assert (whole.status, whole.json["episodes"], whole.json["success_rate"]) == (0, 5, 1.0)


def test_a_closed_pipe_is_no_crash(box: Path, tmp_path: Path, module_cache: Path) -> None:
    command = f"{INTERCODE} eval bash --data {box} --agent gold --out run | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert "Traceback" not in done.stderr
    assert (tmp_path / "run" / "episodes.jsonl").read_bytes().count(b"\n") == 5
