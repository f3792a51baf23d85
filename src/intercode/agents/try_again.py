"""The paper's methods of one line of play: show the task, run the code, show what it printed, try again.

    task ──► Ask ──► code? ── yes ──► Act(code) ──► observation ──► Ask …
                       └───── no ───► Act(None, retry note) ──────► Ask …

Try Again writes its code in fences; ReAct writes `Thought: …` and `Action: execute[…]`. Under the `submit` protocol the
model says when it is done, and what it has when its turns are used up is submitted for it, so that one turn is the paper's
single-turn setting. Under `paper` each observation comes with the score unless the agent is `blind`.
"""

from __future__ import annotations

from intercode.agents.base import SUBMIT, Act, Strategy, StrategySteps
from intercode.agents.dialogue import Dialogue
from intercode.agents.prompts import Prompts, load
from intercode.types import Task


def try_again(language: str = "bash", turns: int = 10, *, prompts: Prompts | None = None, blind: bool = False) -> Strategy:
    """The strategy for environments that run `language`, with `turns` actions before the submission.

    `prompts` are those for code in fences; ReAct's make it ReAct.
    """
    texts = prompts or load("fence", language)

    def strategy(task: Task, protocol: str) -> StrategySteps:
        talk = Dialogue.about(task, protocol, turns, texts, blind=blind)
        yield from go_on(talk)
        if protocol == SUBMIT:
            yield Act(SUBMIT)

    return strategy


def go_on(talk: Dialogue) -> StrategySteps:
    """Ask and act until the turns are used up; the driver ends it where the environment does."""
    while talk.left:
        act = talk.act((yield talk.ask()))
        talk.see((yield act))
