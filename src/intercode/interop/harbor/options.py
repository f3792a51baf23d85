"""Options of the environment for Harbor's tasks."""

from __future__ import annotations

from dataclasses import dataclass

from intercode.envs.bash.options import BashOptions
from intercode.options import UnplayableOptions


@dataclass(frozen=True)
class HarborOptions(BashOptions, UnplayableOptions):
    """`image` stands in for the images that Dockerfiles begin from and this machine cannot get."""

    warm: bool = False
    """Give tests that download this machine's network once, and keep what they fetch."""
