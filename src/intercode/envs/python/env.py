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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from intercode.doors import part
from intercode.envs.gold import GoldCache
from intercode.envs.judged import JudgedEnv
from intercode.envs.judges import Judge
from intercode.envs.judges.tests import Tests, TestsJudge
from intercode.envs.python.grading import PATIENCE, Result
from intercode.envs.python.judge import AssertsJudge, Reward, Tell, with_submission
from intercode.envs.python.language import LANGUAGE
from intercode.envs.python.layouts import LAYOUTS
from intercode.envs.python.lint import lint
from intercode.envs.python.options import SECONDS, PythonOptions
from intercode.envs.python.sessions import PythonSpec
from intercode.envs.python.suite import require_playable
from intercode.envs.python.world import PythonWorld, as_bash, from_bash
from intercode.envs.rewards import is_papers, require_reward, reward_name
from intercode.envs.verify import FIELD_NAMES, check_fields, read_verifiers
from intercode.envs.verify import facts as verify_facts
from intercode.envs.workspace import prepare_workspaces
from intercode.errors import DataError, UsageError
from intercode.factory import chosen_reward
from intercode.options import NOTHING, EnvOptions
from intercode.tasks import DataSet, Preprocess, Record
from intercode.types import Prepared, Score, Task, TaskIssue

_NO_NAME = (
    "`submit NAME` is not accepted for this task, whose tests examine files. "
    "Act with `submit` alone."
)
_NOTE = (
    "Tests examine the files that your code leaves, not what it defines in the interpreter. "
    "When the files are done, act with `submit` alone."
)
_NOTE_WHERE_TURNS_ARE_SCORED = (
    "Tests examine the files that your code leaves. They end the interpreter after each action."
)
_ASSERTS = (
    *("tests", "hidden", "cases", "hidden_cases", "input_output"),
    *("script", "hidden_script"),
)
_ENDED = "Wrong. The tests have ended the interpreter; the files stay as they are."
_LANGUAGES = """
bash c c# c++ clojure cpp cs csharp d dart elixir elm erlang fortran go golang haskell hs java
javascript jl js julia kotlin kt lua matlab ml nim objective-c ocaml perl php pl powershell r racket
rb rkt rs ruby rust scala sh shell sql swift ts typescript zig
"""
"""Names of other programming languages, in lower case, as the field `language` of a record gives
them, or in HumanEval-X the id before a slash."""
_OF_PEOPLE = ("cs", "ml", "pl", "ts")
"""Names in `_LANGUAGES` that are also codes of human languages: `pl` may say that a query is
Polish."""
_OF_BASH = (*("image", "setup", "env"), *("action_seconds", "memory", "processes", "disk"))
"""Fields of a record that only Bash's worlds obey."""


class PythonEnv(JudgedEnv[PythonWorld]):
    """An environment for Python tasks. `seconds` is each test's time limit. `tell` is what the
    agent sees after a wrong submission: nothing, the number of the first public test that failed,
    or that test itself. The other arguments are those of `InterCodeEnv`.
    """

    Options = PythonOptions
    rewards: ClassVar = {
        "exact": "intercode.envs.python.judge:score_exact",
        "paper": "intercode.interop.v1.python:score_paper",
    }
    language = LANGUAGE
    live_forks = False
    session_noun = "interpreter"
    layouts = LAYOUTS
    decided_by = (*_ASSERTS, "verify")
    gold_pattern = re.compile(NOTHING)
    fields = (
        *("expected", "hidden_expected", "test_setup_code", "preamble", "completes", "tolerant"),
        *("unplayable", "name", *FIELD_NAMES),
    )

    def __init__(
        self,
        tasks: Sequence[Task],
        spec: PythonSpec,
        *,
        reward: Reward | None = None,
        golds: GoldCache[Sequence[Result]] | None = None,
        tests: Tests | None = None,
        tell: Tell = "number",
        seconds: float = SECONDS,
        **how: Any,
    ) -> None:
        super().__init__(tasks, **how)
        if not seconds > 0:
            raise UsageError(f"seconds {seconds}: a test's time limit must be more than 0")
        if tell not in ("nothing", "number", "case"):
            raise UsageError(f"tell {tell!r}: use 'nothing', 'number' or 'case'")
        if reward is not None or not hasattr(type(self), "reward"):
            self.reward = reward or "exact"
        require_reward(self.reward, self.rewards, "results, task")
        self._tell = tell
        self._golds, self._tests = golds or GoldCache[Sequence[Result]](), tests or Tests()
        papers = is_papers(self.reward, self.rewards)
        self.world = PythonWorld(
            spec,
            seconds=seconds,
            patience=None if papers else PATIENCE,
            as_v1=self.rules.scores_steps,
        )
        self.judges = self.make_judges()

    def make_judges(self) -> Mapping[str, Judge[PythonWorld]]:
        asserts = AssertsJudge(
            self._golds,
            reward=self.reward,
            rewards=self.rewards,
            as_v1=self.rules.as_v1,
            scores_steps=self.rules.scores_steps,
        )
        return {"asserts": asserts, "tests": TestsJudge(self._tests)}

    def kind_of(self, task: Task) -> str:
        return "tests" if task.id in self._tests.verifiers else "asserts"

    @classmethod
    def lint(cls, task: Task) -> Iterator[TaskIssue]:
        if "verify" not in task.extra:
            yield from lint(task)

    @classmethod
    def hacks(cls, task: Task, *, in_process: bool) -> Mapping[str, str]:
        if "verify" not in task.extra or (in_process and not task.gold):
            return {}
        hacks: Mapping[str, str] = part("forgeries" if in_process else "hacks")
        gold = as_bash(task.gold)
        return {name: from_bash(hack.replace("@GOLD@", gold)) for name, hack in hacks.items()}

    @classmethod
    def read_data(cls, options: EnvOptions) -> DataSet:
        preprocess = options.chosen_preprocess or cls.preprocess
        return super().read_data(replace(options, preprocess=_checked(preprocess)))

    @classmethod
    def prepare_world(cls, data: DataSet, options: PythonOptions) -> Prepared:
        """Build the template once."""
        (reward, named), tell = chosen_reward(cls, options), options.tell or "number"
        workspaces, _ = prepare_workspaces(data, options, "persistent")
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
        tasks, left_out = _playable(data.tasks)
        tasks, verifiers, unread = read_verifiers(tasks, data.folder)
        left_out, tests = [*left_out, *unread], Tests(verifiers)
        arguments = {
            "spec": spec,
            "reward": reward,
            "golds": GoldCache[Sequence[Result]](),
            "tests": tests,
            "tell": tell,
            "seconds": options.seconds,
        }
        return Prepared(
            arguments,
            lambda: {**facts, **spec.facts(), **verify_facts(tests.verifiers)},
            tasks,
            left_out,
        )

    def first_observation(self, task: Task) -> str:
        if self.kind_of(task) != "tests":
            return task.query
        note = _NOTE_WHERE_TURNS_ARE_SCORED if self.rules.scores_steps else _NOTE
        return f"{task.query}\n\n{note}"

    def reject_submission(self, word: str) -> str | None:
        if not word:
            return None
        if self.kind_of(self.task) == "tests":
            return _NO_NAME
        suite = self.world.suite(self.task)
        if not word.isidentifier():
            return (
                f"A submission is a name alone, as in `submit {suite.gold_name or 'main'}`; "
                f"{word!r} is not a name."
            )
        definitions = self.world.sessions.describe(word, suite.method)
        if definitions is None or (not definitions.names and self.session_lost()):
            return f"The interpreter did not report whether there is a function or class {word}."
        if definitions.given:
            return f"{word} is given with the task; submit what you have defined."
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

    def is_final(self, score: Score) -> bool:
        judge = self.judge_of(self.task)
        return isinstance(judge, AssertsJudge) and judge.is_final

    def feedback(self, score: Score) -> str:
        judge = self.judge_of(self.task)
        if isinstance(judge, AssertsJudge):
            return judge.feedback(self._tell)
        goes_on = self._submit_count < self._submits_allowed
        if goes_on and isinstance(judge, TestsJudge):
            return "Wrong." if judge.reference(self.world, self.task).alive else _ENDED
        return "Wrong."


def _checked(preprocess: Preprocess) -> Preprocess:
    """Return `preprocess` followed by a check of a record for another language, or with `verify`,
    which raises `DataError`."""

    def check(record: Record) -> Record:
        record = preprocess(record)
        if not isinstance(record, dict):
            return record
        named = record.get("task_id" if "declaration" in record else "language")
        language = str(named).partition("/")[0]
        is_read = any(record.keys() >= set(columns) for columns, _ in LAYOUTS)
        if (
            not record.keys() & {"gold", "verify"}
            and language.lower() in _LANGUAGES.split()
            and not (is_read and language.lower() in _OF_PEOPLE)
        ):
            raise DataError(
                f"is for {language}, and here answers are Python; `verify` runs any program"
            )
        if record.get("verify") is None:
            return record
        check_fields(record)
        given = [name for name, value in record.items() if value not in (None, "", [], {})]
        for name in given:
            if name in (*_ASSERTS, "preamble"):
                raise DataError(
                    f"field {name!r} next to 'verify': either asserts or tests of files decide; "
                    "leave one of the two out"
                )
            if name in _OF_BASH:
                raise DataError(
                    f"field {name!r} is for Bash only; with 'verify' in Python, leave it out"
                )
        return record

    return check


def _playable(tasks: Sequence[Task]) -> tuple[Sequence[Task], Sequence[tuple[Task, TaskIssue]]]:
    """Return the tasks with tests that can be read, and the others with the reason. Raises
    `DataError` if there are no tests at all."""
    playable, left_out = list[Task](), list[tuple[Task, TaskIssue]]()
    for task in tasks:
        try:
            if "verify" in task.extra:
                require_playable(task)
                playable.append(task)
            else:
                rounds = tuple(map(with_submission, task.rounds))
                playable.append(replace(with_submission(task), rounds=rounds))
        except DataError as error:
            left_out.append((task, TaskIssue(str(error), "no_tests")))
    if not playable:
        raise DataError(f"no task can be played: {left_out[0][1]}")
    return playable, left_out


def _count(least: int, most: int) -> str:
    words = (
        f"{least} or more" if most == -1 else str(least) if least == most else f"{least} to {most}"
    )
    return f"{words} argument{'' if words == '1' else 's'}"
