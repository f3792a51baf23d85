"""Recorded actions played by the first system today, and by ours in the same root: its answers are
the recording to match.

    First ── turns ──► Recording of today ──► replay on docker, replay on the exported root
          ──► figures

Both start each episode anew. The first system would play on in the same containers, cleaned by git
in between, which makes files that were touched new and leaves what git ignores: then an episode's
rewards depend on the episodes before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from fidelity import data, first
from intercode.env import EnvFactory
from intercode.envs.bash.env import BashEnv
from intercode.envs.bash.options import BashOptions
from intercode.rescoring.recordings import Recording, load_recording
from intercode.rescoring.replay import replay
from intercode.types import Episode, View

BACKENDS: tuple[str, ...] = ("docker", "local")


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

    def options(self, backend: str) -> dict[str, Any]:
        return {"sandbox": backend, "image": self.image if backend == "docker" else self.root}

    def factory(self, backend: str) -> EnvFactory:
        how: dict[str, Any] = {
            "protocol": "paper",
            "max_turns": None,
            "keep_going": True,
            "view": View(head=None),
        }

        class AsInContainer(BashEnv):
            start = self.start

        return AsInContainer.prepare(BashOptions(data=self.data, **self.options(backend), **how))

    def first(self) -> AbstractContextManager[first.First]:
        return first.first(self.python, self.image, self.data)


def world(run: data.Run, python: str) -> World:
    image = first.image(python, run.number)
    return World(run, python, image, first.export(image), first.as_in_container(image))


def record(here: World, workers: int, limit: int | None) -> Recording:
    """What the first system answers today."""
    recording = load_recording(here.run.path)
    episodes = recording.episodes[:limit]
    with ThreadPoolExecutor(workers) as pool:
        played = list(pool.map(lambda episode: _today(episode, _play(here, episode)), episodes))
    return replace(recording, episodes=played)


def _play(here: World, episode: Episode) -> list[first.Turn]:
    with here.first() as alone:
        return alone.play(int(episode.task), [turn.action for turn in episode.turns])


def _today(then: Episode, played: Sequence[first.Turn]) -> Episode:
    turns = tuple(
        replace(
            turn,
            observation=turn.observation if now.observation is None else now.observation,
            score=now.reward,
        )
        for turn, now in zip(then.turns, played, strict=True)
    )
    best = max((now.reward for now in played), default=0.0)
    return replace(then, turns=turns, reward=best, success=best == 1)


def compare(here: World, today: Recording, backend: str, workers: int) -> dict[str, Any]:
    """The figures of `intercode replay --json`."""
    factory = here.factory(backend)
    return replay(
        today, factory, [task for task in factory.tasks if today.has(task)], workers=workers
    )
