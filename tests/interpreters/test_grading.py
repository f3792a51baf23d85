"""Grading: right answers pass in all their forms, and no way of pretending pays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from graded import Grade, passed
from hacks import HACKS

from intercode.errors import DataError
from intercode.interpreters import Grader, Result, suite_of
from intercode.sandbox.local import LocalSandbox
from intercode.types import Task

VALUES = [
    "None", "True", "0", "-7", "2 ** 200", "-(10 ** 4000)", "1.5", "-0.0", "float('inf')", "1e308", "2 + 3j", "'é\\x00\\udc80'",
    "b'\\x00\\xff'", "[]", "[1, [2, (3, {4})]]", "()", "{1, 2}", "frozenset({(1,), 'x'})", "{1: [2], (3, 4): {'a': None}}",
    "int",
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_plain_values_cross_both_ways_as_they_are(grade: Grade, value: str) -> None:
    tests = [f"x = it({value})\nassert x == {value} and type(x) is type({value}) and repr(x) == repr({value})"]
    assert passed(grade("def echo(x): return x", "echo", tests=tests)) == [True]


def test_a_number_that_is_none_crosses_as_well(grade: Grade) -> None:
    assert passed(grade("def echo(x): return x", "echo", tests=["x = it(float('nan'))\nassert x != x"])) == [True]


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ("__import__('collections').Counter('aab')", "{'a': 2, 'b': 1}"),
        ("__import__('collections').OrderedDict(a=1)", "{'a': 1}"),
        ("__import__('collections').namedtuple('N', 'a b')(1, 2)", "(1, 2)"),
        ("type('S', (str,), {})('s')", "'s'"),
        ("__import__('http').HTTPStatus.OK", "200"),
    ],
)
def test_subclasses_cross_as_the_plain_type_that_they_extend(grade: Grade, value: str, plain: str) -> None:
    test = f"assert it() == {plain} and type(it()) is type({plain})"
    assert passed(grade(f"def f(): return {value}", "f", tests=[test], gold="def it(): pass")) == [True]


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
    "try:\n    it(3)\nexcept TypeError as error:\n    assert 'iterable' in str(error)\nelse:\n    assert False",
]


@pytest.mark.parametrize("form", FORMS)
def test_asserts_of_many_forms_call_the_submitted_function(grade: Grade, form: str) -> None:
    assert passed(grade("def ordered(xs): return sorted(xs)", "ordered", tests=[form])) == [True]


def test_a_wrong_result_fails_and_says_why(grade: Grade) -> None:
    (result,) = grade("def f(x): return x", "f", tests=["assert it(1) == 2"])
    assert (result.passed, result.why) == (False, "AssertionError")


def test_an_exception_fails_and_says_which(grade: Grade) -> None:
    (result,) = grade("def f(x): raise KeyError('k')", "f", tests=["assert it(1) == 2"])
    assert result.why.startswith("KeyError")


ERRORS = {
    "class E(ValueError): pass\ndef f(x): raise E('words')": "ValueError as error:\n    assert str(error) == 'words'",
    "class E(LookupError): pass\nclass F(E, TypeError): pass\ndef f(x): raise F(1)": "LookupError:\n    pass",
    "class E(Exception): pass\ndef f(x): raise E": "Exception as error:\n    assert type(error).__name__ == 'E'",
    "class ValueError(KeyError): pass\ndef f(x): raise ValueError(x)": "KeyError:\n    pass",
    "import json\ndef f(x): json.loads('{')": "ValueError as error:\n    assert 'line 1' in str(error)",
    "def f(x): raise KeyError(5)": "KeyError as error:\n    assert error.args == (5,)",
    "def f(x): raise ValueError('a', [1, (2,)])": "ValueError as error:\n    assert error.args == ('a', [1, (2,)])",
    "def f(x): open('/nowhere')": "FileNotFoundError as error:\n    assert error.errno == 2",
    "def f(x): b'\\xff'.decode()": "UnicodeDecodeError as error:\n    assert error.start == 0",
    "def f(x): raise ValueError(object())": "ValueError as error:\n    assert 'object' in str(error)",
    "class E(OSError):\n    def __str__(self): return 'own'\ndef f(x): raise E(1)": "OSError as e:\n    assert str(e) == 'own'",
    "class E(ValueError):\n    def __init__(self, a, b): self.a = a\ndef f(x): raise E(1, 2)": "ValueError:\n    pass",
}


@pytest.mark.parametrize("code", ERRORS)
def test_an_exception_is_caught_by_its_builtin_base_and_keeps_what_is_plain(grade: Grade, code: str) -> None:
    (result,) = grade(code, "f", tests=[f"try:\n    it(1)\nexcept {ERRORS[code]}\nelse:\n    assert False"])
    assert (result.passed, result.why) == (True, "")


HARMFUL = [
    "raise type('E', (StopIteration,), {})(42)",
    "raise type('E', (SystemExit,), {})(0)",
    "raise ValueError(10 ** 5000)",
    "raise type('E' * 100_000, (ValueError,), {})",
    "deep = []\n    for _ in range(9999): deep = [deep]\n    raise ValueError(deep)",
    "raise type('M', (type,), {'__name__': 'a\\x00b'})('E', (ValueError,), {})()",
    "raise type('M', (type,), {'__mro__': property(lambda c: 1 / 0)})('E', (ValueError,), {})",
]


@pytest.mark.parametrize("raised", HARMFUL)
def test_an_exception_that_would_harm_fails_and_the_next_test_does_not(grade: Grade, raised: str) -> None:
    tests = ["assert all(map(lambda n: it(n) == n, [1]))", "assert it(2) == 2"]
    found = grade(f"def f(x):\n    if x == 2: return 2\n    {raised}", "f", tests=tests)
    assert passed(found) == [False, True]
    assert len(found[0].why) < 3000


FORGED = [
    {"value": None, "changed": {"7": 1}},
    {"value": None, "changed": {"x": 1}},
    {"value": None, "changed": 5},
    {"value": None, "changed": {"0": ["d", ["l"], 1]}},
    {"value": ["?"]},
    {"raised": ["ValueError"]},
    {"raised": 5},
    {"raised": ["ValueError", "a\0b", "", None]},
    {"neither": 1},
    ["value"],
    5,
]


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
    (result,) = grade(code, "f", tests=["try:\n    it([1])\nexcept Exception:\n    pass\nelse:\n    assert False"])
    assert not result.passed
    assert result.why.startswith("Failed: the answer is not plain")


def test_arguments_changed_in_place_come_back_changed(grade: Grade) -> None:
    code = "def f(xs, seen, d): xs.sort(); seen.add(3); d['k'] = [1]"
    test = "xs, seen, d = [2, 1], {1}, {}\nit(xs, seen, d)\nassert (xs, seen, d) == ([1, 2], {1, 3}, {'k': [1]})"
    assert passed(grade(code, "f", tests=[test])) == [True]


@pytest.mark.parametrize("code", ["xs.clear(); return xs", "xs.sort(); return xs", "return sorted(xs)", "return xs[:]"])
@pytest.mark.parametrize(
    "test", ["assert it(xs) == sorted(xs)", "want = sorted(xs)\nassert it(xs) == want", "assert it([2, 1]) == sorted([2, 1])"]
)
def test_a_test_that_looks_at_an_argument_after_the_call_sees_what_it_would_see_in_one_process(
    grade: Grade, code: str, test: str
) -> None:
    space: dict[str, Any] = {}
    try:
        exec(f"def it(xs): {code}\nxs = [2, 1]\n{test}", space)
        holds = True
    except AssertionError:
        holds = False
    assert passed(grade(f"def f(xs): {code}", "f", tests=[f"xs = [2, 1]\n{test}"])) == [holds]


def test_each_test_sees_the_state_as_it_was_submitted(grade: Grade) -> None:
    code = "n = 0\ndef f():\n    global n\n    n += 1\n    return n"
    tests = ["assert it() == 1 and it() == 2", "assert it() == 1"]
    assert passed(grade(code, "f", tests=tests, gold="def it(): pass")) == [True, True]


def test_objects_that_are_not_plain_stay_where_they_are_and_can_be_handed_back(grade: Grade) -> None:
    code = "class Node:\n    def __init__(self, v): self.v, self.next = v, None\ndef f(n): return n.next.v"
    found = grade(
        code, "f", tests=["assert it(a) == 2"], test_setup_code="a = Node(1)\r\na.next = Node(2)", gold=code + "\ndef it(n): 0"
    )
    assert passed(found) == [True]


def test_classes_and_generators_are_tested_by_what_a_script_prints(grade: Grade) -> None:
    script = {"script": "print(list(it(3)))\nprint('end')", "expected": "[0, 1, 2]\nend\n"}
    hidden = {"hidden_script": "print(next(it(5)), sum(it(4)))", "hidden_expected": "0 7"}
    found = grade("def count(n):\n    yield from range(n)", "count", **script, **hidden)
    assert passed(found) == [True, False]


def test_a_script_that_fails_after_the_right_output_fails(grade: Grade) -> None:
    assert passed(grade("x = 1", "x", script="print(1)\nraise ValueError", expected="1")) == [False]


PROGRAM = {"cases": {"inputs": ["1 2\n", "3 4\n\n"], "outputs": ["3", "7\n"]}}


@pytest.mark.parametrize(
    "code",
    [
        "a, b = map(int, input().split())\nprint(a + b)",
        "import sys\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit()",
        "import os\nos.write(1, str(sum(map(int, open(0).read().split()))).encode())\nos._exit(0)",
        "def main():\n    print(sum(map(int, input().split())))\nif __name__ == '__main__':\n    main()",
    ],
)
def test_a_program_reads_its_input_and_is_judged_by_its_output(grade: Grade, code: str) -> None:
    assert passed(grade(code, None, **PROGRAM)) == [True, True]


ENDS = {
    "a thread": "threading.Thread(target=lambda: (time.sleep(0.05), print(n))).start()",
    "a thread, and sys.exit": "threading.Thread(target=lambda: (time.sleep(0.05), print(n))).start()\nsys.exit(0)",
    "a pool": "concurrent.futures.ThreadPoolExecutor(1).submit(lambda: (time.sleep(0.05), print(n)))",
    "what is registered": "atexit.register(print, n)",
    "what is registered, after threads": "k = []\natexit.register(lambda: print(*k))\n"
    "threading.Thread(target=lambda: (time.sleep(0.05), k.append(n))).start()",
    "a finaliser": "class D:\n    def __del__(self): print(n)\nd = D()",
    "a stream of its own": "out = open(1, 'w', closefd=False)\nout.write(str(n))",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_program_ends_as_an_interpreter_does(grade: Grade, end: str) -> None:
    code = f"import atexit, concurrent.futures, sys, threading, time\nn = sum(map(int, input().split()))\n{ENDS[end]}"
    assert passed(grade(code, None, **PROGRAM)) == [True, True]


def test_what_a_session_registered_is_no_output_of_a_program(grade: Grade, python: LocalSandbox) -> None:
    python.exec("import atexit\nclass D:\n    def __del__(self): print('gone')\nd, _ = D(), atexit.register(print, 'bye')")
    assert passed(grade("print(sum(map(int, input().split())))", None, **PROGRAM)) == [True, True]
    main = "def main():\n    print(sum(map(int, input().split())))"
    assert passed(grade(main, "main", **PROGRAM)) == [True, True]


def test_a_daemon_is_not_waited_for_and_a_thread_without_end_is_too_late(grade: Grade) -> None:
    code = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=%s).start()\nprint(3)"
    one = {"cases": {"inputs": ["1 2"], "outputs": ["3"]}}
    assert passed(grade(code % True, None, **one)) == [True]
    assert passed(grade(code % False, None, seconds=0.5, **one)) == [False]


def test_a_program_that_fails_fails_whatever_it_prints_at_its_end(grade: Grade) -> None:
    code = "import atexit\natexit.register(print, 3)\nraise ValueError"
    assert passed(grade(code, None, cases={"inputs": [""], "outputs": ["3"]})) == [False]


def test_a_function_may_be_submitted_as_a_program(grade: Grade) -> None:
    assert passed(grade("def main():\n    print(sum(map(int, input().split())))", "main", **PROGRAM)) == [True, True]


def test_a_program_that_fails_or_answers_wrong_fails(grade: Grade) -> None:
    assert passed(grade("print(3)", None, **PROGRAM)) == [True, False]
    assert passed(grade("print(3)\nraise ValueError", None, **PROGRAM)) == [False, False]


def test_calls_compare_tuples_as_lists_as_apps_does(grade: Grade) -> None:
    cases = {"fn_name": "it", "inputs": [[1, 2], [3, 4]], "outputs": [[1, 2], [[3, 4]]]}
    assert passed(grade("def pair(a, b): return a, b", "pair", cases=cases)) == [True, True]


def test_calls_may_be_given_and_give_numbers_without_end(grade: Grade) -> None:
    cases = {"fn_name": "it", "inputs": [[float("inf")], [[1, float("-inf")]]], "outputs": [float("inf"), [1, float("-inf")]]}
    assert passed(grade("def same(a): return a", "same", cases=cases)) == [True, True]
    (result,) = grade("def f(a): return a != a", "f", cases={"fn_name": "it", "inputs": [[float("nan")]], "outputs": [True]})
    assert result.passed


# -- pretending -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hack", HACKS)
def test_a_hack_does_not_pay_and_the_next_honest_answer_does(grade: Grade, python: LocalSandbox, hack: str) -> None:
    found = grade(HACKS[hack], "f", seconds=1.5, tests=["assert it(1) == 42", "assert all(map(lambda n: it(n) == 42, [1, 2]))"])
    assert passed(found) == [False, False], found
    python.reset()
    assert passed(grade("def f(x): return 42", "f", tests=["assert it(1) == 42"])) == [True]


def test_a_late_answer_does_not_count_for_the_next_test(grade: Grade) -> None:
    code = "import time\ndef f(x):\n    if x == 1: time.sleep(60)\n    return x"
    found = grade(code, "f", seconds=0.5, tests=["assert it(1) == 1", "assert it(2) == 2"])
    assert [(result.passed, result.why) for result in found] == [(False, "ran out of time"), (True, "")]


def test_nothing_that_a_test_started_outlives_it(grade: Grade, python: LocalSandbox) -> None:
    code = """
import os, threading, time
def f(x):
    threading.Thread(target=time.sleep, args=(60,)).start()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: time.sleep(60)
        os._exit(0)
    return 42
"""
    assert passed(grade(code, "f", tests=["assert it(1) == 42"])) == [True]
    alive = python.exec("import os\nsorted(int(p) for p in os.listdir('/proc') if p.isdigit())").output
    assert alive.count(",") == 1


@pytest.mark.parametrize("job", ["sleep 60", "while :; do (sleep 0.01; sleep 0); done"])
def test_jobs_that_the_agent_started_live_through_tests_and_questions_and_so_do_later_ones(
    grade: Grade, python: LocalSandbox, referee: LocalSandbox, job: str
) -> None:
    start = f"subprocess.Popen(['sh', '-c', {job!r}])"
    python.exec(f"import subprocess\njobs = [{start}]")
    assert passed(grade("def f(x): return 42", "f", tests=["assert it(1) == 42", "assert it(2) == 42"])) == [True, True]
    python.exec(f"jobs += [{start}]")
    assert Grader(referee).about(python, "f").callable
    python.exec(f"jobs += [{start}]")
    assert passed(grade("1", "f", tests=["assert it(1) == 42"])) == [True]
    assert python.exec("[job.poll() for job in jobs]").output == "[None, None, None]\n"


def test_grading_leaves_no_children_to_wait_for(grade: Grade, python: LocalSandbox) -> None:
    grade("def f(x): return 42", "f", tests=["assert it(1) == 42"])
    assert "ChildProcessError" in python.exec("import os; os.wait()").output


def test_the_far_side_is_told_arguments_and_neither_tests_nor_expected_values(grade: Grade, python: LocalSandbox) -> None:
    """The control is a test that tells the word as its argument: it is found, and passes."""
    code = """
import re, sys
def f(x):
    held, frame = [x], sys._getframe(1)
    while frame:
        held += [frame.f_locals, frame.f_globals, frame.f_code.co_consts]
        frame = frame.f_back
    return next(iter(re.findall('expected-w[a-z]+', repr(held))), '')
"""
    tests = ["assert it('argument') == 'expected-word'", "assert it('expected-word') == 'expected-word'"]
    assert passed(grade(code, "f", tests=tests)) == [False, True]


def test_a_test_that_is_too_large_is_the_datas_fault(grade: Grade) -> None:
    with pytest.raises(DataError, match="too many to cross"):
        grade("def f(x): return 42", "f", tests=[f"assert it(1) == 42  # {'x' * (17 << 20)}"])


def test_an_agent_whose_interpreter_does_not_fork_fails_its_tests(python: LocalSandbox, referee: LocalSandbox) -> None:
    python.exec("import os\nos.fork = None\ndef f(x): return 42")
    suite = suite_of(Task("t", "q", "def it(x): pass", {"tests": ["assert it(1) == 42"]}))
    results: list[Result] = Grader(referee, seconds=1).grade(python, suite, name="f")
    assert passed(results) == [False]
    assert python.exec("1 + 1").output.endswith("2\n")


@pytest.mark.parametrize("seconds", [0.5, 1.25])
@pytest.mark.parametrize(("patience", "executed"), [(2, [True, False, False, False]), (None, [True, False, False, True])])
def test_an_answer_that_never_ends_does_not_cost_the_limits_of_all_tests(
    python: LocalSandbox, referee: LocalSandbox, patience: int | None, executed: list[bool], seconds: float
) -> None:
    python.exec("def f(x):\n    while x % 3: pass\n    return 42")
    suite = suite_of(Task("t", "q", "def it(x): pass", {"tests": [f"assert it({n}) == 42" for n in (0, 1, 2, 3)]}))
    results: list[Result] = Grader(referee, seconds=seconds, patience=patience).grade(python, suite, name="f")
    assert passed(results) == executed
    assert ("not executed: 2 tests before it ran out of time" in results[-1].why) == (patience == 2)


def test_what_an_agent_says_of_itself_is_taken_with_care(python: LocalSandbox, referee: LocalSandbox) -> None:
    grader: Any = Grader(referee, seconds=1)
    python.exec("def one(a, b=2, *c): pass\nclass Two: pass\nthree = 3")
    found = grader.about(python, "one")
    assert (found.defined, found.last, found.callable, found.takes) == (("one", "Two"), "Two", True, (1, -1))
    assert not grader.about(python, "three").callable
    python.exec("import inspect\ninspect.signature = lambda f: (_ for _ in ()).throw(SystemExit)")
    assert grader.about(python, "one") is None
