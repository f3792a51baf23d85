"""A conversation about one task, as most strategies hold it: asked, said, done, seen, and the turns that are left.

    system: world, form, ending ── user: the task ── assistant: a reply ── user: what its action printed ── …

Each reply has one action. Left out: conversations with calls of tools (`tools.py`), which have messages of other kinds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from intercode.agents.base import TRUNK, Act, Ask, Branch, Step
from intercode.agents.code import split_reply
from intercode.agents.prompts import Prompts
from intercode.submission import TAKES_ANSWER, is_submission, pattern_for
from intercode.types import Message, Reply, Task


@dataclass
class Dialogue:
    """`blind`: scores are not told. `left`: how many more actions there are. `takes_answer`: `submit ANSWER` is taken."""

    prompts: Prompts
    protocol: str
    left: int
    messages: list[Message] = field(default_factory=list)
    blind: bool = False
    takes_answer: bool = False

    @classmethod
    def about(cls, task: Task, protocol: str, turns: int, prompts: Prompts, *, blind: bool = False, more: str = "") -> Self:
        """The opening; `more` is the name of a text that the system's message ends with."""
        ending = "blind" if blind and protocol == "paper" else protocol
        takes_answer = bool(task.extra.get(TAKES_ANSWER))
        endings = [ending, "answer"] if takes_answer else [ending]
        system = prompts.opening(*endings, turns=count(turns))
        system += f"\n\n{prompts.fill(more)}" if more else ""
        return cls(prompts, protocol, turns, [message("system", system), message("user", task.query)], blind, takes_answer)

    def ask(self, draw: int = 0) -> Ask:
        return Ask(tuple(self.messages), draw=draw)

    def say(self, text: str) -> None:
        """Tell the model more; two messages of the user in a row become one, as some servers demand."""
        if self.messages[-1]["role"] == "user":
            text = f"{self.messages.pop()['content']}\n\n{text}"
        self.messages.append(message("user", text))

    def heard(self, reply: Reply) -> None:
        self.messages.append(message("assistant", reply.text))

    def act(self, reply: Reply, on: Branch = TRUNK) -> Act:
        """What the reply wants done."""
        self.heard(reply)
        code, thought = split_reply(reply.text, self.prompts.language, takes_answer=self.takes_answer)
        return Act(code, thought or None, None if code else self.prompts.fill(f"{self.prompts.form}.retry"), on)

    def see(self, step: Step) -> None:
        self.left -= 1
        seen = told(step, scored=self.protocol == "paper" and not self.blind)
        prefix = "Observation: " if self.prompts.form == "react" else ""
        self.say(f"{prefix}{seen}\n[{count(self.left)} left]")

    def submits(self, act: Act) -> bool:
        return is_submission(act.action, pattern_for(self.prompts.language, takes_answer=self.takes_answer))

    def copy(self) -> Self:
        return replace(self, messages=list(self.messages))


def told(step: Step, *, scored: bool) -> str:
    lines = [step.observation.rstrip("\n") or "(no output)"]
    if step.info and step.info.get("exit_code"):
        lines.append(f"[exit code {step.info['exit_code']}]")
    if scored:
        lines.append(f"[score {step.reward:.2f}]")
    return "\n".join(lines)


def message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def count(turns: int) -> str:
    return "1 turn" if turns == 1 else f"{turns} turns"
