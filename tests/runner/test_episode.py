"""The one loop, with a real environment and a model that is a list of replies."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from calculator import Calculator, make_tasks

from intercode.agents import Act, Ask, Strategy, StrategySteps, gold, try_again
from intercode.agents.prompts import load_prompts
from intercode.envs.bash.language import LANGUAGE as BASH
from intercode.errors import ModelError, UsageError
from intercode.models import ScriptedModel
from intercode.runner.budget import Budget, BudgetTracker, RunLimits
from intercode.runner.episode import play
from intercode.submission import LONGEST
from intercode.types import Ended, Episode, Message, Reply, Sample, Task, Usage

TASKS = make_tasks(3)


class Speaker:
    """A model that answers from a list, and counts."""

    name = "speaker"

    def __init__(self, *replies: str) -> None:
        self.replies, self.usage, self.calls = list(replies), Usage(10, 5, 0.25), 0

    def complete(self, messages: Sequence[Message], **_: object) -> Reply:
        self.calls += 1
        if not self.replies:
            raise ModelError("the server is gone")
        return Reply(self.replies.pop(0), self.usage)


def acts(*actions: str | None) -> Strategy:
    def strategy(task: Task, protocol: str) -> StrategySteps:
        for action in actions:
            yield Act(action, note="no code" if action is None else None)

    return strategy


def run(
    strategy: Strategy,
    protocol: str = "submit",
    model: Speaker | None = None,
    limits: RunLimits | None = None,
    **more: int,
) -> Episode:
    return play(
        Calculator(TASKS, protocol), TASKS[0], strategy, model, BudgetTracker(limits), **more
    )


def test_gold_submits_and_is_solved() -> None:
    episode = run(gold, epoch=2, seed=7)
    assert (episode.reward, episode.success, episode.ended) == (1.0, True, "submit")
    assert (episode.task, episode.query, episode.epoch, episode.seed) == (
        "t001",
        "make 1 plus 2",
        2,
        7,
    )
    assert [(turn.action, turn.observation, turn.score) for turn in episode.turns] == [
        ("1 2 +", "3", None),
        ("submit", "submitted", 1.0),
    ]
    assert episode.parts == {"distance": 0.0}
    assert all(turn.seconds >= 0 and turn.exit_code == 0 for turn in episode.turns)


def test_the_papers_reward_is_the_best_over_the_turns_with_its_parts() -> None:
    episode = run(acts("2", "9", "1"), "paper")
    assert episode.reward == 0.25
    assert episode.parts == {"distance": 1.0}
    assert [turn.score for turn in episode.turns] == [0.25, 0.071, 0.167]
    assert episode.ended == "stopped"
    broken = run(acts("2", "suicide", "1 2 +"), "paper")
    assert (broken.reward, broken.success, broken.ended, broken.parts) == (
        0.0,
        False,
        "agent_fault",
        {},
    ), "not even its best"


def test_a_reply_without_code_costs_a_turn_and_executes_nothing() -> None:
    episode = run(acts(None, "1 2 +", "submit"), limits=RunLimits(turns=1))
    assert (episode.reward, episode.ended) == (0.0, "turns")
    assert [(turn.action, turn.observation) for turn in episode.turns] == [(None, "no code")]


@pytest.mark.parametrize(
    "action",
    ["1 2 +\0", "\ud83d", "a\udfff", "1 2 +" + " " * LONGEST],
    ids=["NUL", "half", "another half", "too long"],
)
def test_text_that_no_program_can_be_given_costs_a_turn_and_executes_nothing(action: str) -> None:
    episode = run(acts(action, "1 2 +", "submit"), limits=RunLimits(turns=2))
    assert episode.success
    assert episode.turns[0].action == action
    assert "nothing was executed" in episode.turns[0].observation


def test_one_submission_beyond_the_turns_is_allowed_and_nothing_else() -> None:
    assert run(gold, limits=RunLimits(turns=1)).reward == 1.0
    assert len(run(acts("1", "2", "submit"), limits=RunLimits(turns=1)).turns) == 1
    assert len(run(acts("1", "submit"), "paper", limits=RunLimits(turns=1)).turns) == 1


def test_a_turn_joins_question_reply_and_action() -> None:
    model = Speaker("Adding.\n```bash\n1 2 +\n```", "```\nsubmit\n```")
    episode = run(try_again(load_prompts("fence", BASH), turns=5), model=model)
    assert episode.success
    first, second = episode.turns
    assert (first.action, first.thought, first.observation) == ("1 2 +", "Adding.", "3")
    assert first.reply == "Adding.\n```bash\n1 2 +\n```"
    assert first.ask is not None
    assert [message["role"] for message in first.ask] == ["system", "user"]
    assert second.ask is not None
    assert len(second.ask) == 4
    assert episode.usage == Usage(20, 10, 0.5)


def test_an_episode_has_its_environments_outcomes_its_tasks_split_and_its_models_samples() -> None:
    class Telling(Calculator):
        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            *result, info = super().step(action)
            return *result, info | ({"outcomes": self.outcomes()} if "ended" in info else {})  # type: ignore[return-value]

        def outcomes(self) -> dict[str, Any]:
            return {
                "failed": [] if self.score().success else ["result"],
                "agent": {"stack": tuple(self.stack)},
                "odd": {1},
            }

    task = replace(TASKS[0], extra={**TASKS[0].extra, "split": "test"})
    sample = Sample((5, 6), (-0.5, -0.25), "stop", "step 3")
    wrong = Reply("9", Usage(1, 1, 0.0), sample=sample)
    endings: list[tuple[str, Ended, RunLimits]] = [
        ("submit", "limit", RunLimits(episode=Budget(tokens=1))),
        ("paper", "turns", RunLimits(turns=1)),
    ]
    for protocol, ended, limits in endings:
        env = Telling([task], protocol)
        with closing(env):
            episode = play(
                env, task, asking_to_the_end, ScriptedModel([wrong]), BudgetTracker(limits)
            )
        assert (episode.split, episode.ended, episode.turns[0].sample) == ("test", ended, sample)
        assert episode.outcomes == {"failed": ["result"], "agent": {"stack": [9]}, "cut": ["odd"]}


def asking_to_the_end(task: Task, protocol: str) -> StrategySteps:
    for _ in range(9):
        reply = yield Ask([{"role": "user", "content": task.query}])
        yield Act(reply.text)
    yield Act("submit")


@pytest.mark.parametrize("budget", [Budget(tokens=30), Budget(cost=0.5)], ids=str)
def test_an_episode_out_of_its_own_budget_is_submitted_and_scored_as_it_stands(
    budget: Budget,
) -> None:
    model = Speaker("1", "2 +", "9", "9")
    episode = run(asking_to_the_end, model=model, limits=RunLimits(episode=budget))
    assert model.calls == 2
    assert [turn.action for turn in episode.turns] == ["1", "2 +", "submit"]
    assert (episode.reward, episode.success, episode.ended) == (1.0, True, "limit")


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        (
            lambda task, protocol: (Act(str(1 // each)) for each in [0]),
            "raised ZeroDivisionError.*test_episode.py, line",
        ),
        (lambda task, protocol: None, "returned None.*generator function"),
        (lambda task, protocol: (each for each in ["ls"]), "yielded 'ls'"),
        (lambda task, protocol: (Ask(each) for each in ["x"]), "yielded Ask.*each of its messages"),
    ],
)
def test_a_strategy_that_fails_is_the_callers_fault_and_named(strategy: Any, told: str) -> None:
    with pytest.raises(UsageError, match=f"test_episode:.*{told}"):
        run(strategy)
