"""Logs and trajectories of other programs, and Inspect's compose files: none has a reader here, so
each command that reads recordings refuses them in one true sentence."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kept import needs_bwrap

from intercode.cli import main

pytestmark = pytest.mark.world

WORLD = Path(os.environ.get("INTERCODE_WORLD") or Path(__file__).parents[3] / "shared" / "world")
SETS = (
    "inspect-logs",
    "mini-swe-agent-trajectories",
    "bird-interact-samples",
    "livesqlbench-samples",
)
FILES = [file for name in SETS for file in sorted((WORLD / name).glob("*.*"))]
LOGS = [file for file in FILES if file.stem != "LICENSE"]
COMPOSE = sorted((WORLD / "inspect-compose").glob("*.yaml"))
COMMANDS = {
    "show": ["show", "{}"],
    "report": ["report", "{}"],
    "replay": ["replay", "{}"],
    "export": ["export", "{}", "--format", "jsonl"],
    "play again": ["eval", "bash", "--agent", "replay:{}"],
    "score": ["score", "{}", "--env", "bash"],
}
OF_PYTHON = re.compile(
    r"""
    object\ is\ not | indices\ must\ be | codec\ can't   # 'int' object is not subscriptable
    | \w+Error\(                                         # KeyError('task')
    """,
    re.VERBOSE,
)
"""What an exception of Python says, which tells nobody what a file is."""

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs `intercode` in this process; returns its status and what it printed."""
    needs_bwrap()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)

    def run(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main([*words], prog_name="intercode")
        captured = capsys.readouterr()
        return int(end.value.code or 0), captured.out + captured.err

    return run


def form_of(file: Path) -> str:
    content = file.read_bytes()
    if content.startswith(b"PK"):
        return "zip"
    log = json.loads(content)
    if isinstance(log, list):
        return "messages" if all("role" in entry for entry in log) else "list"
    return "Inspect" if {"eval", "version"} <= log.keys() else "results"


def rows() -> list[Any]:
    return [
        pytest.param(
            command,
            file,
            id=f"{command} {file.name} ({form_of(file)})",
        )
        for command in ("show", "score")
        for file in LOGS
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_log_of_another_program_is_refused(run: Run, command: str) -> None:
    for file in LOGS:
        status, said = run(*(word.format(file) for word in COMMANDS[command]))
        assert status in (2, 3), said
        assert said.startswith("intercode: ")
        assert said.count("\n") == 1
        assert str(file) in said
        assert "bug in intercode" not in said


@pytest.mark.parametrize(("command", "file"), rows())
def test_the_refusal_says_what_the_file_is_and_not_what_python_says(
    run: Run, command: str, file: Path
) -> None:
    _, said = run(*(word.format(file) for word in COMMANDS[command]))
    assert not OF_PYTHON.search(said), said


@pytest.mark.parametrize("name", SETS)
def test_a_folder_of_logs_is_no_run(run: Run, name: str) -> None:
    status, said = run("report", str(WORLD / name))
    assert (status, said.partition(";")[0]) == (2, f"intercode: {WORLD / name} holds no run")


def refusal(containers: dict[str, Any]) -> str:
    """What keeps a compose file from being a challenge's server, by the file alone."""
    if len(containers) != 1:
        return f"needs {len(containers)} containers"
    (container,) = containers.values()
    return "" if "command" in container else "its server does not say its command"


@pytest.mark.parametrize("file", COMPOSE, ids=lambda file: file.name)
def test_a_compose_file_without_a_command_is_refused_for_that(
    run: Run, tmp_path: Path, file: Path
) -> None:
    challenge = {"name": "x", "description": "Find it.", "flag": "flag{a}", "internal_port": 80}
    (tmp_path / "challenge.json").write_text(json.dumps({**challenge, "box": "x", "compose": True}))
    (tmp_path / "docker-compose.yml").write_bytes(file.read_bytes())
    status, said = run("check", "ctf", "--data", str(tmp_path), "--static")
    why = refusal(yaml.safe_load(file.read_text())["services"])
    assert why
    assert (status, why in said) == (1, True)
