"""A small data set with second contents, and environments on it that are closed at the end of a test."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import intercode
from intercode.env import Setting
from intercode.envs.bash import BashEnv

TASKS: list[dict[str, Any]] = [
    {"id": "count", "query": "How many entries does /box have?", "gold": "ls /box | wc -l"},
    {"id": "touch", "query": "Make the empty file /box/new.", "gold": "touch /box/new"},
    {"id": "first", "query": "Print what /box/a holds, here and elsewhere.", "gold": "cat /box/a", "general": True},
    {"id": "names", "query": "Print the names in /box.", "gold": "ls /box"},
    {"id": "long", "query": "Print the numbers to 5000.", "gold": "seq 5000"},
]

Make = Callable[..., BashEnv]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, module_cache: Path) -> Path:
    """The data folder: /box with the files a, b and c; on the second contents `a` holds another word."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    folder = tmp_path_factory.mktemp("box")
    for tree, word in (("tree", "apple"), ("second", "quince")):
        inside = folder / tree / "box"
        inside.mkdir(parents=True)
        for name, text in (("a", word), ("b", "pear"), ("c", "plum ünd €")):
            (inside / name).write_text(text + "\n")
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in TASKS))
    return folder


@pytest.fixture(scope="module")
def settings(box: Path) -> Callable[..., Setting]:
    """`prepare`, done once for equal options."""
    made: dict[str, Setting] = {}

    def prepare(**options: Any) -> Setting:
        key = repr(sorted(options.items()))
        if key not in made:
            made[key] = intercode.prepare("bash", data=str(box), **options)
        return made[key]

    return prepare


@pytest.fixture
def make(settings: Callable[..., Setting]) -> Iterator[Make]:
    """Makes environments over the box."""
    envs: list[Any] = []

    def made(**options: Any) -> Any:
        envs.append(settings(**options)())
        return envs[-1]

    yield made
    for env in envs:
        env.close()
