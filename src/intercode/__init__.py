"""Interactive coding as a reinforcement-learning environment: actions are code, observations are
what the code printed.

    import intercode
    env = intercode.make("bash")                 # or gymnasium.make("intercode:intercode/Bash-v0")
    query, info = env.reset(seed=0)

Names are imported when they are first used (PEP 562), so importing the package costs next to
nothing. The environment ids are registered when Gymnasium is imported, before or after this
package.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from intercode.doors import open_doors

if TYPE_CHECKING:
    from intercode.env import InterCodeEnv
    from intercode.envs.bash.env import BashEnv
    from intercode.envs.ctf.env import CtfEnv
    from intercode.envs.python.env import PythonEnv
    from intercode.envs.sql.env import SqlEnv
    from intercode.language import Language
    from intercode.runs import Run, read_run
    from intercode.typed import evaluate, make, prepare
    from intercode.types import (
        Change,
        Completed,
        Episode,
        ExecResult,
        Outcome,
        Reply,
        Score,
        Table,
        Task,
        Turn,
        Usage,
    )
    from intercode_sandbox.base import Limits, Sandbox
    from intercode_sandbox.opening import open_sandbox as sandbox

__version__ = "0.1.0"
_HOME = {
    "InterCodeEnv": "env",
    "BashEnv": "envs.bash.env",
    "CtfEnv": "envs.ctf.env",
    "PythonEnv": "envs.python.env",
    "SqlEnv": "envs.sql.env",
    "make": "envs",
    "prepare": "envs",
    "rollout": "train",
    **dict.fromkeys(("Run", "evaluate", "read_run"), "runs"),
    "Language": "language",
    "Limits": "sandbox.base",
    "Sandbox": "sandbox.base",
    **dict.fromkeys(
        (
            "Change",
            "Completed",
            "Episode",
            "ExecResult",
            "Outcome",
            "Reply",
            "Score",
            "Table",
            "Task",
            "Turn",
            "Usage",
        ),
        "types",
    ),
}
__all__ = [
    "BashEnv",
    "Change",
    "Completed",
    "CtfEnv",
    "Episode",
    "ExecResult",
    "InterCodeEnv",
    "Language",
    "Limits",
    "Outcome",
    "PythonEnv",
    "Reply",
    "Run",
    "Sandbox",
    "Score",
    "SqlEnv",
    "Table",
    "Task",
    "Turn",
    "Usage",
    "evaluate",
    "make",
    "prepare",
    "read_run",
    "rollout",
    "sandbox",
]


def __getattr__(name: str) -> Any:
    if name == "sandbox":  # the package, which can be called
        return importlib.import_module("intercode.sandbox")
    if name not in _HOME:
        raise AttributeError(f"module 'intercode' has no attribute {name!r}")
    return getattr(importlib.import_module(f"intercode.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def _register() -> None:
    import gymnasium

    from intercode.envs import ENVIRONMENTS

    for name in ENVIRONMENTS:
        gymnasium.register(
            id=f"intercode/{name.title()}-v0",
            entry_point="intercode.envs:make",
            kwargs={"env": name},
        )


class _GymnasiumFinder:
    """Finds nothing itself; registers the environment ids once Gymnasium has been imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                _register()

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


open_doors()
if "gymnasium" in sys.modules:
    _register()
else:
    sys.meta_path.insert(0, _GymnasiumFinder())
