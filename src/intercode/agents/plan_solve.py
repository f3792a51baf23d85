"""Plan & Solve: the model writes a plan first, then carries out one step of it a turn.

    task ──► Ask: a plan ──► for each step: Ask ──► Act ──► observation
                                └── refine: with the turns that are left, check and mend what came out

Without refinement the work is submitted after the last step, as the paper has it; a reply without a list is a plan of one step.
"""

from __future__ import annotations

import re

from intercode.agents.base import SUBMIT, Act, Strategy, StrategySteps
from intercode.agents.dialogue import Dialogue
from intercode.agents.prompts import Prompts
from intercode.agents.try_again import go_on
from intercode.types import Task

TEXTS = ("plan", "plan.step", "plan.refine")
_STEP = re.compile(r"^[ \t*#]*(?:step[ \t]*)?\d+[.):][ \t*]*(\S.*)$", re.MULTILINE | re.IGNORECASE)


def plan_solve(prompts: Prompts, turns: int = 10, *, refine: bool = False) -> Strategy:
    """With `refine` at least one turn, where there are two, is left for it."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        talk = Dialogue.about(task, protocol, turns, prompts)
        most = max(1, turns - 1) if refine else turns
        talk.say(prompts.fill("plan", most=most))
        reply = yield talk.ask()
        talk.heard(reply)
        steps = steps_of(reply.text)[:most]
        for number, step in enumerate(steps, 1):
            talk.say(prompts.fill("plan.step", number=number, count=len(steps), step=step))
            act = talk.act((yield talk.ask()))
            talk.see((yield act))
        if refine and talk.left:
            talk.say(prompts.fill("plan.refine"))
            yield from go_on(talk)
        if protocol == SUBMIT:
            yield Act(SUBMIT)

    return strategy


def steps_of(plan: str) -> list[str]:
    """The lines of a numbered list; all of a text that has none."""
    return [step.strip() for step in _STEP.findall(plan)] or [plan.strip()]
