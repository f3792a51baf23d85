"""A server of the OpenEnv protocol: each session has its own environment, and a session that a
client leaves is closed.

    uvicorn.run(app("bash", sessions=64), port=8000)

    client ── reset {task} ──► the query
           ── step {action} ─► output, reward, done

A fault of the machine is an error message, never a reward; the next reset gets a new environment.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from openenv.core.env_server import (
    Action,
    ConcurrencyConfig,
    Environment,
    Observation,
    State,
    create_app,
)

import intercode
from intercode.errors import SandboxError
from intercode.factory import EnvFactory
from intercode.runner.episode import UNSCORED
from intercode.train.shaping import training_reward, warn_of_shaped


class CodeAction(Action):
    action: str


class CodeObservation(Observation):
    """`text` is the query after a reset, otherwise the action's output. `metadata` has the exit
    status and why the episode ended."""

    text: str


class CodeState(State):
    task: str | None = None


class CodeEnvironment(Environment[CodeAction, CodeObservation, CodeState]):
    """Play the episodes of one session. Methods may be called in any thread, one after another."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, factory: EnvFactory, shaped: bool = False) -> None:
        super().__init__()
        self._shaped = shaped
        self._factory, self._env, self._broken = factory, factory(), False
        self._state = CodeState()

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task: str | int | None = None,
        **_: Any,
    ) -> CodeObservation:
        """Start an episode on `task`, an id or an index; None takes the next task of an order that
        `seed` shuffles."""
        if self._broken:
            self._env.close()
            self._env, self._broken = self._factory(), False
        query, info = self._env.reset(seed=seed, options={"task": task})
        self._state = CodeState(episode_id=episode_id, task=info["task"])
        return CodeObservation(text=query, metadata={"task": info["task"]})

    def step(self, action: CodeAction, timeout_s: float | None = None, **_: Any) -> CodeObservation:
        """Execute an action. The environment sets the time limit; `timeout_s` is ignored."""
        try:
            text, _reward, terminated, truncated, info = self._env.step(action.action)
        except SandboxError:
            self._broken = True
            raise
        self._state.step_count += 1
        facts = {name: info[name] for name in ("exit_code", "timed_out", "ended") if name in info}
        return CodeObservation(
            text=text,
            reward=training_reward(info.get("score", UNSCORED), shaped=self._shaped),
            done=terminated or truncated,
            metadata=facts,
        )

    @property
    def state(self) -> CodeState:
        return self._state

    def close(self) -> None:
        self._env.close()


def app(
    env: str = "bash",
    *,
    sessions: int = 64,
    idle_seconds: float = 900.0,
    shaped: bool = False,
    **options: Any,
) -> Any:
    """Return an ASGI application for up to `sessions` clients at once; `options` are those of
    `intercode.prepare`, and `shaped` is as for `RolloutPool`."""
    if shaped:
        warn_of_shaped()
    return create_app(
        partial(CodeEnvironment, intercode.prepare(env, **options), shaped),
        CodeAction,
        CodeObservation,
        concurrency_config=ConcurrencyConfig(
            max_concurrent_envs=sessions, session_timeout=idle_seconds
        ),
        state_cls=CodeState,
    )
