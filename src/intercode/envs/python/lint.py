"""Lint rules for Python tasks: tests that a wrong answer passes or can tamper with, techniques that
the query asks for, randomness, errors.

The rules about constants and arguments read asserts of the form `assert f(1, 2) == 3`, a call with
literal arguments and a literal. They skip a task with other asserts.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from intercode.envs.lint import Cue, unheeded
from intercode.envs.python.suite import (
    SYNTAX_ERRORS,
    find_empty_tests,
    parse,
    read_suite,
    syntax_message,
)
from intercode.errors import DataError
from intercode.plugins import safe_repr
from intercode.types import Task, TaskIssue

Case = tuple[tuple[object, ...], object]
_CUES = (
    Cue(r"\blambda\b", r"\blambda\b", "no lambda"),
    Cue(r"\bregex\b|regular expression", r"\bre\b|regex", "no regular expression"),
    Cue(r"\bheap queue\b|\bheapq\b", r"heap", "no heap"),
    Cue(r"\bitertools\b", r"itertools", "no itertools"),
)
_CHANCE = re.compile(
    r"\b((?:random|secrets)\.(?!seed|Random\()\w+|from (?:random|secrets) import .*"
    r"|os\.(?:urandom|getpid)|uuid\.uuid[14]|time\.(?:time|time_ns|ctime|localtime|gmtime|monotonic"
    r"|perf_counter)\(|(?:datetime|date)\.(?:now|today|utcnow)\()"
)


def lint(task: Task) -> Iterator[TaskIssue]:
    """Yield the issues that the text of a Python task shows. Nothing is executed."""
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(task.gold, "gold", "exec", dont_inherit=True)
    except SYNTAX_ERRORS as error:
        yield TaskIssue(f"gold is not Python ({syntax_message(error)})")
    try:
        suite = read_suite(task)
    except DataError as error:
        yield TaskIssue(str(error), "no_tests")
    else:
        for number in find_empty_tests(suite):
            text = suite.tests[number - 1].description[:100]
            yield TaskIssue(
                f"test {number} does not use the answer, so any passes it: {text}", "empty_test"
            )
        for number, test in enumerate(suite.tests, 1):
            if test.kind == "script":
                yield TaskIssue(
                    f"test {number} is a script, which runs in the answer's process: "
                    "the answer may change what the script uses",
                    "unsafe_test",
                )
                break
    yield from unheeded(_CUES, task.query, task.gold)
    if (chance := _CHANCE.search(task.gold)) and "seed(" not in task.gold:
        yield TaskIssue(
            f"the answer depends on the moment or on chance ({chance[1].rstrip('(')})", "unstable"
        )
    tests = []
    for field in ("tests", "hidden"):
        texts = task.extra.get(field)
        if isinstance(texts, list):
            tests += [text for text in texts if isinstance(text, str)]
    if len({"".join(test.split()) for test in tests}) < len(tests):
        yield TaskIssue("a test is repeated", "weak_tests")
    cases = [case for case in map(_case, tests) if case is not None]
    if not cases or len(cases) < len(tests):
        return
    expected = cases[0][1]
    if all(value == expected for _, value in cases):
        yield TaskIssue(
            f"all tests expect {safe_repr(expected):.60}, so a constant passes", "weak_tests"
        )
    for position in range(min(len(arguments) for arguments, _ in cases)):
        if all(arguments[position] == value for arguments, value in cases):
            yield TaskIssue(
                f"returning argument {position + 1} unchanged passes all tests", "weak_tests"
            )


def _case(test: str) -> Case | None:
    """Return the arguments and the expected value of an assert; None if they are not literals."""
    try:
        (statement,) = parse(test.strip()).body
    except SYNTAX_ERRORS:
        return None
    expected: ast.expr = ast.Constant(True)
    match statement:
        case ast.Assert(ast.Compare(call, [ast.Eq() | ast.Is()], [expected])):
            pass
        case ast.Assert(call):
            pass
        case _:
            return None
    if not isinstance(call, ast.Call) or call.keywords or not isinstance(call.func, ast.Name):
        return None
    try:
        return tuple(map(ast.literal_eval, call.args)), ast.literal_eval(expected)
    except (ValueError, TypeError):  # not a literal, or an invalid one: a list as a key
        return None
