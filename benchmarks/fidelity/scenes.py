"""A recorded episode executed again, as it was and with one thing changed.

Stage    one recorded run: its tasks, and a ground for each variant, built when first asked for
Variant  one thing that is changed: what a script adds to the template, and variables
Played   one execution of an episode in one variant: the agent's outcome after each turn, and the gold's two
Scene    one turn whose reward is not the recorded one
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property

from fidelity import data
from intercode.envs.ground import Ground, Place, execute_gold, execute_gold_again, grounds
from intercode.recordings import RecordedEpisode, Recording, load_recording
from intercode.rewards import bash_paper
from intercode.runner.replay import TOLERANCE
from intercode.sandbox.base import Limits
from intercode.tasks import open_data
from intercode.types import Outcome, Task

_LIMITS = Limits(seconds=4.0)
"""Less than the recorded 10 s: what timed out there runs for long here too."""
NETWORK_LOG = "/dev/shm/network.log"


@dataclass(frozen=True)
class Variant:
    """`more` ends the setup script; `variables` are added to the environment; `number` is another file system's."""

    name: str
    more: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    number: int | None = None


@dataclass(frozen=True)
class Played:
    """`after` has the agent's outcome of each turn, `network` what network programs had printed by then and for the gold."""

    after: Sequence[Outcome]
    first_gold: Outcome
    later_gold: Outcome
    network: Sequence[str]
    gold_network: str

    def gold(self, index: int) -> Outcome:
        return self.later_gold if index else self.first_gold


class Stage:
    """One recorded run, ready to be played in any variant. Threads may share it."""

    def __init__(self, run: data.Run) -> None:
        self.run = run
        self._grounds: dict[Variant, Ground] = {}
        self._lock = threading.Lock()

    @cached_property
    def recording(self) -> Recording:
        return load_recording(self.run.path)

    def ground(self, variant: Variant) -> Ground:
        with self._lock:
            if variant not in self._grounds:
                self._grounds[variant] = self.build(variant)
            return self._grounds[variant]

    def build(self, variant: Variant) -> Ground:
        options = data.world(variant.number or self.run.number)
        tasks = open_data(options.pop("data"), env="bash")
        with data.setup_script(self.run.dates, variant.more) as setup:
            ground, _ = grounds(tasks, "stateless", setup=setup, limits=_LIMITS, paper=True, **options)
        return replace(ground, environment={**(ground.environment or {}), **dict(variant.variables)})

    def play(self, task: Task, actions: Sequence[str | None], variant: Variant) -> Played:
        """Execute the episode and its gold. What is not executed (no code, `submit`) leaves everything as it is."""
        with closing(_Seat(self.ground(variant))) as seat:
            first, gold_network = execute_gold(seat.place, task.gold), seat.network()
            later = execute_gold_again(seat.place, task.gold)
            seat.place.begin()
            turns = [(seat.act(action), seat.network()) for action in actions]
            return Played([turn for turn, _ in turns], first, later, [said for _, said in turns], gold_network)

    def reward(self, agent: Outcome, gold: Outcome) -> float:
        return bash_paper(agent, gold, self.ground(BASE).tracked).reward


class _Seat:
    def __init__(self, ground: Ground) -> None:
        self.place = Place(ground)

    def act(self, action: str | None) -> Outcome:
        if action is not None and action != "submit":
            self.place.act(action)
        return self.place.outcome()

    def network(self) -> str:
        try:
            return self.place.sandbox.read(NETWORK_LOG).decode(errors="replace")
        except OSError:
            return ""

    def close(self) -> None:
        self.place.sandbox.close()


BASE = Variant("as recorded")


@dataclass
class Episode:
    """One episode that disagrees somewhere, with its executions so far."""

    stage: Stage
    task: Task
    then: RecordedEpisode
    _played: dict[Variant, Played] = field(default_factory=dict)

    def on(self, variant: Variant) -> Played:
        if variant not in self._played:
            self._played[variant] = self.stage.play(self.task, self.then.actions, variant)
        return self._played[variant]

    def with_rewards(self, rewards: Sequence[float]) -> Episode:
        """The same executions, as if these rewards had been recorded."""
        return Episode(self.stage, self.task, replace(self.then, rewards=rewards), self._played)


@dataclass(frozen=True)
class Scene:
    """One turn of an episode. `cut` says that in this run the gold's output was cut before it was compared."""

    episode: Episode
    index: int
    cut: bool

    @property
    def task(self) -> Task:
        return self.episode.task

    @property
    def action(self) -> str:
        return self.episode.then.actions[self.index] or ""

    @property
    def observation(self) -> str:
        return self.episode.then.observations[self.index]

    @property
    def recorded(self) -> float:
        return self.episode.then.rewards[self.index]

    @property
    def gold_output(self) -> str | None:
        """What the gold printed when the episode's last turn was scored, if that is recorded."""
        return self.episode.then.gold_output

    @property
    def last(self) -> bool:
        return self.index == len(self.episode.then.rewards) - 1

    def agent(self, variant: Variant = BASE) -> Outcome:
        return self.episode.on(variant).after[self.index]

    def gold(self, variant: Variant = BASE) -> Outcome:
        return self.episode.on(variant).gold(self.index)

    def hits(self, agent: Outcome, gold: Outcome) -> bool:
        """Whether these outcomes earn the recorded reward."""
        return abs(self.episode.stage.reward(agent, gold) - self.recorded) <= TOLERANCE

    def with_reward(self, reward: float) -> Scene:
        """The same turn, as if this reward had been recorded."""
        rewards = list(self.episode.then.rewards)
        rewards[self.index] = reward
        return replace(self, episode=self.episode.with_rewards(rewards))


def saying(outcome: Outcome, output: str) -> Outcome:
    """The same effect with another answer."""
    return Outcome(output, outcome.changes)
