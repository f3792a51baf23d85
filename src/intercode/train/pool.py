"""Play many rollouts on environments that stay warm, for a loop, a trainer's batch, a coroutine, or
a trainer that drives each episode.

    run, run_batch, play,  ──► jobs ──► thread with a WarmEnv ──► episode.play ──► Future of a
    episode, trees                                                                 Rollout
                                        thread with a WarmEnv
                                        … `envs` of them, started when they are needed

A fault ends one rollout, which has no reward, and that thread makes a new environment. Nothing is
written to disk, and no signal is handled.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from intercode.agents import Agent, Strategy, make_agent, own_agent
from intercode.env import EnvFactory, InterCodeEnv
from intercode.envs import prepare
from intercode.errors import SandboxError, UsageError
from intercode.language import PLAIN
from intercode.models import Model, OpenAIModel
from intercode.plugins import attribute_path
from intercode.runner.breaker import FAULTS_IN_A_ROW, Breaker
from intercode.runner.budget import BudgetTracker, RunLimits
from intercode.runner.env_forks import Playable
from intercode.runner.episode import play
from intercode.runner.strategy_driver import strategy_name
from intercode.runner.warm_env import WarmEnv
from intercode.runs.segments import segments_of
from intercode.train.batching import Batches, Generate, Pace
from intercode.train.chat import Chat
from intercode.train.jobs import Job, Rollout
from intercode.train.lent import GenerateOne, LentEpisode
from intercode.train.sampling import Asked, Cut, EpisodeSampler, RolloutLimits, Served, Source
from intercode.train.shaping import training_reward, warn_of_shaped
from intercode.train.stats import PoolStats, Tally
from intercode.train.tree import Growth, Tree
from intercode.types import Episode, Task, Turn

GRACE = 5.0
"""Seconds that `close` waits for episodes that are still played."""


class _Call(NamedTuple):
    """A rollout for a thread to play, the lowest priority and number first; None ends a thread."""

    priority: int
    number: int
    play: Callable[[WarmEnv], None] | None = None


class RolloutPool(AbstractContextManager["RolloutPool"]):
    """Environments that play rollouts, and stay warm from one training step to the next.

        with RolloutPool(intercode.prepare("bash", data="tasks"), "try_again", envs=64) as pool:
            for step in range(100):
                for rollout in pool.run(groups(tasks, 8, seed=8 * step), model):
                    ...

    `agent` is a name of `intercode.agents`, an `Agent` or a strategy. Up to `envs` episodes are
    played at once, each in its own environment of about 8 MiB. The methods may be called from any
    thread, but run one training step at a time.
    """

    def __init__(
        self,
        factory: Callable[[], Playable],
        agent: str | Agent | Strategy = "try_again",
        *,
        envs: int = 64,
        limits: RolloutLimits | None = None,
        tasks: Sequence[Task] = (),
        retries: int = 1,
        shaped: bool = False,
        values: bool = False,
    ) -> None:
        """`tasks` are the factory's, if the caller's own function makes the environments. A rollout
        whose sandbox or machine is lost is played again with its seed, up to `retries` times; trees
        and lent episodes are not.

        A rollout's reward is 1.0 for success and 0.0 without. `shaped`: it is the reward of the
        score instead, which may be a fraction for a wrong answer; this warns once per process.
        `values` records after each turn what a submission would have earned then.
        """
        if shaped:
            warn_of_shaped()
        if envs < 1 or retries < 0:
            raise UsageError(f"envs is {envs} and retries {retries}; they must be at least 1 and 0")
        if not callable(factory):
            raise UsageError(f"{factory!r:.50} makes no environments; give intercode.prepare(…)")
        self.limits, self.envs, self.retries = limits or RolloutLimits(), envs, retries
        self.shaped, self.values = shaped, values
        self._factory = partial(_without_turn_limit, factory)
        self._tasks = {task.id: task for task in tasks or getattr(factory, "tasks", ())}
        with closing(self._factory()) as env:
            self.strategy = _strategy(env, agent, list(self._tasks.values()), self.limits.turns)
        self._calls: queue.PriorityQueue[_Call] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._threads: list[threading.Thread] = []
        self._trackers: weakref.WeakSet[BudgetTracker] = weakref.WeakSet()
        self._lent: weakref.WeakSet[LentEpisode] = weakref.WeakSet()
        # an outage of a moment fails all episodes that are played, and no later ones
        self._pace, self._tally, self._breaker = Pace(), Tally(), Breaker(envs + FAULTS_IN_A_ROW)
        self._busy, self._lock, self._closed, self._warned = 0, threading.Lock(), False, False

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the running episodes, and close the environments. May be called twice."""
        with self._lock:
            self._closed = True
        for tracker in list(self._trackers):
            tracker.stop("the pool is closed")
        for lent in list(self._lent):
            lent.close()
        for _ in self._threads:
            self._calls.put(_Call(2, next(self._numbers)))
        deadline = time.monotonic() + GRACE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def stats(self) -> PoolStats:
        """Return the figures of the rollouts that ended since the last call: call it once a
        step."""
        return self._tally.take()

    def run(self, jobs: Iterable[Job | tuple[Any, ...]], model: Model) -> Iterator[Rollout]:
        """Yield a rollout for each job, as they finish. `jobs` may be endless: a job is taken when
        an environment is free.

        The model is asked from up to `envs` threads at once. A fault of the machine or the model
        server gives a rollout without a reward, and the others go on, until `envs` + 3 episodes in
        a row have the same fault: then it is raised, since the machine or the server is down.
        Raises `UsageError` for a mistake of the caller, such as an unknown task. Leaving the loop
        early ends the episodes that are still played.
        """
        tracker, done = self._tracker(), queue.SimpleQueue[Future[Rollout]]()
        waiting, playing = iter(jobs), 0
        try:
            while True:
                for job in itertools.islice(waiting, self.envs - playing):
                    self._submit(
                        self._job(job), Served(model), tracker, retries=self.retries
                    ).add_done_callback(done.put)
                    playing += 1
                if not playing:
                    return
                rollout = done.get().result()
                playing -= 1
                yield self._checked(rollout)
        finally:
            tracker.stop("the caller left")

    def run_batch(
        self, jobs: Iterable[Job | tuple[Any, ...]], generate: Generate, chat: Chat
    ) -> list[Rollout]:
        """Return a rollout for each job, in the order of the jobs, with replies that `generate`
        samples in batches.

        `generate(prompts)` is called in this thread with the ids of every episode that waits for a
        reply, one list per prompt, for any number of prompts from 1 to `envs`, and returns for each
        prompt the sampled ids, up to the end of the reply, and their log-probabilities. While it
        works, the other episodes act. If a call costs about the same whatever its size, it waits
        until all have acted, but no longer than it takes. `chat` (`hf_chat`) turns messages into
        ids. Faults and errors are as for `run`; what `generate` raises is raised.
        """
        tracker, batches = self._tracker(), Batches(generate, self._pace)
        source = Asked(batches.inbox.put, chat, self.limits)
        futures: list[Future[Rollout]] = []
        for job in list(map(self._job, jobs)):  # a wrong job stops the batch before it begins
            futures.append(self._submit(job, source, tracker, retries=self.retries))
        batches.serve(lambda: min(self.envs, _unfinished(futures)), tracker.stop)
        return [self._checked(future.result()) for future in futures]

    async def play(
        self,
        job: Job | tuple[Any, ...],
        model: Model | None = None,
        *,
        generate: GenerateOne | None = None,
        chat: Chat | None = None,
    ) -> Rollout:
        """Play one job without blocking the event loop. A cancelled call ends its episode within a
        turn.

        The replies come from `model`, or from `await generate(ids)` with `chat`: it returns the
        sampled ids of the reply and their log-probabilities, and what it raises is raised. Call
        `play` as often as you like; up to `envs` episodes are played at once.
        """
        if (model is None) == (generate is None) or (generate is None) != (chat is None):
            raise UsageError("a rollout is played with a model, or with generate and chat")
        if generate:
            async with self.episode(job, chat) as episode:
                while not episode.done:
                    ids, logprobs = await generate(episode.prompt)
                    await episode.feed(ids, logprobs)
                assert episode.rollout
                return episode.rollout
        tracker = self._tracker()
        try:
            played = self._submit(self._job(job), Served(model), tracker, retries=self.retries)  # type: ignore[arg-type]
            return self._checked(await asyncio.wrap_future(played))
        except asyncio.CancelledError:
            tracker.stop("cancelled")
            raise

    def episode(self, job: Job | tuple[Any, ...], chat: Chat | None = None) -> LentEpisode:
        """Lend an episode to a caller that drives it, with token ids (`chat`) or with texts.

        Use it with `async with` or `with`: the block begins with the first question, and leaving it
        ends the episode. It waits while `envs` episodes are played.
        """
        tracker, job = self._tracker(), self._job(job)
        lent = LentEpisode(
            lambda source: self._submit(job, source, tracker), tracker.stop, chat, self.limits
        )
        self._lent.add(lent)
        return lent

    def tree(self, job: Job | tuple[Any, ...], model: Model | None = None, **options: Any) -> Tree:
        """Play one job as a tree, as `trees` does."""
        (tree,) = self.trees([job], model, **options)
        return tree

    def trees(
        self,
        jobs: Iterable[Job | tuple[Any, ...]],
        model: Model | None = None,
        *,
        widths: Sequence[int] = (4, 2, 2),
        generate: Generate | None = None,
        chat: Chat | None = None,
    ) -> list[Tree]:
        """Play each job as a tree, all in one batch: fork the live episode before its first,
        second, … action into `widths` branches each.

        The replies come from `model`, or from `generate` with `chat` as in `run_batch`. A branch
        that waits for a free thread is a live environment, about `envs` times the sum of `widths`
        at most. Raises `UsageError` if neither or both are given, or for an agent that forks by
        itself.
        """
        if (model is None) == (generate is None) or (generate is None) != (chat is None):
            raise UsageError("a tree is played with a model, or with generate and chat")
        if isinstance(widths, int) or not all(
            isinstance(width, int) and width > 0 for width in widths
        ):
            raise UsageError(
                f"the widths of a tree are numbers of 1 or more, such as (4, 2, 2), not {widths!r}"
            )
        tracker, roots = self._tracker(), list(map(self._job, jobs))
        batches = Batches(generate, self._pace) if generate else None
        source = (
            Asked(batches.inbox.put, chat, self.limits) if batches and chat else Served(model)  # type: ignore[arg-type]
        )
        growths = [
            Growth(partial(self._submit, root, source, tracker), widths, root.seed)
            for root in roots
        ]

        def unfinished() -> list[Future[Rollout]]:
            return [
                future for growth in growths for future in growth.futures() if not future.done()
            ]

        try:
            for growth in growths:
                growth.begin()
            if batches:
                batches.serve(lambda: min(self.envs, len(unfinished())), tracker.stop)
            while waiting := unfinished():
                wait(waiting, return_when=FIRST_COMPLETED)
            return [growth.tree() for growth in growths]
        finally:
            tracker.stop("the caller left")

    # -- inside ------------------------------------------------------------------------------------

    def _tracker(self) -> BudgetTracker:
        tracker = BudgetTracker(RunLimits(self.limits.turns))
        self._trackers.add(tracker)
        return tracker

    def _job(self, job: Job | tuple[Any, ...]) -> Job:
        fields = job if isinstance(job, tuple) and 1 <= len(job) <= 3 else (job,)
        job = Job(*fields)
        if (
            not isinstance(job.task, str | Task)
            or not isinstance(job.seed, int)
            or not 0 <= job.seed < 2**31
        ):
            raise UsageError(
                f"{job!r:.200} is not a job: "
                "it is (task, seed), a Task or its id and a number from 0 to 2³¹ − 1"
            )
        if isinstance(job.task, str):
            if job.task not in self._tasks:
                raise UsageError(f"no task has the id {job.task!r}")
            job = job._replace(task=self._tasks[job.task])
        return job

    def _submit(
        self,
        job: Job,
        source: Source,
        tracker: BudgetTracker,
        *,
        sampler: EpisodeSampler | None = None,
        env: WarmEnv | None = None,
        wrap: Callable[[Playable, EpisodeSampler], Playable] | None = None,
        retries: int = 0,
    ) -> Future[Rollout]:
        """Play a job on the next free thread; `env` replaces the thread's own environment, and is
        closed afterwards."""
        future: Future[Rollout] = Future()
        asked = sampler or EpisodeSampler(source, self.limits, job.seed)

        def call(warm: WarmEnv) -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                place, sampler = env or warm, asked
                for left in range(retries, -1, -1):
                    played = self._play(job, place, sampler, tracker, wrap, retry=left > 0)
                    if played:
                        break
                    sampler = EpisodeSampler(source, self.limits, job.seed)
                assert played
                future.set_result(played)
            except BaseException as error:
                future.set_exception(error)
            finally:
                if env:
                    env.close()

        future.add_done_callback(lambda _: source.note_end())
        with self._lock:
            if self._closed:
                raise UsageError("the pool is closed; make a new one")
            self._busy += 1
            if self._busy > len(self._threads) and len(self._threads) < self.envs:
                self._threads.append(
                    threading.Thread(
                        target=self._work, name=f"rollout-{len(self._threads)}", daemon=True
                    )
                )
                self._threads[-1].start()
        number = next(self._numbers)
        # the newest branch of a tree comes first, since each that waits keeps an environment
        self._calls.put(_Call(0, -number, call) if env else _Call(1, number, call))
        return future

    def _work(self) -> None:
        with closing(WarmEnv(self._factory)) as env:
            while play := self._calls.get().play:
                play(env)
                with self._lock:
                    self._busy -= 1

    def _play(
        self,
        job: Job,
        env: WarmEnv,
        sampler: EpisodeSampler,
        tracker: BudgetTracker,
        wrap: Callable[[Playable, EpisodeSampler], Playable] | None,
        *,
        retry: bool,
    ) -> Rollout | None:
        """Return the rollout of a job; with `retry`, None if its sandbox or machine was lost."""
        task, turns = job.task, list[Turn]()
        assert isinstance(task, Task)

        def play_it(env: Playable) -> Episode:
            # an environment of another machine may play there
            play_there = None if wrap else getattr(env, "play_rollout", None)
            play_this = play_there or partial(play, wrap(env, sampler) if wrap else env)
            arguments = (task, self.strategy, sampler, tracker)
            episode: Episode = play_this(*arguments, seed=job.seed, turns=turns, values=self.values)
            return episode

        started = time.perf_counter()
        if tracker.stop_reason():
            episode = Episode(task.id, task.query, (), None, False, "limit", seed=job.seed)
        else:
            episode, fault = env.run(task, play_it, turns=turns, seed=job.seed)
            if outage := self._breaker.note(fault):
                why = f"{self._breaker.most} faults in a row, the last: {outage}"
                tracker.stop(why)
                raise type(outage)(why) from outage
            if retry and isinstance(fault, SandboxError):
                self._tally.note_replay()
                return None
        cut: Cut | None = None
        if episode.reward is not None and episode.turns:
            # the strategy submitted without asking the policy, since no turns were left
            used_up = (
                turns[-1].ask is None and sum(turn.acted for turn in turns) > self.limits.turns
            )
            at_turns = used_up or episode.ended == "turns"
            cut = sampler.cut or ("turns" if at_turns and episode.ended != "limit" else None)
        reward = training_reward(episode, shaped=self.shaped)
        rollout = Rollout(
            task.id, job.group, job.seed, segments_of(episode.turns), reward, episode, cut
        )
        self._tally.note(rollout, time.perf_counter() - started)
        return rollout

    def _checked(self, rollout: Rollout) -> Rollout:
        """Warn once about an agent that does not continue one conversation."""
        if len(rollout.segments) > 1 and not self._warned:
            self._warned = True
            warnings.warn(
                f"a rollout has {len(rollout.segments)} segments: "
                "the agent rewrites its history or draws several replies, or the server renders "
                "a conversation anew at each turn, for example without earlier reasoning "
                "(keep_reasoning=True sends it back)",
                RuntimeWarning,
                stacklevel=3,
            )
        return rollout


def _without_turn_limit(factory: Callable[[], Playable]) -> Playable:
    """Return a new environment that does not count turns: the pool does, and scores the state after
    the last one."""
    env = factory()
    if isinstance(env, InterCodeEnv):
        env.max_turns = None
    return env


def _unfinished(futures: Sequence[Future[Rollout]]) -> int:
    return sum(not future.done() for future in futures)


def _strategy(
    env: Playable, agent: str | Agent | Strategy, tasks: Sequence[Task], turns: int
) -> Strategy:
    """Return the strategy of an agent, for an environment's language and prompts."""
    if isinstance(agent, Agent):
        return agent.strategy
    folder = (
        attribute_path(type(env), "prompts")
        if isinstance(env, InterCodeEnv)
        else getattr(env, "prompts", None)
    )
    prompts = Path(folder) if folder else None
    language = getattr(env, "language", PLAIN)
    if not isinstance(agent, str):
        name = strategy_name(agent)
        return own_agent(name, agent, language=language, turns=turns, prompts=prompts).strategy
    return make_agent(agent, tasks=tasks, language=language, turns=turns, prompts=prompts).strategy


def rollout(
    task: Task | str,
    *,
    env: str | EnvFactory | InterCodeEnv = "bash",
    agent: str | Agent | Strategy = "try_again",
    model: str | Model,
    base_url: str | None = None,
    api_key: str | None = None,
    seed: int = 0,
    values: bool = False,
    **limits: Any,
) -> Episode:
    """Play one episode with a model at any OpenAI-compatible address, sampled at temperature 1, and
    return the episode.

    `env` is a name of `intercode.make`, a factory of `intercode.prepare`, which many calls may
    share, or the caller's own environment, which stays open. `limits` are the fields of
    `RolloutLimits`; `reply_tokens` is sent to the server. A limit ends the episode, which is then
    scored. The turns contain the tokens if the server returns them; `segments_of(episode.turns)`
    joins them. `values` gives each turn a `value`. Raises `ModelError`, `SandboxError` and
    `DataError` for faults, which are not results, and `UsageError`.
    """
    bounds = RolloutLimits(**limits)
    given_model = model
    if isinstance(model, str):
        how: dict[str, Any] = {"max_tokens": bounds.reply_tokens, "logprobs": True}
        model = OpenAIModel(model, base_url=base_url, api_key=api_key, temperature=1.0, **how)
    given = prepare(env) if isinstance(env, str) else env
    world = given if isinstance(given, InterCodeEnv) else given()
    # `play` counts the turns, and scores the state after the last one
    turns_of_caller, world.max_turns = world.max_turns, None
    try:
        chosen = (
            next((candidate for candidate in world.tasks if candidate.id == task), None)
            if isinstance(task, str)
            else task
        )
        if chosen is None:
            raise UsageError(f"no task has the id {task!r}")
        strategy = _strategy(world, agent, world.tasks, bounds.turns)
        tracker = BudgetTracker(RunLimits(bounds.turns))
        sampler = EpisodeSampler(Served(model), bounds, seed)
        return play(world, chosen, strategy, sampler, tracker, seed=seed, values=values)
    finally:
        world.max_turns = turns_of_caller
        if world is not given:
            world.close()
        if isinstance(model, OpenAIModel) and model is not given_model:
            model.close()
