"""Tool calling: the model calls `execute` and `submit` in the OpenAI format instead of writing code
into its text.

    Ask(tools) ──► reply with calls ──► Act ──► tool message      one for each call, in order
                        ├─ malformed ─► Act(None, the reason) ──► tool message
                        ├─ in the text ► Act                  ──► user message  (`written_calls`)
                        └─ no call ───► Act(None, retry note) ──► user message

Every call costs a turn. Calls beyond the last turn are not executed: the model should have seen the
results of the others first.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from intercode.agents.base import SUBMIT, Act, Ask, Strategy, StrategySteps
from intercode.agents.code import asking, code_of, split_reasoning, unfenced, written_calls
from intercode.agents.dialogue import Dialogue, format_step, format_turns, message
from intercode.agents.prompts import Prompts
from intercode.language import Language
from intercode.submission import submitting
from intercode.types import INCOMPLETE, Reply, Task, Tool, ToolCall


def _tool(name: str, what: str, **texts: str) -> Tool:
    properties = {key: {"type": "string", "description": value} for key, value in texts.items()}
    required = [] if name == SUBMIT else [*texts]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": name, "description": what, "parameters": parameters},
    }


EXECUTE = _tool("execute", "Execute code and see what it prints.", code="The code to run.")
WORD = {"answer": "The word to submit, such as a flag or a name; empty if none is needed."}
ASK = _tool("ask", "Ask the user one question about the task.", question="The question.")
ANSWER = {
    "answer": "Your answer, in place of what the last code printed; empty if that is your answer."
}


class Malformed(Exception):
    """A call that cannot be executed; the text is the reason."""


def tools(prompts: Prompts, turns: int = 10) -> Strategy:
    """Return the strategy with `turns` calls before the submission."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        talk = Dialogue.start(task, protocol, turns, prompts)
        word = {}
        if talk.takes_answer:
            word = ANSWER
        elif prompts.language.submission.groups:
            word = WORD
        submit = _tool(SUBMIT, "Submit the work and finish.", **word)
        offered = (EXECUTE, ASK, submit) if talk.takes_questions else (EXECUTE, submit)
        while talk.left:
            reply: Reply = yield Ask(tuple(talk.messages), offered)
            complete = reply.finish_reason not in INCOMPLETE
            calls = reply.calls if complete else ()
            written = []
            if complete and not calls:
                written = written_calls(split_reasoning(reply.text)[1])
            talk.add_reply(replace(reply, calls=calls))
            thought: str | None = reply.text or None
            if not (calls or written):
                talk.add_step((yield Act(None, thought, prompts.fill("tools.retry"))))
            for call in calls or written:
                output = "Not executed: all turns are used up."
                if talk.left:
                    try:
                        action = action_of(
                            call,
                            prompts.language,
                            takes_answer=talk.takes_answer,
                            takes_questions=talk.takes_questions,
                        )
                        act = Act(action, thought)
                    except Malformed as error:
                        act = Act(None, thought, prompts.fill("tools.malformed", why=error))
                    step = yield act
                    talk.left -= 1
                    output = (
                        f"{format_step(step, scored=protocol == 'paper')}\n"
                        f"[{format_turns(talk.left)} left]"
                    )
                if written:
                    talk.add_user(output)
                else:
                    talk.messages.append({**message("tool", output), "tool_call_id": call.id})
                thought = None
        if protocol == SUBMIT:
            yield Act(SUBMIT, forced=True)

    return strategy


def action_of(
    call: ToolCall,
    language: Language,
    *,
    takes_answer: bool = False,
    takes_questions: bool = False,
) -> str:
    """Return the action of a call. Raises `Malformed`, also for arguments that are not a JSON
    object: these are never code."""
    try:
        arguments: Any = json.loads(call.arguments.strip() or "{}", strict=False)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"its arguments are not JSON ({error})") from None
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise Malformed("its arguments are not a JSON object")
    name = call.name.rpartition("functions.")[2].partition("<")[0]  # without the model's marks
    if name == SUBMIT:
        return submitting(arguments.get("answer"), language.submission, takes_answer=takes_answer)
    if name == "ask" and takes_questions:
        if question := asking(arguments):
            return question
        raise Malformed("it contains no text under the key question")
    if name != "execute":
        raise Malformed(f"there is no tool {call.name!r:.50}")
    code = unfenced(code_of(arguments))
    if not code:
        raise Malformed("it contains no text under the key code")
    return code
