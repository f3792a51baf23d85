"""InterCodeEnv: the Gymnasium environment over tasks and a world in which actions are code.

    reset ──► (query, info)
    step(action) ──► act in the world ──► observation          protocol "submit": `submit` scores the state and ends
                        │                                      protocol "paper": every step is scored, 1 ends
                        └─ the sandbox died? ── re-execute the episode once, at the pace at which it was played:
                                                dies again → the agent did it (reward 0, ended);
                                                lives → SandboxDied is raised, an infrastructure fault

The death of what the agent's user owns (shell, interpreter, a test's process) is no death of the sandbox but an outcome.

A subclass says what its world is, in five short methods: `start_episode`, `execute`, `score`, `copy_world`, `close_world`.
Nothing here knows of models, strategies, or of any particular language.
"""

from __future__ import annotations

import copy
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, Self, SupportsFloat

import gymnasium
from gymnasium.spaces import Text
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory

from intercode.errors import ForkError, SandboxDied, SandboxError, UsageError
from intercode.observation import fingerprint, info_of, notes_on
from intercode.plugins import call_plugin
from intercode.shared_texts import SharedTexts
from intercode.single_thread import Lock, single_thread
from intercode.submission import ALONE, LONGEST, is_submission, submitted_word
from intercode.tasks.issues import TaskIssue
from intercode.types import ExecResult, Score, Task

Protocol = Literal["submit", "paper"]
_AFTERMATH = 0.5
StepResult = tuple[str, SupportsFloat, bool, bool, dict[str, Any]]


class Utf8(Text):
    """Any text that can be encoded in UTF-8, the empty one included. Samples are short words."""

    def __init__(self, max_length: int = LONGEST, seed: int | None = None) -> None:
        super().__init__(max_length=max_length, min_length=0, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        letters = self.np_random.choice(list("abcdefghijklmnopqrstuvwxyz"), size=self.np_random.integers(1, 9))
        return "".join(letters)

    def contains(self, x: Any) -> bool:
        try:
            return isinstance(x, str) and len(x) <= self.max_length and x.encode() is not None
        except UnicodeEncodeError:
            return False

    def __repr__(self) -> str:
        return f"Utf8({self.max_length})"


create_shared_memory.register(Utf8, lambda space, n=1, ctx=None: SharedTexts(n))  # type: ignore[arg-type, return-value]
read_from_shared_memory.register(Utf8, lambda space, shared_memory, n=1: shared_memory)
write_to_shared_memory.register(Utf8, lambda space, index, values, shared_memory: shared_memory.write(index, values))


@dataclass(frozen=True, slots=True)
class GoldRun:
    """One raw execution of a gold: what came of it, to be compared with another's, and what is plainly wrong with it."""

    evidence: object
    summary: str
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """How much of an output an agent sees: the first and last characters around an announced cut. None: all of it."""

    head: int | None = 6000
    tail: int = 2000

    def shorten(self, text: str) -> tuple[str, bool]:
        if self.head is None or len(text) <= self.head + self.tail:
            return text, False
        cut = len(text) - self.head - self.tail
        return f"{text[: self.head]}\n[… {cut} characters cut …]\n{text[len(text) - self.tail :]}", True


_OUTCOME_TEXT = View(1400, 500)


def shorten_text(text: str) -> str:
    """Return a text of an outcome as UTF-8 can encode it, of at most 2,000 characters; the cut is marked."""
    return _OUTCOME_TEXT.shorten(text.encode("utf-8", "backslashreplace").decode())[0]


@dataclass(frozen=True, slots=True)
class EnvFactory:
    """What environments for one purpose share, made once; each call gives a new environment.

    `facts` says what decides results beyond the options: digests of data and template, the userland; `hardness`, `data_set`
    and `excluded` are names of the run's own. `left_out` are tasks that cannot be played as they are, and why.
    """

    tasks: Sequence[Task]
    make: Callable[[], InterCodeEnv]
    facts: Callable[[], dict[str, Any]] = dict
    left_out: Sequence[tuple[Task, TaskIssue]] = ()

    def __call__(self) -> InterCodeEnv:
        return self.make()


class InterCodeEnv(gymnasium.Env[str, str]):
    """`max_turns` steps, then `truncated`; None: no bound. `info` holds no clock, so equal episodes have equal infos."""

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012
    submission = ALONE
    """A whole action, but for blanks around it, that submits; its group, if it has one, is the word that is submitted."""
    session_noun = "shell"
    """What an observation calls that which keeps the state between actions."""
    live_forks = True  # False: `copy_world` cannot make a live copy, and each fork re-executes the episode
    language = "bash"
    """What actions are written in; it chooses a strategy's prompts, and with `bash` and `sql` a strategy submits no word."""

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        protocol: Protocol = "submit",
        max_turns: int | None = 10,
        view: View | None = None,
        keep_going: bool = False,
        submits: int | None = None,
    ) -> None:
        """`keep_going` goes on after a success under the paper's protocol: to re-execute a recording to its end.

        `submits` submissions may be made, by default one; a wrong one that is not the last is told, and costs a turn.
        """
        if not tasks:
            raise UsageError("an environment needs at least one task")
        if protocol not in ("submit", "paper"):
            raise UsageError(f"protocol {protocol!r}: it is 'submit' or 'paper'")
        if max_turns is not None and max_turns < 1:
            raise UsageError(f"max_turns {max_turns}: it is at least 1, or None")
        if submits is not None and submits < 1:
            raise UsageError(f"submits {submits}: it is at least 1")
        self.tasks, self.protocol, self.max_turns, self.view = list(tasks), protocol, max_turns, view or View()
        self._keep_going, self._submits_allowed = keep_going, submits or 1
        self.observation_space, self.action_space = Utf8(), Utf8()
        self._order: list[int] = []
        self._task: Task | None = None
        self._shown = ""
        self._actions: list[str] = []
        self._seen: list[str] = []
        self._came: list[float] = []
        self._word, self._submitted_times, self._began = "", 0, 0.0
        self._over, self._closed, self._lock = True, False, Lock()

    @classmethod
    def prepare(cls, **options: Any) -> EnvFactory:
        """From options as the command line has them to a setting; a subclass names the options that it takes."""
        raise UsageError(f"{cls.__name__} does not say how it is prepared: it needs a `prepare` of its own")

    @classmethod
    def submission_under(cls, reward: object) -> re.Pattern[str]:
        """Return what submits under the reward of that name."""
        return cls.submission

    @staticmethod
    def preprocess(record: dict[str, Any]) -> dict[str, Any]:
        """A record of the data as its tasks are made of it: a subclass may rename fields, build a gold, and the like."""
        return record

    # -- what a subclass says ---------------------------------------------------------------------------------------

    @abstractmethod
    def start_episode(self, task: Task) -> None:
        """Make the world ready for `task`, with nothing left of the last episode."""

    @abstractmethod
    def execute(self, action: str) -> ExecResult:
        """Execute one action. Raises `SandboxDied` if the world ended with it."""

    @abstractmethod
    def score(self) -> Score:
        """Score the state as it is now; `self._word` is what was submitted, empty if nothing was named."""

    @abstractmethod
    def copy_world(self, twin: Self, live: bool) -> None:
        """Give `twin` (a shallow copy) a world of its own: a live copy of this one, or an empty one."""

    @abstractmethod
    def close_world(self) -> None:
        """End the world."""

    def first_observation(self, task: Task) -> str:
        """The first observation."""
        return task.query

    def reject_submission(self, word: str) -> str | None:
        """Why this cannot be submitted at all. It is told, costs a turn, and is not scored."""
        return None

    def is_final(self, score: Score) -> bool:
        """Return whether the episode ends with this score, though it is no success and more submissions are left."""
        return False

    def feedback(self, score: Score) -> str:
        """What the agent is told of a submission that fell short."""
        return "Wrong." if self._submits_allowed > 1 else ""

    def outcomes(self) -> dict[str, Any]:
        """Return what the agent and the gold did, for a reader of the episode; it stands in `info["outcomes"]`.

        Called once, after `score`, when an episode ends with a score: with the last submission, or under the paper's protocol
        with the last turn. The result is JSON-able, bounded (`shorten_text`) and holds no clock. Built-in environments have
        `{"failed": [names of the parts that failed], "agent": {…}, "gold": {…}}` and more.
        """
        return {}

    def run_gold(self, task: Task) -> GoldRun:
        """Execute the gold on an untouched world, which may take an episode's place. The data check compares two of these."""
        raise UsageError(f"{type(self).__name__} does not say how a gold is tried: it needs a `run_gold` of its own")

    # -- Gymnasium --------------------------------------------------------------------------------------------------

    @property
    def task(self) -> Task:
        if self._task is None:
            raise UsageError("call reset() first: no task has begun")
        return self._task

    @property
    def takes_answer(self) -> bool:
        """Whether `submit ANSWER` is taken for the current task: ANSWER then stands in the place of the last output."""
        return False

    @property
    def turn(self) -> int:
        """How many steps the episode has had."""
        return len(self._actions)

    @single_thread
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """`options={"task": id or index}` chooses; without it the next task in an order that `seed` shuffles."""
        self._require_open()
        if unknown := sorted(set(options or ()) - {"task"}):
            raise UsageError(f"reset takes no option {', '.join(map(repr, unknown))}; it takes 'task', an id or an index")
        super().reset(seed=seed)
        if seed is not None:
            self._order = []
        self._over = True
        self._task = self._choose((options or {}).get("task"))
        self._actions, self._seen, self._came = [], [], []
        self._word, self._submitted_times = "", 0
        self.start_episode(self._task)
        self._over, self._began = False, time.monotonic()
        self._shown = self.first_observation(self._task)
        return self._shown, {"task": self._task.id}

    @single_thread
    def step(self, action: str) -> StepResult:
        self._require_open()
        if self._over:
            raise UsageError("the episode is over or has not begun; call reset()")
        if not isinstance(action, str):
            raise UsageError(f"an action is a str, not {type(action).__name__}")
        if "\0" in action or not self.action_space.contains(action):
            raise UsageError("an action is text that UTF-8 can encode, without NUL characters and of 16 MiB at most")
        self._actions.append(action)
        self._came.append(time.monotonic() - self._began)
        try:
            result = (
                self._submit(action) if self._submits(action) else self._observe(call_plugin(self.execute, ExecResult, action))
            )
        except SandboxDied as death:
            result = self._decide(death)
        self._shown = f"> {action}\n{result[0]}"
        return result

    def render(self) -> str | None:
        """What an agent saw last, as `render_mode="ansi"` asks: the query, or its action with the observation; else None."""
        return self._shown if self.render_mode == "ansi" else None

    @single_thread
    def fork(self, *, replay: bool = False) -> Self:
        """A second environment in the same state, turn count included; both must be closed.

        In SQL and Python the episode is re-executed; elsewhere the copy is live, and `ForkError` names the jobs or descriptors
        that cannot be copied, unless `replay=True` re-executes then. A re-executed observation that differs is a `ForkError`.
        """
        self._require_open()
        twin = copy.copy(self)
        twin._actions, twin._seen, twin._came = list(self._actions), list(self._seen), list(self._came)
        twin._order, twin._lock, twin._np_random = list(self._order), Lock(), copy.deepcopy(self._np_random)
        try:
            self.copy_world(twin, live := self.live_forks)
        except ForkError:
            if not replay:
                raise
            self.copy_world(twin, live := False)
        if self._task is None or live:
            return twin
        try:
            twin.start_episode(twin.task)
            acted = (action for action in self._actions if not self._submits(action))
            for number, (action, seen) in enumerate(zip(acted, self._seen, strict=True), start=1):
                if fingerprint(call_plugin(twin.execute, ExecResult, action)) != seen:
                    raise ForkError(f"re-executing the episode gave another observation at turn {number}: {action!r}")
        except BaseException:
            twin.close_world()
            raise
        return twin

    def close(self) -> None:
        self._over = self._closed = True
        self.close_world()
        super().close()

    # -- one step ---------------------------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closed:
            raise UsageError("the environment is closed; make a new one")

    def _submits(self, action: str) -> bool:
        return self.protocol == "submit" and is_submission(action, self.submission)

    def _submit(self, action: str) -> StepResult:
        self._word = submitted_word(self.submission, action)
        if (refusal := self.reject_submission(self._word)) is not None:
            return self._go_on(self._fit(refusal), 0.0, info_of(None))
        score = call_plugin(self.score, Score)
        self._submitted_times += 1
        left = self._submits_allowed - self._submitted_times
        told = "" if score.success else self._fit(self.feedback(score))
        if score.success or not left or self.is_final(score):
            return self._end(told, score.reward, info_of(None), score=score, ended="submit")
        return self._go_on(f"{told} {left} more may be submitted.".strip(), 0.0, info_of(None))

    def _fit(self, told: str) -> str:
        """Names and messages in it may be the agent's: as text that can be sent, and no longer than other observations."""
        return self.view.shorten(told.encode("utf-8", "backslashreplace").decode())[0]

    def _observe(self, result: ExecResult) -> StepResult:
        self._seen.append(fingerprint(result))
        observation, cut = self.view.shorten(result.output)
        info = info_of(result, cut or result.overflow is not None)
        observation += notes_on(result, self.protocol, self.session_noun)
        if self.protocol == "submit":
            return self._go_on(observation, 0.0, info)
        score = call_plugin(self.score, Score)
        if score.success and not self._keep_going:
            return self._end(observation, score.reward, info, score=score, ended="solved")
        if self.is_final(score):
            return self._end(observation, score.reward, info, score=score, ended="submit")
        return self._go_on(observation, score.reward, {**info, "score": score})

    def _go_on(self, observation: str, reward: float, info: dict[str, Any]) -> StepResult:
        out_of_turns = self.max_turns is not None and self.turn >= self.max_turns
        if out_of_turns:
            self._over = True
            info["ended"] = "turns"
            if "score" in info:
                info["outcomes"] = call_plugin(self.outcomes, dict)
        return observation, reward, False, out_of_turns, info

    def _end(self, observation: str, reward: float, info: dict[str, Any], **more: Any) -> StepResult:
        self._over = True
        return observation, reward, True, False, {**info, **more, "outcomes": call_plugin(self.outcomes, dict)}

    def _decide(self, death: SandboxDied) -> StepResult:
        """Decide whose fault a dead sandbox was: the agent's if the sandbox saw it, or if its episode kills a fresh one too."""
        self._over = True
        if death.by_agent:
            return self._blame()
        try:
            self.start_episode(self.task)
        except SandboxError as error:
            raise SandboxDied(f"{death}; a fresh one could not be had either: {error}") from error
        try:
            self._redo()
            call_plugin(self.score, Score)
        except SandboxDied:
            return self._blame()
        raise SandboxDied(f"{death}; it did not happen again when the episode was re-executed") from death

    def _blame(self) -> StepResult:
        note = "[the sandbox did not survive this action]"
        self._over = True
        return note, 0.0, True, False, {**info_of(None), "score": Score(0.0, False), "ended": "agent_fault", "outcomes": {}}

    def _redo(self) -> None:
        """The episode again, no faster than it was: what the agent left running may be what kills, or kill a moment later."""
        began, self._seen = time.monotonic(), []
        for action, came in zip(self._actions, self._came, strict=True):
            time.sleep(max(0.0, began + came - time.monotonic()))
            if not self._submits(action):
                self._seen.append(fingerprint(call_plugin(self.execute, ExecResult, action)))
        time.sleep(_AFTERMATH)

    def _choose(self, wanted: str | Integral | None) -> Task:
        if wanted is None:
            if not self._order:
                self._order = [int(index) for index in self.np_random.permutation(len(self.tasks))]
            return self.tasks[self._order.pop(0)]
        if isinstance(wanted, Integral):
            if not 0 <= int(wanted) < len(self.tasks):
                raise UsageError(f"task {wanted}: there are {len(self.tasks)} tasks, counted from 0")
            return self.tasks[int(wanted)]
        for task in self.tasks:
            if task.id == wanted:
                return task
        raise UsageError(f"no task has the id {wanted!r}")
