"""What a run was played with that lies outside of this package: the code and the files that were named for it.

    module:function, module:Class    the module's file, and those of the caller's own modules that it imports, and so on
    static:FILE, scripted:FILE       the file
    replay:RUN                       the file, or the episodes in the folder

A run keeps their digests, so that it is not resumed with others. Left out: what is imported later, or by a name in a text.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType

from intercode.plugins import is_user_file

_NAMING = ("static", "scripted", "replay")


def sources(**named: str | None) -> dict[str, str]:
    """The digest of each that is somebody's own: ``sources(agent="mine:agent", env="bash")`` has an `agent_source`.

    What was named is loaded already.
    """
    return {f"{part}_source": digest for part, name in named.items() if name and (digest := _digest(name))}


def _digest(name: str) -> str | None:
    """None if it is ours, or no file; a pipe, say, gives what it holds but once."""
    kind, colon, rest = name.partition(":")
    files = _modules(kind) if colon and kind not in _NAMING else {}
    if kind in _NAMING:
        files[kind] = Path(rest, "episodes.jsonl") if Path(rest).is_dir() else Path(rest)
    if not files or not all(file.is_file() for file in files.values()):
        return None
    state = hashlib.sha256()
    for told, file in sorted(files.items()):
        state.update(f"{told}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return state.hexdigest()[:32]


def _modules(first: str) -> dict[str, Path]:
    """The caller's own among the module, what it imports, what that imports, and the packages that they are in."""
    found: dict[str, Path] = {}
    left, seen = [first], set[str]()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        left += [name.rpartition(".")[0]] if "." in name else []
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if module and file and is_user_file(file):
            found[name] = Path(file)
            left += _imported(module, Path(file))
    return found


def _imported(module: ModuleType, file: Path) -> Iterator[str]:
    """The names in its import statements; of what comes `from` a place, it may be that or a module in it."""
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (OSError, ValueError, SyntaxError, RecursionError):  # not every module is a text, or still the one that was loaded
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):  # one that is not reached, or failed there as well
                place = resolve_name("." * node.level + (node.module or ""), module.__package__)
                yield from (place, *(f"{place}.{alias.name}" for alias in node.names))
