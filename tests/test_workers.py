"""The results of a run do not depend on how many workers made it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap
from lines import episodes

from intercode.evaluation import Evaluation

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {
    "agent": "gold", "model": None, "turns": 10, "epochs": 1, "seed": 5, "temperature": 0.0, "max_cost": None,
    "max_tokens": None, "max_seconds": None, "sandbox": "local", "data": None, "limit": 20,
}  # fmt: skip


def results(folder: Path, workers: int, **options: Any) -> dict[tuple[str, int], dict[str, Any]]:
    """The episodes by task and epoch."""
    evaluation = Evaluation.plan("bash", **{**OPTIONS, **options})
    with evaluation.open(folder, resume=False, workers=workers) as store:
        evaluation.run(store, workers=workers)
    lines = episodes(folder)
    found = {(line["task"], line["epoch"]): line for line in lines}
    assert len(found) == len(lines)
    return found


def test_one_worker_and_eight_have_equal_results(tmp_path: Path) -> None:
    needs_bwrap()
    options = {"agent": "retrieval", "protocol": "paper", "turns": 2}
    alone, many = results(tmp_path / "alone", 1, **options), results(tmp_path / "many", 8, **options)
    assert len(alone) == 20
    assert many == alone
