"""ATIF v1.7, the trajectory format of Harbor: write an episode as a trajectory, and read
trajectories as episodes, also those of other agents.

    new messages of a question ──► steps of the system and the user
    reply, and its actions ──────► a step of the agent: message, reasoning, metrics, a tool call for
                                   each action (`execute` or `submit`, if the reply called no tool)
    observations ────────────────► the step's observation: a result for each action; a user's reply
                                   to `ask` is the result of that call, with `asked` in `extra`
    reward and other facts ──────► `extra`, since ATIF has no fields for them

Replies that were in the question already are `is_copied_context`. Left out: messages that repeat an
observation, and the tools that a model was offered. Read back, turns have the same actions and
observations, but their questions may lack such messages.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from intercode.agents.code import asking, code_of
from intercode.errors import DataError
from intercode.reading import decoded, files_below, leave_out, parse_json, present, read_entries
from intercode.runs.rows import Config
from intercode.runs.store import from_json, read_inside, shared_length, to_json
from intercode.types import Episode, Message, Sample, ToolCall, Turn, Usage, reasoning_of

VERSION = "ATIF-v1.7"
SETTINGS = ("env", "protocol", "reward", "session", "engine", "data", "data_digest", "created")
"""The settings of a run that a trajectory keeps."""
_OF_ACTION = (
    *("exit_code", "timed_out", "truncated_output", "limits", "score", "seconds"),
    *("after", "forced", "session_lost", "value", "asked"),
)
_OF_REPLY = ("finish_reason", "reply_seconds", "left_out")
_FENCED = re.compile(r"^```[^`\n]*\n(.*?)\n?^```", re.DOTALL | re.MULTILINE)
"""The first fenced block of a reply, and the code in it."""
WAITING, FROM_TEXT = {"executed": False}, {"from_text": True}
"""The `extra` of a call that was not executed, and of one that no reply made: its code was found in
the reply's text, or came from an agent without a model."""

Object = dict[str, Any]
"""An object of JSON."""
Recording = tuple[Object, list[Episode]]
"""Settings, and episodes."""


def trajectory_of(config: Config, episode: Episode) -> Object:
    """Return the episode of a run with the settings `config` as a trajectory, as JSON."""
    record = to_json(episode)
    steps = list[Object]()
    observations = list[str]()
    past = list[tuple[str, str]]()
    for turn, facts in zip(episode.turns, record.pop("turns"), strict=True):
        question = [
            (message["role"], _text_of(message.get("content"))) for message in turn.ask or ()
        ]
        for role, content in question[shared_length(past, question) :]:
            if role == "tool" or any(text in content for text in observations):
                continue
            source = {"user": "user", "assistant": "agent"}.get(role, "system")
            step = {"step_id": len(steps) + 1, "source": source, "message": content}
            if role == "assistant":
                step["is_copied_context"] = True
            steps.append(step)
        if turn.ask is not None:
            past = [*question, ("assistant", turn.reply or "")]
        if turn.ask is not None or not _continues(steps, turn):
            steps.append(_agent_step(turn, facts, len(steps) + 1))
            observations.clear()
        if turn.acted:
            _add_action(steps[-1], turn, facts)
            observations.append(turn.observation.rstrip("\n") or "(no output)")
    if not steps:
        steps = [{"step_id": 1, "source": "user", "message": episode.query}]
    folder = Path(str(config.get("run", ""))).name
    identity = json.dumps(dict(config), default=str)
    session = f"{folder}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
    usage = episode.usage
    return {
        "schema_version": VERSION,
        "session_id": session,
        "trajectory_id": f"{session}/{episode.task}/{episode.epoch}",
        "agent": _filled(
            name=str(config.get("agent")),
            version=str((config.get("versions") or {}).get("intercode", "unknown")),
            model_name=config.get("model"),
        ),
        "steps": steps,
        "final_metrics": _filled(
            total_prompt_tokens=usage.prompt_tokens,
            total_completion_tokens=usage.completion_tokens,
            total_cost_usd=usage.cost,
            total_steps=len(steps),
        ),
        "extra": {**record, "intercode": {name: config.get(name) for name in SETTINGS}},
    }


def _continues(steps: Sequence[Object], turn: Turn) -> bool:
    """Return whether the turn is a further action of the last step's reply."""
    if not steps or turn.after is not None or turn.forced:
        return False
    last = steps[-1]
    results = last.get("observation", {}).get("results", [{}])
    return (
        last.get("llm_call_count") == 1
        and "source_call_id" in results[-1]
        and (turn.action is not None or _waiting(last) is not None)
    )


def _agent_step(turn: Turn, facts: Object, number: int) -> Object:
    """Return a step with the reply of the turn. Its calls are not executed yet."""
    step = {"step_id": number, "source": "agent", "message": turn.reply or ""}
    if turn.ask is None:
        return {**step, "message": "", "llm_call_count": 0}
    usage = turn.usage
    sample = turn.sample or Sample()
    ids = list[str]()
    calls = []
    for call in turn.calls or ():
        id = call.id
        if not id or id in ids:
            id = f"call_{number}_{len(ids)}"
        ids.append(id)
        calls.append(
            {
                "tool_call_id": ids[-1],
                "function_name": call.name,
                "arguments": _arguments(call.arguments),
                "extra": WAITING,
            }
        )
    step |= _filled(reasoning_content=reasoning_of(turn), tool_calls=calls)
    step["metrics"] = _filled(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost_usd=usage.cost,
        prompt_token_ids=list(sample.prompt_ids),
        completion_token_ids=list(sample.token_ids),
        logprobs=list(sample.logprobs),
        extra=_filled(reasoning_tokens=usage.reasoning_tokens),
    )
    step["llm_call_count"] = 1
    return step | _filled(extra=_facts(facts, _OF_REPLY))


def _add_action(step: Object, turn: Turn, facts: Object) -> None:
    """Add the observation of the turn, and its action: the next call of the reply, or a call in the
    form of the agent `tools`."""
    results = step.setdefault("observation", {"results": []})["results"]
    extra = _facts(facts, _OF_ACTION)
    result = Object()
    call = _waiting(step)
    if call:
        del call["extra"]
    elif turn.action is not None:
        name, _, answer = turn.action.partition(" ")
        arguments = _filled(answer=answer)
        if turn.asked is not None:
            name = "ask"
            arguments = {"question": answer}
        elif name != "submit":
            name = "execute"
            arguments = {"code": turn.action}
        call = {
            "tool_call_id": f"call_{step['step_id']}_{len(results)}",
            "function_name": name,
            "arguments": arguments,
            "extra": FROM_TEXT,
        }
        step.setdefault("tool_calls", []).append(call)
    readable: str | None = ""
    if call:
        readable = action_of(call)
        result["source_call_id"] = call["tool_call_id"]
    if readable != turn.action:
        extra["action"] = turn.action
    if turn.thought != (turn.reply or None):
        extra["thought"] = turn.thought
    results.append(result | {"content": turn.observation} | _filled(extra=extra))


def _waiting(step: Object) -> Object | None:
    """Return the first call of the step that is not executed yet."""
    return next((call for call in step.get("tool_calls", ()) if call.get("extra") == WAITING), None)


def _arguments(value: object) -> Object:
    """Return the arguments of a call, which may be JSON, as OpenAI's API gives them, or None."""
    arguments = value
    if value is None:
        return {}
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(value or "{}", strict=False)
    if isinstance(arguments, dict):
        return arguments
    return {"text": value}


def _facts(facts: Object, names: Iterable[str]) -> Object:
    """Return the facts of a turn that are neither None nor False."""
    present_facts = {}
    for name in names:
        value = facts.get(name)
        if value is not None and value is not False:
            present_facts[name] = value
    return present_facts


def _filled(**fields: Any) -> Object:
    """Return the fields that are neither None nor 0 nor empty."""
    filled = {}
    for name, value in fields.items():
        if value:
            filled[name] = value
    return filled


def _text_of(content: object) -> str:
    """Return the text of a message; a part that is not text is left out."""
    if isinstance(content, str) or content is None:
        return content or ""
    parts: list[Any] = [content]
    if isinstance(content, list):
        parts = content
    return "\n".join(part.get("text") or "" for part in parts)


def action_of(call: Object) -> str | None:
    """Return the code that a tool call executes: text under a usual name (`command`, `code`, …), or
    a submission. None for a call of another kind, such as an edit of a file."""
    name, arguments = call["function_name"], call["arguments"]
    if name == "submit":
        return f"submit {arguments.get('answer') or ''}".strip()
    if name == "ask" and arguments.get("question"):
        return asking(arguments)
    if "path" in arguments or "file_path" in arguments:
        return None
    if code := code_of(arguments):
        return code
    keys = arguments.get("keystrokes") or arguments.get("raw_action")
    if isinstance(keys, str):
        return keys.removesuffix("\n")
    return None


# -- reading ---------------------------------------------------------------------------------------


def trajectory_files(path: Path) -> Iterator[Path]:
    """Yield the trajectory files at or below `path`. Links below it are not followed."""
    return marked_files(path, b'"ATIF-v')


def marked_files(path: Path, mark: bytes) -> Iterator[Path]:
    """Yield the file `path`, or the JSON files below it, that contain `mark`; a file that cannot be
    read is left out with a warning."""
    files: Iterable[Path] = [path.resolve()]
    if present(path) != "file":
        files = (file for file in files_below(path) if file.suffix == ".json")
    for file in files:
        try:
            if mark in read_inside(file.parent, file.name):
                yield file.resolve()
        except OSError as error:
            if error.errno != errno.EINVAL:  # a link, a pipe or a device
                leave_out(error)


def read_trajectories(path: Path) -> Recording | None:
    """Return the settings and episodes of a trajectory file or of a folder that contains some; None
    if there are none.

    Further trajectories of a task are its epochs. What other programs do not record is None: the
    reward, how the episode ended, the environment. A damaged trajectory is left out with a warning;
    raises `DataError` if all are.
    """
    settings = []
    episodes = {}
    for values, episode in read_entries(trajectory_files(path), _read_trajectory):
        epoch = episode.epoch
        while (episode.task, epoch) in episodes:
            epoch += 1
        episodes[episode.task, epoch] = replace(episode, epoch=epoch)
        settings.append(values)
    if not episodes:
        return None
    common = dict(set.intersection(*settings))
    return {"run": str(path), "agent": "several", **common}, list(episodes.values())


def _read_trajectory(file: Path) -> tuple[set[tuple[str, str]], Episode]:
    """Return the settings and the episode of a file."""
    try:
        trajectory = parse_json(decoded(read_inside(file.parent, file.name), file), file)
        record, steps = dict(trajectory.get("extra") or {}), trajectory["steps"]
        ours = record.pop("intercode", None)
        if ours is None:
            asked = (step["message"] for step in steps if step["source"] == "user")
            query = _text_of(next(asked, ""))
            episode = Episode(_task_of(file, trajectory), query, (), None, False, None)
        else:
            episode = from_json({**record, "turns": []})
        episode = replace(episode, turns=tuple(_turns(steps, ours is not None)))
        agent = trajectory["agent"]
        values = {"agent": agent["name"], "model": agent.get("model_name"), **(ours or {})}
        settings = {(name, str(value)) for name, value in values.items() if value}
        return settings, from_json(to_json(episode))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise DataError(f"{file} is not an ATIF trajectory: {error!r:.200}") from error


def _task_of(file: Path, trajectory: Object) -> str:
    """Return the name of the task: Harbor writes TASK__TRIAL/agent/trajectory.json."""
    if file.name != "trajectory.json":
        return str(trajectory.get("trajectory_id") or file.stem)
    folder = file.parent
    if folder.name == "agent":
        folder = folder.parent
    return folder.name.partition("__")[0]


def _turns(steps: Iterable[Object], ours: bool) -> Iterator[Turn]:
    """Yield the turns of a trajectory; `ours`: this module wrote the facts in `extra`."""

    def with_facts(turn: Turn, entry: Object) -> Turn:
        if ours:
            return replace(turn, **(entry.get("extra") or {}))
        return turn

    messages = []
    for step in steps:
        content = _text_of(step["message"])
        role = step["source"]
        if role != "agent" or step.get("is_copied_context"):
            if role == "agent":
                role = "assistant"
            messages.append({"role": role, "content": content})
            continue
        calls = []
        for call in step.get("tool_calls") or ():
            calls.append({**call, "arguments": _arguments(call.get("arguments"))})
        turn = Turn()
        waits = step.get("llm_call_count") != 0
        if waits:
            turn = with_facts(_reply_of(step, calls, tuple(messages)), step)
            messages.append(turn.message)
        for executed, result in _executed(
            calls, (step.get("observation") or {}).get("results") or []
        ):
            action = None
            observation = _text_of(result.get("content"))
            messages.append({"role": "tool", "content": observation})
            turn = replace(turn, thought=turn.reply or None, observation=observation)
            if executed:
                action = action_of(executed)
                if action is None and not turn.calls:
                    turn = replace(turn, calls=(_call_of(executed),))
            elif not calls:
                match = _FENCED.search(content)
                action = match and match[1]
            yield with_facts(replace(turn, action=action), result)
            turn = Turn()
            waits = False
        if waits:
            yield turn


def _executed(
    calls: Sequence[Object], results: Sequence[Object]
) -> Iterator[tuple[Object | None, Object]]:
    """Yield the calls that were executed, each with its result, which may be empty, then results
    without a call. One that names no call belongs to the last action if that has no other."""
    by_call = dict[Any, Object]()
    executed, loose, last = list[Object](), list[Object](), None
    for result in results:
        id = result.get("source_call_id")
        by_call[id] = result
        if id is None:
            loose.append(result)
    for call in calls:
        if call.get("extra") != WAITING:
            executed.append(call)
            if action_of(call):
                last = call
    for call in executed:
        result = by_call.get(call["tool_call_id"], {})
        if not result and loose and call is last:
            result = loose.pop(0)
        yield call, result
    for result in loose:
        yield None, result


def _call_of(call: Object) -> ToolCall:
    return ToolCall(call["tool_call_id"], call["function_name"], json.dumps(call["arguments"]))


def _reply_of(step: Object, calls: Sequence[Object], question: tuple[Message, ...]) -> Turn:
    """Return a turn with a question and the reply of a step."""
    metrics, reasoning = _filled(**(step.get("metrics") or {})), step.get("reasoning_content")
    sample = Sample(
        tuple(metrics.get("completion_token_ids", ())),
        tuple(metrics.get("logprobs", ())),
        prompt_ids=tuple(metrics.get("prompt_token_ids", ())),
    )
    return Turn(
        question,
        _text_of(step["message"]),
        reasoning=_filled(reasoning_content=reasoning) or None,
        calls=tuple(_call_of(call) for call in calls if call.get("extra") != FROM_TEXT) or None,
        usage=Usage(
            metrics.get("prompt_tokens", 0),
            metrics.get("completion_tokens", 0),
            metrics.get("cost_usd", 0),
            metrics.get("extra", {}).get("reasoning_tokens") or 0,
        ),
        sample=sample if sample.token_ids or sample.prompt_ids else None,
    )
