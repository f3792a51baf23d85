"""What other programs rely on, frozen in `golden/`: the help of every command, and the keys of
run.json and of what `--json` prints.

A change that users should see is written there by

    INTERCODE_WRITE_GOLDEN=1 .venv/bin/python -m pytest tests/cli/test_cli_golden.py

and named in `changes/`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from intercode.cli import main

GOLDEN = Path(__file__).parent / "golden"
ENVIRONMENTS = ("bash", "sql", "python", "ctf")
CONTENTS = {"excluded", "hardness", "data_set", "left_out", "versions", "template", "parts", "by"}
"""Keys whose value is a table with names of tasks or programs: only the key itself is frozen."""


def require_golden(name: str, text: str) -> None:
    file = GOLDEN / name
    if os.environ.get("INTERCODE_WRITE_GOLDEN"):
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


def test_the_help_of_every_command(cli: Any) -> None:
    texts = []
    for path in commands(main):
        done = cli(*path, "--help")
        assert done.status == 0
        texts.append(f"$ intercode {' '.join((*path, '--help'))}\n{done.out}")
    require_golden("help.txt", "\n".join(texts))


def keys(value: object) -> Any:
    """Return the keys of a JSON value: a list stands for its members, a number or text for none."""
    if isinstance(value, dict):
        return {
            name: None if name in CONTENTS else keys(part) for name, part in sorted(value.items())
        }
    if isinstance(value, list):
        members: dict[str, Any] = {}
        for part in value:
            if isinstance(part, dict):
                members |= keys(part)
        return [members] if members else []
    return None


def test_the_keys_of_runs_and_of_json(cli: Any, tmp_path: Path) -> None:
    table: dict[str, Any] = {}
    for env in ENVIRONMENTS:
        run = f"run-{env}"
        words = ("eval", env, "--agent", "gold", "--limit", "1", "--out", run, "--json")
        table[f"eval {env}"] = keys(cli(*words).json)
        table[f"run.json {env}"] = keys(json.loads((tmp_path / run / "run.json").read_text()))
        lines = (tmp_path / run / "episodes.jsonl").read_text().splitlines()
        table[f"episodes.jsonl {env}"] = keys(json.loads(lines[0]))
    predictions = tmp_path / "predictions.txt"
    predictions.write_text("ls /\n")
    more = {
        "report": ("report", "run-bash", "--json"),
        "replay": ("replay", "run-bash", "--json"),
        "rescore": ("rescore", "run-sql", "--reward", "paper", "--json"),
        "score": ("score", predictions, "--env", "bash", "--limit", "1", "--json"),
        "check": ("check", "sql", "--limit", "1", "--json"),
        "check --static": ("check", "sql", "--limit", "1", "--static", "--json"),
        "doctor": ("doctor", "--json"),
    }
    for name, words in more.items():
        done = cli(*words)
        assert done.out, (name, done.err)
        table[name] = keys(done.json)
    require_golden("keys.json", json.dumps(table, indent=1) + "\n")
