"""Options of the Python environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from intercode.options import NetworkOptions, SubmissionOptions, option

SECONDS = 10.0


@dataclass(frozen=True)
class PythonOptions(NetworkOptions, SubmissionOptions):
    """Options of the Python environment; `seconds` is each test's time limit. The interpreter lives
    as long as its episode, regardless of `session`."""

    facts: ClassVar[tuple[str, ...]] = ("test_seconds",)
    tell: Literal["nothing", "number", "case"] | None = option(
        None, "Environment",
        "After a wrong submission, show nothing, the first failed public test's number, or that"
        " test. [number]",
        flag="feedback", kind=("nothing", "number", "case"),
    )  # fmt: skip
    seconds: float = SECONDS
