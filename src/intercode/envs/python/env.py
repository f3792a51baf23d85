"""PythonEnv: actions are Python code in an interpreter that lives as long as its episode; the
answer is a function.

    step         ──► one action, compiled as a module; if its last statement is an expression, the
                     observation includes its value
    submit NAME  ──► the tests, each in a copy of the interpreter; the comparisons run elsewhere
                     (`grading.py`)

`submit` alone submits the function with the gold's name, or else the function or class that was
defined last; if the task asks for a program that reads and prints, the text of the last action. If
NAME is undefined, is not a name (`submit f()`), or cannot be called as the tests call it, the
submission costs a turn, is not scored, and the agent is told why.

    reward exact    1 if all tests pass, including hidden tests, otherwise 0
    reward paper    the share of public tests with the same result as for the gold: passed or failed

A score's `parts` contain the shares of public and hidden tests that passed, and the result of each
test by its number, from 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any, ClassVar, Literal, Self

from intercode.env import GoldRun, InterCodeEnv, World, shorten_text
from intercode.envs.gold import NO_GOLD, GoldCache
from intercode.envs.python.grading import PATIENCE, Result
from intercode.envs.python.language import LANGUAGE, without_submit
from intercode.envs.python.layouts import LAYOUTS
from intercode.envs.python.lint import lint
from intercode.envs.python.options import SECONDS, PythonOptions
from intercode.envs.python.suite import (
    SOLUTION,
    Suite,
    behind,
    completed,
    may_print,
    read_suite,
)
from intercode.envs.python.workspace import PythonSessions, PythonSpec
from intercode.envs.rewards import call_reward, is_papers, require_reward, reward_name
from intercode.envs.workspace import prepare_workspaces
from intercode.errors import DataError, UsageError
from intercode.tasks import DataSet
from intercode.types import ExecResult, Score, Task, TaskIssue

Reward = str | Callable[[Sequence[Result], Task], Score]
Tell = Literal["nothing", "number", "case"]
_FUNCTION = (
    re.compile(r"^def (\w+)\(", re.MULTILINE),
    re.compile(r"^def (\w+)\s*\(", re.MULTILINE),
)
"""InterCode v1 missed a function with a space before its parenthesis if there was another
function."""
_NO_ANSWER = (
    "Wrong: the interpreter did not answer what is defined in it. "
    "Has the code replaced a builtin, or a function of a module such as os or json?"
)


class PythonEnv(InterCodeEnv):
    """An environment for Python tasks. `seconds` is each test's time limit. `tell` is what the
    agent sees after a wrong submission: nothing, the number of the first public test that failed,
    or that test itself. The other arguments are those of `InterCodeEnv`.
    """

    Options = PythonOptions
    rewards: ClassVar = {
        "exact": "intercode.envs.python.env:score_exact",
        "paper": "intercode.interop.v1.python:score_paper",
    }
    language = LANGUAGE
    live_forks = False
    session_noun = "interpreter"
    layouts = LAYOUTS
    decided_by = (
        *("tests", "hidden", "cases", "hidden_cases", "input_output"),
        *("script", "hidden_script"),
    )

    def __init__(
        self,
        tasks: Sequence[Task],
        spec: PythonSpec,
        *,
        reward: Reward | None = None,
        golds: GoldCache[Sequence[Result]] | None = None,
        tell: Tell = "number",
        seconds: float = SECONDS,
        **how: Any,
    ) -> None:
        super().__init__(tasks, **how)
        if not seconds > 0:
            raise UsageError(f"seconds {seconds}: a test's time limit is more than 0")
        if tell not in ("nothing", "number", "case"):
            raise UsageError(f"tell {tell!r}: use 'nothing', 'number' or 'case'")
        if reward is not None or not hasattr(type(self), "reward"):
            self.reward = reward or "exact"
        require_reward(self.reward, self.rewards, "results, task")
        self._is_papers = is_papers(self.reward, self.rewards)
        self._tell = tell
        self._gold_cache = golds or GoldCache[Sequence[Result]]()
        self._sessions = PythonSessions(
            spec, seconds=seconds, patience=None if self._is_papers else PATIENCE
        )
        self._suites: dict[str, Suite] = {}
        self._results: Sequence[Result] = ()
        self._last_action, self._scored, self._answered = "", False, True

    @classmethod
    def lint(cls, task: Task) -> Iterator[TaskIssue]:
        yield from lint(task)

    @classmethod
    def prepare_world(cls, data: DataSet, options: PythonOptions) -> World:
        """Build the template once."""
        (reward, named), tell = cls._choose_reward(options), options.tell or "number"
        workspaces, _ = prepare_workspaces(
            data,
            "persistent",
            image=options.image,
            tree=options.tree,
            setup=options.setup,
            limits=options.chosen_limits,
            sandbox=options.sandbox,
        )
        spec = PythonSpec(
            workspaces.provider,
            workspaces.template,
            "persistent",
            options.chosen_limits,
            network=options.chosen_network,
        )
        if options.image is not None:
            spec.require_python()
        facts = {"reward": reward_name(named), "test_seconds": options.seconds, "tell": tell}
        arguments = {
            "spec": spec,
            "reward": reward,
            "golds": GoldCache[Sequence[Result]](),
            "tell": tell,
            "seconds": options.seconds,
        }
        tasks, left_out = _playable(data.tasks)
        if left_out:
            facts["left_out"] = {task.id: str(why) for task, why in left_out}
        return World(arguments, lambda: {**facts, **spec.facts()}, tasks, left_out)

    # -- the episode -------------------------------------------------------------------------------

    def start_episode(self, task: Task) -> None:
        suite = self._suite(task)
        # a program is executed by its tests, behind the preamble
        before = "" if self.rules.scores_steps else suite.preamble
        self._sessions.start_episode(before)
        self._last_action, self._results, self._scored = "", (), False
        self._answered = True

    def execute(self, action: str) -> ExecResult:
        prompt = str(self.task.extra.get("completes") or "")
        if not self.rules.scores_steps:
            action = without_submit(action)
        if prompt and not self.rules.scores_steps:
            action = completed(prompt, action)
        # a sentence or a bare value is no program in place of an earlier one
        if self.rules.scores_steps or not self._last_action or may_print(action):
            self._last_action = action
        return self._sessions.execute(action)

    def copy_world(self, other: Self, live: bool) -> None:
        other._sessions = self._sessions.fork()

    def close_world(self) -> None:
        self._sessions.close()

    def run_gold(self, task: Task) -> GoldRun:
        """Execute the golds in turn, until one passes the tests."""
        if not task.golds:
            return GoldRun(None, "", (NO_GOLD,))
        first = None
        for gold in task.golds:
            posed = _with_submission(replace(task, gold=gold))
            run = replace(self._run_one(posed), task=posed)
            if not run.faults:
                return run
            first = first or run
        assert first
        return first

    def _run_one(self, task: Task) -> GoldRun:
        try:
            execution, results = self._sessions.run_gold(read_suite(task), task.gold)
        except DataError as error:
            return GoldRun(None, "", (str(error),))
        failed = [pair for pair in enumerate(results, start=1) if not pair[1].passed]
        faults: tuple[str, ...] = ()
        if execution.timed_out:
            faults = ("gold runs out of time",)
        elif execution.exit_code:
            faults = (f"gold fails: {execution.output.strip().rpartition(chr(10))[2][:200]}",)
        elif failed:
            (number, first), more = failed[0], f" and {len(failed) - 1} more" if failed[1:] else ""
            faults = (
                (
                    f"gold fails test {number}{more}: {first.test.description[:100]}: "
                    f"{first.why[:200]}"
                ),
            )
        lines = [f"{result.test.description}: {result.why or 'passed'}" for result in results]
        return GoldRun(_passed(results), "\n".join(lines), faults)

    # -- submissions -------------------------------------------------------------------------------

    def reject_submission(self, word: str) -> str | None:
        suite = self._suite(self.task)
        if not word:
            return None
        if not word.isidentifier():
            return (
                f"A submission is a name alone, as in `submit {suite.gold_name or 'main'}`; "
                f"{word!r} is none."
            )
        if word in suite.given and not any(_defines(word, action) for action in self._actions):
            return f"{word} is given with the task; submit what you have defined."
        definitions = self._sessions.describe(word, suite.method)
        if definitions is None or (not definitions.names and self.session_lost()):
            return f"The interpreter did not answer whether there is a function or class {word}."
        if not definitions.callable:
            listed = (
                f"there are {', '.join(definitions.names[:20])}"
                if definitions.names
                else "nothing is defined yet"
            )
            return f"There is no function or class {word}; {listed}."
        if suite.program or definitions.arity is None or suite.arity is None:
            return None
        (least, most), (fewest, largest) = definitions.arity, suite.arity
        if (most != -1 and most < fewest) or (largest != -1 and least > largest):
            return (
                f"{word} takes {_count(least, most)}; "
                f"it will be called with {_count(fewest, largest)}."
            )
        return None

    def score(self) -> Score:
        suite, self._results = self._suite(self.task), ()
        asserts_only = all(test.kind == "assert" for test in suite.tests)
        # InterCode v1 had no other tests
        if self.rules.as_v1 and self._is_papers and asserts_only:
            return self._score_as_v1(suite)
        name, text = self._submitted_answer(suite)
        if name is None and text is None:
            return Score(0.0, False, {})
        if text is not None and not self.rules.scores_steps:
            text = behind(suite.preamble, text)
        public = self._sessions.run_graded(_part(suite, hidden=False), name=name, text=text)
        hidden: Sequence[Result] = ()
        if not self._is_papers and all(_passed(public)):
            hidden = self._sessions.run_graded(_part(suite, hidden=True), name=name, text=text)
        self._results = [*public, *hidden]
        if callable(self.reward):
            return call_reward(self.reward, self._results, self.task)
        if self._is_papers:
            return self._score_as_gold(suite, public)
        unseen = _passed(hidden) or [False] * sum(test.hidden for test in suite.tests)
        return score_exact(_passed(public), unseen)

    def _score_as_gold(self, suite: Suite, results: Sequence[Result]) -> Score:
        scorer: Callable[..., Score] = resolve_name(self.rewards[str(self.reward)])
        return scorer(_passed(results), _passed(self._gold_results(suite)))

    def _score_as_v1(self, suite: Suite) -> Score:
        """Score the first function in the turn's action under the name of the gold's first
        function.

        InterCode v1 cleared its namespace before it executed the gold there, and the gold stayed
        for the next turn. So from the second scoring on, an action that fails leaves the gold in
        place and earns 1. The agent's own session is not affected.
        """
        submitted, gold_name = _first_function(self._last_action), _first_function(self.task.gold)
        if not submitted or not gold_name:
            return Score(0.0, False, {})
        gold = self.task.gold if self._scored else None
        self._scored = True
        public = replace(_part(suite, hidden=False), name=gold_name)
        self._results = self._sessions.run_as_v1(public, self._last_action, submitted, gold)
        return self._score_as_gold(suite, self._results)

    def _submitted_answer(self, suite: Suite) -> tuple[str | None, str | None]:
        """Return a name or the text of a program; both are None if there is nothing to submit."""
        if self._word:
            return self._word, None
        if suite.program:
            return None, self._last_action or None
        for name in (suite.name, SOLUTION) if suite.method else (suite.name,):
            definitions = self._sessions.describe(name)
            if definitions and definitions.callable:
                return name, None
        self._answered = definitions is not None and not self.session_lost()
        return (definitions and definitions.last) or None, None

    def session_lost(self) -> bool:
        return self._sessions.agent.session_lost()

    def is_final(self, score: Score) -> bool:
        """Return whether hidden tests ran: the agent's code may have recorded their arguments."""
        return any(result.test.hidden for result in self._results)

    def feedback(self, score: Score) -> str:
        public = [result for result in self._results if not result.test.hidden]
        failed = next((number for number, result in enumerate(public) if not result.passed), None)
        if self._tell == "nothing" or failed is None:
            if self._tell == "nothing" or self._results:
                return "Wrong."
            return "Wrong: nothing was defined." if self._answered else _NO_ANSWER
        if self._tell == "number":
            return f"Wrong: test {failed + 1} of {len(public)} failed."
        return (
            f"Wrong: this failed: {public[failed].test.description}\n{public[failed].why}".rstrip()
        )

    def outcomes(self) -> dict[str, Any]:
        """Return the results of the executed tests with their numbers in the record, failed tests
        first, at most 30. The agent must not see them, because they include hidden tests."""
        golds = (
            self._gold_results(self._suite(self.task)) if self._is_papers and self._results else ()
        )
        of_gold = {result.test: result.why or "passed" for result in golds}
        same = all(
            result.passed == (of_gold.get(result.test, "passed") == "passed")
            for result in self._results
        )
        rows = [
            {
                "number": number,
                "test": shorten_text(result.test.description)[:300],
                **({"hidden": True} if result.test.hidden else {}),
                "passed": result.passed,
                "gold": shorten_text(of_gold.get(result.test, "passed"))[:500],
                "agent": shorten_text(result.why or "passed")[:500],
                **{
                    name: shorten_text(text)[:500]
                    for name, text in _sides(result)
                    if text is not None
                },
            }
            for number, result in sorted(
                enumerate(self._results, 1), key=lambda numbered: numbered[1].passed
            )[:30]
        ]
        return {"failed": [] if rows and same else ["tests"], "tests": rows}

    def _gold_results(self, suite: Suite) -> Sequence[Result]:
        public = _part(suite, hidden=False)
        if not self.task.gold:
            raise DataError(f"task {self.task.id} has no gold to compare with; use --reward exact")
        return self._gold_cache.get(
            (self.task.id, "public"), lambda: self._sessions.run_gold(public, self.task.gold)[1]
        )

    def _suite(self, task: Task) -> Suite:
        if task.id not in self._suites:
            self._suites[task.id] = read_suite(task)
        return self._suites[task.id]


def _sides(result: Result) -> Iterator[tuple[str, str | None]]:
    """Yield what a failed test gave the answer, what it expected and what it got."""
    if result.test.kind == "program" and not result.passed:
        yield "input", result.test.stdin
    yield from (("expected", result.expected), ("got", result.got))


def score_exact(public: Sequence[bool], hidden: Sequence[bool]) -> Score:
    """Return 1 if there are tests and all passed, otherwise 0."""
    passed = [*public, *hidden]
    success = bool(passed) and all(passed)
    return Score(float(success), success, score_parts(public, hidden))


def score_parts(public: Sequence[bool], hidden: Sequence[bool]) -> dict[str, float]:
    """Return the shares of tests that passed, and the result of each test by its number, from 1."""
    groups = {"public": public, "hidden": hidden}
    shares = {name: sum(passed) / len(passed) for name, passed in groups.items() if passed}
    tests = enumerate([*public, *hidden], start=1)
    return {**shares, **{f"test {number}": float(passed) for number, passed in tests}}


def _playable(tasks: Sequence[Task]) -> tuple[Sequence[Task], Sequence[tuple[Task, TaskIssue]]]:
    """Return the tasks with tests that can be read, and the others with the reason. Raises
    `DataError` if there are no tests at all."""
    playable, left_out = list[Task](), list[tuple[Task, TaskIssue]]()
    for task in tasks:
        try:
            playable.append(_with_submission(task))
        except DataError as error:
            left_out.append((task, TaskIssue(str(error), "no_tests")))
    if not playable:
        raise DataError(f"no task can be played: {left_out[0][1]}")
    return playable, left_out


def _with_submission(task: Task) -> Task:
    """Return the task with the name under which its gold is submitted. Raises `DataError` if its
    tests cannot be read."""
    suite = read_suite(task)
    return task if suite.program else replace(task, extra={**task.extra, "submit": suite.gold_name})


def _part(suite: Suite, *, hidden: bool) -> Suite:
    return replace(suite, tests=tuple(test for test in suite.tests if test.hidden is hidden))


def _first_function(text: str) -> str | None:
    return next((match[1] for pattern in _FUNCTION if (match := pattern.search(text))), None)


def _defines(name: str, action: str) -> bool:
    return bool(re.search(rf"\b(?:def|class)[ \t]+{name}\b|^{name}[ \t]*=", action, re.MULTILINE))


def _passed(results: Sequence[Result]) -> list[bool]:
    return [result.passed for result in results]


def _count(least: int, most: int) -> str:
    words = (
        f"{least} or more" if most == -1 else str(least) if least == most else f"{least} to {most}"
    )
    return f"{words} argument{'' if words == '1' else 's'}"
