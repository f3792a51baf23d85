"""kill -9 of an evaluation, and of the database servers under it, at random moments: then --resume.

kill the evaluation     nothing that it started is left, no half-made template; the run goes on
                        where it was
kill a server           an episode may become an error, never a reward; `--resume` plays it again
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cli_words import INTERCODE
from families import Traces, mounts, wait_until
from kept import needs_bwrap
from lines import episodes
from orchard import servers_below, skip_unless_there, write_data

Results = dict[tuple[str, int], dict[str, Any]]
AGENTS = {"bash": "busy_agent:agent", "sql": "felling_agent:agent"}


class Run:
    """One evaluation, in a folder that outlives its processes."""

    def __init__(self, folder: Path, cache: Path, words: Sequence[str]) -> None:
        self.folder = folder
        self._words = [
            INTERCODE,
            "eval",
            *words,
            "--agent",
            AGENTS[words[0]],
            "--resume",
            str(folder),
            "--json",
        ]
        self._variables = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent),
            "INTERCODE_CACHE": str(cache),
        }

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._words,
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self) -> dict[str, Any]:
        process = self.start()
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        return {**json.loads(out), "seconds": None, "run": None}

    def results(self) -> Results:
        """The scored episodes, each there once. The others are errors of the sandbox's, without a
        reward."""
        found: Results = {}
        for line in episodes(self.folder):
            if line["error"] is not None:
                assert line["reward"] is None
                assert line["error"].startswith("sandbox: "), line["error"]
                continue
            assert (line["task"], line["epoch"]) not in found
            found[line["task"], line["epoch"]] = line
        return found

    def disturb(self, chance: random.Random, patience: float) -> str:
        """One process of the run, and one blow at a random moment: what was hit, or `finished`."""
        process = self.start()
        try:
            process.communicate(timeout=chance.uniform(0.05, patience))
            assert process.returncode in (0, 3)
            return "finished"
        except subprocess.TimeoutExpired:
            pass
        if chance.random() < 0.7 and (servers := sorted(servers_below(process.pid))):
            with suppress(ProcessLookupError):
                os.kill(chance.choice(servers), signal.SIGKILL)
            _, err = process.communicate(timeout=120)
            assert process.returncode in (0, 2, 3), err
            assert "Traceback" not in err, err
            assert process.returncode == 0 or "intercode: " in err, "it says what happened"
            return "server"
        os.killpg(process.pid, signal.SIGSTOP)
        traces = Traces.of(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert wait_until(lambda: not traces.left()), "processes outlive the evaluation"
        return "evaluation" if len(traces.processes) > 4 else "beginning"


def kill_and_resume(
    tmp_path: Path, words: Sequence[str], caches: Sequence[Path], kills: int
) -> Counter[str]:
    """Runs that are hit until there were so many kills: what was hit how often.

    Kills come within half of what an undisturbed run takes, so that most runs are hit more than
    once. The caches are taken in turn; where one is empty, templates are being made at some of the
    moments.
    """
    undisturbed = Run(tmp_path / "undisturbed", caches[0], words)
    began = time.monotonic()
    figures = undisturbed.finish()
    patience = max(2.0, (time.monotonic() - began) / 2)
    expected, before = undisturbed.results(), mounts()
    chance, hit, runs = random.Random(kills), Counter[str](), 0
    while hit.total() - hit["finished"] < kills:
        runs += 1
        run = Run(tmp_path / f"run{runs}", caches[runs % len(caches)], words)
        while hit.total() - hit["finished"] < kills:
            what = run.disturb(chance, patience)
            hit[what] += 1
            if what == "finished":
                break
        summary = run.finish()
        assert run.results() == expected
        assert summary == figures
    assert mounts() == before
    return hit


@pytest.mark.slow
def test_a_bash_run_killed_a_few_times_is_finished_by_resuming(
    tmp_path: Path, empty_cache: Path
) -> None:
    needs_bwrap()
    assert kill_and_resume(tmp_path, ["bash", "--limit", "20"], [empty_cache], kills=3)[
        "evaluation"
    ]


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["", "sqlite", "mariadb"])
def test_a_run_hit_at_forty_moments_is_finished_by_resuming(
    tmp_path: Path, empty_cache: Path, engine: str
) -> None:
    words = ["bash", "--epochs", "8"]
    if engine:
        skip_unless_there(engine)
        words = [
            "sql",
            "--engine",
            engine,
            "--data",
            str(write_data(tmp_path / "orchard")),
            "--epochs",
            "12",
        ]
    hit = kill_and_resume(tmp_path, words, [empty_cache / str(n) for n in range(9)], kills=40)
    assert hit["evaluation"] >= 5, hit
    assert not engine or hit["server"] >= 5, hit
