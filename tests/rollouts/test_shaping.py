"""Trainers get success, and the shaped reward only if they ask for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from kept import needs_bwrap
from orchard import GOLDS, prepared, skip_unless_there, write_data

import intercode
from intercode.envs.sql.env import SqlEnv
from intercode.errors import SandboxDied
from intercode.factory import EnvFactory
from intercode.models import ScriptedModel
from intercode.train import RolloutPool
from intercode.train.adapters.trl import Rollouts, environments
from intercode.types import ExecResult

GOLD = GOLDS["kinds"]
PART = f"{GOLD} LIMIT 3"
"""Three of the gold's four rows: no success, but 0.99 · 3/4 as the shaped reward."""

shaping = pytest.mark.filterwarnings("ignore:shaped=True")


class BreakingEnv(SqlEnv):
    """The machine loses its sandbox at each statement."""

    def execute(self, action: str) -> ExecResult:
        raise SandboxDied("the machine has lost the sandbox")


def model(answer: str) -> ScriptedModel:
    return ScriptedModel([f"```sql\n{answer}\n```", "```sql\nsubmit\n```"])


def half(answer: object, gold: object, task: object) -> float:
    """A reward of one's own."""
    return 0.5


@pytest.fixture(scope="module")
def factory() -> EnvFactory:
    return prepared("sqlite")


def rewards_at_all_doors(factory: EnvFactory, answer: str, shaped: bool) -> list[float | None]:
    """Return the reward of one episode with this answer from each way to play it."""

    async def drive(pool: RolloutPool) -> float | None:
        async with pool.episode(("kinds", 3)) as lent:
            for code in (answer, "submit"):
                if not lent.done:
                    await lent.feed(f"```sql\n{code}\n```")
            return lent.reward

    tools = environments(factory, shaped=shaped)[1]()
    tools.reset("kinds")
    tools.execute(answer)
    with Rollouts(factory, shaped=shaped).pool as pool:
        played = [
            *pool.run([("kinds", 3)], model(answer)),
            asyncio.run(pool.play(("kinds", 3), model(answer))),
        ]
        assert pool.stats().reward == played[0].reward
        tree = pool.tree(("kinds", 3), model(answer), widths=(2,))
        rewards = [rollout.reward for rollout in played]
        return [*rewards, tree.root.reward, asyncio.run(drive(pool)), tools.get_reward()]


def test_a_wrong_answer_that_has_right_rows_earns_nothing(factory: EnvFactory) -> None:
    assert rewards_at_all_doors(factory, PART, shaped=False) == [0.0] * 5
    assert rewards_at_all_doors(factory, GOLD, shaped=False) == [1.0] * 5


@shaping
def test_it_earns_a_fraction_where_the_trainer_asks_for_the_shaped_reward(
    factory: EnvFactory,
) -> None:
    assert rewards_at_all_doors(factory, PART, shaped=True) == pytest.approx([0.7425] * 5)
    assert rewards_at_all_doors(factory, GOLD, shaped=True) == [1.0] * 5


def test_the_episode_of_a_rollout_has_the_shaped_reward(factory: EnvFactory) -> None:
    with RolloutPool(factory, envs=1) as pool:
        (rollout,) = pool.run(["kinds"], model(PART))
    episode = rollout.episode
    assert (rollout.reward, episode.success) == (0.0, False)
    assert episode.reward == pytest.approx(0.7425)


@shaping
def test_a_fault_has_no_reward(tmp_path: Path) -> None:
    skip_unless_there("sqlite")
    factory = intercode.prepare("test_shaping:BreakingEnv", data=str(write_data(tmp_path / "data")))
    assert rewards_at_all_doors(factory, GOLD, shaped=True) == [None] * 5


@shaping
def test_a_number_from_a_reward_of_ones_own_is_a_success_only_at_1() -> None:
    factory = prepared("sqlite", reward=half)
    for shaped, reward in ((False, 0.0), (True, 0.5)):
        with RolloutPool(factory, envs=1, shaped=shaped) as pool:
            assert [rollout.reward for rollout in pool.run(["kinds"], model(GOLD))] == [reward]


def test_asking_for_the_shaped_reward_warns_once_per_process() -> None:
    needs_bwrap()
    script = """
import intercode
from intercode.train.adapters.trl import Rollouts, environments
factory = intercode.prepare("sql")
environments(factory)
Rollouts(factory).pool.close()
print("asking", flush=True)
environments(factory, shaped=True)
Rollouts(factory, shaped=True).pool.close()
intercode.train.RolloutPool(factory, shaped=True).close()
"""
    command = [sys.executable, "-W", "always:shaped=True", "-c", script]
    done = subprocess.run(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    before, _, after = done.stdout.partition("asking\n")
    assert ("shaped=True" in before, after.count("RuntimeWarning: shaped=True")) == (False, 1)
    assert "a policy that is trained on it learns partial answers" in after
