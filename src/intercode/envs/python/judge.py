"""AssertsJudge: the task's asserts and programs decide, each in a copy of the interpreter."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pkgutil import resolve_name
from typing import Any, Literal

from intercode.envs.gold import NO_GOLD, GoldCache
from intercode.envs.judges import Attempt, Ruling
from intercode.envs.judges.tests import HiddenTests
from intercode.envs.python.grading import Result
from intercode.envs.python.suite import SOLUTION, Suite, behind, read_suite
from intercode.envs.python.world import PythonWorld
from intercode.envs.rewards import call_reward, is_papers
from intercode.errors import DataError
from intercode.types import GoldRun, Score, Task, TaskIssue, shorten_text
from intercode.user import golds_of

Reward = str | Callable[[Sequence[Result], Task], Score]
Tell = Literal["nothing", "number", "case"]
_FUNCTIONS = (r"(?m)^def (\w+)\(", r"(?m)^def (\w+)\s*\(")
"""InterCode v1 missed a function with a space before its parenthesis if there was another
function."""
_NO_ANSWER = (
    "Wrong: the interpreter did not report what is defined in it. "
    "Has the code replaced a builtin, or a function of a module such as os or json?"
)


class AssertsJudge(HiddenTests):
    """A judge by the tests of a suite. `reward` is a function, or one of the names that `rewards`
    explains. `as_v1`: the paper's protocol, which scored each turn."""

    def __init__(
        self,
        golds: GoldCache[Sequence[Result]],
        *,
        reward: Reward,
        rewards: Mapping[str, str],
        as_v1: bool,
        scores_steps: bool,
    ) -> None:
        self._golds = golds
        self._reward = reward
        self._rewards = rewards
        self._papers = is_papers(reward, rewards)
        self._as_v1 = as_v1
        self._scores_steps = scores_steps
        self.results: Sequence[Result] = ()
        """The results of the last submission."""
        self._scored = False
        self._answered = True

    def before(self, world: PythonWorld, task: Task) -> None:
        world.suite(task)
        self.results = ()
        self._scored = False
        self._answered = True

    def rule(self, world: PythonWorld, attempt: Attempt) -> Ruling:
        return Ruling(self._score(world, attempt), lambda: self._show(world, attempt.task))

    def examine(self, world: PythonWorld, task: Task) -> GoldRun:
        """Execute the golds in turn, until one passes the tests."""
        shadowed = self._shadowed(world, task)
        if not task.golds:
            return GoldRun(None, "", (NO_GOLD, *shadowed))
        runs = []
        for gold in task.golds:
            posed = with_submission(replace(task, gold=gold))
            run = replace(self._run_one(world, posed), task=posed)
            if not run.faults:
                return replace(run, faults=shadowed)
            runs.append(run)
        return runs[0]

    def _shadowed(self, world: PythonWorld, task: Task) -> tuple[TaskIssue, ...]:
        """Return an issue if the preamble defines or imports the name of the answer."""
        suite = world.suite(task)
        try:
            if not suite.preamble or suite.program or not world.sessions.gives(suite):
                return ()
        except DataError:  # told by whoever executes the preamble next
            return ()
        why = (
            f"the preamble defines or imports {suite.name}; "
            "only one that the agent binds is its answer"
        )
        return (TaskIssue(why, "shadowed"),)

    def _run_one(self, world: PythonWorld, task: Task) -> GoldRun:
        try:
            suite = read_suite(task)
            gold = task.gold if suite.program else "\n".join(golds_of(task))
            execution, results = world.sessions.run_gold(suite, gold)
        except DataError as error:
            return GoldRun(None, "", (str(error),))
        failed = [number for number, result in enumerate(results) if not result.passed]
        fault = ""
        if execution.timed_out:
            fault = "gold runs out of time"
        elif execution.exit_code:
            fault = f"gold fails: {execution.output.strip().rpartition(chr(10))[2][:200]}"
        elif failed:
            first = results[failed[0]]
            more = f" and {len(failed) - 1} more" if failed[1:] else ""
            fault = (
                f"gold fails test {failed[0] + 1}{more}: {first.test.description[:100]}: "
                f"{first.why[:200]}"
            )
        lines = [f"{result.test.description}: {result.why or 'passed'}" for result in results]
        return GoldRun(_passed(results), "\n".join(lines), (fault,) if fault else ())

    def _score(self, world: PythonWorld, attempt: Attempt) -> Score:
        self.results = ()
        suite = world.suite(attempt.task)
        asserts_only = all(test.kind == "assert" for test in suite.tests)
        # InterCode v1 had no other tests
        if self._as_v1 and self._papers and asserts_only:
            return self._score_as_v1(world, suite, attempt.task)
        name, text = self._submitted_answer(world, suite, attempt.word)
        if name is None and text is None:
            return Score(0.0, False, {})
        if text is not None and not self._scores_steps:
            text = behind(suite.preamble, text)
        public = world.sessions.run_graded(_part(suite, hidden=False), name=name, text=text)
        hidden: Sequence[Result] = ()
        if not self._papers and all(_passed(public)):
            hidden = world.sessions.run_graded(_part(suite, hidden=True), name=name, text=text)
        self.results = [*public, *hidden]
        if callable(self._reward):
            return call_reward(self._reward, self.results, attempt.task)
        if self._papers:
            return self._score_as_gold(world, suite, attempt.task, public)
        unseen = _passed(hidden) or [False] * sum(test.hidden for test in suite.tests)
        score = score_exact(_passed(public), unseen)
        if not score.success:
            self._require_sound(world, attempt.task)
        return score

    def _require_sound(self, world: PythonWorld, task: Task) -> None:
        """Raise `DataError` if no answer can pass the tests: one fails before it calls the answer,
        or no gold passes them all."""
        for result in self.results:
            if not (result.passed or result.called):
                raise DataError(
                    f"task {task.id}: a test fails before it calls the answer "
                    f"({result.test.description[:100]}: {result.why[:200]})"
                )

        def find() -> Sequence[Result]:
            faults: list[str] = []
            for gold in task.golds:
                run = self._run_one(world, with_submission(replace(task, gold=gold)))
                if not run.faults:
                    return ()
                faults += run.faults
            raise DataError(f"task {task.id}: {faults[0]}; see `intercode check`")

        if task.golds:
            self._golds.get((task.id, "sound"), find)

    def _score_as_gold(
        self, world: PythonWorld, suite: Suite, task: Task, results: Sequence[Result]
    ) -> Score:
        score: Score = resolve_name(self._rewards[str(self._reward)])(
            _passed(results), _passed(self._gold_results(world, suite, task))
        )
        return score

    def _score_as_v1(self, world: PythonWorld, suite: Suite, task: Task) -> Score:
        """Score the first function in the turn's action under the name of the gold's first
        function.

        InterCode v1 cleared its namespace before it executed the gold there, and the gold stayed
        for the next turn. So from the second scoring on, an action that fails leaves the gold in
        place and earns 1. The agent's own session is not affected.
        """
        submitted = _first_function(world.last_action)
        gold_name = _first_function(task.gold)
        if not submitted or not gold_name:
            return Score(0.0, False, {})
        gold = task.gold if self._scored else None
        self._scored = True
        suite = replace(_part(suite, hidden=False), name=gold_name)
        self.results = world.sessions.run_as_v1(suite, world.last_action, submitted, gold)
        return self._score_as_gold(world, suite, task, self.results)

    def _submitted_answer(
        self, world: PythonWorld, suite: Suite, word: str
    ) -> tuple[str | None, str | None]:
        """Return a name or the text of a program; both are None if there is nothing to submit."""
        if word:
            return word, None
        if suite.program:
            return None, world.last_action or None
        imported = None
        for name in (suite.name, SOLUTION) if suite.method else (suite.name,):
            definitions = world.sessions.describe(name)
            if definitions and definitions.callable and not definitions.given:
                if not definitions.imported:
                    return name, None
                imported = imported or name
        self._answered = definitions is not None and not world.session_lost()
        return imported or (definitions and definitions.last) or None, None

    @property
    def is_final(self) -> bool:
        """Return whether hidden tests ran: the agent's code may have recorded their arguments."""
        return any(result.test.hidden for result in self.results)

    def feedback(self, tell: Tell) -> str:
        """Return what the agent is told after a wrong submission."""
        if tell == "nothing":
            return "Wrong."
        public = [result for result in self.results if not result.test.hidden]
        for number, result in enumerate(public, start=1):
            if result.passed:
                continue
            if tell == "number":
                return f"Wrong: test {number} of {len(public)} failed."
            return f"Wrong: this failed: {result.test.description}\n{result.why}".rstrip()
        if self.results:
            return "Wrong."
        return "Wrong: nothing was defined." if self._answered else _NO_ANSWER

    def _show(self, world: PythonWorld, task: Task) -> dict[str, Any]:
        """Return the results of the executed tests with their numbers in the record, failed tests
        first, at most 30. The agent must not see them, because they include hidden tests."""
        of_gold = {}
        if self._papers and self.results:
            for result in self._gold_results(world, world.suite(task), task):
                of_gold[result.test] = result.why or "passed"
        is_same = True
        rows = []
        for number, result in enumerate(self.results, 1):
            gold = of_gold.get(result.test, "passed")
            is_same &= result.passed == (gold == "passed")
            row = {"number": number, "test": shorten_text(result.test.description)[:300]}
            if result.test.hidden:
                row["hidden"] = True
            row["passed"] = result.passed
            texts = {"gold": gold, "agent": result.why or "passed"}
            if result.test.kind == "program" and not result.passed:
                texts["input"] = result.test.stdin
            if result.expected is not None:
                texts["expected"] = result.expected
            if result.got is not None:
                texts["got"] = result.got
            rows.append(row | {name: shorten_text(text)[:500] for name, text in texts.items()})
        rows.sort(key=itemgetter("passed"))
        return {"failed": [] if rows and is_same else ["tests"], "tests": rows[:30]}

    def _gold_results(self, world: PythonWorld, suite: Suite, task: Task) -> Sequence[Result]:
        public = _part(suite, hidden=False)
        if not task.gold:
            raise DataError(f"task {task.id} has no gold to compare with; use --reward exact")
        return self._golds.get(
            (task.id, "public"), lambda: world.sessions.run_gold(public, task.gold)[1]
        )

    def close(self) -> None:
        """Do nothing: golds run in a container of the world."""


def score_exact(public: Sequence[bool], hidden: Sequence[bool]) -> Score:
    """Return 1 if there are tests and all passed, otherwise 0."""
    passed = [*public, *hidden]
    success = bool(passed) and all(passed)
    return Score(float(success), success, score_parts(public, hidden))


def score_parts(public: Sequence[bool], hidden: Sequence[bool]) -> dict[str, float]:
    """Return the shares of tests that passed, and the result of each test by its number, from 1."""
    parts = {}
    if public:
        parts["public"] = sum(public) / len(public)
    if hidden:
        parts["hidden"] = sum(hidden) / len(hidden)
    for number, passed in enumerate([*public, *hidden], start=1):
        parts[f"test {number}"] = float(passed)
    return parts


def with_submission(task: Task) -> Task:
    """Return the task with the name under which its gold is submitted. Raises `DataError` if its
    tests cannot be read."""
    suite = read_suite(task)
    if suite.program:
        return task
    return replace(task, extra={**task.extra, "submit": suite.gold_name})


def _part(suite: Suite, *, hidden: bool) -> Suite:
    return replace(suite, tests=tuple(test for test in suite.tests if test.hidden is hidden))


def _first_function(text: str) -> str | None:
    for pattern in _FUNCTIONS:
        if match := re.search(pattern, text):
            return match[1]
    return None


def _passed(results: Sequence[Result]) -> list[bool]:
    return [result.passed for result in results]
