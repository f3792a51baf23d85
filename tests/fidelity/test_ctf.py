"""InterCode's CTF tasks: all load, those whose files are here run, and the data's known defects are
found by rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.agents import gold, noop
from intercode.runner.run import evaluate
from intercode.validate.check import check

pytestmark = pytest.mark.fidelity
WITH_ASSETS = {3, 4, 10, 12, 56, 60, 69}
WITH_NETWORK = {1, 7, 9, 14, 16, 20, 28, 29, 35, 39, 41, 42, 43, 54, 57, 62, 66, 73, 87, 88, 89, 95}
SELF_CONTAINED = {17, 18, 19, 22, 40, 90}
"""Without a local asset and without a need for one; the others of those 17 want the network."""


@pytest.fixture(scope="module")
def world(public_data: Path) -> dict[str, Any]:
    needs_bwrap()
    if not (public_data / "ctf" / "ic_ctf.json").exists():
        pytest.skip("no public CTF tasks: INTERCODE_DATA has no folder ctf")
    return {
        "data": str(public_data / "ctf" / "ic_ctf.json"),
        "assets": str(public_data / "ctf" / "task_assets"),
    }


def test_a_hundred_tasks_load_every_flag_pays_and_broken_ones_are_found(
    world: dict[str, Any],
) -> None:
    everything = intercode.prepare("ctf", everything=True, **world)
    assert len(everything.tasks) == 100
    assert all(
        episode.success for episode in evaluate(everything, gold, tasks=everything.tasks, workers=2)
    )
    assert not any(
        episode.success for episode in evaluate(everything, noop, tasks=everything.tasks, workers=2)
    )
    needs_network = {int(task.id) for task in everything.tasks if task.extra["needs_network"]}
    assert needs_network <= WITH_NETWORK
    assert len(needs_network) >= 21, "one says nothing of it"
    assert {int(task.id) for task in everything.tasks if task.extra["broken_gold"]} == {15, 76}
    said = check(everything, everything.tasks, workers=2)
    findings = [
        (int(finding["task"]), finding["why"]) for finding in said["broken"] + said["suspicious"]
    ]
    assert {15, 76} <= {task for task, _ in findings}
    assert {task for task, why in findings if "plain text" in why} == {4}


def test_tasks_with_files_run_and_find_them(world: dict[str, Any]) -> None:
    env: Any = intercode.make("ctf", **world)
    assert {int(task.id) for task in env.tasks} == WITH_ASSETS | SELF_CONTAINED | {5}, (
        "5 has the words of 90, and a file"
    )
    for task in WITH_ASSETS:
        env.reset(options={"task": str(task)})
        listed = env.step("ls")[0].split()
        assert listed == sorted(path.name for path in Path(world["assets"], str(task)).iterdir())
        assert env.step("wc -c *")[4]["exit_code"] == 0
    env.close()
