"""SkyRL's environment: SkyRL samples and encodes, our episode asks and scores.

    skyrl_gym.register("intercode", entry_point="skyrl_env:InterCodeEnv")

The rows of the data set have the fields `env_class`, "intercode", and `task`, the id of a task; the
prompt is our agent's. SkyRL calls `step` from its own threads: let it run at most as many episodes
at a time as the pool has environments. The reward is success; for the shaped reward, give the pool
`shaped=True`.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

import intercode
from intercode.train import RolloutPool

SEEDS = itertools.count()


@cache
def pool() -> RolloutPool:
    return RolloutPool(intercode.prepare("bash"), envs=64)


class InterCodeEnv(BaseTextEnv):
    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.episode = pool().episode(((extras or {})["task"], next(SEEDS)))

    def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
        self.episode.open().result()
        return list(self.episode.messages), {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        episode, known = self.episode, len(self.episode.messages) + 1  # and the reply
        episode.feed(action).result()
        if episode.done and episode.rollout and episode.reward is None:
            raise RuntimeError(episode.rollout.episode.error)  # a fault has no reward
        return BaseTextEnvStepOutput(
            observations=[] if episode.done else episode.messages[known:],
            reward=episode.reward or 0.0,
            done=episode.done,
            metadata={},
        )

    def close(self) -> None:
        self.episode.close()
