"""The model as one episode asks it: what does not fit is left out, and no answer is paid for twice.

    strategy ── messages ──► journal ── not there ──► model ── ContextOverflow ──► leave out more, ask again
                                └── Reply ◄── note ─────┴── Reply

Once something was left out it stays so for the conversation's later questions, instead of being refused anew each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from intercode.errors import ContextOverflow
from intercode.models.base import Model, whole
from intercode.models.context import spare, without
from intercode.runner.reply_cache import ReplyCache
from intercode.types import Message, Reply, Tool

EPOCH = 1000
"""How far the draws of two epochs lie apart, so that a model that is sampled with a seed answers each in its own way."""


class EpisodeModel:
    """A `Model` for one episode and one thread. `notes` holds what it was answered already; without, nothing is kept."""

    def __init__(self, model: Model, epoch: int = 0, notes: ReplyCache | None = None) -> None:
        self.name = model.name
        self._model, self._first_draw, self._notes = model, epoch * EPOCH, notes
        self._opening: Sequence[Message] = ()
        self._longest = self._left_out = 0

    def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0) -> Reply:
        """As the model's. Raises `ContextOverflow` if even the task and what was seen last are too long."""
        self._opening = self._opening or tuple(messages)
        options: dict[str, Any] = {"tools": tools} if tools else {}
        options |= {"draw": self._first_draw + draw} if self._first_draw + draw else {}
        question = {"model": self.name, "messages": list(messages), **options}
        known = self._notes.take(question) if self._notes else None
        reply = known or self._fitted(messages, options)
        if self._notes and not known:
            self._notes.add(question, reply)
        self._longest, self._left_out = len(messages), reply.left_out
        return reply

    def _fitted(self, messages: Sequence[Message], options: dict[str, Any]) -> Reply:
        places = spare(messages, self._opening)
        left_out = min(self._left_out, len(places)) if len(messages) > self._longest else 0
        while True:
            try:
                reply = whole(self._model.complete(without(messages, places[:left_out]), **options), self.name)
                return replace(reply, left_out=left_out) if left_out else reply
            except ContextOverflow as error:
                if left_out == len(places):
                    what = f"although {left_out} messages were left out, " if left_out else ""
                    advice = "choose a model or a server with a longer context"
                    raise ContextOverflow(f"{what}the conversation does not fit ({error}); {advice}") from error
                left_out = min(2 * left_out or 1, len(places))
