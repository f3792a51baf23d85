"""Commands tried on places that are not written yet: what each would print and change.

    with Trial() as trial:
        gold, *mutants = trial.outcomes(place, [gold, *mutants])
        refused = not bash_exact(mutants[0], gold, task).success

A trial has one sandbox of this machine's programs, in which places take turns. A command sees the
files of its place alone, and nothing of the commands before it. Only what differs between two
places is written, and only what a command changed is restored, since the sandbox is asked many
times for each task.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from posixpath import dirname
from typing import NamedTuple, Self

import intercode.sandbox
from intercode.generate.draws import Texts, without
from intercode.generate.families import Place
from intercode.types import Change, Outcome
from intercode_sandbox.base import Limits

_ERRORS = "/dev/shm/errors"
"""The file for the errors of the first command."""
_REMOVE = "rm -rf -- {0} 2>/dev/null || {{ chmod -R u+rwX -- {0} 2>/dev/null; rm -rf -- {0}; }}"
"""Removes paths, whatever their modes."""
_TOGETHER = 40
"""The number of commands that run in one action as long as they change nothing."""


class _File(NamedTuple):
    """A file inside; for a folder `content` is None, for a link its target."""

    content: bytes | PurePosixPath | None
    mode: int


_GONE = _File(None, -1)


class Trial:
    """A sandbox that executes commands on places. `seconds` is the time that a command may take."""

    def __init__(self, seconds: float = 10.0) -> None:
        self._seconds = seconds
        self._sandbox = intercode.sandbox(limits=Limits(seconds=seconds))
        self._files: dict[str, _File] = {}
        """The files inside, by path."""
        self._before: Mapping[str, Change] = {}
        """The changes that `diff` reports for them."""
        self._undone: Mapping[str, Change] = {}
        """The changes of the last command."""
        self._changing: set[str] = set()
        """Commands that have changed something: the others of a place run alone after them."""
        self._endless: set[str] = set()
        """Mistakes that ran out of time, which are not tried again."""
        self.complained = False
        """Whether the first of the last commands printed an error."""

    def outcomes(self, place: Place, commands: Texts) -> list[Outcome]:
        """Return the outcome of each command, executed where only the files of the place are.

        `failed` tells a status other than 0; a command that runs out of time has failed and has no
        output. The errors of the first are left out, those of the others are in their outputs.
        """
        self._load(_files_of(place))
        self.complained = False
        outcomes = list[Outcome]()
        alone = commands[0] in self._changing
        tried = [commands[0], *without(commands[1:], self._endless)]
        while rest := tried[len(outcomes) :]:
            if not alone:
                together = self._run(rest[:_TOGETHER], first=not outcomes)
                self._undone = self._changes()
                alone = bool(self._undone) or not together
                if not alone:
                    outcomes += together
                continue
            self._restore()
            outcome = self._run_alone(rest[0], first=not outcomes)
            outcomes.append(outcome)
            if outcome.changes:
                self._changing.add(rest[0])
        self._restore(checked=True)
        by_command = dict(zip(tried, outcomes, strict=True))
        return [by_command.get(command, Outcome("", failed=True)) for command in commands]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._sandbox.close()

    def _load(self, files: dict[str, _File]) -> None:
        """Make the sandbox one that has these files and no other changes."""
        if self._files == files:
            return
        old = []
        for path, file in self._files.items():
            if path not in files or type(files[path].content) is not type(file.content):
                old.append(path)
        new = {path: file for path, file in files.items() if self._files.get(path) != file}
        if not self._files:
            self._sandbox.reset()
        self._files = {}
        self._write(old, new)
        self._before, self._files = self._sandbox.diff(), files

    def _write(self, old: Iterable[str], new: Mapping[str, _File]) -> None:
        """Remove and write files."""
        if gone := shlex.join(f"/{path}" for path in old):
            self._sandbox.exec(_REMOVE.format(gone))
        for path, (content, mode) in new.items():
            if isinstance(content, PurePosixPath):
                link = shlex.join((str(content), f"/{path}"))
                self._sandbox.exec(f"mkdir -p /{shlex.quote(dirname(path))}; ln -sfn {link}")
            elif content is not None:
                self._sandbox.write(f"/{path}", content, mode=mode)

    def _changes(self) -> dict[str, Change]:
        after = self._sandbox.diff()
        changes = {}
        for path, change in after.items():
            if change != self._before.get(path):
                changes[path] = change
        for path in self._before.keys() - after.keys():
            changes[path] = Change("removed", self._before[path].type)
        return changes

    def _run_alone(self, command: str, *, first: bool) -> Outcome:
        outcomes = self._run([command], first=first)
        self._undone = self._changes()
        if outcomes:
            return replace(outcomes[0], changes=self._undone)
        self._endless.add(command)
        return Outcome("", self._undone, failed=True)

    def _run(self, commands: Texts, *, first: bool) -> list[Outcome]:
        """Return the outcomes of commands that run one after the other; none if they do not end.
        `first`: nothing has run before them."""
        mark = secrets.token_hex(8)
        action, errors = "", "&1"
        if first:
            errors = _ERRORS
        for command in commands:
            action += f"(eval {shlex.quote(command)}) </dev/null 2>{errors}; echo {mark} $?\n"
            errors = "&1"
        if first:
            action += f"[[ ! -s {_ERRORS} ]] || echo {mark} complained\n"
        text, *parts = self._sandbox.exec(action).output.split(f"{mark} ")
        if first and len(parts) > len(commands):
            self.complained = parts.pop() == "complained\n"
        if len(parts) != len(commands):
            return []
        outcomes = []
        for part in parts:
            status, _, after = part.partition("\n")
            outcomes.append(Outcome(text, failed=status != "0"))
            text = after
        return outcomes

    def _restore(self, *, checked: bool = False) -> None:
        """Undo the changes of the last command. `checked`: start again if that is not enough."""
        if not self._undone:
            return
        old, new = list[str](), dict[str, _File]()
        for path, change in self._undone.items():
            name = path.lstrip("/")
            mode = self._files.get(name, _GONE).mode
            if change.kind != "removed" and (change.type, change.mode) != ("file", mode):
                old.append(name)
        for name, file in self._files.items():
            if f"/{name}" in self._undone or any(name.startswith(f"{other}/") for other in old):
                new[name] = file
        self._write(old, new)
        self._undone = {}
        if checked and self._sandbox.diff() != self._before:
            files, self._files = self._files, {}
            self._load(files)


def _files_of(place: Place) -> dict[str, _File]:
    """Return the tree of a place, folders before what is in them."""
    files = dict[str, _File]()
    for name, content in place.contents().items():
        path = name.removeprefix("tree/")
        for folder in [*map(str, PurePosixPath(path).parents)][-2::-1]:
            files.setdefault(folder, _File(None, 0o755))
        mode = 0o644
        if name in place.programs:
            mode = 0o755
        files[path] = _File(content, mode)
    return files
