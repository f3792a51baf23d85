"""Rules for Python: what asserts with literal values let pass, and means that the query asks for.

assert f(1, 2) == 3        a call with literal arguments against a literal; other asserts say nothing here
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from intercode.envs.lint import Cue, unheeded
from intercode.envs.python.suite import suite_of, unbound
from intercode.envs.python.text import UNREADABLE, complaint, parsed
from intercode.errors import DataError
from intercode.plugins import safe_repr
from intercode.tasks.issues import TaskIssue
from intercode.types import Task

Case = tuple[tuple[object, ...], object]
_CUES = (
    Cue(r"\blambda\b", r"\blambda\b", "no lambda"),
    Cue(r"\bregex\b|regular expression", r"\bre\b|regex", "no regular expression"),
    Cue(r"\bheap queue\b|\bheapq\b", r"heap", "no heap"),
    Cue(r"\bitertools\b", r"itertools", "no itertools"),
)


_CHANCE = re.compile(
    r"\b((?:random|secrets)\.(?!seed|Random\()\w+|from (?:random|secrets) import .*|os\.(?:urandom|getpid)|uuid\.uuid[14]"
    r"|time\.(?:time|time_ns|ctime|localtime|gmtime|monotonic|perf_counter)\(|(?:datetime|date)\.(?:now|today|utcnow)\()"
)


def doubts(task: Task) -> Iterator[TaskIssue]:
    yield from _unreadable(task)
    yield from unheeded(_CUES, task.query, task.gold)
    if (drawn := _CHANCE.search(task.gold)) and "seed(" not in task.gold:
        yield TaskIssue(f"the answer depends on the moment or on chance ({drawn[1].rstrip('(')})", "unstable")
    listed = [texts for field in ("tests", "hidden") if isinstance(texts := task.extra.get(field), list)]
    tests = [test for texts in listed for test in texts if isinstance(test, str)]
    plain = ["".join(test.split()) for test in tests]
    if len(set(plain)) < len(plain):
        yield TaskIssue("a test comes twice", "weak_tests")
    cases = [_case(test) for test in tests]
    known = [case for case in cases if case is not None]
    if not known or len(known) < len(cases):
        return
    expected = known[0][1]
    if all(_same(case[1], expected) for case in known):
        yield TaskIssue(f"all tests expect {safe_repr(repr, expected):.60}, so a constant passes", "weak_tests")
    for place in range(min(len(given) for given, _ in known)):
        if all(_same(given[place], wanted) for given, wanted in known):
            yield TaskIssue(f"returning argument {place + 1} as it is passes all tests", "weak_tests")


def _unreadable(task: Task) -> Iterator[TaskIssue]:
    """A gold or tests that are no Python; tests that are absent, or use nothing of the answer."""
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(task.gold, "gold", "exec", dont_inherit=True)
    except UNREADABLE as error:
        yield TaskIssue(f"gold is no Python ({complaint(error)})")
    try:
        suite = suite_of(task)
    except DataError as error:
        yield TaskIssue(str(error))
        return
    for number in unbound(suite):
        shown = suite.tests[number - 1].shown[:100]
        yield TaskIssue(f"test {number} uses nothing of the answer, so any passes it: {shown}", "empty_test")


def _same(one: object, other: object) -> bool:
    return bool(one == other)


def _case(test: str) -> Case | None:
    """The arguments and the expected value of an assert; None where it is not that plain."""
    try:
        (statement,) = parsed(test.strip()).body
    except UNREADABLE:
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
    except (ValueError, TypeError):  # no literal, or one that cannot be: a list as a key
        return None
