"""InterCodeEnv: a Gymnasium environment over tasks and a world in which actions are code.

    reset ──► (query, info)
    step(action) ──► execute ──► observation
                        │
                        └─ SandboxDied? ── replay the episode, at the pace of its first play:
                             dies again, though a fresh sandbox can execute and score an action
                                    → the agent's fault (reward 0, ended); while sandboxes of other
                                      episodes die as well, only if three more replays die too
                             else   → raise SandboxDied, an infrastructure fault

    protocol "submit"    `submit` scores the state and ends the episode
    protocol "paper"     every step is scored, and reward 1 ends the episode

    a task with `follow_up`: the first submission that succeeds earns .7 and is answered by a second
    query, whose success earns the rest (`user.py`)
    `ask QUESTION`       a turn that executes nothing: the user of `user.py` answers

The death of a process that the agent's user owns (shell, interpreter, a test's process) is an
outcome, not `SandboxDied`. The rest of InterCode v1's protocol "paper" is in `interop/v1/`. Nothing
here knows about models, strategies, or a particular language.
"""

from __future__ import annotations

import copy
import functools
import re
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from numbers import Integral
from pathlib import Path
from threading import Lock, RLock
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, SupportsFloat, TypeVar

import gymnasium
from gymnasium.spaces import Text
from gymnasium.vector.utils import create_shared_memory

from intercode.errors import ForkError, SandboxDied, SandboxError, UsageError, did_you_mean
from intercode.language import PLAIN, Language
from intercode.options import EnvOptions
from intercode.plugins import attribute_path, call_plugin, check_overrides, safe_repr
from intercode.protocol import find_protocol
from intercode.reading import leave_all_out, present
from intercode.submission import INSIDE, LONGEST, is_submission, submitted_word
from intercode.tasks import DataSet, Layout, open_data
from intercode.tasks.loader import DECIDING, Records, near_fields
from intercode.types import ExecResult, Score, Task, TaskIssue, View
from intercode.user import (
    NO_BUDGET,
    OWN_USER,
    SILENT,
    Facet,
    User,
    facet_asked,
    facets_of,
    has_question,
    lookup_in,
    lookups_of,
    question_in,
    score_of_phase,
)

StepResult = tuple[str, SupportsFloat, bool, bool, dict[str, Any]]
Parameters = ParamSpec("Parameters")
Owner = TypeVar("Owner", bound="InterCodeEnv")
Result = TypeVar("Result")
_SECONDS_AFTER_REPLAY = 0.5
_MORE_REPLAYS = 3
_RECENT, _QUIET, _LONGEST_WAIT = 60.0, 2.0, 10.0
"""Seconds: how recent another sandbox's death makes a second death doubtful; how long no other may
have died before the next replay begins; how long to wait for that at most."""
_NAMED = 5
"""Reasons, and tasks with one reason, that an error names."""
_WITH_STARTER_TASKS = ("intercode.envs.", "intercode.interop.")
NO_VALUE = "this environment has no value between turns"
NOT_PLAYED = "not played: "
"""A hack that cannot be played prints this, followed by the reason."""


def single_thread(
    method: Callable[Concatenate[Owner, Parameters], Result],
) -> Callable[Concatenate[Owner, Parameters], Result]:
    """Raise `UsageError` while another thread is in a method with this decorator.

    Two simultaneous calls in one world would look like a dead sandbox, and the agent would be
    blamed.
    """

    @functools.wraps(method)
    def locked(env: Owner, /, *arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        if not env._lock.acquire(blocking=False):
            raise UsageError(
                "another thread is using this environment; give each thread one of its own"
            )
        try:
            return method(env, *arguments, **options)
        finally:
            env._lock.release()

    return locked


class _Deaths:
    """When the sandbox of each episode of this process died last, but for those whose agents killed
    it. Other processes, such as those of other shards, are not seen."""

    def __init__(self) -> None:
        self._lock, self._times = Lock(), dict[Hashable, float]()

    def note(self, episode: Hashable, *, by_agent: bool = False) -> None:
        with self._lock:
            self._times[episode] = -inf if by_agent else time.monotonic()
            oldest = time.monotonic() - _RECENT
            self._times = {key: died for key, died in self._times.items() if died > oldest}

    def since_others(self, episode: Hashable) -> float:
        """Return the seconds since the sandbox of another episode died."""
        with self._lock:
            others = [died for key, died in self._times.items() if key != episode]
        return time.monotonic() - max(others, default=-inf)


_deaths = _Deaths()


class InterCodeEnv(gymnasium.Env[str, str]):
    """The base class of environments. `info` contains no times, so equal episodes have equal infos.

    A subclass has five short methods, the hooks. Here the world is a number, and an action adds to
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

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012
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
    rewards: ClassVar[Mapping[str, str]] = {}
    """Names that `--reward` takes, each with `module:attribute`, which is imported when the name is
    asked for."""

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        protocol: str = "submit",
        max_turns: int | None = 10,
        view: View | None = None,
        keep_going: bool = False,
        submits: int | None = None,
        user: User | None = None,
    ) -> None:
        """After `max_turns` steps an episode is truncated; None: no limit.

        `keep_going` continues after a success under the paper's protocol, to replay a recording to
        its end. `submits` is the number of submissions, by default one. A wrong submission before
        the last one costs a turn and is answered by `feedback`. `user` answers the questions of
        tasks with `facets`, in place of these.
        """
        if not tasks:
            raise UsageError("an environment needs at least one task")
        if max_turns is not None and max_turns < 1:
            raise UsageError(f"max_turns {max_turns}: it must be at least 1, or None")
        if submits is not None and submits < 1:
            raise UsageError(f"submits {submits}: it must be at least 1")
        self.tasks = list(tasks)
        self.protocol = protocol
        self.rules = find_protocol(protocol)
        self.max_turns = max_turns
        self.view = view or View()
        self.submission = self.language.submission
        self._keep_going, self._submits_allowed = keep_going, submits or 1
        self._user = user
        self._facets: tuple[Facet, ...] = ()
        self._lookups: Mapping[str, float] = {}
        self.observation_space, self.action_space = Utf8(), Utf8()
        self._order: list[int] = []
        self._task: Task | None = None
        self._last_text = ""
        self._seen = ""
        """The output of the last action, as the agent sees it."""
        self._actions: list[str] = []
        self._follow_up: Task | None = None
        """The task of the second phase, until that begins."""
        self._phase = 1
        self._asked: list[tuple[str, str]] = []
        """The questions of this episode with their replies."""
        self._ask_budget = inf
        self._fingerprints: list[str] = []
        self._times: list[float] = []
        self._word, self._submit_count, self._start_time = "", 0, 0.0
        self._done, self._closed, self._lock = True, False, RLock()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not isinstance(cls.language, Language):
            raise UsageError(
                f"{cls.__qualname__} says language = {safe_repr(cls.language):.60}, "
                'but language is a value such as intercode.Language("awk")'
            )
        if not cls.__module__.startswith("intercode."):
            check_overrides(cls, InterCodeEnv, _RETURNED)

    @classmethod
    def prepare(cls, options: EnvOptions) -> EnvFactory:
        """Read the data and call `prepare_world`, once for all environments of the factory."""
        reward, names = options.chosen_reward, [*cls.rewards]
        # a class's own method is not a single word: "GardenEnv.reward"
        if names and isinstance(reward, str) and reward.isidentifier() and reward not in names:
            known = ", ".join(map(repr, names))
            raise UsageError(
                f"reward {reward!r}: use {known}, or a function (module:function)"
                f"{did_you_mean(reward, names)}"
            )
        data, episode = cls.read_data(options), options.episode()
        world = cls.prepare_world(data, options)
        tasks = data.tasks if world.tasks is None else world.tasks
        left_out = (*data.left_out, *world.left_out)
        facts = {"data": data.name, "data_digest": data.digest}
        reasons = dict[str, str]()
        place = data.file and (data.file if present(data.file) == "folder" else data.file.parent)
        for task, issue in left_out:
            # equal wherever the data lies, since a run is resumed with equal facts
            why = issue.replace(f"{place}/", "")
            reasons[task.id] = f"{reasons[task.id]}; {why}" if task.id in reasons else why
        why_left_out = {"left_out": reasons} if reasons else {}
        return EnvFactory(
            tasks,
            lambda: cls(tasks, **world.arguments, **episode),
            lambda: {**facts, **world.facts(), **why_left_out},
            left_out,
            options,
        )

    @classmethod
    def read_data(cls, options: EnvOptions) -> DataSet:
        """Return the data that the options name, or else the data that the class names.

        Raises what `open_data` raises, and `UsageError` if neither names any.
        """
        source = options.data or attribute_path(cls, "data")
        if source is None and not cls.__module__.startswith(_WITH_STARTER_TASKS):
            raise UsageError(
                f"{cls.__qualname__} has no tasks; name their file by its attribute `data`, or"
                " with --data"
            )
        # a reward or a class of the caller's own may read any field
        is_ours = cls.__module__.startswith(_WITH_STARTER_TASKS)
        by_name = options.chosen_reward is None or options.chosen_reward in cls.rewards
        data = open_data(
            source,
            env=cls.language.name,
            split=options.split,
            limit=options.limit,
            preprocess=options.chosen_preprocess or cls.preprocess,
            layouts=cls.layouts,
            gold_fields=options.gold_fields,
            names=options.field_names,
            decided_by=cls.decided_by,
            judged_by=cls.judged_by,
            gold_pattern=cls.gold_pattern,
            unread=[
                name
                for name in DECIDING
                if is_ours and by_name and name not in (*cls.fields, *cls.decided_by)
            ],
            records=cls.reader(source),
            between=cls.language.between,
        )
        leave_all_out([why for _, why in data.left_out])
        if misspelt := cls.misspelt(data.tasks):
            warnings.warn(f"{data.name}: {'; '.join(misspelt)}", RuntimeWarning, stacklevel=2)
        return data

    @classmethod
    def reader(cls, source: str | Path | None) -> Callable[[Path], Records] | None:
        """Return what yields the records of the data; None for the reader of the file's suffix."""
        return cls.records

    @classmethod
    def misspelt(cls, tasks: Iterable[Task]) -> list[str]:
        """Return a sentence for each field of the tasks that seems to be misspelt."""
        columns = {name for columns, _ in cls.layouts for name in columns}
        return near_fields(tasks, (*cls.fields, *cls.decided_by), columns)

    @classmethod
    def _choose_reward(cls, options: EnvOptions) -> tuple[Any, Any]:
        """Return the reward for `__init__`, and its function or name. The first is None for the
        class's own attribute `reward`, which may be a method."""
        if options.reward is None and hasattr(cls, "reward"):
            return None, cls.reward
        return options.chosen_reward, options.chosen_reward

    @classmethod
    def prepare_world(cls, data: DataSet, options: Any) -> Prepared:
        """Return what the environments share besides tasks: templates, databases, golds.

        `options` is an instance of the class's `Options`. Raises `UsageError`, `DataError` or
        `SandboxError` if the world cannot be made.
        """
        return Prepared()

    @classmethod
    def lint(cls, task: Task) -> Iterator[TaskIssue]:
        """Yield the issues that the texts of a task show. Nothing is executed."""
        yield from ()

    @classmethod
    def lint_files(cls, data: DataSet, options: Any) -> Mapping[str, Sequence[TaskIssue]]:
        """Return, by task id, the issues that the files of a data set show. Nothing is executed."""
        return {}

    @classmethod
    def hacks(cls, task: Task, *, in_process: bool) -> Mapping[str, str]:
        """Return known hacks of this task's tests, as actions by name, for `intercode check` and
        `attack`; the default is none. @GOLD@ stands for the gold.

        `in_process`: those in which the gold's own code forges. A hack that cannot be played prints
        `NOT_PLAYED` and why.
        """
        return {}

    @classmethod
    def submission_under(cls, reward: object) -> re.Pattern[str]:
        """Return the pattern of submissions for the reward of that name."""
        return cls.language.submission

    records: Callable[[Path], Records] | None = None
    """A static method that yields the records of the data's file or folder, for a layout that the
    package does not read; each record then passes through `preprocess`."""

    layouts: ClassVar[Sequence[Layout]] = ()
    """The published layouts that the environment reads, each by the fields of its records; the
    first that fits converts what `preprocess` returned, unless it has a `gold`."""

    decided_by: ClassVar[Sequence[str]] = ()
    """The fields with tests that decide about an answer; a record with one of them needs no
    gold."""

    gold_pattern: ClassVar[re.Pattern[str] | None] = None
    """Matches the beginning of a text that can be a gold without tests; None: any text can."""

    fields: ClassVar[Sequence[str]] = ()
    """The other fields of a record that the environment reads: `near_fields` warns of misspelt
    ones."""

    judged_by: ClassVar[Sequence[str]] = ()
    """Which of the fields `order_counts` and `answer_form` the reward `exact` reads. A record with
    one that it does not read is refused."""

    @staticmethod
    def preprocess(record: dict[str, Any]) -> dict[str, Any]:
        """Return the record to make a task from. A subclass may rename fields, build a gold, and
        the like."""
        return record

    # -- the hooks ---------------------------------------------------------------------------------

    @abstractmethod
    def start_episode(self, task: Task) -> None:
        """Reset the world for `task`; no state from earlier episodes may remain.

        Raises `DataError` for a task that cannot be played, and `SandboxError` if the world cannot
        be made.
        """

    @abstractmethod
    def execute(self, action: str) -> ExecResult:
        """Execute one action that is not a submission, and return its complete output.

        An action that fails, or that ends the shell (`session_lost`), is a result. Raises
        `SandboxDied` if the world died.
        """

    @abstractmethod
    def score(self) -> Score:
        """Return the score of the current state of `self.task`; `self._word` is the submitted word,
        "" if there is none.

        Raises `SandboxDied` if the world died, and `DataError` if a comparison with the gold is
        impossible.
        """

    @abstractmethod
    def copy_world(self, fork: Self, live: bool) -> None:
        """Give `fork`, a shallow copy of this environment, a world of its own: a live copy of this
        world, or an empty world.

        Raises `ForkError` if `live` and this world cannot be copied now.
        """

    def __repr__(self) -> str:
        task = self._task.id if self._task else None
        name, protocol = type(self).__name__, self.protocol
        return f"<{name}: {len(self.tasks)} tasks, {protocol=}, {task=}>"

    __str__ = __repr__

    @abstractmethod
    def close_world(self) -> None:
        """End the world: processes, sandboxes, files. May be called more than once."""

    def first_observation(self, task: Task) -> str:
        """Return the first observation, after `start_episode`: by default the query."""
        return task.query

    def reject_submission(self, word: str) -> str | None:
        """Return why `word` cannot be submitted, or None. The reason becomes the observation; the
        submission costs a turn."""
        return None

    def session_lost(self) -> bool:
        """Return whether the session has ended since the last action, to say so after a
        submission. The default is False."""
        return False

    def is_final(self, score: Score) -> bool:
        """Return whether this score ends the episode even if it is not a success and submissions
        are left."""
        return False

    def follow_up(self, task: Task) -> Task | None:
        """Return the task of the second phase, in the same world; None (the default) if the task
        has one phase. Raises `DataError` for a record that does not say it properly."""
        return None

    def look_up(self, word: str, name: str) -> str | None:
        """Return the document that an action `word name` of the record's `lookups` prints; `name`
        may be empty. None (the default): there is none."""
        return None

    def feedback(self, score: Score) -> str:
        """Return the observation after a wrong submission."""
        return "Wrong." if self._submits_allowed > 1 else ""

    def outcomes(self) -> dict[str, Any]:
        """Return what the agent and the gold did, for readers of the episode: `info["outcomes"]`.

        Called once, after `score`, when an episode ends with a score: with the last submission, or
        under the paper's protocol with the last turn. The result is serializable as JSON, bounded
        (`shorten_text`) and contains no times. Built-in environments return `{"failed": [names of
        the parts that failed], "agent": {…}, "gold": {…}}` and more.
        """
        return {}

    def value(self) -> float | None:
        """Return the reward of a submission made now; None (the default) if that is not known.
        Nothing changes, and the agent does not see it."""
        return None

    @property
    def no_value(self) -> str:
        """Return why `self.task` has no `value`; "" if it has one."""
        return NO_VALUE if type(self).value is InterCodeEnv.value else ""

    def run_gold(self, task: Task) -> GoldRun:
        """Execute the gold on an untouched world, which may be the episode's. `intercode check`
        compares two executions.

        A gold that fails is a `GoldRun` with faults. Raises `SandboxError` if the machine fails.
        """
        raise UsageError(
            f"{type(self).__name__} cannot execute a gold: it must override `run_gold`"
        )

    # -- Gymnasium ---------------------------------------------------------------------------------

    @property
    def task(self) -> Task:
        if self._task is None:
            raise UsageError("call reset() first: no task has begun")
        return self._task

    @property
    def takes_answer(self) -> bool:
        """Return whether the task takes `submit ANSWER`: ANSWER then replaces the last output."""
        return False

    @property
    def takes_questions(self) -> bool:
        """Return whether the task takes `ask QUESTION`."""
        return bool(self._facets) and not self.rules.scores_steps

    @property
    def turn(self) -> int:
        """The number of steps in this episode."""
        return len(self._actions)

    @single_thread
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode on the task that `options={"task": id or index}` names, or on the next
        task in an order that `seed` shuffles. Return the first observation, and the task's id in
        `info`."""
        self._require_open()
        if unknown := sorted(set(options or ()) - {"task"}):
            raise UsageError(
                f"reset takes no option {', '.join(map(repr, unknown))}; "
                "it takes 'task', an id or an index"
            )
        super().reset(seed=seed)
        if seed is not None:
            self._order = []
        self._done = True
        self._task = self._choose_task((options or {}).get("task"))
        self._actions, self._fingerprints, self._times, self._seen = [], [], [], ""
        self._word, self._submit_count = "", 0
        self._phase, self._follow_up = 1, None
        if not self.rules.scores_steps:
            self._follow_up = self.follow_up(self._task)
        self._facets, self._asked = facets_of(self._task.extra), []
        self._lookups = {} if self.rules.scores_steps else lookups_of(self._task.extra)
        self._ask_budget = float(self._task.extra.get("ask_budget", inf))
        self.start_episode(self._task)
        self._done, self._start_time = False, time.monotonic()
        self._last_text = self.first_observation(self._task)
        return self._last_text, {"task": self._task.id}

    @single_thread
    def step(self, action: str) -> StepResult:
        """Execute one action, or score a submission. Raises `UsageError` for anything but text, and
        after the end of the episode."""
        self._require_open()
        if self._done:
            raise UsageError("the episode is over or has not begun; call reset()")
        if not isinstance(action, str):
            raise UsageError(f"an action is a str, not {type(action).__name__}")
        if "\0" in action or not self.action_space.contains(action):
            raise UsageError(
                "an action is text that UTF-8 can encode, "
                "without NUL characters and of 16 MiB at most"
            )
        self._actions.append(action)
        self._times.append(time.monotonic() - self._start_time)
        try:
            if self._submits(action):
                result = self._submit(action)
            elif (question := self._question_in(action)) is not None:
                result = self._ask_user(question)
            elif lookup := lookup_in(action, self._lookups):
                result = self._look_up(*lookup)
            else:
                result = self._execute(action)
        except SandboxDied as death:
            result = self._handle_death(death)
        self._last_text = f"> {action}\n{result[0]}"
        return result

    def render(self) -> str | None:
        """Return the query or the last action with its observation if `render_mode` is "ansi", else
        None."""
        return self._last_text if self.render_mode == "ansi" else None

    @single_thread
    def fork(self, *, replay: bool = False) -> Self:
        """Return a second environment in the same state, turn count included; both must be closed.

        SQL and Python replay the episode. Elsewhere the copy is live, and `ForkError` names the
        jobs or descriptors that cannot be copied, unless `replay=True`: the fork then replays it. A
        replayed observation that differs is a `ForkError`.
        """
        self._require_open()
        fork = copy.copy(self)
        fork._actions, fork._asked = list(self._actions), list(self._asked)
        fork._fingerprints = list(self._fingerprints)
        fork._times = list(self._times)
        fork._order = list(self._order)
        fork._lock = RLock()
        fork._np_random = copy.deepcopy(self._np_random)
        try:
            self.copy_world(fork, live := self.live_forks)
        except ForkError:
            if not replay:
                raise
            self.copy_world(fork, live := False)
        if self._task is None or live:
            return fork
        try:
            fork.start_episode(fork.task)
            actions = filter(self._executes, self._actions)
            for number, (action, expected) in enumerate(
                zip(actions, self._fingerprints, strict=True), start=1
            ):
                if _fingerprint(fork.execute(action)) != expected:
                    raise ForkError(
                        "re-executing the episode gave another observation at turn "
                        f"{number}: {action!r}"
                    )
        except BaseException:
            fork.close_world()
            raise
        return fork

    def close(self) -> None:
        self._done = self._closed = True
        self.close_world()
        super().close()

    # -- one step ----------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closed:
            raise UsageError("the environment is closed; make a new one")

    def _submits(self, action: str) -> bool:
        return not self.rules.scores_steps and is_submission(action, self.submission)

    def _question_in(self, action: str) -> str | None:
        return question_in(action) if self.takes_questions else None

    def _executes(self, action: str) -> bool:
        if self._submits(action) or lookup_in(action, self._lookups):
            return False
        return self._question_in(action) is None

    def _ask_user(self, question: str) -> StepResult:
        """Return the user's reply to a question as the result of a step; `info["asked"]` names the
        facet that answered, "" for none, `OWN_USER` for a function of the caller's."""
        asked, task = "", self.task
        cost = float(task.extra.get("ask_cost", 1))
        if self._user is not None:
            reply = self._shorten(call_plugin(self._user, str, task, list(self._asked), question))
            asked = OWN_USER
        elif facet := facet_asked(self._facets, question):
            reply, asked = facet.reply, facet.name
            cost = cost if facet.cost is None else facet.cost
        else:
            reply = SILENT
        paid = self._pay(cost)
        reply, asked = (reply, asked) if paid else (NO_BUDGET, "")
        self._asked.append((question, reply))
        info = {**_make_info(None), "asked": asked}
        return self._finish_step(reply + self._budget_note(), 0.0, info)

    def _look_up(self, word: str, name: str) -> StepResult:
        text = self.look_up(word, name)
        if text is None:
            reply = f"There is no {word} {name}".strip() + f"; `{word}` lists the names."
        elif self._pay(self._lookups[word]):
            reply = self._shorten(text)
        else:
            reply = NO_BUDGET
        return self._finish_step(reply + self._budget_note(), 0.0, _make_info(None))

    def _pay(self, cost: float) -> bool:
        """Deduct a cost from the budget if there is enough left."""
        enough = cost <= self._ask_budget
        self._ask_budget -= cost if enough else 0.0
        return enough

    def _budget_note(self) -> str:
        return "" if self._ask_budget == inf else f"\n[{self._ask_budget:g} of the budget left]"

    def _submit(self, action: str) -> StepResult:
        info, self._word = _make_info(None), submitted_word(self.submission, action)
        if (reason := self.reject_submission(self._word)) is not None:
            if not isinstance(reason, str):
                raise UsageError(
                    f"{type(self).__name__}.reject_submission returned {safe_repr(reason):.50}, "
                    "not a text or None"
                )
            return self._finish_step(self._note_loss(self._shorten(reason), info), 0.0, info)
        score = self.score()
        if score.success and self._follow_up:
            return self._begin_second_phase(score, info)
        earned, score = self.of_episode(0.0), self._joined(score)
        self._submit_count += 1
        left = self._submits_allowed - self._submit_count
        feedback = "" if score.success else self._shorten(self.feedback(score))
        if score.success or not left or self.is_final(score):
            feedback = self._note_loss(feedback, info)
            reward = score.reward - earned
            return self._finish_step(feedback, reward, {**info, "score": score}, "submit")
        feedback = f"{feedback} Submissions left: {left}.".strip()
        return self._finish_step(self._note_loss(feedback, info), 0.0, info)

    def _begin_second_phase(self, score: Score, info: dict[str, Any]) -> StepResult:
        info["score"] = score = score_of_phase(score, 1)
        self._task, self._follow_up, self._phase = self._follow_up, None, 2
        self._submit_count, self._facets = 0, facets_of(self.task.extra)
        observation = self._note_loss(f"Solved. The user goes on:\n\n{self.task.query}", info)
        return self._finish_step(observation, score.reward, info)

    def _joined(self, score: Score) -> Score:
        """Return the score of the episode if it ends with this score of its phase."""
        has_two = self._phase == 2 or self._follow_up is not None
        return score_of_phase(score, self._phase) if has_two else score

    def of_episode(self, reward: float) -> float:
        """Return the reward of the episode if it ends with this reward of its phase."""
        return self._joined(Score(reward, reward == 1)).reward

    def _note_loss(self, text: str, info: dict[str, Any]) -> str:
        """Return the observation after a submission, and set `session_lost` in its `info`."""
        info["session_lost"] = lost = self.session_lost()
        return f"{text}\n[the {self.session_noun} ended]".lstrip("\n") if lost else text

    def _shorten(self, text: str) -> str:
        """Return a text, which may contain names and messages from the agent, encodable in UTF-8
        and cut like an observation."""
        return self.view.shorten(text.encode("utf-8", "backslashreplace").decode())[0]

    def _execute(self, action: str) -> StepResult:
        result = self.execute(action)
        self._fingerprints.append(_fingerprint(result))
        self._seen, cut = self.view.shorten(result.output)
        info = _make_info(result, cut or result.overflow is not None)
        if not self.rules.scores_steps:
            notes = ["[timed out; what the action started was ended]"] if result.timed_out else []
            if result.session_lost:
                # the agent chose the name
                folder = result.cwd if result.cwd.isprintable() else ascii(result.cwd)
                new = f"a new one starts in {folder}]" if folder else "a new one begins]"
                notes.append(f"[the {self.session_noun if folder else 'session'} ended; {new}")
            if INSIDE.search(action):
                notes.append(_SUBMIT_ALONE)
            if self.takes_questions and has_question(action):
                notes.append(_ASK_ALONE)
            gap = "" if not notes or not result.output or result.output.endswith("\n") else "\n"
            return self._finish_step(self._seen + gap + "\n".join(notes), 0.0, info)
        score = self.score()
        solved = score.success and not self._keep_going
        ended = "solved" if solved else "submit" if self.is_final(score) else None
        return self._finish_step(self._seen, score.reward, {**info, "score": score}, ended)

    def _finish_step(
        self, observation: str, reward: float, info: dict[str, Any], ended: str | None = None
    ) -> StepResult:
        """Return the result of a step. `ended` is the reason if the episode ends with this step; it
        also ends after the last turn."""
        truncated = ended is None and self.max_turns is not None and self.turn >= self.max_turns
        if ended or truncated:
            self._done = True
            info["ended"] = ended or "turns"
            if "score" in info:
                info["outcomes"] = self.outcomes()
        return observation, reward, ended is not None, truncated, info

    def _handle_death(self, death: SandboxDied) -> StepResult:
        """Blame the agent if its episode kills a fresh sandbox too, although a fresh sandbox can
        execute and score an action.

        Otherwise raise `SandboxDied`: the machine is at fault. `by_agent` counts as the second
        death. Whoever kills sandboxes of other episodes meanwhile may have hit the replay too, so
        the episode is then replayed up to three times more.
        """
        self._done, episode, latest = True, (id(self), self._start_time), death
        for replays in range(1 + _MORE_REPLAYS):
            if latest.by_agent:
                break
            _deaths.note(episode)
            if replays and _deaths.since_others(episode) > _RECENT:
                break
            until = time.monotonic() + _LONGEST_WAIT
            while replays and _deaths.since_others(episode) < _QUIET and time.monotonic() < until:
                time.sleep(0.1)
            self._prove_sandbox(death)
            try:
                self._replay_episode()
                self.score()
            except SandboxDied as again:
                latest = again
            else:
                raise SandboxDied(
                    f"{death}; it did not happen again when the episode was re-executed"
                ) from death
        self._prove_sandbox(death)
        _deaths.note(episode, by_agent=True)
        info = {
            **_make_info(None),
            "score": Score(0.0, False),
            "ended": "agent_fault",
            "outcomes": {},
        }
        lost = 0.0 - self.of_episode(0.0)  # -0.0 would be shown
        return "[the sandbox did not survive this action]", lost, True, False, info

    def _prove_sandbox(self, death: SandboxDied) -> None:
        """Start an episode, and execute and score an action. Raises `SandboxDied` if this machine
        cannot do that now."""
        try:
            self.start_episode(self.task)
            self.execute("")
            self.score()
        except SandboxError as error:
            raise SandboxDied(
                f"{death}; nor can a fresh sandbox execute and score an action: {error}"
            ) from error

    def _replay_episode(self) -> None:
        """Execute the episode again from its start, no faster than before: a process that the agent
        left running may be the killer, and may kill a moment later."""
        self.start_episode(self.task)
        start, self._fingerprints = time.monotonic(), []
        for action, seconds in zip(self._actions, self._times, strict=True):
            time.sleep(max(0.0, start + seconds - time.monotonic()))
            if self._executes(action):
                self._fingerprints.append(_fingerprint(self.execute(action)))
        time.sleep(_SECONDS_AFTER_REPLAY)

    def _choose_task(self, wanted: str | Integral | None) -> Task:
        if wanted is None:
            if not self._order:
                self._order = [int(index) for index in self.np_random.permutation(len(self.tasks))]
            return self.tasks[self._order.pop(0)]
        if isinstance(wanted, Integral):
            if not 0 <= int(wanted) < len(self.tasks):
                raise UsageError(
                    f"task {wanted}: there are {len(self.tasks)} tasks, counted from 0"
                )
            return self.tasks[int(wanted)]
        for task in self.tasks:
            if task.id == wanted:
                return task
        raise UsageError(f"no task has the id {wanted!r}")


@dataclass(frozen=True, slots=True)
class Prepared:
    """The values that the environments of a factory share besides the data.

    Args:
        arguments: of the class's `__init__`, besides the tasks and those of `InterCodeEnv`.
        facts: returns what influences results beyond the options, for run.json: digests of
            templates, the userland. The run itself uses the names `hardness`, `data_set` and
            `excluded`.
        tasks: the tasks that can be played; None: all of the data's.
        left_out: the tasks that cannot be played as they are, and why.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    facts: Callable[[], dict[str, Any]] = dict
    tasks: Sequence[Task] | None = None
    left_out: Sequence[tuple[Task, TaskIssue]] = ()


def none_playable(left_out: Sequence[tuple[Task, TaskIssue]]) -> str:
    """Return that none of the tasks can be played, with the most frequent reasons and some tasks
    that have them."""
    by_reason: dict[str, list[str]] = {}
    for task, issue in left_out:
        by_reason.setdefault(str(issue), []).append(task.id)
    reasons = sorted(by_reason.items(), key=lambda reason: -len(reason[1]))
    said = [
        f"{why} ({len(ids)}: {', '.join(ids[:_NAMED])}{', …' if len(ids) > _NAMED else ''})"
        for why, ids in reasons[:_NAMED]
    ]
    if len(reasons) > _NAMED:
        said.append(f"and {len(reasons) - _NAMED} other reasons")
    number = len({task.id for task, _ in left_out})
    return f"none of {number} tasks can be played here: {'; '.join(said)}"


@dataclass(frozen=True, slots=True)
class EnvFactory:
    """Tasks and settings that environments share; each call makes a new environment.

    `facts` returns what influences results beyond the options. `left_out` are tasks that cannot be
    played as they are, and why. A factory from `intercode.prepare` can be pickled, if its options
    can: the other process prepares the environment again.
    """

    tasks: Sequence[Task]
    make: Callable[[], InterCodeEnv]
    facts: Callable[[], dict[str, Any]] = dict
    left_out: Sequence[tuple[Task, TaskIssue]] = ()
    options: EnvOptions = field(default_factory=EnvOptions)
    prepare_again: Callable[[Sequence[Task]], EnvFactory] | None = None
    """Makes an equal factory for these tasks in another process."""

    def __call__(self) -> InterCodeEnv:
        return self.make()

    def __reduce__(self) -> Any:
        if self.prepare_again is None:
            raise TypeError("only a factory from `intercode.prepare` can be pickled")
        return self.prepare_again, (self.tasks,)


_SUBMIT_ALONE = "[`submit` must be an action of its own; nothing was submitted]"
_ASK_ALONE = "[`ask QUESTION` must be an action of its own; nothing was asked]"
_OUTCOME_TEXT = View(1400, 500)


def shorten_text(text: str) -> str:
    """Return a text for an outcome: encodable in UTF-8, at most 2,000 characters, any cut
    marked."""
    return _OUTCOME_TEXT.shorten(text.encode("utf-8", "backslashreplace").decode())[0]


@dataclass(frozen=True, slots=True)
class GoldRun:
    """An execution of a gold: `evidence` equals that of another execution, `summary` is for people,
    `faults` are defects."""

    evidence: object
    summary: str
    faults: tuple[str, ...] = ()
    task: Task | None = None
    """The task with the gold that was executed, if any of several will do."""
    stays_behind: str = ""
    """A sentence that lists which of an agent's changes do not reach the tests of this task."""
    forgery: str = ""
    """A hack in which the gold's code forged the verdict, and was paid."""


class Utf8(Text):
    """Any text that can be encoded in UTF-8, the empty text included. Samples are short words."""

    def __init__(self, max_length: int = LONGEST, seed: int | None = None) -> None:
        super().__init__(max_length=max_length, min_length=0, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        letters = self.np_random.choice(
            list("abcdefghijklmnopqrstuvwxyz"), size=self.np_random.integers(1, 9)
        )
        return "".join(letters)

    def contains(self, x: Any) -> bool:
        try:
            return isinstance(x, str) and len(x) <= self.max_length and x.encode() is not None
        except UnicodeEncodeError:
            return False

    def __repr__(self) -> str:
        return f"Utf8({self.max_length})"


@create_shared_memory.register(Utf8)
def _refuse_shared_memory(space: Utf8, n: int = 1, ctx: Any = None) -> Any:
    raise UsageError(
        "texts of any length do not fit into the shared memory of Gymnasium; "
        "use AsyncVectorEnv(…, shared_memory=False), or "
        'make_vec(…, vector_kwargs={"shared_memory": False})'
    )


class ExitCode(int):
    """An int that Gymnasium's vector environments store as an object, since other environments may
    report None."""


_RETURNED = {
    "execute": ExecResult,
    "score": Score,
    "feedback": str,
    "look_up": object,
    "follow_up": object,
    "outcomes": dict,
    "run_gold": GoldRun,
    "prepare": EnvFactory,
    "prepare_world": Prepared,
    "start_episode": object,
    "copy_world": object,
    "close_world": object,
    "first_observation": str,
}
"""The types that the hooks of a caller's class must return."""


def _make_info(result: ExecResult | None, cut: bool = False) -> dict[str, Any]:
    limits = set(result.limits) if result else set()
    if result and result.timed_out:
        limits.add("time")
    if result and result.overflow is not None:
        limits.add("output")
    return {
        "exit_code": (
            None if result is None or result.exit_code is None else ExitCode(result.exit_code)
        ),
        "timed_out": result.timed_out if result else False,
        "truncated_output": cut,
        "session_lost": result.session_lost if result else False,
        "limits": tuple(sorted(limits)),
    }


def _fingerprint(result: ExecResult) -> str:
    """Return a text that is equal for equal results."""
    return (
        f"{result.exit_code} {result.timed_out} {result.session_lost} {result.overflow} "
        f"{result.output}"
    )
