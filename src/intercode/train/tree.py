"""Fork a live episode at its first actions, and play every branch to its end.

widths (2, 3)       root ─┬─ first action ─┬─ …
                          │                ├─ …
                          │                └─ …
                          └─ first action ─┬─ …
                                           ├─ …
                                           └─ …

Each fork copies the live sandbox: files and processes. The agent's generator is driven again with
the replies and steps so far, which costs nothing. A node's reward is the mean of the rollouts below
it.
"""

from __future__ import annotations

import statistics
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

from intercode.errors import ForkError
from intercode.runner.env_forks import Playable
from intercode.runner.warm_env import WarmEnv
from intercode.runs.segments import Segment, segments_of
from intercode.train.jobs import Order, Rollout
from intercode.train.sampling import EpisodeSampler


@dataclass(frozen=True, slots=True)
class Node:
    """The part of a tree between two forks.

    `segments` contains only the tokens sampled here; their prompts contain what the branches share.
    `reward` is the mean over `rollouts`, the leaves below, without faults; None if all failed.
    `children` is empty at a leaf.
    """

    segments: tuple[Segment, ...]
    reward: float | None
    children: tuple[Node, ...]
    rollouts: tuple[Rollout, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """All branches of one job: the node `root`, before the first fork, and the complete rollouts of
    the leaves."""

    root: Node
    rollouts: tuple[Rollout, ...]


@dataclass
class _Branch:
    """A leaf that grows. At fork number n it took branch `path[n]`, when `replies[n]` replies had
    come."""

    path: list[int]
    replies: list[int]
    first: Any
    """The result of `reset`; `steps` contains the results of the actions so far."""
    steps: list[Any]
    values: dict[int, float | None]
    """The reward that a submission would have earned after this many steps."""
    future: Future[Rollout] | None = None


class Growth:
    """A tree while it is played: `play` plays a branch, which is the order of the tree with its own
    sampler and environment."""

    def __init__(
        self, order: Order, widths: Sequence[int], play: Callable[[Order], Future[Rollout]]
    ) -> None:
        self._order, self.widths, self._play = order, widths, play
        self.branches: list[_Branch] = []
        self._lock = threading.Lock()

    def add(self, branch: _Branch, sampler: EpisodeSampler, env: Playable | None = None) -> None:
        """Play a branch; `env` is the fork on which it continues."""
        with self._lock:
            sampler = sampler.fork(self._order.seed + len(self.branches))
            self.branches.append(branch)
        branch.future = self._play(
            replace(
                self._order,
                sampler=sampler,
                env=WarmEnv(lambda: env, env) if env else None,
                wrap=partial(_ForkingEnv, sampler, self, branch),
                turns=[],
            )
        )

    def begin(self) -> None:
        self.add(_Branch([], [], None, [], {}), self._order.sampler)

    def unfinished(self) -> list[Future[Rollout]]:
        with self._lock:
            futures = [branch.future for branch in self.branches]
        return [future for future in futures if future and not future.done()]

    def tree(self) -> Tree:
        """Return the tree when all futures are done."""
        branches = sorted(self.branches, key=attrgetter("path"))
        root = _node([(branch, branch.future.result()) for branch in branches if branch.future], 0)
        return Tree(root, root.rollouts)


class _ForkingEnv:
    """An environment that repeats the recorded steps of its branch, then acts, and forks after each
    of its first actions."""

    def __init__(
        self, sampler: EpisodeSampler, growth: Growth, branch: _Branch, env: Playable
    ) -> None:
        self._env, self._sampler, self._growth, self._branch = env, sampler, growth, branch
        self._taken = 0

    def __getattr__(self, name: str) -> Any:
        if name == "fork":
            raise AttributeError(name)  # an agent that forks by itself cannot be driven again
        attribute = getattr(self._env, name)
        if name == "value":
            return partial(self._value, attribute)
        return attribute

    def _value(self, value: Callable[[], float | None]) -> float | None:
        """Return the value of the state after the last step, which may be a recorded one."""
        values = self._branch.values
        if self._taken not in values:
            values[self._taken] = value()
        return values[self._taken]

    def reset(self, **options: Any) -> Any:
        if self._branch.first is None:
            self._branch.first = self._env.reset(**options)
            self._fork()
        return self._branch.first

    def step(self, action: str) -> Any:
        self._taken += 1
        if self._taken <= len(self._branch.steps):
            return self._branch.steps[self._taken - 1]
        result = self._env.step(action)
        self._branch.steps.append(result)
        if not (result[2] or result[3]):
            self._fork()
        return result

    def _fork(self) -> None:
        branch, depth = self._branch, len(self._branch.steps)
        if depth >= len(self._growth.widths):
            return
        path, replies = branch.path, [*branch.replies, len(self._sampler.replies)]
        branch.path, branch.replies = [*path, 0], replies
        for number in range(1, self._growth.widths[depth]):
            try:
                copy = self._env.fork(replay=True)  # type: ignore[attr-defined]
            except ForkError:  # a job of the agent cannot be copied: the branch continues alone
                return
            fork = _Branch(
                [*path, number], replies, branch.first, list(branch.steps), dict(branch.values)
            )
            self._growth.add(fork, self._sampler, copy)


def _node(leaves: Sequence[tuple[_Branch, Rollout]], depth: int) -> Node:
    """Return the node of leaves that took the same branches at their first `depth` forks."""
    branch, rollout = leaves[0]
    groups = defaultdict[int, list[tuple[_Branch, Rollout]]](list)
    rollouts, rewards = [], []
    for leaf, leaf_rollout in leaves:
        rollouts.append(leaf_rollout)
        if leaf_rollout.reward is not None:
            rewards.append(leaf_rollout.reward)
        if len(leaf.path) > depth:
            groups[leaf.path[depth]].append((leaf, leaf_rollout))
    asked = [place for place, turn in enumerate(rollout.episode.turns) if turn.ask is not None]
    first, last = [0, *branch.replies, len(asked)][depth : depth + 2]
    return Node(
        segments_of(rollout.episode.turns, asked[first:last]),
        statistics.fmean(rewards) if rewards else None,
        tuple(_node(group, depth + 1) for group in groups.values()),
        tuple(rollouts),
    )
