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

import io
import secrets
import tarfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple, Self

import intercode.sandbox
from intercode.generate.draws import Texts
from intercode.generate.families import Place
from intercode.types import Change, Outcome
from intercode_sandbox.base import Limits
from intercode_sandbox.results import Completed

_EACH = 'e=$1; shift; for c; do (eval "$c") </dev/null 2>&$e; printf "%s %s\\n" "$0" $?; e=1; done'
"""Runs each argument, and prints the mark $0 and an exit status after what it prints. The errors of
the first are printed to the file descriptor $1."""
_WRITE = (
    'n=$1; shift; chmod -R u+rwX -- "${@:1:n}" 2>/dev/null; '
    'rm -rf -- "${@:1:n}" && tar -xpf - -C / || exit; shift $n; '
)
"""Removes the first $1 arguments, whatever their modes, and unpacks the files on stdin."""
_ALONE = 'bash -c "$2" </dev/null 2>&$1'
_TOGETHER = 40
"""The number of commands that run in one program as long as they change nothing."""


class _File(NamedTuple):
    """A file inside; for a folder `content` is None, for a link its target."""

    content: bytes | PurePosixPath | None
    mode: int


class Trial:
    """A sandbox that executes commands on places. `seconds` is the time that a command may take."""

    def __init__(self, seconds: float = 10.0) -> None:
        self._seconds = seconds
        self._sandbox = intercode.sandbox(limits=Limits(seconds=seconds))
        self._files: dict[str, _File] = {}
        """The files inside, by path."""
        self._before: Mapping[str, Change] = {}
        """The changes that `diff` reports for them."""
        self._undone: Collection[str] = ()
        """The paths that the last command changed."""
        self._changing: set[str] = set()
        """Commands that have changed something: the others of a place run alone after them."""
        self._endless: set[str] = set()
        """Mistakes that ran out of time, which are not tried again."""
        self.errors = b""
        """Errors that the first of the last commands printed, and those of undoing the others."""

    def outcomes(self, place: Place, commands: Texts) -> list[Outcome]:
        """Return the outcome of each command, executed where only the files of the place are.

        `failed` tells a status other than 0; a command that runs out of time has failed and has no
        output. The first prints its errors to `errors`, the others to their outputs.
        """
        self._load(_files_of(place))
        self.errors = b""
        outcomes = list[Outcome]()
        alone = commands[0] in self._changing
        tried = [commands[0]]
        for command in commands[1:]:
            if command not in self._endless:
                tried.append(command)
        while rest := tried[len(outcomes) :]:
            errors = 1 if outcomes else 2
            if not alone:
                together = self._run_together(errors, rest[:_TOGETHER])
                outcomes += together
                alone = not together
                continue
            outcome = self._run_alone(errors, rest[0])
            outcomes.append(outcome)
            if outcome.changes:
                self._changing.add(rest[0])
        self._restore()
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
        old = [path for path in self._files if self._files[path] != files.get(path)]
        new = {path: file for path, file in files.items() if self._files.get(path) != file}
        if not self._files:
            self._sandbox.reset()
        self._files = {}
        completed = self._write(old, new)
        if completed is None or completed.exit_code:
            raise OSError("a place cannot be unpacked")
        self._before, self._files = self._sandbox.diff(), files

    def _write(
        self, old: Iterable[str], new: Mapping[str, _File], then: str = "", *arguments: str
    ) -> Completed | None:
        """Remove and write files, and run a Bash script."""
        gone = [f"/{path}" for path in old]
        command = ["bash", "-c", f"{_WRITE}{then}", "bash", str(len(gone)), *gone, *arguments]
        return self._run(command, stdin=_tar_of(new))

    def _changes(self) -> dict[str, Change]:
        after = self._sandbox.diff()
        changes = {}
        for path, change in after.items():
            if change != self._before.get(path):
                changes[path] = change
        for path in self._before.keys() - after.keys():
            changes[path] = Change("removed", self._before[path].type)
        return changes

    def _run_together(self, errors: int, commands: Texts) -> list[Outcome]:
        """Return the outcomes of commands that run one after the other; none if they change
        something or do not end. The errors of the first go to a file descriptor."""
        mark = secrets.token_hex(8)
        completed = self._run(["bash", "-c", _EACH, mark, str(errors), *commands])
        self._undone = list(self._changes())
        parts = []
        if completed:
            parts = completed.stdout.split(f"{mark} ".encode())
        if self._undone or len(parts) != len(commands) + 1:
            self._restore()
            return []
        text, outcomes = parts[0], []
        for part in parts[1:]:
            status, _, after = part.partition(b"\n")
            outcomes.append(Outcome(text.decode(errors="replace"), failed=status != b"0"))
            text = after
        return outcomes

    def _run_alone(self, errors: int, command: str) -> Outcome:
        if self._undone:
            completed = self._write(*self._undo(), _ALONE, str(errors), command)
        else:
            completed = self._run(["bash", "-c", _ALONE, "bash", str(errors), command])
        changes = self._changes()
        self._undone = list(changes)
        if completed is None:
            self._endless.add(command)
            self._restore()
            return Outcome("", changes, failed=True)
        output = completed.stdout.decode(errors="replace")
        return Outcome(output, changes, failed=completed.exit_code != 0)

    def _undo(self) -> tuple[list[str], dict[str, _File]]:
        """Return the paths to remove and the files to write to undo the last command."""
        paths = [path.lstrip("/") for path in self._undone]
        files = {}
        for path, file in self._files.items():
            if any(f"{path}/".startswith(f"{other}/") for other in paths):
                files[path] = file
        return paths, files

    def _restore(self) -> None:
        """Undo the last command; start again if that is not enough."""
        if self._undone:
            self._write(*self._undo())
            self._undone = ()
            if self._sandbox.diff() != self._before:
                files, self._files = self._files, {}
                self._load(files)

    def _run(self, command: Texts, *, stdin: bytes = b"") -> Completed | None:
        """Return what a program printed, None if it ran out of time."""
        completed = self._sandbox.run(command, stdin=stdin, timeout=self._seconds)
        self.errors += completed.stderr
        return None if completed.exit_code is None else completed


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


def _tar_of(files: Mapping[str, _File]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, (content, mode) in files.items():
            entry = tarfile.TarInfo(path)
            entry.mode = mode
            data = None
            if content is None:
                entry.type = tarfile.DIRTYPE
            elif isinstance(content, PurePosixPath):
                entry.type, entry.linkname = tarfile.SYMTYPE, str(content)
            else:
                entry.size, data = len(content), io.BytesIO(content)
            tar.addfile(entry, data)
    return packed.getvalue()
