"""Agents and models by name: tables whose entries are options of a run.

    programs.toml                         command-line agents
    ~/.config/intercode/agents.toml       the user's, which may replace single values of the former
    ~/.config/intercode/models.toml       [NAME] model, base_url, key (a variable), request, …

What the user gives for a run comes before the tables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from intercode.errors import UsageError, did_you_mean
from intercode.options import RunOptions
from intercode.reading import present, read_toml
from intercode.runs.signing import config_folder

_TEXTS = ("command", "files", "install", "tried", "key", "model")
_OF_AGENT = (*_TEXTS[:4], "agent_env")


def programs() -> dict[str, dict[str, Any]]:
    """Return the entries of command-line agents by name."""
    from intercode.agents import NAMES

    table = read_toml(Path(__file__).with_name("programs.toml"))
    for name, entry in _table("agents.toml", _OF_AGENT).items():
        table[name] = {**table.get(name, {}), **entry}
        if name in NAMES or "command" not in table[name]:
            path = config_folder() / "agents.toml"
            raise UsageError(f"{path}: [{name}] needs a command, and a name that is not taken")
    return table


def options_of_model(name: object) -> dict[str, Any]:
    """Return the options of a model in the user's table, `model` and `key` among them."""
    if not name:
        return {}
    options = []
    for option, _, declared in RunOptions.declared():
        if declared.section == "Agent and model" and not option.startswith("agent"):
            options.append(option)
    return _table("models.toml", ["key", *options]).get(str(name), {})


def with_named(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run with those of its agent and model. Raises `UsageError` if the
    agent is not installed, or an entry is wrong."""
    from intercode.agents import NAMES

    chosen = dict(options)
    agent = str(chosen.get("agent", ""))
    if agent not in NAMES and ":" not in agent and (program := programs().get(agent)):
        _add_program(chosen, program)
    entry = options_of_model(chosen.get("model"))
    if variable := entry.pop("key", None):
        if variable not in os.environ:
            raise UsageError(f"set {variable}, which holds the key of {chosen['model']}")
        chosen["api_key"] = os.environ[variable]
    if entry:
        chosen["model"] = entry.pop("model", chosen["model"])
    return {**entry, **chosen}


def _add_program(chosen: dict[str, Any], program: Mapping[str, Any]) -> None:
    name, folder = chosen["agent"], program.get("files", "")
    files = chosen.get("agent_files") or [folder] * bool(folder)
    if isinstance(files, str | Path):
        files = [files]
    if files:
        folder = str(files[0])
        if not present(folder):
            install = program.get("install", "as its authors say").replace("{files}", folder)
            raise UsageError(
                f"{name} is not in {folder}: install it ({install}), "
                "or name its folder by --agent-files"
            )
    chosen["agent"] = f"{name}=exec:{program['command'].replace('{files}', folder)}"
    chosen["agent_files"] = files
    variables = [line.replace("{files}", folder) for line in program.get("agent_env", ())]
    chosen["agent_env"] = [*variables, *chosen.get("agent_env", ())]


def _table(file: str, known: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return a table of the user's, if there is one."""
    path = config_folder() / file
    if not path.exists():
        return {}
    for name, entry in (table := read_toml(path)).items():
        if not isinstance(entry, dict):
            raise UsageError(f"{path}: write [{name}], and below it its options")
        for key, value in entry.items():
            if key not in known:
                raise UsageError(f"{path}: [{name}] takes no {key}{did_you_mean(key, known)}")
            kind = list if key == "agent_env" else str
            if (key in _TEXTS or kind is list) and not (isinstance(value, kind) and value):
                raise UsageError(f"{path}: [{name}] {key} must be a {kind.__name__}, not {value!r}")
    return table
