"""An episode that a trainer drives: it asks, and the trainer answers when it likes.

    async with pool.episode(job, chat) as episode:
        while not episode.done:
            ids, logprobs = await sample(episode.prompt)
            await episode.feed(ids, logprobs)

The episode is played by a thread of the pool, and that thread waits for the answers. `with` and
`feed(…).result()` do the same without an event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Future
from typing import Any, Self

from intercode.errors import UsageError
from intercode.runs.segments import Segment
from intercode.train.chat import Chat
from intercode.train.jobs import Order, Rollout
from intercode.train.sampling import (
    Asked,
    Question,
    RolloutLimits,
    Sampled,
    Served,
    Source,
    require_sampled,
)
from intercode.types import Message, Reply, Tool

GenerateOne = Callable[[list[int]], Awaitable[Sampled]]
"""An asynchronous function of a prompt's ids that returns one reply."""


class Pending(Future[None]):
    """The next question, or the end: `await` it, or call `result()`. Cancelling an `await` does not
    cancel the episode."""

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()

    def __await__(self) -> Generator[Any, None, None]:
        return asyncio.wrap_future(self).__await__()


class LentEpisode:
    """An episode of a `RolloutPool` that asks its caller for each reply.

    With a chat, `prompt` contains the token ids of the question; without one, `messages` contains
    its messages. `done` tells whether the episode has ended, and `rollout` is its result. An
    environment of the pool is taken until the episode is done or closed.
    """

    def __init__(
        self,
        order: Callable[[Source], Order],
        play: Callable[[Order], Future[Rollout]],
        chat: Chat | None,
        limits: RolloutLimits,
    ) -> None:
        """`order` returns the order of an episode that this source answers."""
        self.prompt, self.messages = list[int](), list[Message]()
        self.rollout: Rollout | None = None
        self._play, self._ids = play, chat is not None
        if chat:
            self._order = order(Asked(self._ask_ids, chat, limits))
            self._nothing: Any = (), ()
        else:
            self._order, self._nothing = order(Served(_Caller(self._ask), limits)), ""
        self._answer: Future[Any] | None = None
        self._next, self._closed, self._lock = Pending(), False, threading.Lock()

    @property
    def done(self) -> bool:
        return self.rollout is not None

    @property
    def reward(self) -> float | None:
        """The reward of `rollout`; None before the end and after a fault."""
        return None if self.rollout is None else self.rollout.reward

    @property
    def segment(self) -> Segment | None:
        """The tokens; None before the end, and if there are none. Raises `UsageError` if the agent
        does not continue one conversation: see `rollout.segments`."""
        if self.rollout is None or not self.rollout.segments:
            return None
        first, *rest = self.rollout.segments
        if rest:
            raise UsageError(f"the rollout has {1 + len(rest)} segments; use rollout.segments")
        return first

    def open(self) -> Pending:
        """Begin the episode, when an environment is free; the result comes with the first
        question."""
        self._play(self._order).add_done_callback(self._end)
        return self._next

    def feed(
        self,
        reply: Sequence[int] | str,
        logprobs: Sequence[float] = (),
        policy_version: str | int | None = None,
    ) -> Pending:
        """Answer the question with sampled ids, up to the end of the reply, their log-probabilities
        (none, or one for each) and the version of the policy; or with text alone, for an episode
        without a chat.

        The result comes with the next question, or the end. Raises `UsageError` for another kind of
        reply, and if the episode does not ask.
        """
        value: Any = reply
        if not isinstance(reply, str):
            if not self._ids:
                raise UsageError("an episode without a chat takes text, not token ids")
            (value,) = require_sampled([(reply, logprobs, policy_version)], 1)
        elif self._ids:
            raise UsageError("an episode with a chat takes token ids, not text")
        with self._lock:
            answer, self._answer = self._answer, None
            if answer is None:
                if self.done or self._closed:
                    raise UsageError("the episode has ended")
                raise UsageError("the episode does not ask now: wait for what feed returned")
            pending = self._next = Pending()
        answer.set_result(value)
        return pending

    def close(self) -> None:
        """End the episode within a turn, if it is not done. May be called twice."""
        self._order.tracker.stop("the caller left")
        with self._lock:
            self._closed, answer, self._answer = True, self._answer, None
        if answer:
            answer.set_result(self._nothing)

    def __enter__(self) -> Self:
        try:
            self.open().result()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *failure: object) -> None:
        self.close()

    # -- in the thread of the pool -----------------------------------------------------------------

    def _ask_ids(self, question: Question | None) -> None:
        if question:  # None: an episode has ended
            self.prompt, answer = question
            self._note(answer)

    def _ask(self, messages: Sequence[Message]) -> str:
        answer = Future[str]()
        self.messages = list(messages)
        self._note(answer)
        return answer.result()

    def _note(self, answer: Future[Any]) -> None:
        with self._lock:
            if self._closed:
                answer.set_result(self._nothing)
                return
            self._answer = answer
        self._next.set_result(None)

    def _end(self, future: Future[Rollout]) -> None:
        error = future.exception()
        if not error:
            self.rollout = future.result()
        if self._next.done():  # the caller left before
            return
        if error:
            self._next.set_exception(error)
        else:
            self._next.set_result(None)


class _Caller:
    """A model whose replies are the caller's texts."""

    def __init__(self, ask: Callable[[Sequence[Message]], str]) -> None:
        self.ask, self.name = ask, "policy"

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        if tools:
            raise UsageError(
                "this agent calls tools; give the episode a chat, "
                "or choose an agent that writes code as text"
            )
        return Reply(self.ask(messages))
