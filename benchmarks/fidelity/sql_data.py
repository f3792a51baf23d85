"""Where the public SQL data lies, and what each recorded SQL run is held to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fidelity import data


def task_file() -> Path:
    return data.folder() / "spider" / "ic_spider_dev.json"


def dump() -> Path:
    return data.folder() / "spider" / "ic_spider_dbs.sql"


def world() -> dict[str, Any]:
    """The options of `prepare` for Spider."""
    return {"data": str(task_file()), "dump": dump()}


@dataclass(frozen=True)
class SqlRun:
    """One recorded run of GPT-3.5 in the first system's SQL environment, on MySQL 8.

    `bound`: the least share of turns whose rewards agree; `success`: the recorded success rate, in
    percent.
    """

    name: str
    file: str
    bound: float
    success: float

    @property
    def path(self) -> Path:
        return data.folder() / "recorded" / self.file


RUNS = (
    SqlRun("try again, 1 turn", "ic_sql_multiturn_gpt-3.5-1_turns.json", 0.995, 10.5),
    SqlRun("try again, 10 turns", "ic_sql_multiturn_gpt-3.5_10_turns.json", 0.993, 47.3),
    SqlRun("react", "ic_sql_react_10_turns.json", 0.995, 58.7),
    SqlRun("plan & solve", "ic_sql_plan_solve.json", 0.992, 49.1),
)
NEAR = 1.0
"""Points that today's success rate may be away from the recorded."""
