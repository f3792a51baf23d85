"""The command line as a user has it, and a small data set in /box.

Most commands run within the tests' own process, which saves a second of imports each; `alone` gives
one a process of its own.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_words import INTERCODE, TASKS
from kept import needs_bwrap, write_box

from intercode import plugins as blame
from intercode.cli import main

MODULES_AT_START = list(sys.path)
"""Where modules are found before any test has loaded a file, which adds the file's folder."""


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
def cli(tmp_path: Path) -> Cli:
    """Runs `intercode` in a folder of its own. `traced`: a traceback is due. `variables` are added
    to the environment."""
    needs_bwrap()

    def run(*words: object, alone: bool = False, traced: bool = False, **variables: str) -> Done:
        done = (_alone if alone else _within)([*map(str, words)], tmp_path, variables)
        assert ("Traceback" in done.err) is traced, done.err
        return done

    return run


def _alone(words: list[str], folder: Path, variables: dict[str, str]) -> Done:
    """As a program in a process of its own, without input."""
    command, env = [INTERCODE, *words], {**os.environ, **variables}
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _within(words: list[str], folder: Path, variables: dict[str, str]) -> Done:
    """As a function of this process, of which nothing is left: no variables, modules, folders of
    modules, or streams."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.ExitStack() as stack:
        stack.enter_context(_own_state(folder, {**os.environ, **variables}))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        with pytest.raises(SystemExit) as end:
            main(words, prog_name="intercode")
    said, complained = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return Done(int(end.value.code or 0), said, complained)


@contextlib.contextmanager
def _own_state(folder: Path, variables: dict[str, str]) -> Iterator[None]:
    environment, path, named, stdin = dict(os.environ), list(sys.path), set(blame._named), sys.stdin
    sys.path[:] = [*filter(None, variables.get("PYTHONPATH", "").split(":")), *MODULES_AT_START]
    sys.dont_write_bytecode = (
        True  # a module that is written anew within a second would be taken from its bytecode
    )
    importlib.invalidate_caches()
    blame._named.clear()  # another test may have named a module of the library
    for file in folder.glob("*.py"):  # another test may have left a module of that name
        sys.modules.pop(file.stem, None)
    with contextlib.chdir(folder), warnings.catch_warnings(), open(os.devnull) as sys.stdin:
        warnings.simplefilter("default")
        # a model's connections end with the process
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            os.environ.clear()
            os.environ.update(variables)
            yield
        finally:
            sys.stdin, sys.path[:], sys.dont_write_bytecode = stdin, path, False
            os.environ.clear()
            os.environ.update(environment)
            blame._named.clear()
            blame._named.update(named)
            for name, module in list(sys.modules.items()):
                if (getattr(module, "__file__", None) or "").startswith(str(folder)):
                    del sys.modules[name]


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Runs `intercode` in a folder that the tests of a file share, and returns the folder; `files`
    are written there first."""
    needs_bwrap()
    folder = tmp_path_factory.mktemp("once")

    def run(*words: object, files: dict[str, str] | None = None) -> Path:
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        done = _within([*map(str, words)], folder, {})
        assert done.status == 0, done.err
        return folder

    return run


@pytest.fixture(scope="session")
def box(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_box(tmp_path_factory.mktemp("box"), TASKS)
