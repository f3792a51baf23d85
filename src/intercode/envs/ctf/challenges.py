"""Find by rules what capture-the-flag tasks need besides a sandbox, given query, files and gold.

    network    the query contains a URL, or a host with a port; the field `setup` downloads. If the
               record names its files or servers (`assets`, `services`), only the URL of a file that
               is not on one of these servers counts: pages are mentioned
    file       the query names a file, a program or an image, and the task has no assets. A query
               that contains its own data (a number, an encoded word) needs none. Or the record
               names a file that is not there
    gold       the flag lacks one of its braces, or both as the only one in its set, or JSON
               dropped a backslash

The assets of task ID are a folder `ID/`, or a tar `ID.tar` if modes, times or a repository matter.
They are packed as one tar, which is the same on every checkout: from a folder, only the executable
bits of the modes are kept, and no times. Whatever is called solution, writeup or walkthrough is not
packed. A folder without other files, except empty ones such as `.placeholder`, counts as no assets.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from intercode.errors import DataError, IntercodeError, UsageError
from intercode.plugins import describe_error
from intercode.reading import LARGEST, present, read_bytes, read_text, real_file, require_inside
from intercode.types import Task, TaskIssue

UNPLAYABLE = "unplayable"
"""The field that says why a published challenge cannot be played here."""
NOT_GIVEN = "not_given"
"""The field that says what a published challenge is played without."""
FORMS = ("flag", "script")
"""Values of the field `gold_is`: the gold is the flag itself (the default), or a Bash script that
prints the flag on its last line."""
_LONGEST_NAME = 240
"""The most bytes of an id that can be the name of a file with a suffix."""
_NAMED = 5
"""The most assets that a finding names."""
_SUFFIXES = (".tar", ".tar.gz", ".tar.xz")
_TIME = 1_700_000_000
_ADDRESS = re.compile(
    r"\b(?:https?|ftp)://\S+|\bgit@\S+|\bnc\s{1,9}[\w-]{1,63}(?:\.[\w-]{1,63})+"
    r"|\b[a-z][\w-]{0,62}(?:\.[\w-]{1,63}){2,8}(?: | at port )\d{2,5}\b"
)
_LINK = re.compile(
    r"https?://(?P<host>[^\s()\[\]/:]+)(?::\d*)?(?P<path>(?:/[^\s()\[\]]*)?)(?<![.,;:!?])"
)
_PAGES = ("", ".html", ".htm", ".php")
_FILE_NAME = re.compile(r"(?<![\w.-])[\w-]+\.(?:[A-Za-z]\w{0,3})\b(?!\.\w)|\b\w+\(0?x?\w*\)")
"""A file name, or a call to a function that the query does not define."""
_FILE_NOUN = re.compile(
    r"\b(?:files?|image|archive|script|program|source|dump|vault|captures?|report|page|disk"
    r"|certificate)\b",
    re.I,
)
_DATA = re.compile(
    r"\b0x[0-9a-fA-F]+\b|\bnumber \d+\b|\b\w{3,}\{[^{}]+\}"
    r"|\b(?=\w*\d)(?=\w*[A-Z])(?=\w*[a-z])[\w+/]{12,}\b"
)
_SOLUTION = re.compile(r"(?:[^/]*/)*?(?:solution|write[-_ ]?up|walk[-_ ]?through)[^/]*", re.I)
"""The part of a path that names a solution: `solution` in `solution/README.md`, all of
`notes/Write-up.md`, nothing in `resolution.txt`."""
_FLAG = re.compile(r"[^{}]*\{.*\}", re.DOTALL)
_HALF_FLAG = re.compile(r"\w+\{[^}]*|[^{]*\}", re.DOTALL)
_GOLD = re.compile(r'"gold"\s*:\s*"((?:[^"\\]|\\.)*)"')
_ESCAPED_SLASH = re.compile(r"(?<!\\)(?:\\\\)*\\/")
_PLAIN_SLASH = re.compile(r'[^\\"]/')


@dataclass(frozen=True)
class Challenge:
    """The assets of one task, a folder or a tar, or the files and folders that its record names,
    the reasons why it cannot be played or scored, if any: network, file, gold; and what it is
    played without."""

    assets: Path | None
    network: str | None = None
    file: str | None = None
    gold: str | None = None
    named: tuple[Path, ...] = ()
    not_given: str = ""
    unreadable: str | None = None

    @property
    def issues(self) -> tuple[TaskIssue, ...]:
        reasons = {
            "needs_network": self.network,
            "needs_files": self.file,
            "odd_flag": self.gold,
            "unreadable": self.unreadable,
        }
        return tuple(TaskIssue(why, kind) for kind, why in reasons.items() if why)

    @property
    def facts(self) -> dict[str, bool]:
        return {
            "needs_network": bool(self.network),
            "has_assets": bool(self.assets or self.named),
            "broken_gold": bool(self.gold),
        }

    @cached_property
    def packed(self) -> bytes | None:
        """The assets as one tar; None if there are none. Raises `UsageError` if they cannot be
        read."""
        if self.assets is None and not self.named:
            return None
        try:
            if self.assets is None:
                paths = filter(present, self.named)
                return _pack({path.name: Path(os.path.realpath(path)) for path in paths})
            if present(self.assets) == "folder":
                return _pack(_below(self.assets))
            content = read_bytes(self.assets, self.assets.parent, most=LARGEST)
        except OSError as error:
            raise UsageError(
                f"{error.filename or self.assets}: cannot be read ({error.strerror})"
            ) from error
        if self.solutions:
            content = _without_solutions(content)
        return content

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        """Names and contents of the regular files that are packed. Raises `DataError` if the assets
        are not a tar."""
        files: dict[str, bytes] = {}
        if self.packed is None:
            return files
        try:
            with tarfile.open(fileobj=io.BytesIO(self.packed)) as tar:
                for entry in tar:
                    if entry.isreg() and (file := tar.extractfile(entry)):
                        files[entry.name] = file.read()
        except (tarfile.TarError, EOFError, OSError) as error:
            raise DataError(f"{self.assets}: cannot be unpacked ({error}); is it a tar?") from error
        return files

    @cached_property
    def solutions(self) -> tuple[str, ...]:
        """The files and folders that are not packed, since they are called solution or the like."""
        if self.assets is None:
            return ()
        if present(self.assets) == "folder":
            names = [str(path.relative_to(self.assets)) for path in self.assets.rglob("*")]
        else:
            try:
                with tarfile.open(self.assets) as tar:
                    names = [name.removeprefix("./") for name in tar.getnames()]
            except (tarfile.TarError, EOFError, OSError):  # told when it is read or unpacked
                return ()
        return tuple(sorted({match[0] for match in map(_SOLUTION.match, names) if match}))

    def files_with(self, flag: str) -> list[str]:
        """Return the names of the packed files that contain the flag as plain text."""
        return [name for name, content in self.files.items() if flag.encode() in content]

    def hints(self, flag: str = "") -> tuple[TaskIssue, ...]:
        """Return what `check` finds among the assets: solutions, and the flag in plain text."""
        issues = []
        if named := ", ".join(self.solutions[:_NAMED]):
            why = f"the assets contain {named}, which the agent does not get"
            issues.append(TaskIssue(why, "solution"))
        if self.not_given:
            issues.append(TaskIssue(self.not_given, "not_given"))
        if flag and (names := ", ".join(self.files_with(flag)[:_NAMED])):
            issues.append(TaskIssue(f"the flag is in {names} as plain text", "plain_flag"))
        return tuple(issues)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.packed or b"").hexdigest()


def survey(
    tasks: Sequence[Task],
    assets: Path | None,
    source: Path | None = None,
    *,
    has_shared_files: bool = False,
) -> dict[str, Challenge]:
    """Return the challenge for each task, by task id.

    `source` is the task file, whose JSON text shows escapes that the parsed values lack.
    `has_shared_files`: a tree or an image contains files that tasks share. Raises `UsageError` if
    the folder `assets` does not exist.
    """
    if assets is not None and present(assets) != "folder":
        raise UsageError(
            f"{assets}: no such folder; --assets names one with a folder or a tar for each task"
        )
    text = ""
    if source is not None and source.suffix.lower() in (".json", ".jsonl"):
        text = read_text(source, most=LARGEST)
    challenges = {}
    sound = []
    for task in tasks:
        try:
            gold_is(task)
            challenges[task.id] = Challenge(
                _find_assets(task, assets),
                named=_named_assets(task, source),
                network=needs_network(task),
                not_given=task.extra.get(NOT_GIVEN, ""),
            )
            sound.append(task)
        except IntercodeError as error:
            challenges[task.id] = Challenge(None, unreadable=str(error))
        except (TypeError, ValueError, AttributeError) as error:
            why = f"task {task.id}: its fields have another form ({describe_error(error)})"
            challenges[task.id] = Challenge(None, unreadable=why)
    odd = _odd_golds(sound, text)
    for task in sound:
        challenge = challenges[task.id]
        named = challenge.named
        file = task.extra.get(UNPLAYABLE)
        if not (challenge.assets or named or has_shared_files or task.extra.get("services")):
            file = file or needs_file(task)
        missing = [path.name for path in named if not present(path)]
        if missing:
            file = file or f"names {missing[0]!r}, which is not in its folder"
        if assets and present(note := assets / f"{task.id}.missing"):
            file = "its file cannot be had"
            with suppress(DataError):
                file = read_text(note, assets)
        challenges[task.id] = replace(challenge, file=file, gold=odd.get(task.id))
    return challenges


def gold_is(task: Task) -> str:
    """Return the form of a task's gold, one of `FORMS`. Raises `DataError` for an unknown value in
    the field."""
    form = task.extra.get("gold_is", FORMS[0])
    if form not in FORMS:
        raise DataError(
            f"task {task.id}: field 'gold_is' is {form!r}; "
            f"it is one of {', '.join(FORMS)}, or left out"
        )
    return str(form)


def _find_assets(task: Task, folder: Path | None) -> Path | None:
    if folder is None or "/" in task.id or task.id in (".", ".."):
        return None
    if len(task.id.encode()) > _LONGEST_NAME:
        return None
    for suffix in ("", *_SUFFIXES):
        path = folder / f"{task.id}{suffix}"
        if (kind := present(path)) and not _is_empty(path):
            require_inside(path, folder)
            if kind == "other":
                raise DataError(f"{path}: is a pipe or a device, not a file")
            return path
    return None


def _named_assets(task: Task, source: Path | None) -> tuple[Path, ...]:
    """Return the files that the record's field `assets` names, relative to the task file's folder.
    Raises `DataError` for one outside that folder."""
    folder = source or Path()
    if source is not None and present(source) != "folder":
        folder = source.parent
    paths = tuple(folder / name for name in task.extra.get("assets") or ())
    for path in paths:
        require_inside(path, folder)
    return paths


def _is_empty(path: Path) -> bool:
    """Return whether a folder contains no files but solutions and empty hidden files."""
    if present(path) != "folder":
        return False
    for file in path.rglob("*"):
        if _SOLUTION.match(str(file.relative_to(path))):
            continue
        if file.is_symlink() or (file.is_file() and (file.name[0] != "." or file.stat().st_size)):
            return False
    return True


def needs_network(task: Task) -> str | None:
    """Return why a task needs a network, or None."""
    text = f"{task.query}\n{task.extra.get('setup') or ''}"
    services = task.extra.get("services", {})
    address = _ADDRESS.search(text)
    if services or "assets" in task.extra:
        for link in _LINK.finditer(text):
            if link["host"] not in services and Path(link["path"]).suffix not in _PAGES:
                address = link
                break
        else:
            address = None
    if address is None:
        return None
    return f"needs the network ({address[0].rstrip('.,)')})"


def needs_file(task: Task) -> str | None:
    """Return why a task needs its own files, or None."""
    query = _ADDRESS.sub(" ", task.query)
    if named := _FILE_NAME.search(query) or _FILE_NOUN.search(query):
        return f"mentions {named[0]!r}, but has no assets"
    if _DATA.search(query) or _ADDRESS.search(task.query):
        return None
    return "gives no data to work on, and has no assets"


def _odd_golds(tasks: Sequence[Task], text: str) -> dict[str, str]:
    """Return why a flag looks wrong, by the task's id. Golds that are scripts are not examined."""
    flags = {task.id: task.gold for task in tasks if gold_is(task) == "flag"}
    bare = [name for name, flag in flags.items() if not _FLAG.fullmatch(flag)]
    odd = {}
    if len(bare) == 1 and len(flags) > 2:
        fault = "alone does not have the others' form …{…}"
        odd[bare[0]] = f"the gold {flags[bare[0]]} {fault}"
    else:
        for name in bare:
            if _HALF_FLAG.fullmatch(flags[name]):
                odd[name] = f"the gold {flags[name]} lacks a brace"
    # If the file contains `\/` and plain `/`, the backslash was intended, but JSON dropped it.
    if not _PLAIN_SLASH.search(text):
        return odd
    lost = {json.loads(f'"{raw}"') for raw in _GOLD.findall(text) if _ESCAPED_SLASH.search(raw)}
    for name, flag in flags.items():
        if flag in lost:
            odd[name] = (
                rf"the gold {flag} was written with \/, which JSON reads as / alone: a backslash is"
                r" lost; write \\/ to keep it"
            )
    return odd


def _below(folder: Path) -> dict[str, Path]:
    """Return the paths below a folder, without solutions, by their names there."""
    paths = {str(path.relative_to(folder)): real_file(path) for path in sorted(folder.rglob("*"))}
    return {name: path for name, path in paths.items() if not _SOLUTION.match(name)}


def _pack(paths: Mapping[str, Path]) -> bytes:
    """Return a tar of the paths by their names, with one owner, one time, and two modes."""

    def normalize(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = _TIME
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o111 else 0o644
        return entry

    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, path in paths.items():
            tar.add(path, name, recursive=False, filter=normalize)
    return file.getvalue()


def _without_solutions(content: bytes) -> bytes:
    """Return a tar without its solutions, and without hard links to them."""
    file = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(content)) as source,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for entry in source:
            names = (entry.name, entry.linkname) if entry.islnk() else (entry.name,)
            if not any(map(_SOLUTION.match, names)):
                tar.addfile(entry, source.extractfile(entry) if entry.isreg() else None)
    return file.getvalue()
