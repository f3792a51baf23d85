"""kill -9 of an evaluation at random moments, then --resume: nothing is lost, done twice, or left over."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from families import Traces, mounts, wait_until
from lines import episodes

HERE = Path(__file__).parent
INTERCODE = str(Path(sys.executable).with_name("intercode"))
Results = dict[tuple[str, int], dict[str, Any]]


def start(folder: Path, agent: str, epochs: int) -> subprocess.Popen[bytes]:
    """An evaluation in a process group of its own, that goes on with what is in its folder."""
    words = ["eval", "bash", "--agent", agent, "--epochs", str(epochs), "--resume", str(folder), "--json"]
    return subprocess.Popen(
        [INTERCODE, *words],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def kill_after(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """kill -9 of the group at that moment, and how many processes it had started; None if it had finished before."""
    try:
        process.communicate(timeout=seconds)
        assert process.returncode == 0
        return None
    except subprocess.TimeoutExpired:
        pass
    os.killpg(process.pid, signal.SIGSTOP)
    traces = Traces.of(process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not traces.left())
    assert traces.left() == set(), "processes outlive the evaluation"
    return len(traces.processes)


def finish(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err.decode()
    found: dict[str, Any] = json.loads(out)
    return found


def results(folder: Path) -> Results:
    """The finished episodes, without the time that each turn took. Each is there once, and every line is whole."""
    found: Results = {}
    for line in episodes(folder):
        assert line["error"] is None
        assert (line["task"], line["epoch"]) not in found
        found[line["task"], line["epoch"]] = line
    return found


def kill_and_resume(tmp_path: Path, agent: str, epochs: int, kills: int, seed: int) -> tuple[list[int], int]:
    """Runs that are killed until there were so many kills: how many processes each of them met; the number of runs.

    Kills come within half of what an undisturbed run takes, so that most runs are killed more than once.
    """
    began = time.monotonic()
    undisturbed = finish(start(tmp_path / "undisturbed", agent, epochs))
    whole = time.monotonic() - began
    expected = results(tmp_path / "undisturbed")
    before = mounts()
    moments, met, runs = random.Random(seed), list[int](), 0
    while len(met) < kills:
        runs += 1
        folder = tmp_path / f"run{runs}"
        while len(met) < kills:
            alive = kill_after(start(folder, agent, epochs), moments.uniform(0.05, max(2.0, whole / 2)))
            if alive is None:
                break
            met.append(alive)
        summary = finish(start(folder, agent, epochs))
        assert results(folder) == expected
        for figures in (summary, undisturbed):
            figures.update(seconds=None, run=None)
        assert summary == undisturbed
    assert mounts() == before
    return met, runs


@pytest.mark.slow
def test_a_run_killed_a_few_times_is_finished_by_resuming(tmp_path: Path) -> None:
    met, _ = kill_and_resume(tmp_path, "busy_agent:agent", epochs=2, kills=6, seed=1)
    assert len(met) == 6
    assert max(met) > 4, "a kill met live sandboxes"


@pytest.mark.soak
@pytest.mark.parametrize("agent", ["busy_agent:agent", "retrieval"])
def test_a_run_killed_at_fifty_moments_is_finished_by_resuming(tmp_path: Path, agent: str) -> None:
    met, runs = kill_and_resume(tmp_path, agent, epochs=8, kills=50, seed=20)
    assert len(met) == 50
    assert sum(alive > 4 for alive in met) > 25, "most kills met live sandboxes"
    assert runs < 25, "most kills hit a run that had begun before"
