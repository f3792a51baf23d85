"""Convert the test fields of a task's record to one form, `Suite`. Nothing is executed here.

    tests, hidden                asserts, in which the submitted name is a proxy: MBPP and ours
    cases, hidden_cases          {"inputs": […], "outputs": […], "fn_name"?}: APPS; calls if there
                                 is a fn_name, otherwise stdin and stdout
    input_output                 the same as JSON text, as in APPS
    script, hidden_script        code that runs on the agent's definitions (classes, generators),
    expected, hidden_expected    and the output that it must print
    name, test_setup_code        the name that the tests use (default: found in tests and gold), and
                                 code to run before each test
    preamble                     imports and helpers that the set's harness puts before answers
    completes                    the text that an answer which is no Python alone may complete
    tolerant                     white space in the results of cases does not count, nor do the last
                                 digits where a decimal number is expected
    unplayable                   why the task cannot be played

`layouts.py` converts published layouts to this form.
"""

from __future__ import annotations

import ast
import builtins
import functools
import json
import symtable
import textwrap
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from intercode.errors import DataError
from intercode.types import Task

Kind = Literal["assert", "script", "program"]
SYNTAX_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)
"""The errors that `parse` raises for invalid text."""
SOLUTION = "Solution"
"""The class with the method that APPS calls if there is no function of that name."""
ABSOLUTE, RELATIVE = 1e-8, 1e-5
"""APPS compares decimal numbers as numpy's `allclose` does."""
_EQUAL = """
import builtins as _b
from math import inf, nan
def _is_same(got, expected):
    if _b.isinstance(got, _b.list) and _b.isinstance(expected, _b.list):
        return _b.len(got) == _b.len(expected) and _b.all(_b.map(_is_same, got, expected))
    if {tolerant} and _b.isinstance(expected, _b.float) and _b.isinstance(got, (_b.int, _b.float)):
        near = {absolute} + {relative} * _b.abs(expected)
        return got == expected or _b.abs(got - expected) <= near
    return got == expected
def _agrees(got, expected):
    if _b.isinstance(got, _b.tuple):
        got = _b.list(got)
    if _b.isinstance(got, _b.list) and got and _b.isinstance(got[0], _b.tuple):
        got = [_b.list(row) for row in got]
    return _is_same(got, expected) or (
        _b.isinstance(expected, _b.list) and _b.len(expected) == 1 and _is_same(got, expected[0])
    )
"""
"""APPS compares tuples as lists, and accepts the bare value for an expected one-element list. Its
JSON may contain Infinity. A task may ask for a function called `list`."""
_DEFINITIONS = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
_BUILTINS = set(dir(builtins))
_load_json = functools.lru_cache(maxsize=1)(json.loads)
"""Cached, since a record's cases may be a megabyte of JSON and are parsed more than once."""
_parsing = threading.Lock()


@dataclass(frozen=True, slots=True)
class Test:
    """A test. `text` is an assert or a script, and empty for a program; `expected` is the required
    output of a script or program; `tolerant`: but for white space, and for the last digits where a
    decimal number is expected."""

    kind: Kind
    hidden: bool
    text: str = ""
    stdin: str = ""
    expected: str = ""
    tolerant: bool = False

    @property
    def description(self) -> str:
        """The test as it may be shown to an agent."""
        if self.kind == "program":
            return f"input {self.stdin!r}, output {self.expected!r}"
        return self.text.strip()


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of a task.

    `name` is the function or class that the tests call, `names` are all names that the tests take
    from the agent's side, `asked` those that the agent must bind itself, `setup` is code that
    precedes each assert. `arity` is the least and greatest number of positional arguments of the
    gold's function (−1: any number). A submitted class is called through its method `method`.
    `gold_name` is the name under which the gold is submitted. `preamble` is executed before the
    answer and the gold; what it defines is not the agent's.
    """

    name: str
    names: tuple[str, ...]
    asked: tuple[str, ...]
    setup: tuple[str, ...]
    tests: tuple[Test, ...]
    arity: tuple[int, int] | None = None
    method: str = ""
    gold_name: str = ""
    preamble: str = ""

    @property
    def program(self) -> bool:
        """True if the answer is a program that reads and prints instead of a function."""
        return any(test.kind == "program" for test in self.tests)


def parse(text: str) -> ast.Module:
    """Return the syntax tree of a text with any line ends. Raises one of `SYNTAX_ERRORS` if it is
    not Python.

    A lock admits one thread at a time: before CPython 3.11.5 all threads share one depth counter,
    and two concurrent parses may fail with `SystemError: AST constructor recursion depth mismatch`
    (python/cpython#106905).
    """
    with _parsing:
        return ast.parse(text.replace("\r\n", "\n"))


def syntax_message(error: Exception) -> str:
    """Return the message of one of `SYNTAX_ERRORS`; a parser that is out of memory gives none."""
    return str(error) or "nested too deep"


def behind(preamble: str, text: str) -> str:
    """Return a program's text with the preamble in front, after imports from __future__."""
    if not preamble:
        return text
    first = 0
    for node in parse_or_empty(text).body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            first = node.end_lineno or 0
    lines = text.split("\n")
    return "\n".join([*lines[:first], preamble, *lines[first:]])


def undefined_names(tree: ast.AST) -> set[str]:
    """Return the names that a tree uses and does not bind, without those of builtins."""
    used, bound = _names(tree)
    return used - bound - _BUILTINS


def is_python(text: str) -> bool:
    """Return whether the text can be parsed."""
    try:
        parse(text)
    except SYNTAX_ERRORS:
        return False
    return True


def completed(prompt: str, text: str) -> str:
    """Return the answer that a text gives: itself, or else what it completes. A completion may have
    lost the indent of its first line, or of all."""
    for shape in (
        text,
        prompt + text,
        f"{prompt}    {text}",
        prompt + textwrap.indent(text, "    "),
    ):
        if is_python(shape) and not _returns(shape):
            return shape
    return text


def _returns(text: str) -> bool:
    """Return whether Python has a `return` outside of functions, so is the body of one."""
    nodes: list[ast.AST] = [parse(text)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes += ast.iter_child_nodes(node)
    return False


def may_print(text: str) -> bool:
    """Return whether the text is Python that may print: it calls or imports something."""
    if "(" not in text and "import" not in text:
        return False
    tree = parse_or_empty(text)
    return any(isinstance(node, ast.Call | ast.Import | ast.ImportFrom) for node in ast.walk(tree))


# -- tests -----------------------------------------------------------------------------------------


def read_suite(task: Task) -> Suite:
    """Return the tests of a task. Raises `DataError` if there are none, or if they are not Python
    or have an unknown form."""
    require_playable(task)
    try:
        tests = tuple(_tests(task.extra))
        if tests:
            return _read_suite(task, tests)
    except DataError as error:
        raise DataError(f"task {task.id}: {error}") from error
    except (TypeError, AttributeError, ValueError, LookupError, RecursionError) as error:
        raise DataError(
            f"task {task.id}: "
            f"its tests are in no form that is known ({type(error).__name__}: {error})"
        ) from error
    raise DataError(f"task {task.id} has no tests; give it `tests`, `cases` or `script`")


def require_playable(task: Task) -> None:
    """Raise `DataError` if the record says why the task cannot be played."""
    if unplayable := task.extra.get("unplayable"):
        raise DataError(f"task {task.id} cannot be played: {unplayable}")


def _read_suite(task: Task, tests: tuple[Test, ...]) -> Suite:
    record = task.extra
    gold = parse_or_empty(task.gold)
    defined = [node for node in gold.body if isinstance(node, _DEFINITIONS)]
    by_name = {node.name: node for node in defined}
    functions = [node.name for node in defined if not isinstance(node, ast.ClassDef)]
    asserts = [test.text for test in tests if test.kind == "assert"]
    method = _method(record)
    _, in_gold = _names(gold)
    name = (
        _text_field(record, "name")
        or method
        or _called_function(functions, asserts)
        or _last(functions)
        or _called_function(sorted(in_gold), asserts)
    )
    equal = ""
    if method:
        equal = _EQUAL.format(
            tolerant=bool(record.get("tolerant")), absolute=ABSOLUTE, relative=RELATIVE
        )
    setup = _text_field(record, "test_setup_code")
    before = tuple(filter(str.strip, (equal, imports_of(gold), setup)))
    try:
        used, bound = _names(parse("\n".join([*before, *asserts])))
    except SYNTAX_ERRORS as error:
        raise DataError(f"its tests are no Python ({syntax_message(error)})") from error
    unbound = sorted(used - bound - _BUILTINS)
    if not name and not gold.body:
        name = (
            _called_function(unbound, asserts)
            or _last(unbound)
            or _called_function(sorted(bound), asserts)
        )
    names = {name, *unbound} - {""}
    gold_name = SOLUTION if method and SOLUTION in by_name and name not in by_name else name
    arity = None
    if isinstance(function := by_name.get(name), ast.FunctionDef):
        parameters = function.args
        positional = len(parameters.posonlyargs) + len(parameters.args)
        arity = positional - len(parameters.defaults), -1 if parameters.vararg else positional
    preamble = _text_field(record, "preamble")
    for node in parse_or_empty(preamble).body:
        if isinstance(node, _DEFINITIONS):
            in_gold.discard(node.name)
    asked = tuple(sorted(names & {name, *in_gold}))
    return Suite(
        name, tuple(sorted(names)), asked, before, tests, arity, method, gold_name, preamble
    )


def _last(names: list[str]) -> str:
    return names[-1] if names else ""


def imports_of(tree: ast.Module) -> str:
    """Return the imports at the top level of a module."""
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(map(ast.unparse, imports))


def _tests(record: Mapping[str, Any]) -> Iterator[Test]:
    for hidden, prefix in ((False, ""), (True, "hidden_")):
        texts = record.get("hidden" if hidden else "tests") or []
        if not isinstance(texts, list) or not all(
            isinstance(text, str) and text.strip() for text in texts
        ):
            raise DataError(f"its tests are {texts!r:.60}; a list of asserts as texts is expected")
        for text in texts:
            yield Test("assert", hidden, text)
        cases = record.get(f"{prefix}cases")
        if not hidden:
            cases = cases or record.get("input_output")
        yield from _cases(cases or {}, hidden, bool(record.get("tolerant")))
        if script := _text_field(record, f"{prefix}script"):
            expected = _text_field(record, f"{prefix}expected")
            yield Test("script", hidden, script, expected=expected)


def _text_field(record: Mapping[str, Any], field: str) -> str:
    """Return a field's text, or "" if the record lacks the field. Raises `DataError` for other
    types."""
    value = record.get(field)
    if isinstance(value, str | None):
        return value or ""
    raise DataError(
        f"its tests are in no form that is known: `{field}` is {value!r:.60}; a text is expected"
    )


def _cases(cases: Any, hidden: bool, tolerant: bool) -> Iterator[Test]:
    try:
        if isinstance(cases, str):
            cases = _load_json(cases)
        columns = []
        for field in ("inputs", "outputs"):
            if not isinstance(value := cases.get(field, []), list):
                raise TypeError(f"`{field}` is {value!r:.60}; a list is expected")
            columns.append(value)
        pairs = list(zip(*columns, strict=True))
    except (ValueError, AttributeError, TypeError) as error:
        raise DataError(f"its cases are not pairs of inputs and outputs ({error})") from error
    for value, expected in pairs:
        if name := cases.get("fn_name"):
            arguments = value if isinstance(value, list) else [value]
            yield Test("assert", hidden, f"assert _agrees({name}(*{arguments!r}), {expected!r})")
        else:
            texts = _joined_lines(value), _joined_lines(expected)
            yield Test("program", hidden, "", *texts, tolerant)


def _joined_lines(value: Any) -> str:
    """Return the text of an input or output, which APPS stores as one text or a list of lines."""
    if isinstance(value, list):
        return "\n".join(map(str, value))
    return str(value)


def _method(record: Mapping[str, Any]) -> str:
    """Return the function or method of `Solution` that the cases call; "" if there is none."""
    for field in ("cases", "input_output", "hidden_cases"):
        cases = record.get(field)
        if isinstance(cases, str) and cases.strip():
            cases = _load_json(cases)
        if isinstance(cases, dict) and cases.get("fn_name"):
            return _text_field(cases, "fn_name")
    return ""


def parse_or_empty(text: str) -> ast.Module:
    """Parse a text; return an empty tree if it is not Python, since executing it shows why."""
    try:
        return parse(text)
    except SYNTAX_ERRORS:
        return ast.Module([], [])


def _called_function(functions: list[str], asserts: list[str]) -> str:
    """Return the function that the tests call, the outermost of several; "" if there is none."""
    for text in asserts:
        for node in ast.walk(parse_or_empty(text)):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in functions:
                    return name
    return ""


def find_empty_tests(suite: Suite) -> Iterator[int]:
    """Yield the numbers, from 1, of tests that do not use the answer, so that any answer passes
    them."""
    for number, test in enumerate(suite.tests, start=1):
        used, bound = _names(parse_or_empty("\n".join([*suite.setup, test.text])))
        if test.kind != "program" and not used - bound - (_BUILTINS - {suite.name}):
            yield number


def _names(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Return the names of the module that a tree uses, in any scope, and those that it binds; none
    if a compiler refuses the tree, since executing it shows why."""
    used: set[str] = set()
    bound: set[str] = set()
    try:
        tables = [symtable.symtable(ast.unparse(tree), "tests", "exec")]
    except SYNTAX_ERRORS:
        return used, bound
    for table in tables:
        tables += table.get_children()
        for symbol in table.get_symbols():
            if table is not tables[0] and not symbol.is_global():
                continue
            if symbol.is_referenced():
                used.add(symbol.get_name())
            if symbol.is_assigned() or symbol.is_imported():
                bound.add(symbol.get_name())
    return used, bound
