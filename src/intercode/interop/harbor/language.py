"""The language of `HarborEnv`: Bash, judged by tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from intercode.envs.shell import SHELL

LANGUAGE = replace(
    SHELL,
    name="harbor",
    prompts=Path(__file__).parent / "prompts",
    attacks="intercode.redteam.bash:ON_BASH",
)
