"""The conversation about one task that most strategies have, and the number of turns that are left.

    system: environment, form, ending ── user: the task ── assistant: a reply
      ── user: what its action printed ── assistant: a reply ── …

Each reply has one action. Left out: conversations with tool calls (`tools.py`), whose messages have
other forms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from intercode.agents.base import ROOT, SUBMIT, Act, Ask, Branch, Step, StrategySteps
from intercode.agents.code import split_reply
from intercode.agents.prompts import Prompts
from intercode.submission import TAKES_ANSWER, is_submission
from intercode.types import Message, Reply, Task
from intercode.user import TAKES_QUESTIONS


@dataclass
class Dialogue:
    """A conversation with `left` more actions. `blind` hides scores; `takes_answer` allows `submit
    ANSWER`, and `takes_questions` `ask QUESTION`: the task takes it, and the prompts explain it."""

    prompts: Prompts
    protocol: str
    left: int
    messages: list[Message]
    blind: bool
    takes_answer: bool
    takes_questions: bool

    @classmethod
    def start(
        cls,
        task: Task,
        protocol: str,
        turns: int,
        prompts: Prompts,
        *,
        blind: bool = False,
        more: str = "",
    ) -> Self:
        """Return the opening; the system message ends with the text called `more`."""
        takes_answer = bool(task.extra.get(TAKES_ANSWER)) and "answer" in prompts.texts
        takes_questions = bool(task.extra.get(TAKES_QUESTIONS))
        lookups = ", ".join(f"`{word} NAME`" for word in task.extra.get("lookups") or ())
        endings = [protocol, *["answer"] * takes_answer, *["ask"] * takes_questions]
        if blind and protocol == "paper":
            endings[0] = "blind"
        if lookups and protocol == SUBMIT:
            endings.append("lookups")
        how = "call the tool `ask`" if prompts.form == "tools" else "write `ask QUESTION` as action"
        system = prompts.opening(*endings, turns=format_turns(turns), how=how, words=lookups)
        if more:
            system += f"\n\n{prompts.fill(more)}"
        messages = [message("system", system), message("user", task.query)]
        return cls(prompts, protocol, turns, messages, blind, takes_answer, takes_questions)

    def ask(self, draw: int = 0) -> Ask:
        return Ask(tuple(self.messages), draw=draw)

    def add_user(self, text: str) -> None:
        """Add a message of the user. Two in a row become one, since some servers demand it."""
        if self.messages[-1]["role"] == "user":
            text = f"{self.messages.pop()['content']}\n\n{text}"
        self.messages.append(message("user", text))

    def add_reply(self, reply: Reply) -> None:
        self.messages.append(reply.message)

    def act(self, reply: Reply, env: Branch = ROOT) -> Act:
        """Add the reply and return its action."""
        self.add_reply(reply)
        code, thought = split_reply(
            reply.text,
            self.prompts.language,
            takes_answer=self.takes_answer,
            takes_questions=self.takes_questions,
        )
        note = None if code else self.prompts.fill(f"{self.prompts.form}.retry")
        return Act(code, thought or None, note, env)

    def add_step(self, step: Step) -> None:
        """Add the observation, and count the turn."""
        self.left -= 1
        output = format_step(step, scored=self.protocol == "paper" and not self.blind)
        if self.prompts.form == "react":
            output = f"Observation: {output}"
        self.add_user(f"{output}\n[{format_turns(self.left)} left]")

    def take_turns(self) -> StrategySteps:
        """Ask and act until no turns are left. If the environment ends earlier, the driver ends the
        strategy."""
        while self.left:
            self.add_step((yield self.act((yield self.ask()))))

    def submits(self, act: Act) -> bool:
        language = self.prompts.language
        return is_submission(act.action, language.submission_where(takes_answer=self.takes_answer))

    def copy(self) -> Self:
        return replace(self, messages=list(self.messages))


def format_step(step: Step, *, scored: bool) -> str:
    """Return the observation as the model sees it: with an exit code other than 0, and with the
    score if `scored`."""
    lines = [step.observation.rstrip("\n") or "(no output)"]
    if step.info and step.info.get("exit_code"):
        lines.append(f"[exit code {step.info['exit_code']}]")
    if scored:
        lines.append(f"[score {step.reward:.2f}]")
    return "\n".join(lines)


def message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def format_turns(turns: int) -> str:
    return "1 turn" if turns == 1 else f"{turns} turns"
