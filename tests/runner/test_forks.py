"""Strategies that fork: what a branch sees, what the record says, and that every copy is closed
however it ends."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from calculator import Calculator, make_tasks

from intercode.agents import Act, Ask, Close, Fork, Strategy, StrategySteps
from intercode.errors import ForkError, IntercodeError, SandboxDied, UsageError
from intercode.runner.budget import Budget, BudgetTracker, RunLimits
from intercode.runner.episode import play
from intercode.types import Episode, Reply, Task, Usage

TASKS = make_tasks(3)


class Copied(Calculator):
    """A calculator that can be copied, unless it holds a 13."""

    def fork(self, *, replay: bool = False) -> Copied:
        assert replay
        if 13 in self.stack:
            raise ForkError("a 13 cannot be copied")
        twin = copy.copy(self)
        twin.stack = list(self.stack)
        Calculator.alive += 1
        return twin


class Costly:
    """Each answer uses up an episode's ten tokens."""

    name = "costly"

    def complete(self, messages: object, **more: object) -> Reply:
        return Reply("an answer", Usage(9, 1))


def run(
    strategy: Strategy, protocol: str = "submit", limits: RunLimits | None = None, env: Any = None
) -> Episode:
    root = env or Copied(TASKS, protocol)
    before = Calculator.alive
    try:
        return play(root, TASKS[0], strategy, Costly(), BudgetTracker(limits))
    finally:
        assert Calculator.alive == before, "a copy is still open"
        root.close()


def test_each_branch_goes_on_where_it_was_forked_and_the_record_says_where() -> None:
    def two_lines(task: Task, protocol: str) -> StrategySteps:
        yield Act("1")
        left = yield Fork()
        yield Act("5", env=left)
        right = yield Fork(left)
        yield Act("6", env=left)
        yield Act("2 +", env=0)
        yield Act("7", env=right)
        yield Close(left)
        yield Act("submit", env=0)

    episode = run(two_lines)
    assert episode.success
    assert [(turn.action, turn.observation, turn.after) for turn in episode.turns] == [
        ("1", "1", None),
        ("5", "5", None),
        ("6", "6", None),
        ("2 +", "3", 0),
        ("7", "7", 1),
        ("submit", "submitted", 3),
    ]
    assert [turn.action for turn in episode.line] == ["1", "2 +", "submit"]


def test_actions_on_all_branches_count_as_turns_and_a_branch_may_be_submitted_at_the_end() -> None:
    def strategy(task: Task, protocol: str) -> StrategySteps:
        yield Act("1 2 +")
        for _ in range(3):
            branch = yield Fork()
        yield Act("9")
        yield Act("submit", env=branch)

    assert run(strategy, limits=RunLimits(turns=2)).success
    assert len(run(strategy, limits=RunLimits(turns=1)).turns) == 1


class Twice(Copied):
    """Tells a first wrong submission, as an environment with two of them does."""

    tries = 2

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.tries -= action == "submit"
        if action == "submit" and self.tries and self.score().reward < 1:
            return "wrong", 0.0, False, False, {}
        return super().step(action)


def test_a_submission_that_is_told_to_be_wrong_was_the_choice_of_its_branch() -> None:
    """Else a copy would tell what the others are worth."""

    def peeks(task: Task, protocol: str) -> StrategySteps:
        branch = yield Fork()
        step = yield Act("submit", env=branch)
        assert step.observation == "wrong"
        yield Act("1 2 +", env=0)

    with pytest.raises(UsageError, match=r"the agent test_forks:.* branch 0 that is not open"):
        run(peeks, env=Twice(TASKS))


@pytest.mark.parametrize(
    ("dropped", "submitted"),
    [([], ["2", "1 +"]), ([1], ["5"]), ([1, 0], []), ([1, 0, 2], None)],
    ids=str,
)
def test_where_the_budget_ends_an_episode_the_branch_that_acted_last_is_submitted(
    dropped: list[int], submitted: list[str] | None
) -> None:
    def strategy(task: Task, protocol: str) -> StrategySteps:
        yield Fork()
        yield Fork()
        yield Act("5")
        yield Act("2", env=1)
        yield Act("1 +", env=1)
        for branch in dropped:
            yield Close(branch)
        yield Ask([{"role": "user", "content": "On?"}])
        yield Ask([{"role": "user", "content": "And on?"}])

    episode = run(strategy, limits=RunLimits(episode=Budget(tokens=10)))
    assert (episode.ended, episode.success) == ("limit", submitted == ["2", "1 +"])
    assert [turn.action for turn in episode.line] == (
        [*submitted, "submit"] if submitted is not None else ["2", "1 +"]
    )
    assert [turn.reply for turn in episode.turns if turn.action is None] == ["an answer"], (
        "a question is a turn of its own"
    )


def test_a_copy_that_cannot_be_had_is_told_to_the_strategy() -> None:
    def strategy(task: Task, protocol: str) -> StrategySteps:
        yield Act("13")
        with pytest.raises(ForkError, match="a 13"):
            yield Fork()
        yield Act("1 2 +")
        yield Act("submit")

    assert run(strategy).success
    with pytest.raises(UsageError, match="Calculator has no method fork"):
        run(strategy, env=Calculator(TASKS))


@pytest.mark.parametrize("last", ["suicide", "break", "submit", "fail"])
def test_all_copies_are_closed_however_it_ends(last: str) -> None:
    def strategy(task: Task, protocol: str) -> StrategySteps:
        branches = []
        for _ in range(3):
            branches.append((yield Fork()))
        if last == "fail":
            raise ZeroDivisionError
        yield Act(last, env=branches[1])

    endings: dict[str, type[IntercodeError]] = {"break": SandboxDied, "fail": UsageError}
    if last in endings:
        with pytest.raises(endings[last]):
            run(strategy)
    else:
        assert run(strategy).ended == {"suicide": "agent_fault", "submit": "submit"}[last]


def test_under_the_papers_protocol_the_best_of_all_branches_counts_and_a_solved_one_ends_it() -> (
    None
):
    def strategy(task: Task, protocol: str) -> StrategySteps:
        branch = yield Fork()
        yield Act("2")
        yield Act("1 2 +", env=branch)
        yield Act("0")

    episode = run(strategy, "paper")
    assert (episode.ended, len(episode.turns), episode.reward) == ("solved", 2, 1.0)


@pytest.mark.parametrize(
    ("drops", "told"),
    [(False, r"\d+ copies open"), (True, r"\d+ requests in a row without an action")],
)
def test_a_strategy_that_forks_for_ever_is_stopped_and_named(drops: bool, told: str) -> None:
    def dithers(task: Task, protocol: str) -> StrategySteps:
        while True:
            branch = yield Fork()
            if drops:
                yield Close(branch)

    with pytest.raises(UsageError, match=f"dithers .*{told}"):
        run(dithers)
