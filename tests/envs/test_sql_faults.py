"""Whose fault a dead database server was. An agent that ends its own earns 0; a machine that does
is an error, never a 0."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from orchard import ENDLESS, GOLDS, Pool, kill_server, plays, server_of

from intercode.agents import Act, StrategySteps
from intercode.errors import SandboxDied
from intercode.runner.run import evaluate
from intercode.types import Score, Table, Task

pytestmark = pytest.mark.slow


@contextmanager
def killing(env: Any, times: int) -> Iterator[list[int]]:
    """While the block runs, kills the environment's server a moment after it is seen, and the next
    where it acts again."""
    killed: list[int] = []
    over, again = threading.Event(), threading.Event()
    redo = env._replay_episode

    def replay() -> None:
        again.set()
        try:
            redo()
        finally:
            again.clear()

    env._replay_episode = replay

    def strike() -> None:
        while len(killed) < times and not over.wait(0.01):
            pid = server_of(env.world.engine)
            if pid and (not killed or again.is_set()) and pid not in killed and not over.wait(0.3):
                killed.append(kill_server(env.world.engine))

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()
        env._replay_episode = redo


def test_a_death_that_does_not_happen_again_is_the_machines_fault(sql: Any, servers: Pool) -> None:
    """Under an action, while the model thinks, and in a run, where it is an error and no reward."""
    env = sql("count", "DELETE FROM picking", seconds=1)
    with killing(env, times=1) as killed, pytest.raises(SandboxDied, match="did not happen again"):
        env.step(ENDLESS[servers.engine])
    assert len(killed) == 1
    env.reset(options={"task": "count"})
    env.step("DELETE FROM picking")
    kill_server(env.world.engine)
    with pytest.raises(SandboxDied, match="did not happen again"):
        env.step(GOLDS["count"])
    assert plays(env, "count", GOLDS["count"]).success

    def agent(task: Task, protocol: str) -> StrategySteps:
        yield Act("SELECT 1")
        kill_server(env.world.engine)
        yield Act(task.gold)
        yield Act("submit")

    agent.needs_model = False  # type: ignore[attr-defined]
    with closing(env.fork()) as env:
        (episode,) = evaluate(lambda: env, agent, tasks=env.tasks[:1])
    assert episode.reward is None
    assert (episode.error or "").startswith("sandbox: ")
    assert "died" in (episode.error or "")


@pytest.mark.parametrize("servers", ["mariadb"], indirect=True)  # whose endless statement sleeps
def test_an_action_that_kills_every_server_is_the_agents_fault_and_no_reward_pays_it(
    sql: Any, servers: Pool
) -> None:
    def always(agent: Table | None, gold: Table | None, task: Task) -> Score:
        return Score(1.0, True)

    env = sql("count", GOLDS["count"], reward=always, seconds=10)
    with killing(env, times=9) as killed:
        observation, reward, terminated, truncated, info = env.step(ENDLESS[servers.engine])
    assert len(killed) >= 2
    assert (reward, terminated, truncated, info["ended"]) == (0.0, True, False, "agent_fault")
    assert (info["score"], observation) == (
        Score(0.0, False),
        "[the sandbox did not survive this action]",
    )
    env.reset(options={"task": "count"})
    assert env.step(GOLDS["count"])[0] == "[(7,)]"
