"""Options of the Bash environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from intercode.options import NetworkOptions


@dataclass(frozen=True)
class BashOptions(NetworkOptions):
    """Bash needs no options of its own."""

    facts: ClassVar[tuple[str, ...]] = ("verify",)
