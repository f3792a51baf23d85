"""The paper's Bash reward against what InterCode v1 wrote down: every part that it recorded is
computed again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from intercode.agents.tfidf import similarity
from intercode.interop.v1.bash import BASE, WEIGHT, answer, effects
from intercode.types import Outcome

DATA = (
    Path(os.environ.get("INTERCODE_DATA") or Path(__file__).parents[3] / "shared" / "data")
    / "recorded"
)

pytestmark = [
    pytest.mark.fidelity,
    pytest.mark.skipif(
        not DATA.is_dir(),
        reason="no recorded runs: set INTERCODE_DATA to the folder of public data",
    ),
]


def episodes() -> Iterator[dict[str, Any]]:
    for path in sorted(DATA.glob("ic_bash_*.json")):
        recorded = json.loads(path.read_text())
        yield from recorded.get("logs", recorded).values()


def last_turns() -> list[dict[str, Any]]:
    """What is known in full of the last turn of each episode, with that turn's reward."""
    return [
        {**episode["info"], "total": episode["turn_history"]["rewards"][-1]}
        for episode in episodes()
        if "answer_similarity" in (episode.get("info") or {})
    ]


def test_each_recorded_part_of_the_reward_is_computed_again() -> None:
    turns = last_turns()
    assert len(turns) > 200
    complete = [turn for turn in turns if None not in (turn["agent_obs"], turn["eval_obs"])]
    assert len(complete) >= 0.95 * len(turns)
    for turn in complete:
        ours, theirs = Outcome(turn["agent_obs"]), Outcome(turn["eval_obs"])
        close = similarity(ours.output, theirs.output)
        assert (float(ours == theirs) if close is None else close) == pytest.approx(
            turn["answer_similarity"], abs=1e-9
        )
        assert answer(ours, theirs) == pytest.approx(turn["reward"]["answer_similarity"], abs=1e-12)
    for turn in turns:
        extra, missing = (
            {tuple(entry) for entry in turn[side]} for side in ("diff_extra", "diff_miss")
        )
        assert effects(extra, missing) == pytest.approx(turn["reward"]["file_diff"], abs=1e-12)
        same = turn.get("diff_same", {"correct": 1, "total": 1})
        assert (
            round(WEIGHT * (same["correct"] / same["total"]), 2) == turn["reward"]["file_changes"]
        )
        assert BASE + sum(turn["reward"].values()) == pytest.approx(turn["total"], abs=1e-9)
