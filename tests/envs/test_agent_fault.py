"""Whose fault a dead sandbox was. An agent that ends its own earns 0; a machine that does is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from families import OVERWRITE_INIT, killing_the_wall_at, wait_until

from intercode.errors import SandboxDied
from intercode.sandbox.base import Limits
from intercode.types import Outcome, Score, Task

Make = Callable[..., Any]
pytestmark = pytest.mark.slow

MARK = "sleep 61.75"


def begun(make: Make, *actions: str, task: str = "count", **options: Any) -> Any:
    env = make(**options)
    env.reset(seed=0, options={"task": task})
    for action in actions:
        env.step(action)
    return env


def test_an_action_that_kills_every_sandbox_is_the_agents_fault(make: Make) -> None:
    env = begun(make, "cd /box", "touch new")
    with killing_the_wall_at(MARK, times=2) as killed:
        observation, reward, terminated, truncated, info = env.step(MARK)
    assert len(killed) == 2
    assert (reward, terminated, truncated, info["ended"]) == (0.0, True, False, "agent_fault")
    assert (info["score"].success, observation) == (False, "[the sandbox did not survive this action]")
    env.reset(options={"task": "count"})
    assert env.step("ls /box")[0] == "a\nb\nc\n"
    env.step("ls /box | wc -l")
    assert env.step("submit")[1] == 1.0


def test_a_death_that_does_not_happen_again_is_the_machines_fault(make: Make) -> None:
    env = begun(make, "cd /box")
    with killing_the_wall_at(MARK, times=1), pytest.raises(SandboxDied, match="did not happen again"):
        env.step(f"timeout 1 {MARK}")
    env.reset(options={"task": "touch"})
    env.step("touch /box/new")
    assert env.step("submit")[1] == 1.0


def test_a_death_under_the_papers_protocol_earns_nothing_that_was_earned_before(make: Make) -> None:
    env = begun(make, protocol="paper")
    assert env.step("true")[1] > 0
    with killing_the_wall_at(MARK, times=2):
        _, reward, terminated, _, info = env.step(MARK)
    assert (reward, terminated, info["ended"], info["score"].reward) == (0.0, True, "agent_fault", 0.0)


def test_a_death_between_two_turns_is_decided_at_the_pace_of_the_episode(make: Make) -> None:
    """Re-executed faster than it was, the episode would be over before the job that kills."""
    env = begun(make)
    with killing_the_wall_at(MARK, times=2) as killed:
        env.step(f"(sleep 0.5; {MARK}) &")
        assert wait_until(lambda: len(killed) == 1), "while the model thinks"
        *_, info = env.step("echo the next action")
    assert len(killed) == 2
    assert info["ended"] == "agent_fault"


def test_a_death_while_the_state_is_scored_is_decided_too(make: Make) -> None:
    """The sandbox dies when the submission looks at it: once is the machine's fault, twice the agent's."""
    for times, ended in ((2, "agent_fault"), (1, None)):
        env = begun(make, f"({MARK}; true) >/dev/null 2>&1 &")
        with killing_the_wall_at(MARK, times=times) as killed:
            assert wait_until(lambda killed=killed: len(killed) == 1)
            if ended:
                assert env.step("submit")[4]["ended"] == ended
            else:
                with pytest.raises(SandboxDied, match="did not happen again"):
                    env.step("submit")


def test_a_death_on_the_second_contents_is_decided_too(make: Make) -> None:
    env = begun(make, f"grep -q apple /box/a || {MARK}; cat /box/a", task="first")
    with killing_the_wall_at(MARK, times=2) as killed:
        _, reward, terminated, _, info = env.step("submit")
    assert len(killed) == 2
    assert (reward, terminated, info["ended"]) == (0.0, True, "agent_fault")


def test_an_agent_that_breaks_init_from_inside_earns_0_and_no_error(make: Make) -> None:
    env = make()
    for task in ("count", "touch", "names"):
        env.reset(options={"task": task})
        *_, terminated, _, info = env.step(OVERWRITE_INIT)
        if not terminated:
            _, reward, terminated, _, info = env.step("submit")
            assert reward == 0.0
        assert info["ended"] in ("agent_fault", "submit")
        assert not info["score"].success
    env.reset(options={"task": "count"})
    env.step("ls /box | wc -l")
    assert env.step("submit")[1] == 1.0


@pytest.mark.parametrize("action", ["kill -9 -1", "exit", "exec true", "exec sleep 60", "kill -9 $$", "rm -rf /* 2>/dev/null"])
def test_rough_actions_cost_the_agent_its_shell_or_files_at_most(make: Make, action: str) -> None:
    env = begun(make, action, limits=Limits(seconds=1))
    assert env.step("echo alive")[0].endswith("alive\n")
    _, reward, terminated, _, info = env.step("submit")
    assert (reward, terminated, info["ended"]) == (0.0, True, "submit")


def test_a_reward_function_cannot_turn_a_broken_sandbox_into_a_success(make: Make) -> None:
    def always(agent: Outcome, gold: Outcome, task: Task) -> Score:
        return Score(1.0, True)

    env = begun(make, reward=always)
    with killing_the_wall_at(MARK, times=2):
        _, reward, _, _, info = env.step(MARK)
    assert (reward, info["score"]) == (0.0, Score(0.0, False))
