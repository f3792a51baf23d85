"""The taskset and harness, run by `vf-eval` against a real local server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, serving
from shaky import ANSWERS, REWARDS, SHAPED

import intercode

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(
        find_spec("verifiers") is None, reason="verifiers is not installed: make integrations"
    ),
]


SHAKY = ("--env.taskset.env", "shaky:ShakyEnv")
HUB = Path(__file__).parents[2] / "examples" / "environments-hub"


def evaluate(
    server: ChatServer,
    folder: Path,
    *options: str,
    taskset: str = "intercode_verifiers",
    modules: Path = Path(__file__).parent,
) -> dict[str, dict[str, Any]]:
    """Run `vf-eval`, and return the trace of each task."""
    command = [
        Path(sys.executable).with_name("vf-eval"), taskset, "-m", "scripted", "--no-push",
        "--no-rich", "--client.base-url", f"{server.url}/v1", "--client.api-key-var", "STUB_KEY",
        "--output-dir", folder, "-r", "1", "--env.agent.runtime.type", "subprocess", *options,
    ]  # fmt: skip
    variables = {**os.environ, "STUB_KEY": "none-needed", "PYTHONPATH": str(modules)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.rglob("traces.jsonl")
    traces = [
        trace for line in path.read_text().splitlines() for trace in json.loads(line)["traces"]
    ]
    return {trace["task"]["data"]["id"]: trace for trace in traces}


def rewards(traces: dict[str, dict[str, Any]]) -> dict[str, float | None]:
    found = {}
    for task, trace in traces.items():
        reward = trace["rewards"].get("reward")
        assert trace["ok"] == (reward is not None)
        found[task] = reward and reward["score"]
    return found


@pytest.mark.parametrize("shaped", [False, True])
def test_each_task_earns_what_its_answer_deserves_and_a_fault_earns_nothing(
    shaped: bool, tmp_path: Path
) -> None:
    options = ["--env.taskset.shaped", "true"] if shaped else []
    with serving(ANSWERS) as server:
        traces = evaluate(server, tmp_path, *SHAKY, *options)
    assert rewards(traces) == (SHAPED if shaped else REWARDS)
    assert traces["wrong"]["info"]["shaped_reward"] == SHAPED["wrong"]
    (error,) = traces["broken"]["errors"]
    assert (error["type"], "lost the sandbox" in error["message"]) == ("SandboxError", True)
    assert [node["message"]["role"] for node in traces["right"]["nodes"]] == [
        "system",
        "user",
        *["assistant", "user"],
        "assistant",
    ]


def test_a_server_that_fails_gives_an_error_and_no_reward(tmp_path: Path) -> None:
    with serving(ANSWERS) as server:
        server.healthy = False
        traces = evaluate(server, tmp_path, *SHAKY, "-n", "1")
    assert rewards(traces) == {"right": None}
    assert [error["type"] for error in traces["right"]["errors"]] == ["ProviderError"]


def test_a_limit_of_verifiers_ends_the_episode_scored(tmp_path: Path) -> None:
    with serving(ANSWERS) as server:
        traces = evaluate(server, tmp_path, *SHAKY, "-n", "2", "--env.agent.max-turns", "1")
    assert rewards(traces) == {"right": 1.0, "late": 0.0}
    assert {trace["stop_condition"] for trace in traces.values()} == {"max_turns"}


def test_options_choose_the_agent_and_the_data(tmp_path: Path) -> None:
    options = json.dumps({"limit": 1})
    harness = [
        "--env.agent.harness.id",
        "intercode_verifiers",
        "--env.agent.harness.agent",
        "react",
    ]
    with serving(ANSWERS) as server:
        server.says = lambda request: (
            "Thought: I know.\nAction: "
            + ("submit" if len(request["messages"]) > 2 else "execute[echo 5]")
        )
        traces = evaluate(
            server,
            tmp_path,
            *SHAKY,
            "--env.taskset.options",
            options,
            *harness,
            "--env.agent.harness.turns",
            "2",
        )
    assert rewards(traces) == {"right": 1.0}


def test_the_package_for_the_environments_hub_plays_the_starter_tasks(tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", modules, HUB]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    golds = {task.query: task.gold for task in intercode.prepare("sql").tasks}
    options = [
        *("-n", "2", "--env.taskset.env", "sql"),
        *("--env.agent.harness.id", "intercode-starter", "--env.agent.harness.turns", "6"),
    ]
    with serving(golds) as server:
        server.language = "sql"
        traces = evaluate(server, tmp_path, *options, taskset="intercode-starter", modules=modules)
    assert list(rewards(traces).values()) == [1.0, 1.0]
