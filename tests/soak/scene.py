"""An evaluation with all that it depends on, each part of which can be broken.

ChatServer ◄── intercode eval sql, MariaDB, two workers ──► a run folder on a disk of 8 MiB (in a
                                                            mount namespace of its own)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chat_server import ChatServer, serving
from cli_words import INTERCODE
from families import alive, family
from lines import episodes
from orchard import TASKS, write_data

EPOCHS = 12
_HOLD = 'mount -t tmpfs -o size=8m intercode-scene "$0" && echo held && exec sleep infinity'
_ACTIONS = ("CREATE TABLE mine (id INTEGER)", "INSERT INTO mine VALUES (1)")
_OPTIONS = (
    "--engine",
    "mariadb",
    "--agent",
    "try_again",
    "--model",
    "tiny",
    "--workers",
    "2",
    "--epochs",
    str(EPOCHS),
)
Results = dict[tuple[str, int], dict[str, Any]]


class Scene:
    """`disk` is where the small disk is for the evaluation; here it is seen as `seen`."""

    def __init__(self, place: Path, server: ChatServer, holder: int) -> None:
        self.server, self._holder, self._data = server, holder, place / "orchard"
        self._disk = place / "disk"
        self.seen = Path(f"/proc/{holder}/root{self._disk}")
        self.process: subprocess.Popen[str]  # the last that was started

    def start(self) -> None:
        words = [
            "nsenter",
            "--mount",
            "--target",
            str(self._holder),
            "--",
            INTERCODE,
            "eval",
            "sql",
            "--data",
            str(self._data),
        ]
        self.process = subprocess.Popen(
            [*words, *_OPTIONS, "--resume", str(self._disk / "run"), "--json"],
            env={**os.environ, **self.server.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end(self, seconds: float = 300) -> tuple[int, str, str]:
        """How it ended, and what it said, once it ended by itself."""
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return self.process.returncode, out, err

    def kill(self) -> None:
        if hasattr(self, "process") and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()

    def finish(self) -> dict[str, Any]:
        """Go on, undisturbed, to the end; what it found."""
        self.start()
        status, out, err = self.end()
        assert status == 0, err
        return {**json.loads(out), "seconds": None, "run": None}

    @property
    def finished(self) -> int:
        """How many lines there are by now."""
        file = self.seen / "run" / "episodes.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def results(self) -> tuple[Results, list[str]]:
        """The scored episodes, each of which is there once, and the errors of others."""
        found: Results = {}
        errors = []
        for line in episodes(self.seen / "run"):
            if line["reward"] is None:
                assert line["error"] or line["ended"] == "limit", (
                    "unscored since the run was stopped"
                )
                errors += [line["error"]] if line["error"] else []
                continue
            assert line["error"] is None
            assert (line["task"], line["epoch"]) not in found
            found[line["task"], line["epoch"]] = line
        return found, errors

    def walls(self) -> list[int]:
        """The outermost process of each sandbox."""
        return [
            pid for pid, _ in alive(family(self.process.pid)) if "--die-with-parent" in _words(pid)
        ]


@contextmanager
def staged(place: Path) -> Iterator[Scene]:
    """A scene in a folder; whatever was mounted and started is gone afterwards."""
    write_data(place / "orchard")
    (place / "disk").mkdir()
    answers = {task["query"]: [*_ACTIONS, task["gold"]] for task in TASKS}
    hold = ["unshare", "--mount", "sh", "-c", _HOLD, str(place / "disk")]
    with (
        serving(answers) as server,
        subprocess.Popen(hold, stdout=subprocess.PIPE, text=True) as holder,
    ):
        server.language = "sql"
        assert holder.stdout is not None
        scene = Scene(place, server, holder.pid)
        try:
            assert holder.stdout.readline() == "held\n"
            yield scene
        finally:
            scene.kill()
            holder.kill()


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []
