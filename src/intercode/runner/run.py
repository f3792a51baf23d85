"""Many episodes: workers take them from one queue, the caller's thread writes them down.

    jobs ──► worker (a thread with its own environment) ──► play ──► results ──► caller's thread ──► store, on_episode
                └── a fault becomes the episode's error; the environment is thrown away and built anew

Results do not depend on the number of workers: each episode's seed comes from the run's seed, the task and the epoch.
The first Ctrl-C or SIGTERM cuts the episodes under way off, unrecorded, and ends the run; a second does not wait.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from intercode.agents.base import Strategy
from intercode.errors import DataError, IntercodeError, UsageError, room_left
from intercode.models.base import Model
from intercode.plugins import fault_of, is_user_code
from intercode.runner.budget import BudgetTracker
from intercode.runner.env_forks import Playable
from intercode.runner.episode import play
from intercode.runner.episode_model import EpisodeModel
from intercode.runner.interrupts import GRACE, Interrupts
from intercode.runner.reply_cache import open_cache, remove_finished
from intercode.store import RunStore
from intercode.types import Episode, Task, Turn, Usage

FAULTS_IN_A_ROW = 3
KEPT = "finished episodes are kept; when it is mended, go on with --resume DIR"
THEIRS = f"{KEPT} --allow-code-change"
"""Where it is code of the caller's that is to be mended."""


class _Faults:
    """Counts faults of one kind in a row, over all workers, and stops the run at the third."""

    def __init__(self, meter: BudgetTracker) -> None:
        self.fatal: IntercodeError | None = None
        self._meter = meter
        self._row: list[IntercodeError] = []
        self._lock = threading.Lock()

    def note(self, fault: IntercodeError | None) -> None:
        """Called after each episode. The data's faults are one task's own: they neither count nor break a row."""
        if isinstance(fault, DataError):
            return
        with self._lock:
            self._row = [*(f for f in self._row if type(f) is type(fault)), fault] if fault else []
            if len(self._row) >= FAULTS_IN_A_ROW and self.fatal is None:
                self.fatal = fault
                self._meter.stop(f"{FAULTS_IN_A_ROW} faults in a row")

    def raise_fatal(self) -> None:
        if self.fatal is not None:
            raise type(self.fatal)(f"stopped after {FAULTS_IN_A_ROW} faults in a row: {self.fatal} ({KEPT})")


@dataclass(frozen=True, slots=True)
class _Run:
    """What the workers share. A result that is an exception ended its worker; None says that a worker is done."""

    make_env: Callable[[], Playable]
    strategy: Strategy
    model: Model | None
    meter: BudgetTracker
    faults: _Faults
    seed: int
    folder: Path | None = None
    jobs: queue.SimpleQueue[tuple[Task, int]] = field(default_factory=queue.SimpleQueue)
    results: queue.SimpleQueue[Episode | BaseException | None] = field(default_factory=queue.SimpleQueue)


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
    meter: BudgetTracker | None = None,
    on_episode: Callable[[Episode], None] | None = None,
    retry_errors: bool = True,
) -> list[Episode]:
    """Play every task `epochs` times, except what `store` holds already, and return the whole run in task order.

    What failed by a fault is played again, but for `retry_errors=False`.

    `make_env` is called in each worker's thread, and again after a fault; `on_episode` in this thread, when the episode
    is on disk. A fault ends up in the episode's `error`; the third of one kind in a row is raised, for then a server or
    the machine is down (the data's faults do not count: they are one task's own). Ctrl-C raises `KeyboardInterrupt`
    once the folder is in order. A spent budget ends the run early; `meter.over()` tells. With a store, what a model
    answered in episodes that did not come to their end is not asked again.
    """
    meter = meter or BudgetTracker()
    run = _Run(make_env, strategy, model, meter, _Faults(meter), seed, store.path if store else None)
    done = {(episode.task, episode.epoch): episode for episode in (store.episodes() if store else ())}
    order = [(task, epoch) for epoch in range(epochs) for task in tasks]
    played = {key for key, episode in done.items() if _is_finished(episode) or (episode.error is not None and not retry_errors)}
    todo = [(task, epoch) for task, epoch in order if (task.id, epoch) not in played]
    meter.spend(sum((episode.usage for episode in done.values() if _is_finished(episode)), Usage()))
    for task, epoch in todo:
        run.jobs.put((task, epoch))
        if store:  # the replies that were had before it was cut off
            meter.spend(open_cache(store.path, task.id, epoch).usage)

    def keep(episode: Episode) -> None:
        done[episode.task, episode.epoch] = episode
        if store:
            store.append(episode)
            if _is_finished(episode):
                open_cache(store.path, episode.task, episode.epoch).remove()

    try:
        with Interrupts(meter) as interrupts, _working(run, min(workers, len(todo))) as threads:
            for episode in _collect(run, len(threads), interrupts):
                if interrupts.at is not None and episode.reward is None:
                    continue
                keep(episode)
                if on_episode:
                    on_episode(episode)
    except BaseException:
        while not run.results.empty():  # what others had finished by then is kept all the same
            result = run.results.get()
            if isinstance(result, Episode) and _is_finished(result):
                with suppress(IntercodeError):
                    keep(result)
        raise
    if store:
        remove_finished(store.path, filter(_is_finished, done.values()))
    return [done[task.id, epoch] for task, epoch in order if (task.id, epoch) in done]


def episode_seed(seed: int, task: str, epoch: int) -> int:
    """The seed of one episode: 31 bits of a hash, so that it depends on nothing else that runs."""
    digest = hashlib.sha256(f"{seed}\0{task}\0{epoch}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _is_finished(episode: Episode) -> bool:
    return episode.reward is not None


def _work(run: _Run) -> None:
    """One worker's life."""
    try:
        with closing(_Seat(run)) as seat:
            while run.meter.over() is None:
                try:
                    job = run.jobs.get_nowait()
                except queue.Empty:
                    break
                run.results.put(seat.play(*job))
    except BaseException as error:
        run.results.put(error)
    finally:
        run.results.put(None)


class _Seat:
    """One worker's place at an environment of its own, which is built when it is first needed."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._env: Playable | None = None

    def play(self, task: Task, epoch: int) -> Episode:
        """The boundary where a fault becomes an episode's error, with the turns that were played until then."""
        run, turns, fault = self._run, list[Turn](), None
        seed = episode_seed(run.seed, task.id, epoch)
        try:
            kept = open_cache(run.folder, task.id, epoch) if run.folder else None
            model = EpisodeModel(run.model, epoch, kept) if run.model else None
            with room_left():
                self._env = self._env or run.make_env()
                place = (self._env, task, run.strategy, model, run.meter)
                with placing(task, run.folder):
                    episode = play(*place, epoch=epoch, seed=seed, turns=turns)
            episode = replace(episode, lost=kept.usage) if kept else episode
        except UsageError:
            raise
        except Exception as error:
            fault = fault_of(error)
            text = f"{fault.fault}: {fault}"
            episode = Episode(task.id, task.query, tuple(turns), None, False, None, {}, epoch, seed, text, split=task.split)
            self.close()
        run.faults.note(fault)
        return episode

    def close(self) -> None:
        """Close the environment; one that has just failed may fail to close as well."""
        env, self._env = self._env, None
        try:
            if env is not None:
                env.close()
        except Exception as error:
            fault_of(error)  # its episode has an error already


@contextmanager
def placing(task: Task, folder: Path | None = None) -> Iterator[None]:
    """Wrong use in an episode, told with its task; what an environment of the caller's raises has that in a note."""
    place = f"task {task.id}{f'; {THEIRS}' if folder else ''}"
    try:
        yield
    except UsageError as fault:
        raise UsageError(f"{fault} ({place})") from fault
    except (Exception, SystemExit) as error:
        if is_user_code(error):
            error.add_note(place)
        raise


@contextmanager
def _working(run: _Run, workers: int) -> Iterator[list[threading.Thread]]:
    """Workers at work. If the block fails they stop within a turn; as daemons they never hold up the exit."""
    threads = [threading.Thread(target=_work, args=(run,), name=f"worker-{i}", daemon=True) for i in range(workers)]
    for thread in threads:
        thread.start()
    try:
        yield threads
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        run.meter.stop(f"the run failed: {error!r}")
        _join(threads)
        raise
    else:
        _join(threads)


def _join(threads: Sequence[threading.Thread]) -> None:
    deadline = time.monotonic() + GRACE
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _collect(run: _Run, workers: int, interrupts: Interrupts) -> Iterator[Episode]:
    """Results as they come, until all workers are done; then what ended the run, if anything did, is raised."""
    crash: BaseException | None = None
    while workers and not interrupts.overdue():
        with suppress(queue.Empty):
            result = run.results.get(timeout=0.2)
            if result is None:
                workers -= 1
            elif isinstance(result, BaseException):
                crash = crash or result
                run.meter.stop(f"a worker failed: {result!r}")
            else:
                yield result
    if crash is not None:
        raise crash
    if interrupts.at is not None:
        raise KeyboardInterrupt
    run.faults.raise_fatal()
