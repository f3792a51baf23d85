"""Advice at the end of `eval`: what a reader should know or do about its episodes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from intercode.report.summary import Config
from intercode.report.text import count_of
from intercode.report.turns import is_cut_off
from intercode.types import Episode


def about_golds(config: Config, episodes: Sequence[Episode], data: str | None) -> str:
    """Return a note on the golds that failed, if the agent played the golds of `data`."""
    if config["agent"] != "gold":
        return ""
    count = sum(why.startswith("gold_") for why in config.get("excluded", {}).values())
    for episode in episodes:
        is_failed = episode.reward is not None and not episode.success
        is_failed = is_failed and not _had_no_turns(episode)
        count += is_failed + (episode.error or "").startswith("data")
    if not count:
        return ""
    command = f"intercode check {config['env']}"
    if data:
        command += f" --data {shlex.quote(data)}"
    return f"{count_of(count, 'gold')} failed; `{command}` says why"


def next_step(config: Config, episodes: Sequence[Episode]) -> str:
    """Return the command that lists what a reader looks for first."""
    flag, what = "", "the episodes"
    if any(episode.reward is not None and not episode.success for episode in episodes):
        flag, what = " --failed", "the failed episodes"
    elif any(episode.error is not None for episode in episodes):
        flag, what = " --ended error", "the errors"
    return f"next: `intercode show {shlex.quote(config['run'])}{flag}` lists {what}"


def about_rounds(episodes: Sequence[Episode]) -> str:
    """Return a note on the episodes that had no turns for all their rounds."""
    count = sum(map(_had_no_turns, episodes))
    if not count:
        return ""
    return f"{count_of(count, 'episode')} had too few turns for all rounds; raise --turns"


def _had_no_turns(episode: Episode) -> bool:
    return episode.ended == "turns" and bool(episode.outcomes.get("rounds"))


def about_replies(config: Config, episodes: Sequence[Episode]) -> Iterator[str]:
    """Yield notes on conversations and replies that were too long."""
    shortened = replies = cut_off = 0
    for episode in episodes:
        shortened += any(turn.left_out for turn in episode.turns)
        for turn in episode.turns:
            replies += bool(turn.finish_reason)
            cut_off += is_cut_off(turn)
    were = "conversations were"
    if shortened == 1:
        were = "conversation was"
    if shortened:
        yield (
            f"{shortened} {were} too long for the model or its limits; "
            "the oldest parts were left out (see left_out)"
        )
    limit = "raise" if config.get("reply_tokens") else "set"
    if cut_off:
        yield (
            f"{cut_off} of {count_of(replies, 'reply', 'replies')} reached their "
            f"token limit, so nothing in them was executed; {limit} --reply-tokens"
        )
