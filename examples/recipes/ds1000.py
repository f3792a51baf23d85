"""DS-1000: the solution is text, which the test executes in its own process."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from intercode.envs.python.env import PythonEnv

_ASKED = "\nPut the code into a function answer() that returns it as text."


class Ds1000(PythonEnv):
    @staticmethod
    def records(path: Path) -> Iterator[dict[str, Any]]:
        with gzip.open(path, "rt") as file:
            for number, record in enumerate(map(json.loads, file)):
                tests = record["code_context"]
                yield {
                    "id": str(number),
                    "query": record["prompt"] + _ASKED,
                    "gold": f"def answer():\n    return {record['reference_code']!r}",
                    "name": "answer",
                    "script": f"{tests}\ntest_execution(answer())\nprint('passed')",
                    "expected": "passed",
                }
