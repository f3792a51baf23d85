"""Command-line agents of other people, which play starter Bash tasks with a scripted server; `make
programs` and `make integrations` install them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap
from shell_server import Answered, ShellServer

import intercode
from intercode.agents.named import programs
from intercode.runs.evaluation import Evaluation
from intercode.types import Episode, Task, Turn

HOME = Path(os.environ.get("INTERCODE_PROGRAMS") or Path(__file__).parents[2] / ".venv-programs")


@dataclass(frozen=True)
class Program:
    """An agent of the table in a folder below `HOME`, and how it asks its model. `changes` are made
    to its command, `without` names a variable that it does not get."""

    agent: str
    folder: str
    form: str = "chat/completions"
    streams: bool = True
    asks_titles: bool = False
    changes: tuple[str, str] = ("", "")
    without: str = ""

    def needed(self) -> None:
        """Skip where the program cannot run."""
        needs_bwrap()
        if not (HOME / self.folder).is_dir():
            pytest.skip(f"{self.agent} is not installed: make programs, or make integrations")
        if self.agent != "mini" and not shutil.which("node", path="/usr/bin"):
            pytest.skip("sandboxes see the programs of /usr, where node is missing")

    def play(
        self, server: ShellServer, out: Path, tasks: Sequence[str], turns: int
    ) -> list[Episode]:
        """Play tasks in a run of `intercode eval`; return what its folder then contains."""
        folder = str(HOME / self.folder)
        agent: dict[str, Any] = {"agent": self.agent}
        if self.changes[0] or self.without:  # a variant is not in the table
            entry = programs()[self.agent]
            lines = [line.replace("{files}", folder) for line in entry["agent_env"]]
            agent = {
                "agent": f"exec:{entry['command'].replace(*self.changes)}",
                "agent_env": [
                    line for line in lines if not self.without or self.without not in line
                ],
            }
        planned = Evaluation.plan(
            "bash",
            task=list(tasks),
            **agent,
            agent_files=folder,
            turns=turns,
            model="large",
            base_url=server.base_url,
            episode_seconds=300.0,
        )
        with planned.open(out, resume=False) as store:
            _, episodes = planned.run(store)
        assert planned.fault is None
        return list(episodes)


CLAUDE = Program("claude-code", "claude", "messages")
MINI = Program("mini", "mini", streams=False)
PROGRAMS = {
    "mini-chat": MINI,
    "mini-responses": replace(
        MINI,
        form="responses",
        changes=("openai/x", "openai/x --model-class litellm_response"),
    ),
    "mini-messages": replace(MINI, form="messages", changes=("openai/x", "anthropic/x")),
    "codex": Program("codex", "codex", "responses"),
    "claude": CLAUDE,
    "claude-titles": replace(CLAUDE, without="NONESSENTIAL_TRAFFIC", asks_titles=True),
    "qwen": Program("qwen-code", "qwen"),
    "pi": Program("pi", "pi"),
    "opencode": Program("opencode", "opencode", asks_titles=True),
    "cline": Program("cline", "cline-agent"),
}


def starter_tasks() -> list[Task]:
    """Return tasks whose gold is a state or an answer, not an action that works elsewhere too."""
    return [task for task in intercode.prepare("bash").tasks if not task.general]


@contextmanager
def scripted_server() -> Iterator[ShellServer]:
    server = ShellServer(intercode.prepare("bash").tasks)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def check_solved(program: Program, tasks: Sequence[str], out: Path) -> None:
    """Check that the program solves the tasks and that its turns are what the server saw and
    sent."""
    with scripted_server() as server:
        episodes = program.play(server, out, tasks, turns=4)
    assert {
        episode.task: (episode.reward, episode.success, episode.error) for episode in episodes
    } == dict.fromkeys(tasks, (1.0, True, None))
    assert {answered.form for answered in server.answered} == {program.form}
    assert {bool(answered.request.get("stream")) for answered in server.answered} == {
        program.streams
    }
    assert server.unknown == []
    left = {answered.prompt_tokens: answered for answered in server.answered}
    for episode in episodes:
        *asked, last = episode.turns
        assert (last.ask, last.action.split()[0], episode.ended) == (None, "submit", "submit")
        for turn in asked:
            answered = left.pop(turn.usage.prompt_tokens)
            assert answered.task in (episode.task, None)
            _check_turn(turn, answered)
    assert left == {}
    titles = [answered for answered in server.answered if answered.task is None]
    assert bool(titles) == program.asks_titles


def check_turn_limit(program: Program, task: str, out: Path) -> None:
    """Check that a request for a title is no turn, and any other request is."""
    with scripted_server() as server:
        server.submits = False
        (episode,) = program.play(server, out, [task], turns=3)
    assert (episode.ended, episode.error) == ("turns", None)
    assert sum(answered.task is not None for answered in server.answered) == 3
    assert len(episode.turns) == len(server.answered) + 1


def _check_turn(turn: Turn, answered: Answered) -> None:
    """Compare a recorded turn with the request and its answer."""
    assert (turn.usage.prompt_tokens, turn.usage.completion_tokens) == answered.usage
    completed = answered.form == "responses" or answered.tool is None  # that form has one word
    assert turn.finish_reason == ("stop" if completed else "tool_calls")
    assert turn.reply == answered.text
    calls = [(call.name, json.loads(call.arguments)) for call in turn.calls or ()]
    assert calls == ([(answered.tool, answered.arguments)] if answered.tool else [])
    request, asked = answered.request, list(turn.ask or ())
    listed: list[dict[str, Any]] = request.get("input") or request["messages"]
    instructions = request.get("instructions") or request.get("system")
    assert len(asked) == len(listed) + bool(instructions)
    if instructions:
        parts = [{"text": instructions}] if isinstance(instructions, str) else instructions
        text = "".join(part["text"] for part in parts)
        assert asked.pop(0) == {"role": "system", "content": text}
    if answered.form == "chat/completions":
        assert asked == listed
        return
    for message, item in zip(asked, listed, strict=True):
        if item.get("type") == "function_call_output":
            expected = {"tool_call_id": item["call_id"], "content": item["output"], "role": "tool"}
            assert message == expected
        elif "role" in item:
            assert message == {"role": item["role"], "content": item["content"]}
        else:
            assert message.items() >= {**item, "role": "assistant"}.items()
