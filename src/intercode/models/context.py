"""When a conversation is longer than a model's context: how servers say so, and what is left out then.

    system, task │ reply, observation, reply, observation, … │ reply, observation
    kept         │ left out: observations first, then replies │ the reply may be, what it saw never

A marker takes the place of what is left out, so that roles still alternate. Left out on purpose: counting tokens
beforehand, which differs from model to model, and summaries, which would cost a call and could be wrong. A server that
cuts the conversation itself without saying so cannot be noticed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from intercode.types import Message

MARKER = "[left out: the conversation had become too long]"

_WORDINGS = re.compile(
    r"context_length_exceeded|exceed_context_size"
    r"|context (?:length|size|window)|maximum model length"  # OpenAI, vLLM, SGLang, llama.cpp, Ollama, LM Studio, Mistral
    r"|prompt is too long|must have less than \d+ tokens|exceeds the maximum number of tokens",  # Anthropic, TGI, Gemini
    re.IGNORECASE,
)


def is_overflow(body: str) -> bool:
    """Whether a server's refusal says that the conversation does not fit into the context."""
    return _WORDINGS.search(body) is not None


def spare(messages: Sequence[Message], opening: Sequence[Message]) -> list[int]:
    """The places of what may be left out, in that order. `opening` is how the episode's conversation began: what is shared with
    it is kept, and in any case the first message of a user."""
    shared = 0
    while shared < min(len(messages), len(opening)) and messages[shared] == opening[shared]:
        shared += 1
    first = next((place for place, message in enumerate(messages) if message["role"] == "user"), len(messages))
    kept = max(shared, first + 1)
    replies = [place for place in range(kept, len(messages)) if messages[place]["role"] == "assistant"]
    last = replies[-1] if replies else kept
    seen = [place for place in range(kept, last) if messages[place]["role"] != "assistant"]
    return [place for place in seen + replies if len(messages[place].get("content") or "") > len(MARKER)]


def without(messages: Sequence[Message], places: Sequence[int]) -> list[Message]:
    """The conversation with the marker at `places`."""
    return [{**message, "content": MARKER} if n in places else message for n, message in enumerate(messages)]
