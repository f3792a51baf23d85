"""Groups of rollouts of one task, the advantages of GRPO and of trees, and rewards shaped by
values."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

from intercode.errors import UsageError
from intercode.runs.segments import Segment
from intercode.train.jobs import Job, Rollout
from intercode.train.tree import Tree
from intercode.types import Task, line_of

EQUAL = 1e-9
"""Rewards with a smaller standard deviation count as equal."""


def groups(tasks: Iterable[Task | str], size: int, *, seed: int = 0) -> list[Job]:
    """Return `size` jobs for each task, with the seeds `seed`, `seed + 1`, …; the jobs of one task
    are one group."""
    jobs = []
    for group, task in enumerate(tasks):
        jobs += [Job(task, seed + number, group) for number in range(size)]
    return jobs


def by_group(rollouts: Iterable[Rollout], size: int) -> Iterator[list[Rollout]]:
    """Yield the rollouts of each group, in the order of their seeds, as soon as there are `size` of
    them. Raises `UsageError` if a group remains incomplete."""
    incomplete: dict[int, list[Rollout]] = {}
    for rollout in rollouts:
        group = incomplete.setdefault(rollout.group, [])
        group.append(rollout)
        if len(group) == size:
            yield sorted(incomplete.pop(rollout.group), key=lambda rollout: rollout.seed)
    if incomplete:
        number, group = next(iter(incomplete.items()))
        raise UsageError(f"the group {number} has {len(group)} rollouts, not {size}")


def advantages(rewards: Sequence[float | None], size: int, *, scale: bool = True) -> list[float]:
    """Return the advantages of GRPO (Shao et al. 2024) for groups of `size` rewards: (reward −
    mean) / standard deviation.

    A reward of None is left out of its group's mean and gets the advantage 0, as do all rewards of
    a group in which they are equal. Without `scale` the difference is not divided (Liu et al.
    2025). Raises `UsageError` if the rewards do not form whole groups.
    """
    if size < 1 or len(rewards) % size:
        raise UsageError(f"{len(rewards)} rewards do not form groups of {size}")
    values = []
    for start in range(0, len(rewards), size):
        group = rewards[start : start + size]
        mean, spread = _mean_and_spread(group)
        divisor = spread if scale else 1.0
        for reward in group:
            if reward is None or spread < EQUAL:
                values.append(0.0)
            else:
                values.append((reward - mean) / divisor)
    return values


def shaped(rollout: Rollout, gamma: float = 1.0) -> list[float]:
    """Return a reward for each turn of the episode, shaped by the recorded values as potentials
    (Ng, Harada, Russell 1999): r + gamma · potential after the turn − potential before it. Here r
    is the rollout's reward in the last turn, and 0 in the others.

    A state's potential is its value; if that is None, the last one before. It is 0 at the start and
    at the end of the episode. So with gamma 1 the rewards from a turn on sum to the rollout's
    reward − the potential before that turn, and those of all turns to the rollout's reward:
    whatever the values are, the best policy stays the same.

    A turn outside `episode.line` (a branch that was given up, a question alone) gets 0, and so do
    all turns of a rollout without a reward.
    """
    turns = rollout.episode.turns
    rewards, line, before = [0.0] * len(turns), line_of(turns), 0.0
    if rollout.reward is None or not line:
        return rewards
    for place in line[:-1]:
        after = turns[place].value
        if after is None:
            after = before
        rewards[place] = gamma * after - before
        before = after
    rewards[line[-1]] = gamma * 0.0 - before + rollout.reward
    return rewards


def tree_advantages(tree: Tree, *, scale: bool = True) -> list[tuple[Segment, float]]:
    """Return each segment of a tree's nodes with its advantage: the node's reward − that of its
    parent, which estimates what the tokens sampled there changed (Kazemnejad et al. 2025).

    Along a branch they sum to the leaf's reward − the root's. With `scale` they are divided by the
    standard deviation of the leaves' rewards. A node without a reward (all its rollouts failed) and
    a node without tokens are left out; the tokens before the first fork get 0.
    """
    _, spread = _mean_and_spread([rollout.reward for rollout in tree.rollouts])
    divisor = spread if scale else 1.0
    pairs = []
    waiting = [(tree.root, tree.root.reward)]
    while waiting:
        node, parent = waiting.pop()
        if node.reward is not None and parent is not None:
            value = 0.0
            if spread >= EQUAL:
                value = (node.reward - parent) / divisor
            pairs += [(segment, value) for segment in node.segments if segment.token_ids]
        waiting += [(child, node.reward) for child in reversed(node.children)]
    return pairs


def _mean_and_spread(rewards: Sequence[float | None]) -> tuple[float, float]:
    """Return mean and standard deviation of the rewards that are not None."""
    scored = [reward for reward in rewards if reward is not None]
    if not all(map(math.isfinite, scored)):
        raise UsageError(f"the rewards {scored} are not all finite numbers")
    if not scored:
        return 0.0, 0.0
    return statistics.fmean(scored), statistics.pstdev(scored)
