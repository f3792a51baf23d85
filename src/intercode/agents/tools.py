"""Tool calling: the model calls `execute` and `submit` in the OpenAI format instead of writing code into its text.

    Ask(tools) ──► reply with calls ──► Act ──► tool message      one for each call, in their order
                        ├─ malformed ─► Act(None, what is wrong) ──► tool message
                        └─ none called ► Act(None, retry note) ──► user message

Every call uses up a turn. Calls beyond the last turn are not executed: the model would have seen the others first.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from intercode.agents.base import SUBMIT, Act, Ask, Strategy, StrategySteps
from intercode.agents.dialogue import Dialogue, count, message, told
from intercode.agents.prompts import Prompts
from intercode.agents.wrapping import code_of
from intercode.submission import pattern_for
from intercode.types import Message, Reply, Task, Tool, ToolCall


def _tool(name: str, what: str, **texts: str) -> Tool:
    properties = {key: {"type": "string", "description": value} for key, value in texts.items()}
    required = [key for key in texts if name != SUBMIT]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": what, "parameters": parameters}}


EXECUTE = _tool("execute", "Execute code, and be shown what it prints.", code="The code to run.")
WORD = {"answer": "The word to submit, such as a flag or a name; empty if none is wanted."}
ANSWER = {"answer": "Your answer, in the place of what the last code printed; empty if that is your answer."}


def tools_for(language: str, *, takes_answer: bool = False) -> tuple[Tool, Tool]:
    """A submission has an answer only where it takes one, or a word."""
    word = ANSWER if takes_answer else WORD if pattern_for(language).groups else {}
    return EXECUTE, _tool(SUBMIT, "Submit the work and end it.", **word)


class Malformed(Exception):
    """A call that cannot be executed; the text says why."""


def tools(prompts: Prompts, turns: int = 10) -> Strategy:
    def strategy(task: Task, protocol: str) -> StrategySteps:
        talk = Dialogue.about(task, protocol, turns, prompts)
        offered = tools_for(prompts.language, takes_answer=talk.takes_answer)
        while talk.left:
            reply: Reply = yield Ask(tuple(talk.messages), offered)
            talk.messages.append(_said(reply))
            thought: str | None = reply.text or None
            if not reply.calls:
                talk.see((yield Act(None, thought, prompts.fill("tools.retry"))))
            for number, call in enumerate(reply.calls):
                seen = "Not executed: all turns are used up."
                if talk.left:
                    try:
                        act = Act(action_of(call, prompts.language, takes_answer=talk.takes_answer), thought)
                    except Malformed as error:
                        act = Act(None, thought, prompts.fill("tools.malformed", why=error))
                    step = yield act
                    talk.left -= 1
                    seen = f"{told(step, scored=protocol == 'paper')}\n[{count(talk.left)} left]"
                talk.messages.append({**message("tool", seen), "tool_call_id": _id(call, number)})
                thought = None
        if protocol == SUBMIT:
            yield Act(SUBMIT)

    return strategy


def action_of(call: ToolCall, language: str, *, takes_answer: bool = False) -> str:
    """The action of a call. Arguments that are no JSON object are taken for a slip, never for code."""
    try:
        arguments: Any = json.loads(call.arguments or "{}", strict=False)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"its arguments are not JSON ({error})") from None
    if not isinstance(arguments, dict):
        raise Malformed("its arguments are not a JSON object")
    if call.name == SUBMIT:
        answer = str(arguments.get("answer") or "")
        if takes_answer and answer:
            return f"{SUBMIT} {shlex.quote(answer)}"
        return f"{SUBMIT} {answer}".strip() if pattern_for(language).groups else SUBMIT
    if call.name != "execute":
        raise Malformed(f"there is no tool {call.name!r:.50}")
    code = code_of(arguments)
    if not code:
        raise Malformed("it holds no text under the key code")
    return code


def _said(reply: Reply) -> Message:
    """The reply as a message; arguments go back as they came."""
    said = message("assistant", reply.text)
    if not reply.calls:
        return said
    return {**said, "tool_calls": [
        {"id": _id(call, number), "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for number, call in enumerate(reply.calls)
    ]}  # fmt: skip


def _id(call: ToolCall, number: int) -> str:
    return call.id or f"call-{number}"
