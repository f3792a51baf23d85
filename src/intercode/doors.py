"""Import paths that modules had before they moved: each goes on giving the same module."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {"intercode.sandbox.": "intercode_sandbox."}
"""The beginning of a path, and what takes its place."""


class _Doors(MetaPathFinder, Loader):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self) if any(map(name.startswith, MOVED)) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        old = next(filter(spec.name.startswith, MOVED))
        module = importlib.import_module(MOVED[old] + spec.name.removeprefix(old))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, which the import has replaced."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def open_doors() -> None:
    """Let the old paths be imported; before other finders, which would load a module again from
    the folder of its package."""
    if not any(isinstance(finder, _Doors) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Doors())
