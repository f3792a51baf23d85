"""The paper's reward for a flag."""

from __future__ import annotations

from intercode.envs.ctf.judge import score_flag
from intercode.types import Score


def flag_paper(submitted: str, flag: str) -> Score:
    """Score the flag, ignoring case."""
    return score_flag(submitted.strip().lower(), flag.strip().lower())
