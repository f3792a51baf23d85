"""A task for Inspect, with one of our agents as its solver and success as its score.
`docs/adapters.md` runs it.

A thread of a `RolloutPool` plays each episode and asks Inspect's model on the event loop. A fault
becomes the sample's error.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Sequence
from typing import Any

from inspect_ai import Task, task, util
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model, messages_from_openai
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolInfo

import intercode
from intercode.errors import IntercodeError, ModelError
from intercode.train import RolloutLimits, RolloutPool
from intercode.types import Message, Reply, Tool, ToolCall, Usage


class InspectModel:
    """Inspect's model as one sample sees it, for the thread that plays the episode. `failure` is
    what the model raised."""

    def __init__(self) -> None:
        self._model = get_model()
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self.name = str(self._model)
        self.failure: Exception | None = None

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        try:
            output = self._context.run(
                asyncio.run_coroutine_threadsafe, self._ask(list(messages), tools), self._loop
            ).result()
        except Exception as error:
            self.failure = error
            # the episode ends and is scored, as Inspect does
            if isinstance(error, util.LimitExceededError):
                return Reply("", final=True)
            raise ModelError(f"{self.name}: {error}") from error
        usage, calls = Usage(), []
        if output.usage:
            usage = Usage(output.usage.input_tokens, output.usage.output_tokens)
        for call in output.message.tool_calls or ():
            calls.append(ToolCall(call.id, call.function, json.dumps(call.arguments)))
        return Reply(output.completion, usage, tuple(calls))

    async def _ask(self, messages: Any, tools: Sequence[Tool]) -> ModelOutput:
        return await self._model.generate(
            await messages_from_openai(messages), [ToolInfo(**tool["function"]) for tool in tools]
        )


@solver
def play(pool: RolloutPool) -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        model = InspectModel()
        rollout = await pool.play((str(state.sample_id), state.epoch), model)
        asked: Any = [turn.ask for turn in rollout.episode.turns if turn.ask]
        if asked:
            state.messages = await messages_from_openai(list(asked[-1]))
        state.metadata |= {
            "reward": rollout.reward,
            "shaped_reward": rollout.episode.reward,
            "ended": rollout.episode.ended,
            **rollout.episode.parts,
        }
        if model.failure or rollout.reward is None:
            raise model.failure or IntercodeError(rollout.episode.error)
        return state

    return solve


@scorer(metrics=[mean(), stderr()])
def reward() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=state.metadata["reward"])

    return score


@task
def coding(
    env: str = "bash",
    agent: str = "try_again",
    turns: int = 10,
    shaped: bool = False,
    **options: Any,
) -> Task:
    """Return an Inspect task. `env` and `agent` are those of `intercode eval`, `options` those of
    `intercode.prepare`, and `shaped` is as for `RolloutPool`."""
    factory = intercode.prepare(env, **options)
    return Task(
        [Sample(item.query, target=item.gold, id=item.id) for item in factory.tasks],
        solver=play(RolloutPool(factory, agent, limits=RolloutLimits(turns), shaped=shaped)),
        scorer=reward(),
    )


def _task(env: str) -> Any:
    """Return an Inspect task `intercode/ENV`, with the options of `coding`."""

    @task(name=env)
    def named(
        agent: str = "try_again", turns: int = 10, shaped: bool = False, **options: Any
    ) -> Task:
        return coding(env, agent, turns, shaped, **options)

    return named


bash, sql, python, ctf = (_task(env) for env in ("bash", "sql", "python", "ctf"))
