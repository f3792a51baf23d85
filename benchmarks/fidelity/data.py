"""Where the public data lies, and what each recorded run needs: tasks, tree, and the dates of its
recording."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intercode.sandbox.image import V1_BASH, image_path

IMAGE = V1_BASH
FILE_SYSTEMS = (1, 2, 3, 4)
_PROJECT = Path(__file__).parents[2]
_SETUP = _PROJECT / "benchmarks" / "first_system.sh"

_JUNE = {
    1: {"RECORDED": "2023-06-18 18:30", "BUILT": "2023-06-18 18:00"},
    2: {"RECORDED": "2023-06-18 20:05", "BUILT": "2023-06-18 19:02"},
    3: {"RECORDED": "2023-06-18 20:50", "BUILT": "2023-06-18 20:22", "WRITTEN": "2023-06-18 20:32"},
    4: {"RECORDED": "2023-06-18 22:26", "BUILT": "2023-06-18 22:04", "ROOT": "2023-06-18 22:05"},
}
_REACT = {
    **_JUNE,
    1: {"RECORDED": "2023-05-21 21:10", "BUILT": "2023-05-20 22:27"},
    3: {"RECORDED": "2023-06-18 20:21", "BUILT": "2023-06-18 20:18"},
}
_STYLES: dict[str, Mapping[int, Mapping[str, str]]] = {
    "multiturn_gpt-3.5_10_turns": {1: {}, 3: {}, 4: {}},
    "react_10_turns": _REACT,
    "plan_solve": _JUNE,
}
"""Dates as `ls -l`, `stat` and `date` in the recordings show them; the script has those of Try
Again itself."""


def folder() -> Path:
    """The folder of public data; it may be absent."""
    return Path(os.environ.get("INTERCODE_DATA") or _PROJECT.parent / "shared" / "data")


def world(number: int) -> dict[str, Any]:
    """The options of `prepare` for one of NL2Bash's file systems; the fourth has no tree."""
    files = folder() / "nl2bash"
    tree = None if number == 4 else files / f"fs_{number}.tar"
    return {"data": str(files / f"nl2bash_fs_{number}.json"), "tree": tree, "image": IMAGE}


def files() -> list[Path]:
    """All that `world` names."""
    worlds = [world(number) for number in FILE_SYSTEMS]
    return [Path(each[name]) for each in worlds for name in ("data", "tree") if each[name]]


def no_image() -> str | None:
    """Why NL2Bash cannot be played here, if its root is not built."""
    return (
        None
        if image_path(IMAGE).is_dir()
        else f"there is no image {IMAGE}: intercode image build {IMAGE}"
    )


@dataclass(frozen=True)
class Run:
    """One recorded run of GPT-3.5 in the first system's Bash environment."""

    style: str
    number: int
    dates: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return folder() / "recorded" / f"ic_bash_{self.style}_fs_{self.number}.json"

    @property
    def name(self) -> str:
        return f"{self.style.partition('_')[0]} fs_{self.number}"


def runs() -> list[Run]:
    """All recorded Bash runs: Try Again, ReAct, Plan & Solve."""
    return [
        Run(style, number, dates)
        for style, numbers in _STYLES.items()
        for number, dates in numbers.items()
    ]


@contextmanager
def setup_script(dates: Mapping[str, str]) -> Iterator[Path]:
    """A copy of `first_system.sh` for a recording of these dates, made for now.

    The moment stands in it: ages matter, so no layer of an earlier measurement may serve.
    """
    head = "".join(f"{name}='{date}'\n" for name, date in dates.items())
    with tempfile.NamedTemporaryFile("w", prefix="first_system-", suffix=".sh") as script:
        script.write(f"# made at {time.time()}\n{head}{_SETUP.read_text()}")
        script.flush()
        yield Path(script.name)
