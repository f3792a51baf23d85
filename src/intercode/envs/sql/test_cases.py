"""TestCasesJudge: a task's `test_cases` decide, Python functions in a sandbox of the grader's own.

    statements of the agent's last action ──┐
    gold's statements ──────────────────────┴─► test_cases_guest.py, on fresh copies of the database

As in BIRD, what the agent submits is text, here its last action, which is executed again. It is
executed as SQL only, so nothing of the agent's runs beside the tests. For SQLite.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from intercode.envs.gold import NO_GOLD
from intercode.envs.judges import Attempt, Ruling
from intercode.envs.sql import test_cases_guest
from intercode.envs.sql.databases import database, texts_in
from intercode.envs.sql.engines import READ_SECONDS
from intercode.envs.sql.engines.embedded import EmbeddedEngine
from intercode.envs.sql.text import split_statements
from intercode.envs.sql.world import SqlWorld
from intercode.errors import DataError
from intercode.types import GoldRun, Score, Task
from intercode_sandbox.base import Sandbox
from intercode_sandbox.host import guest_python

TEST_CASES = "test_cases"
TESTED = "Your last action before `submit` is tested, on an untouched copy of the database."


_PASSED = "all tests passed"


def _faults(reasons: list[str]) -> list[str]:
    return [f"test {at}: {why}" for at, why in enumerate(reasons, start=1) if why]


class TestCasesJudge:
    """A judge by the Python functions of a record."""

    __test__ = False  # not a test of pytest's

    def __init__(self) -> None:
        self._box: Sandbox | None = None
        self._sound = set[tuple[str, str]]()
        """The tasks and golds that have passed."""

    def before(self, world: SqlWorld, task: Task) -> None:
        if not isinstance(world.engine, EmbeddedEngine) or world.engine.name != "sqlite":
            raise DataError(f"task {task.id}: its {TEST_CASES} are for SQLite; use --engine sqlite")

    def rule(self, world: SqlWorld, attempt: Attempt) -> Ruling:
        reasons = self._run(world, attempt.task, "".join(attempt.actions[-1:]))
        faults = _faults(reasons)
        share = 1 - len(faults) / len(reasons)
        if not faults:
            score = Score(1.0, True, {"tests": share}, rule=_PASSED)
            return Ruling(score, lambda: {"failed": [], "rule": _PASSED})
        self._require_sound(world, attempt.task)
        score = Score(0.0, False, {"tests": share}, rule=faults[0])
        return Ruling(score, lambda: {"failed": ["tests"], "rule": faults[0]})

    def value(self, world: SqlWorld, attempt: Attempt) -> float:
        return self.rule(world, attempt).score.reward

    def no_value(self, world: SqlWorld, task: Task) -> str:
        return ""

    def examine(self, world: SqlWorld, task: Task) -> GoldRun:
        if not task.gold:
            return GoldRun(None, "", (NO_GOLD,))
        reasons = self._run(world, task)
        faults = _faults(reasons)
        return GoldRun(reasons, "\n".join(faults) or _PASSED, tuple(faults))

    def _require_sound(self, world: SqlWorld, task: Task) -> None:
        """Raise `DataError` if the gold does not pass the tests."""
        key = task.id, task.gold
        if not task.gold or key in self._sound:
            return
        if faults := self.examine(world, task).faults:
            raise DataError(f"task {task.id}: the gold fails {faults[0]}; see `intercode check`")
        self._sound.add(key)

    def _run(self, world: SqlWorld, task: Task, action: str | None = None) -> list[str]:
        """Return for each test why it failed, "" if it passed. The gold is tested if there is no
        `action`."""
        engine = world.engine
        cases = texts_in(task, TEST_CASES)
        assert isinstance(engine, EmbeddedEngine)
        folder = f"{engine.folder()}/grader"
        nonce = secrets.token_hex(16)
        name = database(task, engine)
        first = list[str]()
        for earlier in task.earlier:
            first += split_statements(earlier.gold)
        gold = [*split_statements(task.gold)]
        job: dict[str, Any] = {
            "nonce": nonce,
            "original": f"{engine.folder()}/original/{name}.{engine.name}",
            "copy": f"{folder}/copy.sqlite",
            "setup": [*texts_in(task, "preprocess_sql"), *first],
            "pred_sqls": gold if action is None else [*split_statements(action)],
            "sol_sqls": gold,
            "conditions": task.extra.get("conditions") or {},
            "test_cases": cases,
        }
        if self._box is None:
            self._box = engine.new_sandbox()
        box = self._box
        box.write(f"{folder}/guest.py", Path(test_cases_guest.__file__).read_bytes())
        box.write(f"{folder}/job.json", json.dumps(job).encode())
        words = [guest_python()[0], "-I", "-S", f"{folder}/guest.py", f"{folder}/job.json"]
        result = box.exec("", argv=words, cwd="/", timeout=READ_SECONDS)
        box.reset()
        if result.timed_out:
            return [f"the tests took more than {READ_SECONDS:g} seconds"] * len(cases)
        try:
            reasons: list[str] = json.loads(result.output.strip().rpartition("\n")[2])[nonce]
        except (ValueError, KeyError, TypeError):  # too large a statement, or a test that exits
            return [f"the tests ended without a verdict: {result.output[-300:]}"] * len(cases)
        return reasons

    def close(self) -> None:
        if self._box is not None:
            self._box.close()
            self._box = None
