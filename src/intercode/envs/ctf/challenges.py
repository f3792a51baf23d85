"""Capture-the-flag tasks: what each needs besides a machine, told by rule from its words, its files and its gold.

    network    a URL, or a host with a port, in the query; a download in the field `setup`
    file       the query speaks of a file, a program or an image, and no assets are there; one that brings its own data
               (a number, a coded word) needs none
    gold       it has not the form of the others' flags, or lost a backslash to JSON

Assets of the task ID lie in a folder `ID/`, or in a tar `ID.tar` where modes, times or a repository matter. They become
one tar, the same on every checkout: times in a folder are not kept, nor are modes but for the executable bit.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import re
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from intercode.errors import DataError, UsageError
from intercode.tasks.issues import TaskIssue
from intercode.types import Task

FORMS = ("flag", "script")
"""What the field `gold_is` may say: the gold is the flag itself (the default), or a Bash script that prints it last."""
_SUFFIXES = (".tar", ".tar.gz", ".tar.xz")
_TIME = 1_700_000_000

_ADDRESS = re.compile(
    r"\b(?:https?|ftp)://\S+|\bgit@\S+|\bnc\s+[\w-]+(?:\.[\w-]+)+|\b[a-z][\w-]*(?:\.[\w-]+){2,}(?: | at port )\d{2,5}\b"
)
_NAME = re.compile(r"(?<![\w.-])[\w-]+\.(?:[A-Za-z]\w{0,3})\b(?!\.\w)|\b\w+\(0?x?\w*\)")
"""A file's name, or a call of a function that is not shown."""
_THING = re.compile(
    r"\b(?:files?|image|archive|script|program|source|dump|vault|captures?|report|page|disk|certificate)\b", re.I
)
_DATUM = re.compile(r"\b0x[0-9a-fA-F]+\b|\bnumber \d+\b|\b\w{3,}\{[^{}]+\}|\b(?=\w*\d)(?=\w*[A-Z])(?=\w*[a-z])[\w+/]{12,}\b")
_FLAG = re.compile(r"(\w+)\{.*\}", re.DOTALL)
_GOLD = re.compile(r'"gold"\s*:\s*"((?:[^"\\]|\\.)*)"')
_ESCAPED_SLASH = re.compile(r"(?<!\\)(?:\\\\)*\\/")
_PLAIN_SLASH = re.compile(r'[^\\"]/')


@dataclass(frozen=True)
class Challenge:
    """One task's assets, and each reason why it cannot be played or scored as it is."""

    assets: Path | None
    network: str | None = None
    file: str | None = None
    gold: str | None = None

    @property
    def faults(self) -> tuple[TaskIssue, ...]:
        found = ((self.network, "needs_network"), (self.file, "needs_files"), (self.gold, "odd_flag"))
        return tuple(TaskIssue(why, kind) for why, kind in found if why)

    @property
    def facts(self) -> dict[str, bool]:
        return {"needs_network": bool(self.network), "has_assets": bool(self.assets), "broken_gold": bool(self.gold)}

    @cached_property
    def packed(self) -> bytes | None:
        """All assets as one tar."""
        if self.assets is None:
            return None
        try:
            return _packed(self.assets) if self.assets.is_dir() else self.assets.read_bytes()
        except OSError as error:
            raise UsageError(f"{error.filename or self.assets}: cannot be read ({error.strerror})") from error

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        """Names and contents of the regular files."""
        if self.packed is None:
            return {}
        try:
            with tarfile.open(fileobj=io.BytesIO(self.packed)) as tar:
                regular = [entry for entry in tar if entry.isreg()]
                return {entry.name: held.read() for entry in regular if (held := tar.extractfile(entry))}
        except (tarfile.TarError, EOFError, OSError) as error:
            raise DataError(f"{self.assets}: cannot be unpacked ({error}); is it a tar?") from error

    def plain(self, flag: str) -> str | None:
        """The first file in which the flag can simply be read."""
        return next((name for name, content in self.files.items() if flag.encode() in content), None)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.packed or b"").hexdigest()


def survey(
    tasks: Sequence[Task], assets: Path | None, source: Path | None = None, *, furnished: bool = False
) -> dict[str, Challenge]:
    """What each task needs, by its id. `source` is the file that they come from: its JSON shows more than its values do.

    `furnished`: files that tasks share are placed by other means, a tree or an image.

    Raises `UsageError` for a folder of assets that is not there, `DataError` for a form of gold that there is not.
    """
    if assets is not None and not assets.is_dir():
        raise UsageError(f"{assets}: no such folder; --assets names one with a folder or a tar for each task")
    plain = source is not None and source.suffix.lower() in (".json", ".jsonl")
    odd = _odd_golds(tasks, source.read_text("utf-8-sig") if source and plain else "")
    found = {task.id: _assets(task, assets) for task in tasks}
    return {
        task.id: Challenge(
            found[task.id],
            needs_network(task),
            None if found[task.id] or furnished else needs_file(task),
            odd.get(task.id),
        )
        for task in tasks
    }


def gold_is(task: Task) -> str:
    """What the gold of a task is, one of `FORMS`."""
    form = task.extra.get("gold_is", FORMS[0])
    if form not in FORMS:
        raise DataError(f"task {task.id}: field 'gold_is' is {form!r}; it is one of {', '.join(FORMS)}, or left out")
    return str(form)


def _assets(task: Task, folder: Path | None) -> Path | None:
    if folder is None or "/" in task.id or task.id in (".", ".."):
        return None
    places = [folder / task.id, *(folder / f"{task.id}{suffix}" for suffix in _SUFFIXES)]
    try:
        return next((place for place in places if place.exists()), None)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # nothing can be called so
            return None
        raise UsageError(f"{folder}: cannot be read ({error.strerror})") from error


def needs_network(task: Task) -> str | None:
    """What says that a task cannot be solved without a network."""
    found = _ADDRESS.search(f"{task.query}\n{task.extra.get('setup') or ''}")
    return f"needs the network ({found[0].rstrip('.,)')})" if found else None


def needs_file(task: Task) -> str | None:
    """What says that a task cannot be solved without files of its own."""
    words = _ADDRESS.sub(" ", task.query)
    named = _NAME.search(words) or _THING.search(words)
    if named:
        return f"speaks of {named[0]!r}, and has no assets"
    given = _DATUM.search(words) or _ADDRESS.search(task.query)
    return None if given else "gives nothing to work on, and has no assets"


def _odd_golds(tasks: Sequence[Task], text: str) -> dict[str, str]:
    """Flags that look wrong beside the others; scripts have none to look at."""
    flags = {task.id: task.gold for task in tasks if gold_is(task) == "flag"}
    forms = {name: found[1] if (found := _FLAG.fullmatch(flag)) else "" for name, flag in flags.items()}
    usual, count = Counter(forms.values()).most_common(1)[0] if forms else ("", 0)
    odd = {}
    if usual and 2 * count > len(forms):
        odd = {
            name: f"the gold {flags[name]} is not of the others' form {usual}{{…}}" for name in forms if forms[name] != usual
        }
    # A `\/` in a file that writes `/` plainly elsewhere: the backslash was meant, and JSON dropped it.
    golds = {raw for raw in _GOLD.findall(text) if _ESCAPED_SLASH.search(raw)}
    lost = {json.loads(f'"{raw}"') for raw in golds} if golds and _PLAIN_SLASH.search(text) else set()
    eaten = r"was written with \/, which JSON reads as / alone: a backslash is lost; write \\/ to keep it"
    return odd | {name: f"the gold {flag} {eaten}" for name, flag in flags.items() if flag in lost}


def _packed(folder: Path) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, str(path.relative_to(folder)), recursive=False, filter=_plainly)
    return held.getvalue()


def _plainly(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = _TIME
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o111 else 0o644
    return entry
