"""The sandbox library: isolated machines that know nothing about tasks or rewards (`base.py`
defines the contract).

The package itself can be called: `intercode.sandbox(…)` opens a sandbox, see `opening.py`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from intercode.sandbox.opening import open_sandbox

        return open_sandbox(*arguments, **options)


sys.modules[__name__].__class__ = _Package
