"""The loop of one episode: a strategy, a model and an environment play one task.

    ┌────────► strategy ── Ask ──► model ── Reply ─┐
    │             ├─────── Act ──► env ─── Step ───┤──► Turn
    │             └────── Fork ──► copy of env ────┤
    └──────────────────────────────────────────────┘

The episode ends when the environment ends it, when the turns or a budget are used up, or when the
strategy returns. Faults of the model, the data or the machine pass through: `run.py` records them,
and they never become a reward.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from intercode.agents.base import SUBMIT, Act, Ask, Fork, Request, Step, Strategy
from intercode.errors import UsageError
from intercode.models import Model
from intercode.plugins import call_plugin, safe_repr
from intercode.runner.budget import BudgetTracker
from intercode.runner.env_forks import EnvForks, Playable
from intercode.runner.strategy_driver import Answer, drive, strategy_name
from intercode.runs.store import bounded_outcomes
from intercode.submission import LONGEST, TAKES_ANSWER, WORD, is_submission
from intercode.types import INCOMPLETE, Ended, Episode, Reply, Score, Task, Turn, Usage

UNSCORED = Score(0.0, False)
UNSENDABLE = (
    "The code holds a NUL character or half of a surrogate pair, or is too long, "
    "so nothing was executed."
)
NOT_EXECUTED = "Your reply {what}, so nothing in it was executed, and one turn was used up.{how}"
LONGEST_THOUGHT = 1 << 16
"""Characters of a thought in the record; the reply has the rest."""
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass
class _Result:
    """The result of an episode so far: its best score, why it ended, and the outcomes of its last
    step."""

    score: Score = UNSCORED
    ended: Ended | None = None
    outcomes: Mapping[str, Any] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        info = step.info or {}
        score, outcomes = info.get("score"), info.get("outcomes")
        if score is not None and (self.score is UNSCORED or score.reward > self.score.reward):
            self.score = score
        self.outcomes = bounded_outcomes(outcomes) if isinstance(outcomes, Mapping) else {}
        if step.terminated or step.truncated:
            self.ended = info.get("ended", "submit" if step.terminated else "turns")


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
    """Play `task` to its end and return the episode. The reward is the best of all scores
    (`submit`: the submission's).

    `tracker.limits.turns` limits the actions on all branches, with or without code; a submission
    may follow the last one. A limit of the run ends the episode without a reward:
    ``ended="limit"``. A limit of the episode ends it before its next turn, with a reward, and so
    does a reply that is `final`: under `submit` the branch that acted last is submitted for it.
    `turns` collects the turns as they happen, for a caller that needs them after a fault. Raises
    `DataError`, `SandboxError` and `ModelError`, and `UsageError` for a strategy that fails.
    """
    log = [] if turns is None else turns
    query, _ = _call_env(2, env.reset, seed=seed, options={"task": task.id})
    submission, submits_work = getattr(env, "submission", WORD), env.protocol == SUBMIT
    most, acted, result, unfinished = tracker.limits.turns, 0, _Result(), False
    over_budget = tracker.start_episode(log)
    takes_answer = bool(getattr(env, "takes_answer", False))
    extra = {**task.extra, TAKES_ANSWER: True} if takes_answer else task.extra
    posed = replace(task, query=query, extra=extra)
    answer: Answer = None
    cut = False
    with (
        EnvForks(env, strategy_name(strategy)) as forks,
        drive(strategy, posed, env.protocol) as advance,
    ):
        while result.ended is None:
            request = None if cut else _unless_incomplete(advance(answer), log)
            submits = isinstance(request, Act) and is_submission(request.action, submission)
            begins_turn = isinstance(request, Ask) or not (submits or (log and not log[-1].acted))
            may_come_last = submits_work and (submits or not isinstance(request, Ask | Act))
            if (cut or request is not None) and tracker.stop_reason():
                result.ended, unfinished = "limit", True
            elif not cut and (
                request is None
                or (most is not None and acted >= most and (acted > most or not may_come_last))
            ):
                out_of_turns = most is not None and acted >= most
                result.ended = "turns" if out_of_turns else "stopped"
                outcomes = (
                    None if forks.latest is None else getattr(forks[forks.latest], "outcomes", None)
                )
                # the environment does not know that it is the end
                if result.score is not UNSCORED and callable(outcomes):
                    result.outcomes = bounded_outcomes(call_plugin(outcomes, dict))
            elif cut or (begins_turn and over_budget()):
                latest = forks.latest if submits_work else None
                result.add(
                    Step("")
                    if latest is None
                    else _execute(
                        forks, Act(SUBMIT, env=latest, own_turn=True, forced=True), log, True
                    )
                )
                result.ended = "agent_fault" if result.ended == "agent_fault" else "limit"
            elif isinstance(request, Ask):
                answer = reply = _ask(model, request, tracker, log)
                cut = reply.final
            elif isinstance(request, Act):
                answer = _execute(forks, request, log, submits and submits_work)
                acted += log[-1].acted
                result.add(answer)
                if request.forced and result.ended != "agent_fault":
                    result.ended = "turns"
            elif isinstance(request, Fork):
                answer = forks.fork(request.env)
            elif request is not None:
                answer = None
                forks.close(request.branch)
    score = UNSCORED if result.ended == "agent_fault" else result.score
    reward = None if unfinished else score.reward
    success = reward is not None and score.success
    return Episode(
        task.id,
        query,
        tuple(log),
        reward,
        success,
        result.ended,
        score.parts,
        epoch,
        seed,
        ambiguous=score.ambiguous,
        outcomes=result.outcomes,
        split=task.split,
        takes_answer=takes_answer,
    )


def _ask(model: Model | None, ask: Ask, tracker: BudgetTracker, log: list[Turn]) -> Reply:
    if model is None:
        raise UsageError("this agent asks a model; name one with --model")
    started = time.perf_counter()
    reply = model.complete(ask.messages, tools=ask.tools, draw=ask.draw)
    tracker.spend(Usage() if reply.counted else reply.usage)
    calls, left_out = reply.calls or None, reply.left_out or None
    log.append(
        Turn(
            tuple(ask.messages),
            reply.text,
            usage=reply.usage,
            calls=calls,
            left_out=left_out,
            sample=reply.sample,
            reasoning=reply.reasoning or None,
            finish_reason=reply.finish_reason,
            reply_seconds=None if reply.counted else round(time.perf_counter() - started, 6),
        )
    )
    return reply


def _unless_incomplete(request: Request | None, log: list[Turn]) -> Request | None:
    """Return the request, without its action if the reply that it answers is incomplete: half a
    command may do harm that the model did not choose."""
    reason = log[-1].finish_reason if log else None
    if (
        reason not in INCOMPLETE
        or not isinstance(request, Act)
        or request.own_turn
        or log[-1].acted
    ):
        return request
    count = log[-1].usage.completion_tokens
    how = f" It had {count} tokens: write less." if reason == "length" and count else ""
    note = NOT_EXECUTED.format(what=INCOMPLETE[reason], how=how)
    return replace(request, action=None, note=note)


def _execute(forks: EnvForks, act: Act, log: list[Turn], last: bool) -> Step:
    """Execute the action and complete the turn that its question opened, or append a separate turn.

    `last`: the action submits, so all other branches are closed.
    """
    env = forks[act.env]
    if last:
        forks.choose(act.env)
    started = time.perf_counter()
    step = Step(act.note or "")
    if act.action is not None and (
        "\0" in act.action or len(act.action) > LONGEST or _SURROGATE.search(act.action)
    ):
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
            limits=tuple(facts.get("limits", ())),
            session_lost=bool(facts.get("session_lost", False)),
            score=facts["score"].reward if "score" in facts else None,
            seconds=round(time.perf_counter() - started, 6),
            after=forks.after(act.env, log),
            forced=act.forced,
        )
    )
    return step


def _call_env(
    count: int, method: Callable[..., object], *arguments: Any, **options: Any
) -> tuple[Any, ...]:
    """Call a method of Gymnasium's interface. Raises `UsageError` if the caller's class does not
    return `count` values."""
    values = call_plugin(method, tuple, *arguments, **options)
    if len(values) == count:
        return values
    name = getattr(method, "__qualname__", "it")
    raise UsageError(f"{name} returned {safe_repr(values):.100}, which are not {count} values")
