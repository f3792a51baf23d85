"""Word lists and import strings, read as data: a renaming of a variable must not rewrite either."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

import intercode.envs.bash
from intercode.envs.bash.answers import compare_answers
from intercode.types import Task

ENTRY = re.compile(
    r"\.?[a-z][a-z0-9]*([-.][a-z0-9]+)*|-{1,2}[A-Za-z0-9]+|\[{1,2}|[:.%€]|°c|__pycache__|\.[a-z_-]+"
)
"""A word of English or the name of a command or file; an option; a sign."""
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
OF_THE_FIRST_SYSTEM = {
    "import intercode.envs.bash.bash_env",
    "from intercode.envs.bash import bash_env",
    "import intercode.assets",
}
"""Imports from `intercode-bench`, whose package is called intercode too."""
MODULE = re.compile(r"intercode(\.\w+)+(:\w+)?")
STATEMENT = re.compile(
    r"^(?:from intercode[\w.]* import [\w, ]+|import intercode[\w.]*)", re.MULTILINE
)


def word_lists() -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each set of words of the modules of envs/bash, with its name; the keys of a table are
    one, but for hacks, whose names are phrases, and for fields of records."""
    for found in pkgutil.iter_modules(intercode.envs.bash.__path__, "intercode.envs.bash."):
        module = importlib.import_module(found.name)
        for name, value in inspect.getmembers(module):
            entries: Any = value if isinstance(value, set | frozenset | dict) else ()
            if (
                entries
                and not name.startswith("__")
                and not re.search(r"\bHACKS|_HOW|FORGERIES|_FIELDS", name)
                and all(isinstance(entry, str) for entry in entries)
            ):
                yield f"{found.name}:{name}", frozenset(entries)


def test_word_lists_hold_words() -> None:
    lists = dict(word_lists())
    assert {"intercode.envs.bash.wording:_OR", "intercode.envs.bash.compare:_IN_HOMES"} <= set(
        lists
    )
    for name, entries in lists.items():
        assert not {entry for entry in entries if not ENTRY.fullmatch(entry)}, name
    assert not ENTRY.fullmatch("offered_words")


def test_either_and_otherwise_offer_answers() -> None:
    gold = "[ -e /depot/door ] && echo unlocked || echo locked"
    task = Task("door", "Print either unlocked if /depot/door is open, and otherwise locked.", gold)
    for right in ("unlocked", "locked"):
        assert compare_answers(f"The door is {right}", right, task).accepted
        for answer in (
            "unlocked locked",
            "locked unlocked",
            "unlocked or locked",
            "either unlocked or locked",
        ):
            assert not compare_answers(answer, right, task).accepted, (answer, right)


def imports(text: str) -> Iterator[str]:
    """Yield as statements what a text imports from intercode: lines of code, `module`, or
    `module:attribute`."""
    yield from STATEMENT.findall(text)
    if MODULE.fullmatch(text):
        module, _, name = text.partition(":")
        yield f"from {module} import {name}" if name else f"import {module}"


def test_what_the_strings_of_benchmarks_import_is_there() -> None:
    found = {
        statement
        for path in BENCHMARKS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "intercode" in node.value
        for statement in imports(node.value)
    }
    assert found > OF_THE_FIRST_SYSTEM
    for statement in sorted(found - OF_THE_FIRST_SYSTEM):
        # an adapter's own system may not be installed
        with suppress(ModuleNotFoundError) if "adapters" in statement else nullcontext():
            exec(statement, {})
    with pytest.raises(ImportError):
        exec("from intercode.envs.bash.env import bash_env", {})
