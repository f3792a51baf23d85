"""A reward function of the caller's is held to its contract, whatever the environment."""

from __future__ import annotations

from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.envs.rewards import call_reward
from intercode.errors import UsageError
from intercode.types import Score, Task

TASK = Task("t", "?", "x")
WRONG = [
    *(2, -0.5, float("nan"), None, "1", 10**400),
    *(Score(2.0, True), Score(float("nan"), False), Score("x", 1, 3)),  # type: ignore[arg-type]
    *(Score(0.0, 1), Score(0.0, False, {"n": ("x")}), Score(10**400, True)),  # type: ignore[arg-type, dict-item]
    Score(1.0, True, {"digest": 2**63}),
]


@pytest.mark.parametrize("given", WRONG)
def test_what_is_no_score_is_refused(given: Any) -> None:
    with pytest.raises(
        UsageError,
        match=r"the reward .*<lambda>, called for task t, returned .+; it must return a Score",
    ):
        call_reward(lambda task: given, TASK)


@pytest.mark.parametrize(
    ("error", "told"), [(KeyError("of"), "KeyError: 'of'"), (SystemExit(7), "SystemExit: 7")]
)
def test_a_reward_that_raises_is_named_with_the_task(error: BaseException, told: str) -> None:
    def failing(task: Task) -> float:
        raise error

    with pytest.raises(
        UsageError,
        match=rf"the reward .*failing, called for task t, raised {told} \(test_own_reward.py, ",
    ):
        call_reward(failing, TASK)


@pytest.mark.parametrize(
    ("env_name", "actions"),
    [
        ("bash", ["submit"]),
        ("sql", ["SELECT 1", "submit"]),
        ("python", ["def f(x): return x", "submit f"]),
        ("ctf", ["submit flag"]),
    ],
)
def test_every_environment_asks_a_reward_and_refuses_what_is_no_score(
    env_name: str, actions: list[str]
) -> None:
    needs_bwrap()
    given: list[Any] = [0.25, None]
    with intercode.make(env_name, limit=1, reward=lambda *asked: given.pop(0)) as env:
        for _ in range(2):
            env.reset(seed=0)
            for action in actions[:-1]:
                env.step(action)
            if len(given) == 2:
                assert env.step(actions[-1])[1] == 0.25
            else:
                with pytest.raises(
                    UsageError, match=r"called for task .+, returned None; it must return a Score"
                ):
                    env.step(actions[-1])
