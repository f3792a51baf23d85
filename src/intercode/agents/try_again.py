"""The paper's strategies: Try Again, ReAct, and Plan & Solve. Each continues one conversation from
turn to turn.

    try_again, react     task ──► Ask ──► code? ── yes ──► Act(code) ──► observation ──► Ask …
                                            └───── no ───► Act(None, retry note) ──────► Ask …

    plan_solve           task ──► Ask: a plan ──► for each step: Ask ──► Act ──► observation
                                                     └── refine: use the turns that are left to
                                                         check and correct the result

Try Again writes code in fences; ReAct writes `Thought: …` and `Action: execute[…]`. Under the
`submit` protocol the model says when it is done, and when its turns are used up the work is
submitted for it: one turn is the paper's single-turn setting. Under `paper` each observation comes
with the score, unless the agent is `blind`.

Plan & Solve without refinement submits after the last step, as in the paper. A reply without a list
is a plan of one step.
"""

from __future__ import annotations

import re

from intercode.agents.base import SUBMIT, Act, Strategy, StrategySteps
from intercode.agents.dialogue import Dialogue
from intercode.agents.prompts import Prompts
from intercode.types import Task

PLAN_TEXTS = ("plan", "plan.step", "plan.refine")
_STEP = re.compile(r"^[ \t*#]*(?:step[ \t]*)?\d+[.):][ \t*]*(\S.*)$", re.MULTILINE | re.IGNORECASE)


def try_again(prompts: Prompts, turns: int = 10, *, blind: bool = False) -> Strategy:
    """Return the strategy with `turns` actions before the submission. ReAct's prompts make it
    ReAct."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        yield from Dialogue.start(task, protocol, turns, prompts, blind=blind).take_turns()
        if protocol == SUBMIT:
            yield Act(SUBMIT, forced=True)

    return strategy


def plan_solve(prompts: Prompts, turns: int = 10, *, refine: bool = False) -> Strategy:
    """Return the strategy with at most one step per turn. With `refine` and two turns or more, one
    turn is reserved for refinement."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        talk = Dialogue.start(task, protocol, turns, prompts)
        most = max(1, turns - 1) if refine else turns
        talk.add_user(prompts.fill("plan", most=most))
        reply = yield talk.ask()
        talk.add_reply(reply)
        steps = [step.strip() for step in _STEP.findall(reply.text)] or [reply.text.strip()]
        steps = steps[:most]
        for number, step in enumerate(steps, 1):
            talk.add_user(prompts.fill("plan.step", number=number, count=len(steps), step=step))
            talk.add_step((yield talk.act((yield talk.ask()))))
        if refine and talk.left:
            talk.add_user(prompts.fill("plan.refine"))
            yield from talk.take_turns()
        if protocol == SUBMIT:
            yield Act(SUBMIT, forced=not talk.left)

    return strategy
