"""Options in a file, and grids of runs: killed, resumed, compared with the runs one by one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cli_words import INTERCODE

GRID = """
env = "bash"
agent = ["gold", "noop", "retrieval"]
seed = [0, 1]
epochs = 4
workers = 1
"""


def report(cli: Any, folder: str) -> list[dict[str, Any]]:
    runs = cli("report", folder, "--json").json["runs"]
    for run in runs:
        run["seconds"] = run["analysis"] = None
        run["run"] = Path(run["run"]).name
    return list(runs)


def killed_at(folder: Path, episodes: int, words: list[str]) -> None:
    """Play until so many episodes are stored, and kill the process."""
    player = subprocess.Popen([INTERCODE, *words], cwd=folder.parent, start_new_session=True)
    deadline = time.monotonic() + 120
    stored = 0
    while stored < episodes:
        assert player.poll() is None, "the grid ended before it was killed"
        assert time.monotonic() < deadline
        stored = sum(path.read_bytes().count(b"\n") for path in folder.glob("*/episodes.jsonl"))
        time.sleep(0.005)
    os.killpg(player.pid, signal.SIGKILL)
    player.wait()


def test_a_grid_that_is_killed_twice_equals_its_runs(cli: Any, box: Path, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(f"{GRID}data = {json.dumps(str(box))}\n")
    words = ["eval", "--config", "grid.toml"]
    killed_at(tmp_path / "grid", 5, [*words, "--out", "grid"])
    killed_at(tmp_path / "grid", 45, [*words, "--resume", "grid"])
    again = cli(*words, "--out", "grid")
    assert again.status == 2
    assert "continue its runs with --resume grid" in again.err
    done = cli(*words, "--resume", "grid", "--json")
    assert done.status == 0
    assert len(done.json["runs"]) == 6
    for agent in ("gold", "noop", "retrieval"):
        for seed in (0, 1):
            options = ("--agent", agent, "--seed", seed, "--epochs", 4, "--data", box)
            cli("eval", "bash", *options, "--out", f"runs/bash-{agent}-{seed}")
    assert report(cli, "grid") == report(cli, "runs")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("agnt = 'gold'", "agnt is no option; did you mean 'agent'?"),
        ("[bash]\nturn = 3", "turn is no option; did you mean 'turns'?"),
        ("[sql]\nturns = 3", "[sql] is neither an option nor ENV"),
        ("[bash.turns]\na = 3", "is not a valid integer"),
        ("turns = true", "'True' is not a valid integer"),
        ("robust = 3", "takes no --robust|'3' is not a valid boolean"),
        ("seed = []", "seed is an empty list"),
        ("data = ''", "data is empty"),
        ("agent = ['gold', 'glod']\nlimit = 1", "unknown agent 'glod'"),
        ("agent = ['gold', 'noop']\nengine = 'sqlite'", "takes no --engine"),
        ("resume = 'x'", "resume is no option"),
        ("model = ['a/b', 'a b']", "two runs would be called 'bash-a-b'"),
        ("env = 'bash", "is not TOML"),
    ],
)
def test_wrong_files_are_refused_by_name(cli: Any, tmp_path: Path, text: str, says: str) -> None:
    env = "" if "env =" in text else "env = 'bash'\n"
    (tmp_path / "run.toml").write_text(f"{env}{text}\n")
    done = cli("eval", "--config", "run.toml")
    assert done.status in (2, 3)
    assert any(part in done.err for part in says.split("|"))
    assert not (tmp_path / "runs").exists()


def test_a_grid_that_cannot_be_played_leaves_the_users_folder(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "mine" / "grid").mkdir(parents=True)
    (tmp_path / "run.toml").write_text("env = 'bash'\nagent = ['gold', 'glod']\nlimit = 1\n")
    assert cli("eval", "--config", "run.toml", "--out", "mine/grid").status == 2
    assert not list((tmp_path / "mine" / "grid").iterdir())


def test_options_of_environments_and_the_command_line(cli: Any, box: Path, tmp_path: Path) -> None:
    words = ("--agent", "noop", "--turns", 3, "--request", '{"a": 1}', "--task", "count")
    printed = cli("eval", "bash", "--data", box, *words, "--print-config").out
    (tmp_path / "run.toml").write_text(printed)
    assert cli("eval", "--config", "run.toml", "--out", "a", "--turns", 4).status == 0
    config = json.loads((tmp_path / "a" / "run.json").read_text())
    assert (config["agent"], config["turns"], config["tasks"]) == ("noop", 4, ["count"])
    text = f'env = ["sql", "bash"]\nagent = "gold"\nlimit = 1\n[bash]\ndata = "{box}"\nlimit = 2'
    (tmp_path / "grid.toml").write_text(text)
    runs = cli("eval", "--config", "grid.toml", "--json").json["runs"]
    counts = {Path(run["run"]).name: run["episodes"] for run in runs}
    assert counts == {"sql-gold": 1, "bash-gold": 2}
