"""How fast are data sets read in the layouts in which they are published, checked and played?

    load     at most 1 second of the processor: the records, and the names and tests of all tasks
    check    tasks a second, with each gold executed three times
    noop     episodes a second of the agent that does nothing

The tasks are made here. `python benchmarks/layouts.py [--json] [--n N] [--workers N]`; exit status
1 if a bound is missed.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from measuring.rows import Row, command, finish

from intercode.agents import noop
from intercode.envs import prepare
from intercode.runner.run import evaluate
from intercode.validate.check import check


def humaneval(number: int) -> dict[str, Any]:
    name = f"plus_{number}"
    asserts = "".join(f"    assert candidate({value}) == {value + number}\n" for value in range(10))
    return {
        "task_id": f"Made/{number}",
        "prompt": f'def {name}(x: int) -> int:\n    """Return x plus {number}."""\n',
        "entry_point": name,
        "canonical_solution": f"    return x + {number}\n",
        "test": f"METADATA = {{}}\n\n\ndef check(candidate):\n{asserts}",
    }


def apps(number: int) -> dict[str, Any]:
    inputs = [f"{value}\n" for value in range(10)]
    return {
        "problem_id": number,
        "question": f"Read n and print n plus {number}.",
        "solutions": json.dumps([f"print(int(input()) + {number})"] * 10),
        "input_output": json.dumps(
            {"inputs": inputs, "outputs": [f"{value + number}\n" for value in range(10)]}
        ),
        "starter_code": "",
    }


def bird(number: int) -> dict[str, Any]:
    return {
        "question_id": number,
        "db_id": "shop",
        "question": f"How many articles cost more than {number}?",
        "evidence": "cost refers to price",
        "SQL": f"SELECT COUNT(*) + {number} FROM article WHERE price > {number}",
        "difficulty": "simple",
    }


def write_shop(folder: Path) -> Path:
    """Write `shop/shop.sqlite`, the database of the tasks in BIRD's layout."""
    (folder / "shop").mkdir(parents=True)
    with closing(sqlite3.connect(folder / "shop" / "shop.sqlite")) as connection:
        connection.execute("CREATE TABLE article (id INTEGER PRIMARY KEY, price INTEGER)")
        rows = ((number,) for number in range(0, 5000, 5))
        connection.executemany("INSERT INTO article (price) VALUES (?)", rows)
        connection.commit()
    return folder


LAYOUTS: dict[str, tuple[str, Callable[[int], dict[str, Any]]]] = {
    "HumanEval": ("python", humaneval),
    "APPS": ("python", apps),
    "BIRD": ("sql", bird),
}


def rows(name: str, *, n: int, workers: int) -> Iterator[Row]:
    env, record = LAYOUTS[name]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tasks.jsonl"
        file.write_text("".join(json.dumps(record(number)) + "\n" for number in range(n)))
        how = {"databases": str(write_shop(Path(folder) / "databases"))} if env == "sql" else {}
        prepare(env, data=str(file), limit=1, **how)  # the template, which is made once
        start = time.process_time()
        factory = prepare(env, data=str(file), **how)
        yield Row(f"{name}: load {n} tasks", time.process_time() - start, 1, 1)
        start = time.monotonic()
        result = check(factory, factory.tasks, workers=workers)
        rate = n / (time.monotonic() - start)
        yield Row(f"{name}: check, tasks a second", rate, unit="")
        yield Row(f"{name}: golds that succeed", result["gold_ok"], n, 1, floor=True, unit="")
        start = time.monotonic()
        evaluate(factory, noop, tasks=factory.tasks, workers=workers)
        rate = n / (time.monotonic() - start)
        yield Row(f"{name}: noop, episodes a second", rate, unit="")


def main() -> int:
    parser = command(__doc__, workers=True)
    parser.add_argument("--n", type=int, default=1000)
    options = parser.parse_args()
    how = {"n": options.n, "workers": options.workers}
    return finish(options, [row for name in LAYOUTS for row in rows(name, **how)])


if __name__ == "__main__":
    sys.exit(main())
