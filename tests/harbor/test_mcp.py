"""MCP servers and skills of Harbor's tasks: what is written for a program that plays, and a program
that reads it and calls both servers."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from base_image import base_image
from test_harbor import TASKS

import intercode
from intercode.agents import gold, noop
from intercode.agents.command_line import command_line
from intercode.interop.harbor.directory import read_directory
from intercode.models import OpenAIModel
from intercode.runner.equipment import toml_lines
from intercode.runner.run import evaluate

SERVER = r"""
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

def answer(asked):
    name, word = asked.get("method"), sys.argv[1]
    if name == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": word, "version": "1"}}
    if name == "tools/list":
        return {"tools": [{"name": "word", "inputSchema": {"type": "object"}}]}
    return {"content": [{"type": "text", "text": word}]}

def reply(line):
    asked = json.loads(line)
    if "id" in asked:
        return json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer(asked)})

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        allowed = self.headers["X-Guest"] == 'a "guest"'
        text = reply(self.rfile.read(int(self.headers["Content-Length"]))) or ""
        self.send_response((200 if text else 202) if allowed else 403)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(text.encode())

if len(sys.argv) > 2:
    HTTPServer(("", int(sys.argv[2])), Handler).serve_forever()
for line in sys.stdin:
    if text := reply(line):
        print(text, flush=True)
"""
PLAYER = r"""
import json, os, subprocess, tomllib, urllib.request

with open(os.environ["MCP_CONFIG"]) as file:
    servers = json.load(file)["mcpServers"]
with open(os.environ["CLAUDE_CONFIG_DIR"] + "/.claude.json") as file:
    assert json.load(file)["mcpServers"] == servers
with open(os.environ["CODEX_HOME"] + "/config.toml", "rb") as file:
    assert tomllib.load(file)["mcp_servers"].keys() == servers.keys()
assert os.path.exists(os.environ["CODEX_HOME"] + "/skills/sums/SKILL.md")

ASKED = [
    {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "word", "arguments": {}}},
]

def by_stdio(command, args):
    child = subprocess.Popen([command, *args], stdin=-1, stdout=-1, text=True)
    for asked in ASKED:
        child.stdin.write(json.dumps({"jsonrpc": "2.0", **asked}) + "\n")
        child.stdin.flush()
        last = json.loads(child.stdout.readline()) if "id" in asked else None
    child.kill()
    return last

def by_url(type, url, headers):
    for asked in ASKED:
        body = json.dumps({"jsonrpc": "2.0", **asked}).encode()
        text = urllib.request.urlopen(urllib.request.Request(url, body, headers)).read()
    return json.loads(text)

words = []
for name, server in servers.items():
    last = by_stdio(**server) if "command" in server else by_url(**server)
    words.append(last["result"]["content"][0]["text"])
with open("out/total.txt", "w") as file:
    file.write(" ".join(words))
"""
BASE = "of-the-tests/base"
"""An image that no builder has, for which the image of the tests stands in."""
TOML = """
skills_dir = "/desk/skills"
[[environment.mcp_servers]]
name = "notes"
transport = "stdio"
command = "python3"
args = ["/desk/server.py", "two words"]
[[environment.mcp_servers]]
name = "shop"
transport = "streamable-http"
url = "http://shop:8000/mcp"
headers = { "X-Guest" = 'a "guest"' }
"""
COMPOSE = """
services:
  main: {}
  shop: {build: ./shop, expose: [8000], command: python3 /server.py lamp 8000}
"""


def asking_task(folder: Path, more: str = TOML) -> Path:
    shutil.copytree(TASKS / "total", folder / "asking")
    task = folder / "asking"
    with open(task / "task.toml", "a") as file:
        file.write(more)
    environment = task / "environment"
    (environment / "server.py").write_text(SERVER)
    (environment / "skills" / "sums").mkdir(parents=True)
    (environment / "skills" / "sums" / "SKILL.md").write_text(
        "---\nname: sums\ndescription: adds\n---\n"
    )
    build = (environment / "Dockerfile").read_text().replace("debian:bookworm-slim", BASE)
    copying = "COPY server.py /desk/\nCOPY skills /desk/skills\n"
    (environment / "Dockerfile").write_text(build + copying)
    (environment / "docker-compose.yaml").write_text(COMPOSE)
    (environment / "shop").mkdir()
    (environment / "shop" / "server.py").write_text(SERVER)
    (environment / "shop" / "Dockerfile").write_text(f"FROM {BASE}\nCOPY server.py /\n")
    (task / "solution" / "solve.sh").write_text("echo two words lamp > out/total.txt\n")
    test = task / "tests" / "test.sh"
    test.write_text(test.read_text().replace("235", '"two words lamp"'))
    return folder


@pytest.mark.slow
def test_a_program_calls_the_servers_that_are_in_its_configuration(tmp_path: Path) -> None:
    factory = intercode.prepare("harbor", data=str(asking_task(tmp_path)), image=base_image())
    (task,) = factory.tasks
    assert "- notes: python3 /desk/server.py 'two words' (stdio)" in task.query
    assert "- shop: http://shop:8000/mcp (streamable-http)" in task.query
    nobody = OpenAIModel("none", base_url="http://127.0.0.1:9/v1", api_key="none")
    program = command_line(f"python3 - <<'END' && submit\n{PLAYER}\nEND\n")
    for agent, reward in ((gold, 1), (noop, 0), (program, 1)):
        model: Any = nobody if agent is program else None
        (episode,) = evaluate(factory, agent, tasks=factory.tasks, model=model)
        assert (episode.reward, episode.error) == (reward, None), episode.outcomes


def test_a_server_that_no_service_is_leaves_the_task_out(tmp_path: Path) -> None:
    for number, address in enumerate(("http://elsewhere:8000/mcp", "http://localhost:1/mcp")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (record,) = read_directory(
            asking_task(folder, TOML.replace("http://shop:8000/mcp", address))
        )
        why = f"no service is its MCP server {address}"
        assert record["unplayable"] == [(why, "needs_network")]
    folder = tmp_path / "secret"
    folder.mkdir()
    (record,) = read_directory(asking_task(folder, TOML.replace("'a \"guest\"'", '"${KEY}"')))
    assert record["unplayable"] == [("needs KEY of the host", "needs_network")]


def test_any_setting_of_a_server_is_valid_toml() -> None:
    server = {"command": 'a "b"', "args": ["\x7f\n"], "env": {"A B": "1"}, "odd key": True}
    named = {'x"]\n[y': {**server, "headers": {"X-Y": "é"}, "type": "http"}}
    read = tomllib.loads("\n".join(toml_lines(named)))["mcp_servers"]
    assert read == {'x"]\n[y': {**server, "http_headers": {"X-Y": "é"}}}
