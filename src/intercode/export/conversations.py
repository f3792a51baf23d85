"""An episode as conversations: what the agent saw, and which messages it wrote itself there.

    ask 1   system user                                   one conversation: each question goes on
    ask 2   system user assistant user                    where the last one's reply left off
    reply 2                            assistant

A question that does not go on so (a plan is asked for elsewhere, something was left out, a second draw) begins another one.
Own are only the replies that were given in this episode: neither the examples of a prompt, nor, when it forked, any reply that
did not lead to its end. Where no model was asked, the query, the actions and the observations make the conversation.
"""

from __future__ import annotations

from dataclasses import dataclass

from intercode.types import Episode, Message, Turn


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, and for each of them whether the agent wrote it."""

    messages: list[Message]
    own: list[bool]


def conversations(episode: Episode) -> list[Conversation]:
    """Those of an episode in which the agent wrote anything; a reply is own in one of them."""
    line, forked = set(map(id, episode.line)), any(turn.after is not None for turn in episode.turns)
    found: list[Conversation] = []
    for turn in episode.turns:
        if turn.ask is not None:
            _go_on(found, turn, own=id(turn) in line or not (turn.acted or forked))
    return [each for each in found or [_acted(episode)] if any(each.own)]


def _go_on(found: list[Conversation], turn: Turn, *, own: bool) -> None:
    asked = list(turn.ask or ())
    said = list(map(_essence, asked))
    begins = (each for each in reversed(found) if len(each.own) < len(asked))
    before = next((each for each in begins if list(map(_essence, each.messages)) == said[: len(each.own)]), None)
    if before is None:
        before = Conversation([], [])
        found.append(before)
    before.own.extend([False] * (len(asked) - len(before.messages)) + [own])
    before.messages[:] = [*asked, _reply(turn)]


def _essence(message: Message) -> tuple[object, ...]:
    """What was said; an empty content may be None, and a strategy may write a reply down in its own way."""
    calls = message.get("tool_calls") or ()
    return message["role"], message.get("content") or "", [(call["id"], call["function"]) for call in calls]


def _reply(turn: Turn) -> Message:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in turn.calls or ()
    ]
    return {"role": "assistant", "content": turn.reply or "", **({"tool_calls": calls} if calls else {})}


def _acted(episode: Episode) -> Conversation:
    made = Conversation([{"role": "user", "content": episode.query}], [False])
    for turn in episode.line:
        made.messages.append({"role": "assistant", "content": turn.action or ""})
        made.own.append(turn.action is not None)
        made.messages.append({"role": "user", "content": turn.observation})
        made.own.append(False)
    return Conversation(made.messages[:-1], made.own[:-1])
