"""Options of the capture-the-flag environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from intercode.options import SandboxOptions, SubmissionOptions, option

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class CtfOptions(SandboxOptions, SubmissionOptions):
    """Options of the capture-the-flag environment."""

    assets: str | Path | None = option(
        None, "Tasks", "Read the files of task ID from ID/ or ID.tar in this folder.",
        kind="path", names="file",
    )  # fmt: skip
    everything: bool = option(
        False, "Tasks",
        "Keep tasks that need a network or a missing file, or whose gold is not a flag.",
        flag="keep-unplayable", kind="flag",
    )  # fmt: skip
