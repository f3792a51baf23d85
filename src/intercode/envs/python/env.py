"""PythonEnv: actions are Python, the world is an interpreter that lives as long as its episode, the answer is a function.

    step    ──► one action, compiled as a module; if its last statement is an expression, its value is shown
    submit NAME ──► the tests, each in a copy of the interpreter; what they compare is compared elsewhere (`interpreters/`)

`submit` alone submits the function that has the gold's name, else the function or class that was defined last; where the task
asks for a program that reads and prints, the text of the last action. A NAME that is not there, or that cannot be called as the
tests do, or that is none (`submit f()`), is told: it costs a turn and is not scored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from intercode.env import EnvFactory, GoldRun, InterCodeEnv, Protocol, View
from intercode.envs.gold import GoldCache
from intercode.envs.python.compare import python_exact, python_paper
from intercode.envs.python.grading import PATIENCE, Result
from intercode.envs.python.records import python_record
from intercode.envs.python.suite import SOLUTION, Suite, suite_of
from intercode.envs.python.workspace import PythonGround, Workshop
from intercode.envs.rewards import judged, require_reward, reward_name
from intercode.envs.workspace import prepare_workspaces
from intercode.errors import DataError, UsageError
from intercode.sandbox.base import Limits
from intercode.sandbox.build import Backend
from intercode.submission import NAME
from intercode.tasks import Preprocess, open_data
from intercode.types import ExecResult, Score, Task

Reward = Literal["exact", "paper"] | Callable[[Sequence[Result], Task], Score]
Tell = Literal["nothing", "number", "case"]
SECONDS = 10.0
_DEFS = (re.compile(r"^def (\w+)\(", re.MULTILINE), re.compile(r"^def (\w+)\s*\(", re.MULTILINE))
"""The first system did not see a function with a blank before its parenthesis where there was another."""


class PythonEnv(InterCodeEnv):
    """`seconds` is each test's time limit; `tell` what is said of a wrong submission: nothing, the number of the first public
    test that failed, or that test itself. Other arguments are those of `InterCodeEnv`."""

    language = "python"
    live_forks = False
    session_noun = "interpreter"
    submission = NAME
    """What follows the word is told to be no name if it is none; it could not be Python either."""
    preprocess = staticmethod(python_record)

    def __init__(
        self,
        tasks: Sequence[Task],
        spec: PythonGround,
        *,
        reward: Reward = "exact",
        golds: GoldCache[Sequence[Result]] | None = None,
        tell: Tell = "number",
        seconds: float = SECONDS,
        **how: Any,
    ) -> None:
        super().__init__(tasks, **how)
        if not seconds > 0:
            raise UsageError(f"seconds {seconds}: a test has more than 0")
        require_reward(reward, ("exact", "paper"), "results, task")
        if tell not in ("nothing", "number", "case"):
            raise UsageError(f"tell {tell!r}: it is 'nothing', 'number' or 'case'")
        self.reward, self._tell, self._gold_cache = reward, tell, golds or GoldCache[Sequence[Result]]()
        self._shop = Workshop(spec, seconds=seconds, patience=None if reward == "paper" else PATIENCE)
        self._suites: dict[str, Suite] = {}
        self._results: Sequence[Result] = ()
        self._last, self._scored = "", False

    @classmethod
    def prepare(  # type: ignore[override]
        cls,
        *,
        data: str | None = None,
        limit: int | None = None,
        image: str | None = None,
        tree: str | Path | None = None,
        setup: str | Path | None = None,
        protocol: Protocol = "submit",
        reward: Reward | None = None,
        session: str | None = None,
        submits: int | None = None,
        tell: Tell | None = None,
        seconds: float = SECONDS,
        limits: Limits | None = None,
        max_turns: int | None = 10,
        view: View | None = None,
        keep_going: bool = False,
        sandbox: Backend | None = None,
        preprocess: Preprocess | None = None,
        gold_fields: Sequence[str] | None = None,
    ) -> EnvFactory:
        """Load data and build the template once. `protocol="paper"` implies the paper's reward.

        An interpreter lives as long as its episode, whatever `session` says: so it did in the paper.
        """
        reward, tell = reward or ("paper" if protocol == "paper" else "exact"), tell or "number"
        records = preprocess or cls.preprocess
        found = open_data(data, env="python", limit=limit, preprocess=records, gold_fields=gold_fields)
        tasks = tuple(map(_submittable, found.tasks))
        world = {"image": image, "tree": tree, "setup": setup, "limits": limits, "paper": False, "sandbox": sandbox}
        first, _ = prepare_workspaces(found, "persistent", **world)  # type: ignore[arg-type]
        spec = PythonGround(first.template, "persistent", limits)
        if image is not None:
            spec.require_python()
        golds = GoldCache[Sequence[Result]]()
        how = {"protocol": protocol, "max_turns": max_turns, "view": view, "keep_going": keep_going, "submits": submits}
        asked = {"reward": reward, "golds": golds, "tell": tell, "seconds": seconds}
        facts = {"data": found.name, "data_digest": found.digest, "reward": reward_name(reward)}
        return EnvFactory(
            tasks,
            lambda: cls(tasks, spec, **asked, **how),  # type: ignore[arg-type]
            lambda: {**facts, "test_seconds": seconds, "tell": tell, **spec.facts()},
        )

    def run_gold(self, task: Task) -> GoldRun:
        try:
            suite = self._suite(task)
            shown, results = self._shop.try_gold(suite, task.gold)
        except DataError as error:
            return GoldRun(None, "", (str(error),))
        summary = "\n".join(f"{result.test.shown}: {result.why or 'passed'}" for result in results)
        return GoldRun([result.passed for result in results], summary, tuple(_faults(shown, results)))

    # -- the world ----------------------------------------------------------------------------------------------------

    def start_episode(self, task: Task) -> None:
        self._suite(task)
        self._shop.begin()
        self._last, self._results, self._scored = "", (), False

    def execute(self, action: str) -> ExecResult:
        self._last = action
        return self._shop.act(action)

    def copy_world(self, twin: Self, live: bool) -> None:
        twin._shop = self._shop.twin()

    def close_world(self) -> None:
        self._shop.close()

    # -- submissions --------------------------------------------------------------------------------------------------

    def reject_submission(self, word: str) -> str | None:
        suite = self._suite(self.task)
        if not word:
            return None
        if not word.isidentifier():
            return f"A submission is a name alone, as in `submit {suite.entry or 'main'}`; {word!r} is none."
        about = self._shop.about(word, suite.method)
        if about is None:
            return f"The interpreter did not answer whether there is a function or class {word}."
        if not about.callable:
            listed = f"there are {', '.join(about.defined[:20])}" if about.defined else "nothing is defined yet"
            return f"There is no function or class {word}; {listed}."
        if suite.program or about.takes is None or suite.takes is None:
            return None
        (least, most), (fewest, largest) = about.takes, suite.takes
        if (most != -1 and most < fewest) or (largest != -1 and least > largest):
            return f"{word} takes {_count(least, most)}; it will be called with {_count(fewest, largest)}."
        return None

    def score(self) -> Score:
        suite, self._results = self._suite(self.task), ()
        asserts_only = all(test.kind == "assert" for test in suite.tests)
        if self.protocol == "paper" and self.reward == "paper" and asserts_only:  # the first system knew no others
            return self._score_as_the_paper_did(suite)
        name, text = self._submitted_answer(suite)
        if name is None and text is None:
            return Score(0.0, False, {})
        public = self._graded(suite, name, text, hidden=False)
        hidden = self._graded(suite, name, text, hidden=True) if self.reward != "paper" and all(_passed(public)) else ()
        self._results = [*public, *hidden]
        if callable(self.reward):
            return judged(self.reward, self._results, self.task)
        if self.reward == "paper":
            return python_paper(_passed(public), _passed(self._gold_results(suite)))
        unseen = _passed(hidden) or [False] * sum(test.hidden for test in suite.tests)
        return python_exact(_passed(public), unseen)

    def _score_as_the_paper_did(self, suite: Suite) -> Score:
        """The first system submitted the first function of the turn's action under the name of the gold's first function, and
        cleared its namespace before it executed the gold there, which then stayed for the next turn. So an action that fails
        leaves the gold in place from the second scoring on, and earns 1. The agent's own session is not touched here."""
        mine, its = _first_function(self._last), _first_function(self.task.gold)
        if not mine or not its:
            return Score(0.0, False, {})
        gold = self.task.gold if self._scored else None
        self._scored = True
        chosen = replace(suite, name=its, tests=tuple(test for test in suite.tests if not test.hidden))
        self._results = self._shop.as_the_paper_did(chosen, self._last, mine, gold)
        return python_paper(_passed(self._results), _passed(self._gold_results(suite)))

    def _submitted_answer(self, suite: Suite) -> tuple[str | None, str | None]:
        """A name, or the text of a program; neither if there is nothing to submit."""
        if self._word:
            return self._word, None
        if suite.program:
            return None, self._last or None
        for name in (suite.name, SOLUTION) if suite.method else (suite.name,):
            about = self._shop.about(name)
            if about and about.callable:
                return name, None
        return (about and about.last) or None, None

    def _graded(self, suite: Suite, name: str | None, text: str | None, *, hidden: bool) -> Sequence[Result]:
        chosen = replace(suite, tests=tuple(test for test in suite.tests if test.hidden is hidden))
        return self._shop.grade(chosen, name=name, text=text) if chosen.tests else ()

    def is_final(self, score: Score) -> bool:
        """Hidden tests were called: what they called with may have been noted down."""
        return any(result.test.hidden for result in self._results)

    def _gold_results(self, suite: Suite) -> Sequence[Result]:
        chosen = replace(suite, tests=tuple(test for test in suite.tests if not test.hidden))
        return self._gold_cache.get((self.task.id, "public"), lambda: self._shop.try_gold(chosen, self.task.gold)[1])

    def feedback(self, score: Score) -> str:
        failed = next((number for number, each in enumerate(self._results) if not each.passed and not each.test.hidden), None)
        if self._tell == "nothing" or failed is None:
            return "Wrong." if self._tell == "nothing" or self._results else "Wrong: nothing was defined."
        result, count = self._results[failed], sum(not each.test.hidden for each in self._results)
        if self._tell == "number":
            return f"Wrong: test {failed + 1} of {count} failed."
        return f"Wrong: this failed: {result.test.shown}\n{result.why}".rstrip()

    def _suite(self, task: Task) -> Suite:
        if task.id not in self._suites:
            self._suites[task.id] = suite_of(task)
        return self._suites[task.id]


def _submittable(task: Task) -> Task:
    """With the word that the gold's submission needs. A task whose tests cannot be read tells so when it is played."""
    try:
        suite = suite_of(task)
    except DataError:
        return task
    return task if suite.program else replace(task, extra={**task.extra, "submit": suite.entry})


def _first_function(text: str) -> str | None:
    return next((found[1] for pattern in _DEFS if (found := pattern.search(text))), None)


def _passed(results: Sequence[Result]) -> list[bool]:
    return [result.passed for result in results]


def _count(least: int, most: int) -> str:
    words = f"{least} or more" if most == -1 else str(least) if least == most else f"{least} to {most}"
    return f"{words} argument{'' if words == '1' else 's'}"


def _faults(shown: ExecResult, results: Sequence[Result]) -> Iterator[str]:
    """What is wrong with a gold by its own execution and its tests."""
    failed = [(number, result) for number, result in enumerate(results, start=1) if not result.passed]
    if shown.timed_out:
        yield "gold runs out of time"
    elif shown.exit_code:
        yield f"gold fails: {shown.output.strip().rpartition(chr(10))[2][:200]}"
    elif failed:
        (number, first), more = failed[0], f" and {len(failed) - 1} more" if failed[1:] else ""
        yield f"gold fails test {number}{more}: {first.test.shown[:100]}: {first.why[:200]}"
