"""One hostile answer beside five honest ones, of the same user: no reward and no fault of theirs
may come of it."""

from __future__ import annotations

import pytest

from intercode.agents import gold
from intercode.envs import prepare
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play
from intercode_sandbox import local, template
from intercode_sandbox.attacks import NEIGHBOURS, SandboxAttack
from intercode_sandbox.local import LocalSandbox

GOLDS = 5


@pytest.mark.slow
@pytest.mark.rest
@pytest.mark.parametrize("shared_proc", [False, True], ids=["local", "shared-proc"])
@pytest.mark.parametrize("attack", NEIGHBOURS, ids=lambda attack: attack.name.replace(" ", "-"))
def test_golds_succeed_beside_a_hostile_answer(
    attack: SandboxAttack, shared_proc: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "shares_proc", lambda: shared_proc)
    factory = prepare("python", limit=GOLDS)
    with LocalSandbox(template.base(None)) as hostile, factory() as env:
        hostile.exec(attack.action)
        episodes = [play(env, task, gold, None, BudgetTracker()) for task in factory.tasks]
        still_held = hostile.exec("pgrep -c python3; pgrep -c sleep").output
    assert [(episode.task_id, episode.ended) for episode in episodes if not episode.success] == []
    assert len(episodes) == GOLDS
    assert still_held.split() != ["0", "0"]
