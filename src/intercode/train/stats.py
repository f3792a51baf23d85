"""Figures of a pool's rollouts, for the log of a trainer."""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass

from intercode.train.grouping import EQUAL
from intercode.train.jobs import Group, Rollout


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Figures of the rollouts that ended since the last call of `RolloutPool.stats`.

    `reward` and `success_rate`: the means, without faults. `replayed` rollouts were lost and played
    again. `faults` by the side at fault (model, sandbox, data), `cuts` by the limit of the rollout
    (turns, reply, tokens, context), `limit_hits` by the limit of the sandbox that an action hit
    (time, memory, output, …). `no_value` counts rollouts without values, in a pool that records
    them, by reason. `benched_hosts` do not play now, after three faults in a row, and start anew
    within seconds.

    `groups` counts those whose last rollout has ended: the jobs of a group must come in a row. The
    `flat_groups` among them have equal rewards, so they have no gradient; in the `solved_groups`
    among these, all rollouts succeeded.

    `turns_without_logprobs` have ids, but the server returned no log-probabilities, or odd ones.
    `tokens` were sampled; `tokens_per_second` is that by the time from the start of the first
    rollout to the end of the last. `seconds` are summed over episodes that were played at once:
    `model` until replies came, `actions` with scoring, `rest` for resets and the agent.
    """

    rollouts: int
    reward: float | None
    success_rate: float | None
    replayed: int
    faults: dict[str, int]
    cuts: dict[str, int]
    limit_hits: dict[str, int]
    no_value: dict[str, int]
    benched_hosts: int
    groups: int
    flat_groups: int
    solved_groups: int
    turns_without_logprobs: int
    tokens: int
    tokens_per_second: float
    seconds: dict[str, float]

    def numbers(self) -> dict[str, float]:
        """Return the figures as one dictionary of numbers, such as `seconds/model`; those that are
        None are left out."""
        numbers: dict[str, float] = {}
        for name, value in asdict(self).items():
            if isinstance(value, dict):
                numbers |= {f"{name}/{key}": float(number) for key, number in value.items()}
            elif value is not None:
                numbers[name] = float(value)
        return numbers


class _Figures:
    """Counts under one tag since the last call of `take`."""

    def __init__(self) -> None:
        self.rewards, self.begun, self.ended = list[float](), time.perf_counter(), 0.0
        self.successes = self.replayed = self.without_logprobs = self.tokens = 0
        self.faults, self.cuts = Counter[str](), Counter[str]()
        self.limit_hits, self.no_value = Counter[str](), Counter[str]()
        self.seconds = dict.fromkeys(("model", "actions", "rest"), 0.0)


class _OpenGroup:
    """A group of which `waiting` rollouts have not ended. It is not `whole` if the caller has left
    some of them."""

    def __init__(self) -> None:
        self.waiting, self.rewards, self.solved, self.whole = 0, list[float](), True, True


class Tally:
    """Counts rollouts from many threads, by tag."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures = defaultdict[str, _Figures](_Figures)
        self._groups = defaultdict[Group, _OpenGroup](_OpenGroup)

    def begin(self, group: Group) -> None:
        """Note that a rollout is going to be played, or that its group has more to come."""
        with self._lock:
            self._groups[group].waiting += 1
            self._figures.setdefault(group.tag, _Figures())  # the clock starts

    def end(self, group: Group) -> None:
        """Note the end of what began."""
        with self._lock:
            self._groups[group].waiting -= 1

    def leave(self, group: Group) -> None:
        """Note that the rest of a group is not going to be played."""
        with self._lock:
            self._groups[group].whole = False

    def follow(self, before: Group | None, group: Group | None) -> None:
        """Note that jobs which are taken one by one went on from the group `before` to `group`: a
        group has no more to come when the next begins."""
        if before == group:
            return
        if group:
            self.begin(group)
        if before:
            self.end(before)

    def note_replay(self, tag: str) -> None:
        with self._lock:
            self._figures[tag].replayed += 1

    def note(self, name: Group, rollout: Rollout, seconds: float) -> None:
        """Note a rollout of a group that took `seconds` in all; one that the caller left does not
        count."""
        reward, turns, error = rollout.reward, rollout.episode.turns, rollout.episode.error
        if reward is None and error is None:
            self.leave(name)
            return
        model = actions = 0.0
        with self._lock:
            figures = self._figures[name.tag]
            figures.ended = time.perf_counter()
            for turn in turns:
                model += turn.reply_seconds or 0.0
                actions += turn.seconds or 0.0
                figures.tokens += turn.usage.completion_tokens
                figures.limit_hits.update(turn.limits)
                if turn.sample and turn.sample.token_ids and not turn.sample.logprobs:
                    figures.without_logprobs += 1
            if error:
                figures.faults[error.partition(":")[0]] += 1
            if rollout.cut:
                figures.cuts[rollout.cut] += 1
            if rollout.episode.no_value:
                figures.no_value[rollout.episode.no_value] += 1
            if reward is not None:
                figures.rewards.append(reward)
                figures.successes += rollout.episode.success
                group = self._groups[name]
                group.rewards.append(reward)
                group.solved = group.solved and rollout.episode.success
            figures.seconds["model"] += model
            figures.seconds["actions"] += actions
            figures.seconds["rest"] += max(0.0, seconds - model - actions)

    def take(self, tag: str, benched_hosts: int) -> PoolStats:
        """Return the figures of a tag, and begin anew; groups that are not complete remain."""
        with self._lock:
            figures = self._figures.pop(tag, _Figures())
            groups = []
            for name, group in list(self._groups.items()):
                if name.tag != tag:
                    continue
                if group.waiting:
                    self._figures.setdefault(tag, _Figures())
                    continue
                del self._groups[name]
                if group.rewards and group.whole:
                    groups.append(group)
        flat = [group for group in groups if max(group.rewards) - min(group.rewards) < EQUAL]
        rewards, seconds = figures.rewards, figures.ended - figures.begun
        reward = success_rate = None
        if rewards:
            reward = statistics.fmean(rewards)
            success_rate = figures.successes / len(rewards)
        return PoolStats(
            rollouts=len(rewards) + figures.faults.total(),
            reward=reward,
            success_rate=success_rate,
            replayed=figures.replayed,
            faults=dict(figures.faults),
            cuts=dict(figures.cuts),
            limit_hits=dict(figures.limit_hits),
            no_value=dict(figures.no_value),
            benched_hosts=benched_hosts,
            groups=len(groups),
            flat_groups=len(flat),
            solved_groups=sum(group.solved for group in flat),
            turns_without_logprobs=figures.without_logprobs,
            tokens=figures.tokens,
            tokens_per_second=figures.tokens / seconds if figures.tokens and seconds > 0 else 0.0,
            seconds=figures.seconds,
        )
