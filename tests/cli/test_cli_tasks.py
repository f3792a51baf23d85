"""Which tasks are played, and an environment, an agent and a reward of one's own, which a run is
resumed with."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_words import TASKS

pytestmark = pytest.mark.slow


@pytest.fixture
def played(cli: Any, box: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Runs `eval bash` with these words; the tasks in the order in which they were played."""
    runs = itertools.count(1)

    def run(*words: object) -> list[str]:
        folder = f"run{next(runs)}"
        done = cli(
            "eval",
            "bash",
            "--data",
            box,
            "--agent",
            "noop",
            "--workers",
            1,
            *words,
            "--out",
            folder,
        )
        assert done.status == 0, done.err
        return [
            json.loads(line)["task"]
            for line in (tmp_path / folder / "episodes.jsonl").read_text().splitlines()
        ]

    return run


def test_tasks_are_chosen_by_their_ids_or_as_those_that_a_run_did_not_solve(
    cli: Any, box: Path, played: Callable[..., list[str]], tmp_path: Path
) -> None:
    words = ("--task", "names", "--task", "count")
    assert played(*words) == ["count", "names"]
    check = ("check", "bash", "--data", box, *words, "--static", "--json")
    assert [cli(*check, *limit).json["tasks"] for limit in ((), ("--limit", 1))] == [2, 1]
    (tmp_path / "answers").write_text("ls /box | wc -l\nfalse\ncat /box/a\nfalse\ncat /box/c\n")
    assert len(played("--agent", "static:answers")) == len(TASKS)
    assert played("--failed-in", "run2") == ["touch", "names"]
    assert played("--failed-in", "run2", "--agent", "static:answers", "--task", "names") == [
        "names"
    ]


def test_a_seed_draws_the_order(cli: Any, played: Callable[..., list[str]]) -> None:
    drawn, other = (played("--shuffle", "--seed", seed) for seed in (1, 2))
    assert drawn != other
    assert sorted(drawn) == sorted(other) == sorted(task["id"] for task in TASKS)
    assert played("--shuffle", "--seed", 1, "--limit", 2) == drawn[:2]
    assert cli("eval", "--resume", "run3", "--json").json["episodes"] == 2


def test_files_are_named_in_place_of_modules(cli: Any, tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "here"
    folder.mkdir(parents=True)
    (folder / "helper.py").write_text("WORTH = 0.25\n")
    (folder / "random.py").write_text(
        "from helper import WORTH\nfrom intercode import BashEnv\n"
        "from intercode.agents import gold as agent\nagent.needs_model = False\n"
        "def reward(agent, gold, task): return WORTH\nclass Own(BashEnv): data = 'tasks.jsonl'\n"
        "class Bare(BashEnv): pass\n"
    )
    (folder / "tasks.jsonl").write_text('{"query": "Print 1.", "gold": "echo 1"}\n')
    file = "mine/here/random.py"
    words = (
        "eval",
        f"{file}:Own",
        "--agent",
        f"{file}:agent",
        "--reward",
        f"{file}:reward",
        "--out",
        "run",
        "--json",
    )
    assert cli(*words).json["mean_reward"] == 0.25
    assert cli("eval", "--resume", "run", "--json").status == 0
    assert cli("replay", "run", "--json").json["agreement"] == 1.0
    (folder / "helper.py").write_text("WORTH = 0.75\n")
    assert "reward_source" in cli("eval", "--resume", "run").err
    bare = cli("eval", f"{file}:Bare", "--agent", "gold")
    assert bare.status == 2
    assert (
        bare.err
        == "intercode: Bare has no tasks; name their file by its attribute `data`, or with --data\n"
    )
    absent = cli("eval", "nosuch.py:Own", "--agent", "gold")
    assert (absent.status, "nosuch.py" in absent.err) == (2, True)
