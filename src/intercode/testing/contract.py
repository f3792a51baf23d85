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
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

from gymnasium.utils import env_checker

from intercode.agents import Act, Step, Strategy, gold, noop
from intercode.env import InterCodeEnv, StepResult
from intercode.errors import DataError, ForkError, SandboxDied, SandboxError, UsageError
from intercode.types import Score
from intercode_sandbox.client import GuestSandbox
from intercode_sandbox.contract import failure, raises, same

Make = Callable[[], InterCodeEnv]
_NOTHING = Score(0.0, False)
_PLANTED = "a fault that the check put here"
_FACTS = ("exit_code", "timed_out", "truncated_output", "session_lost")
# The seeds of successive resets.
_SEEDS = (7, None, None, None, None)


def check_env(make: Make, *, tasks: int | None = 3) -> None:
    """Raise AssertionError naming every clause that environments from `make` break.

    `make` returns a new environment at each call, with 3 turns or more; an `EnvFactory` does. The
    golds of the first `tasks` tasks are played, or of all tasks if that is None. Raises
    `UsageError` if `make` does not return an environment.
    """
    env: object = None
    problem = f"is {make!r:.60}"
    if callable(make):
        env = make()
        problem = f"makes {env!r:.60}"
    if not isinstance(env, InterCodeEnv):
        raise UsageError(
            "check_env takes a function that makes an InterCodeEnv at each call, "
            f"or what intercode.prepare gives; this {problem}"
        )
    with suppress(Exception):  # clauses test how it closes
        env.close()
    broken = ""
    for clause in _CLAUSES:
        broken += failure(clause, make)
    for scoring in _SCORING:
        broken += failure(scoring, make, tasks)
    if broken:
        raise AssertionError(f"the environment breaks its contract:{broken}")


def _play(env: InterCodeEnv, strategy: Strategy, task: int = 0) -> list[tuple[str, StepResult]]:
    """Return the actions that the strategy took, each with its result."""
    env.reset(options={"task": task})
    flow, answer, over = strategy(env.task, env.protocol), None, False
    steps = []
    with suppress(StopIteration):
        while not over:
            move = flow.send(answer)
            assert isinstance(move, Act)
            action = str(move.action)
            observation, reward, terminated, truncated, info = step = env.step(action)
            steps.append((action, step))
            answer = Step(observation, float(reward), terminated, truncated, info)
            over = terminated or truncated
    return steps


def _gold_actions(make: Make) -> list[str]:
    with make() as env:
        steps = _play(env, gold)
    return [action for action, _ in steps]


# -- the clauses -----------------------------------------------------------------------------------


def _passes_gymnasiums_checker(make: Make) -> None:
    """gymnasium: its own checker passes."""
    with make() as env, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env_checker.check_env(env, skip_render_check=True)


def _resets_to_the_task(make: Make) -> None:
    """reset: a task is chosen by its id or its index, info names it, and an unknown task is the
    caller's fault."""
    with make() as env:
        last = len(env.tasks) - 1
        name = env.tasks[last].id
        by_id = env.reset(options={"task": name})
        same("reset by index and by id", env.reset(options={"task": last}), by_id)
        same("info['task']", by_id[1].get("task"), name)
        for task in (last + 1, "no such task"):
            raises(f"reset to the task {task!r}", UsageError, env.reset, options={"task": task})


def _orders_tasks_by_seed(make: Make) -> None:
    """reset: without a task, each comes once before any comes again, in an order that the seed
    decides."""
    orders = []
    for _ in range(2):
        with make() as env:
            seeds = _SEEDS[: len(env.tasks)]
            orders.append([env.reset(seed=seed)[1].get("task") for seed in seeds])
    same("the order under the same seed", orders[0], orders[1])
    same("how many different tasks came", len(set(orders[0])), len(orders[0]))


def _is_deterministic(make: Make) -> None:
    """step: the same actions from the same start give the same observations, rewards and infos, at
    any time of day."""
    with make() as env:
        first = _play(env, gold)
    second = int(time.time())
    while int(time.time()) == second:
        time.sleep(0.02)
    with make() as env:
        same("the gold, played again", _play(env, gold), first)


def _resets_everything(make: Make) -> None:
    """reset: no state from the last episode is left."""
    with make() as fresh, make() as used:
        first = _play(used, gold)
        same("the gold, after it was played here before", _play(used, gold), first)
        same("doing nothing, after the gold was played", _play(used, noop), _play(fresh, noop))


def _returns_facts(make: Make) -> None:
    """info: every step has exit_code, timed_out, truncated_output, session_lost; the last a Score,
    outcomes and `ended`."""
    with make() as env:
        steps = [step for _, step in _play(env, gold)]
    for observation, _, _, _, info in steps:
        same("what info lacks", [fact for fact in _FACTS if fact not in info], [])
        same("the type of an observation", type(observation), str)
    *_, info = steps[-1]
    same("the type of info['score'] at the end", type(info.get("score")), Score)
    json.dumps(info.get("outcomes"), allow_nan=False)
    same("the type of info['outcomes'] at the end", type(info.get("outcomes")), dict)
    same("info['ended'] at the end", info.get("ended") in ("submit", "solved"))


def _rewards_by_protocol(make: Make) -> None:
    """step: under submit only the submission earns and ends; under paper each step earns its score,
    and success ends."""
    with make() as env:
        protocol = env.protocol
        steps = [step for _, step in _play(env, gold)]
    for number, (_, reward, terminated, _, info) in enumerate(steps, 1):
        last = number == len(steps)
        earned = 0.0
        if last or protocol == "paper":
            earned = info.get("score", _NOTHING).reward
        same(f"reward of step {number}", float(reward), earned)
        same(f"terminated at step {number}", terminated, last)


def _refuses_wrong_order(make: Make) -> None:
    """step: before a reset and after the end it is the caller's fault."""
    with make() as env:
        raises("step before reset", UsageError, env.step, "")
        _play(env, gold)
        raises("step after the end", UsageError, env.step, "")


def _refuses_wrong_actions(make: Make) -> None:
    """step: an action that is not text, or contains a NUL, is the caller's fault and costs no
    turn."""
    with make() as env:
        env.reset(options={"task": 0})
        for action in (None, b"x", "a\0b", "\ud800"):
            raises(f"step({action!r})", UsageError, env.step, action)
        same("turns after that", env.turn, 0)


def _counts_its_turns(make: Make) -> None:
    """max_turns: that many steps may be taken; the last is truncated, and the episode is over."""
    with make() as env:
        if env.max_turns is None:
            return
        env.reset(options={"task": 0})
        ends = [env.step("")[2:4] for _ in range(env.max_turns)]
        expected = [(False, False)] * (len(ends) - 1) + [(False, True)]
        same("terminated, truncated of all steps", ends, expected)
        raises("step after the last turn", UsageError, env.step, "")


def _forks_independently(make: Make) -> None:
    """fork: the copy is in the same state and neither affects the other; state that cannot be
    copied raises ForkError."""
    *before, last = _gold_actions(make)
    with make() as env:
        env.reset(options={"task": 0})
        for action in before:
            env.step(action)
        try:
            copy = env.fork()
        except ForkError:
            copy = env.fork(replay=True)
        with copy:
            same("task and turns of the copy", (copy.task, copy.turn), (env.task, env.turn))
            copied_step = copy.step(last)
            _play(copy, noop, task=-1 % len(env.tasks))
        same("turns of the original, after the copy's", env.turn, len(before))
        same("the last step of the original, and the copy's", env.step(last), copied_step)


def _raises_faults(make: Make) -> None:
    """faults: an error in the data or a sandbox, also inside execute and score, is raised by step
    and earns nothing."""
    request, golds, unnoticed = GuestSandbox._request, _gold_actions(make), list[str]()

    def fail(sandbox: GuestSandbox, operation: str, *more: Any, **head: Any) -> NoReturn:
        refused.append(operation)
        raise SandboxError(_PLANTED)

    def call_without_sandboxes(method: Callable[..., Any], *arguments: object) -> Any:
        GuestSandbox._request = fail  # type: ignore[method-assign,assignment]
        try:
            return method(*arguments)
        finally:
            GuestSandbox._request = request  # type: ignore[method-assign]

    for hook, actions in (("execute", golds[:1]), ("score", golds)):
        *before, last = actions
        for fault in (SandboxError, DataError, None):
            refused: list[str] = []
            with make() as env:
                env.reset(options={"task": 0})
                for action in before:
                    env.step(action)
                if fault:
                    setattr(env, hook, partial(_raise, fault(_PLANTED)))
                    raises(f"a {fault.__name__} in {hook}", fault, env.step, last)
                    continue
                setattr(env, hook, partial(call_without_sandboxes, getattr(env, hook)))
                with suppress(SandboxError):
                    env.step(last)
                    unnoticed += [f"{operation} under {hook}" for operation in refused]
    same("what failed in the sandbox and did not come out", unnoticed, [])


def _blames_the_agent(make: Make) -> None:
    """faults: an agent that breaks its sandbox earns 0, and the episode ends with `ended`
    agent_fault."""
    first, *_ = _gold_actions(make)
    with make() as env:
        env.reset(options={"task": 0})

        def die(action: str) -> NoReturn:
            delattr(env, "execute")  # so that a fresh sandbox works
            raise SandboxDied("a death that the check put here", by_agent=True)

        env.execute = die  # type: ignore[method-assign]
        _, reward, terminated, _, info = env.step(first)
        end = float(reward), terminated, info.get("ended")
        same("reward, terminated, ended", end, (0.0, True, "agent_fault"))


def _raise(error: Exception, *_: object) -> NoReturn:
    raise error


def _closes_twice(make: Make) -> None:
    """close: may be called twice; afterwards, reset and step are the caller's fault."""
    env = make()
    env.reset(options={"task": 0})
    env.close()
    env.close()
    raises("reset after close", UsageError, env.reset)
    raises("step after close", UsageError, env.step, "")


def _ends_its_sandboxes(make: Make) -> None:
    """close: no sandbox of the environment is left."""
    before = _open_sandboxes()
    with make() as env:
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
    solved = [(task, score.reward) for task, score in _scores(make, noop, tasks) if score.success]
    same("tasks where it does", solved, [])


def _scores(make: Make, strategy: Strategy, tasks: int | None) -> Iterator[tuple[str, Score]]:
    with make() as env:
        for number, task in list(enumerate(env.tasks))[:tasks]:
            *_, (_, (_, _, _, _, info)) = _play(env, strategy, number)
            yield task.id, info.get("score", _NOTHING)


_CLAUSES = (
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
_SCORING = (_gold_solves, _noop_fails)
