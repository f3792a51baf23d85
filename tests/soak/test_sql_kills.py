"""kill -9 of an SQL evaluation, and of the database servers under it, at random moments: then --resume.

kill the evaluation     nothing that it started is left, no half-made template; the run goes on where it was
kill a server           an episode may become an error, never a reward; `--resume` plays it again
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from families import Traces, mounts, wait_until
from lines import episodes
from orchard import ENGINES, TASKS, servers_below, skip_unless_there, write

INTERCODE = str(Path(sys.executable).with_name("intercode"))
Results = dict[tuple[str, int], dict[str, Any]]


class Run:
    """One evaluation, in a folder that outlives its processes."""

    def __init__(self, folder: Path, data: Path, engine: str, cache: Path, epochs: int) -> None:
        self.folder = folder
        words = ["eval", "sql", "--data", data, "--engine", engine, "--agent", "felling_agent:agent", "--epochs", epochs]
        self._words = [*map(str, [*words, "--resume", folder, "--json"])]
        self._variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "INTERCODE_CACHE": str(cache)}

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [INTERCODE, *self._words],
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self) -> dict[str, Any]:
        process = self.start()
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        found: dict[str, Any] = json.loads(out)
        return found

    def results(self) -> Results:
        """The scored episodes without times, each there once. The others are errors of the sandbox's, without a reward."""
        found: Results = {}
        for line in episodes(self.folder):
            if line["error"] is not None:
                assert line["reward"] is None
                assert line["error"].startswith("sandbox: "), line["error"]
                continue
            assert (line["task"], line["epoch"]) not in found
            found[line["task"], line["epoch"]] = line
        return found


def end_evaluation(process: subprocess.Popen[str]) -> None:
    """kill -9 of all its own processes; whatever it had started must go with it."""
    os.killpg(process.pid, signal.SIGSTOP)
    traces = Traces.of(process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert wait_until(lambda: not traces.left()), "processes outlive the evaluation"


def end_server(process: subprocess.Popen[str], chance: random.Random) -> bool:
    """kill -9 of one of its database servers; whether there was one."""
    servers = sorted(servers_below(process.pid))
    if servers:
        try:
            os.kill(chance.choice(servers), signal.SIGKILL)
        except ProcessLookupError:
            return False
    return bool(servers)


def disturbed(run: Run, chance: random.Random, patience: float) -> str:
    """One process of the run, and one blow at a random moment: what was hit, or `finished`."""
    process = run.start()
    try:
        process.communicate(timeout=chance.uniform(0.05, patience))
    except subprocess.TimeoutExpired:
        return strike(process, chance)
    assert process.returncode in (0, 3)
    return "finished"


def strike(process: subprocess.Popen[str], chance: random.Random) -> str:
    if chance.random() < 0.7 and end_server(process, chance):
        _, err = process.communicate(timeout=120)
        assert process.returncode in (0, 2, 3), err
        assert "Traceback" not in err, err
        assert process.returncode == 0 or "intercode: " in err, "it says what happened"
        return "server"
    if process.poll() is not None:
        process.communicate()
        return "finished"
    end_evaluation(process)
    return "evaluation"


def kill_and_resume(
    tmp_path: Path, cache: Path, engine: str, kills: int, seed: int, epochs: int, fresh: bool = True
) -> Counter[str]:
    """Runs that are hit until there were so many kills: what was hit how often.

    If `fresh`, each run begins with an empty cache, so templates are being made at some of the moments.
    """
    skip_unless_there(engine)
    data = write(tmp_path / "orchard")
    undisturbed = Run(tmp_path / "undisturbed", data, engine, cache / "calm", epochs)
    figures = undisturbed.finish()
    assert figures["success_rate"] == 1.0
    expected = undisturbed.results()
    before = mounts()
    chance, hit, runs = random.Random(seed), Counter[str](), 0
    while hit["server"] + hit["evaluation"] < kills:
        runs += 1
        run = Run(tmp_path / f"run{runs}", data, engine, cache / (f"cache{runs}" if fresh else "calm"), epochs)
        while hit["server"] + hit["evaluation"] < kills:
            what = disturbed(run, chance, patience=3.0)
            hit[what] += 1
            if what == "finished":
                break
        summary = run.finish()
        found = run.results()
        assert [(found.get(key), episode) for key, episode in expected.items() if found.get(key) != episode] == []
        assert set(found) == set(expected)
        assert set(expected) == {(task["id"], epoch) for task in TASKS for epoch in range(epochs)}
        for each in (summary, figures):
            each.update(seconds=None, run=None)
        assert summary == figures
    assert mounts() == before
    return hit


@pytest.mark.slow
def test_a_run_hit_a_few_times_is_finished_by_resuming(tmp_path: Path, empty_cache: Path) -> None:
    hit = kill_and_resume(tmp_path, empty_cache, "sqlite", kills=2, seed=6, epochs=1, fresh=False)
    assert hit["server"] + hit["evaluation"] == 2


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_hit_at_thirty_moments_is_finished_by_resuming(tmp_path: Path, empty_cache: Path, engine: str) -> None:
    hit = kill_and_resume(tmp_path, empty_cache, engine, kills=30, seed=30, epochs=12)
    assert min(hit["server"], hit["evaluation"]) >= 5, hit
