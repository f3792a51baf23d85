"""`report`, `merge`, `replay` and `rescore` read a run episode by episode: it may be larger than
memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

pytestmark = [pytest.mark.slow, pytest.mark.rest]

TASKS, CHARACTERS = 36, 1_000_000
"""Long outputs and messages: 36 MB, of which a command that held them would take 45 MiB."""
MOST = 25 << 10
"""KiB that a command may take for them."""
_PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak(*words: object) -> int:
    """Return the most KiB of memory that a process of `intercode` had. It is started by a small
    process, since a child begins with its parent's peak."""
    intercode = Path(sys.executable).with_name("intercode")
    command = [sys.executable, "-c", _PEAK, intercode, *map(str, words)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def fatten(run: Path) -> None:
    """Give each episode of a run a long output and a long question."""
    lines = (run / "episodes.jsonl").read_text().splitlines()
    with (run / "episodes.jsonl").open("w") as file:
        for number, record in enumerate(map(json.loads, lines)):
            turn = record["turns"][0]
            turn["observation"] += f"{number}{'x' * (CHARACTERS // 2)}"
            turn["ask"] = [{"role": "user", "content": f"{number}{'y' * (CHARACTERS // 2)}"}]
            file.write(json.dumps(record) + "\n")


def test_commands_read_a_run_episode_by_episode(cli: Any, tmp_path: Path) -> None:
    needs_bwrap()
    tasks = [{"query": f"Print {n}.", "gold": f"echo {n}"} for n in range(TASKS)]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    words = ("eval", "bash", "--data", tmp_path / "tasks.jsonl", "--agent", "gold", "--workers", 2)
    run, shards = tmp_path / "run", [tmp_path / f"shard{number}" for number in (1, 2)]
    for number, shard in enumerate(shards, 1):
        cli(*words, "--shard", f"{number}/2", "--out", shard)
    assert cli("merge", *shards, "--out", run).status == 0

    def peaks(name: str) -> dict[str, int]:
        return {
            "report": peak("report", run),
            "merge": peak("merge", *shards, "--out", tmp_path / f"{name}-merged"),
            "replay": peak("replay", run),
            "rescore": peak("rescore", run, "--reward", "paper", "--out", tmp_path / name),
        }

    before = peaks("small")
    for folder in (run, *shards):
        fatten(folder)
    growth = {name: kib - before[name] for name, kib in peaks("large").items()}
    print(f"KiB that {TASKS} MB of episodes take: {growth}")
    assert max(growth.values()) < MOST, growth
