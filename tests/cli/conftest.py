"""The command line as a user has it: the installed program in a process of its own, and a small data set in /box."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_words import INTERCODE, TASKS, write_tasks
from kept import needs_bwrap


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on stdout, with nothing else there."""
        found: dict[str, Any] = json.loads(self.out)
        assert self.out.count("\n") == 1
        return found


Cli = Callable[..., Done]


@pytest.fixture
def cli(tmp_path: Path, module_cache: Path) -> Cli:
    """Runs `intercode` in a folder of its own. `traced`: a traceback is due. `variables` are added to the environment."""
    needs_bwrap()

    def run(*words: object, timeout: float = 120, traced: bool = False, **variables: str) -> Done:
        keep = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "INTERCODE_BASE"))}
        done = subprocess.run(
            [INTERCODE, *map(str, words)],
            cwd=tmp_path,
            env={**keep, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert ("Traceback" in done.stderr) is traced, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder: /box with the files a, b and c; on the second contents `a` holds another word."""
    folder = tmp_path_factory.mktemp("box")
    for tree, word in (("tree", "apple"), ("second", "quince")):
        inside = folder / tree / "box"
        inside.mkdir(parents=True)
        for name, text in (("a", word), ("b", "pear"), ("c", "plum")):
            (inside / name).write_text(text + "\n")
    write_tasks(folder / "tasks.jsonl", TASKS)
    return folder
