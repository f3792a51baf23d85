"""Published layouts of Python tasks, recognized by the fields of their records.

    ODEX            intent, test_start, suffix, canonical_solution → tests: each calls check
    HumanEval-X     declaration, example_test, canonical_solution  → tests: one that calls check
    HumanEval       prompt, test, entry_point, canonical_solution  → tests: one that calls check
    HumanEval+      prompt, entry_point, canonical_solution,       → tests, hidden: the reference
    and MBPP+       base_input, plus_input, atol                     solution on each input
    BigCodeBench    instruct_prompt, complete_prompt, code_prompt, → script that runs the test's
                    canonical_solution, test, entry_point            classes of unittest
    ClassEval       skeleton, test, solution_code, class_name      → the same
    MBPP            text or prompt, code, test_list                → tests
    APPS            question, input_output, solutions              → cases
    CodeContests    description, public_tests, private_tests,      → cases, hidden_cases
                    generated_tests, solutions
    LiveCodeBench   question_content, public_test_cases, …         → cases, hidden_cases; no gold

`suite.py` has the form that they become. Other fields are unchanged.

Left out: the checks of a set's own harness that are about one task of it, but for MBPP+'s answers
that are sets.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import zlib
from typing import Any

from intercode.envs.python.suite import (
    imports_of,
    is_python,
    parse,
    parse_or_empty,
    undefined_names,
)
from intercode.errors import DataError
from intercode.tasks import Layout, Record

_APPS_IMPORTS = """import sys, time, itertools, collections, math, fractions, random, heapq
from itertools import accumulate, product, permutations, combinations
from collections import Counter, OrderedDict, deque, defaultdict, ChainMap
from functools import lru_cache
from math import sqrt, sin, cos, tan, ceil, fabs, floor, gcd, exp, log, log2
from typing import List, Tuple
from heapq import *
"""
"""The imports that APPS puts before every solution."""
_LIVECODEBENCH_IMPORTS = """import bisect, collections, copy, datetime, functools, heapq, io
import itertools, json, math, operator, random, re, statistics, string, sys
from string import *
from re import *
from datetime import *
from collections import *
from heapq import *
from bisect import *
from copy import *
from math import *
from random import *
from statistics import *
from itertools import *
from functools import *
from operator import *
from io import *
from sys import *
from json import *
from builtins import *
from typing import *
"""
"""The imports that LiveCodeBench's harness puts before every answer; HumanEval-X's puts fewer."""
_MOST_SOLUTIONS = 10
"""APPS has up to hundreds of solutions of a task."""
_SETS = {
    "similar_elements",
    "find_char_long",
    "common_in_nested_lists",
    "extract_singly",
    "larg_nnum",
    "intersection_array",
    "find_dissimilar",
    "Diff",
}
"""The functions of MBPP+ whose results are compared as sets."""
_PICKLED = (
    "its private test cases are a pickle, and reading a pickle may run any code; write them as JSON"
    " where you trust their source"
)
_PLUS_TEST = """# {name} on {count} inputs, compared with the reference solution
import copy
from math import inf, isinf, isnan, nan

def _reference(arguments, _space={{}}):
    if not _space:
        exec({reference!r}, _space)
    return _space[{name!r}](*arguments)

def _is_close(got, expected, tolerance):
    if isinstance(expected, (list, tuple)):
        return type(got) is type(expected) and len(got) == len(expected) and all(
            _is_close(*pair, tolerance) for pair in zip(got, expected))
    if not isinstance(expected, float) or not isinstance(got, (int, float)):
        return got == expected
    if isnan(expected) or isinf(expected):
        return got == expected or (isnan(expected) and isnan(got))
    return abs(got - expected) <= tolerance + 1e-7 * abs(expected)

for _arguments in {inputs!r}:
    _expected = _reference(copy.deepcopy(_arguments))
    _got = {name}(*copy.deepcopy(_arguments))
    _what = f"{name}(*{{_arguments!r:.200}}) returned {{_got!r:.200}}, not {{_expected!r:.200}}"
    assert {same}, _what
"""
"""EvalPlus compares floats as numpy's `allclose` does, with a relative tolerance of 1e-7, and an
absolute one of `atol`, or 1e-6 where that is 0."""
_RUN_CASES = """
import os as _os, sys as _sys, unittest as _unittest
_result, _out = _unittest.TestResult(), _os.dup(1)
_os.dup2(_os.open(_os.devnull, _os.O_WRONLY), 1)
for _cases in list(globals().values()):
    if isinstance(_cases, type) and issubclass(_cases, _unittest.TestCase):
        if not _cases.__module__.startswith("unittest"):
            _unittest.defaultTestLoader.loadTestsFromTestCase(_cases).run(_result)
_sys.stdout.flush()
_os.dup2(_out, 1)
for _case, _trace in _result.errors + _result.failures:
    raise AssertionError(f"{_case}: {_trace.strip().splitlines()[-1]}")
assert _result.testsRun, "there is no test"
print("passed")
"""
"""Ends a test of unittest, in place of `unittest.main()`, which a test may call itself if its
`__name__` is `__main__`. What the answer prints meanwhile does not count."""


def _read_humaneval(record: Record) -> Record:
    name = _text(record, "entry_point")
    return {
        **_completed(record, name, _text(record, "prompt")),
        "tests": [f"{_text(record, 'test')}\n\ncheck({name})"],
    }


def _read_humaneval_x(record: Record) -> Record:
    prompt = _text(record, "prompt")
    functions = re.findall(r"^def (\w+)", _text(record, "declaration"), re.MULTILINE)
    converted = _completed(record, functions[-1] if functions else "", prompt)
    before = f"{_LIVECODEBENCH_IMPORTS}{converted['preamble']}"
    return {
        **converted,
        "tests": [_text(record, "test")],
        "test_setup_code": before,
        "preamble": before,
    }


def _read_odex(record: Record) -> Record:
    """The published ids repeat, so the records are numbered."""
    name, prompt = _text(record, "entry_point"), _text(record, "prompt")
    start = _text(record, "test_start")
    imports = imports_of(parse(f"{start.rstrip()}\n    pass"))
    return {
        **record,
        "query": f"{_text(record, 'intent').rstrip()}\n\nComplete this:\n{prompt}",
        "gold": f"{prompt}{_text(record, 'canonical_solution')}{_text(record, 'suffix')}",
        "name": name,
        "tests": [f"{start}{test}\n\ncheck({name})" for test in record["test"]],
        "test_setup_code": imports,
        "preamble": imports,
        "completes": prompt,
    }


def _read_plus(record: Record) -> Record:
    name, tolerance = _text(record, "entry_point"), record.get("atol") or 1e-6
    converted = _completed(record, name, _text(record, "prompt"))
    same = f"_got == _expected or _is_close(_got, _expected, {tolerance!r})"
    if name in _SETS:
        same = "set(_got) == set(_expected)"
    for field, column in (("tests", "base_input"), ("hidden", "plus_input")):
        inputs = _parsed(record[column], field)
        if not isinstance(inputs, list):
            raise DataError(f"the inputs are {inputs!r:.60}; a list is expected")
        test = _PLUS_TEST.format(
            reference=converted["gold"], name=name, inputs=inputs, same=same, count=len(inputs)
        )
        converted[field] = [test] if inputs else []
    return converted


def _read_bigcodebench(record: Record) -> Record:
    """The tests replace functions that the answer calls, so they run in its process."""
    name = _text(record, "entry_point")
    return {
        **_completed(record, name, _text(record, "code_prompt")),
        "query": _text(record, "instruct_prompt"),
        "completes": _text(record, "complete_prompt"),
        **_unittests(record),
    }


def _read_classeval(record: Record) -> Record:
    """The tests set attributes of the answer's objects, so they run in its process."""
    imports = "\n".join(record["import_statement"])
    skeleton = f"{imports}\n\n{_text(record, 'skeleton')}".strip()
    return {
        **_with_id(record, "task_id"),
        "query": f"Write this class in full:\n\n{skeleton}",
        "gold": f"{imports}\n\n{_text(record, 'solution_code')}",
        "name": _text(record, "class_name"),
        "preamble": imports,
        **_unittests(record),
    }


def _unittests(record: Record) -> Record:
    return {
        "script": f'__name__ = "test"\n{_text(record, "test")}\n{_RUN_CASES}',
        "expected": "passed",
    }


def _completed(record: Record, name: str, prompt: str) -> Record:
    """Return the fields of a record whose gold completes its prompt. The tests may use what the
    prompt defines besides the function."""
    gold = prompt + _text(record, "canonical_solution")
    others = []
    for node in parse_or_empty(gold).body:
        if getattr(node, "name", None) != name and not isinstance(node, ast.Expr):
            others.append(ast.unparse(node))
    before = "\n".join(others)
    return {
        **_with_id(record, "task_id"),
        "query": prompt,
        "gold": gold,
        "name": name,
        "test_setup_code": before,
        "preamble": before,
        "completes": prompt,
    }


def _read_mbpp(record: Record) -> Record:
    names = {"text": "query", "prompt": "query", "code": "gold", "test_list": "tests"}
    converted = {}
    for name, value in _with_id(record, "task_id").items():
        converted[names.get(name, name)] = value
    if imports := record.get("test_imports"):
        setup = record.get("test_setup_code") or ""
        converted["test_setup_code"] = "\n".join([*map(str, imports), str(setup)])
    if isinstance(test := record.get("test"), str):
        converted["hidden"] = [test]
    # what of the setup can be executed before the answer: only its imports if it uses the answer
    setup = parse_or_empty(str(converted.get("test_setup_code") or ""))
    converted["preamble"] = imports_of(setup) if undefined_names(setup) else ast.unparse(setup)
    return converted


def _read_apps(record: Record) -> Record:
    """The golds are the first solutions that are Python 3."""
    solutions = _parsed(record.get("solutions") or [], "solutions")
    if not (isinstance(solutions, list) and all(isinstance(text, str) for text in solutions)):
        raise DataError(
            f"the field `solutions` is {solutions!r:.60}; a list of texts, or its JSON, is expected"
        )
    return {
        **_with_id(record, "problem_id"),
        "query": _with_starter(_text(record, "question"), record),
        "golds": _python_3(solutions),
        "preamble": _APPS_IMPORTS,
        "solutions": None,
        "tolerant": True,
    }


def _python_3(solutions: list[str]) -> list[str]:
    """Return the solutions to try: those that are Python 3, or all if none is."""
    return list(filter(is_python, solutions[:_MOST_SOLUTIONS])) or solutions[:1]


def _read_codecontests(record: Record) -> Record:
    solutions = zip(record["solutions"]["language"], record["solutions"]["solution"], strict=True)
    tests = ("public_tests", "private_tests", "generated_tests")
    public, *hidden = (record.get(name) or {} for name in tests)
    converted = {
        **record,
        **dict.fromkeys(("name", "solutions", "incorrect_solutions", *tests)),
        "id": record.get("name"),
        "query": _text(record, "description"),
        "golds": _python_3([text for language, text in solutions if language in (3, "PYTHON3")]),
        "cases": _joined(public),
        "hidden_cases": _joined(*hidden),
        "tolerant": True,
    }
    if file := record.get("input_file") or record.get("output_file"):
        converted["unplayable"] = (
            f"its programs read or write the file {file}, not stdin and stdout"
        )
    return converted


def _joined(*groups: Record) -> Record:
    """Return the inputs and outputs of several groups of tests."""
    columns: Record = {"inputs": [], "outputs": []}
    for tests in groups:
        columns["inputs"] += tests.get("input") or ()
        columns["outputs"] += tests.get("output") or ()
    return columns


def _read_livecodebench(record: Record) -> Record:
    metadata = _parsed(record.get("metadata") or {}, "metadata")
    name = metadata.get("func_name") if isinstance(metadata, dict) else None
    converted = {
        **_with_id(record, "question_id"),
        "query": _with_starter(_text(record, "question_content"), record),
        "cases": _pairs(_parsed(record["public_test_cases"], "public_test_cases"), name),
        "preamble": _LIVECODEBENCH_IMPORTS,
        "tolerant": True,
        "public_test_cases": None,
        "private_test_cases": None,
    }
    packed = record.get("private_test_cases") or "[]"
    if isinstance(packed, str) and not packed.lstrip().startswith("["):
        try:
            packed = zlib.decompress(base64.b64decode(packed, validate=True))
        except (ValueError, zlib.error) as error:
            raise DataError(
                "the field `private_test_cases` is neither JSON, nor JSON that is compressed by"
                f" zlib and encoded in base 64 ({error})"
            ) from error
        if packed.startswith(b"\x80"):
            return {**converted, "unplayable": _PICKLED}
    converted["hidden_cases"] = _pairs(_parsed(packed, "private_test_cases"), name)
    return converted


def _pairs(cases: Any, name: str | None) -> Record:
    """Return inputs and outputs. A function's arguments are a line of JSON each."""
    inputs = []
    outputs = []
    try:
        for case in cases:
            arguments: Any = str(case["input"])
            output: Any = str(case["output"])
            if name:
                arguments = list(map(json.loads, arguments.splitlines()))
                output = json.loads(output)
            inputs.append(arguments)
            outputs.append(output)
    except (ValueError, TypeError, LookupError) as error:
        raise DataError(f"the test cases have no form that is known ({error})") from error
    return {"fn_name": name, "inputs": inputs, "outputs": outputs}


def _with_id(record: Record, field: str) -> Record:
    if record.get(field) is None:
        return record
    return {"id": str(record[field]), **record}


def _with_starter(question: str, record: Record) -> str:
    starter = str(record.get("starter_code") or "")
    if not starter.strip():
        return question
    return f"{question.rstrip()}\n\nStart from this:\n{starter}"


def _text(record: Record, field: str) -> str:
    if not isinstance(value := record[field], str):
        raise DataError(f"the field `{field}` is {value!r:.60}; a text is expected")
    return value


def _parsed(value: Any, field: str) -> Any:
    """Return a value that may be JSON text."""
    try:
        return json.loads(value) if isinstance(value, str | bytes) else value
    except (ValueError, RecursionError) as error:
        raise DataError(f"the field `{field}` is {value!r:.60}, which is not JSON") from error


_COMPLETED = ("prompt", "entry_point", "canonical_solution")
LAYOUTS: tuple[Layout, ...] = (
    ((*_COMPLETED, "base_input", "plus_input"), _read_plus),
    (("intent", "test_start", "suffix", *_COMPLETED), _read_odex),
    (("declaration", "example_test", "canonical_solution", "prompt", "test"), _read_humaneval_x),
    ((*_COMPLETED, "test"), _read_humaneval),
    (
        ("instruct_prompt", "complete_prompt", "code_prompt", *_COMPLETED[1:], "test"),
        _read_bigcodebench,
    ),
    (("skeleton", "test", "solution_code", "class_name", "import_statement"), _read_classeval),
    (("text", "code", "test_list"), _read_mbpp),
    (("prompt", "code", "test_list"), _read_mbpp),
    (("question", "input_output"), _read_apps),
    (("question_content", "public_test_cases"), _read_livecodebench),
    (("description", "public_tests", "private_tests", "solutions"), _read_codecontests),
)
