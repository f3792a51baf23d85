"""Environments for tests: settings that are prepared once, and whatever was made is closed at the
end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import intercode
from intercode.factory import EnvFactory


def needs_bwrap() -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")


def write_box(folder: Path, tasks: list[dict[str, Any]], last: str = "plum") -> Path:
    """A data folder: /box with the files a, b and c; on the second contents `a` holds another
    word."""
    for tree, first in (("tree", "apple"), ("second", "quince")):
        inside = folder / tree / "box"
        inside.mkdir(parents=True)
        for name, text in (("a", first), ("b", "pear"), ("c", last)):
            (inside / name).write_text(text + "\n")
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return folder


def kept(env: str, data: Path) -> Callable[..., EnvFactory]:
    """`prepare` on one data folder, done once for equal options."""
    made: dict[str, EnvFactory] = {}

    def prepare(**options: Any) -> EnvFactory:
        key = repr(sorted(options.items()))
        if key not in made:
            made[key] = intercode.prepare(env, data=str(data), **options)
        return made[key]

    return prepare


@contextmanager
def lent(new: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """`new`, all of whose results are closed at the end."""
    with ExitStack() as stack:

        def make(*args: Any, **options: Any) -> Any:
            made = new(*args, **options)
            stack.callback(made.close)
            return made

        yield make
