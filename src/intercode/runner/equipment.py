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
from collections.abc import Mapping
from typing import Any

from intercode.errors import DataError
from intercode.types import Task
from intercode_sandbox.base import Sandbox

SERVERS, SKILLS = "mcp_servers", "skills_dir"
"""The fields of a record: servers by name, as in `mcpServers`, and a folder of the sandbox."""
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
    """Write the configuration into the agent's folder in the sandbox. Return variables, and the
    Bash that brings it to where programs look; nothing for a task without servers and skills."""
    servers, skills = task.extra.get(SERVERS) or {}, task.extra.get(SKILLS) or ""
    if not (servers or skills):
        return {}, ""
    config = f"{folder}/mcp.json"
    try:
        table = servers_as_toml(servers)
    except (TypeError, AttributeError) as error:
        raise DataError(f"task {task.id}: field {SERVERS!r}: {error}") from error
    sandbox.write(config, json.dumps({"mcpServers": servers}).encode())
    sandbox.write(f"{folder}/mcp.toml", table.encode())
    variables = {
        "MCP_CONFIG": config,
        "CLAUDE_CONFIG_DIR": f"{folder}/claude",
        "CODEX_HOME": f"{folder}/codex",
        "SKILLS_DIR": skills,
    }
    return variables, _PLACE


def servers_as_toml(servers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return servers as tables of Codex's configuration."""
    lines = []
    for name, server in servers.items():
        lines.append(f"[mcp_servers.{_toml(name)}]")
        for key, value in server.items():
            if key == "headers":
                key = "http_headers"
            if key != "type":
                lines.append(f"{key} = {_toml(value)}")
    return "\n".join([*lines, ""])


def _toml(value: object) -> str:
    """Return a text, or a list or an object of texts, as TOML in one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_toml(key)} = {_toml(text)}' for key, text in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    # as in JSON, but for one control character
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
