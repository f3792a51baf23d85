"""Groups as they become complete, shaped rewards, advantages of trees, figures of a step, and
lasting outages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from policies import LETTERS, replying

from intercode.errors import ModelError, SandboxDied, UsageError
from intercode.factory import EnvFactory
from intercode.models import ScriptedModel
from intercode.runner.breaker import Breaker
from intercode.train import (
    Job,
    Node,
    Rollout,
    RolloutLimits,
    RolloutPool,
    Segment,
    Tree,
    by_group,
    groups,
    shaped,
    tree_advantages,
)
from intercode.types import Episode, Turn

TASKS = [
    {"id": f"touch-{n}", "query": f"Make the file /box/{n}.", "gold": f"touch /box/{n}"}
    for n in range(4)
]


def fenced(code: str) -> str:
    return f"```bash\n{code}\n```"


class Failing:
    """A model whose server is down."""

    name = "failing"

    def complete(self, messages: Any, **options: Any) -> Any:
        raise ModelError("refused")


def rollout(group: int, seed: int, reward: float | None = 0.0) -> Rollout:
    episode = Episode("t", "q", (), reward, bool(reward), "submit", seed=seed)
    return Rollout("t", group, seed, (), reward, episode)


def test_a_group_comes_when_it_is_complete_and_in_the_order_of_its_seeds() -> None:
    def played() -> Iterator[Rollout]:
        for group, seed in [(1, 4), (0, 2), (1, 3), (0, 1), (2, 0)]:
            asked.append((group, seed))
            yield rollout(group, seed)

    asked: list[tuple[int, int]] = []
    complete = by_group(played(), 2)
    assert [(each.group, each.seed) for each in next(complete)] == [(1, 3), (1, 4)]
    assert len(asked) == 3, "it does not wait for the others"
    assert [(each.group, each.seed) for each in next(complete)] == [(0, 1), (0, 2)]
    with pytest.raises(UsageError, match="the group 2 has 1 rollouts, not 2"):
        next(complete)


def with_values(*values: float | None, reward: float | None = 1.0) -> Rollout:
    turns = tuple(Turn(action="ls", value=value) for value in values)
    return replace(rollout(0, 0, reward), episode=Episode("t", "q", turns, reward, True, "submit"))


def test_shaped_rewards_sum_to_the_reward_less_the_potential_before() -> None:
    assert shaped(with_values(0.5, 0.25, 1.0, None)) == [0.5, -0.25, 0.75, 0.0]
    for values in [(0.5, 0.25, 1.0, None), (None, 0.5, None, 0.75, None), (0.5, 0.5), (None,), ()]:
        for reward in (0.0, 0.5, 1.0):
            before, rewards = 0.0, shaped(with_values(*values, reward=reward))
            for place, value in enumerate(values):
                assert sum(rewards[place:]) == reward - before
                before = before if value is None else value
            later = shaped(with_values(*values, reward=reward), 0.5)
            total = sum(0.5**place * part for place, part in enumerate(later))
            assert total == (0.5 ** (len(values) - 1) * reward if values else 0)


def test_turns_without_values_and_rollouts_without_reward_are_shaped_by_nothing() -> None:
    assert shaped(with_values(None, None, None)) == [0.0, 0.0, 1.0]
    assert shaped(with_values(None, 0.5, None, 1.0, None, reward=0.0)) == [0, 0.5, 0, 0.5, -1]
    assert shaped(with_values(0.5, 1.0, None, reward=None)) == [0.0, 0.0, 0.0]
    turns = (
        Turn(action="a", value=0.25),
        Turn(action="b", value=1.0, after=0),  # a branch that is given up
        Turn(reply="a question alone"),
        Turn(action="c", value=0.5, after=0),
        Turn(action="submit", after=3),
    )
    forked = replace(with_values(), episode=Episode("t", "q", turns, 1.0, True, "submit"))
    assert shaped(forked) == [0.25, 0.0, 0.0, 0.25, 0.5]


def test_the_advantages_along_a_branch_sum_to_what_its_leaf_has_more_than_the_root() -> None:
    def segment(token: int, *tokens: int) -> tuple[Segment, ...]:
        return (Segment((0,), (token, *tokens), (1,) * (1 + len(tokens)), (), (0,)),)

    def leaf(token: int, reward: float | None) -> Node:
        return Node(segment(token), reward, (), (rollout(0, token, reward),))

    def inner(token: int, reward: float | None, *children: Node) -> Node:
        rollouts = tuple(each for child in children for each in child.rollouts)
        return Node(segment(token), reward, children, rollouts)

    left = inner(1, 1.0, leaf(3, 1.0), leaf(4, 1.0))
    right = inner(2, 0.5, leaf(5, 0.0), leaf(6, 1.0), leaf(7, None))
    root = Node((), 0.75, (left, right), left.rollouts + right.rollouts)
    tree = Tree(root, root.rollouts)
    pairs = {piece.token_ids: value for piece, value in tree_advantages(tree, scale=False)}
    assert pairs == {(1,): 0.25, (3,): 0.0, (4,): 0.0, (2,): -0.25, (5,): -0.5, (6,): 0.5}
    spread = 0.1875**0.5
    scaled = {piece.token_ids: value for piece, value in tree_advantages(tree)}
    assert scaled == pytest.approx({ids: value / spread for ids, value in pairs.items()})
    same = inner(0, 1.0, leaf(1, 1.0), leaf(2, 1.0))
    values = [value for _, value in tree_advantages(Tree(same, same.rollouts))]
    assert values == [0.0, 0.0, 0.0]


def test_trees_are_played_in_one_batch_and_their_figures_are_counted(factory: EnvFactory) -> None:
    mixed = 0

    def generate(prompts: list[list[int]]) -> Any:
        nonlocal mixed
        asked = map(LETTERS.decode, prompts)
        mixed += len({text.partition("/box/")[2][:1] for text in asked}) > 1
        time.sleep(0.2)  # a call for one prompt costs as much as one for all
        return answer(prompts)

    answer = replying(fenced("touch /box/1"), fenced("submit"))
    with RolloutPool(factory, envs=4) as pool:
        trees = pool.trees(
            [(task.id, 3) for task in factory.tasks], generate=generate, chat=LETTERS, widths=(2, 2)
        )
        assert [{each.task for each in tree.rollouts} for tree in trees] == [
            {task.id} for task in factory.tasks
        ]
        assert [len(tree.rollouts) for tree in trees] == [4] * 4
        assert [tree.root.reward for tree in trees] == [0.0, 1.0, 0.0, 0.0]
        assert mixed
        for tree in trees:
            assert len(tree_advantages(tree)) == 6
        stats = pool.stats()
        assert (stats.rollouts, stats.reward, stats.faults, stats.cuts) == (16, 0.25, {}, {})
        assert (stats.groups, stats.flat_groups) == (4, 4)


def test_the_figures_of_a_step_say_what_happened_to_its_rollouts(factory: EnvFactory) -> None:
    jobs = groups(["touch-0", "touch-1"], 3)
    with RolloutPool(factory, envs=2, limits=RolloutLimits(turns=2)) as pool:
        model = ScriptedModel([fenced("touch /box/0; seq 9999999"), fenced("true"), fenced("true")])
        for _ in pool.run(jobs, model):
            pass
        stats = pool.stats()
        assert (stats.rollouts, stats.reward, stats.groups, stats.flat_groups) == (6, 0.5, 2, 2)
        assert (stats.faults, stats.cuts) == ({}, {"turns": 6})
        assert stats.limit_hits == {"output": 6}
        assert stats.seconds["actions"] > 0.0
        assert stats.seconds["rest"] > 0.0
        (fault,) = pool.run([Job("touch-0")], Failing())
        assert fault.reward is None
        stats = pool.stats()
        assert (stats.rollouts, stats.reward, stats.faults) == (1, None, {"model": 1})
        assert pool.stats().rollouts == 0


def test_an_outage_that_lasts_is_raised_and_single_faults_are_not(factory: EnvFactory) -> None:
    right = ScriptedModel([fenced("touch /box/0"), fenced("submit")])
    with RolloutPool(factory, envs=2) as pool:
        for _ in range(3):
            faults = list(pool.run([Job("touch-0")] * 4, Failing()))
            assert [each.reward for each in faults] == [None] * 4
            assert [each.reward for each in pool.run([Job("touch-0")], right)] == [1.0]
        seen: list[Rollout] = []
        with pytest.raises(ModelError, match="5 faults in a row, the last: refused"):
            seen.extend(pool.run([Job("touch-0")] * 100, Failing()))
        assert [each.reward for each in pool.run([Job("touch-0")], right)] == [1.0]
        assert [each.reward for each in pool.run([Job("touch-0")], Failing())] == [None]


def test_faults_of_one_kind_in_a_row_are_an_outage() -> None:
    breaker = Breaker(3)
    died, refused = SandboxDied("gone"), ModelError("refused")
    assert [breaker.note(fault) for fault in (refused, died, refused, died, died)] == [None] * 5
    assert breaker.note(None) is None
    assert [breaker.note(died) for _ in range(4)] == [None, None, died, died]
