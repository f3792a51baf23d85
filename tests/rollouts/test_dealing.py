"""The sampler deals tasks that a policy sometimes solves, and does so again from its file."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from intercode.errors import UsageError
from intercode.reading import read_json
from intercode.train import Job, Rollout, Sampler, groups
from intercode.train.dealing import signal_of
from intercode.types import Episode, Task

SIZE = 8


def make_tasks(count: int, seed: int) -> list[Task]:
    """Tasks of four levels and eight kinds; `hard` is what one task adds to its level."""
    chance = random.Random(seed)
    return [
        Task(
            f"task-{number}",
            "Do it.",
            "true",
            {
                "family": "simulated",
                "difficulty": chance.randint(1, 4),
                "kind": f"kind-{chance.randint(0, 7)}",
                "hard": chance.gauss(0, 3),
            },
        )
        for number in range(count)
    ]


class Learner:
    """A simulated policy: its skill at a kind and level grows with each mixed group."""

    def __init__(self, tasks: list[Task], seed: int) -> None:
        self.by_id = {task.id: task for task in tasks}
        self.skill: dict[tuple[str, int], float] = {}
        self.chance = random.Random(seed)

    def rate(self, task: Task) -> float:
        kind, level = task.extra["kind"], task.extra["difficulty"]
        skill = self.skill.get((kind, level), -1.0)
        return 1 / (1 + math.exp(task.extra["hard"] + 2.5 * (level - 1) - skill))

    def play(self, jobs: list[Job]) -> list[Rollout]:
        return [self.play_one(job) for job in jobs]

    def play_one(self, job: Job) -> Rollout:
        assert isinstance(job.task, Task)
        solved = self.chance.random() < self.rate(job.task)
        episode = Episode(job.task.id, job.task.query, (), float(solved), solved, "submit")
        return Rollout(job.task.id, job.group, job.seed, (), float(solved), episode)

    def train(self, batch: list[Rollout]) -> float:
        """Learn from a batch, and return the share of its groups with a signal."""
        parts = [batch[start : start + SIZE] for start in range(0, len(batch), SIZE)]
        mixed = [part for part in parts if signal_of(part) == "mixed"]
        for part in mixed:
            learned = self.by_id[part[0].task].extra
            for kind in (f"kind-{number}" for number in range(8)):
                for level in range(1, 5):
                    near = (1 if kind == learned["kind"] else 0.2) * (
                        1 if level == learned["difficulty"] else 0.5
                    )
                    before = self.skill.get((kind, level), -1.0)
                    self.skill[kind, level] = before + 0.008 * near
        return len(mixed) / len(parts)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_twice_as_many_groups_have_a_signal_while_a_policy_learns(seed: int) -> None:
    tasks, steps = make_tasks(600, seed), 60
    plain, dealt = Learner(tasks, seed), Learner(tasks, seed)
    sampler, chance = Sampler([(tasks, 1)], seed=seed), random.Random(seed)
    without = [
        plain.train(plain.play(groups(chance.sample(tasks, 32), SIZE))) for _ in range(steps)
    ]
    with_sampler, played_mixed = list[float](), list[float]()
    for _ in range(steps):
        with_sampler.append(dealt.train(sampler.batch(dealt.play, 32, SIZE)))
        played_mixed.append(sampler.numbers()["sampler/mixed_groups"])
    assert sum(with_sampler) > 2 * sum(without)
    assert sum(played_mixed) > 1.6 * sum(without)  # without further groups, too
    overall = [sum(map(learner.rate, tasks)) for learner in (plain, dealt)]
    assert overall[1] > 1.2 * overall[0]
    assert sampler.numbers()["sampler/0/simulated/level"] >= 2


def test_a_saved_sampler_deals_what_it_would_have_dealt(tmp_path: Path) -> None:
    tasks = make_tasks(100, 3)
    sampler, learner = Sampler([(tasks, 2), (tasks[:10], 1)], seed=4), Learner(tasks, 5)
    for _ in range(5):
        sampler.batch(learner.play, 8, SIZE)
    sampler.save(tmp_path / "sampler.json")
    again = Sampler([(tasks, 2), (tasks[:10], 1)])
    again.load(tmp_path / "sampler.json")
    for _ in range(3):
        jobs = sampler.deal(8, SIZE)
        assert again.deal(8, SIZE) == jobs
        rollouts = learner.play(jobs)
        sampler.note(rollouts)
        again.note(rollouts)
    assert again.numbers() == {
        name: value
        for name, value in sampler.numbers().items()
        if name.count("/") > 1  # those of the last batch are not saved
    }


@pytest.mark.parametrize("window", [20, 1000])
def test_a_level_that_is_never_solved_does_not_block_the_next_one(window: int) -> None:
    levels = [Task(f"{n}", "Do it.", "true", {"difficulty": 1 + n % 3}) for n in range(60)]
    sampler, dealt = Sampler([(levels, 1)], window=window), Counter[int]()
    for _ in range(60):
        jobs = sampler.deal(4, 8)
        rollouts = []
        for job in jobs:
            assert isinstance(job.task, Task)
            difficulty = job.task.extra["difficulty"]
            solved = difficulty == 3 and job.seed % 2 == 0
            episode = Episode(job.task.id, "", (), float(solved), solved, "submit")
            rollouts.append(Rollout(job.task.id, job.group, job.seed, (), float(solved), episode))
            dealt[difficulty] += 1
        sampler.note(rollouts)
    assert dealt[3] > sum(dealt.values()) / 2
    assert min(dealt[1], dealt[2]) >= 64


def test_tasks_of_few_hops_and_rounds_come_first() -> None:
    tasks = []
    for hops in (2, 3):
        for rounds in (1, 2, 4):
            later = tuple(Task(f"{n}", "Do it.", "true") for n in range(1, rounds))
            record = {"difficulty": hops, "hops": hops}
            tasks.append(Task(f"{hops} x {rounds}", "Do it.", "true", record, rounds=later))
    sampler, levels = Sampler([(tasks, 1)]), []
    for _ in range(40):
        jobs = sampler.deal(2, 8)
        rollouts = []
        for job in jobs:
            assert isinstance(job.task, Task)
            episode = Episode(job.task.id, "", (), 1.0, True, "submit")
            rollouts.append(Rollout(job.task.id, job.group, job.seed, (), 1.0, episode))
        sampler.note(rollouts)
        levels.append(sampler.numbers()["sampler/0/tasks/level"])
    assert list(dict.fromkeys(levels)) == [3, 4, 6, 8, 12]


def test_rollouts_that_were_in_flight_when_a_file_was_loaded_are_noted(tmp_path: Path) -> None:
    tasks = make_tasks(20, 3)
    sampler, learner = Sampler([(tasks, 1)]), Learner(tasks, 5)
    early = sampler.deal(4, 2)
    sampler.save(tmp_path / "sampler.json")
    late = sampler.deal(4, 2)
    sampler.load(tmp_path / "sampler.json")
    sampler.note(learner.play(early + late))
    sampler.save(tmp_path / "sampler.json")
    assert read_json(tmp_path / "sampler.json")["rollouts"] == 16


def test_groups_are_whole_and_shares_follow_the_weights() -> None:
    left, right = make_tasks(50, 0), make_tasks(50, 1)
    jobs = Sampler([(left, 3), (right, 1)]).deal(400, 2)
    assert len(jobs) == 800
    assert [job.group for job in jobs] == [group for group in range(400) for _ in range(2)]
    assert len({(job.seed, job.group) for job in jobs}) == 800
    share = sum(any(job.task is task for task in left) for job in jobs) / 800
    assert 0.65 < share < 0.85


def test_solved_and_hopeless_tasks_are_left_out() -> None:
    tasks = [Task(f"{rate}-{n}", "Do it.", "true") for rate in (0, 50, 100) for n in range(20)]
    sampler, chance = Sampler([(tasks, 1)]), random.Random(0)

    def play(jobs: list[Job]) -> list[Rollout]:
        rollouts = []
        for job in jobs:
            assert isinstance(job.task, Task)
            solved = chance.random() * 100 < int(job.task.id.partition("-")[0])
            episode = Episode(job.task.id, "", (), float(solved), solved, "submit")
            rollouts.append(Rollout(job.task.id, job.group, job.seed, (), float(solved), episode))
        return rollouts

    for _ in range(4):
        sampler.note(play(sampler.deal(30, SIZE)))
    rollouts = play(sampler.deal(20, SIZE))
    assert sum(rollout.task.startswith("50-") for rollout in rollouts) >= 0.8 * len(rollouts)


def test_a_fault_is_no_result_and_strangers_are_refused() -> None:
    tasks = make_tasks(4, 0)
    sampler = Sampler([(tasks, 1)])
    (job, *_) = sampler.deal(1, 2)
    assert isinstance(job.task, Task)
    episode = Episode(job.task.id, "", (), None, False, None, error="sandbox: gone")
    lost = Rollout(job.task.id, job.group, job.seed, (), None, episode)
    before = sampler.numbers()
    sampler.note([lost])
    assert sampler.numbers() == before
    assert signal_of([lost]) == "lost"
    with pytest.raises(UsageError, match="not dealt by this sampler"):
        sampler.note([Rollout("other", 99, 0, (), 1.0, episode)])


@pytest.mark.parametrize(
    ("mixture", "options"),
    [
        ([], {}),
        ([([], 1)], {}),
        ([(make_tasks(2, 0), -1)], {}),
        ([(make_tasks(2, 0), 0)], {}),
        ([(make_tasks(2, 0), 1)], {"keep": (0.9, 0.1)}),
        ([(make_tasks(2, 0), 1)], {"window": 0}),
    ],
)
def test_a_mixture_that_cannot_be_dealt_is_refused(mixture: list, options: dict) -> None:  # type: ignore[type-arg]
    with pytest.raises(UsageError):
        Sampler(mixture, **options)


def saved(**fields: object) -> str:
    return json.dumps({"seed": 0, "groups": 1, "rollouts": 1, "rates": {}} | fields)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"rates": {"a": 1}}',
        saved(seed="x"),
        saved(groups=-1),
        saved(rollouts=10**400),
        saved(rates={"0:1": [1, 1, 0]}),
        saved(rates={"0:1": [2, 1, 0, 0]}),
        saved(rates={"0:1": [math.nan, 1, 0, 0]}),
        saved(rates={"0:1": [1, 1, 0, math.nan]}),
        saved(rates={"0:1": [1e308, 1e308, 0, 0]}),
        saved(rates={"0:1": [10**400, 10**400, 0, 0]}),
        saved(rates={"0:1": [1, 1, 99, 0]}),
        "[" * 100_000,
    ],
)
def test_a_file_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "sampler.json").write_text(text)
    with pytest.raises(UsageError, match=r"sampler\.json is no file of a sampler"):
        Sampler([(make_tasks(2, 0), 1)]).load(tmp_path / "sampler.json")


def test_a_file_of_another_mixture_is_refused(tmp_path: Path) -> None:
    tasks = make_tasks(20, 3)
    sampler, file = Sampler([(tasks, 1)]), tmp_path / "sampler.json"
    sampler.note(Learner(tasks, 5).play(sampler.deal(4, 2)))
    sampler.save(file)
    Sampler([([*tasks, Task("more", "Do it.", "true")], 1)]).load(file)
    with pytest.raises(UsageError, match="is of another mixture: this one has no '0"):
        Sampler([([Task("more", "Do it.", "true")], 1)]).load(file)
    others = [replace(task, query="Do that.") for task in tasks]
    with pytest.raises(UsageError, match="is of another mixture"):
        Sampler([(others, 1)]).load(file)
