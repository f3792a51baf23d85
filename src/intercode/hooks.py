"""Hooks: what a class of environments may say or override, all in one place.

An attribute or a method here is a promise to classes outside the package; `env.py` calls the
hooks of an episode, `factory.py` those of a class, and `intercode check` the rest.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from intercode.doors import load
from intercode.errors import UsageError
from intercode.language import PLAIN, Language
from intercode.options import EnvOptions
from intercode.plugins import check_overrides, safe_repr
from intercode.tasks import DataSet, Layout
from intercode.tasks.loader import Records
from intercode.types import ExecResult, GoldRun, Prepared, Score, Task, TaskIssue

NO_VALUE = "this environment has no value between turns"
NOT_PLAYED = "not played: "
"""A hack prints this if it cannot be played, followed by the reason."""


class Hooks:
    """The attributes and hooks of `InterCodeEnv`.

    A subclass of that needs five short methods. Here the world is a number, and an action adds to
    it:

        class Adder(InterCodeEnv):
            def start_episode(self, task: Task) -> None:
                self.number = 0

            def execute(self, action: str) -> ExecResult:
                if not action.isdigit():
                    return ExecResult(f"{action!r} is not a number\\n", exit_code=1)
                self.number += int(action)
                return ExecResult(f"{self.number}\\n", exit_code=0)

            def score(self) -> Score:
                right = self.number == int(self.task.gold)
                return Score(float(right), success=right)

            def copy_world(self, fork: Self, live: bool) -> None:
                fork.number = self.number if live else 0

            def close_world(self) -> None:
                pass

    `Adder([Task("five", "Reach 5.", gold="5")])` is an environment; `intercode.testing.check_env`
    tests it. `module:Adder` names the class on the command line. A class whose environments share
    more than tasks overrides `prepare_world`; with a `run_gold`, `intercode check` tests its tasks.
    """

    session_noun = "shell"
    """The name, in observations, of the process that keeps the state between actions."""
    live_forks = True
    """False: `copy_world` cannot make a live copy, and each fork replays the episode."""
    language: Language = PLAIN
    """The language of actions: its submissions, its prompts, and how agents, reports and attacks
    read and write its code."""
    prompts: str | Path | None = None
    """The folder of an environment's own prompts (world.txt, submit.txt, …), from the class's file;
    None: the language's."""
    Options: ClassVar[type[EnvOptions]] = EnvOptions
    """The options that `intercode.make`, `prepare` and the command line take for this class."""
    data: str | Path | None = None
    """A task file, a data folder, or the name of a data set, unless the caller names another."""
    records: Callable[[Path], Records] | None = None
    """A static method that yields the records of the data's file or folder, for a layout that the
    package does not read; each record then passes through `preprocess`."""
    layouts: ClassVar[Sequence[Layout]] = ()
    """The published layouts that the environment reads, each by the fields of its records; the
    first that fits converts what `preprocess` returned, unless it has a `gold`."""
    rewards: ClassVar[Mapping[str, str]] = {}
    """Names that `--reward` takes, each with `module:attribute`, which is imported when the name is
    asked for."""
    fields: ClassVar[Sequence[str]] = ()
    """The fields of a record that the environment reads, besides `decided_by`: others that are
    spelt almost like these get a warning."""
    decided_by: ClassVar[Sequence[str]] = ()
    """The fields with tests that decide about an answer; a record with one of them needs no
    gold."""
    judged_by: ClassVar[Sequence[str]] = ()
    """Which of the fields `order_counts` and `answer_form` the reward `exact` reads. A record with
    one that it does not read is refused."""
    gold_pattern: ClassVar[re.Pattern[str] | None] = None
    """Matches the beginning of a text that can be a gold without tests; None: any text can."""

    _submits_allowed = 1

    # -- the hooks of a class: they prepare what its environments share ----------------------------

    @classmethod
    def prepare(cls, options: EnvOptions) -> Any:
        """Return the `EnvFactory` that `intercode.prepare` completes."""
        return load("intercode.factory:prepare_class")(cls, options)

    @classmethod
    def read_data(cls, options: EnvOptions) -> DataSet:
        """Return the data that the options name, or else the data that the class names."""
        data: DataSet = load("intercode.factory:read_data")(cls, options)
        return data

    @classmethod
    def reader(cls, source: str | Path | None) -> Callable[[Path], Records] | None:
        """Return what yields the records of the data; None: the reader of the file's suffix."""
        return cls.records

    @staticmethod
    def preprocess(record: dict[str, Any]) -> dict[str, Any]:
        """Return the record to make a task from; it may rename fields, or build a gold."""
        return record

    @classmethod
    def prepare_world(cls, data: DataSet, options: Any) -> Prepared:
        """Return what the environments share besides tasks. Raises errors of the package."""
        return Prepared()

    @classmethod
    def submission_under(cls, reward: object) -> re.Pattern[str]:
        """Return the pattern of submissions for the reward of that name."""
        return cls.language.submission

    @classmethod
    def lint(cls, task: Task) -> Iterator[TaskIssue]:
        """Yield the issues that the texts of a task show, without executing anything."""
        yield from ()

    @classmethod
    def lint_files(cls, data: DataSet, options: Any) -> Mapping[str, Sequence[TaskIssue]]:
        """Return, by task id, the issues that the files of a data set show."""
        return {}

    @classmethod
    def hacks(cls, task: Task, *, in_process: bool) -> Mapping[str, str]:
        """Return known hacks of this task's tests, as actions by name; @GOLD@ is the gold.

        `in_process`: those in which the gold's own code forges. A hack that cannot be played prints
        `NOT_PLAYED` and why.
        """
        return {}

    # -- the hooks of an episode: the first five must be overridden --------------------------------

    @abstractmethod
    def start_episode(self, task: Task) -> None:
        """Reset the world. Raises `DataError` for a bad task, `SandboxError` without a world."""

    @abstractmethod
    def execute(self, action: str) -> ExecResult:
        """Execute an action, return its complete output. Raises `SandboxDied` if the world died."""

    @abstractmethod
    def score(self) -> Score:
        """Return the score of the world's state after the submission of `self._word`."""

    @abstractmethod
    def copy_world(self, fork: Self, live: bool) -> None:
        """Give `fork`, a shallow copy, a live copy of this world (or raise `ForkError`), or an
        empty one."""

    @abstractmethod
    def close_world(self) -> None:
        """End processes, sandboxes and files. May be called more than once."""

    def first_observation(self, task: Task) -> str:
        """Return the first observation, after `start_episode`."""
        return task.query

    def begin_round(self) -> None:
        """Prepare the next round of the episode: it begins in the world as it is."""

    def look_up(self, word: str, name: str) -> str | None:
        """Return the document for an action `word name` of the record's `lookups`, if it exists."""
        return None

    def reject_submission(self, word: str) -> str | None:
        """Return why `word` cannot be submitted, as the observation, or None."""
        return None

    def feedback(self, score: Score) -> str:
        """Return the observation after a wrong submission."""
        return "Wrong." if self._submits_allowed > 1 else ""

    def is_final(self, score: Score) -> bool:
        """Return whether this score ends the episode even if submissions are left."""
        return False

    def session_lost(self) -> bool:
        """Return whether the session has ended since the last action."""
        return False

    def outcomes(self) -> dict[str, Any]:
        """Return what the agent and the gold did, for readers: `info["outcomes"]`.

        Called once, after the last `score`. The result is serializable as JSON, bounded
        (`shorten_text`) and contains no times. Built-in environments return `{"failed": [names of
        the parts that failed], "agent": {…}, "gold": {…}}` and more.
        """
        return {}

    def value(self) -> float | None:
        """Return the reward of a submission made now, unseen by the agent; None if unknown."""
        return None

    @property
    def no_value(self) -> str:
        """Return why `self.task` has no `value`; "" if it has one."""
        return NO_VALUE if type(self).value is Hooks.value else ""

    def run_gold(self, task: Task) -> GoldRun:
        """Execute the gold on an untouched world; one that fails has faults. Raises
        `SandboxError`."""
        raise UsageError(
            f"{type(self).__name__} cannot execute a gold: it must override `run_gold`"
        )

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not isinstance(cls.language, Language):
            raise UsageError(
                f"{cls.__qualname__} says language = {safe_repr(cls.language):.60}, "
                'but language is a value such as intercode.Language("awk")'
            )
        if not cls.__module__.startswith("intercode."):
            check_overrides(cls, Hooks, _RETURNED)


_RETURNED = {
    "execute": ExecResult,
    "score": Score,
    "feedback": str,
    "look_up": object,
    "outcomes": dict,
    "run_gold": GoldRun,
    "prepare": object,
    "prepare_world": Prepared,
    "start_episode": object,
    "copy_world": object,
    "close_world": object,
    "first_observation": str,
}
"""The types that the hooks of a caller's class must return."""
