"""The commands of the Makefile divide the tests among them: none is left out, none runs twice."""

from __future__ import annotations

import argparse
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
TARGETS = ["test", "test-rest", "fidelity", "world", "programs", "soak", "integrations"]


class Marks(Mapping[str, bool]):
    """The names in a mark expression: true for the marks that a test has."""

    def __init__(self, item: pytest.Item) -> None:
        self._names = {mark.name for mark in item.iter_markers()}

    def __getitem__(self, name: str) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class Command:
    """One call of pytest in the Makefile."""

    target: str
    expression: str
    paths: list[Path]
    ignored: list[Path]

    def runs(self, item: pytest.Item) -> bool:
        def below(paths: list[Path]) -> bool:
            return any(item.path.is_relative_to(path) for path in paths)

        # an expression of marks is one of Python as well: not rest and not soak
        chosen: bool = eval(self.expression, {}, Marks(item))
        return chosen and below(self.paths) and not below(self.ignored)


def expanded(makefile: str) -> str:
    """With the expressions of marks, which variables hold, written out."""
    variables = re.findall(r"^([A-Z_]+) := (not .+)$", makefile, re.MULTILINE)
    for name, value in reversed(variables):  # a later one may hold an earlier one
        makefile = makefile.replace(f"$({name})", value)
    return makefile


def commands() -> list[Command]:
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", dest="expression", required=True)
    parser.add_argument("--ignore", action="append", default=[])
    parser.add_argument("--durations")
    parser.add_argument("paths", nargs="*")
    makefile = expanded((PROJECT / "Makefile").read_text())
    result = []
    for target in TARGETS:
        recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
        assert recipe is not None, target
        for _, words in re.findall(r"(\$\(PYTEST\)|-m pytest) (.+)", recipe[1]):
            call = parser.parse_args(shlex.split(words))
            paths = [PROJECT / path for path in call.paths or ["tests"]]
            ignored = [PROJECT / path for path in call.ignore]
            result.append(Command(target, call.expression, paths, ignored))
    return result


def test_the_gate_runs_what_the_commands_before_it_run(collected: list[pytest.Item]) -> None:
    makefile = expanded((PROJECT / "Makefile").read_text())
    (expression,) = re.findall(r'-m "(.+)\$\(WITHOUT\)" --maxfail', makefile)
    gate = Command("gate", expression, [PROJECT / "tests"], [])
    parts = [command for command in commands() if command.target not in ("soak", "integrations")]
    for item in collected:
        assert gate.runs(item) == any(part.runs(item) for part in parts), item.nodeid
    without = Command("ci", f"{expression} and not fidelity", [PROJECT / "tests"], [])
    assert not any(without.runs(item) for item in collected if item.get_closest_marker("fidelity"))


def test_each_test_is_run_by_exactly_one_command(collected: list[pytest.Item]) -> None:
    """`make test` collects all tests before it leaves some out, so this sees each of them."""
    every = commands()
    targets = {
        item.nodeid: [command.target for command in every if command.runs(item)]
        for item in collected
    }
    assert {test: names for test, names in targets.items() if len(names) != 1} == {}
    cases = Counter(name for names in targets.values() for name in names)
    print(f"{len(collected)} tests: {dict(cases)}")
    assert cases.total() == len(collected)
