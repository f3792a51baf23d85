"""The language of `BashEnv`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from intercode.envs.shell import SHELL

LANGUAGE = replace(
    SHELL, prompts=Path(__file__).parent / "prompts", attacks="intercode.redteam.bash:ON_BASH"
)
