"""Digests of the caller's own code and files that a run is played with.

    module:function, module:Class    the module's file, and those of the caller's own modules that
                                     it imports, and so on
    static:FILE, scripted:FILE       the file
    replay:RUN                       the file, or the episodes in the folder

A run records the digests and is not resumed with other code. Left out: modules that are imported
later, or by `import_module`.
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


def source_digests(**named: str | None) -> dict[str, str]:
    """Return the digests of the names that stand for the caller's code or files, each under
    `PART_source`.

    ``source_digests(agent="mine:agent", env="bash")`` has an only an `agent_source`. The named
    modules must be imported already.
    """
    digests = {}
    for part, name in named.items():
        if name and (digest := _digest(name)):
            digests[f"{part}_source"] = digest
    return digests


def _digest(name: str) -> str | None:
    """Return a digest; None for a name from intercode itself, or if a file is not a regular file (a
    pipe can be read only once)."""
    kind, colon, rest = name.partition(":")
    files = dict[str, Path]()
    if kind in _NAMING:
        path = Path(rest)
        files[kind] = path / "episodes.jsonl" if path.is_dir() else path
    elif colon:
        files = caller_modules(kind)
    if not files or not all(file.is_file() for file in files.values()):
        return None
    state = hashlib.sha256()
    for label, file in sorted(files.items()):
        state.update(f"{label}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return state.hexdigest()[:32]


def caller_modules(first: str) -> dict[str, Path]:
    """Return the caller's files among the module, its imports, their imports and so on, and the
    packages that contain them."""
    files, waiting, seen = dict[str, Path](), [first], set[str]()
    while waiting:
        name = waiting.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        waiting.append(name.rpartition(".")[0])
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if module and file and is_user_file(file):
            files[name] = Path(file)
            waiting += _imported(module, Path(file))
    return files


def _imported(module: ModuleType, file: Path) -> Iterator[str]:
    """Yield the names in import statements; for `from a import b` both `a` and `a.b`, which may be
    a module."""
    try:
        tree = ast.parse(file.read_bytes())
    # a compiled module, or a file that changed after its import
    except (OSError, ValueError, SyntaxError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # a statement that was not executed, or that failed there too
            with suppress(ImportError):
                place = resolve_name("." * node.level + (node.module or ""), module.__package__)
                yield from (place, *(f"{place}.{alias.name}" for alias in node.names))
