"""What the rest of the system asks of a model: messages in, one text out.

Left out on purpose: streaming, several choices, tool schemas. A model keeps no conversation; the strategy does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from intercode.types import Message, Reply


class Model(Protocol):
    """Anything that answers a conversation. Many threads call `complete` of one model at once.

    `complete` raises `ModelError` when no answer could be had; it never invents an empty one.
    """

    name: str

    def complete(self, messages: Sequence[Message]) -> Reply: ...
