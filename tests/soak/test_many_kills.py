"""Sandboxes that somebody kills from outside, many in a minute, under honest agents: an error, or
played again, never a 0."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from families import WAYS, kill_sandbox, killing_all_at, walls
from kept import kept, needs_bwrap, write_box

import intercode
from intercode.agents import Act, StrategySteps
from intercode.agents.baselines import gold
from intercode.models import ScriptedModel
from intercode.train import RolloutPool, groups
from intercode.types import Task

pytestmark = pytest.mark.soak
MODEL = ScriptedModel(["not asked"])
PAUSE = 0.3


@contextmanager
def killing(chance: random.Random, most: float) -> Iterator[Counter[str]]:
    """Kill one to four sandboxes at a time, up to `most` seconds apart: what was hit how often."""
    over, hit = threading.Event(), Counter[str]()

    def kill() -> None:
        while not over.wait(chance.uniform(0, most)):
            for _ in range(chance.choice((1, 1, 2, 4))):
                if ours := walls():
                    way = chance.choice(WAYS)
                    kill_sandbox(chance.choice(ours), way, chance)
                    hit[way] += 1

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield hit
    finally:
        over.set()
        thread.join()


def slowly(chance: random.Random) -> Callable[[Task, str], StrategySteps]:
    """The gold, at the pace of a model."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        flow, answer = gold(task, protocol), None
        with suppress(StopIteration):
            while True:
                request = flow.send(answer)
                time.sleep(chance.uniform(0, PAUSE))
                answer = yield request

    return strategy


@pytest.mark.parametrize("env", ["bash", "python"])
@pytest.mark.parametrize("retries", [0, 1])
def test_no_kill_from_outside_becomes_a_reward(env: str, retries: int) -> None:
    needs_bwrap()
    chance = random.Random(retries)
    factory = intercode.prepare(env)
    tasks = [task for task in factory.tasks if task.gold]
    jobs = groups(tasks, -(-500 // len(tasks)))[:500]
    with (
        RolloutPool(factory, slowly(chance), envs=6, retries=retries) as pool,
        killing(chance, most=6.0) as hit,
    ):
        rollouts = list(pool.run(jobs, MODEL))
    ends = Counter((rollout.reward, rollout.episode.ended) for rollout in rollouts)
    print(env, f"{retries=}", dict(hit), dict(ends))
    assert ends.keys() <= {(1.0, "submit"), (None, None)}
    assert ends[1.0, "submit"] > 400
    assert hit.total() > 10
    assert ends[None, None] <= hit.total()


def test_agents_that_all_kill_their_sandboxes_at_once_get_0_and_no_error(tmp_path: Path) -> None:
    needs_bwrap()
    mark = "sleep 61.75"
    box = write_box(tmp_path / "box", [{"id": "count", "query": "Count.", "gold": "ls /box"}])

    def fatal(task: Task, protocol: str) -> StrategySteps:
        yield Act(mark)
        yield Act("submit")

    factory, began = kept("bash", box)(), time.monotonic()
    with RolloutPool(factory, fatal, envs=64) as pool, killing_all_at(mark) as killed:
        rollouts = list(pool.run(groups(factory.tasks, 64), MODEL))
    print(len(killed), f"walls killed, {time.monotonic() - began:.0f} s")
    assert [(each.reward, each.episode.ended) for each in rollouts] == [(0.0, "agent_fault")] * 64
