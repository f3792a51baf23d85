"""Rewrite a solved episode, for example of the agent `gold`, in the form of an agent that asks a
model.

    recorded actions ──► replies in the agent's form ──┐
    recorded observations ─────────────────────────────┴──► the agent's strategy ──► its questions
                                                                                     and actions

The strategy is the one that `eval` would use, so its questions are those that it would send.
Nothing is executed. An episode that the strategy reads differently is left out: after each reply,
the strategy must take the recorded action.

Left out: thoughts of the recorded agent, turns without an action, and abandoned branches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from intercode.agents import SUBMIT, Act, Ask, Step, make_agent
from intercode.envs import environment_class
from intercode.errors import UsageError
from intercode.language import Language
from intercode.plugins import attribute_path
from intercode.runner.strategy_driver import drive
from intercode.runs.rows import Config
from intercode.submission import ANSWER, TAKES_ANSWER, answer_in, is_submission, submitted_word
from intercode.types import Episode, Reply, Task, Tool, ToolCall, Turn
from intercode.user import TAKES_QUESTIONS, question_in

AGENTS = ("try_again", "try_again_blind", "react", "tools")
THOUGHTS = ("This action is the next step.", "The work is done.")
"""The thoughts that ReAct replies get: before code, and before a submission."""

QUESTION_THOUGHT = "The user can tell me this."

Rewritten = tuple[Episode, Sequence[Tool]]
"""An episode in an agent's form, and the tools that the agent offers the model."""


def rewriter(config: Config, name: str, turns: int | None) -> Callable[[Episode], Rewritten | None]:
    """Return a function that rewrites an episode of the run with settings `config` as the agent
    `name` would have played it, with prompts for `turns` turns (None: the run's).

    It returns None if an action cannot be written in that form, or if there were more actions than
    turns. Raises `UsageError` if the agent is unknown or the record lacks what the prompt needs.
    """
    if name not in AGENTS:
        raise UsageError(f"--as {name} is not possible; choose one of {', '.join(AGENTS)}")
    needed = {"env": config.get("env"), "turns": turns or config.get("turns")}
    missing = [key for key, value in needed.items() if not value]
    if missing:
        raise UsageError(
            f"{config['run']} does not say its {' and '.join(missing)}, which the prompt depends on"
        )
    env = environment_class(str(needed["env"]))
    language = env.language
    folder = attribute_path(env, "prompts")
    prompts = Path(folder) if folder else None
    protocol = str(config.get("protocol") or SUBMIT)
    most = int(needed["turns"] or 0)
    agent = make_agent(name, tasks=(), turns=most, language=language, prompts=prompts)
    pattern_of_run = env.submission_under(config.get("played_for", config.get("reward")))

    def rewrite(episode: Episode) -> Rewritten | None:
        if episode.takes_answer is None and protocol == SUBMIT and pattern_of_run is ANSWER:
            raise UsageError(
                f"{config['run']} was played by an older version, "
                "which did not record where the prompt allows `submit ANSWER`; play the tasks again"
            )
        pattern = language.submission_where(takes_answer=bool(episode.takes_answer))
        recorded = [turn for turn in episode.line if turn.action is not None]
        if protocol == SUBMIT and not (recorded and is_submission(recorded[-1].action, pattern)):
            recorded.append(Turn(action=SUBMIT))
        extra = {
            TAKES_ANSWER: bool(episode.takes_answer),
            TAKES_QUESTIONS: episode.takes_questions,
        }
        task = Task(episode.task, episode.query, "", extra)
        rewritten, tools = list[Turn](), list[Tool]()
        with drive(agent.strategy, task, protocol) as advance:
            request = advance(None)
            for turn in recorded:
                if not isinstance(request, Ask):
                    # no turns are left, so the agent submits without being asked
                    if turn.action != SUBMIT or turn is not recorded[-1]:
                        return None
                    break
                reply, action = _reply(name, language, turn, len(rewritten) + 1, pattern)
                act = advance(reply)
                meaning = _meaning(action, pattern)
                if not isinstance(act, Act) or _meaning(act.action, pattern) != meaning:
                    return None
                tools = list(request.tools)
                answer = Turn(
                    tuple(request.messages),
                    reply.text,
                    act.thought,
                    turn.action,
                    turn.observation,
                    turn.exit_code,
                    turn.timed_out,
                    turn.truncated_output,
                    turn.score,
                    calls=reply.calls or None,
                    asked=turn.asked,
                )
                rewritten.append(answer)
                info = {"exit_code": turn.exit_code}
                request = advance(Step(turn.observation, turn.score or 0.0, info=info))
        return replace(episode, turns=tuple(rewritten)), tools

    return rewrite


def _reply(
    agent: str, language: Language, turn: Turn, number: int, pattern: re.Pattern[str]
) -> tuple[Reply, str]:
    """Return the reply of `agent` that contains the action of a turn, and the action that it must
    lead to; `number` makes the ids of calls unique."""
    action = str(turn.action)
    question = None
    if turn.asked is not None:
        question = question_in(action)
    thought, tool, arguments = THOUGHTS[0], "execute", {"code": action}
    text = f"execute[{action}]"
    if question is not None:
        thought, tool, arguments = QUESTION_THOUGHT, "ask", {"question": question}
        action = text = f"ask {question}"
    elif is_submission(action, pattern):
        word = _meaning(action, pattern)[1]
        thought, tool, text = THOUGHTS[1], SUBMIT, action
        arguments = {}
        if word:
            arguments["answer"] = word
    if agent == "tools":
        call = ToolCall(f"call-{number}", tool, json.dumps(arguments, ensure_ascii=False))
        return Reply("", calls=(call,)), action
    if agent == "react":
        return Reply(f"Thought: {thought}\nAction: {text}"), action
    if question is None:
        ticks = "`" * max(3, *(len(run) + 1 for run in re.findall("`{3,}", action)), 0)
        text = f"{ticks}{language.fence}\n{action}\n{ticks}"
    return Reply(text), action


def _meaning(action: str | None, pattern: re.Pattern[str]) -> tuple[bool, str]:
    """Return whether an action submits, and the code or the submitted word, in one spelling."""
    action = (action or "").strip()
    if not is_submission(action, pattern):
        return False, action
    word = submitted_word(pattern, action)
    if pattern is ANSWER and (answer := answer_in(word)) is not None:
        word = answer.removesuffix("\n")
    return True, word
