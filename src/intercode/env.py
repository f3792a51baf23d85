"""InterCodeEnv: a Gymnasium environment over tasks and a world in which actions are code.

    reset ──► (query, info)
    step(action) ──► a submission: score, and perhaps the next round
                 ──► a question or a lookup: the conversation (`user.py`) replies
                 ──► otherwise: execute ──► observation
                                  └─ SandboxDied? the agent's fault (reward 0, ended) or raised:
                                     `blame.py` decides

    protocol "submit"    `submit` scores the state and ends the episode
    protocol "paper"     every step is scored, and reward 1 ends the episode

`factory.py` reads data and makes environments. The rest of InterCode v1's protocol "paper" is in
`interop/v1/`. Nothing here knows about models, strategies, or a particular language.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Sequence
from numbers import Integral
from threading import RLock
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Self,
    SupportsFloat,
    TypeVar,
)

import gymnasium

from intercode.blame import require_agents_fault
from intercode.doors import load
from intercode.errors import ForkError, SandboxDied, UsageError
from intercode.hooks import Hooks
from intercode.plugins import safe_repr
from intercode.protocol import find_protocol
from intercode.spaces import Utf8, fingerprint, make_info
from intercode.submission import INSIDE, is_submission, submitted_word
from intercode.types import ExecResult, Score, Task, View
from intercode.user import Conversation, User, has_question

_MOVED = {
    "EnvFactory": "intercode.factory:EnvFactory",
    "GoldRun": "intercode.types:GoldRun",
    "NOT_PLAYED": "intercode.hooks:NOT_PLAYED",
    "NO_VALUE": "intercode.hooks:NO_VALUE",
    "World": "intercode.types:Prepared",
    "none_playable": "intercode.factory:none_playable",
    "shorten_text": "intercode.types:shorten_text",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return a name that was here before it moved."""
        if name not in _MOVED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return load(_MOVED[name])


StepResult = tuple[str, SupportsFloat, bool, bool, dict[str, Any]]
Parameters = ParamSpec("Parameters")
Owner = TypeVar("Owner", bound="InterCodeEnv")
Result = TypeVar("Result")
_SECONDS_AFTER_REPLAY = 0.5
_SUBMIT_ALONE = "[`submit` must be an action of its own; nothing was submitted]"
_ASK_ALONE = "[`ask QUESTION` must be an action of its own; nothing was asked]"


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


class InterCodeEnv(Hooks, gymnasium.Env[str, str]):
    """The base class of environments; `Hooks` lists what a class may override. `info` contains no
    times, so equal episodes have equal infos.

    `Hooks` has an example. `intercode.testing.check_env` tests an environment.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012

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
        self.observation_space, self.action_space = Utf8(), Utf8()
        self._order: list[int] = []
        self._task: Task | None = None
        self._conversation = Conversation(Task("", "", ""))
        self._last_text = ""
        self._seen = ""
        """The output of the last action, as the agent sees it."""
        self._log: list[tuple[float, str | None]] = []
        """The time of each step in seconds, and its action if that was executed."""
        self._fingerprints: list[str] = []
        self._word, self._submit_count, self._start_time = "", 0, 0.0
        self._done, self._closed, self._lock = True, False, RLock()

    def __repr__(self) -> str:
        task = self._task.id if self._task else None
        name, protocol = type(self).__name__, self.protocol
        return f"<{name}: {len(self.tasks)} tasks, {protocol=}, {task=}>"

    __str__ = __repr__

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
        return self._conversation.takes_questions and not self.rules.scores_steps

    @property
    def turn(self) -> int:
        """The number of steps in this episode."""
        return len(self._log)

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
        task = self._task = self._choose_task((options or {}).get("task"))
        self._log, self._fingerprints, self._seen = [], [], ""
        self._word, self._submit_count = "", 0
        self._conversation = Conversation(task, self._user, self.view)
        self.start_episode(task)
        self._done, self._start_time = False, time.monotonic()
        self._last_text = self.first_observation(task)
        return self._last_text, {"task": task.id}

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
        executes = self._executes(action)
        self._log.append((time.monotonic() - self._start_time, action if executes else None))
        try:
            result = self._execute(action) if executes else self._answer(action)
        except SandboxDied as death:
            result = self._blame_agent(death)
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
        fork._conversation = copy.copy(self._conversation)
        fork._log, fork._order = list(self._log), list(self._order)
        fork._fingerprints = list(self._fingerprints)
        fork._lock = RLock()
        fork._np_random = copy.deepcopy(self._np_random)
        live = self.live_forks
        try:
            self.copy_world(fork, live)
        except ForkError:
            if not replay:
                raise
            live = False
            self.copy_world(fork, live)
        if self._task is not None and not live:
            try:
                fork._repeat()
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

    def _executes(self, action: str) -> bool:
        if self.rules.scores_steps:
            return True
        return not (self._submits(action) or self._conversation.takes(action))

    @property
    def _executed(self) -> list[str]:
        return [action for _, action in self._log if action is not None]

    def _answer(self, action: str) -> StepResult:
        if self._submits(action):
            return self._submit(action)
        reply = self._conversation.answer(action, self.look_up)
        assert reply is not None
        info = make_info(None)
        if reply.asked is not None:
            info["asked"] = reply.asked
        return self._finish_step(reply.text, 0.0, info)

    def _submit(self, action: str) -> StepResult:
        info, conversation = make_info(None), self._conversation
        self._word = submitted_word(self.submission, action)
        reason = self.reject_submission(self._word)
        if reason is not None:
            if not isinstance(reason, str):
                raise UsageError(
                    f"{type(self).__name__}.reject_submission returned {safe_repr(reason):.50}, "
                    "not a text or None"
                )
            return self._finish_step(self._note_loss(self.view.fit(reason), info), 0.0, info)
        score = self.score()
        self._submit_count += 1
        remaining = self._submits_allowed - self._submit_count
        feedback = "" if score.success else self.view.fit(self.feedback(score))
        if not (score.success or not remaining or self.is_final(score)):
            feedback = f"{feedback} Submissions left: {remaining}.".strip()
            return self._finish_step(self._note_loss(feedback, info), 0.0, info)
        earned = conversation.score_of_episode().reward
        following = conversation.end_round(score, self._word)
        info["score"] = conversation.score_of_episode()
        gained = info["score"].reward - earned
        if following is None:
            return self._finish_step(self._note_loss(feedback, info), gained, info, "submit")
        info["outcomes"] = self.outcomes()
        observation = self._note_loss(f"The user goes on:\n\n{following.query}", info)
        self._task, self._submit_count, self._seen = following, 0, ""
        self.begin_round()
        return self._finish_step(observation, gained, info)

    def _note_loss(self, text: str, info: dict[str, Any]) -> str:
        """Return the observation after a submission, and set `session_lost` in its `info`."""
        info["session_lost"] = lost = self.session_lost()
        return f"{text}\n[the {self.session_noun} ended]".lstrip("\n") if lost else text

    def _execute(self, action: str) -> StepResult:
        result = self.execute(action)
        self._fingerprints.append(fingerprint(result))
        self._seen, cut = self.view.shorten(result.output)
        info = make_info(result, cut or result.overflow is not None)
        if self.rules.scores_steps:
            score = info["score"] = self.score()
            ended = "submit" if self.is_final(score) else None
            if score.success and not self._keep_going:
                ended = "solved"
            return self._finish_step(self._seen, score.reward, info, ended)
        notes = self._notes(action, result)
        gap = "" if not notes or not result.output or result.output.endswith("\n") else "\n"
        return self._finish_step(self._seen + gap + "\n".join(notes), 0.0, info)

    def _notes(self, action: str, result: ExecResult) -> list[str]:
        """Return what the agent is told besides an action's output."""
        notes = []
        if result.timed_out:
            notes.append("[timed out; what the action started was ended]")
        if result.session_lost and result.cwd:
            # the agent chose the name
            folder = result.cwd if result.cwd.isprintable() else ascii(result.cwd)
            notes.append(f"[the {self.session_noun} ended; a new one starts in {folder}]")
        elif result.session_lost:
            notes.append("[the session ended; a new one begins]")
        if INSIDE.search(action):
            notes.append(_SUBMIT_ALONE)
        if self.takes_questions and has_question(action):
            notes.append(_ASK_ALONE)
        return notes

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

    def _blame_agent(self, death: SandboxDied) -> StepResult:
        """End the episode with reward 0. Raises `SandboxDied` if the agent is not at fault."""
        self._done = True
        episode = (id(self), self._start_time)
        require_agents_fault(death, episode, prove=self._prove_sandbox, replay=self._score_replay)
        info = make_info(None)
        info |= {"score": Score(0.0, False), "ended": "agent_fault", "outcomes": {}}
        lost = 0.0 - self._conversation.score_of_episode().reward  # -0.0 would be shown
        return "[the sandbox did not survive this action]", lost, True, False, info

    def _prove_sandbox(self) -> None:
        self.start_episode(self.task)
        self.execute("")
        self.score()

    def _score_replay(self) -> None:
        self._replay_episode()
        self.score()

    def _replay_episode(self) -> None:
        """Execute the episode again from its start, no faster than before: a process that the agent
        left running may be the killer, and may kill a moment later."""
        self.start_episode(self.task)
        start, self._fingerprints = time.monotonic(), []
        for seconds, action in self._log:
            time.sleep(max(0.0, start + seconds - time.monotonic()))
            if action is not None:
                self._fingerprints.append(fingerprint(self.execute(action)))
        time.sleep(_SECONDS_AFTER_REPLAY)

    def _repeat(self) -> None:
        """Execute the episode's actions in a fork's new world. Raises `ForkError` if an observation
        differs."""
        self.start_episode(self.task)
        results = zip(self._executed, self._fingerprints, strict=True)
        for number, (action, expected) in enumerate(results, start=1):
            if fingerprint(self.execute(action)) != expected:
                raise ForkError(
                    f"re-executing the episode gave another observation at turn {number}: "
                    f"{action!r}"
                )

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
