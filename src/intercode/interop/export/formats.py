"""The formats of exported runs. What a row contains:

chat       one conversation per row, `messages`; each assistant message has a `weight`: 1 if the
           agent wrote it in this episode, 0 if it was there before (the form of OpenAI's
           fine-tuning), or if its call cannot be written as the model wrote it
sft        one reply of the agent per row, `prompt` and `completion`: only the completion is
           learnt (the form of TRL: arguments of calls are objects)
           `chat` and `sft` have the `tools` that the agent was offered, if there were any
rl         one segment of tokens per row (`intercode.runs.segments`), as the policy saw and
           sampled them
jsonl      one turn per row, with the facts of its episode, for analysis, or one episode per row;
           csv and parquet have the same rows
atif       one episode per file (`intercode.interop.atif`), also those that ended in an error
inspect    one episode per sample of a log (`inspect.py`), also those that ended in an error
intercode  one episode per entry, as InterCode v1 wrote its logs; only the first epoch, since
           InterCode v1 knew no other

A conversation continues while each question continues where the last reply ended:

    question 1   system user
    question 2   system user assistant user
    reply 2                            assistant

Any other question (a plan is asked for elsewhere, messages were left out, a second sample) begins a
new conversation. Only replies of this episode are the agent's own: not the examples in a prompt,
nor, in a forked episode, a reply that did not lead to its end. If no model was asked, the query,
the actions and the observations make the conversation.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from intercode.agents import SUBMIT
from intercode.errors import UsageError
from intercode.interop.atif import trajectory_of
from intercode.interop.export.inspect import sample_of, write_log
from intercode.models.forms import as_chat, object_text, sendable, text_of, with_objects
from intercode.runs.formats import Format, as_json, one_row
from intercode.runs.rows import Config, Row, labels, turn_rows
from intercode.runs.segments import segments_of
from intercode.types import Episode, Message, Tool, Turn

BATCH = 1000  # rows that Parquet writes at a time
_AS_JSON = ("ask", "calls", "parts", "reasoning", "tools")
_TEXTS = (
    *("env", "agent", "model", "task", "query", "split", "ended", "error", "rule", "why", "reply"),
    *("thought", "action", "observation", "finish_reason", *_AS_JSON),
)
_NUMBERS = (
    *("epoch", "seed", "turns", "turn", "exit_code", "after", "left_out"),
    *("prompt_tokens", "completion_tokens", "reasoning_tokens"),
)
"""Columns of Parquet: those whose lists or objects become JSON texts, all texts, whole numbers."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, and for each of them whether the agent wrote it in this episode; and the tools that
    it was offered, last if they changed.

    `messages` has replies of the agent as they were sampled, `prompts`, by the position of each
    reply, the messages before it as they were sent.
    """

    messages: list[Message]
    own: list[bool]
    tools: list[Tool] = field(default_factory=list)
    prompts: dict[int, list[Message]] = field(default_factory=dict)


def conversations(episode: Episode) -> list[Conversation]:
    """Return the conversations in which the agent wrote anything; each reply is its own in one of
    them, unless a call in it is malformed."""
    line = set(map(id, episode.line))
    forked = any(turn.after is not None for turn in episode.turns)
    collected, tools = list[Conversation](), list[Tool]()
    for turn in episode.turns:
        if turn.tools is not None:
            tools = [*turn.tools]
        if turn.ask is not None:
            is_own = id(turn) in line or not (turn.acted or forked)
            sent = sendable(turn.message, keep_reasoning=True)
            if sent.get("tool_calls") != turn.message.get("tool_calls"):
                is_own = False
            _add(collected, turn, tools, is_own=is_own)
    if not collected:
        messages = [{"role": "user", "content": episode.query}]
        owned = [False]
        for turn in episode.line:
            messages.append({"role": "assistant", "content": turn.action or ""})
            messages.append({"role": "user", "content": turn.observation})
            owned += [turn.action is not None, False]
        collected = [Conversation(messages[:-1], owned[:-1])]
    return [conversation for conversation in collected if any(conversation.own)]


def _add(collected: list[Conversation], turn: Turn, tools: Sequence[Tool], *, is_own: bool) -> None:
    """Append the turn's question and reply to the conversation they continue, or to a new one."""
    question = as_chat(turn.ask or ())
    contents = list(map(_content, question))
    for conversation in reversed(collected):
        size = len(conversation.own)
        is_longer = len(question) > size
        if is_longer and list(map(_content, conversation.messages)) == contents[:size]:
            break
    else:
        conversation = Conversation([], [])
        collected.append(conversation)
    messages = [*question, {**turn.message, "content": turn.reply or ""}]
    for place, reply in enumerate(conversation.messages):
        if conversation.own[place]:
            messages[place] = reply
            if "tool_calls" in reply:  # the results have the ids that were sent back
                messages[place] = {**reply, "tool_calls": question[place]["tool_calls"]}
    conversation.own.extend([False] * (len(question) - len(conversation.messages)) + [is_own])
    conversation.messages[:] = messages
    conversation.prompts[len(question)] = question
    conversation.tools[:] = tools


def _content(message: Message) -> tuple[object, ...]:
    """Return the part of a message that identifies it: an empty content may be None, a program may
    send back a reply with other white space or other ids of its calls, and other keys may
    differ."""
    content, calls = message.get("content") or "", []
    if message["role"] == "assistant":
        content = "".join(text_of(content).split())
    for call in message.get("tool_calls") or ():
        function = call["function"]
        calls.append((function["name"], json.loads(object_text(function["arguments"]))))
    return message["role"], content, calls


def chat_rows(config: Config, episode: Episode) -> Iterator[Row]:
    """Yield a row for each conversation."""
    for conversation in conversations(episode):
        messages = []
        for message, is_own in zip(conversation.messages, conversation.own, strict=True):
            if not is_own:
                message = _as_sent(config, message)
            if message["role"] == "assistant":
                message = {**message, "weight": int(is_own)}
            messages.append(message)
        yield {"messages": messages, **_tools(conversation), **labels(config, episode)}


def sft_rows(config: Config, episode: Episode) -> Iterator[Row]:
    """Yield a row for each reply. Each row repeats the messages before its reply."""
    for conversation in conversations(episode):
        messages = conversation.messages
        for position, is_own in enumerate(conversation.own):
            if is_own:
                asked = conversation.prompts.get(position, messages[:position])
                prompt = [with_objects(_as_sent(config, message)) for message in asked]
                reply = with_objects(messages[position])
                row = {"prompt": prompt, "completion": [reply], **_tools(conversation)}
                yield {**row, **labels(config, episode)}


def _as_sent(config: Config, message: Message) -> Message:
    """Return a message as the model's server got it; all that programs send is passed on."""
    keeps = config.get("keep_reasoning") or "exec:" in str(config.get("agent"))
    return sendable(message, keep_reasoning=bool(keeps))


def _tools(conversation: Conversation) -> Row:
    if conversation.tools:
        return {"tools": conversation.tools}
    return {}


def rl_rows(config: Config, episode: Episode) -> Iterator[Row]:
    """Yield a row for each segment of the episode's tokens; none if the model gave no tokens."""
    for segment in segments_of(episode.turns):
        yield {**asdict(segment), **labels(config, episode)}


def v1_entry(config: Config, episode: Episode) -> Row:
    """Return the episode as InterCode v1 logs it, for `load_recording`: a Try Again log, or a ReAct
    log under `submit`, where each action but the submission is wrapped in ``execute[…]``."""
    turns = episode.line
    react = config.get("protocol", SUBMIT) == SUBMIT
    history: dict[str, list[Any]] = {
        "actions": [],
        "observations": [],
        "rewards": [],
        "valid_action": [],
    }
    if react:
        history["thoughts"] = [turn.thought or "" for turn in turns]
    for turn in turns:
        action = turn.action
        if react and action != SUBMIT:
            action = "" if action is None else f"execute[{action}]"
        history["actions"].append(action)
        history["observations"].append(turn.observation)
        history["rewards"].append(turn.score or 0.0)
        is_valid = turn.action is not None and turn.exit_code in (0, None)
        history["valid_action"].append(is_valid)
    rewards = history["rewards"] or [0.0]
    return {
        "environment": f"ic_{config.get('env')}",
        "dataset": config.get("data"),
        "task_id": episode.task,
        "query": episode.query,
        "turn_history": history,
        "summary": {
            "max_reward": episode.reward,
            "max_reward_idx": rewards.index(max(rewards)),
            "turns_taken": len(turns),
            "turns_max": len(turns),
        },
        "info": {},
    }


def _write_v1(file: IO[bytes], config: Config, rows: Iterable[Row]) -> None:
    """Write an object with an entry for each row, numbered from 0."""
    for number, row in enumerate(rows):
        file.write(f'{"," if number else "{"}\n"{number}": {json.dumps(row)}'.encode())
    file.write(b"\n}\n")


def _write_trajectories(folder: Path, config: Config, rows: Iterable[Row]) -> None:
    """Write TASK__EPOCH/agent/trajectory.json for each row, where Harbor has it."""
    names = Counter[str]()
    for row in rows:
        name = re.sub(r"[^\w.-]+", "-", row["extra"]["task"])[:100] + f"__{row['extra']['epoch']}"
        names[name] += 1
        if names[name] > 1:
            name = f"{name}-{names[name]}"
        (folder / name / "agent").mkdir(parents=True)
        (folder / name / "agent" / "trajectory.json").write_bytes(as_json(row))


def _write_csv(file: IO[bytes], config: Config, rows: Iterable[Row]) -> None:
    """Write a table with a header; a list or an object becomes a JSON text."""
    text = io.TextIOWrapper(file, "utf-8", "replace", newline="")
    writer = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(text, list(row))
            writer.writeheader()
        for name, value in row.items():
            if isinstance(value, list | tuple | dict):
                row[name] = json.dumps(value)
        writer.writerow(row)
    text.flush()
    text.detach()


def _write_parquet(file: IO[bytes], config: Config, rows: Iterator[Row]) -> None:
    """Write a table; a value without a fixed shape (messages, tool calls, parts of a score) becomes
    a JSON text."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError("writing Parquet needs pyarrow: pip install pyarrow") from error
    kinds = {
        pyarrow.string(): _TEXTS,
        pyarrow.int64(): _NUMBERS,
        pyarrow.float64(): ("reward", "score", "seconds", "reply_seconds", "cost"),
        pyarrow.bool_(): ("success", "timed_out", "truncated_output", "forced"),
    }
    first = next(rows, {})
    fields = []
    for kind, names in kinds.items():
        fields += [(name, kind) for name in names if name in first]
    schema = pyarrow.schema(fields)

    def flat(row: Row) -> Row:
        for name in row.keys() & _TEXTS:
            if row[name] is not None:
                text = json.dumps(row[name]) if name in _AS_JSON else str(row[name])
                # half of a surrogate pair becomes a question mark
                row[name] = text.encode("utf-8", "replace").decode()
        return row

    flat_rows = map(flat, chain(filter(None, [first]), rows))
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        while batch := list(islice(flat_rows, BATCH)):
            writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))


SFT = Format(sft_rows, conversations=True)
CHAT = Format(chat_rows, conversations=True)
RL = Format(
    rl_rows,
    no_rows="has no tokens: play with INTERCODE_LOGPROBS=1 and a server that returns token ids",
)
JSONL = Format(turn_rows, table=True)
CSV = Format(turn_rows, _write_csv, table=True)
PARQUET = Format(turn_rows, _write_parquet, table=True, binary=True)
ATIF = Format(one_row(trajectory_of), _write_trajectories, unscored=True, folder="trajectories")
INSPECT = Format(one_row(sample_of), write_log, unscored=True, binary=True)
INTERCODE = Format(one_row(v1_entry), _write_v1, first_epoch=True)
