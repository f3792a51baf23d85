"""The stored runs in data/: readable, free of traces of the machine that played them, and
executable again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kept import needs_bwrap

import intercode
from intercode.report.analysis import find_categories
from intercode.rescoring.replay import prepare_replay, replay

RUNS = sorted(path.parent for path in Path(__file__).parent.glob("data/*/*/run.json"))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_a_stored_run_tells_why_each_episode_failed(path: Path) -> None:
    assert not re.search(r'"/|"signature"', (path / "run.json").read_text())
    run = intercode.read_run(path)
    assert 0 < len(run.episodes) <= run.config["planned"]
    assert run.summary["errors"] == 0
    failed = sum(not episode.success for episode in run.episodes)
    assert sum(map(len, find_categories(run.config, run.episodes).values())) == failed


@pytest.mark.slow
@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_a_stored_run_is_executed_again_with_the_same_rewards(path: Path) -> None:
    needs_bwrap()
    result = replay(*prepare_replay(str(path), None, limit=4))
    assert result["turns"] == result["agree"]
