"""verl's agent loop: each rollout is an episode of ours, which verl's server samples for.

    actor_rollout_ref.rollout.agent.default_agent_loop=intercode
    actor_rollout_ref.rollout.agent.agent_loop_config_path=loops.yaml

loops.yaml: `[{name: intercode, _target_: verl_loop.InterCodeLoop}]`, with this file on the path.
The rows of the data set have a column `task`, the id of a task; their prompts are not used. The
reward is success; for the shaped reward, give the pool `shaped=True`.
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
def pool(tokens: int) -> RolloutPool:
    return RolloutPool(intercode.prepare("bash"), limits=RolloutLimits(tokens=tokens))


class InterCodeLoop(AgentLoopBase):
    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        request = uuid4().hex  # the same for all turns: the server keeps their prefix

        async def sample(prompt: list[int]) -> tuple[list[int], list[float], int | None]:
            output = await self.server_manager.generate(
                request, prompt_ids=prompt, sampling_params=sampling_params
            )
            version = output.extra_fields.get("global_steps")
            return output.token_ids, output.log_probs or [], version

        chat, limit = hf_chat(self.tokenizer), self.rollout_config.response_length
        for _ in range(3):  # a fault has no reward: play again
            rollout = await pool(limit).play((row["task"], next(SEEDS)), generate=sample, chat=chat)
            if rollout.reward is not None:
                break
        else:
            raise RuntimeError(rollout.episode.error)
        (segment,) = rollout.segments
        steps = [step for step in segment.policy_versions if step is not None]
        return AgentLoopOutput(
            prompt_ids=list(segment.prompt_ids),
            response_ids=list(segment.token_ids),
            response_mask=list(segment.mask),
            response_logprobs=list(segment.logprobs) or None,
            reward_score=rollout.reward,
            num_turns=len(segment.turns),
            metrics={},
            extra_fields={
                "min_global_steps": min(steps, default=None),
                "max_global_steps": max(steps, default=None),
            },
        )
