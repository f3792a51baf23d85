"""Many episodes: parallel workers, faults, budgets, and runs that are killed or interrupted and
resumed."""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from calculator import Calculator, make_tasks

from intercode.agents import Act, Ask, Strategy, StrategySteps, gold, retrieval, try_again
from intercode.agents.prompts import load_prompts
from intercode.envs.bash.language import LANGUAGE as BASH
from intercode.errors import ModelError, SandboxDied, UsageError
from intercode.models import ScriptedModel
from intercode.runner.budget import Budget, BudgetTracker, RunLimits
from intercode.runner.reply_cache import open_cache
from intercode.runner.run import episode_seed, evaluate
from intercode.runs.store import RunStore, read_run
from intercode.types import Episode, Message, Reply, Task, Usage

TASKS = make_tasks(12)
SCRIPT = Path(__file__).parent / "calculator_run.py"


@pytest.fixture(autouse=True)
def _every_environment_is_closed() -> Iterator[None]:
    before = Calculator.alive
    yield
    assert Calculator.alive == before


def run(
    strategy: Strategy = gold,
    tasks: Sequence[Task] = TASKS,
    protocol: str = "submit",
    **more: object,
) -> list[Episode]:
    return evaluate(lambda: Calculator(list(tasks), protocol), strategy, tasks=tasks, **more)  # type: ignore[arg-type]


def timeless(episodes: Sequence[Episode]) -> list[Episode]:
    return [
        replace(e, turns=tuple(replace(turn, seconds=0.0, reply_seconds=None) for turn in e.turns))
        for e in episodes
    ]


def acting(action: Callable[[Task], str]) -> Strategy:
    def strategy(task: Task, protocol: str) -> StrategySteps:
        yield Act("7")
        yield Act(action(task))
        yield Act(task.gold)
        yield Act("submit")

    return strategy


def test_results_come_in_task_order_and_do_not_depend_on_the_number_of_workers() -> None:
    one = run(retrieval(TASKS, 3), protocol="paper", workers=1, epochs=2, seed=3)
    eight = run(retrieval(TASKS, 3), protocol="paper", workers=8, epochs=2, seed=3)
    assert timeless(one) == timeless(eight)
    assert [(e.task, e.epoch) for e in eight] == [
        (task.id, epoch) for epoch in (0, 1) for task in TASKS
    ]


def test_seeds_differ_by_run_task_and_epoch_and_are_stable() -> None:
    assert (
        len(
            {
                episode_seed(seed, task, epoch)
                for seed in range(5)
                for task in ("a", "b", "1")
                for epoch in range(5)
            }
        )
        == 75
    )
    assert episode_seed(0, "a", 0) == 1252016353


def test_a_fault_is_an_error_and_never_a_reward_and_the_environment_is_rebuilt() -> None:
    before = Calculator.built
    episodes = run(acting(lambda task: "break" if task.id == "t003" else "1"))
    failed = episodes[2]
    assert (failed.reward, failed.success, failed.ended) == (None, False, None)
    assert failed.error == "sandbox: the calculator fell apart"
    assert [turn.action for turn in failed.turns] == ["7"], "what it did until then is kept"
    assert sum(e.success for e in episodes) == 11
    assert Calculator.built == before + 2


def test_the_third_fault_in_a_row_stops_the_run_and_what_was_finished_stays(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, {}) as store:
        with pytest.raises(SandboxDied, match=r"3 faults in a row.*--resume"):
            run(acting(lambda task: "break" if task.id >= "t005" else "1"), store=store)
        assert len(store.finished()) == 4
        assert sum(e.error is not None for e in store.episodes()) == 3
        assert all(e.success for e in run(store=store))
    between = run(acting(lambda task: "break" if int(task.id[1:]) % 3 else "1"))
    assert sum(e.error is not None for e in between) == 8, "successes between them: the run goes on"


def test_faults_of_the_data_are_errors_and_do_not_stop_a_run() -> None:
    tasks = [replace(task, extra={**task.extra, "bad_data": i < 6}) for i, task in enumerate(TASKS)]
    episodes = run(tasks=tasks)
    assert [e.error for e in episodes[:2]] == [
        "data: task t001 has no gold",
        "data: task t002 has no gold",
    ]
    assert sum(e.success for e in episodes) == 6


def test_three_replies_of_a_megabyte_make_a_run_of_less_than_four(tmp_path: Path) -> None:
    replies = [
        f"{letter * 10**6}\n```bash\n{code}\n```"
        for letter, code in zip("abc", ("1", "2 +", "submit"), strict=True)
    ]
    with RunStore.create(tmp_path, {}) as store:
        (played,) = run(
            try_again(load_prompts("fence", BASH), turns=5),
            TASKS[:1],
            model=ScriptedModel(replies),
            store=store,
        )
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) < 4e6
    (read,) = read_run(tmp_path)[1]
    assert read == played
    assert [turn.reply for turn in read.turns] == replies


class Downed:
    name = "downed"

    def complete(self, messages: Sequence[Message]) -> Reply:
        raise ModelError("connection refused")


class Paid:
    name = "paid"

    def __init__(self) -> None:
        self.calls: list[Sequence[Message]] = []

    def complete(self, messages: Sequence[Message]) -> Reply:
        self.calls.append(messages)
        return Reply("1", Usage(10, 10, 0.1))


def asking(task: Task, protocol: str) -> StrategySteps:
    for _ in range(5):
        reply = yield Ask([{"role": "user", "content": task.query}])
        yield Act(reply.text)
    yield Act("submit")


@pytest.mark.parametrize("workers", [1, 4])
def test_a_model_server_that_is_down_does_not_burn_all_tasks(tmp_path: Path, workers: int) -> None:
    with (
        RunStore.create(tmp_path, {}) as store,
        pytest.raises(ModelError, match="connection refused"),
    ):
        run(asking, model=Downed(), store=store, workers=workers)
    _, episodes = read_run(tmp_path)
    assert 3 <= len(episodes) <= 3 + workers
    assert {e.error for e in episodes if e.ended != "limit"} == {"model: connection refused"}


@pytest.mark.parametrize(
    "error", [UsageError("wrong use"), ZeroDivisionError("a bug")], ids=["usage", "bug"]
)
def test_wrong_use_and_bugs_are_raised_and_not_recorded(tmp_path: Path, error: Exception) -> None:
    def strategy(task: Task, protocol: str) -> StrategySteps:
        if task.id == "t004":
            raise error
        yield Act("submit")

    with (
        RunStore.create(tmp_path, {}) as store,
        pytest.raises(UsageError, match=f"{error}.*task t004"),
    ):
        run(strategy, store=store, workers=2)
    assert "t004" not in {e.task for e in read_run(tmp_path)[1]}


@pytest.mark.parametrize("workers", [1, 3])
def test_an_episode_is_on_disk_when_it_is_announced_and_a_failing_callback_ends_the_run(
    tmp_path: Path, workers: int
) -> None:
    announced: list[bool] = []

    def callback(episode: Episode) -> None:
        announced.append(episode in read_run(tmp_path)[1])
        raise OSError("no terminal")

    with RunStore.create(tmp_path, {}) as store, pytest.raises(OSError, match="no terminal"):
        run(acting(lambda task: "sleep 0.005"), workers=workers, store=store, on_episode=callback)
    assert announced == [True]


@pytest.mark.parametrize(
    "limits",
    [RunLimits(run=Budget(cost=0.7)), RunLimits(run=Budget(tokens=140))],
    ids=["cost", "tokens"],
)
@pytest.mark.parametrize("workers", [1, 3])
def test_a_spent_budget_stops_all_workers_within_a_turn(
    tmp_path: Path, limits: RunLimits, workers: int
) -> None:
    tracker = BudgetTracker(limits)
    with RunStore.create(tmp_path, {}) as store:
        episodes = run(asking, model=Paid(), store=store, workers=workers, tracker=tracker)
    assert "limit of" in str(tracker.stop_reason())
    assert 0.7 - 1e-9 <= sum(e.usage.cost for e in episodes) <= 0.7 + 0.1 * (workers - 1) + 1e-9
    assert {e.reward for e in episodes if e.ended == "limit"} == {None}


def test_what_was_paid_is_counted_once_by_all_workers_and_resumptions(tmp_path: Path) -> None:
    model = Paid()
    for cost in (0.7, 1.9, 3.0, None):
        tracker = BudgetTracker(RunLimits(run=Budget(cost=cost)))
        with RunStore.create(tmp_path, {}, resume=True) as store:
            episodes = run(asking, model=model, store=store, workers=4, tracker=tracker)
        assert tracker.used.cost == pytest.approx(0.1 * len(model.calls))
    assert len(model.calls) == 12 * 5
    assert sum(e.usage.cost for e in episodes) == pytest.approx(6.0)
    assert all(e.ended == "submit" for e in episodes)


def test_a_time_limit_ends_a_run() -> None:
    clock = itertools.count()
    episodes = run(
        tracker=BudgetTracker(RunLimits(run=Budget(seconds=10)), clock=lambda: float(next(clock)))
    )
    assert 0 < sum(episode.success for episode in episodes) <= 10 // 2


def test_a_finished_run_that_is_resumed_plays_nothing_and_clears_a_journal_that_a_kill_left(
    tmp_path: Path,
) -> None:
    with RunStore.create(tmp_path, {}) as store:
        first = run(acting(lambda task: "suicide"), store=store)
    open_cache(tmp_path, TASKS[0].id, 0).add({}, Reply("late"))
    assert (tmp_path / "underway").exists()
    before = Calculator.built
    with RunStore.create(tmp_path, {}, resume=True) as store:
        assert run(store=store) == first, (
            "a reward of 0 is a result, and the fault of the agent no error"
        )
    assert Calculator.built == before
    assert not (tmp_path / "underway").exists()


def start(
    folder: Path, *, count: int = 30, workers: int = 3, seconds: float = 0.01, agent: str = ""
) -> subprocess.Popen[str]:
    """Start `calculator_run.py`, and wait until its run is open."""
    command = [
        sys.executable,
        str(SCRIPT),
        str(folder),
        str(count),
        str(workers),
        str(seconds),
        *agent.split(),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.soak)])
def test_kill_9_at_random_moments_and_resume_gives_an_undisturbed_run(
    tmp_path: Path, rounds: int
) -> None:
    with start(tmp_path / "undisturbed", workers=1) as process:
        assert process.wait(60) == 0
    expected, dice, hits = timeless(read_run(tmp_path / "undisturbed")[1]), random.Random(9), 0
    for number in range(rounds):
        folder = tmp_path / str(number)
        for _ in range(4):
            with start(folder) as process:
                time.sleep(dice.uniform(0.0, 0.06))
                hits += process.poll() is None
                process.kill()
        with start(folder) as process:
            assert process.wait(60) == 0, process.stderr and process.stderr.read()
        assert sorted(timeless(read_run(folder)[1]), key=lambda e: e.task) == sorted(
            expected, key=lambda e: e.task
        )
        written = [
            json.loads(line) for line in (folder / "episodes.jsonl").read_bytes().splitlines()
        ]
        assert set(Counter((record["task"], record["epoch"]) for record in written).values()) == {1}
    assert hits >= 2 * rounds


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_a_run_cleanly_and_it_can_be_resumed(tmp_path: Path, number: int) -> None:
    with start(tmp_path / "run", seconds=0.05) as process:
        assert process.stdout is not None
        for _ in range(5):
            process.stdout.readline()
        process.send_signal(number)
        rest, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, "")
    assert "alive: 0" in rest
    _, episodes = read_run(tmp_path / "run")
    assert 5 <= len(episodes) < 30
    assert all(e.ended == "submit" for e in episodes)
    with start(tmp_path / "run") as process:
        assert process.wait(60) == 0
    assert len(read_run(tmp_path / "run")[1]) == 30


@pytest.mark.parametrize(
    ("signals", "patience"), [(2, 3.0), pytest.param(1, 12.0, marks=pytest.mark.soak)]
)
def test_ctrl_c_does_not_wait_for_a_model_that_never_answers(
    tmp_path: Path, signals: int, patience: float
) -> None:
    """Once: within some seconds. Twice: at once."""
    with start(tmp_path, agent="asking") as process:
        time.sleep(0.3)
        sent = time.monotonic()
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        _, errors = process.communicate(timeout=30)
    assert time.monotonic() - sent < patience
    assert process.returncode == 130, errors
    assert read_run(tmp_path)[1] == []
