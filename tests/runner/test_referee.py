"""The rules of an episode, read as a table and compared with one written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import pytest

from intercode.agents import Act, Ask, Close, Fork
from intercode.agents.base import Request
from intercode.runner import referee
from intercode.runner.referee import RULES, Moment, next_rule
from intercode.submission import WORD
from intercode.types import Reply, Turn

ACTED = Turn(action="ls")
LAST_TURN = {
    "none": [],
    "acted": [ACTED],
    "asked": [ACTED, Turn(reply="ls", finish_reason="stop")],
    "half": [ACTED, Turn(reply="ls", finish_reason="length")],
}
"""The last turn: there is none, it acted, or its reply, whole or half, waits for an action."""
REQUESTS: dict[str, Request | Reply | None] = {
    "ask": Ask([{"role": "user", "content": "On?"}]),
    "act": Act("ls"),
    "no code": Act(None),
    "own turn": Act("ls", own_turn=True),
    "submit": Act("submit"),
    "fork": Fork(),
    "close": Close(1),
    "return": None,
    "final": Reply("ls", final=True),
}
# What happens while nothing is used up. `!`: it begins a turn, so that the budget of the episode is
# looked at. `+`: under the protocol "submit" it may still come after the last turn.
WITHIN_LIMITS = """
            none        acted       asked       half
ask         grant!      grant!      grant!      grant!
act         grant!      grant!      grant       refuse
no code     grant!      grant!      grant       refuse
own turn    grant!      grant!      grant       grant
submit      submit+     submit+     submit+     refuse
fork        grant!+     grant!+     grant+      grant+
close       grant!+     grant!+     grant+      grant+
"""


@dataclass(frozen=True)
class Case:
    """A combination of facts. `turns`: how many are left; −1 after a submission that was wrong."""

    request: str
    last: str
    turns: int | None = None
    pays: bool = True
    stopped: bool = False
    over_budget: bool = False

    def moment(self, looked: list[str] | None = None) -> Moment:
        """Return the moment; the limits that a rule looks at are noted in `looked`."""
        turns = LAST_TURN[self.last]

        def looks_at(limit: str) -> None:
            if looked is not None:
                looked.append(limit)

        def stop_reason() -> str | None:
            looks_at("run")
            return "interrupted" if self.stopped else None

        def over_budget() -> bool:
            looks_at("episode")
            return self.over_budget

        return Moment(
            REQUESTS[self.request],
            turns,
            None if self.turns is None else self.turns + sum(turn.acted for turn in turns),
            self.pays,
            WORD,
            stop_reason,
            over_budget,
        )

    def expected(self) -> tuple[str, list[str]]:
        """Return what happens, and the limits that are looked at."""
        if self.request == "return":
            return ("stopped" if self.turns in (None, 1) else "turns"), []
        if self.stopped:
            return "abandon", ["run"]
        if self.request == "final":
            return "submit_for_agent", ["run"]
        heading, *rows = WITHIN_LIMITS.strip("\n").splitlines()
        place = heading.index(self.last)
        cell = next(row[place:].split()[0] for row in rows if row.startswith(self.request))
        if self.turns == -1 or (self.turns == 0 and not (self.pays and "+" in cell)):
            return "turns", ["run"]
        if "!" in cell and self.over_budget:
            return "submit_for_agent", ["run", "episode"]
        word = cell.rstrip("!+")
        then = word if self.pays or word != "submit" else "grant"
        return then, ["run", *(["episode"] if "!" in cell else [])]


def cases() -> Iterator[Case]:
    both = (False, True)
    for request, last, turns in product(REQUESTS, LAST_TURN, (None, 1, 0, -1)):
        if not (last == "none" and turns == -1):
            yield from (Case(request, last, turns, *flags) for flags in product(both, both, both))


def test_every_combination_of_facts_is_decided_as_the_table_says() -> None:
    for case in cases():
        looked: list[str] = []
        assert (next_rule(case.moment(looked)).then, looked) == case.expected(), case


@pytest.mark.parametrize(
    ("case", "name", "then"),
    [
        (Case("return", "acted", 1, stopped=True), "returned", "stopped"),
        (Case("return", "asked", 0), "returned after the last turn", "turns"),
        (Case("submit", "asked", stopped=True), "limit of the run", "abandon"),
        (Case("final", "asked", 0, stopped=True), "limit of the run", "abandon"),
        (Case("final", "asked", 0), "final reply", "submit_for_agent"),
        (Case("final", "asked", pays=False), "final reply", "submit_for_agent"),
        (Case("submit", "acted", 0, over_budget=True), "submission", "submit"),
        (Case("submit", "acted", -1), "wrong submission after the last turn", "turns"),
        (Case("fork", "acted", -1), "wrong submission after the last turn", "turns"),
        (Case("fork", "acted", 0), "any other request", "grant"),
        (Case("ask", "acted", 0), "no turn left", "turns"),
        (Case("close", "acted", 0, pays=False), "no turn left", "turns"),
        (Case("submit", "acted", 0, pays=False), "no turn left", "turns"),
        (Case("submit", "half", 0), "no turn left", "turns"),
        (Case("ask", "acted", 1, over_budget=True), "budget of the episode", "submit_for_agent"),
        (Case("fork", "acted", 0, over_budget=True), "budget of the episode", "submit_for_agent"),
        (Case("act", "asked", 1, over_budget=True), "any other request", "grant"),
        (Case("act", "half", 1, over_budget=True), "incomplete reply", "refuse"),
        (Case("submit", "half"), "incomplete reply", "refuse"),
        (Case("own turn", "half"), "any other request", "grant"),
        (Case("submit", "none", pays=False), "any other request", "grant"),
    ],
    ids=str,
)
def test_the_rule_that_decides_has_the_name_of_what_happened(
    case: Case, name: str, then: str
) -> None:
    rule = next_rule(case.moment())
    assert (rule.name, rule.then) == (name, then)


def test_every_rule_decides_something_and_no_two_say_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len({rule.name for rule in RULES}) == len({rule.when for rule in RULES}) == len(RULES)
    decisions = {case: next_rule(case.moment()) for case in cases()}
    assert set(decisions.values()) == set(RULES)
    for rule in RULES[:-1]:  # without the last one nothing would be granted
        monkeypatch.setattr(referee, "RULES", [other for other in RULES if other is not rule])
        changed = [
            case for case in cases() if next_rule(case.moment()).then != decisions[case].then
        ]
        assert changed, f"the rule `{rule.name}` decides nothing"
