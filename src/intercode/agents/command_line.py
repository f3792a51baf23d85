"""A command-line agent: a program that runs in the task's sandbox, asks the model by itself and
executes what it likes there (`runner/launch.py`).

It starts once for each round of a task. `{resume:FLAG}` in its command stands for FLAG in later
rounds, and for nothing in the first: `claude -p {resume:--continue} {query}`. A program without it
starts anew, and the query then has the earlier requests too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from intercode.agents.base import SUBMIT, Act, Launch, Launched, Strategy, StrategySteps
from intercode.errors import UsageError
from intercode.submission import TAKES_ANSWER, WORD, submitting
from intercode.types import Task

_RESUME = re.compile(r"\{resume:([^{}]*)\}")
_AGAIN = "You have worked here before. These were the requests then:\n\n{earlier}\n\nNow: {query}"


def command_line(
    command: str, turns: int = 10, variables: Mapping[str, str] | None = None
) -> Strategy:
    """Return the strategy that runs `command` with `turns` replies of the model, then submits what
    the program submitted, or the state as it is. A task marked general is scored on other data too,
    where the program does not run: it submits a command, which is executed on both."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        if protocol != SUBMIT:
            raise UsageError("a command-line agent has no turns to score: use --protocol submit")
        takes_answer = bool(task.extra.get(TAKES_ANSWER))
        for posed in (task, *task.rounds):
            query, asked = posed.query, [earlier.query for earlier in posed.earlier]
            if asked and not _RESUME.search(command):
                query = _AGAIN.format(earlier="\n\n".join(asked), query=query)
            takes_word = takes_answer or "gold_is" in posed.extra
            how = "submit 'ANSWER'" if takes_word else "submit"
            ending = f"When the work is done, run the shell command `{how}`."
            if posed.general and not takes_word:
                how = "submit 'COMMAND'"
                ending = "Answer with one shell command that does it, also on other data: run "
                ending += f"`{how}`."
            program = _RESUME.sub(r"\1" if asked else "", command)
            request = Launch(program, f"{query}\n\n{ending}", turns, variables or {}, how)
            launched: Launched = yield request
            answer, action, forced = launched.submission, SUBMIT, launched.ended
            if takes_word:
                action = submitting(answer, WORD, takes_answer=takes_answer)
            elif posed.general and answer:
                yield Act(answer, own_turn=True)
            goes_on = forced == "stopped" and len(asked) < len(task.rounds)
            yield Act(action, own_turn=True, forced=answer is None and not goes_on and forced)

    return strategy
