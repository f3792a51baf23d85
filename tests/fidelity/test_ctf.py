"""InterCode's CTF tasks: all load, those whose files are here run, and the data's known defects are found by rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.agents import gold, noop
from intercode.env import Setting
from intercode.runner.check import check
from intercode.runner.run import evaluate

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
    return {"data": str(public_data / "ctf" / "ic_ctf.json"), "assets": str(public_data / "ctf" / "task_assets")}


@pytest.fixture(scope="module")
def everything(world: dict[str, Any]) -> Setting:
    return intercode.prepare("ctf", everything=True, **world)


@pytest.fixture(scope="module")
def broken(everything: Setting) -> dict[int, str]:
    """Which task the data check complains of, and how."""
    found: dict[int, str] = {}
    said = check(everything, everything.tasks, workers=2)
    for finding in said["broken"] + said["suspicious"]:
        found[int(finding["task"])] = f"{found.get(int(finding['task']), '')}; {finding['why']}"
    return found


def test_a_hundred_tasks_load_and_every_flag_pays(everything: Setting) -> None:
    assert len(everything.tasks) == 100
    assert all(episode.success for episode in evaluate(everything, gold, tasks=everything.tasks, workers=2))
    assert not any(episode.success for episode in evaluate(everything, noop, tasks=everything.tasks, workers=2))


def test_tasks_with_files_run_and_find_them(world: dict[str, Any]) -> None:
    env: Any = intercode.make("ctf", **world)
    played = {int(task.id) for task in env.tasks}
    assert played >= WITH_ASSETS
    for task in WITH_ASSETS:
        env.reset(options={"task": str(task)})
        listed = env.step("ls")[0].split()
        assert listed == sorted(path.name for path in Path(world["assets"], str(task)).iterdir())
        assert env.step("wc -c *")[4]["exit_code"] == 0
    env.close()


def test_what_is_played_besides_brings_its_own_data(world: dict[str, Any]) -> None:
    played = {int(task.id) for task in intercode.prepare("ctf", **world).tasks}
    assert played - WITH_ASSETS == SELF_CONTAINED | {5}, "5 has the words of 90; only a file of its own sets it apart"


def test_tasks_that_need_the_network_are_found_by_what_they_say(everything: Setting) -> None:
    found = {int(task.id) for task in everything.tasks if task.extra["needs_network"]}
    assert found <= WITH_NETWORK
    assert len(found) >= 21, "one says nothing of it"


def test_broken_golds_are_found(everything: Setting, broken: dict[int, str]) -> None:
    assert {int(task.id) for task in everything.tasks if task.extra["broken_gold"]} == {15, 76}
    assert {15, 76} <= set(broken)


def test_a_flag_in_plain_text_is_found(broken: dict[int, str]) -> None:
    assert [task for task, why in broken.items() if "plain text" in why] == [4]
