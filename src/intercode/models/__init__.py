"""Models: messages in, text out, and tool calls if the question offers tools.

Left out on purpose: streaming, several choices. A model keeps no conversation; the strategy does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from intercode.models.openai_chat import NO_KEY, OpenAIModel, Pending
from intercode.models.scripted import ScriptedModel, read_script
from intercode.types import Message, Reply, Tool

__all__ = ["NO_KEY", "Model", "OpenAIModel", "Pending", "ScriptedModel", "make_model"]


class Model(Protocol):
    """A model that replies to a conversation. Many threads call `complete` of one model at once.

    `complete` raises `ModelError` if there is no reply, and never returns an empty one instead. The
    reply may call `tools`; `draw` numbers the replies that one strategy wants to one question,
    which should differ. Both are passed only if a strategy or a second epoch asks for them, so that
    a model without these parameters works for all other strategies. A model may have a method
    `close`, which is called at the end of `intercode eval`, and a method `pending`, which returns
    the `Pending` questions for the progress line.
    """

    name: str

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply: ...


def make_model(name: str, **options: Any) -> Model:
    """Return a scripted model for `scripted:PATH`, or else the model `name` on an OpenAI-compatible
    server.

    `options` are those of `OpenAIModel`; a scripted model ignores them. Raises `UsageError` and
    `DataError` for wrong names.
    """
    kind, _, path = name.partition(":")
    return read_script(Path(path)) if kind == "scripted" else OpenAIModel(name, **options)
