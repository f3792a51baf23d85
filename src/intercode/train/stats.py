"""Figures of a pool's rollouts, for the log of a trainer."""

from __future__ import annotations

import statistics
import threading
from collections import Counter
from dataclasses import dataclass

from intercode.train.grouping import EQUAL
from intercode.train.jobs import Rollout


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Figures of the rollouts that ended since the last call of `RolloutPool.stats`.

    `reward`: the mean, without faults. `replayed` rollouts were lost and played again. `faults` by
    the side at fault (model, sandbox, data), `cuts` by the limit of the rollout (turns, reply,
    tokens, context), `limit_hits` by the limit of the sandbox that an action hit (time, memory,
    output, …). `no_value` counts rollouts without values, in a pool that records them, by reason.
    `flat_groups` of the `groups` have equal rewards, so they have no gradient.
    `turns_without_logprobs` have ids, but the server returned no log-probabilities, or odd ones.
    `seconds` are summed over episodes that were played at once: `model` until replies came,
    `actions` with scoring, `rest` for resets and the agent.
    """

    rollouts: int
    reward: float | None
    replayed: int
    faults: dict[str, int]
    cuts: dict[str, int]
    limit_hits: dict[str, int]
    no_value: dict[str, int]
    groups: int
    flat_groups: int
    turns_without_logprobs: int
    seconds: dict[str, float]


class Tally:
    """Counts rollouts from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._rewards: list[float] = []
        self._replayed = self._without_logprobs = 0
        names = ("faults", "cuts", "limit_hits", "no_value")
        self._counts = {name: Counter[str]() for name in names}
        self._ranges: dict[tuple[int, str], tuple[float, float]] = {}
        self._seconds = dict.fromkeys(("model", "actions", "rest"), 0.0)

    def note_replay(self) -> None:
        with self._lock:
            self._replayed += 1

    def note(self, rollout: Rollout, seconds: float) -> None:
        """Note a rollout that took `seconds` in all; one that the caller left does not count."""
        reward, turns, error = rollout.reward, rollout.episode.turns, rollout.episode.error
        if reward is None and error is None:
            return
        model = sum(turn.reply_seconds or 0.0 for turn in turns)
        actions = sum(turn.seconds or 0.0 for turn in turns)
        samples = [turn.sample for turn in turns if turn.sample]
        bare = sum(bool(sample.token_ids) and not sample.logprobs for sample in samples)
        with self._lock:
            self._without_logprobs += bare
            if error:
                self._counts["faults"][error.partition(":")[0]] += 1
            if rollout.cut:
                self._counts["cuts"][rollout.cut] += 1
            if rollout.episode.no_value:
                self._counts["no_value"][rollout.episode.no_value] += 1
            self._counts["limit_hits"].update(name for turn in turns for name in turn.limits)
            if reward is not None:
                self._rewards.append(reward)
                low, high = self._ranges.get((rollout.group, rollout.task), (reward, reward))
                self._ranges[rollout.group, rollout.task] = min(low, reward), max(high, reward)
            self._seconds["model"] += model
            self._seconds["actions"] += actions
            self._seconds["rest"] += max(0.0, seconds - model - actions)

    def take(self) -> PoolStats:
        """Return the figures, and begin anew."""
        with self._lock:
            flat = sum(high - low < EQUAL for low, high in self._ranges.values())
            counts = {name: dict(counter) for name, counter in self._counts.items()}
            stats = PoolStats(
                rollouts=len(self._rewards) + sum(counts["faults"].values()),
                reward=statistics.fmean(self._rewards) if self._rewards else None,
                replayed=self._replayed,
                groups=len(self._ranges),
                flat_groups=flat,
                turns_without_logprobs=self._without_logprobs,
                seconds=self._seconds,
                **counts,
            )
            self._clear()
        return stats
