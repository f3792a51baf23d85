"""A model that needs no server: it answers with the replies it was given. For tests, demos and re-runs.

Left out: token counts and prices (all zero).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from intercode.errors import DataError, UsageError
from intercode.types import Message, Reply


class ScriptedModel:
    """Answers each conversation from the start of `replies`.

    A sequence is answered by position: a conversation that holds k assistant messages gets reply k, and the last reply
    again beyond the end. Nothing is counted inside, so any number of threads and episodes can share one model.
    A callable gets the messages and returns the text; it should be deterministic and safe to call from many threads.
    """

    def __init__(self, replies: Sequence[str] | Callable[[Sequence[Message]], str], name: str = "scripted") -> None:
        if not callable(replies) and (isinstance(replies, str) or not replies):
            raise UsageError("ScriptedModel: give a list with at least one reply, or a function of the messages")
        self.replies = replies if callable(replies) else tuple(replies)
        self.name = name

    def complete(self, messages: Sequence[Message]) -> Reply:
        if callable(self.replies):
            return Reply(self.replies(messages))
        asked_before = sum(message["role"] == "assistant" for message in messages)
        return Reply(self.replies[min(asked_before, len(self.replies) - 1)])


def read_script(path: Path) -> ScriptedModel:
    """The model of a JSON file that holds a list of strings."""
    try:
        replies = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); scripted:PATH names a JSON file") from error
    except ValueError as error:
        raise DataError(f"{path}: is not JSON ({error})") from error
    if not isinstance(replies, list) or not replies or not all(isinstance(reply, str) for reply in replies):
        raise DataError(f"{path}: must hold a JSON list of at least one string, the replies in their order")
    return ScriptedModel(replies, name=f"scripted:{path}")
