"""Programs that nobody here wrote: two command-line agents play starter tasks and get what model
providers really sent, and Gymnasium's own tools drive each registered environment."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from command_line_agents import (
    PROGRAMS,
    Program,
    check_solved,
    check_turn_limit,
    scripted_server,
    starter_tasks,
)
from gymnasium.utils.env_match import check_environments_match
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from kept import needs_bwrap

import intercode

pytestmark = [pytest.mark.programs, pytest.mark.apart]

LARGEST = 12_000
"""Bytes of a stream that is replayed."""
ITEMS = {"message", "reasoning", "function_call"}
"""What any client of the form Responses takes; other items are tools of one provider."""


@pytest.fixture(params=["mini-chat", "codex"])
def program(request: pytest.FixtureRequest) -> Program:
    program = PROGRAMS[request.param]
    program.needed()
    return program


def test_programs_solve_a_task_of_each_kind(program: Program, tmp_path: Path) -> None:
    first_of_kind = {task.extra["kind"]: task.id for task in reversed(starter_tasks())}
    assert len(first_of_kind) == 5
    check_solved(program, list(first_of_kind.values()), tmp_path / "run")


def test_a_program_that_goes_on_is_ended_by_the_turns(tmp_path: Path) -> None:
    PROGRAMS["codex"].needed()
    check_turn_limit(PROGRAMS["codex"], starter_tasks()[0].id, tmp_path / "run")


@dataclass(frozen=True)
class Reply:
    """What a provider sent, and what it says."""

    body: str
    text: str
    calls: list[tuple[str, str]]
    usage: tuple[int, int] | None


def streams(world: Path) -> Iterator[Reply]:
    """Yield the small streams of the form Responses, each framed as server-sent events. A file
    that is not JSON, or has several answers, is no stream."""
    for file in sorted((world / "streams").glob("*.txt")):
        if file.stat().st_size > LARGEST or '"response.created"' not in file.read_text():
            continue
        try:
            events = [json.loads(line) for line in file.read_text().splitlines() if line]
        except ValueError:
            continue
        items = [e["item"] for e in events if e["type"] == "response.output_item.done"]
        ends = [e["response"] for e in events if e["type"] == "response.completed"]
        if len(ends) != 1 or not {item["type"] for item in items} <= ITEMS:
            continue
        usage = ends[0].get("usage")
        yield Reply(
            "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events),
            "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta"),
            [(i["name"], i["arguments"]) for i in items if i["type"] == "function_call"],
            (usage["input_tokens"], usage["output_tokens"]) if usage else None,
        )


def answers(world: Path) -> Iterator[Reply]:
    """Yield the whole answers of the form Chat Completions."""
    for file in sorted((world / "answers").glob("*.json")):
        answer = json.loads(file.read_text())
        if answer.get("object") != "chat.completion":
            continue
        message, usage = answer["choices"][0]["message"], answer["usage"]
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        yield Reply(
            file.read_text(),
            message.get("content") or "",
            [(call["name"], call["arguments"]) for call in calls],
            (usage["prompt_tokens"], usage["completion_tokens"]),
        )


def test_programs_get_through_what_providers_sent_and_it_is_recorded(
    program: Program, world: Path, tmp_path: Path
) -> None:
    replies = list(streams(world) if program.streams else answers(world))
    assert len(replies) >= 3
    sent = dict(zip((task.id for task in starter_tasks()), replies, strict=False))
    with scripted_server() as server:
        server.replays = {task: reply.body for task, reply in sent.items()}
        episodes = program.play(server, tmp_path / "run", list(sent), turns=4)
    requests = Counter(json.dumps([a.task, a.request], sort_keys=True) for a in server.answered)
    assert set(requests.values()) == {1}  # none was sent again
    for episode in episodes:
        reply, turn = sent[episode.task], episode.turns[0]
        assert (episode.error, episode.reward is None) == (None, False)
        assert turn.reply == reply.text
        usage = (turn.usage.prompt_tokens, turn.usage.completion_tokens)
        assert reply.usage in (usage, None)
        assert [(call.name, call.arguments) for call in turn.calls or ()] == reply.calls
        asked = sum(answered.task == episode.task for answered in server.answered)
        goes_on = bool(reply.calls) or not program.streams  # mini-swe-agent wants a call
        assert (asked > 1) == goes_on


def test_a_program_that_ends_without_submitting_has_stopped(world: Path, tmp_path: Path) -> None:
    PROGRAMS["codex"].needed()
    words = next(reply for reply in streams(world) if not reply.calls)
    task = starter_tasks()[0].id
    with scripted_server() as server:
        server.replays = {task: words.body}
        (episode,) = PROGRAMS["codex"].play(server, tmp_path / "run", [task], turns=4)
    assert episode.ended == "stopped"


@pytest.mark.parametrize("name", ["Bash", "Sql", "Python", "Ctf"])
def test_gymnasiums_tools_drive_a_registered_environment(name: str) -> None:
    needs_bwrap()
    env = f"intercode:intercode/{name}-v0"
    options: dict[str, Any] = {"limit": 1, "protocol": "paper"}
    options |= {"engine": "sqlite"} if name == "Sql" else {}
    first, second = (gymnasium.make(env, render_mode="ansi", **options) for _ in range(2))
    check_environments_match(first, second, num_steps=10, seed=4)
    for single in (first, second):
        single.close()
    (task,) = intercode.prepare(name.lower(), **options).tasks
    vector = RecordEpisodeStatistics(
        gymnasium.make_vec(
            env,
            num_envs=2,
            vectorization_mode="async",
            vector_kwargs={"shared_memory": False, "context": "spawn"},
            **options,
        )
    )
    vector.reset(seed=3)
    seen, _, ended, _, info = vector.step((task.gold, "1"))
    if name == "Ctf":  # its gold prints the flag
        _, _, ended, _, info = vector.step((f"submit {seen[0]}".strip(), "1"))
    vector.close()
    assert list(ended) == [True, False]
    assert (info["episode"]["r"][0], info["episode"]["l"][0]) == (1, 1 + (name == "Ctf"))
