"""Agents and models by name, from the tables in the user's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_server import serving
from cli_words import TASKS

MODELS = """
[small]
model = "tiny"
base_url = "{url}/v1"
key = "SMALL_KEY"
temperature = 0.5
request = {{top_p = 0.5}}
price = [1.0, 2.0]
"""
AGENTS = """
[hand]
command = "{files}/ask {query}"
files = "tools"
install = "make {files}"
agent_env = ["PATH={files}:/usr/bin:/bin", "SAID=yes"]
"""
ASK = """#!/bin/bash
body='{"model": "x", "messages": [{"role": "user", "content": "'$1'"}]}'
[ $SAID = yes ] && curl -s -H "Authorization: Bearer $OPENAI_API_KEY" \
    -H 'Content-Type: application/json' -d "$body" $OPENAI_BASE_URL/chat/completions
bash -c 'ls /box | wc -l' >/dev/shm/answer; submit "$(cat /dev/shm/answer)"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "config" / "intercode"
    folder.mkdir(parents=True)
    return folder


def test_a_model_by_name(cli: Any, box: Path, tmp_path: Path, config: Path) -> None:
    with serving({task["query"]: task["gold"] for task in TASKS}) as server:
        (config / "models.toml").write_text(MODELS.format(url=server.url))
        words = ("eval", "bash", "--data", box, "--model", "small", "--limit", 1, "--out")
        home = {"XDG_CONFIG_HOME": str(config.parent), "INTERCODE_BASE_URL": "http://127.0.0.1:9"}
        lacks = cli(*words, "lacks", **home)
        assert (lacks.status, "set SMALL_KEY" in lacks.err) == (2, True)
        done = cli(*words, "run", "--temperature", 0, SMALL_KEY="hush", **home)
        assert (done.status, server.key) == (0, "Bearer hush")
        for request in server.requests:
            sent = (request["model"], request["temperature"], request["top_p"])
            assert sent == ("tiny", 0, 0.5)
    text = (tmp_path / "run" / "run.json").read_text()
    config_of_run = json.loads(text)
    assert (config_of_run["model"], config_of_run["price"]) == ("tiny", [1.0, 2.0])
    assert "hush" not in text
    for line, says in (
        ("base_ulr = 'x'", "takes no base_ulr; did you mean 'base_url'?"),
        ("agent = 'gold'", "takes no agent"),
        ("key = 3", "key must be a str"),
        ("temperature = 'hot'", "'hot' is not a valid float"),
        ("price = [-1, 2]", "a price is"),
    ):
        (config / "models.toml").write_text(f"[small]\n{line}\n")
        wrong = cli(*words, "wrong", **home)
        assert (wrong.status, says in wrong.err) == (2, True), wrong.err


def test_an_agent_of_the_users_table(cli: Any, box: Path, tmp_path: Path, config: Path) -> None:
    tools = tmp_path / "tools"
    (config / "agents.toml").write_text(AGENTS.replace('"tools"', f'"{tools}"'))
    home = {"XDG_CONFIG_HOME": str(config.parent)}
    with serving({}) as server:
        words = ("eval", "bash", "--data", box, "--agent", "hand", "--model", "m", "--task")
        lacks = cli(*words, "count", **home, **server.variables)
        assert (lacks.status, f"install it (make {tools})" in lacks.err) == (2, True)
        tools.mkdir()
        (tools / "ask").write_text(ASK)
        (tools / "ask").chmod(0o755)
        done = cli(*words, "count", "--json", "--out", "run", **home, **server.variables)
    assert (done.status, done.json["success_rate"], done.json["agent"]) == (0, 1.0, "hand")
    (config / "agents.toml").write_text("[gold]\ncommand = 'ask'\n")
    taken = cli(*words, "count", **home)
    assert (taken.status, "a name that is not taken" in taken.err) == (2, True)
    unknown = cli("eval", "bash", "--agent", "codx")
    assert (unknown.status, "did you mean 'codex'?" in unknown.err) == (2, True)
