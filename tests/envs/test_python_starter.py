"""What ships with the package, played: the starter tasks in the environment itself, alone and as a vector."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

import intercode
from intercode.agents import gold, noop
from intercode.env import Setting
from intercode.runner.check import check
from intercode.runner.run import evaluate

WAYS: list[dict[str, Any]] = [{}, {"reward": "paper"}, {"protocol": "paper"}, {"protocol": "paper", "reward": "exact"}]
pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.fixture(scope="module")
def prepared() -> Callable[..., Setting]:
    made: dict[str, Setting] = {}
    return lambda **options: made.setdefault(repr(options), intercode.prepare("python", max_turns=None, **options))


@pytest.mark.slow
@pytest.mark.parametrize("way", range(len(WAYS)))
def test_every_gold_is_right_and_doing_nothing_is_not(prepared: Callable[..., Setting], way: int) -> None:
    setting = prepared(**WAYS[way])
    assert len(setting.tasks) >= 40
    golds, nothings = (evaluate(setting, agent, tasks=setting.tasks, workers=2) for agent in (gold, noop))
    assert [e.task for e in golds if not e.success or e.reward != 1] == []
    assert [e.task for e in nothings if e.success or e.reward != 0] == []


@pytest.mark.slow
def test_the_data_check_finds_nothing(prepared: Callable[..., Setting]) -> None:
    setting = prepared()
    assert check(setting, setting.tasks, workers=2)["broken"] == []


@pytest.fixture(params=["in this process", "in others"])
def vector(request: pytest.FixtureRequest) -> Iterator[Any]:
    makers = [lambda: intercode.make("python", limit=2)] * 2
    made = SyncVectorEnv(makers) if request.param == "in this process" else AsyncVectorEnv(makers, shared_memory=False)
    with closing(made):
        yield made


def test_it_runs_in_vectors(vector: Any) -> None:
    vector.reset(seed=3)
    vector.step(("x = 1", "x = 2"))
    observations, rewards, *_, infos = vector.step(("x", "1 / 0"))
    assert observations[0] == "1\n"
    assert "ZeroDivisionError" in observations[1]
    assert list(rewards) == [0, 0]
    assert np.array_equal(infos["exit_code"], [0, 1])
