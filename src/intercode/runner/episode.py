"""The loop of one episode: a strategy, a model and an environment play one task.

    ┌────────► strategy ── Ask ──► model ── Reply ─┐
    │             ├─────── Act ──► env ─── Step ───┤──► Turn
    │             └────── Fork ──► copy of env ────┤
    └──────────────────────────────────────────────┘

The episode ends when the environment ends it, when the turns or a budget are used up, or when the strategy returns.
Faults of the model, the data or the machine pass through: `run.py` records them, and they never become a reward.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from intercode.agents.base import SUBMIT, Act, Ask, Fork, Move, Step, Strategy
from intercode.errors import UsageError
from intercode.models import Model
from intercode.plugins import call_plugin, safe_repr
from intercode.runner.budget import BudgetTracker
from intercode.runner.env_forks import EnvForks, Playable
from intercode.runner.strategy_driver import Answer, drive, strategy_name
from intercode.store import bounded_outcomes
from intercode.submission import LONGEST, TAKES_ANSWER, WORD, is_submission
from intercode.types import Ended, Episode, Reply, Score, Task, Turn, Usage

UNSCORED = Score(0.0, False)
UNSENDABLE = "The code holds a NUL character or half of a surrogate pair, or is too long, so nothing was executed."
LONGEST_THOUGHT = 1 << 16
"""Characters of a thought in the record; the reply has the rest."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def play(
    env: Playable,
    task: Task,
    strategy: Strategy,
    model: Model | None,
    tracker: BudgetTracker,
    *,
    epoch: int = 0,
    seed: int = 0,
    turns: list[Turn] | None = None,
) -> Episode:
    """Play `task` to its end and return the episode. The reward is the best of all scores (`submit`: the submission's).

    `tracker.limits.turns` limits the actions on all branches, with or without code; a submission may follow the last one.
    A limit of the run ends the episode without a reward: ``ended="limit"``. A limit of the episode ends it before its next
    turn, with a reward: under `submit` the branch that acted last is submitted for it. `turns` collects the turns as they
    happen, for a caller that needs them after a fault. Raises `DataError`, `SandboxError` and `ModelError`, and `UsageError`
    for a strategy that fails.
    """
    log = [] if turns is None else turns
    query, _ = _call_env(2, env.reset, seed=seed, options={"task": task.id})
    best = UNSCORED
    ended: Ended | None = None
    answer: Answer = None
    outcomes: Mapping[str, Any] = {}
    spent, cut, acted = tracker.start_episode(log), False, 0
    extra = {**task.extra, TAKES_ANSWER: True} if getattr(env, "takes_answer", False) else task.extra
    seen = replace(task, query=query, extra=extra)
    with EnvForks(env, strategy_name(strategy)) as branches, drive(strategy, seen, env.protocol) as advance:
        while ended is None:
            move = advance(answer)
            if move is None or (ended := _forbidden(move, acted, tracker, env)):
                cut = ended == "limit"
                ended = ended or "turns"
                if ended == "turns" and best is not UNSCORED and branches.latest is not None:  # the environment does not know
                    outcomes = _last_outcomes(branches[branches.latest])
            elif _begins_turn(move, log, env) and spent():
                latest = branches.latest if env.protocol == SUBMIT else None
                step = Step("") if latest is None else _act(branches, Act(SUBMIT, env=latest, own_turn=True), log)
                best, ended = _better(best, step), "agent_fault" if _end(step) == "agent_fault" else "limit"
                outcomes = _outcomes(step)
            elif isinstance(move, Ask):
                answer = _ask(model, move, tracker, log)
            elif isinstance(move, Act):
                answer = step = _act(branches, move, log)
                acted += log[-1].acted
                best, ended, outcomes = _better(best, step), _end(step), _outcomes(step)
            elif isinstance(move, Fork):
                answer = branches.fork(move.env)
            else:
                answer = None
                branches.close(move.branch)
    score = UNSCORED if ended == "agent_fault" else best
    reward = None if cut else score.reward
    success = reward is not None and score.success
    return Episode(
        task.id, query, tuple(log), reward, success, ended, score.parts, epoch, seed,
        ambiguous=score.ambiguous, outcomes=outcomes, split=task.split,
    )  # fmt: skip


def _forbidden(move: Move, acted: int, tracker: BudgetTracker, env: Playable) -> Ended | None:
    """Return why the episode ends before this move, or None if the move is allowed."""
    if tracker.stop_reason():
        return "limit"
    allowed = tracker.limits.turns
    if allowed is None or acted < allowed:
        return None
    may_come_last = not isinstance(move, Ask | Act) or _submits(move, env)
    return None if acted == allowed and env.protocol == SUBMIT and may_come_last else "turns"


def _begins_turn(move: Move, log: Sequence[Turn], env: Playable) -> bool:
    """Return whether the move begins a turn: a question, or an action that answers no question; a submission does not."""
    return isinstance(move, Ask) or not (_submits(move, env) or (log and not log[-1].acted))


def _submits(move: Move, env: Playable) -> bool:
    return isinstance(move, Act) and is_submission(move.action, getattr(env, "submission", WORD))


def _ask(model: Model | None, ask: Ask, tracker: BudgetTracker, log: list[Turn]) -> Reply:
    if model is None:
        raise UsageError("this agent asks a model; name one with --model")
    plain = not ask.tools and not ask.draw
    reply = model.complete(ask.messages) if plain else model.complete(ask.messages, tools=ask.tools, draw=ask.draw)
    tracker.spend(Usage() if reply.counted else reply.usage)
    calls, left_out = reply.calls or None, reply.left_out or None
    log.append(Turn(tuple(ask.messages), reply.text, usage=reply.usage, calls=calls, left_out=left_out, sample=reply.sample))
    return reply


def _act(branches: EnvForks, act: Act, log: list[Turn]) -> Step:
    """Execute the action and complete the turn that its question opened, or append a turn of its own."""
    env = branches[act.env]
    if env.protocol == SUBMIT and _submits(act, env):
        branches.choose(act.env)
    started = time.perf_counter()
    step = Step(act.note or "")
    if act.action is not None and ("\0" in act.action or len(act.action) > LONGEST or _SURROGATE.search(act.action)):
        step = Step(UNSENDABLE)
    elif act.action is not None:
        observation, reward, terminated, truncated, info = _call_env(5, env.step, act.action)
        step = Step(observation, float(reward), terminated, truncated, info)
    question = log.pop() if log and not log[-1].acted and not act.own_turn else Turn()
    facts = step.info or {}
    log.append(
        replace(
            question,
            thought=act.thought and act.thought[:LONGEST_THOUGHT],
            action=act.action,
            observation=step.observation,
            exit_code=facts.get("exit_code"),
            timed_out=facts.get("timed_out", False),
            truncated_output=facts.get("truncated_output", False),
            score=facts["score"].reward if "score" in facts else None,
            seconds=round(time.perf_counter() - started, 6),
            after=branches.after(act.env, log),
        )
    )
    return step


def _call_env(count: int, method: Callable[..., object], *arguments: Any, **options: Any) -> tuple[Any, ...]:
    """Call a method of Gymnasium's interface. Raises `UsageError` if the caller's class does not return `count` values."""
    values = call_plugin(method, tuple, *arguments, **options)
    if len(values) == count:
        return values
    name = getattr(method, "__qualname__", "it")
    raise UsageError(f"{name} returned {safe_repr(values):.100}, which are not {count} values")


def _better(best: Score, step: Step) -> Score:
    score = (step.info or {}).get("score")
    return score if score is not None and (best is UNSCORED or score.reward > best.reward) else best


def _outcomes(step: Step) -> dict[str, Any]:
    """Return the outcomes that the last step of an episode has in its info; the environment may be the caller's."""
    outcomes = (step.info or {}).get("outcomes")
    return bounded_outcomes(outcomes) if isinstance(outcomes, Mapping) else {}


def _last_outcomes(env: Playable) -> dict[str, Any]:
    """Return the outcomes of an episode that the strategy or the limit of turns ended, under the paper's protocol."""
    method = getattr(env, "outcomes", None)
    return bounded_outcomes(call_plugin(method, dict)) if callable(method) else {}


def _end(step: Step) -> Ended | None:
    if not (step.terminated or step.truncated):
        return None
    ended: Ended = (step.info or {}).get("ended", "submit" if step.terminated else "turns")
    return ended
