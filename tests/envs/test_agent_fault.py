"""Whose fault a dead sandbox was. An agent that ends its own earns 0; a machine that does is an
error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from families import OVERWRITE_INIT, killing_the_wall_at, wait_until

from intercode.errors import SandboxDied
from intercode.types import Outcome, Score, Task

Make = Callable[..., Any]
pytestmark = pytest.mark.slow

MARK = "sleep 61.75"


def solves(env: Any) -> bool:
    """Whether an honest episode earns 1 in there."""
    env.reset(options={"task": "count"})
    env.step("ls /box | wc -l")
    return bool(env.step("submit")[1] == 1.0)


def test_an_action_that_kills_every_sandbox_is_the_agents_fault_and_no_reward_pays_it(
    make: Make,
) -> None:
    def always(agent: Outcome, gold: Outcome, task: Task) -> Score:
        return Score(1.0, True)

    env = make("count", "cd /box", "touch new", reward=always)
    with killing_the_wall_at(MARK, times=9) as killed:
        observation, reward, terminated, truncated, info = env.step(MARK)
    assert len(killed) >= 2
    assert (reward, terminated, truncated, info["ended"]) == (0.0, True, False, "agent_fault")
    assert (info["score"], observation) == (
        Score(0.0, False),
        "[the sandbox did not survive this action]",
    )
    env.reset(options={"task": "count"})
    assert env.step("ls /box")[0] == "a\nb\nc\n"


def test_a_death_that_does_not_happen_again_is_the_machines_fault(make: Make) -> None:
    env = make("count", "cd /box")
    with (
        killing_the_wall_at(MARK, times=1),
        pytest.raises(SandboxDied, match="did not happen again"),
    ):
        env.step(f"timeout 0.5 {MARK}")
    env.tasks.append(Task("fatal", "Die.", f"timeout 0.5 {MARK}"))
    with killing_the_wall_at(MARK, times=1), pytest.raises(SandboxDied):
        env.reset(options={"task": "fatal"})
    env.tasks.pop()
    assert solves(env), "and after a death under a gold"


def test_a_death_between_two_turns_is_decided_at_the_pace_of_the_episode(make: Make) -> None:
    """Re-executed faster than it was, the episode would be over before the job that kills."""
    env = make("count")
    with killing_the_wall_at(MARK, times=9) as killed:
        env.step(f"(sleep 0.5; {MARK}) &")
        assert wait_until(lambda: len(killed) == 1), "while the model thinks"
        *_, info = env.step("echo the next action")
    assert len(killed) >= 2
    assert info["ended"] == "agent_fault"


def test_an_agent_that_breaks_its_sandbox_from_inside_earns_0_and_no_error(make: Make) -> None:
    env = make()
    later = f"( {OVERWRITE_INIT} ) >/dev/null 2>&1 & sleep 0.02"
    for action in (
        OVERWRITE_INIT,
        later,
        "kill -9 -1",
        "exit",
        "exec true",
        "kill -9 $$",
        "rm -rf /* 2>/dev/null",
    ):
        env.reset(options={"task": "touch"})
        *_, terminated, _, info = env.step(action)
        if not terminated:
            assert env.step("echo alive")[0].endswith("alive\n")
            *_, info = env.step("submit")
        assert (info["ended"] in ("agent_fault", "submit"), info["score"].success) == (
            True,
            False,
        ), action
    assert solves(env)
