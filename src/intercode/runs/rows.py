"""Rows of a table of episodes or turns: `Run.frame`, and exports as jsonl, csv and parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from intercode.options import agent_name
from intercode.types import Episode, Usage

Row = dict[str, Any]
Config = Mapping[str, Any]


def turn_rows(config: Config, episode: Episode) -> Iterator[Row]:
    """Yield a row for each turn, numbered from 1 as `show` does; `after` 0 is the beginning."""
    facts = {
        **labels(config, episode),
        "seed": episode.seed,
        "query": episode.query,
        "parts": dict(episode.parts),
        "ended": episode.ended,
    }
    for number, turn in enumerate(episode.turns, 1):
        row = asdict(turn)
        usage = row.pop("usage")
        if turn.after is not None:
            row["after"] += 1
        yield {**facts, "turn": number, **row, **usage, "cost": _cost(config, turn.usage)}


def episode_row(config: Config, episode: Episode) -> Row:
    """Return the facts of an episode, without its turns."""
    usage = episode.usage
    return {
        **labels(config, episode),
        "split": episode.split,
        "ended": episode.ended,
        "error": episode.error,
        "parts": dict(episode.parts),
        "rule": episode.outcomes.get("rule"),
        "turns": sum(turn.acted and not turn.forced for turn in episode.turns),
        "seconds": sum(turn.seconds + (turn.reply_seconds or 0.0) for turn in episode.turns),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cost": _cost(config, usage),
        "query": episode.query,
    }


def _cost(config: Config, usage: Usage) -> float | None:
    """Return the cost; None if the price of the tokens is not known."""
    return usage.cost if usage.cost or config.get("price") or not usage.tokens else None


def labels(config: Config, episode: Episode) -> Row:
    """Return what each row says about its run and episode."""
    return {
        "env": config.get("env"),
        "agent": agent_name(str(config.get("agent"))),
        "model": config.get("model"),
        "task": episode.task,
        "epoch": episode.epoch,
        "reward": episode.reward,
        "success": episode.success,
    }
