"""Published layouts of Python tasks, told apart by the fields of their records.

    MBPP    text (or prompt), code, test_list, test_setup_code       → query, gold, tests
    APPS    question, solutions, input_output, starter_code          → query, gold, input_output

Other fields are unchanged.
"""

from __future__ import annotations

import json

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


def _read_mbpp(record: Record) -> Record:
    names = {"text": "query", "prompt": "query", "code": "gold", "test_list": "tests"}
    return {names.get(name, name): value for name, value in record.items()}


def _read_apps(record: Record) -> Record:
    """The gold is the first solution."""
    converted = dict(record)
    question, starter = str(converted.pop("question")), str(converted.get("starter_code") or "")
    converted["query"] = (
        f"{question.rstrip()}\n\nStart from this:\n{starter}" if starter.strip() else question
    )
    solutions = converted.pop("solutions", None)
    try:
        solutions = (
            json.loads(solutions) if isinstance(solutions, str) and solutions.strip() else solutions
        )
        if solutions:
            future = "from __future__" in solutions[0]  # such an import must be the first
            converted["gold"] = solutions[0] if future else f"{_APPS_IMPORTS}\n{solutions[0]}"
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(
            f"the field `solutions` is {solutions!r:.60}; a list of texts, or its JSON, is expected"
        ) from error
    if "id" not in converted and converted.get("problem_id") is not None:
        converted["id"] = str(converted["problem_id"])
    return converted


LAYOUTS: tuple[Layout, ...] = (
    (("text", "code", "test_list"), _read_mbpp),
    (("prompt", "code", "test_list"), _read_mbpp),
    (("question", "solutions", "input_output"), _read_apps),
)
