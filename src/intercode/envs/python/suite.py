"""The tests that a task's record means, in one form.

    tests, hidden                     asserts; the submitted name is a proxy in them                  MBPP and ours
    cases, hidden_cases               {"inputs": […], "outputs": […], "fn_name"?}: APPS               with fn_name: calls
    input_output                      the same as JSON text, as APPS has it                           else: stdin, stdout
    script, hidden_script             a text that runs against what the agent defined,
    expected, hidden_expected         and what it must print                                          classes, generators
    name, test_setup_code             the name that the tests use (else read off tests and gold), what comes before each

Pure functions over texts: nothing is executed here.
"""

from __future__ import annotations

import ast
import builtins
import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from intercode.envs.python.text import UNREADABLE, complaint, parsed
from intercode.errors import DataError
from intercode.types import Task

Kind = Literal["assert", "script", "program"]
_read = functools.lru_cache(maxsize=1)(json.loads)
"""A record's cases may be a megabyte of JSON, and are looked at more than once."""
SOLUTION = "Solution"
"""The class whose method APPS calls where there is no such function."""
_AGREES = """
from math import inf, nan
def _agrees(got, expected):
    if isinstance(got, tuple):
        got = list(got)
    if isinstance(got, list) and got and isinstance(got[0], tuple):
        got = [list(row) for row in got]
    return got == expected or (isinstance(expected, list) and len(expected) == 1 and got == expected[0])
"""
"""APPS compares tuples as lists, and takes an expected value in a list of its own for it. Its JSON may hold Infinity."""


@dataclass(frozen=True, slots=True)
class Test:
    """`text` is an assert, a script, or for a program nothing; `expected` is what the latter two must print."""

    kind: Kind
    hidden: bool
    text: str = ""
    stdin: str = ""
    expected: str = ""

    @property
    def shown(self) -> str:
        """The test as an agent may be told it."""
        return self.text.strip() if self.kind != "program" else f"input {self.stdin!r}, output {self.expected!r}"


@dataclass(frozen=True, slots=True)
class Suite:
    """`name` is what the tests call; `names` are all that must come from the agent; `before` precedes each assert.

    `takes` are the fewest and the most positional arguments of the gold's function (−1: any number). `method` is the name of a
    method that a submitted class is called through, `entry` what a gold submits.
    """

    name: str
    names: tuple[str, ...]
    before: tuple[str, ...]
    tests: tuple[Test, ...]
    takes: tuple[int, int] | None = None
    method: str = ""
    entry: str = ""

    @property
    def program(self) -> bool:
        """Whether the answer is a program that reads and prints, not a function."""
        return any(test.kind == "program" for test in self.tests)


def suite_of(task: Task) -> Suite:
    """Raises `DataError` for a task without tests, or with tests that are no Python or in no form that is known."""
    try:
        return _suite(task)
    except (TypeError, AttributeError, ValueError, LookupError, RecursionError) as error:
        raise DataError(f"task {task.id}: its tests are in no form that is known ({type(error).__name__}: {error})") from error


def _suite(task: Task) -> Suite:
    record = dict(task.extra)
    tests = tuple(_tests(record, task))
    if not tests:
        raise DataError(f"task {task.id} has no tests; give it `tests`, `cases` or `script`")
    gold = _parsed(task.gold)
    setup = _text_of(record, "test_setup_code", task)
    defined = {node.name for node in gold.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    imports = [ast.unparse(node) for node in gold.body if isinstance(node, ast.Import | ast.ImportFrom)]
    asserted = [test.text for test in tests if test.kind == "assert"]
    method = _fn_name(record, task)
    name = _text_of(record, "name", task) or method or _name(gold, asserted)
    before = tuple(text for text in (_AGREES if method else "", "\n".join(imports), setup) if text.strip())
    free = _free("\n".join([*before, *asserted]), task)
    entry = SOLUTION if method and SOLUTION in defined and name not in defined else name
    return Suite(name, tuple(sorted({name, *free} - {""})), before, tests, _takes(gold, name), method, entry)


def _tests(record: Mapping[str, Any], task: Task) -> Iterator[Test]:
    for hidden, prefix in ((False, ""), (True, "hidden_")):
        texts = record.get("hidden" if hidden else "tests") or []
        if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
            raise DataError(f"task {task.id}: its tests are {texts!r:.60}; a list of asserts as texts is expected")
        yield from (Test("assert", hidden, text) for text in texts)
        cases = record.get(f"{prefix}cases") or ({} if hidden else record.get("input_output")) or {}
        yield from _cases(cases, hidden, task)
        if script := _text_of(record, f"{prefix}script", task):
            yield Test("script", hidden, script, expected=_text_of(record, f"{prefix}expected", task))


def _text_of(record: Mapping[str, Any], field: str, task: Task) -> str:
    """Empty where the record has none."""
    value = record.get(field)
    if value is not None and not isinstance(value, str):
        raise DataError(
            f"task {task.id}: its tests are in no form that is known: `{field}` is {value!r:.60}; a text is expected"
        )
    return value or ""


def _cases(cases: Any, hidden: bool, task: Task) -> Iterator[Test]:
    try:
        found = _read(cases) if isinstance(cases, str) else cases
        for field in ("inputs", "outputs"):
            if not isinstance(value := found.get(field, []), list):
                raise TypeError(f"`{field}` is {value!r:.60}; a list is expected")
        pairs = list(zip(found.get("inputs", []), found.get("outputs", []), strict=True))
    except (ValueError, AttributeError, TypeError) as error:
        raise DataError(f"task {task.id}: its cases are not pairs of inputs and outputs ({error})") from error
    for given, expected in pairs:
        if name := found.get("fn_name"):
            listed = given if isinstance(given, list) else [given]
            yield Test("assert", hidden, f"assert _agrees({name}(*{listed!r}), {expected!r})")
        else:
            yield Test("program", hidden, stdin=_text(given), expected=_text(expected))


def _text(value: Any) -> str:
    """APPS gives what is read or printed as a text or as a list of lines."""
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _fn_name(record: Mapping[str, Any], task: Task) -> str:
    for field in ("cases", "input_output", "hidden_cases"):
        found = record.get(field)
        found = _read(found) if isinstance(found, str) and found.strip() else found
        if isinstance(found, dict) and found.get("fn_name"):
            return _text_of(found, "fn_name", task)
    return ""


# -- what texts say -------------------------------------------------------------------------------------------------------


def _parsed(text: str) -> ast.Module:
    """A gold that is no Python has nothing to say here; executing it tells why."""
    try:
        return parsed(text)
    except UNREADABLE:
        return ast.Module([], [])


def _name(gold: ast.Module, asserted: list[str]) -> str:
    """The function of the gold's that the tests call; where they call several, the outermost; else its last one."""
    defined = [node.name for node in gold.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for text in asserted:
        for node in ast.walk(_parsed(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in defined:
                return node.func.id
    return defined[-1] if defined else ""


def _free(text: str, task: Task) -> set[str]:
    """Names that the tests use and neither bind nor find among the builtins."""
    try:
        tree = parsed(text)
    except UNREADABLE as error:
        raise DataError(f"task {task.id}: its tests are no Python ({complaint(error)})") from error
    used, bound = _names(tree)
    return used - bound - set(dir(builtins))


def unbound(suite: Suite) -> Iterator[int]:
    """The numbers of tests, from 1, that use nothing of the answer, so that any answer passes them."""
    for number, test in enumerate(suite.tests, start=1):
        used, bound = _names(_parsed("\n".join([*suite.before, test.text])))
        if test.kind != "program" and not used - bound - (set(dir(builtins)) - {suite.name}):
            yield number


def _names(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Those that a text uses, and those that it binds."""
    used: set[str] = set()
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) or (isinstance(node, ast.ExceptHandler) and node.name):
            bound.add(str(node.name))
    return used, bound


def _takes(gold: ast.Module, name: str) -> tuple[int, int] | None:
    for node in gold.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            placed = len(node.args.posonlyargs) + len(node.args.args)
            return placed - len(node.args.defaults), -1 if node.args.vararg else placed
    return None
