"""Many episodes: workers take tasks from one queue, and the caller's thread records the results.

    jobs ──► worker (a thread with its own environment) ──► play ──► results ──► caller's thread
      │         │                                                                  └─► store,
      │         │                                                                      on_episode
      │         └── a fault becomes the episode's error; the worker builds a new environment
      └────► or an executor, as the hosts of `train/cluster/driver.py`, in one thread ──► results

Results do not depend on the number of workers: each episode's seed comes from the run's seed, the
task and the epoch. The first Ctrl-C or SIGTERM ends the run without recording its unfinished
episodes; a second one does not wait for the workers.
"""

from __future__ import annotations

import hashlib
import os
import queue
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from intercode.agents.base import Strategy
from intercode.envs import prepare
from intercode.errors import IntercodeError, UsageError, did_you_mean
from intercode.factory import EnvFactory
from intercode.models import Model
from intercode.runner.breaker import FAULTS_IN_A_ROW, Breaker
from intercode.runner.budget import BudgetTracker
from intercode.runner.env_forks import Playable
from intercode.runner.episode import play
from intercode.runner.episode_model import EpisodeModel
from intercode.runner.launch import program_fault
from intercode.runner.live import LiveTurns
from intercode.runner.reply_cache import open_cache, remove_cache, remove_finished
from intercode.runner.shards import Shard
from intercode.runner.warm_env import HOW_TO_RESUME, WarmEnv
from intercode.runs.store import Key, RunStore, stream_run
from intercode.tasks import in_split
from intercode.types import Episode, Task, Turn

GRACE = 5.0
"""Seconds that an interrupted run waits for its workers; a worker that is still busy then ends with
the process."""


class EpisodeExecutor(Protocol):
    """Plays jobs outside this process's threads; `here`: on this machine."""

    @property
    def here(self) -> bool: ...

    def play(
        self, jobs: Sequence[tuple[Task, int]], tracker: BudgetTracker, folder: Path | None
    ) -> Iterator[Episode]:
        """Yield the episode of each job, a task and an epoch, once; fewer if the tracker says that
        the run must stop. `folder` is the run's.

        A fault becomes an episode with an `error`; an exception ends the run.
        """
        ...


@dataclass(slots=True)
class _Run:
    """The state that workers share. An exception among the results ended its worker; None means
    that a worker has finished."""

    make_env: Callable[[], Playable]
    strategy: Strategy
    model: Model | None
    tracker: BudgetTracker
    seed: int
    values: bool = False
    folder: Path | None = None
    jobs: queue.SimpleQueue[tuple[Task, int]] = field(default_factory=queue.SimpleQueue)
    results: queue.SimpleQueue[Episode | BaseException | None] = field(
        default_factory=queue.SimpleQueue
    )
    breaker: Breaker = field(default_factory=lambda: Breaker(FAULTS_IN_A_ROW))
    fatal: IntercodeError | None = None

    def note(self, fault: IntercodeError | None) -> None:
        """Note an episode's fault (None: no fault), and stop the run in an outage."""
        if (outage := self.breaker.note(fault)) and self.fatal is None:
            self.fatal = outage
            self.tracker.stop(f"{FAULTS_IN_A_ROW} faults in a row")


def evaluate(
    make_env: Callable[[], Playable],
    strategy: Strategy,
    model: Model | None = None,
    *,
    tasks: Sequence[Task],
    store: RunStore | None = None,
    workers: int = 1,
    epochs: int = 1,
    seed: int = 0,
    tracker: BudgetTracker | None = None,
    on_episode: Callable[[Episode], None] | None = None,
    retry_errors: bool = True,
    shard: Shard | None = None,
    crew: EpisodeExecutor | None = None,
    collect: bool = True,
    values: bool = False,
) -> list[Episode]:
    """Play every task `epochs` times, except the episodes that `store` holds already, and return
    the whole run in task order; nothing without `collect`, since a run may be larger than memory.

    Episodes that failed by a fault are played again unless `retry_errors` is False. `shard` plays
    only that part. A `crew` plays in place of this process's workers. `values` gives each turn a
    `value`, as in `play`.

    `make_env` is called in each worker's thread, and again after a fault; `on_episode` in the
    caller's thread, when the episode is on disk. A fault becomes the episode's `error`; the third
    fault of one kind in a row is raised, since then a server or the machine is down (faults of the
    data do not count: each concerns one task). Ctrl-C raises `KeyboardInterrupt` after the folder
    is in order. A used-up budget ends the run early; `tracker.stop_reason()` says why. With a
    store, replies from unfinished episodes are not requested again.
    """
    tracker = tracker or BudgetTracker()
    run = _Run(make_env, strategy, model, tracker, seed, values, store.path if store else None)
    episodes, played = dict[Key, Episode](), set[Key]()
    for episode in store.episodes() if store else ():
        key = episode.task, episode.epoch
        if collect:
            episodes[key] = episode
        if is_played(episode, retry_errors=retry_errors):
            played.add(key)
        if _is_finished(episode):
            tracker.spend(episode.usage)
    order = [
        (task, epoch)
        for epoch in range(epochs)
        for task in tasks
        if shard is None or shard.has(task.id, epoch)
    ]
    todo = [(task, epoch) for task, epoch in order if (task.id, epoch) not in played]
    for task, epoch in todo:
        run.jobs.put((task, epoch))
        if store and (crew is None or crew.here):  # for replies of an earlier, interrupted process
            tracker.spend(open_cache(store.path, task.id, epoch).usage)

    def keep(episode: Episode) -> None:
        if collect:
            episodes[episode.task, episode.epoch] = episode
        if store:
            store.append(episode)
            if _is_finished(episode):
                remove_cache(store.path, episode.task, episode.epoch)

    works = [_work(run) for _ in todo[:workers]]
    if crew:
        works = [crew.play(todo, tracker, run.folder)]
    try:
        with _Interrupts(tracker) as interrupts, _working(run, works) as threads:
            for episode in _collect(run, len(threads), interrupts):
                if interrupts.at is not None and episode.reward is None:
                    continue
                keep(episode)
                if on_episode:
                    on_episode(episode)
    except BaseException:
        while not run.results.empty():  # keep the episodes that other workers have finished
            result = run.results.get()
            if isinstance(result, Episode) and _is_finished(result):
                with suppress(IntercodeError):
                    keep(result)
        raise
    if store:
        remove_finished(store.path, store.finished())
    return [episodes[task.id, epoch] for task, epoch in order if (task.id, epoch) in episodes]


def is_played(episode: Episode, *, retry_errors: bool) -> bool:
    """Return whether a resumed run leaves this earlier episode as it is."""
    return _is_finished(episode) or (episode.error is not None and not retry_errors)


def episode_seed(seed: int, task: str, epoch: int) -> int:
    """Return the seed of one episode: 31 bits of a hash of the arguments."""
    digest = hashlib.sha256(f"{seed}\0{task}\0{epoch}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def hosts_here(hosts: int | None, envs: int) -> int:
    """Return in how many processes of this machine that many environments are played: by default
    one for each four of them, and of the cores. 1 is this process alone."""
    if hosts is None:
        return max(1, min(len(os.sched_getaffinity(0)), envs) // 4)
    if hosts < 1:
        raise UsageError(f"hosts is {hosts}; it must be at least 1")
    return min(hosts, envs)


def prepare_some(
    env: str, *, task: Sequence[str] = (), limit: int | None = None, **options: Any
) -> EnvFactory:
    """Return what `prepare` returns, with only the tasks whose ids are `task`, if any; `limit`
    counts the chosen tasks."""
    if not task:
        return prepare(env, limit=limit, **options)
    factory = prepare(env, **options)
    chosen = select(factory.tasks, task, limit=limit)
    left_out = [(other, why) for other, why in factory.left_out if other.id in task]
    return replace(factory, tasks=chosen, left_out=left_out)


def select(
    tasks: Sequence[Task],
    named: Sequence[str] = (),
    *,
    split: str | None = None,
    failed_in: str | None = None,
    shuffle: bool = False,
    seed: int = 0,
    limit: int | None = None,
) -> Sequence[Task]:
    """Return the tasks with the ids `named` (none: all), and with `failed_in` only those that this
    run played and never solved.

    `split` keeps the tasks of that split. `shuffle` orders them by `seed`; `limit` keeps the first
    ones. Raises `UsageError` if there is no such task.
    """
    if unknown := sorted(set(named) - {task.id for task in tasks}):
        ids = [task.id for task in tasks]
        nearest = ", ".join(get_close_matches(unknown[0], ids, 3, 0))
        likely = did_you_mean(unknown[0], ids) or f"; the nearest are {nearest}"
        raise UsageError(f"no task has the id {unknown[0]!r}{likely}")
    chosen = [task for task in tasks if not named or task.id in named]
    if split:
        chosen = in_split(chosen, split)
    if failed_in:
        results = {(episode.task, episode.success) for episode in stream_run(failed_in)[1]}
        failed = {task for task, _ in results if (task, True) not in results}
        chosen = [task for task in chosen if task.id in failed]
    if not chosen:
        raise UsageError(f"none of these tasks was played in {failed_in} and not solved there")
    return (random.Random(seed).sample(chosen, len(chosen)) if shuffle else chosen)[:limit]


def _is_finished(episode: Episode) -> bool:
    return episode.reward is not None


def _work(run: _Run) -> Iterator[Episode]:
    """Play jobs until there are no more, or the run must stop."""
    with closing(WarmEnv(run.make_env)) as env:
        while run.tracker.stop_reason() is None:
            try:
                task, epoch = run.jobs.get_nowait()
            except queue.Empty:
                break
            episode, fault = play_job(
                env,
                task,
                run.strategy,
                run.model,
                run.tracker,
                epoch=epoch,
                run_seed=run.seed,
                folder=run.folder,
                values=run.values,
            )
            run.note(fault or program_fault(episode))
            yield episode


def _send(run: _Run, episodes: Iterator[Episode]) -> None:
    """Put the results of a worker or an executor, and the exception that ended it, if any."""
    try:
        for episode in episodes:
            run.results.put(episode)
    except BaseException as error:
        run.results.put(error)
    finally:
        run.results.put(None)


def play_job(
    env: WarmEnv,
    task: Task,
    strategy: Strategy,
    model: Model | None,
    tracker: BudgetTracker,
    *,
    epoch: int,
    run_seed: int,
    folder: Path | None = None,
    values: bool = False,
) -> tuple[Episode, IntercodeError | None]:
    """Play a task and return what `WarmEnv.run` does: after a fault, the episode has its `error`
    and the turns until then.

    With the run's `folder`, replies and turns of the unfinished episode are kept there.
    """
    seed = episode_seed(run_seed, task.id, epoch)
    turns = LiveTurns(folder, task, epoch, seed) if folder else list[Turn]()

    def play_it(env: Playable) -> Episode:
        cache = open_cache(folder, task.id, epoch) if folder else None
        asked = EpisodeModel(model, epoch, cache, tracker.limits.dialogue) if model else None
        episode = play(
            env, task, strategy, asked, tracker, epoch=epoch, seed=seed, turns=turns, values=values
        )
        return replace(episode, lost=cache.usage) if cache else episode

    try:
        return env.run(task, play_it, turns=turns, epoch=epoch, seed=seed)
    finally:
        if isinstance(turns, LiveTurns):
            turns.close()


@contextmanager
def _working(run: _Run, works: Sequence[Iterator[Episode]]) -> Iterator[list[threading.Thread]]:
    """Start a thread for each work, and wait for them. If the block fails they stop within a turn;
    the process may exit before that."""
    threads = [
        threading.Thread(target=_send, args=(run, work), name=f"worker-{i}", daemon=True)
        for i, work in enumerate(works)
    ]
    for thread in threads:
        thread.start()
    patience = GRACE
    try:
        yield threads
    except BaseException as error:
        run.tracker.stop(f"the run failed: {error!r}")
        patience = 0.0 if isinstance(error, KeyboardInterrupt) else GRACE
        raise
    finally:
        deadline = time.monotonic() + patience
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _collect(run: _Run, workers: int, interrupts: _Interrupts) -> Iterator[Episode]:
    """Yield results as they come, until all workers have finished; then raise the error that ended
    the run, if any."""
    crash: BaseException | None = None
    while workers and (interrupts.at is None or time.monotonic() - interrupts.at <= GRACE):
        with suppress(queue.Empty):
            result = run.results.get(timeout=0.2)
            if result is None:
                workers -= 1
            elif isinstance(result, BaseException):
                crash = crash or result
                run.tracker.stop(f"a worker failed: {result!r}")
            else:
                yield result
    if crash is not None:
        raise crash
    if interrupts.at is not None:
        raise KeyboardInterrupt
    if run.fatal is not None:
        raise type(run.fatal)(
            f"stopped after {FAULTS_IN_A_ROW} faults in a row: {run.fatal} ({HOW_TO_RESUME})"
        )


class _Interrupts:
    """Handle Ctrl-C and SIGTERM within the block: the first stops the budget, a second raises
    `KeyboardInterrupt`.

        first signal ──► the budget is stopped ──► workers end within a turn ──► KeyboardInterrupt
        second signal, or GRACE seconds later ───────────────────────────────────────┘

    Only Python's main thread may handle signals; in other threads, and for an ignored signal,
    nothing changes.
    """

    def __init__(self, tracker: BudgetTracker) -> None:
        self.at: float | None = None
        self._tracker = tracker
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.at is not None:
            raise KeyboardInterrupt
        self.at = time.monotonic()
        self._tracker.stop("interrupted")

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *failure: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
