"""Commands tried on places that are not written yet: what each would print and change.

    with Trial() as trial:
        gold, *mutants = trial.outcomes(place, [gold, *mutants])
        refused = not bash_exact(mutants[0], gold, task).success

A trial has one sandbox of this machine's programs, in which places take turns. A command sees the
files of its place alone, and nothing of the commands before it.
"""

from __future__ import annotations

import io
import secrets
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Self

import intercode.sandbox
from intercode.generate.families import Place
from intercode.types import Change, Outcome
from intercode_sandbox.base import Limits
from intercode_sandbox.results import Completed

_EACH = 'for code; do bash -c "$code" </dev/null 2>&1; printf "%s %s\\n" "$0" $?; done'
"""Runs each argument, and prints the mark $0 and an exit status after what it prints."""
_TOGETHER = 40
"""The number of commands that run in one program as long as they change nothing."""


class Trial:
    """A sandbox that executes commands on places. `seconds` is the time that a command may take."""

    def __init__(self, seconds: float = 10.0) -> None:
        self._seconds = seconds
        self._sandbox = intercode.sandbox(limits=Limits(seconds=seconds))
        self._files: bytes | None = None
        """The place inside as a tar, None after a command that changed something."""
        self._before: Mapping[str, Change] = {}

    def outcomes(self, place: Place, commands: Sequence[str]) -> list[Outcome]:
        """Return the outcome of each command, executed where only the files of the place are.

        `failed` tells a status other than 0; a command that runs out of time has failed and has no
        output.
        """
        files = tar_of(place)
        outcomes = list[Outcome]()
        changing = False
        while len(outcomes) < len(commands):
            rest = commands[len(outcomes) :]
            if not changing and (together := self._run_together(files, rest[:_TOGETHER])):
                outcomes += together
                continue
            outcomes.append(self._run_alone(files, rest[0]))
            changing = bool(outcomes[-1].changes)
        return outcomes

    def close(self) -> None:
        self._sandbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _load(self, files: bytes) -> None:
        """Make the sandbox one that has these files and no other changes."""
        if self._files == files:
            return
        self._files = None
        self._sandbox.reset()
        done = self._sandbox.run(["tar", "-xpf", "-", "-C", "/"], stdin=files)
        if done.exit_code:
            raise OSError(f"a place cannot be unpacked: {done.stderr.decode(errors='replace')}")
        self._before, self._files = self._sandbox.diff(), files

    def _changes(self) -> dict[str, Change]:
        after = self._sandbox.diff()
        changes = {
            path: change for path, change in after.items() if change != self._before.get(path)
        }
        for path in self._before.keys() - after.keys():
            changes[path] = Change("removed", self._before[path].type)
        return changes

    def _run_together(self, files: bytes, commands: Sequence[str]) -> list[Outcome]:
        """Return the outcomes of commands that run one after the other; none if they change
        something or do not end."""
        self._load(files)
        mark = secrets.token_hex(8)
        done = self._run(["bash", "-c", _EACH, mark, *commands], len(commands))
        if done is None or self._changes():
            self._files = None
            return []
        *parts, _ = done.stdout.split(f"{mark} ".encode())
        ends = done.stdout.split(f"{mark} ".encode())[1:]
        if len(ends) != len(commands):
            self._files = None
            return []
        statuses = [int(end.split(b"\n", 1)[0]) for end in ends]
        texts = [parts[0], *(part.split(b"\n", 1)[1] for part in parts[1:])]
        return [
            Outcome(text.decode(errors="replace"), failed=status != 0)
            for text, status in zip(texts, statuses, strict=True)
        ]

    def _run_alone(self, files: bytes, command: str) -> Outcome:
        self._load(files)
        done = self._run(["bash", "-c", f"exec 2>&1\n{command}"], 1)
        changes = self._changes()
        if changes or done is None:
            self._files = None
        if done is None:
            return Outcome("", changes, failed=True)
        return Outcome(done.stdout.decode(errors="replace"), changes, failed=done.exit_code != 0)

    def _run(self, command: Sequence[str], count: int) -> Completed | None:
        """Return what a program of `count` commands printed, None if it ran out of time."""
        done = self._sandbox.run(command, timeout=self._seconds * count)
        return None if done.exit_code is None else done


def tar_of(place: Place) -> bytes:
    """Return the tree of a place as a tar; equal places give equal bytes."""
    packed, folders = io.BytesIO(), set[str]()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in place.contents().items():
            path = name.removeprefix("tree/")
            for folder in [*map(str, PurePosixPath(path).parents)][-2::-1]:
                if folder not in folders:
                    folders.add(folder)
                    (entry := tarfile.TarInfo(folder)).type = tarfile.DIRTYPE
                    entry.mode = 0o755
                    tar.addfile(entry)
            entry = tarfile.TarInfo(path)
            if isinstance(content, PurePosixPath):
                entry.type, entry.linkname = tarfile.SYMTYPE, str(content)
                tar.addfile(entry)
                continue
            entry.size, entry.mode = len(content), 0o755 if name in place.programs else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
