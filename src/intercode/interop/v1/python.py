"""The paper's Python reward."""

from __future__ import annotations

from collections.abc import Sequence

from intercode.envs.python.judge import score_parts
from intercode.types import Score


def score_paper(agent: Sequence[bool], gold: Sequence[bool]) -> Score:
    """Return the share of public tests with the same result as for the gold, as in InterCode v1
    (Yang et al. 2023)."""
    same = [passed == gold_passed for passed, gold_passed in zip(agent, gold, strict=True)]
    reward = sum(same) / max(1, len(same))
    return Score(reward, reward == 1, score_parts(agent, ()))
