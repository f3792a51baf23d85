"""A reward function of the caller's is held to its contract, whatever the environment."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

import intercode
from intercode.envs.judging import judged
from intercode.errors import DataError, UsageError
from intercode.types import Score, Task

PLAYED = {
    "bash": ["submit"],
    "sql": ["SELECT 1", "submit"],
    "python": ["def f(x): return x", "submit f"],
    "ctf": ["submit flag"],
}
WRONG = [
    *(2, -0.5, float("nan"), None, "1", 10**400),
    *(Score(2.0, True), Score(float("nan"), False), Score("x", 1, 3)),  # type: ignore[arg-type]
    *(Score(0.0, 1), Score(0.0, False, {"n": "x"}), Score(10**400, True)),  # type: ignore[arg-type, dict-item]
    Score(1.0, True, {"digest": 2**63}),
]

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.mark.parametrize("env_name", PLAYED)
@pytest.mark.parametrize("given", WRONG)
def test_what_is_no_score_is_refused(env_name: str, given: Any) -> None:
    with intercode.make(env_name, limit=1, reward=lambda *asked: given) as env:
        env.reset(seed=0)
        *before, last = PLAYED[env_name]
        for action in before:
            env.step(action)
        with pytest.raises(UsageError, match=r"the reward .*<lambda>, asked about task .+, returned .+; it returns a Score"):
            env.step(last)


@pytest.mark.parametrize("env_name", PLAYED)
@pytest.mark.parametrize(("error", "told"), [(KeyError("of"), "KeyError: 'of'"), (SystemExit(7), "SystemExit: 7")])
def test_a_reward_that_raises_is_named_with_the_task(env_name: str, error: BaseException, told: str) -> None:
    def failing(*asked: Any) -> float:
        raise error

    with intercode.make(env_name, limit=1, reward=failing) as env:
        env.reset(seed=0)
        *before, last = PLAYED[env_name]
        for action in before:
            env.step(action)
        with pytest.raises(
            UsageError, match=rf"the reward .*failing, asked about task .+, raised {told} \(test_own_reward.py, "
        ):
            env.step(last)


def test_an_error_of_ours_that_a_reward_raises_stays_what_it_is() -> None:
    def failing(task: Task) -> float:
        raise DataError("no field 'of'")

    with pytest.raises(DataError, match="no field 'of'"):
        judged(failing, Task("t", "?", "x"))


@pytest.mark.parametrize("env_name", PLAYED)
def test_an_unknown_name_is_refused_with_the_known_ones(env_name: str) -> None:
    with pytest.raises(UsageError, match=r"reward 'best': it is 'exact', 'paper'.* or a function of \("):
        intercode.make(env_name, limit=1, reward="best")
