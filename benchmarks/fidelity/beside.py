"""Recorded actions played by the first system today, and by ours in the same root: its answers are the recording to match.

    First ── turns ──► Recording of today ──► replay on docker, replay on the exported root ──► Compared, with causes

Both start each episode anew. The first system would play on in the same containers, cleaned by git in between, which makes
files that were touched new and leaves what git ignores: then an episode's rewards depend on the episodes before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from typing import Any

from fidelity import causes, data, first
from fidelity.proof import Cause, Proof
from fidelity.scenes import BASE, Episode, Scene, Stage, Variant
from intercode.env import Setting, View
from intercode.envs.bash import BashEnv
from intercode.envs.ground import Ground, Place, grounds
from intercode.recordings import RecordedEpisode, Recording, load_recording
from intercode.runner.replay import replay
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
    with ThreadPoolExecutor(workers) as pool:
        played = list(pool.map(lambda episode: _today(episode, _play(here, episode)), episodes))
    return replace(recording, episodes=played)


def _play(here: World, episode: RecordedEpisode) -> list[first.Turn]:
    with here.first() as alone:
        return alone.play(int(episode.task), episode.actions)


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
    return Cause(scene, row["replayed"], causes.explain(scene, (by_reading, causes.by_chance, causes.by_text)))


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
