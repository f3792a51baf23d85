"""A person as a strategy: each question is all that was seen so far, each reply an action as it was typed.

Who answers is the driver's matter, as with any model: `intercode play` asks at the keyboard (`cli/play.py`).
"""

from __future__ import annotations

from intercode.agents.base import SUBMIT, Act, Ask, Step, StrategySteps
from intercode.types import Task


def human(task: Task, protocol: str) -> StrategySteps:
    """Under the paper's protocol, which knows no submission, `submit` ends the episode with the best score so far."""
    messages = [{"role": "user", "content": task.query}]
    while True:
        reply = yield Ask(tuple(messages))
        if protocol != SUBMIT and reply.text.strip() == SUBMIT:
            return
        step: Step = yield Act(reply.text)
        info = step.info or {}
        seen = [step.observation.rstrip("\n")] if step.observation.strip("\n") else []
        seen += [f"[exit code {info['exit_code']}]"] if info.get("exit_code") else []
        seen += [] if protocol == SUBMIT else [f"[score {step.reward:.2f}]"]
        messages += [{"role": "assistant", "content": reply.text}, {"role": "user", "content": "\n".join(seen)}]
