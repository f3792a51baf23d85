"""A taskset and a harness for verifiers, which imports plug-ins by the name of a top-level module.
`docs/adapters.md` runs it.

A thread of a `RolloutPool` plays each episode in our sandbox and asks the model at verifiers'
endpoint, which records the tokens. A fault is an error of its rollout, without a reward. A limit of
verifiers ends the episode, which is scored.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import verifiers.v1 as vf

import intercode
from intercode.errors import ModelError
from intercode.models import OpenAIModel
from intercode.train import RolloutLimits, RolloutPool
from intercode.types import Reply

__all__ = ["CodeHarness", "CodeTaskset"]


class CodeConfig(vf.TasksetConfig):
    env: str = "bash"
    options: str = "{}"  # of `intercode.prepare`, as JSON: {"data": "tasks.jsonl", "split": "test"}
    shaped: bool = False  # as for `RolloutPool`


class CodeData(vf.TaskData):
    env: str
    options: str
    shaped: bool


class CodeTask(vf.Task[CodeData]):
    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        if "reward" not in trace.info:
            raise vf.TaskError(
                "the episode was stopped before its end; limit it by turns, not by time"
            )
        return float(trace.info["reward"])


class CodeTaskset(vf.Taskset[CodeTask, CodeConfig]):
    def load(self) -> list[CodeTask]:
        env, options, shaped = self.config.env, self.config.options, self.config.shaped
        tasks = []
        for task in intercode.prepare(env, **json.loads(options)).tasks:
            data = CodeData(id=task.id, prompt=task.query, env=env, options=options, shaped=shaped)
            tasks.append(CodeTask(data))
        return tasks


class CodeHarnessConfig(vf.HarnessConfig):
    agent: str = "try_again"
    turns: int = 10


class CodeHarness(vf.Harness[CodeHarnessConfig]):
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, *rest: Any
    ) -> vf.ProgramResult:
        data = trace.task.data
        model = Endpoint(
            ctx.model, base_url=endpoint, api_key=secret, temperature=None, tries=3, logprobs=False
        )
        config = self.config
        episodes = pool(data.env, data.options, data.shaped, config.agent, config.turns)
        played = await episodes.play((data.id,), model)
        model.close()
        if played.reward is None:
            raise vf.SandboxError(played.episode.error)
        trace.info |= {
            "reward": played.reward,
            "shaped_reward": played.episode.reward,
            "ended": played.episode.ended,
            "parts": dict(played.episode.parts),
        }
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class Endpoint(OpenAIModel):
    def complete(self, *question: Any, **options: Any) -> Reply:
        try:
            return super().complete(*question, **options)
        except ModelError as error:
            if "rollout stopped: " in str(error):
                return Reply("", final=True)
            raise


@functools.cache
def pool(env: str, options: str, shaped: bool, agent: str, turns: int) -> RolloutPool:
    factory = intercode.prepare(env, **json.loads(options))
    return RolloutPool(factory, agent, limits=RolloutLimits(turns), shaped=shaped)
