"""Pools of several environments, warm starts, and figures by tag and by group."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kept import kept, needs_bwrap, write_box
from policies import LETTERS, replying

import intercode
from intercode.errors import SandboxError, UsageError
from intercode.factory import EnvFactory
from intercode.models import ScriptedModel
from intercode.train import Job, RolloutLimits, RolloutPool, Sampler, groups
from intercode.types import Message, Reply, Tool, Usage

TASKS = [
    {"id": "first", "query": "Print the first word.", "gold": "cat /box/a"},
    {"id": "last", "query": "Print the last word.", "gold": "cat /box/c"},
]


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> list[EnvFactory]:
    """Two factories whose tasks have the same ids; their last words are plum and fig."""
    needs_bwrap()
    folders = [tmp_path_factory.mktemp("box") for _ in range(2)]
    words = zip(folders, ("plum", "fig"), strict=True)
    return [kept("bash", write_box(folder, TASKS, last))() for folder, last in words]


@pytest.fixture(scope="module")
def shop() -> EnvFactory:
    return intercode.prepare("sql")


@pytest.fixture
def pool(boxes: list[EnvFactory]) -> Iterator[RolloutPool]:
    with RolloutPool(boxes, envs=3) as opened:
        yield opened


def fenced(*codes: str) -> list[str]:
    return [f"```bash\n{code}\n```" for code in codes]


def test_each_task_is_played_in_its_own_environment(
    pool: RolloutPool, boxes: list[EnvFactory]
) -> None:
    jobs = [Job(task, n) for n in range(6) for factory in boxes for task in factory.tasks]
    answer = replying(*fenced("cat /box/c", "submit"))
    rollouts = pool.run_batch(jobs, answer, LETTERS)
    assert [rollout.task for rollout in rollouts] == [job.task.id for job in jobs]
    printed = [rollout.episode.turns[0].observation.strip() for rollout in rollouts]
    assert printed == ["plum", "plum", "fig", "fig"] * 6
    assert [rollout.reward for rollout in rollouts] == [0.0, 1.0] * 12


def test_an_id_of_two_environments_names_no_task(pool: RolloutPool) -> None:
    with pytest.raises(UsageError, match="2 environments have a task 'first'; name it by the Task"):
        pool.run_batch(["first"], replying("x"), LETTERS)
    with pytest.raises(UsageError, match="no task has the id 'middle'"):
        pool.run_batch([("middle", 1)], replying("x"), LETTERS)


def test_agents_write_the_language_of_each_environment(
    boxes: list[EnvFactory], shop: EnvFactory
) -> None:
    prompts: dict[str, str] = {}

    def generate(asked: list[list[int]]) -> Any:
        for ids in asked:
            text = LETTERS.decode(ids)
            prompts["sql" if "sql" in text.lower() else "bash"] = text
        return [([ord("x")], [-1.0])] * len(asked)

    with RolloutPool([boxes[0], shop], envs=2, limits=RolloutLimits(turns=1)) as pool:
        rollouts = pool.run_batch([boxes[0].tasks[0], shop.tasks[0]], generate, LETTERS)
    assert [rollout.reward for rollout in rollouts] == [0.0, 0.0]
    assert set(prompts) == {"sql", "bash"}


def test_a_sampler_deals_for_a_pool_of_several(pool: RolloutPool, boxes: list[EnvFactory]) -> None:
    sampler = Sampler([(factory, 1) for factory in boxes])
    answer = replying(*fenced("cat /box/c", "submit"))
    batch = sampler.batch(lambda jobs: pool.run_batch(jobs, answer, LETTERS), 4, size=2)
    assert len(batch) == 8
    assert all(rollout.reward is not None for rollout in batch)
    stream = sampler.stream(2)
    rollouts = pool.run((next(stream) for _ in range(6)), ScriptedModel(fenced("true")))
    sampler.note(rollouts)
    assert sampler.numbers()["sampler/mixed_groups"] == 0


def test_a_warm_pool_starts_no_more_environments(boxes: list[EnvFactory]) -> None:
    threads = Counter[int]()

    def make() -> Any:
        threads[threading.get_ident()] += 1
        return boxes[0]()

    with RolloutPool(make, envs=4, tasks=boxes[0].tasks) as pool:
        pool.warm()
        assert sorted(threads.values()) == [1] * 5  # one of them was asked for its language
        pool.run_batch(groups(boxes[0].tasks, 4), replying(*fenced("ls", "submit")), LETTERS)
        pool.warm()
        assert sum(threads.values()) == 5


def test_an_environment_that_does_not_start_is_a_fault_of_warm(boxes: list[EnvFactory]) -> None:
    started = list[int]()

    def make() -> Any:
        started.append(1)
        if len(started) == 3:
            raise SandboxError("no room is left")
        return boxes[0]()

    with RolloutPool(make, envs=4, tasks=boxes[0].tasks) as pool:
        with pytest.raises(SandboxError, match="no room is left"):
            pool.warm()
        pool.warm()


def test_a_call_may_have_other_limits(pool: RolloutPool, boxes: list[EnvFactory]) -> None:
    task = boxes[0].tasks[1]
    answer = replying(*fenced("true", "true", "cat /box/c"))
    (short,) = pool.run_batch([task], answer, LETTERS, limits=RolloutLimits(turns=2))
    assert (short.cut, short.reward) == ("turns", 0.0)
    with pool.episode(task, LETTERS, limits=RolloutLimits(reply_tokens=3)) as episode:
        episode.feed([1, 2, 3], [-1.0] * 3).result()
        assert episode.rollout is not None
        assert episode.rollout.cut == "reply"
    (whole,) = pool.run_batch([task], replying(*fenced("true", "cat /box/c", "submit")), LETTERS)
    assert (whole.cut, whole.reward) == (None, 1.0)


def test_figures_are_counted_by_tag(pool: RolloutPool, boxes: list[EnvFactory]) -> None:
    answer = replying(*fenced("cat /box/c", "submit"))
    pool.run_batch(groups(boxes[0].tasks, 2), answer, LETTERS, tag="eval")
    pool.run_batch([boxes[0].tasks[1]], answer, LETTERS)
    numbers = pool.log(7, "eval")
    assert numbers["step"] == 7
    assert (numbers["eval/rollouts"], numbers["eval/success_rate"]) == (4, 0.5)
    assert (numbers["eval/groups"], numbers["eval/flat_groups"]) == (2, 2)
    assert numbers["eval/solved_groups"] == 1
    assert numbers["eval/tokens"] == 4 * sum(map(len, fenced("cat /box/c", "submit")))
    assert numbers["eval/tokens_per_second"] > 0
    assert {type(number) for number in numbers.values()} <= {int, float}
    stats = pool.stats()
    assert (stats.rollouts, stats.reward, stats.groups) == (1, 1.0, 1)
    assert pool.stats("eval").rollouts == 0
    assert "eval/reward" not in pool.log(8, "eval")


def test_a_group_counts_when_its_last_rollout_has_ended(boxes: list[EnvFactory]) -> None:
    jobs = groups(boxes[0].tasks, 3)
    counted = list[tuple[int, int]]()
    with RolloutPool(boxes[0], envs=2) as pool:
        for _ in pool.run(jobs, ScriptedModel(fenced("cat /box/c"))):
            stats = pool.stats()
            counted.append((stats.groups, stats.solved_groups))
        stats = pool.stats()
        counted.append((stats.groups, stats.solved_groups))
    assert [pair for pair in counted if pair[0]] in ([(1, 0), (1, 1)], [(2, 1)])
    assert counted[0] == (0, 0)


def test_factories_that_make_no_pool_are_refused(boxes: list[EnvFactory]) -> None:
    with pytest.raises(UsageError, match=r"data of the environment bash is one path, not .* list"):
        intercode.prepare("bash", data=["one", "two"])
    for wrong in ([], ["bash"], "bash"):
        with pytest.raises(UsageError):
            RolloutPool(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="one factory with its tasks"):
        RolloutPool(boxes, tasks=boxes[0].tasks)


def test_idle_workers_take_the_calls_of_their_environments(boxes: list[EnvFactory]) -> None:
    """Forty episodes of two environments in turn: with two workers, few of them change."""
    starts = Counter[int]()

    def counting(number: int) -> Any:
        def make() -> Any:
            starts[number] += 1
            return boxes[number]()

        make.tasks = boxes[number].tasks  # type: ignore[attr-defined]
        return make

    with RolloutPool([counting(0), counting(1)], envs=2) as pool:
        jobs = [Job(boxes[n % 2].tasks[0], n) for n in range(40)]
        rollouts = pool.run_batch(jobs, replying(*fenced("submit")), LETTERS)
        assert len(rollouts) == 40
    assert starts.total() <= 2 + 4


def test_a_closed_pool_is_closed(tmp_path: Path) -> None:
    """A pool that is closed takes no more calls, and close waits for no one that is idle."""
    needs_bwrap()
    factory = intercode.prepare("bash", data=str(write_box(tmp_path, TASKS)))
    pool = RolloutPool(factory, envs=2)
    pool.warm()
    started = time.monotonic()
    pool.close()
    pool.close()
    assert time.monotonic() - started < 60
    with pytest.raises(UsageError, match="the pool is closed"):
        pool.run_batch(["first"], replying("x"), LETTERS)


class Gate:
    """A model that answers one question, and the others when the gate is open."""

    name = "gate"

    def __init__(self) -> None:
        self.numbers, self.open = itertools.count(), threading.Event()

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        if next(self.numbers):
            assert self.open.wait(100)
        return Reply(*fenced("submit"), Usage(10, 5))


def test_tokens_are_counted_by_the_time_since_the_figures_were_taken(
    boxes: list[EnvFactory],
) -> None:
    gate = Gate()
    with RolloutPool(boxes[0], envs=4) as pool:
        rollouts = pool.run(groups(boxes[0].tasks[:1], 4), gate)
        next(rollouts)
        stats = pool.stats()
        assert (stats.rollouts, stats.tokens, stats.groups) == (1, 5, 0)
        gate.open.set()
        assert len(list(rollouts)) == 3
        stats = pool.stats()
    assert (stats.rollouts, stats.tokens, stats.groups) == (3, 15, 1)
    assert stats.tokens_per_second > 15 / 100


def test_a_group_that_the_caller_leaves_does_not_count(boxes: list[EnvFactory]) -> None:
    gate = Gate()
    with RolloutPool(boxes[0], envs=2) as pool:
        for _ in pool.run(groups(boxes[0].tasks[:1], 8), gate):
            break
        gate.open.set()
    stats = pool.stats()
    assert stats.rollouts >= 1
    assert stats.groups == 0


def test_a_worker_goes_on_when_an_environment_does_not_close(boxes: list[EnvFactory]) -> None:
    number = itertools.count()

    def make() -> Any:
        env = boxes[0]()
        close = env.close

        def failing() -> None:
            close()
            raise RuntimeError("it does not close")

        if next(number):
            env.close = failing  # type: ignore[method-assign]
        return env

    make.tasks = boxes[0].tasks  # type: ignore[attr-defined]
    jobs = [Job(boxes[n % 2].tasks[0], n) for n in range(4)]
    with RolloutPool([make, boxes[1]], envs=1) as pool:
        rollouts = list(pool.run(jobs, ScriptedModel(fenced("submit"))))
    assert [rollout.reward for rollout in rollouts] == [0.0] * 4
    assert next(number) >= 3
