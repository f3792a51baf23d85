"""The equipment of a command-line agent: the MCP servers and skills of a task, where programs look
for them.

    $MCP_CONFIG                       {"mcpServers": {NAME: {"command": …} or {"url": …}}}
    $CLAUDE_CONFIG_DIR/.claude.json   the same, for Claude Code
    $CODEX_HOME/config.toml           [mcp_servers."NAME"], for Codex
    skills/ in both folders           a copy of the task's folder of skills

The two folders are in the agent's own, unless `--agent-env` names others; a file that is there
already stays as it is. Commands run in the task's sandbox, as the agent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from intercode.types import Task
from intercode_sandbox.base import Sandbox

EQUIPMENT = "agent_equipment"
"""The field of a record: {"servers": as in `mcpServers`, "skills": a folder of the sandbox}."""
_PLACE = """
mkdir -p "$CLAUDE_CONFIG_DIR/skills" "$CODEX_HOME/skills"
[[ -e $CLAUDE_CONFIG_DIR/.claude.json ]] || cp "$MCP_CONFIG" "$CLAUDE_CONFIG_DIR/.claude.json"
[[ -e $CODEX_HOME/config.toml ]] || cp "${MCP_CONFIG%.json}.toml" "$CODEX_HOME/config.toml"
if [[ -d $SKILLS_DIR ]]; then
    cp -r "$SKILLS_DIR/." "$CLAUDE_CONFIG_DIR/skills"
    cp -r "$SKILLS_DIR/." "$CODEX_HOME/skills"
fi
"""


def equip(sandbox: Sandbox, task: Task, folder: str) -> tuple[dict[str, str], str]:
    """Write the configuration into the agent's folder. Return variables, and Bash that brings it to
    where programs look; nothing for a task without equipment."""
    equipment = task.extra.get(EQUIPMENT, {})
    if not any(equipment.values()):
        return {}, ""
    servers, config = equipment["servers"], f"{folder}/mcp.json"
    sandbox.write(config, json.dumps({"mcpServers": servers}).encode())
    sandbox.write(f"{folder}/mcp.toml", "\n".join(toml_lines(servers)).encode())
    variables = {
        "MCP_CONFIG": config,
        "CLAUDE_CONFIG_DIR": f"{folder}/claude",
        "CODEX_HOME": f"{folder}/codex",
        "SKILLS_DIR": equipment["skills"],
    }
    return variables, _PLACE


def toml_lines(servers: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of Codex's configuration with these servers."""
    for name, server in servers.items():
        yield f"[mcp_servers.{_toml(name)}]"
        for key, value in server.items():
            if isinstance(value, dict):
                table = "http_headers" if key == "headers" else key
                for name_inside, text in value.items():
                    yield f"{_toml(table)}.{_toml(name_inside)} = {_toml(text)}"
            elif key != "type":
                yield f"{_toml(key)} = {_toml(value)}"


def _toml(value: object) -> str:
    """Return a text, or a list of texts, as TOML: as in JSON, but for one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
