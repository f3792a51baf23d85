"""The sandbox library: isolated machines that know nothing about tasks or rewards (`base.py`
defines the contract). It imports only the standard library.

    import intercode_sandbox
    with intercode_sandbox.open_sandbox() as box:
        box.exec("ls /").output
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intercode_sandbox.base import Limits, Sandbox
    from intercode_sandbox.opening import open_sandbox

_HOME = {"Limits": "base", "Sandbox": "base", "open_sandbox": "opening"}
__all__ = ["Limits", "Sandbox", "open_sandbox"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that importing `errors` costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'intercode_sandbox' has no attribute {name!r}")
    return getattr(importlib.import_module(f"intercode_sandbox.{_HOME[name]}"), name)
