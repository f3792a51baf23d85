"""Grading: right answers pass in all their forms, and wrong, forged and harmful ones fail.

The ways of pretending are the attacks of `intercode.redteam.python`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from graded import Grade, passed

from intercode_sandbox.local import LocalSandbox

pytestmark = pytest.mark.slow

VALUES = [
    "None", "True", "0", "-7", "2 ** 200", "-(10 ** 4000)", "1.5", "-0.0", "float('inf')", "1e308",
    "2 + 3j", "'é\\x00\\udc80'", "'\\ud83d\\ude00'", "b'\\x00\\xff'", "[]", "[1, [2, (3, {4})]]",
    "()", "{1, 2}", "frozenset({(1,), 'x'})", "{1: [2], (3, 4): {'a': None}}", "int",
    "range(1, 9, 2)", "bytearray(b'x')", "{2: 1}.keys()", "{2: [1]}.items()",
    "__import__('collections').Counter(b=0, a=2)",
    "__import__('collections').OrderedDict(b=1, a=2)",
    "__import__('collections').deque([1, [2]], 3)", "__import__('datetime').date(2020, 2, 29)",
    "__import__('datetime').datetime(1, 1, 1)", "__import__('datetime').timedelta(1, 2, 3)",
    "__import__('fractions').Fraction(1, 3)", "__import__('decimal').Decimal('1.50')",
]  # fmt: skip
FORMS = [
    "assert it([3, 1]) == [1, 3]",
    "assert set(it([3, 1])) == {1, 3}",
    "assert it(it([3, 1])) == [1, 3]",
    "assert it(xs=[2, 1]) == [1, 2]",
    "assert it([2, 1])[0] == 1 and len(it([1])) == 1",
    "assert all(it([n, 0]) == [0, n] for n in range(3))",
    "import math\nassert math.isclose(it([0.1])[0], 0.1)",
    "assert 3 in it([3])",
    "assert it([])  == []",
    "assert not it([])",
    "assert list(map(it, [[2, 1]])) == [[1, 2]]",
    (
        "try:\n    it(3)\nexcept TypeError as error:\n    assert 'iterable' in str(error)\nelse:\n"
        "    assert False"
    ),
]
EXTENDED = [
    ("type('D', (dict,), {})(a=1)", "{'a': 1}"),
    ("__import__('collections').defaultdict(int, a=1)", "{'a': 1}"),
    ("type('L', (list,), {'__eq__': lambda *_: True})([1])", "[1]"),
    ("__import__('collections').namedtuple('N', 'a b')(1, 2)", "(1, 2)"),
    ("type('S', (str,), {})('s')", "'s'"),
    ("__import__('http').HTTPStatus.OK", "200"),
    ("__import__('collections').UserList([1])", "[1]"),
    ("__import__('collections').UserString('a')", "'a'"),
    ("__import__('collections').ChainMap({1: 2}, {3: 4})", "{1: 2, 3: 4}"),
    ("__import__('types').MappingProxyType({1: 2})", "{1: 2}"),
    ("memoryview(b'ab')", "b'ab'"),
]
ERRORS = {
    "class E(ValueError): pass\ndef f(x): raise E('words')": (
        "ValueError as error:\n    assert str(error) == 'words'"
    ),
    "class E(LookupError): pass\nclass F(E, TypeError): pass\ndef f(x): raise F(1)": (
        "LookupError:\n    pass"
    ),
    "class ValueError(KeyError): pass\ndef f(x): raise ValueError(x)": "KeyError:\n    pass",
    "import json\ndef f(x): json.loads('{')": (
        "ValueError as error:\n    assert 'line 1' in str(error)"
    ),
    "def f(x): raise ValueError('a', [1, (2,)])": (
        "ValueError as error:\n    assert error.args == ('a', [1, (2,)])"
    ),
    "def f(x): raise ValueError('w' * 9999, 1)": (
        "ValueError as error:\n    assert error.args == ('w' * 9999, 1)"
    ),
    "def f(x): open('/nowhere')": "FileNotFoundError as error:\n    assert error.errno == 2",
    "class E(ValueError):\n    def __init__(self, a, b): self.a = a\ndef f(x): raise E(1, 2)": (
        "ValueError:\n    pass"
    ),
}
HARMFUL = [
    "raise type('E', (StopIteration,), {})(42)",
    "raise type('E', (SystemExit,), {})(0)",
    "raise ValueError(10 ** 5000)",
    "raise type('E' * 100_000, (ValueError,), {})",
    "deep = []\n    for _ in range(9999): deep = [deep]\n    raise ValueError(deep)",
    "raise type('M', (type,), {'__name__': 'a\\x00b'})('E', (ValueError,), {})()",
    "raise type('M', (type,), {'__mro__': property(lambda c: 1 / 0)})('E', (ValueError,), {})",
    "own = []\n    own.append(own)\n    return own",
    "return 'x' * (1 << 27)",
    "return 1 << (1 << 30)",
]
FORGED = [
    {"value": [None], "changed": {"7": [1]}},
    {"value": [None], "changed": 5},
    {"value": [None], "changed": {"0": [["dict", 2], ["list", 0], 1]}},
    {"value": [["?"]]},
    {"value": [["list", 9]]},
    {"value": [["new", 1, "builtins.eval"], "1"]},
    {"value": []},
    {"raised": ["ValueError"]},
    {"raised": ["ValueError", "a\0b", "", None]},
    {"neither": 1},
    5,
]
PROGRAM = {"cases": {"inputs": ["1 2\n", "3 4\n\n"], "outputs": ["3", "7\n"]}}
SUM = "n = sum(map(int, input().split()))"
PROGRAMS = [
    "a, b = map(int, input().split())\nprint(a + b)",
    "import sys\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit()",
    "import os\nos.write(1, str(sum(map(int, open(0).read().split()))).encode())\nos._exit(0)",
    (
        "def main():\n    print(sum(map(int, input().split())))\n"
        "if __name__ == '__main__':\n    main()"
    ),
    (
        f"import sys, threading, time\n{SUM}\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print(n))).start()\nsys.exit(0)"
    ),
    f"import atexit\n{SUM}\natexit.register(print, n)",
    (
        "import resource, sys\nresource.setrlimit(resource.RLIMIT_STACK, (1 << 26, -1))\n"
        f"sys.setrecursionlimit(10**6)\n{SUM}\nprint(n)"
    ),
    f"{SUM}\nclass D:\n    def __del__(self): print(n)\nd = D()",
    f"{SUM}\nout = open(1, 'w', closefd=False)\nout.write(str(n))",
    (
        f"import threading, time\n{SUM}\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint(n)"
    ),
]


def test_plain_values_cross_both_ways_as_they_are(grade: Grade) -> None:
    test = "x = it({0})\nassert x == {0} and type(x) is type({0}) and repr(x) == repr({0})"
    tests = [*map(test.format, VALUES), "x = it(float('nan'))\nassert x != x"]
    assert [
        result
        for result in grade("def echo(x): return x", "echo", tests=tests)
        if not result.passed
    ] == []


def test_other_values_cross_as_the_plain_value_that_they_equal(grade: Grade) -> None:
    tests = [
        f"x = it({n})\nassert x == {plain} and type(x) is type({plain})"
        for n, (_, plain) in enumerate(EXTENDED)
    ]
    code = f"def f(n): return [{', '.join(value for value, _ in EXTENDED)}][n]"
    assert [result for result in grade(code, "f", tests=tests) if not result.passed] == []


def test_asserts_of_many_forms_call_the_submitted_function(grade: Grade) -> None:
    found = grade("def ordered(xs): return sorted(xs)", "ordered", tests=FORMS)
    assert [result for result in found if not result.passed] == []


def test_a_wrong_result_and_an_exception_fail_and_say_why(grade: Grade) -> None:
    code = "def f(x):\n    if x == 1: return x\n    raise KeyError('k')"
    found = grade(code, "f", tests=["assert it(1) == 2", "assert it(2) == 2"])
    assert [(result.passed, result.why) for result in found] == [
        (False, "AssertionError"),
        (False, "KeyError: 'k'"),
    ]


@pytest.mark.parametrize("code", ERRORS)
def test_an_exception_is_caught_by_its_builtin_base_and_keeps_what_is_plain(
    grade: Grade, code: str
) -> None:
    (result,) = grade(
        code, "f", tests=[f"try:\n    it(1)\nexcept {ERRORS[code]}\nelse:\n    assert False"]
    )
    assert (result.passed, result.why) == (True, "")


@pytest.mark.parametrize("harm", HARMFUL)
def test_what_would_harm_the_grader_fails_and_the_next_test_does_not(
    grade: Grade, harm: str
) -> None:
    tests = ["assert all(map(lambda n: it(n) == n, [1]))", "assert it(2) == 2"]
    found = grade(f"def f(x):\n    if x == 2: return 2\n    {harm}", "f", tests=tests)
    assert passed(found) == [False, True]
    assert len(found[0].why) < 3000


@pytest.mark.parametrize("reply", FORGED, ids=json.dumps)
def test_a_forged_answer_fails_and_raises_nothing_in_the_test(grade: Grade, reply: Any) -> None:
    code = f"""
import os, struct
def f(xs):
    body = {json.dumps(reply).encode()!r}
    for fd in os.listdir('/proc/self/fd'):
        try:
            if os.readlink('/proc/self/fd/' + fd).startswith('socket'):
                os.write(int(fd), struct.pack('!I', len(body)) + body)
        except OSError: pass
    os._exit(0)
"""
    (result,) = grade(
        code, "f", tests=["try:\n    it([1])\nexcept Exception:\n    pass\nelse:\n    assert False"]
    )
    assert not result.passed
    assert result.why.startswith("Failed: the answer is not plain")


def test_arguments_changed_in_place_come_back_changed(grade: Grade) -> None:
    code = "def f(xs, seen, d): xs.sort(); seen.add(3); d['k'] = [1]; return xs"
    test = (
        "xs, seen, d = [2, 1], {1}, {}\nit(xs, seen, d)\n"
        "assert (xs, seen, d) == ([1, 2], {1, 3}, {'k': [1]})"
    )
    within = "xs = [2, 1]\nassert it(xs, set(), {}) == xs"
    assert passed(grade(code, "f", tests=[test, within])) == [True, True]


def test_each_test_sees_the_state_as_it_was_submitted(grade: Grade) -> None:
    code = "n = 0\ndef f():\n    global n\n    n += 1\n    return n"
    assert passed(
        grade(code, "f", tests=["assert it() == 1 and it() == 2", "assert it() == 1"])
    ) == [True, True]


def test_objects_that_are_not_plain_stay_where_they_are_and_can_be_handed_back(
    grade: Grade,
) -> None:
    code = (
        "class Node:\n    def __init__(self, v): self.v, self.next = v, None\n"
        "def f(n): return n.next.v"
    )
    setup = "a = Node(1)\r\na.next = Node(2)"
    assert passed(
        grade(
            code,
            "f",
            tests=["assert it(a) == 2"],
            test_setup_code=setup,
            gold=code + "\ndef it(n): 0",
        )
    ) == [True]


def test_classes_and_generators_are_tested_by_what_a_script_prints(grade: Grade) -> None:
    script = {"script": "print(list(it(3)))\nprint('end')", "expected": "[0, 1, 2]\nend\n"}
    hidden = {"hidden_script": "print(sum(it(4)))\nraise ValueError", "hidden_expected": "6"}
    assert passed(grade("def count(n):\n    yield from range(n)", "count", **script, **hidden)) == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("code", "right"),
    [
        ("def f(n): return 2 * n", True),
        ("def f(n): return n", False),
        ("def f(n): exit()", False),
        ("def f(n): raise SystemExit", False),
        ("import os\ndef f(n): os._exit(0)", False),
    ],
)
@pytest.mark.parametrize(
    "script",
    [
        "assert f(2) == 4",
        "assert f(2) == 4\nraise SystemExit",
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def test(self): self.assertEqual(f(2), 4)\n"
        "unittest.main(argv=['test'])",
    ],
)
def test_an_answer_that_ends_a_scripts_process_does_not_pass(
    grade: Grade, script: str, code: str, right: bool
) -> None:
    assert passed(grade(code, "f", script=script, gold="def f(n): 0")) == [right]


@pytest.mark.parametrize("code", PROGRAMS)
def test_a_program_reads_its_input_and_is_judged_by_what_it_printed_when_it_ended(
    grade: Grade, code: str
) -> None:
    assert passed(grade(code, None, **PROGRAM)) == [True, True]


def test_a_program_fails_if_it_prints_something_else_raises_or_has_no_end(
    grade: Grade, python: LocalSandbox
) -> None:
    endless = (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\nprint(3)"
    )
    assert passed(grade("print(3)", None, **PROGRAM)) == [True, False]
    assert passed(
        grade("import atexit\natexit.register(print, 3)\nraise ValueError", None, **PROGRAM)
    ) == [False, False]
    python.reset()
    assert passed(grade(endless, None, seconds=0.5, **PROGRAM)) == [False, False]


def test_a_function_may_be_submitted_as_a_program_and_a_sessions_own_end_is_no_output(
    grade: Grade, python: LocalSandbox
) -> None:
    python.exec(
        "import atexit\nclass D:\n    def __del__(self): print('gone')\n"
        "d, _ = D(), atexit.register(print, 'bye')"
    )
    assert passed(
        grade("def main():\n    print(sum(map(int, input().split())))", "main", **PROGRAM)
    ) == [True, True]


def test_calls_compare_tuples_as_lists_as_apps_does_and_take_numbers_without_end(
    grade: Grade,
) -> None:
    inf = float("inf")
    cases = {
        "fn_name": "it",
        "inputs": [[1, 2], [3, 4], [inf, -inf]],
        "outputs": [[1, 2], [[3, 4]], [inf, -inf]],
    }
    assert passed(grade("def pair(a, b): return a, b", "pair", cases=cases)) == [True, True, True]


def test_nothing_that_a_test_started_outlives_it_and_what_the_agent_started_does(
    grade: Grade, python: LocalSandbox
) -> None:
    code = """
import os, subprocess, threading, time
def f(x):
    threading.Thread(target=time.sleep, args=(60,)).start()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: time.sleep(60)
        os._exit(0)
    return 42
loop = 'while :; do sleep 60 & echo; wait; done'
jobs = [
    subprocess.Popen(['sh', '-c', job], stdout=subprocess.PIPE) for job in ('exec sleep 60', loop)
]
jobs[1].stdout.readline()  # its sleep runs
"""
    alive = (
        "len([p for p in os.listdir('/proc') if p.isdigit() and "
        "open(f'/proc/{p}/stat').read().split()[2] != 'Z'])"
    )
    python.exec(code)
    before = python.exec(alive).output
    assert passed(grade("1", "f", tests=["assert it(1) == 42", "assert it(2) == 42"])) == [
        True,
        True,
    ]
    assert python.exec(alive).output == before
    assert python.exec("[job.poll() for job in jobs]").output == "[None, None]\n"


@pytest.mark.parametrize(
    ("patience", "executed"), [(2, [True, False, False, False]), (None, [True, False, False, True])]
)
def test_an_answer_that_never_ends_does_not_cost_the_limits_of_all_tests(
    grade: Grade, patience: int | None, executed: list[bool]
) -> None:
    code = "def f(x):\n    while x % 3: pass\n    return 42"
    results = grade(
        code,
        "f",
        seconds=0.5,
        patience=patience,
        tests=[f"assert it({n}) == 42" for n in (0, 1, 2, 3)],
    )
    assert passed(results) == executed
    assert results[1].why == "ran out of time"
    assert ("not executed: 2 tests before it ran out of time" in results[-1].why) == (patience == 2)


ASSERTS = [
    ("[1, 2]", ("[1, 2]", "(1, 2)", "[1, 2.0]", "[True, 2]")),
    ("type('L', (list,), {})([1, 2])", ("[1, 2]", "(1, 2)")),
    ("collections.namedtuple('N', 'a b')(1, 2)", ("(1, 2)", "[1, 2]")),
    (
        "collections.deque([1, 2])",
        ("[1, 2]", "collections.deque([1, 2])", "collections.deque([1, 2], 9)"),
    ),
    ("collections.OrderedDict(a=1, b=2)", ("dict(b=2, a=1)", "collections.OrderedDict(b=2, a=1)")),
    ("collections.Counter(a=1, b=0)", ("{'a': 1}", "collections.Counter(a=1)", "{'a': 1, 'b': 0}")),
    ("collections.defaultdict(list, a=[1])", ("{'a': [1]}", "collections.defaultdict(int, a=[1])")),
    ("{1: 2}.keys()", ("{1}", "[1]", "frozenset({1})", "{1: 3}.keys()")),
    ("{1: 2}.items()", ("{(1, 2)}", "[(1, 2)]")),
    ("{1: 2}.values()", ("[2]", "{2}")),
    ("{1, 2}", ("frozenset({1, 2})", "[1, 2]")),
    ("range(3)", ("range(3)", "[0, 1, 2]", "range(0, 3, 1)")),
    ("fractions.Fraction(1, 2)", ("0.5", "fractions.Fraction(2, 4)", "decimal.Decimal('0.5')")),
    ("decimal.Decimal('0.10')", ("decimal.Decimal('0.1')", "0.1", "fractions.Fraction(1, 10)")),
    (
        "datetime.datetime(2020, 1, 2)",
        ("datetime.datetime(2020, 1, 2, 0)", "datetime.date(2020, 1, 2)"),
    ),
    (
        "datetime.time(1, tzinfo=datetime.timezone.utc)",
        ("datetime.time(1)", "datetime.time(1, tzinfo=datetime.timezone.utc)"),
    ),
    ("enum.IntEnum('E', 'A').A", ("1", "True", "2")),
    ("enum.IntFlag('F', 'A B')(3)", ("3",)),
    ("bytearray(b'a')", ("b'a'", "'a'", "bytearray(b'a')")),
    ("memoryview(b'a')", ("b'a'", "bytearray(b'a')")),
    ("True", ("1", "1.0", "1 + 0j", "'1'")),
    ("float('nan')", ("float('nan')",)),
    ("collections.UserDict(a=1)", ("{'a': 1}",)),
    ("pathlib.Path('/a')", ("pathlib.PurePosixPath('/a')", "'/a'")),
    ("int", ("int", "bool")),
    ("[(1, {2: {3}}), b'', None]", ("[(1, {2: {3}}), b'', None]", "[[1, {2: {3}}], b'', None]")),
]
IMPORTS = "import collections, datetime, decimal, enum, fractions, pathlib"


def test_a_result_equals_what_it_equals_under_a_plain_assert(grade: Grade) -> None:
    pairs = [
        (number, value, other) for number, (value, others) in enumerate(ASSERTS) for other in others
    ]
    namespace: dict[str, Any] = {}
    exec(IMPORTS, namespace)
    plain = [eval(f"{value} == {other}", namespace) for _, value, other in pairs]
    code = f"{IMPORTS}\ndef f(n): return [{', '.join(value for value, _ in ASSERTS)}][n]"
    tests = [f"assert it({number}) == {other}" for number, _, other in pairs]
    found = grade(code, "f", tests=tests, test_setup_code=IMPORTS)
    assert [
        result.test.text
        for result, equal in zip(found, plain, strict=True)
        if result.passed is not equal
    ] == []
    assert {True, False} == set(plain)


LARGE = {
    "'é' * 9_000_000": "x == 'é' * 9_000_000",
    "b'x' * 9_000_000": "x == b'x' * 9_000_000",
    "list(range(2_500_000))": "x == list(range(2_500_000))",
    "1 << (1 << 27)": "x == 1 << (1 << 27)",
}


@pytest.mark.parametrize("value", LARGE)
def test_a_large_result_and_a_large_argument_pass(grade: Grade, value: str) -> None:
    tests = [f"x = it({value})\nassert {LARGE[value]}"]
    assert grade("def f(x): return x", "f", tests=tests, seconds=60)[0].why == ""


def test_what_is_too_large_fails_and_the_reason_says_whose_it_is(grade: Grade) -> None:
    code = "def f(x, n): return 'x' * n"
    result, argument = grade(
        code, "f", seconds=60, tests=["it('', 65 << 20)", "it('x' * (65 << 20), 1)"]
    )
    words = "more than the 64 MiB that may pass between a test and an answer at once"
    assert (result.why, argument.why) == (
        f"Failed: the result: {words}",
        f"Failed: the test's arguments: {words}",
    )


def test_a_deep_result_passes_and_one_that_contains_itself_says_so(grade: Grade) -> None:
    code = (
        "def f(n):\n    x = []\n    for _ in range(n): x = [x]\n    return x\nown = []\n"
        "own.append(own)\ndef g(): return own"
    )
    (deep,) = grade(
        code, "f", tests=["x, n = it(50_000), 0\nwhile x: x, n = x[0], n + 1\nassert n == 50_000"]
    )
    (endless,) = grade("0", "g", tests=["it()"])
    assert (deep.why, endless.why) == (
        "",
        "Failed: the result: a value that contains itself is not plain",
    )


LINKED = """
import itertools, time
class Linked:
    def __init__(self, n): self.n = n
    def __iter__(self): yield from range(self.n)
    def __len__(self): return self.n
    def __getitem__(self, key): return key * 2
"""
ITERATED = {
    "return (i * i for i in range(n))": (
        "assert list(it(3)) == [0, 1, 4] and list(it(2000))[-1] == 1999 ** 2"
    ),
    "return itertools.count()": "assert list(itertools.islice(it(0), 5)) == [0, 1, 2, 3, 4]",
    "yield 1\n    yield 2\n    time.sleep(60)": (
        "found = it(0)\nassert (next(found), next(found)) == (1, 2)"
    ),
    "yield 1\n    raise KeyError(n)": (
        "found = it(7)\nassert next(found) == 1\ntry: next(found)\n"
        "except KeyError as error: assert error.args == (7,)\nelse: assert False"
    ),
    "return Linked(n)": "assert sorted(it(3)) == [0, 1, 2] and len(it(4)) == 4 and it(5)[2] == 4",
    "return map(str, range(n))": "assert ' '.join(it(3)) == '0 1 2' and sum(1 for _ in it(0)) == 0",
}


@pytest.mark.parametrize("body", ITERATED)
def test_a_test_takes_the_items_of_an_iterator_as_it_asks_for_them(grade: Grade, body: str) -> None:
    code = f"{LINKED}\ndef f(n):\n    {body}"
    assert grade(code, "f", tests=[ITERATED[body]], test_setup_code="import itertools")[0].why == ""


def test_what_cannot_be_made_plain_is_told(grade: Grade) -> None:
    (result,) = grade(
        "class Node: __eq__ = lambda *_: True\ndef f(): return [Node()]",
        "f",
        tests=["assert it() == [1]"],
    )
    assert not result.passed
    assert (
        result.why
        == "Failed: an object of type Node is not plain, so nothing can be compared with it"
    )
