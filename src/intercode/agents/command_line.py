"""A command-line agent: a program that runs in the task's sandbox, asks the model by itself and
executes what it likes there (`runner/launch.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from intercode.agents.base import SUBMIT, Act, Launch, Launched, Strategy, StrategySteps
from intercode.errors import UsageError
from intercode.submission import TAKES_ANSWER, WORD, submitting
from intercode.types import Task


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
        takes_word = takes_answer or "gold_is" in task.extra
        how = "submit 'ANSWER'" if takes_word else "submit"
        query = f"{task.query}\n\nWhen the work is done, run the shell command `{how}`."
        if task.general and not takes_word:
            how = "submit 'COMMAND'"
            query = (
                f"{task.query}\n\nAnswer with one shell command that does it, also on other data: "
                f"run `{how}`."
            )
        launched: Launched = yield Launch(command, query, turns, variables or {}, how)
        answer, action = launched.submission, SUBMIT
        if takes_word:
            action = submitting(answer, WORD, takes_answer=takes_answer)
        elif task.general and answer:
            yield Act(answer, own_turn=True)
        yield Act(action, own_turn=True, forced=answer is None and launched.ended)

    return strategy
