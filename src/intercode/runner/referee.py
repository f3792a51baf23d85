"""The rules of an episode: what happens next, decided after each request of the strategy.

    strategy ── request ──► Moment ── the first of RULES that fits ──► Next ──► episode.play

The limits of the run and of the episode depend on a clock, so they are checked only when a rule
that names them is reached.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from intercode.agents.base import Act, Ask, Close, Fork, Request
from intercode.submission import is_submission
from intercode.types import INCOMPLETE, Reply, Turn

Next = Literal["grant", "submit", "refuse", "submit_for_agent", "turns", "stopped", "abandon"]
"""Do what the strategy requests ("submit": and close all other branches; "refuse": record the
action, but execute nothing). Or end the episode: submit the branch that acted last for the agent,
keep the score so far, or leave the episode without a reward."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The facts after a request of the strategy; the methods are the conditions of rules.

    `request`: None if the strategy returned; the reply if that is final, since the strategy is then
    not asked. `most` turns may act; None: no limit. `pays`: a submission is scored, as under the
    protocol "submit".
    """

    request: Request | Reply | None
    turns: Sequence[Turn]
    most: int | None
    pays: bool
    submission: re.Pattern[str]
    stop_reason: Callable[[], str | None]
    over_budget: Callable[[], bool]

    def returned(self) -> bool:
        return self.request is None

    def reply_is_final(self) -> bool:
        return isinstance(self.request, Reply)

    def run_stops(self) -> bool:
        return bool(self.stop_reason())

    def budget_spent(self) -> bool:
        return self.over_budget()

    def turns_spent(self, submissions: int = 0) -> bool:
        acted = sum(turn.acted for turn in self.turns)
        return self.most is not None and acted >= self.most + submissions

    def submission_spent(self) -> bool:
        return self.turns_spent(submissions=1)

    def needs_turn(self) -> bool:
        chooses_branch = self.pays and isinstance(self.request, Fork | Close)
        return not (self.submits_work() or chooses_branch)

    def begins_turn(self) -> bool:
        return isinstance(self.request, Ask) or not (self.submits() or self.awaits_action())

    def awaits_action(self) -> bool:
        """Return whether the last turn is a question that no action has answered."""
        return bool(self.turns) and not self.turns[-1].acted

    def incomplete(self) -> bool:
        """Return whether the request is an action of a reply that must not be executed."""
        from_reply = (
            isinstance(self.request, Act) and not self.request.own_turn and self.awaits_action()
        )
        return from_reply and self.turns[-1].finish_reason in INCOMPLETE

    def submits(self) -> bool:
        action = self.request.action if isinstance(self.request, Act) else None
        return is_submission(action, self.submission) and not self.incomplete()

    def submits_work(self) -> bool:
        return self.pays and self.submits()


class Rule(NamedTuple):
    """Decides the next step if all conditions of `when` hold and no earlier rule applies."""

    name: str
    when: tuple[Callable[[Moment], bool], ...]
    then: Next


RULES = (
    # A strategy that returns has ended its episode, so no limit matters any more.
    Rule("returned after the last turn", (Moment.returned, Moment.turns_spent), "turns"),
    Rule("returned", (Moment.returned,), "stopped"),
    # When the run is resumed, the episode is played again.
    Rule("limit of the run", (Moment.run_stops,), "abandon"),
    # The model can answer no more, and half a reply is not executed: the work so far counts.
    Rule("final reply", (Moment.reply_is_final,), "submit_for_agent"),
    # After the last turn one submission is allowed; it was used, and was wrong.
    Rule("wrong submission after the last turn", (Moment.submission_spent,), "turns"),
    # Only that submission may follow, and forks and closes before it.
    Rule("no turn left", (Moment.turns_spent, Moment.needs_turn), "turns"),
    # A reply that is paid for is executed, so the budget is checked between turns.
    Rule("budget of the episode", (Moment.begins_turn, Moment.budget_spent), "submit_for_agent"),
    # Half a command may do harm that the model did not choose.
    Rule("incomplete reply", (Moment.incomplete,), "refuse"),
    # No search may see the scores of several branches.
    Rule("submission", (Moment.submits_work,), "submit"),
    Rule("any other request", (), "grant"),
)


def next_rule(moment: Moment) -> Rule:
    """Return the first rule of which all conditions hold."""
    return next(rule for rule in RULES if all(holds(moment) for holds in rule.when))
