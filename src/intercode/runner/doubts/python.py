"""Rules for Python: what asserts with literal values let pass, and means that the query asks for.

assert f(1, 2) == 3        a call with literal arguments against a literal; other asserts say nothing here
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from intercode.findings import Fault
from intercode.runner.doubts.words import Cue, unheeded
from intercode.types import Task

Case = tuple[tuple[object, ...], object]
_CUES = (
    Cue(r"\blambda\b", r"\blambda\b", "no lambda"),
    Cue(r"\bregex\b|regular expression", r"\bre\b|regex", "no regular expression"),
    Cue(r"\bheap queue\b|\bheapq\b", r"heap", "no heap"),
    Cue(r"\bitertools\b", r"itertools", "no itertools"),
)


def doubts(task: Task) -> Iterator[Fault]:
    yield from unheeded(_CUES, task.query, task.gold)
    tests = [test for field in ("tests", "hidden") for test in task.extra.get(field) or () if isinstance(test, str)]
    plain = ["".join(test.split()) for test in tests]
    if len(set(plain)) < len(plain):
        yield Fault("a test comes twice", "weak_tests")
    cases = [_case(test) for test in tests]
    known = [case for case in cases if case is not None]
    if known and len(known) == len(cases):
        yield from _trivial(known)


def _trivial(cases: Sequence[Case]) -> Iterator[Fault]:
    """Answers that look at nothing."""
    expected = cases[0][1]
    if all(_same(case[1], expected) for case in cases):
        yield Fault(f"all tests expect {expected!r:.60}, so a constant passes", "weak_tests")
    for place in range(min(len(given) for given, _ in cases)):
        if all(_same(given[place], wanted) for given, wanted in cases):
            yield Fault(f"returning argument {place + 1} as it is passes all tests", "weak_tests")


def _same(one: object, other: object) -> bool:
    return bool(one == other)


def _case(test: str) -> Case | None:
    """The arguments and the expected value of an assert; None where it is not that plain."""
    try:
        (statement,) = ast.parse(test.strip()).body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(statement, ast.Assert):
        return None
    call: ast.expr = statement.test
    wanted: ast.expr = ast.Constant(True)
    if isinstance(call, ast.Compare) and len(call.ops) == 1 and isinstance(call.ops[0], ast.Eq | ast.Is):
        wanted, call = call.comparators[0], call.left
    if not isinstance(call, ast.Call) or call.keywords or not isinstance(call.func, ast.Name):
        return None
    try:
        return tuple(ast.literal_eval(argument) for argument in call.args), ast.literal_eval(wanted)
    except ValueError:
        return None
