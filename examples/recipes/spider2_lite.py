"""Spider 2.0-lite, the tasks on SQLite: each published table becomes a statement that returns
it."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from intercode.envs.sql.env import SqlEnv


def write(cell: str) -> str:
    try:
        return repr(float(cell)) if "." in cell else str(int(cell))
    except ValueError:
        return "'" + cell.replace("'", "''") + "'" if cell else "NULL"


def statement(file: Path, columns: Sequence[int]) -> str:
    with file.open(newline="") as lines:
        header, *rows = csv.reader(lines)
    names = ['"' + name.replace('"', '""') + '"' for name in header]
    values = ", ".join(f"({', '.join(map(write, row))})" for row in rows)
    chosen = ", ".join(names[column] for column in columns) or "*"
    return f"WITH gold({', '.join(names)}) AS (VALUES {values}) SELECT {chosen} FROM gold"


def is_near(value: object, expected: object) -> bool:
    if isinstance(value, int | float) and isinstance(expected, int | float):
        return math.isclose(value, expected, abs_tol=0.01)
    return value == expected


class Lite(SqlEnv):
    @staticmethod
    def records(path: Path) -> Iterator[dict[str, Any]]:
        gold = path.parent / "evaluation_suite" / "gold"
        lines = (gold / "spider2lite_eval.jsonl").read_text().splitlines()
        rules = {rule["instance_id"]: rule for rule in map(json.loads, lines)}
        for record in map(json.loads, path.read_text().splitlines()):
            name = record["instance_id"]
            results = gold / "exec_result"
            files = [*results.glob(f"{name}.csv"), *sorted(results.glob(f"{name}_*.csv"))]
            if not name.startswith("local") or not files:
                continue  # on a server, or without a published result
            columns = rules[name]["condition_cols"]
            if not columns or not isinstance(columns[0], list):
                columns = [columns] * len(files)
            yield {
                "id": name,
                "query": record["question"],
                "db": record["db"],
                "golds": [statement(*pair) for pair in zip(files, columns, strict=False)],
                "ignores_order": rules[name]["ignore_order"],
            }

    def reward(self, answer: Any, gold: Any, task: Any) -> float:  # type: ignore[override]
        if answer is None or len(answer.rows) != len(gold.rows):
            return 0.0

        def in_order(column: Sequence[Any]) -> list[Any]:
            return sorted(column, key=str) if task.extra["ignores_order"] else list(column)

        columns = [in_order(column) for column in zip(*answer.rows, strict=True)]
        for wanted in zip(*gold.rows, strict=True):
            expected = in_order(wanted)
            if not any(all(map(is_near, column, expected)) for column in columns):
                return 0.0
        return 1.0
