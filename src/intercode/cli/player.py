"""Whoever plays: the tasks that are left, the environment, and the keyboard in front of it."""

from __future__ import annotations

from contextlib import closing

from intercode.agents.human import human
from intercode.cli.keyboard import Keyboard, Left, note, show
from intercode.env import InterCodeEnv
from intercode.errors import DataError, ForkError
from intercode.evaluation import Evaluation
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play
from intercode.runner.run import episode_seed, placing
from intercode.store import RunStore
from intercode.submission import ANSWER
from intercode.types import Task

HELP = """\
What you type is executed; `submit` (ctf: `submit FLAG`, python: `submit NAME`) hands your solution in.
What stands between two lines ``` is one action.
:tasks lists the tasks, :skip [ID] leaves this one for the next or for ID, :quit or Ctrl-D leaves, :help shows this."""
HELP_ANSWER = "`submit ANSWER` gives the answer itself, except on tasks marked general."
_WHY = {"agent_fault": ", since the sandbox did not survive", "turns": ", since no turns are left"}


class _Skipped(Exception):
    """The player goes over to another task: its id, or empty for the next one."""


class Player:
    """`live`: after each action, the score that a submission would have."""

    def __init__(self, evaluation: Evaluation, store: RunStore, env: InterCodeEnv, *, live: bool) -> None:
        self._evaluation, self._store, self._env = evaluation, store, env
        self._left = [task for task in evaluation.tasks if (task.id, 0) not in store.finished()]
        self._help = f"{HELP}\n{HELP_ANSWER}" if env.submission is ANSWER and env.protocol == "submit" else HELP
        orders = {"tasks": self._list, "skip": self._skip, "quit": self._quit, "help": lambda _: note(self._help)}
        after = self._tell_score if live and env.protocol == "submit" else None
        self._keys = Keyboard(env.language, orders, after)

    def play(self) -> None:
        """Until no task is left. Raises `Left` if the player has had enough."""
        note(self._help)
        while self._left:
            try:
                self._end(self._left[0])
            except _Skipped as skip:
                ids, wanted = [task.id for task in self._left], str(skip)
                at = ids.index(wanted) if wanted else 1 % len(ids)
                self._left = self._left[at:] + self._left[:at]

    def _end(self, task: Task) -> None:
        """Play `task`, and record it. The data's faults are one task's own, and no episode."""
        note(f"\ntask {task.id}, {len(self._left)} left")
        meter, seed = BudgetTracker(self._evaluation.limits), episode_seed(self._evaluation.seed, task.id, 0)
        try:
            with placing(task, self._store.path):
                episode = play(self._env, task, human, self._keys, meter, seed=seed)
        except DataError as error:
            show(f"this task cannot be played: {error}", fg="red")
        else:
            self._store.append(episode)
            show(episode.turns[-1].observation if episode.turns else "")
            if episode.success:
                show("solved", fg="green")
            else:
                show(f"not solved{_WHY.get(str(episode.ended), '')}: {episode.reward:.2f}", fg="red")
        self._left.remove(task)

    def _skip(self, wanted: str) -> None:
        if not wanted or wanted in [task.id for task in self._left]:
            raise _Skipped(wanted)
        note(f"no task {wanted} is left; :tasks lists them")

    def _list(self, _: str) -> None:
        done = {episode.task: "solved" if episode.success else "failed" for episode in self._store.episodes()}
        for task in self._evaluation.tasks:
            state = "now" if task is self._left[0] else done.get(task.id, "")
            show(f"{state:6}  {task.id}  {task.query.partition(chr(10))[0][:100]}")

    def _tell_score(self) -> None:
        """By a copy that submits: the episode itself does not change."""
        try:
            with closing(self._env.fork()) as twin:
                score = twin.step("submit")[4].get("score")
        except ForkError as error:
            note(f"[no score: {error}]")
        else:
            note("[no score]" if score is None else f"[score {score.reward:.2f}]")

    def _quit(self, _: str) -> None:
        raise Left
