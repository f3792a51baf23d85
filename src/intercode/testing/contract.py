"""The contract of `InterCodeEnv` as clauses that can be tested on any environment.

A clause is a function whose docstring is the promised sentence; it gets `make`, and raises if the
promise is broken. Of a reward only two things are tested here: golds succeed, and doing nothing
does not. `intercode check` tests every task.
"""

from __future__ import annotations

import gc
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import product
from typing import Any, NoReturn

from gymnasium.utils import env_checker

from intercode.agents import Act, Step, Strategy, gold, noop
from intercode.env import InterCodeEnv, StepResult
from intercode.errors import DataError, ForkError, SandboxDied, SandboxError, UsageError
from intercode.types import Score
from intercode_sandbox.client import GuestSandbox
from intercode_sandbox.contract import raises, same

Make = Callable[[], InterCodeEnv]
_FACTS = ("exit_code", "timed_out", "truncated_output", "session_lost")
_RESETS = 5


def check_env(make: Make, *, tasks: int | None = 3) -> None:
    """Raise AssertionError naming every clause that environments from `make` break.

    `make` returns a new environment at each call, with 3 turns or more; an `EnvFactory` does. The
    golds of the first `tasks` tasks are played, or of all tasks if that is None. Raises
    `UsageError` if `make` does not return an environment.
    """
    env = make() if callable(make) else None
    if not isinstance(env, InterCodeEnv):
        given = f"makes {env!r:.60}" if callable(make) else f"is {make!r:.60}"
        raise UsageError(
            "check_env takes a function that makes an InterCodeEnv at each call, "
            f"or what intercode.prepare gives; this {given}"
        )
    with suppress(Exception):  # clauses test how it closes
        env.close()
    broken: list[str] = []
    for clause in (*_CLAUSES, *_SCORING):
        try:
            clause(*((make, tasks) if clause in _SCORING else (make,)))
        except Exception as error:  # an environment of the user's own may raise anything
            name, promise = clause.__name__.strip("_"), " ".join(str(clause.__doc__).split())
            broken.append(f"  - {promise} [{name}] {type(error).__name__}: {error}")
    if broken:
        raise AssertionError("the environment breaks its contract:\n" + "\n".join(broken))


def _play(env: InterCodeEnv, strategy: Strategy, task: int = 0) -> list[tuple[str, StepResult]]:
    """Return the actions that the strategy took, each with its result."""
    env.reset(options={"task": task})
    flow, steps, answer = strategy(env.task, env.protocol), list[tuple[str, StepResult]](), None
    with suppress(StopIteration):
        while not (answer and (answer.terminated or answer.truncated)):
            move = flow.send(answer)
            assert isinstance(move, Act) and move.action is not None  # noqa: PT018
            observation, reward, terminated, truncated, info = step = env.step(move.action)
            steps.append((move.action, step))
            answer = Step(observation, float(reward), terminated, truncated, info)
    return steps


def _gold_actions(make: Make) -> list[str]:
    with closing(make()) as env:
        return [action for action, _ in _play(env, gold)]


# -- the clauses -----------------------------------------------------------------------------------


def _passes_gymnasiums_checker(make: Make) -> None:
    """gymnasium: its own checker passes."""
    with closing(make()) as env, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env_checker.check_env(env, skip_render_check=True)


def _resets_to_the_task(make: Make) -> None:
    """reset: a task is chosen by its id or its index, info names it, and an unknown task is the
    caller's fault."""
    with closing(make()) as env:
        last = len(env.tasks) - 1
        by_index, by_id = (env.reset(options={"task": task}) for task in (last, env.tasks[last].id))
        same("reset by index and by id", by_index, by_id)
        same("info['task']", by_id[1].get("task"), env.tasks[last].id)
        for task in (last + 1, "no such task"):
            with raises(f"reset to the task {task!r}", UsageError):
                env.reset(options={"task": task})


def _orders_tasks_by_seed(make: Make) -> None:
    """reset: without a task, each comes once before any comes again, in an order that the seed
    decides."""
    orders = []
    for _ in range(2):
        with closing(make()) as env:
            count = min(_RESETS, len(env.tasks))
            orders.append(
                [
                    env.reset(seed=7 if number == 0 else None)[1].get("task")
                    for number in range(count)
                ]
            )
    same("the order under the same seed", *orders)
    same("how many different tasks came", len(set(orders[0])), len(orders[0]))


def _is_deterministic(make: Make) -> None:
    """step: the same actions from the same start give the same observations, rewards and infos, at
    any time of day."""
    with closing(make()) as env:
        first = _play(env, gold)
    second = int(time.time())
    while int(time.time()) == second:
        time.sleep(0.02)
    with closing(make()) as env:
        same("the gold, played again", _play(env, gold), first)


def _resets_everything(make: Make) -> None:
    """reset: no state from the last episode is left."""
    with closing(make()) as fresh, closing(make()) as used:
        first = _play(used, gold)
        same("the gold, after it was played here before", _play(used, gold), first)
        same("doing nothing, after the gold was played", _play(used, noop), _play(fresh, noop))


def _returns_facts(make: Make) -> None:
    """info: every step has exit_code, timed_out, truncated_output, session_lost; the last a Score,
    outcomes and `ended`."""
    with closing(make()) as env:
        steps = [step for _, step in _play(env, gold)]
    for observation, _, _, _, info in steps:
        same("what info lacks", [fact for fact in _FACTS if fact not in info], [])
        same("the type of an observation", type(observation), str)
    *_, info = steps[-1]
    same("the type of info['score'] at the end", type(info.get("score")), Score)
    json.dumps(info.get("outcomes"), allow_nan=False)
    same("the type of info['outcomes'] at the end", type(info.get("outcomes")), dict)
    same("info['ended'] at the end", info.get("ended") in ("submit", "solved"), True)


def _rewards_by_protocol(make: Make) -> None:
    """step: under submit only the submission earns and ends; under paper each step earns its score,
    and success ends."""
    with closing(make()) as env:
        protocol, steps = env.protocol, [step for _, step in _play(env, gold)]
    for number, (_, reward, terminated, _, info) in enumerate(steps, 1):
        last = number == len(steps)
        score = (
            info.get("score", Score(0.0, False))
            if protocol == "paper" or last
            else Score(0.0, False)
        )
        same(f"reward of step {number}", float(reward), score.reward)
        same(f"terminated at step {number}", terminated, last)


def _refuses_wrong_order(make: Make) -> None:
    """step: before a reset and after the end it is the caller's fault."""
    with closing(make()) as env:
        with raises("step before reset", UsageError):
            env.step("")
        _play(env, gold)
        with raises("step after the end", UsageError):
            env.step("")


def _refuses_wrong_actions(make: Make) -> None:
    """step: an action that is not text, or contains a NUL, is the caller's fault and costs no
    turn."""
    with closing(make()) as env:
        env.reset(options={"task": 0})
        for action in (None, b"x", "a\0b", "\ud800"):
            with raises(f"step({action!r})", UsageError):
                env.step(action)  # type: ignore[arg-type]
        same("turns after that", env.turn, 0)


def _counts_its_turns(make: Make) -> None:
    """max_turns: that many steps may be taken; the last is truncated, and the episode is over."""
    with closing(make()) as env:
        if env.max_turns is None:
            return
        env.reset(options={"task": 0})
        ends = [env.step("")[2:4] for _ in range(env.max_turns)]
        same(
            "terminated, truncated of all steps",
            ends,
            [(False, False)] * (len(ends) - 1) + [(False, True)],
        )
        with raises("step after the last turn", UsageError):
            env.step("")


def _forks_independently(make: Make) -> None:
    """fork: the copy is in the same state and neither affects the other; state that cannot be
    copied raises ForkError."""
    *before, last = _gold_actions(make)
    with closing(make()) as env:
        env.reset(options={"task": 0})
        for action in before:
            env.step(action)
        try:
            copy = env.fork()
        except ForkError:
            copy = env.fork(replay=True)
        with closing(copy):
            same("task and turns of the copy", (copy.task, copy.turn), (env.task, env.turn))
            copied_step = copy.step(last)
            _play(copy, noop, task=-1 % len(env.tasks))
        same("turns of the original, after the copy's", env.turn, len(before))
        same("the last step of the original, and the copy's", env.step(last), copied_step)


def _raises_faults(make: Make) -> None:
    """faults: an error in the data or a sandbox, also inside execute and score, is raised by step
    and earns nothing."""
    actions, unnoticed = _gold_actions(make), list[str]()

    def fail(
        sandbox: GuestSandbox, head: dict[str, Any], *more: object, **options: object
    ) -> NoReturn:
        failed.append(head["op"])
        raise SandboxError("a fault that the check put here")

    def call_without_sandboxes(method: Callable[..., Any], *arguments: object) -> Any:
        original = GuestSandbox._request
        setattr(GuestSandbox, "_request", fail)  # noqa: B010
        try:
            return method(*arguments)
        finally:
            setattr(GuestSandbox, "_request", original)  # noqa: B010

    for hook, fault in product(("execute", "score"), (SandboxError, DataError, None)):
        *before, last = actions if hook == "score" else actions[:1]
        failed: list[str] = []
        with closing(make()) as env:
            env.reset(options={"task": 0})
            for action in before:
                env.step(action)
            if fault:
                setattr(env, hook, partial(_raise, fault("a fault that the check put here")))
                with raises(f"a {fault.__name__} in {hook}", fault):
                    env.step(last)
                continue
            setattr(env, hook, partial(call_without_sandboxes, getattr(env, hook)))
            with suppress(SandboxError):
                env.step(last)
                unnoticed += [f"{request} under {hook}" for request in failed]
    same("what failed in the sandbox and did not come out", unnoticed, [])


def _blames_the_agent(make: Make) -> None:
    """faults: an agent that breaks its sandbox earns 0, and the episode ends with `ended`
    agent_fault."""
    first, *_ = _gold_actions(make)
    with closing(make()) as env:
        env.reset(options={"task": 0})

        def die(action: str) -> NoReturn:
            delattr(env, "execute")  # so that a fresh sandbox works
            raise SandboxDied("a death that the check put here", by_agent=True)

        env.execute = die  # type: ignore[method-assign]
        _, reward, terminated, _, info = env.step(first)
        same(
            "reward, terminated, ended",
            (float(reward), terminated, info.get("ended")),
            (0.0, True, "agent_fault"),
        )


def _raise(error: Exception, *_: object) -> NoReturn:
    raise error


def _closes_twice(make: Make) -> None:
    """close: may be called twice; afterwards, reset and step are the caller's fault."""
    env = make()
    env.reset(options={"task": 0})
    env.close()
    env.close()
    for what, use in (("reset", env.reset), ("step", partial(env.step, ""))):
        with raises(f"{what} after close", UsageError):
            use()


def _ends_its_sandboxes(make: Make) -> None:
    """close: no sandbox of the environment is left."""
    before = _open_sandboxes()
    with closing(make()) as env:
        _play(env, gold)
    same("sandboxes that are open after it", len(_open_sandboxes() - before), 0)


def _open_sandboxes() -> set[GuestSandbox]:
    return {
        candidate
        for candidate in gc.get_objects()
        if issubclass(type(candidate), GuestSandbox) and not candidate.closed
    }


def _gold_solves(make: Make, tasks: int | None) -> None:
    """score: the gold of each task earns 1 and is a success."""
    failures = [
        (task, score.reward)
        for task, score in _scores(make, gold, tasks)
        if score.reward != 1 or not score.success
    ]
    same("golds that do not", failures, [])


def _noop_fails(make: Make, tasks: int | None) -> None:
    """score: doing nothing succeeds on no task."""
    same(
        "tasks where it does",
        [(task, score.reward) for task, score in _scores(make, noop, tasks) if score.success],
        [],
    )


def _scores(make: Make, strategy: Strategy, tasks: int | None) -> Iterator[tuple[str, Score]]:
    with closing(make()) as env:
        for number, task in list(enumerate(env.tasks))[:tasks]:
            *_, (_, (_, _, _, _, info)) = _play(env, strategy, number)
            yield task.id, info.get("score", Score(0.0, False))


_CLAUSES: Sequence[Callable[..., None]] = (
    _passes_gymnasiums_checker,
    _resets_to_the_task,
    _orders_tasks_by_seed,
    _is_deterministic,
    _resets_everything,
    _returns_facts,
    _rewards_by_protocol,
    _refuses_wrong_order,
    _refuses_wrong_actions,
    _counts_its_turns,
    _forks_independently,
    _raises_faults,
    _blames_the_agent,
    _closes_twice,
    _ends_its_sandboxes,
)
_SCORING: Sequence[Callable[..., None]] = (_gold_solves, _noop_fails)
