"""What a run was played with that lies outside of this package: the code and the files that were named for it.

    module:function, module:Class    the module's file, and those of the caller's own modules that it names, and so on
    static:FILE, scripted:FILE       the file
    replay:RUN                       the file, or the episodes in the folder

A run keeps their digests, so that it is not resumed with others.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from intercode.blame import is_own_file

_NAMING = ("static", "scripted", "replay")


def sources(**named: str | None) -> dict[str, str]:
    """The digest of each that is somebody's own: ``sources(agent="mine:agent", env="bash")`` has an `agent_source`.

    What was named is loaded already.
    """
    return {f"{part}_source": digest for part, name in named.items() if name and (digest := _digest(name))}


def _digest(name: str) -> str | None:
    """None if it is ours, or has no file."""
    kind, colon, rest = name.partition(":")
    files = [_recorded(Path(rest))] if kind in _NAMING else sorted(set(_files(kind))) if colon else []
    state = hashlib.sha256()
    for file in files:
        if not file.is_file():  # a pipe, say, which gives what it holds once
            return None
        state.update(f"{file.name}\0".encode(errors="surrogateescape") + file.read_bytes())
    return state.hexdigest()[:32] if files else None


def _recorded(path: Path) -> Path:
    return path / "episodes.jsonl" if path.is_dir() else path


def _files(module: str) -> Iterator[Path]:
    """The files of the module and of all of the caller's that are reached through what stands in it."""
    left, seen = [module], set[str]()
    while left:
        name = left.pop()
        found = sys.modules.get(name)
        file = getattr(found, "__file__", None)
        if name in seen or not file or not is_own_file(file):
            continue
        seen.add(name)
        yield Path(file)
        left += _names(found)


def _names(module: ModuleType | None) -> list[str]:
    """Those of the modules from which its values come, as far as they tell."""
    values = list(vars(module).values())
    names = [value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) for value in values]
    return [name for name in names if isinstance(name, str)]
