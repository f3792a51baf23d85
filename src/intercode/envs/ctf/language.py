"""The language of `CtfEnv`: Bash, with a flag in each submission."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from intercode.envs.shell import SHELL
from intercode.submission import WORD

LANGUAGE = replace(
    SHELL,
    name="ctf",
    submission=WORD,
    prompts=Path(__file__).parent / "prompts",
    attacks="intercode.redteam.bash:ON_CTF",
)
