"""No pattern of the readers takes long, whatever a stranger wrote."""

from __future__ import annotations

import importlib
import inspect
import re
import time
from collections.abc import Callable
from itertools import product
from types import ModuleType

import pytest

READERS = [
    "intercode.reading",
    "intercode.tasks.formats",
    "intercode.tasks.loader",
    "intercode.envs.compose",
    "intercode.envs.ctf.challenges",
    "intercode.envs.ctf.nyu",
    "intercode.envs.python.layouts",
    "intercode.envs.sql.databases",
    "intercode.envs.sql.layouts",
    "intercode.envs.verify",
    "intercode.interop.atif",
    "intercode.interop.harbor.directory",
    "intercode.interop.v1.logs",
    "intercode.interop.v1.trajectories",
    "intercode.rescoring.recordings",
]
LENGTH = 100_000
SECONDS = 0.2
LETTERS = ["a", "A", "0", "-", ".", "/", "_", " ", "\t", "\n", "{", "}", "(", "$", "'", '"', ":"]
LETTERS += ["\\", "@", "#", ";", "=", ",", "é"]
ANYWHERE = ("search", "findall", "finditer", "sub", "split")
WORDS = [
    "${a",
    "a1A",
    "CMD ",
    "curl ",
    "http://",
    "nc ",
    "a.b-",
    "number 1",
    "SELECT ",
    "0x",
    "=> ",
]


def uses(module: ModuleType) -> list[tuple[str, Callable[[str], object]]]:
    """Return the methods by which a module uses its patterns, with their names."""
    source = inspect.getsource(module)
    return [
        (f"{name}.{method}", getattr(one, "search" if method in ANYWHERE else method))
        for name, one in vars(module).items()
        if isinstance(one, re.Pattern)
        for method in set(re.findall(rf"\b{name}\.(\w+)\b", source))
        if method in (*ANYWHERE, "match", "fullmatch")
    ]


@pytest.mark.parametrize("name", READERS)
def test_a_pattern_takes_linear_time(name: str) -> None:
    texts = [*LETTERS, *map("".join, product(LETTERS, repeat=2)), *WORDS]
    slow = []
    for label, use in uses(importlib.import_module(name)):
        for text in texts:
            begun = time.process_time()
            use(text * (LENGTH // len(text)))
            if time.process_time() - begun > SECONDS:
                slow.append((label, text))
    assert slow == []
