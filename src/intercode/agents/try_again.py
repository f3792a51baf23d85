"""The paper's method: show the task, run the code, show what it printed, try again.

    system + task ──► Ask ──► code? ── yes ──► Act(code) ──► observation ──► Ask …
                               └────── no ───► Act(None, retry note) ──────► Ask …

Under the `submit` protocol the model says when it is done, and what it has when its turns are used up is submitted for
it, so that one turn is the paper's single-turn setting. Under `paper` each observation comes with the score.
The prompts are the text files beside this module, written for it; a run records their digest.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from intercode.agents.base import SUBMIT, Act, Ask, Moves, Step, Strategy
from intercode.agents.code import split_reply
from intercode.errors import UsageError
from intercode.types import Message, Task

PARTS = ("", ".submit", ".paper", ".retry")


def try_again(language: str = "bash", turns: int = 10) -> Strategy:
    """The strategy for environments that run `language`, with `turns` actions before the submission."""
    prompts = load_prompts("try_again", language)

    def strategy(task: Task, protocol: str) -> Moves:
        messages = _opening(prompts, task, protocol, turns)
        for left in reversed(range(turns)):
            reply = yield Ask(tuple(messages))
            code, thought = split_reply(reply.text, language)
            step = yield Act(code, thought or None, None if code else prompts[".retry"])
            messages += [_message("assistant", reply.text), _message("user", _told(step, protocol, left))]
        if protocol == SUBMIT:
            yield Act(SUBMIT)

    return strategy


def prompt_digest(name: str, language: str) -> str:
    """The sha256 of all prompt texts of a strategy, in a fixed order: the version that a run records."""
    prompts = load_prompts(name, language)
    return hashlib.sha256("\0".join(prompts[part] for part in PARTS).encode()).hexdigest()


@cache
def load_prompts(name: str, language: str) -> dict[str, str]:
    folder = files("intercode.agents") / "prompts"
    try:
        return {part: (folder / f"{name}.{language}{part}.txt").read_text("utf-8").strip() for part in PARTS}
    except FileNotFoundError:
        raise UsageError(f"the agent {name} has no prompt for {language} yet; choose another agent") from None


def _opening(prompts: dict[str, str], task: Task, protocol: str, turns: int) -> list[Message]:
    ending = prompts["." + protocol].replace("{turns}", _count(turns))
    system = prompts[""].replace("{ending}", ending)
    return [_message("system", system), _message("user", task.query)]


def _told(step: Step, protocol: str, left: int) -> str:
    lines = [step.observation.rstrip("\n") or "(no output)"]
    if step.info and step.info.get("exit_code"):
        lines.append(f"[exit code {step.info['exit_code']}]")
    if protocol == "paper":
        lines.append(f"[score {step.reward:.2f}]")
    return "\n".join([*lines, f"[{_count(left)} left]"])


def _count(turns: int) -> str:
    return "1 turn" if turns == 1 else f"{turns} turns"


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}
