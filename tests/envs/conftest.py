"""A small data set with second contents, and environments on it that tests lend each other; SQL on
both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept import kept, needs_bwrap, write_box
from orchard import ENGINES, Pool, pool

TASKS: list[dict[str, Any]] = [
    {"id": "count", "query": "How many entries does /box have?", "gold": "ls /box | wc -l"},
    {"id": "touch", "query": "Make the empty file /box/new.", "gold": "touch /box/new"},
    {
        "id": "first",
        "query": "Print what /box/a holds, here and elsewhere.",
        "gold": "cat /box/a",
        "general": True,
    },
    {"id": "names", "query": "Print the names in /box.", "gold": "ls /box"},
    {"id": "long", "query": "Print the numbers to 5000.", "gold": "seq 5000"},
]


@pytest.fixture(scope="session")
def box(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_bwrap()
    return write_box(tmp_path_factory.mktemp("box"), TASKS, last="plum ünd €")


@pytest.fixture(scope="module")
def boxes(box: Path) -> Iterator[Pool]:
    prepare = kept("bash", box)
    with closing(Pool(lambda **options: prepare(**options)())) as made:
        yield made


@pytest.fixture
def make(boxes: Pool) -> Callable[..., Any]:
    """Lends environments over the box."""
    return boxes.lent()


@pytest.fixture(scope="module", params=ENGINES)
def servers(request: pytest.FixtureRequest) -> Iterator[Pool]:
    with pool(request.param) as made:
        yield made


@pytest.fixture
def sql(servers: Pool) -> Callable[..., Any]:
    """Lends environments over the orchard, on each engine in turn."""
    return servers.lent()
