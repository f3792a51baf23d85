"""What one episode asks of a model whose context is short, and what a run that is played again asks
once more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from intercode.errors import ContextOverflow, ModelError, StoreError, UsageError
from intercode.runner.episode_model import MARKER, EpisodeModel, omit, omittable
from intercode.runner.reply_cache import open_cache
from intercode.types import Message, Reply, Tool, ToolCall, Usage

LONG = "x" * 200


class Narrow:
    """Takes so many characters; answers with the number of its answer; keeps what it was asked."""

    name = "narrow"

    def __init__(self, room: int = 10**9) -> None:
        self.room, self.refusals = room, 0
        self.asked: list[list[Message]] = []
        self.draws: list[int] = []

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        if sum(len(message["content"]) for message in messages) > self.room:
            self.refusals += 1
            raise ContextOverflow("too long")
        self.asked.append(list(messages))
        self.draws.append(draw)
        return Reply(
            f"reply {len(self.asked)}",
            Usage(10, 1, 0.5),
            (ToolCall("1", "execute", "{}"),) if tools else (),
        )


def conversation(observations: int) -> list[Message]:
    messages: list[Message] = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "task"},
    ]
    for _ in range(observations):
        messages += [{"role": "assistant", "content": "ls"}, {"role": "user", "content": LONG}]
    return messages


def test_a_dialogue_limit_sends_the_task_and_the_last_messages() -> None:
    model = Narrow()
    asking = EpisodeModel(model, dialogue=3)
    replies = [asking.complete(conversation(count)) for count in range(5)]
    assert [reply.left_out for reply in replies] == [0, 0, 0, 2, 4]
    roles = [[message["role"] for message in asked] for asked in model.asked]
    opening, pair = ["system", "user"], ["assistant", "user"]
    assert roles == [opening, opening + pair, *[opening + 2 * pair] * 3]
    assert model.asked[-1][-4:] == conversation(4)[-4:]


def test_a_dialogue_that_is_too_long_as_well_is_not_refused_at_each_question() -> None:
    model = Narrow(room=600)
    asking = EpisodeModel(model, dialogue=8)
    refusals = []
    for count in range(12):
        asking.complete(conversation(count))
        refusals.append(model.refusals)
    assert refusals[-1] == refusals[6]


def test_the_oldest_observations_make_room_and_the_reply_says_how_many() -> None:
    model = Narrow(room=600)
    asking = EpisodeModel(model)
    replies = [asking.complete(conversation(count)) for count in range(6)]
    assert [reply.left_out for reply in replies] == [0, 0, 0, 1, 2, 4]
    assert [message["content"] for message in model.asked[3]] == [
        "be brief",
        "task",
        "ls",
        MARKER,
        "ls",
        LONG,
        "ls",
        LONG,
    ]
    assert model.refusals == 3, "what was left out once is not tried again"


def test_what_is_no_reply_is_the_models_fault_and_not_kept(tmp_path: Path) -> None:
    class Loose(Narrow):
        def complete(self, messages: Sequence[Message], **how: Any) -> Any:
            return "ls"

    with pytest.raises(
        UsageError,
        match=r"the model narrow answered .*; it answers a Reply with a text and its Usage",
    ):
        EpisodeModel(Loose(), cache=open_cache(tmp_path, "a", 0)).complete(conversation(0))
    assert not (tmp_path / "underway").exists()


def test_a_task_that_does_not_fit_at_all_is_an_error_that_says_so() -> None:
    with pytest.raises(ContextOverflow, match=r"the conversation does not fit .*longer context"):
        EpisodeModel(Narrow(room=3)).complete(conversation(0))
    asking = EpisodeModel(Narrow(room=100))
    asking.complete(conversation(0))
    with pytest.raises(ModelError, match="although 2 messages were left out"):
        asking.complete(conversation(3))


def test_answers_of_tools_are_observations_and_keep_what_they_answer() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "execute", "arguments": "{}"}}
    turn: list[Message] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": LONG},
    ]
    messages = [*conversation(0), *turn, *turn]
    assert omittable(messages, messages[:2]) == [3]
    assert omit(messages, [3])[3] == {"role": "tool", "tool_call_id": "1", "content": MARKER}


def test_each_epoch_draws_anew() -> None:
    model = Narrow()
    EpisodeModel(model, epoch=0).complete(conversation(0), draw=2)
    EpisodeModel(model, epoch=3).complete(conversation(0), draw=2)
    assert model.draws == [2, 3002]


def ask_all(folder: Path, model: Narrow, *, epoch: int = 0, last: int = 3) -> list[Reply]:
    asking = EpisodeModel(model, epoch, open_cache(folder, "a task", epoch))
    return [
        asking.complete(conversation(count), tools=[{}] if count else []) for count in range(last)
    ]


def test_what_was_answered_before_is_not_asked_again(tmp_path: Path) -> None:
    first = ask_all(tmp_path, Narrow(), last=2)
    model = Narrow()
    again = ask_all(tmp_path, model, last=3)
    assert [(reply.text, reply.usage, reply.calls) for reply in again[:2]] == [
        (r.text, r.usage, r.calls) for r in first
    ]
    assert [reply.counted for reply in again] == [True, True, False]
    assert model.asked == [conversation(2)]


@pytest.mark.parametrize("other", ["epoch", "task", "model"])
def test_no_other_episode_or_model_is_given_these_answers(tmp_path: Path, other: str) -> None:
    ask_all(tmp_path, Narrow())
    model = Narrow()
    model.name = "wide" if other == "model" else model.name
    place = open_cache(tmp_path, "b task" if other == "task" else "a task", int(other == "epoch"))
    assert not EpisodeModel(model, cache=place).complete(conversation(0)).counted


def test_a_torn_last_line_is_asked_again_and_a_damaged_journal_is_named(tmp_path: Path) -> None:
    ask_all(tmp_path, Narrow())
    (journal,) = (tmp_path / "underway").iterdir()
    journal.write_bytes(journal.read_bytes()[:-20])
    model = Narrow()
    assert [reply.counted for reply in ask_all(tmp_path, model)] == [True, True, False]
    assert [reply.counted for reply in ask_all(tmp_path, model)] == [True, True, True]
    journal.write_text(json.dumps({"question": 1}) + "\n")
    with pytest.raises(StoreError, match="line 1 is not a reply"):
        open_cache(tmp_path, "a task", 0)
