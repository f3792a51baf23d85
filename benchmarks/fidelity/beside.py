"""Recorded actions played by the first system today, and by ours in the same root: its answers are the recording to match.

    First ── turns ──► Recording of today ──► replay on docker, replay on the exported root ──► Compared, with causes

Its episodes are dealt to as many pairs of containers as there are workers; a pair plays one after the other, cleaned by git in
between, as the first system does. Ours starts each anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any

from fidelity import causes, data, first
from fidelity.proof import Cause, Proof
from fidelity.scenes import BASE, Episode, Scene, Stage, Variant
from intercode.env import Setting, View
from intercode.envs.bash import BashEnv
from intercode.envs.ground import Ground, Place, grounds
from intercode.recordings import RecordedEpisode, Recording, load_recording
from intercode.runner.replay import TOLERANCE, replay
from intercode.sandbox.build import Backend
from intercode.tasks import open_data
from intercode.types import Outcome, Task

_UNREAD = """
shopt -s dotglob
for path in /*; do
    case $path in /bin|/boot|/dev|/etc|/lib*|/proc|/run|/sbin|/sys|/usr|/var|/.git) continue ;; esac
    find "$path" -type f -exec bash -c 'for file; do touch -a -d "$(stat -c %y "$file")" "$file"; done' bash {} +
done
"""
BACKENDS: tuple[Backend, ...] = ("docker", "local")


@dataclass(frozen=True)
class World:
    """One of NL2Bash's file systems as an image of the first system's, and that image as a root."""

    run: data.Run
    python: str
    image: str
    root: str
    start: str
    """What makes a sandbox as docker makes the first system's containers."""

    @property
    def data(self) -> str:
        return str(data.world(self.run.number)["data"])

    def options(self, backend: Backend) -> dict[str, Any]:
        return {"sandbox": backend, "image": self.image if backend == "docker" else self.root}

    def setting(self, backend: Backend) -> Setting:
        how: dict[str, Any] = {"protocol": "paper", "max_turns": None, "keep_going": True, "view": View(head=None)}

        class AsInContainer(BashEnv):
            start = self.start

        return AsInContainer.prepare(data=self.data, **self.options(backend), **how)

    def first(self) -> AbstractContextManager[first.First]:
        return first.first(self.python, self.image, self.data)


def world(run: data.Run, python: str) -> World:
    image = first.image(python, run.number)
    return World(run, python, image, first.export(image), first.as_in_container(image))


@dataclass(frozen=True)
class Compared:
    """One file system on one backend; `figures` are those of `intercode replay --json`."""

    name: str
    figures: dict[str, Any]
    causes: Sequence[Cause[Scene]]


def record(here: World, workers: int, limit: int | None) -> Recording:
    """What the first system answers today."""
    recording = load_recording(here.run.path)
    episodes = recording.episodes[:limit]
    with ExitStack() as stack, ThreadPoolExecutor(workers) as pool:
        firsts = [stack.enter_context(here.first()) for _ in range(workers)]
        hands = [pool.submit(_play, each, episodes[number::workers]) for number, each in enumerate(firsts)]
        played = {episode.task: episode for hand in hands for episode in hand.result()}
    return replace(recording, episodes=[played[episode.task] for episode in episodes])


def _play(side: first.First, episodes: Sequence[RecordedEpisode]) -> list[RecordedEpisode]:
    return [_today(episode, side.play(int(episode.task), episode.actions)) for episode in episodes]


def _today(then: RecordedEpisode, turns: Sequence[first.Turn]) -> RecordedEpisode:
    rewards = [turn.reward for turn in turns]
    golds = [turn.gold for turn in turns if turn.gold is not None]
    return replace(
        then,
        observations=[turn.observation or "" for turn in turns],
        rewards=rewards,
        max_reward=max(rewards, default=0.0),
        gold_output=golds[-1] if golds else None,
    )


def compare(here: World, today: Recording, backend: Backend, workers: int) -> Compared:
    setting = here.setting(backend)
    tasks = [task for task in setting.tasks if today.has(task)]
    figures = replay(today, setting, tasks, workers=workers)
    stage = Beside(here, backend, today)
    with ThreadPoolExecutor(workers) as pool:
        found = pool.map(lambda row: _cause(stage, tasks, row), figures["disagreements"])
        return Compared(f"{here.run.name.split()[-1]} {backend}", figures, list(found))


def _cause(stage: Beside, tasks: Sequence[Task], row: dict[str, Any]) -> Cause[Scene]:
    task = next(task for task in tasks if task.id == row["task"])
    scene = Scene(Episode(stage, task, stage.recording.find(task)), row["turn"], cut=False)
    return Cause(scene, row["replayed"], causes.explain(scene, (by_history, by_reading, causes.by_chance, causes.by_text)))


class Beside(Stage):
    """A recording of today, on the world that it was made in."""

    def __init__(self, here: World, backend: Backend, today: Recording) -> None:
        super().__init__(here.run)
        self.here, self._backend, self.recording = here, backend, today

    def build(self, variant: Variant) -> Ground:
        tasks = open_data(self.here.data, env="bash")
        fixed: dict[str, Any] = {"tree": None, "setup": None, "limits": None, "paper": True, "start": self.here.start}
        ground, _ = grounds(tasks, "stateless", **(fixed | self.here.options(self._backend)))
        return ground


def by_history(scene: Scene) -> Proof | None:
    """What earlier episodes left in the first system's containers: files written anew by git, whatever git ignores."""
    stage = scene.episode.stage
    assert isinstance(stage, Beside)
    with stage.here.first() as alone:
        turn = alone.play(int(scene.episode.then.task), scene.episode.then.actions[: scene.index + 1])[-1]
    ours = stage.reward(scene.agent(), scene.gold())
    if abs(turn.reward - ours) > TOLERANCE:
        return None
    return Proof("history", "the first system, alone in fresh containers, earns what ours does")


def by_reading(scene: Scene) -> Proof | None:
    """Files that are unpacked into a root count as read at that moment; those of an image, when they were written."""
    place = Place(scene.episode.stage.ground(BASE))
    with closing(place.sandbox):
        agent = _unread(place, scene.episode.then.actions[: scene.index + 1])
        gold = _unread(place, [scene.task.gold])
    return Proof("clock", "with no file read since it was written, ours agrees") if scene.hits(agent, gold) else None


def _unread(place: Place, actions: Sequence[str | None]) -> Outcome:
    place.begin()
    place.sandbox.exec("", argv=["bash", "-c", _UNREAD], cwd="/")
    for action in filter(None, actions):
        place.act(action)
    return place.outcome()
