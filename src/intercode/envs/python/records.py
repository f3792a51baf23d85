"""Published forms of Python tasks, brought to the one that this package reads.

    MBPP    text (or prompt), code, test_list, test_setup_code       → query, gold, tests
    APPS    question, solutions, input_output, starter_code          → query, gold, input_output

`solutions` and `input_output` may be JSON texts, as APPS has them; the first solution is the gold, with the imports that APPS
puts before every solution. Everything else stays.
"""

from __future__ import annotations

import json
from typing import Any

from intercode.errors import DataError

Record = dict[str, Any]
_IMPORTS = """import sys, time, itertools, collections, math, fractions, random, heapq
from itertools import accumulate, product, permutations, combinations
from collections import Counter, OrderedDict, deque, defaultdict, ChainMap
from functools import lru_cache
from math import sqrt, sin, cos, tan, ceil, fabs, floor, gcd, exp, log, log2
from typing import List, Tuple
from heapq import *
"""
_MBPP = (("query", ("text", "prompt")), ("gold", ("code",)), ("tests", ("test_list",)))


def python_record(record: Record) -> Record:
    """A `preprocess` for `load_tasks`. A record that has `query` and `gold` already is left as it is."""
    if "query" in record and "gold" in record:
        return record
    found = dict(record)
    if "question" in record:
        return _apps(found)
    for ours, theirs in _MBPP:
        for name in theirs:
            if ours not in found and name in found:
                found[ours] = found.pop(name)
    return found


def _apps(found: Record) -> Record:
    question, starter = str(found.pop("question")), str(found.get("starter_code") or "")
    found["query"] = f"{question.rstrip()}\n\nStart from this:\n{starter}" if starter.strip() else question
    solutions = found.pop("solutions", None)
    try:
        solutions = json.loads(solutions) if isinstance(solutions, str) and solutions.strip() else solutions
        if solutions:
            brings_its_own = "from __future__" in solutions[0]  # which must come first
            found["gold"] = solutions[0] if brings_its_own else f"{_IMPORTS}\n{solutions[0]}"
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"the field `solutions` is {solutions!r:.60}; a list of texts, or its JSON, is expected") from error
    if "id" not in found and found.get("problem_id") is not None:
        found["id"] = str(found["problem_id"])
    return found
