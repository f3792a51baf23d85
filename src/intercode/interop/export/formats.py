"""The rows of an exported run.

chat       one conversation per row, `messages`; each assistant message has a `weight`: 1 if the
           agent wrote it in this episode, 0 if it was there before (the form of OpenAI's
           fine-tuning)
sft        one reply of the agent per row, `prompt` and `completion`: only the completion is
           learnt (the form of TRL)
rl         one segment of tokens per row (`intercode.runs.segments`), as the policy saw and
           sampled them
jsonl      one turn per row, with the facts of its episode, for analysis, or one episode per row;
           csv and parquet have the same rows
intercode  one episode per entry, as InterCode v1 wrote its logs

A conversation continues while each question continues where the last reply ended:

    question 1   system user
    question 2   system user assistant user
    reply 2                            assistant

Any other question (a plan is asked for elsewhere, messages were left out, a second sample) begins a
new conversation. Only replies of this episode are the agent's own: not the examples in a prompt,
nor, in a forked episode, a reply that did not lead to its end. If no model was asked, the query,
the actions and the observations make the conversation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from intercode.agents import SUBMIT
from intercode.runs.rows import Config, Row, labels
from intercode.runs.segments import segments_of
from intercode.types import Episode, Message, Turn


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, and for each of them whether the agent wrote it in this episode."""

    messages: list[Message]
    own: list[bool]


def conversations(episode: Episode) -> list[Conversation]:
    """Return the conversations in which the agent wrote anything; each reply is its own in one of
    them."""
    line, forked = set(map(id, episode.line)), any(turn.after is not None for turn in episode.turns)
    collected: list[Conversation] = []
    for turn in episode.turns:
        if turn.ask is not None:
            _add(collected, turn, is_own=id(turn) in line or not (turn.acted or forked))
    if not collected:
        messages, owned = [{"role": "user", "content": episode.query}], [False]
        for turn in episode.line:
            messages.append({"role": "assistant", "content": turn.action or ""})
            messages.append({"role": "user", "content": turn.observation})
            owned += [turn.action is not None, False]
        collected = [Conversation(messages[:-1], owned[:-1])]
    return [conversation for conversation in collected if any(conversation.own)]


def _add(collected: list[Conversation], turn: Turn, *, is_own: bool) -> None:
    """Append the turn's question and reply to the conversation they continue, or to a new one."""
    question = list(turn.ask or ())
    contents = list(map(_content, question))
    shorter = (candidate for candidate in reversed(collected) if len(candidate.own) < len(question))
    conversation = next(
        (
            candidate
            for candidate in shorter
            if list(map(_content, candidate.messages)) == contents[: len(candidate.own)]
        ),
        None,
    )
    if conversation is None:
        conversation = Conversation([], [])
        collected.append(conversation)
    reply: Message = {**turn.message, "content": turn.reply or ""}
    conversation.own.extend([False] * (len(question) - len(conversation.messages)) + [is_own])
    conversation.messages[:] = [*question, reply]


def _content(message: Message) -> tuple[object, ...]:
    """Return the part of a message that identifies it: an empty content may be None, and other keys
    may differ."""
    calls = message.get("tool_calls") or ()
    return (
        message["role"],
        message.get("content") or "",
        [(call["id"], call["function"]) for call in calls],
    )


def chat_rows(config: Config, episode: Episode) -> Iterator[Row]:
    """Yield a row for each conversation."""
    for conversation in conversations(episode):
        pairs = zip(conversation.messages, conversation.own, strict=True)
        weighted = [
            {**message, "weight": int(is_own)} if message["role"] == "assistant" else message
            for message, is_own in pairs
        ]
        yield {"messages": weighted, **labels(config, episode)}


def sft_rows(config: Config, episode: Episode) -> Iterator[Row]:
    """Yield a row for each reply. Each row repeats the messages before its reply."""
    for conversation in conversations(episode):
        messages = conversation.messages
        for position, is_own in enumerate(conversation.own):
            if is_own:
                prompt, reply = messages[:position], messages[position]
                yield {"prompt": prompt, "completion": [reply], **labels(config, episode)}


def rl_rows(config: Config, episode: Episode) -> Iterator[Row]:
    """Yield a row for each segment of the episode's tokens; none if the model gave no tokens."""
    for segment in segments_of(episode.turns):
        yield {**asdict(segment), **labels(config, episode)}


def v1_entry(config: Config, episode: Episode) -> Row:
    """Return the episode as InterCode v1 logs it, for `load_recording`: a Try Again log, or a ReAct
    log under `submit`, where each action but the submission is wrapped in ``execute[…]``."""
    turns, react = episode.line, config.get("protocol", SUBMIT) == SUBMIT
    actions = [turn.action for turn in turns]
    if react:
        actions = [
            action if action == SUBMIT else "" if action is None else f"execute[{action}]"
            for action in actions
        ]
    history = {
        "actions": actions,
        "observations": [turn.observation for turn in turns],
        "rewards": [turn.score or 0.0 for turn in turns],
        "valid_action": [turn.action is not None and turn.exit_code in (0, None) for turn in turns],
        **({"thoughts": [turn.thought or "" for turn in turns]} if react else {}),
    }
    best = max(range(len(turns)), key=lambda position: turns[position].score or 0.0, default=0)
    return {
        "environment": f"ic_{config.get('env')}",
        "dataset": config.get("data"),
        "task_id": episode.task,
        "query": episode.query,
        "turn_history": history,
        "summary": {
            "max_reward": episode.reward,
            "max_reward_idx": best,
            "turns_taken": len(turns),
            "turns_max": len(turns),
        },
        "info": {},
    }
