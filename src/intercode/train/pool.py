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
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from intercode.env import InterCodeEnv
from intercode.envs import prepare
from intercode.errors import SandboxError, UsageError
from intercode.factory import EnvFactory
from intercode.models import Model, OpenAIModel
from intercode.runner.breaker import FAULTS_IN_A_ROW, Breaker
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play
from intercode.runner.run import hosts_here
from intercode.runner.warm_env import WarmEnv
from intercode.runs.segments import segments_of
from intercode.train.batching import Batches, Generate, Pace, Wait
from intercode.train.chat import Chat
from intercode.train.jobs import Group, Job, JobLike, Order, Rollout
from intercode.train.lent import GenerateOne, LentEpisode
from intercode.train.sampling import Asked, Cut, EpisodeSampler, RolloutLimits, Served, Source
from intercode.train.settings import AnyAgent, Factory, Setting, find_task, strategy_of
from intercode.train.shaping import training_reward, warn_of_shaped
from intercode.train.stats import PoolStats, Tally
from intercode.train.tree import Growth, Tree
from intercode.train.workers import CLOSED, Workers
from intercode.types import Episode, Task

GRACE = 5.0
"""Seconds that `close` waits for episodes that are still played."""


class RolloutPool(AbstractContextManager["RolloutPool"]):
    """Environments that play rollouts, and stay warm from one training step to the next.

        with RolloutPool(intercode.prepare("bash", data="tasks"), "try_again", envs=64) as pool:
            for step in range(100):
                for rollout in pool.run(groups(tasks, 8, seed=8 * step), model):
                    ...

    `agent` is a name of `intercode.agents`, an `Agent` or a strategy. Up to `envs` episodes are
    played at once, each in its own environment of about 8 MiB. The methods may be called from any
    thread, but run one training step at a time. Those that play take `limits`, which replace the
    pool's, and a `tag`, such as "eval", under which `stats` and `log` count their rollouts apart.
    """

    def __init__(
        self,
        factory: Factory | Sequence[Factory],
        agent: AnyAgent = "try_again",
        *,
        envs: int = 64,
        hosts: int | None = None,
        limits: RolloutLimits | None = None,
        tasks: Sequence[Task] = (),
        retries: int = 1,
        shaped: bool = False,
        values: bool = False,
    ) -> None:
        """Several factories make one pool for the tasks of all of them. `tasks` are the factory's,
        if the caller's own function makes the environments. A rollout whose sandbox or machine is
        lost is played again with its seed, up to `retries` times; trees and lent episodes are not.

        Environments of `intercode.prepare` are spread over `hosts` processes of this machine, by
        default one for each four of its cores and of `envs`; 1 is this process. Environments of
        other functions stay in this process.

        A rollout's reward is 1.0 for success and 0.0 without. `shaped`: it is the reward of the
        score instead, which may be a fraction for a wrong answer; this warns once per process.
        `values` records after each turn what a submission would have earned then.
        """
        if shaped:
            warn_of_shaped()
        if envs < 1 or retries < 0:
            raise UsageError(f"envs is {envs} and retries {retries}; they must be at least 1 and 0")
        factories = [factory] if callable(factory) else list(factory)
        for make in factories:
            if not callable(make):
                raise UsageError(f"{make!r:.50} makes no environments; give intercode.prepare(…)")
        if not factories or (tasks and len(factories) > 1):
            raise UsageError("give one factory with its tasks, or several that have tasks")
        self.limits, self.envs, self.retries = limits or RolloutLimits(), envs, retries
        self.shaped, self.values, self.settings = shaped, values, list[Setting]()
        # by default, only factories that can be sent
        if hosts is None and not all(getattr(make, "prepare_again", None) for make in factories):
            hosts = 1
        if hosts is not None and hosts > envs:
            warnings.warn(f"hosts is {hosts}, but {envs} environments need no more", stacklevel=2)
        hosts, host_envs = hosts_here(hosts, envs), None
        with ExitStack() as opened:
            if hosts > 1:
                # only now, since this imports all that plays an evaluation
                from intercode.train.cluster.envs import spread

                host_envs = spread(factories, hosts, 2 * envs)
            if host_envs:
                opened.callback(host_envs.close)
            for number, make in enumerate(factories):
                maker = partial(host_envs.make, number) if host_envs else make
                own_tasks = tasks or getattr(make, "tasks", ())
                self.settings.append(Setting(maker, own_tasks, agent, self.limits.turns))
            self._hosts, self._host_envs = opened.pop_all(), host_envs
        self._workers = Workers(envs)
        self._trackers = weakref.WeakSet[BudgetTracker]()
        self._lent = weakref.WeakSet[LentEpisode]()
        # an outage of a moment fails all episodes that are played, and no later ones
        self._pace, self._tally, self._breaker = Pace(), Tally(), Breaker(envs + FAULTS_IN_A_ROW)
        self._warned = False

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the running episodes, and close the environments. May be called twice."""
        for tracker in list(self._trackers):
            tracker.stop(CLOSED)
        for lent in list(self._lent):
            lent.close()
        self._workers.close(GRACE)
        self._hosts.close()

    def warm(self) -> None:
        """Start all environments, so that the first step is as fast as the others. Raises
        `SandboxError` if one does not start, and `UsageError` without tasks."""
        settings = [setting for setting in self.settings if setting.tasks]
        if not settings:
            raise UsageError("the environments have no tasks, so none can begin an episode")
        all_started = threading.Barrier(self.envs)
        faults = queue.SimpleQueue[BaseException | None]()

        def start(task: Task, env: WarmEnv) -> None:
            fault: BaseException | None = None
            try:
                env.start(task)
                all_started.wait()  # until then, this worker takes no other call
            except threading.BrokenBarrierError:
                pass
            except BaseException as error:
                fault = error
                all_started.abort()
            faults.put(fault)

        try:
            for setting in itertools.islice(itertools.cycle(settings), self.envs):
                self._workers.submit(setting, partial(start, setting.tasks[0]))
        except UsageError:  # the pool is closed
            all_started.abort()
            raise
        for fault in [faults.get() for _ in range(self.envs)]:
            if fault:
                raise fault

    def stats(self, tag: str = "") -> PoolStats:
        """Return the figures of the rollouts with this tag that ended since the last call: call it
        once a step."""
        benched = self._host_envs.benched() if self._host_envs else 0
        return self._tally.take(tag, benched)

    def log(self, step: int, tag: str = "") -> dict[str, float]:
        """Return the numbers of `stats` by name, with the step, as loggers take them; with a tag,
        the names begin with it: `eval/reward`."""
        numbers = self.stats(tag).numbers()
        if tag:
            numbers = {f"{tag}/{name}": value for name, value in numbers.items()}
        return {"step": step, **numbers}

    def run(
        self,
        jobs: Iterable[JobLike],
        model: Model,
        *,
        limits: RolloutLimits | None = None,
        tag: str = "",
    ) -> Iterator[Rollout]:
        """Yield a rollout for each job, as they finish. `jobs` may be endless: a job is taken when
        an environment is free.

        The model is asked from up to `envs` threads at once. A fault of the machine or the model
        server gives a rollout without a reward, and the others go on, until `envs` + 3 episodes in
        a row have the same fault: then it is raised, since the machine or the server is down.
        Raises `UsageError` for a mistake of the caller, such as an unknown task. Leaving the loop
        early ends the episodes that are still played.
        """
        source = Served(model, limits or self.limits)
        waiting, playing, finished = iter(jobs), 0, queue.SimpleQueue[Future[Rollout]]()
        newest: Group | None = None
        try:
            while True:
                for job in itertools.islice(waiting, self.envs - playing):
                    order = self._order(job, source, tag)
                    self._tally.follow(newest, order.group)
                    newest = order.group
                    self._submit(order, self.retries).add_done_callback(finished.put)
                    playing += 1
                if not playing:
                    return
                rollout = finished.get().result()
                playing -= 1
                yield self._checked(rollout)
        except GeneratorExit:
            if newest:
                self._tally.leave(newest)
            raise
        finally:
            self._tally.follow(newest, None)
            source.tracker.stop("the caller left")

    def run_batch(
        self,
        jobs: Iterable[JobLike],
        generate: Generate,
        chat: Chat,
        *,
        wait: Wait = "auto",
        limits: RolloutLimits | None = None,
        tag: str = "",
    ) -> list[Rollout]:
        """Return a rollout for each job, in the order of the jobs, with replies that `generate`
        samples in batches.

        `generate(prompts)` is called in this thread with the ids of every episode that waits for a
        reply, one list per prompt, for any number of prompts from 1 to `envs`, and returns for each
        prompt the sampled ids, up to the end of the reply, their log-probabilities, and perhaps the
        version of the policy, a text or number (`Segment.policy_versions`). A call waits until half
        of the episodes that play have asked, and the others act while it works; or until all have,
        if the calls' durations promise that to be faster, or as `wait` says. It does not wait for
        an episode that acts for much longer than the others. `chat` (`hf_chat`) turns messages into
        ids. Faults and errors are as for `run`; what `generate` raises is raised.
        """
        batches = Batches(generate, self._pace, wait)
        source = Asked(batches.inbox.put, chat, limits or self.limits)
        # a wrong job stops the batch before it begins
        orders = [self._order(job, source, tag) for job in jobs]
        futures = [self._submit(order, self.retries) for order in orders]

        def playing() -> int:
            return min(self.envs, sum(not future.done() for future in futures))

        batches.serve(playing, source.tracker.stop)
        return [self._checked(future.result()) for future in futures]

    async def play(
        self,
        job: JobLike,
        model: Model | None = None,
        *,
        generate: GenerateOne | None = None,
        chat: Chat | None = None,
        limits: RolloutLimits | None = None,
        tag: str = "",
    ) -> Rollout:
        """Play one job without blocking the event loop. A cancelled call ends its episode within a
        turn.

        The replies come from `model`, or from `await generate(ids)` with `chat`: it returns one
        reply as in `run_batch`, and what it raises is raised. Call `play` as often as you like; up
        to `envs` episodes are played at once.
        """
        if generate and chat and not model:
            async with self.episode(job, chat, limits=limits, tag=tag) as episode:
                while not episode.done:
                    await episode.feed(*await generate(episode.prompt))
                assert episode.rollout
                return episode.rollout
        if not model or generate or chat:
            raise UsageError("a rollout is played with a model, or with generate and chat")
        order = self._order(job, Served(model, limits or self.limits), tag)
        try:
            rollout = await asyncio.wrap_future(self._submit(order, self.retries))
        except asyncio.CancelledError:
            order.tracker.stop("cancelled")
            raise
        return self._checked(rollout)

    def episode(
        self,
        job: JobLike,
        chat: Chat | None = None,
        *,
        limits: RolloutLimits | None = None,
        tag: str = "",
    ) -> LentEpisode:
        """Lend an episode to a caller that drives it, with token ids (`chat`) or with texts.

        Use it with `async with` or `with`: the block begins with the first question, and leaving it
        ends the episode. It waits while `envs` episodes are played.
        """
        lent = LentEpisode(
            partial(self._order, job, tag=tag), self._submit, chat, limits or self.limits
        )
        self._lent.add(lent)
        return lent

    def tree(self, job: JobLike, model: Model | None = None, **options: Any) -> Tree:
        """Play one job as a tree, as `trees` does."""
        return self.trees([job], model, **options)[0]

    def trees(
        self,
        jobs: Iterable[JobLike],
        model: Model | None = None,
        *,
        widths: Sequence[int] = (4, 2, 2),
        generate: Generate | None = None,
        chat: Chat | None = None,
        limits: RolloutLimits | None = None,
        tag: str = "",
    ) -> list[Tree]:
        """Play each job as a tree, all in one batch: fork the live episode before its first,
        second, … action into `widths` branches each.

        The replies come from `model`, or from `generate` with `chat` as in `run_batch`. A branch
        that waits for a free thread is a live environment, about `envs` times the sum of `widths`
        at most. Raises `UsageError` if neither or both are given, or for an agent that forks by
        itself.
        """
        limits, batches = limits or self.limits, None
        source: Source
        if generate and chat and not model:
            batches = Batches(generate, self._pace)
            source = Asked(batches.inbox.put, chat, limits)
        elif model and not generate and not chat:
            source = Served(model, limits)
        else:
            raise UsageError("a tree is played with a model, or with generate and chat")
        if isinstance(widths, int) or not all(
            isinstance(width, int) and width > 0 for width in widths
        ):
            raise UsageError(
                f"the widths of a tree are numbers of 1 or more, such as (4, 2, 2), not {widths!r}"
            )
        growths = [Growth(self._order(job, source, tag), widths, self._submit) for job in jobs]

        def unfinished() -> list[Future[Rollout]]:
            futures = []
            for growth in growths:
                futures += growth.unfinished()
            return futures

        try:
            for growth in growths:
                growth.begin()
            if batches:
                batches.serve(lambda: min(self.envs, len(unfinished())), source.tracker.stop)
            while waiting := unfinished():
                wait(waiting, return_when=FIRST_COMPLETED)
            return [growth.tree() for growth in growths]
        finally:
            source.tracker.stop("the caller left")

    # -- inside ------------------------------------------------------------------------------------

    def _order(self, job: JobLike, source: Source, tag: str) -> Order:
        """Return the order of a job. Raises `UsageError` if it is not a job of this pool."""
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
        task, setting = find_task(self.settings, job.task)
        self._trackers.add(source.tracker)
        group, sampler = Group(tag, job.group, task.id), EpisodeSampler(source, job.seed)
        return Order(task, job.seed, group, setting, sampler, source.tracker, self.values)

    def _submit(self, order: Order, retries: int = 0) -> Future[Rollout]:
        """Play an order on the next free thread."""
        future = Future[Rollout]()

        def call(env: WarmEnv) -> None:
            if not future.set_running_or_notify_cancel():
                self._tally.end(order.group)
                return
            try:
                with ExitStack() as closing:
                    closing.callback(self._tally.end, order.group)
                    if order.env:
                        env = order.env
                        closing.callback(env.close)
                    rollout = self._play(order, env, retries)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(rollout)

        source = order.sampler.source
        future.add_done_callback(lambda _: source.note_end())
        self._tally.begin(order.group)
        # the newest branch of a tree comes first, since each that waits keeps an environment
        self._workers.submit(order.setting, call, newest_first=order.env is not None)
        return future

    def _play(self, order: Order, env: WarmEnv, retries: int) -> Rollout:
        """Return the rollout of an order, played again if its sandbox or machine was lost."""
        task, seed, tracker = order.task, order.seed, order.tracker
        while True:
            started = time.perf_counter()
            if tracker.stop_reason():
                episode = Episode(task.id, task.query, (), None, False, "limit", seed=seed)
                break
            episode, fault = env.run(task, order.play, turns=order.turns, seed=seed)
            if outage := self._breaker.note(fault):
                why = f"{self._breaker.most} faults in a row, the last: {outage}"
                tracker.stop(why)
                raise type(outage)(why) from outage
            if not retries or not isinstance(fault, SandboxError):
                break
            retries -= 1
            self._tally.note_replay(order.group.tag)
            order = replace(order, sampler=EpisodeSampler(order.sampler.source, seed), turns=[])
        if episode.reward is None and tracker.stop_reason() == CLOSED:
            raise UsageError(CLOSED)
        cut: Cut | None = None
        turns = order.turns
        if episode.reward is not None and episode.turns:
            # the strategy submitted without asking the policy, since no turns were left
            most = order.sampler.limits.turns
            used_up = turns[-1].ask is None and sum(turn.acted for turn in turns) > most
            cut = order.sampler.cut
            if not cut and (episode.ended == "turns" or (used_up and episode.ended != "limit")):
                cut = "turns"
        rollout = Rollout(
            task.id,
            order.group.number,
            seed,
            segments_of(episode.turns),
            training_reward(episode, shaped=self.shaped),
            episode,
            cut,
        )
        self._tally.note(order.group, rollout, time.perf_counter() - started)
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


def rollout(
    task: Task | str,
    *,
    env: str | EnvFactory | InterCodeEnv = "bash",
    agent: AnyAgent = "try_again",
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
    with ExitStack() as opened:
        if isinstance(model, str):
            model = OpenAIModel(
                model,
                base_url=base_url,
                api_key=api_key,
                temperature=1.0,
                max_tokens=bounds.reply_tokens,
                logprobs=True,
            )
            opened.callback(model.close)
        if isinstance(env, str):
            env = prepare(env)
        if not isinstance(env, InterCodeEnv):
            env = env()
            opened.callback(env.close)
        # `play` counts the turns, and scores the state after the last one
        opened.callback(setattr, env, "max_turns", env.max_turns)
        env.max_turns = None
        if isinstance(task, str):
            same = [candidate for candidate in env.tasks if candidate.id == task]
            if not same:
                raise UsageError(f"no task has the id {task!r}")
            task = same[0]
        strategy = strategy_of(env, agent, env.tasks, bounds.turns)
        sampler = EpisodeSampler(Served(model, bounds), seed)
        return play(env, task, strategy, sampler, sampler.source.tracker, seed=seed, values=values)
