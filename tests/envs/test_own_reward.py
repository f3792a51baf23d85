"""A reward function of the caller's is held to its contract, whatever the environment."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

import intercode
from intercode.errors import UsageError
from intercode.types import Score

PLAYED = {
    "bash": ["submit"],
    "sql": ["SELECT 1", "submit"],
    "python": ["def f(x): return x", "submit f"],
    "ctf": ["submit flag"],
}
NO_SCORES = [
    Score(2.0, True),
    Score(float("nan"), False),
    Score(1.0, "yes"),  # type: ignore[arg-type]
    Score(1.0, True, {"why": "so"}),  # type: ignore[dict-item]
]

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.mark.parametrize("env_name", PLAYED)
@pytest.mark.parametrize("given", [2, -0.5, float("nan"), None, "1", *NO_SCORES])
def test_what_is_no_score_is_refused(env_name: str, given: Any) -> None:
    with intercode.make(env_name, limit=1, reward=lambda *asked: given) as env:
        env.reset(seed=0)
        *before, last = PLAYED[env_name]
        for action in before:
            env.step(action)
        with pytest.raises(UsageError, match="a reward function returns a Score"):
            env.step(last)


@pytest.mark.parametrize("env_name", PLAYED)
def test_an_unknown_name_is_refused_with_the_known_ones(env_name: str) -> None:
    with pytest.raises(UsageError, match=r"reward 'best': it is 'exact', 'paper'.* or a function of \("):
        intercode.make(env_name, limit=1, reward="best")
