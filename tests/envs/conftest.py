"""A small data set with second contents, and environments on it that are closed at the end of a test; SQL on both engines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kept import kept, lent, needs_bwrap
from orchard import ENGINES, Pool, pool

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
    needs_bwrap()
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
    return kept("bash", box)


@pytest.fixture
def make(settings: Callable[..., Setting]) -> Iterator[Make]:
    """Makes environments over the box."""
    with lent(lambda **options: settings(**options)()) as made:
        yield made


@pytest.fixture(scope="module", params=ENGINES)
def servers(request: pytest.FixtureRequest) -> Iterator[Pool]:
    with pool(request.param) as made:
        yield made


@pytest.fixture
def sql(servers: Pool) -> Callable[..., Any]:
    """Makes environments over the orchard, on each engine in turn."""
    return servers.lent()
