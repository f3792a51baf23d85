"""Can the rules say no? Turns that agree are given a wrong reward, and every rule is tried on them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fidelity.causes import UNEXPLAINED, explain
from fidelity.scenes import Episode, Scene

_APART = 0.02


def wrongly_explained(episodes: Sequence[Episode], cut: bool, count: int, seed: int = 1) -> tuple[int, int]:
    """How many of `count` agreeing turns, drawn at random, a rule explains with a reward that another turn earned."""
    scenes = [scene for scene in _drawn(episodes, cut, count, random.Random(seed)) if scene is not None]
    return sum(explain(scene).cause != UNEXPLAINED for scene in scenes), len(scenes)


def _drawn(episodes: Sequence[Episode], cut: bool, count: int, chance: random.Random) -> Iterator[Scene | None]:
    quick = [episode for episode in episodes if "Command timed out" not in episode.then.observations]
    turns = [(episode, index) for episode in quick for index in range(len(episode.then.rewards))]
    earned = sorted({reward for episode in episodes for reward in episode.then.rewards})
    for episode, index in chance.sample(turns, min(count, len(turns))):
        scene = Scene(episode, index, cut)
        wrong = chance.choice([reward for reward in earned if abs(reward - scene.recorded) > _APART])
        yield _with_reward(scene, wrong) if scene.hits(scene.agent(), scene.gold()) else None


def _with_reward(scene: Scene, wrong: float) -> Scene:
    rewards = list(scene.episode.then.rewards)
    rewards[scene.index] = wrong
    return replace(scene, episode=scene.episode.with_rewards(rewards))
