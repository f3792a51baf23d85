"""Agents and models by name: tables whose entries are options of a run.

    programs.toml                         command-line agents
    ~/.config/intercode/agents.toml       the user's, which may replace single values of the former
    ~/.config/intercode/models.toml       [NAME] base_url, key (a variable), request, price, …

What the user gives for a run comes before the tables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intercode.errors import UsageError, did_you_mean
from intercode.options import RunOptions
from intercode.reading import present, read_toml
from intercode.runs.signing import config_folder

_OF_AGENT, _OF_MODEL = ("command", "files", "install", "tried"), ("key", "model")


def programs() -> dict[str, dict[str, Any]]:
    """Return the entries of command-line agents by name."""
    table = read_toml(Path(__file__).with_name("programs.toml"))
    for name, entry in _table("agents.toml", _OF_AGENT).items():
        table[name] = {**table.get(name, {}), **entry}
    return table


def with_named(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run with those of its agent and model. Raises `UsageError` if the
    agent is not installed, or an entry is wrong."""
    chosen = dict(options)
    if program := programs().get(chosen.get("agent", "")):
        _add_program(chosen, program)
    if entry := _table("models.toml", _OF_MODEL).get(chosen.get("model") or ""):
        if variable := entry.get("key"):
            if variable not in os.environ:
                raise UsageError(f"set {variable}, which holds the key of {chosen['model']}")
            chosen["api_key"] = os.environ[variable]
        chosen["model"] = entry.get("model", chosen["model"])
        _add(chosen, entry)
    return chosen


def _add_program(chosen: dict[str, Any], program: Mapping[str, Any]) -> None:
    name = chosen["agent"]
    files = chosen.get("agent_files") or [program["files"]]
    if isinstance(files, str | Path):
        files = [files]
    if not present(files[0]):
        install = program.get("install", "").replace("{files}", str(files[0]))
        raise UsageError(
            f"{name} is not in {files[0]}: install it ({install}), "
            "or name its folder by --agent-files"
        )
    variables = [line.replace("{files}", str(files[0])) for line in program.get("agent_env", ())]
    chosen["agent"] = f"{name}=exec:{program['command']}"
    chosen["agent_files"] = files
    chosen["agent_env"] = [*variables, *chosen.get("agent_env", ())]


def _add(chosen: dict[str, Any], entry: Mapping[str, Any]) -> None:
    """Add the options of an entry that have their defaults."""
    for name, default, declared in RunOptions.declared():
        outside = declared.from_outside() if declared.from_outside else default
        if name in entry and chosen.get(name, default) in (default, outside):
            chosen[name] = entry[name]


def _table(file: str, more: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return a table of the user's, if there is one."""
    path = config_folder() / file
    if not path.exists():
        return {}
    known = [*more, *(name for name, _, _ in RunOptions.declared())]
    for name, entry in (table := read_toml(path)).items():
        for key in entry if isinstance(entry, dict) else [name]:
            if key not in known:
                raise UsageError(f"{path}: [{name}] takes no {key}{did_you_mean(key, known)}")
    return table
