"""Options of the Bash environment."""

from __future__ import annotations

from dataclasses import dataclass

from intercode.options import SandboxOptions


@dataclass(frozen=True)
class BashOptions(SandboxOptions):
    """Bash needs no options of its own."""
