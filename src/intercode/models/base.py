"""What the rest of the system asks of a model: messages in, one text out, and calls of tools where it is given any.

Left out on purpose: streaming, several choices. A model keeps no conversation; the strategy does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

from intercode.types import Message, Reply, Tool


class Model(Protocol):
    """Anything that answers a conversation. Many threads call `complete` of one model at once.

    `complete` raises `ModelError` when no answer could be had; it never invents an empty one. `tools` may be called in
    the answer; `draw` numbers the answers that one strategy wants to one question, which should differ. Both are given
    only where a strategy or a second epoch asks for them, so that a model without them serves all others.
    """

    name: str

    def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0) -> Reply: ...


def as_text(arguments: object) -> str:
    """What a tool is called with, as text; some servers, and scripts, give the object itself."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
