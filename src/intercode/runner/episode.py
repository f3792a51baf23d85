"""The loop of one episode: a strategy, a model and an environment play one task.

    ┌────────► strategy ── Ask ──► model ── Reply ─┐
    │             ├─────── Act ──► env ─── Step ───┤──► Turn
    │             └────── Fork ──► copy of env ────┤
    └──────────────────────────────────────────────┘

The episode ends when the environment ends it, when the turns or a budget are used up, or when the
strategy returns; the rules are in `referee.py`. Faults of the model, the data or the machine pass
through: `run.py` records them, and they never become a reward.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from intercode.agents.base import SUBMIT, Act, Ask, Close, Fork, Launch, Launched, Step, Strategy
from intercode.errors import UsageError
from intercode.hooks import NO_VALUE
from intercode.models import Model
from intercode.plugins import call_plugin, wrong_result
from intercode.runner.budget import BudgetTracker
from intercode.runner.env_forks import EnvForks, Playable
from intercode.runner.launch import launch
from intercode.runner.recorder import LastTools, turn_of
from intercode.runner.referee import Moment, next_rule
from intercode.runner.strategy_driver import Answer, drive, strategy_name
from intercode.runs.store import bounded_outcomes
from intercode.submission import LONGEST, TAKES_ANSWER, WORD
from intercode.types import INCOMPLETE, Ended, Episode, Reply, Score, Task, Turn, is_number
from intercode.user import TAKES_QUESTIONS

UNSCORED = Score(0.0, False)
UNSENDABLE = (
    "The code contains a NUL character or half of a surrogate pair, or is too long, "
    "so nothing was executed."
)
NOT_EXECUTED = "Your reply {what}, so nothing in it was executed, and one turn was used up.{how}"
LONGEST_THOUGHT = 1 << 16
"""Characters of a thought in the record; the reply has the rest."""
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass
class _Result:
    """The result of an episode so far: its best score (the last one of `pays`), why it ended, and
    the outcomes of its last step. `program` are the facts of a program that played. `scored`: it
    has a reward."""

    pays: bool
    score: Score = UNSCORED
    ended: Ended | None = None
    outcomes: Mapping[str, Any] = field(default_factory=dict)
    program: Mapping[str, Any] = field(default_factory=dict)
    scored: bool = True

    def add(self, step: Step, forced: bool | Ended) -> None:
        """Add a step; `forced` is why the episode ends if the agent did not choose the step, and
        True if its turns are used up."""
        info = step.info or {}
        score, outcomes = info.get("score"), info.get("outcomes")
        counts = self.pays or self.score is UNSCORED
        if score is not None and (counts or score.reward > self.score.reward):
            self.score = score
        self.outcomes = {}
        if isinstance(outcomes, Mapping):
            self.outcomes = bounded_outcomes(outcomes)
        if step.terminated:
            self.ended = info.get("ended", "submit")
        elif step.truncated:
            self.ended = info.get("ended", "turns")
        if forced is True:
            forced = "turns"
        if forced and self.ended != "agent_fault":
            self.ended = forced

    def end(self, ended: Ended, env: Playable | None) -> None:
        """End the episode, of which `env` does not know that it is the end."""
        self.ended, outcomes = ended, getattr(env, "outcomes", None)
        if self.score is not UNSCORED and callable(outcomes):
            self.outcomes = bounded_outcomes(call_plugin(outcomes, dict))


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
    values: bool = False,
) -> Episode:
    """Play `task` to its end and return the episode. The reward is the best of all scores
    (`submit`: the submission's).

    `tracker.limits.turns` limits the actions on all branches, with or without code; a submission
    may follow the last one. A limit of the run ends the episode without a reward:
    ``ended="limit"``. A limit of the episode ends it before its next turn, with a reward, and so
    does a reply that is `final`: under `submit` the branch that acted last is submitted for it.
    `turns` collects the turns as they happen, for a caller that needs them after a fault. `values`
    records after each turn what a submission would have earned then, which no agent sees. Raises
    `DataError`, `SandboxError` and `ModelError`, and `UsageError` for a strategy that fails.
    """
    log = [] if turns is None else turns
    query, _ = _call_env(2, env.reset, seed=seed, options={"task": task.id})
    submission, pays = getattr(env, "submission", WORD), env.protocol == SUBMIT
    most, over_budget = tracker.limits.turns, tracker.start_episode(log)
    takes_answer = bool(getattr(env, "takes_answer", False))
    takes_questions = bool(getattr(env, "takes_questions", False))
    extra = dict(task.extra)
    if takes_answer:
        extra[TAKES_ANSWER] = True
    if takes_questions:
        extra[TAKES_QUESTIONS] = True
    posed = replace(task, query=query, extra=extra)
    no_value = ""
    if values:
        no_value = str(getattr(env, "no_value", "" if hasattr(env, "value") else NO_VALUE))
    result, offered = _Result(pays), LastTools()
    answer: Answer = None
    with (
        EnvForks(env, strategy_name(strategy)) as forks,
        drive(strategy, posed, env.protocol) as advance,
    ):
        while result.ended is None:
            request = answer if isinstance(answer, Reply) and answer.final else advance(answer)
            moment = Moment(request, log, most, pays, submission, tracker.stop_reason, over_budget)
            match next_rule(moment).then, request:
                case "grant", Ask() as ask:
                    answer = _ask(model, ask, tracker, log, offered)
                case "grant", Launch() as request:
                    answer = _launch(env, request, model, tracker, log, over_budget)
                    result.program = answer.facts
                case "grant", Fork(branch):
                    answer = forks.fork(branch)
                case "grant", Close(branch):
                    answer = None
                    forks.close(branch)
                case "grant" | "submit" | "refuse" as then, Act() as act:
                    if then == "refuse":
                        act = _refused(act, log[-1])
                    valued = values and not no_value and not act.forced
                    answer = _execute(forks, act, log, then == "submit", valued)
                    result.add(answer, act.forced)
                case "submit_for_agent", _:
                    step = Step("")
                    if pays and forks.latest is not None:
                        act = Act(SUBMIT, env=forks.latest, own_turn=True, forced=True)
                        step = _execute(forks, act, log, True, False)
                    result.add(step, "limit")
                case "abandon", _:
                    result.ended, result.scored = "limit", False
                case "turns" | "stopped" as ended, _:
                    result.end(ended, None if forks.latest is None else forks[forks.latest])
    score, outcomes = result.score, dict(result.outcomes)
    if result.ended == "agent_fault":
        score = UNSCORED
    if result.program:
        outcomes["program"] = result.program
    return Episode(
        task.id,
        query,
        tuple(log),
        score.reward if result.scored else None,
        result.scored and score.success,
        result.ended,
        score.parts,
        epoch,
        seed,
        ambiguous=score.ambiguous,
        outcomes=outcomes,
        split=task.split,
        takes_answer=takes_answer,
        no_value=no_value,
        takes_questions=takes_questions,
    )


def _ask(
    model: Model | None, ask: Ask, tracker: BudgetTracker, log: list[Turn], offered: LastTools
) -> Reply:
    if model is None:
        raise UsageError("this agent asks a model; name one with --model")
    started = time.perf_counter()
    reply = model.complete(ask.messages, tools=ask.tools, draw=ask.draw)
    seconds = time.perf_counter() - started
    turn = turn_of(ask.messages, reply, seconds, offered.change(ask.tools))
    if reply.counted:
        turn = replace(turn, reply_seconds=None)
    else:
        tracker.spend(reply.usage)
    log.append(turn)
    return reply


def _launch(
    env: Playable,
    request: Launch,
    model: Model | None,
    tracker: BudgetTracker,
    log: list[Turn],
    over_budget: Callable[[], bool],
) -> Launched:
    before = counted = len(log)
    request = replace(request, turns=request.turns - sum(turn.acted for turn in log))
    is_full: Any = getattr(model, "is_full", None)

    def stop() -> str | None:
        spend()
        if over_budget():
            return "the episode's budget is used up"
        return tracker.stop_reason() or (is_full and is_full(log[before:]))

    def spend() -> None:
        nonlocal counted
        for turn in log[counted:]:
            counted += 1
            tracker.spend(turn.usage)

    seconds = tracker.limits.episode.seconds
    try:
        return launch(env, request, model, log, stop, tracker.stop_reason, seconds)
    finally:
        spend()


def _refused(act: Act, question: Turn) -> Act:
    """Return the action without its code, with a note that says why the reply to the question is
    not executed."""
    reason, count = question.finish_reason or "", question.usage.completion_tokens
    how = ""
    if reason == "length" and count:
        how = f" It had {count} tokens: write less."
    return replace(act, action=None, note=NOT_EXECUTED.format(what=INCOMPLETE[reason], how=how))


def _execute(forks: EnvForks, act: Act, log: list[Turn], last: bool, valued: bool) -> Step:
    """Execute the action and complete the turn that its question opened, or append a separate turn.

    `last`: the action submits, so all other branches are closed. `valued`: the turn gets a value,
    unless the action ends the episode.
    """
    env = forks[act.env]
    if last:
        forks.choose(act.env)
    started = time.perf_counter()
    if act.action is None:
        step = Step(act.note or "")
    elif "\0" in act.action or len(act.action) > LONGEST or _SURROGATE.search(act.action):
        step = Step(UNSENDABLE)
    else:
        observation, reward, terminated, truncated, info = _call_env(5, env.step, act.action)
        step = Step(observation, float(reward), terminated, truncated, info)
    seconds = round(time.perf_counter() - started, 6)
    value = None
    if valued and not (step.terminated or step.truncated):
        value = _value(env)
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
            seconds=seconds,
            after=forks.after(act.env, log),
            forced=bool(act.forced),
            value=value,
            asked=facts.get("asked"),
        )
    )
    return step


def _value(env: Playable) -> float | None:
    """Return what a submission now would earn. Raises `UsageError` if the caller's class returns
    anything but a number or None."""
    value = call_plugin(method := env.value, object)  # type: ignore[attr-defined]
    if value is None or is_number(value):
        return value
    raise wrong_result(method, value, " instead of a number or None")


def _call_env(
    count: int, method: Callable[..., object], *arguments: Any, **options: Any
) -> tuple[Any, ...]:
    """Call a method of Gymnasium's interface. Raises `UsageError` if the caller's class does not
    return `count` values."""
    values = call_plugin(method, tuple, *arguments, **options)
    if len(values) == count:
        return values
    raise wrong_result(method, values, f", which are not {count} values")
