"""The door for verifiers, which imports plug-ins by the name of a top-level module: the names of
`intercode.train.adapters.verifiers`."""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(importlib.import_module("intercode.train.adapters.verifiers"), name)
