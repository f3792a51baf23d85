"""Options of the capture-the-flag environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from intercode.options import NetworkOptions, SubmissionOptions, UnplayableOptions, option

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class CtfOptions(NetworkOptions, SubmissionOptions, UnplayableOptions):
    """Options of the capture-the-flag environment."""

    facts: ClassVar[tuple[str, ...]] = ("assets_digest",)
    assets: str | Path | None = option(
        None, "Tasks", "Read the files of task ID from ID/ or ID.tar in this folder.",
        kind="path", names="file",
    )  # fmt: skip
