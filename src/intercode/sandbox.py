"""The door to the library `intercode_sandbox`: `intercode.sandbox(…)` opens a sandbox, and the
library's modules can be imported from here too (`intercode.sandbox.base`)."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

__path__: list[str] = []  # so that the modules below can be imported


class _Module(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from intercode_sandbox.opening import open_sandbox

        return open_sandbox(*arguments, **options)


sys.modules[__name__].__class__ = _Module
