"""The rows of an exported run.

chat       one conversation a row, `messages`; each of the assistant's has a `weight`: 1 for what the agent wrote in this
           episode, 0 for what was there before it (the form of OpenAI's fine-tuning)
sft        one of the agent's replies a row, `prompt` and `completion`: exactly the completion is learnt (the form of TRL)
jsonl      one turn a row, with what is known of its episode, for analysis; parquet has the same rows
intercode  one episode an entry, as the first system wrote them
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from intercode.agents import SUBMIT
from intercode.errors import UsageError
from intercode.export.conversations import conversations
from intercode.types import Episode

LONGEST = 2000
"""Messages of a conversation without a model, for sft: its rows repeat their square."""

Row = dict[str, Any]
Config = Mapping[str, Any]


def chat_rows(config: Config, episode: Episode) -> Iterator[Row]:
    for each in conversations(episode):
        pairs = zip(each.messages, each.own, strict=True)
        weighted = [{**message, "weight": int(own)} if message["role"] == "assistant" else message for message, own in pairs]
        yield {"messages": weighted, **_labels(config, episode)}


def sft_rows(config: Config, episode: Episode) -> Iterator[Row]:
    """Raises `UsageError` for a conversation without a model that is so long that rows which repeat it would fill a disk."""
    for each in conversations(episode):
        if len(each.own) > LONGEST and not any(turn.ask for turn in episode.turns):
            raise UsageError(
                f"task {episode.task} is a conversation of {len(each.own)} messages, and each row of sft would repeat those "
                "before it; --format chat has them once"
            )
        for place, own in enumerate(each.own):
            if own:
                pair = {"prompt": each.messages[:place], "completion": [each.messages[place]]}
                yield {**pair, **_labels(config, episode)}


def turn_rows(config: Config, episode: Episode) -> Iterator[Row]:
    known = {"query": episode.query, "parts": dict(episode.parts), "ended": episode.ended}
    for number, turn in enumerate(episode.turns):
        row = asdict(turn)
        usage = row.pop("usage")
        yield {**_labels(config, episode), "seed": episode.seed, **known, "turn": number, **row, **usage}


def first_system_entry(config: Config, episode: Episode) -> Row:
    """One entry of the first system's log, which `recordings.py` reads as it reads the run itself: a Try Again log, or under
    `submit` a ReAct log, whose actions are wrapped."""
    turns, react = episode.line, config.get("protocol", SUBMIT) == SUBMIT
    history = {
        "actions": [_wrapped(turn.action) if react else turn.action for turn in turns],
        "observations": [turn.observation for turn in turns],
        "rewards": [turn.score or 0.0 for turn in turns],
        "valid_action": [turn.action is not None and turn.exit_code in (0, None) for turn in turns],
        **({"thoughts": [turn.thought or "" for turn in turns]} if react else {}),
    }
    best = max(range(len(turns)), key=lambda place: turns[place].score or 0.0, default=0)
    return {
        "environment": f"ic_{config.get('env')}",
        "dataset": config.get("data"),
        "task_id": episode.task,
        "query": episode.query,
        "turn_history": history,
        "summary": {
            "max_reward": episode.reward, "max_reward_idx": best, "turns_taken": len(turns), "turns_max": len(turns),
        },
        "info": {},
    }  # fmt: skip


def _wrapped(action: str | None) -> str:
    """A submission as it is, code in the wrapper, and no code as nothing at all."""
    return action if action == SUBMIT else "" if action is None else f"execute[{action}]"


def _labels(config: Config, episode: Episode) -> Row:
    known = {key: config.get(key) for key in ("env", "agent", "model")}
    return {**known, "task": episode.task, "epoch": episode.epoch, "reward": episode.reward, "success": episode.success}
