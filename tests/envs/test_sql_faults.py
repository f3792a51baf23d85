"""Whose fault a dead database server was. An agent that ends its own earns 0; a machine that does is an error, never a 0."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from families import wait_until
from orchard import ENDLESS, GOLDS, Pool, kill_server, orchard_databases, plays, pool, server_of

from intercode.engines import Engine, sqlite
from intercode.envs.golds import Golds
from intercode.envs.sql import SqlEnv
from intercode.envs.sqlground import Worlds
from intercode.errors import SandboxDied
from intercode.runner.run import evaluate
from intercode.sandbox.base import MIB, Limits
from intercode.sandbox.local import LocalSandbox
from intercode.types import Score, Table, Task

pytestmark = pytest.mark.slow

GREEDY = (
    "TABLE {} AS WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < {}) SELECT zeroblob(1000000) FROM r"
)


@contextmanager
def killing(env: Any, times: int) -> Iterator[list[int]]:
    """While the block runs, kills the environment's server a moment after it is seen, and the next where it acts again."""
    killed: list[int] = []
    over, again = threading.Event(), threading.Event()
    redo = env._redo
    env._redo = lambda: (again.set(), redo())

    def strike() -> None:
        while len(killed) < times and not over.wait(0.01):
            pid = server_of(env._engine)
            if pid and (not killed or again.is_set()) and pid not in killed and not over.wait(0.5):
                killed.append(kill_server(env._engine))

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def test_a_death_that_does_not_happen_again_is_the_machines_fault(sql: Any, servers: Pool) -> None:
    env = sql("count", "DELETE FROM picking", seconds=1.5)
    with killing(env, times=1) as killed, pytest.raises(SandboxDied, match="did not happen again"):
        env.step(ENDLESS[servers.engine])
    assert len(killed) == 1
    assert plays(env, "count", GOLDS["count"]).success


def test_an_action_that_kills_every_server_is_the_agents_fault(sql: Any, servers: Pool) -> None:
    env = sql("count", GOLDS["count"], seconds=10)
    with killing(env, times=2) as killed:
        observation, reward, terminated, truncated, info = env.step(ENDLESS[servers.engine])
    assert len(killed) == 2
    assert (reward, terminated, truncated, info["ended"]) == (0.0, True, False, "agent_fault")
    assert (info["score"].success, observation) == (False, "[the sandbox did not survive this action]")
    assert plays(env, "count", GOLDS["count"]).success


def test_nothing_that_was_earned_before_is_kept_under_the_papers_protocol(sql: Any, servers: Pool) -> None:
    env = sql("kinds", protocol="paper", seconds=10)
    assert env.step("SELECT kind, COUNT(*) FROM tree WHERE kind <> 'plum' GROUP BY kind ORDER BY 2 DESC")[1] == 0.75
    with killing(env, times=2):
        _, reward, terminated, _, info = env.step(ENDLESS[servers.engine])
    assert (reward, terminated, info["ended"], info["score"].reward) == (0.0, True, "agent_fault", 0.0)


def test_a_server_that_dies_while_the_model_thinks_is_the_machines_fault(sql: Any) -> None:
    env = sql("count", "DELETE FROM picking")
    kill_server(env._engine)
    with pytest.raises(SandboxDied, match="did not happen again"):
        env.step(GOLDS["count"])
    assert plays(env, "count", GOLDS["count"]).success


def test_a_server_that_dies_before_an_episode_is_replaced(sql: Any) -> None:
    """Whether its gold is known already, or not."""
    env = sql("count", "DELETE FROM picking")
    for task in ("count", "lost", "words"):
        kill_server(env._engine)
        assert plays(env, task, GOLDS[task]).success


def test_the_server_of_the_second_contents_may_die_between_episodes(sql: Any) -> None:
    env = sql()
    assert plays(env, "weights", GOLDS["weights"]).success
    kill_server(env._elsewhere)
    score = plays(env, "weights", GOLDS["weights"])
    assert (score.success, score.parts["robust"]) == (True, 1.0)


def test_a_death_is_an_error_of_the_run_and_no_reward(sql: Any, servers: Pool) -> None:
    from intercode.agents import Act, Moves

    env = sql(seconds=1.5)

    def agent(task: Task, protocol: str) -> Moves:
        yield Act(ENDLESS[servers.engine] if task.id == "lost" else task.gold)
        yield Act("submit")

    agent.needs_model = False  # type: ignore[attr-defined]
    tasks = [task for task in env.tasks if task.id in ("count", "lost", "kinds")]
    with killing_at(env, "lost"):
        episodes = evaluate(lambda: env, agent, tasks=tasks)
    reward, error = next((episode.reward, episode.error or "") for episode in episodes if episode.task == "lost")
    assert reward is None
    assert error.startswith("sandbox: ")
    assert "died" in error


@contextmanager
def killing_at(env: Any, task: str) -> Iterator[None]:
    def strike() -> None:
        if wait_until(lambda: env._task is not None and env.task.id == task and env.turn == 1):
            kill_server(env._engine)

    thread = threading.Thread(target=strike)
    thread.start()
    yield
    thread.join()


def test_a_reward_function_cannot_turn_a_dead_server_into_a_success(sql: Any, servers: Pool) -> None:
    def always(agent: Table | None, gold: Table | None, task: Task) -> Score:
        return Score(1.0, True)

    env = sql("count", reward=always, seconds=10)
    with killing(env, times=2):
        _, reward, _, _, info = env.step(ENDLESS[servers.engine])
    assert (reward, info["score"]) == (0.0, Score(0.0, False))


# -- an agent that can ----------------------------------------------------------------------------------------------------


class Cramped(sqlite.SqliteEngine):
    """Its sandbox has less memory than its server thinks: a greedy statement ends everything in there."""

    def _new_sandbox(self) -> LocalSandbox:
        room = 512 * MIB
        limits = Limits(memory=256 * MIB, disk=room, file_size=room, processes=16)
        return LocalSandbox(self._prepared, limits=limits, session="stateless")


@pytest.fixture
def cramped() -> Iterator[Callable[[type[sqlite.SqliteEngine]], Any]]:
    with pool("sqlite") as own:
        tasks = own.lent()().tasks
        content = orchard_databases()
        prepared = sqlite.prepare(content)
        envs = []

        def made(kind: type[sqlite.SqliteEngine]) -> Any:
            first: Callable[[], Engine] = lambda: kind(prepared, content)  # noqa: E731
            envs.append(SqlEnv(tasks, Worlds(first, None, False, content.digest), golds=Golds()))
            return envs[-1]

        yield made
        for env in envs:
            env.close()


def test_an_agent_that_ends_its_server_at_the_memory_limit_is_at_fault(cramped: Any) -> None:
    env = cramped(Cramped)
    env.reset(options={"task": "count"})
    for action in (
        "CREATE " + GREEDY.format("on_disk", 170),
        "CREATE TEMP " + GREEDY.format("in_memory", 110),
        ENDLESS["sqlite"],
    ):
        _, reward, terminated, _, info = env.step(action)
        if terminated:
            break
    assert (reward, terminated, info["ended"], info["score"].success) == (0.0, True, "agent_fault", False)
    assert plays(env, "count", GOLDS["count"]).success


def test_where_the_server_knows_its_limit_it_refuses(cramped: Any) -> None:
    env = cramped(sqlite.SqliteEngine)
    env.reset(options={"task": "count"})
    seen, *_, info = env.step("CREATE TEMP " + GREEDY.format("in_memory", 6000))
    assert (seen, info["timed_out"]) == ("Error executing query: out of memory", False)
    env.step(GOLDS["count"])
    assert env.step("submit")[1] == 1.0
