"""verl's agent loop: each rollout is an episode of ours, which verl's server samples for.

    actor_rollout_ref.rollout.agent.default_agent_loop=intercode
    actor_rollout_ref.rollout.agent.agent_loop_config_path=loops.yaml

loops.yaml: `[{name: intercode, _target_: verl_loop.InterCodeLoop, data: data/files}]`, with this
file on the path. docs/adapters.md says what the rows of the data set contain; their column `task`
is the id of a task. The reward is success; for the shaped reward, give the pool `shaped=True`.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput

import intercode
from intercode.train import RolloutLimits, RolloutPool, hf_chat

SEEDS = itertools.count()


@cache
def pool(env: str, data: str | None, tokens: int) -> RolloutPool:
    """Return the pool of this process, which is one of verl's `agent.num_workers`."""
    limits = RolloutLimits(tokens=tokens)
    return RolloutPool(intercode.prepare(env, data=data), hosts=1, limits=limits)  # verl has many


class InterCodeLoop(AgentLoopBase):
    def __init__(
        self, *arguments: Any, env: str = "bash", data: str | None = None, **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self.pool = pool(env, data, self.rollout_config.response_length)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        request = uuid4().hex  # the same for all turns: the server keeps their prefix
        versions: dict[str, Any] = {}  # of the weights, from which verl computes the staleness

        async def sample(prompt: list[int]) -> tuple[list[int], list[float]]:
            output = await self.server_manager.generate(
                request, prompt_ids=prompt, sampling_params=sampling_params
            )
            versions.setdefault("min_global_steps", output.extra_fields.get("min_global_steps"))
            versions["max_global_steps"] = output.extra_fields.get("max_global_steps")
            return output.token_ids, output.log_probs or []

        chat = hf_chat(self.tokenizer)
        for _ in range(3):  # a fault has no reward: play again
            versions.clear()
            rollout = await self.pool.play((row["task"], next(SEEDS)), generate=sample, chat=chat)
            if rollout.reward is not None:
                break
        else:  # verl then trains without this group
            raise RuntimeError(rollout.episode.error)
        (segment,) = rollout.segments
        return AgentLoopOutput(
            prompt_ids=list(segment.prompt_ids),
            response_ids=list(segment.token_ids),
            response_mask=list(segment.mask),
            response_logprobs=list(segment.logprobs) or None,
            reward_score=rollout.reward,
            num_turns=len(segment.turns),
            metrics={},
            extra_fields=versions,
        )
