"""Name what the core uses of the wings, and give modules that moved by their old import paths.

The core imports no wing (`train`, `view`, `generate`, `redteam`, `interop`). Here are the commands
of wings, their export formats and the parts that the core uses, each imported when used.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

COMMANDS = {
    "Run agents": {
        "eval": (
            "intercode.cli.eval:eval_command",
            "Let an agent act on the tasks of ENV, and score it.",
        ),
        "play": ("intercode.cli.play:play", "Solve the tasks of ENV yourself, in this terminal."),
        "score": ("intercode.cli.eval:score", "Score actions that were predicted beforehand."),
        "serve": (
            "intercode.train.command:serve",
            "Play rollouts of ENV for a trainer that asks over HTTP.",
        ),
    },
    "Examine tasks and environments": {
        "check": ("intercode.cli.check:check", "Find broken and suspicious tasks of ENV."),
        "attack": (
            "intercode.redteam.command:attack",
            "Try reward hacks and sandbox escapes on ENV.",
        ),
    },
    "Use finished runs": {
        "show": (
            "intercode.cli.show:show",
            "Print what the agent did, and explain its score.",
        ),
        "view": (
            "intercode.view.command:view",
            "Look at runs and their episodes in the browser, also while they are played.",
        ),
        "report": (
            "intercode.cli.report:report",
            "Show results: one run in detail, or several side by side.",
        ),
        "merge": (
            "intercode.cli.report:merge",
            "Merge the shards that `eval --shard` played into one run.",
        ),
        "replay": (
            "intercode.cli.report:replay",
            "Execute the actions of a run again, and compare.",
        ),
        "rescore": (
            "intercode.cli.report:rescore",
            "Score a run with another reward, or let a model judge it.",
        ),
        "export": (
            "intercode.interop.command:export",
            "Write a run as training data, as a table, or for another viewer; or tasks for Harbor.",
        ),
    },
    "Prepare this machine": {
        "data": ("intercode.cli.image:data", "List, download and generate data sets."),
        "image": (
            "intercode.cli.image:image",
            "Build images: the programs available in a sandbox.",
        ),
        "doctor": (
            "intercode.cli.image:doctor",
            "Check this machine, and print the command that repairs each problem.",
        ),
    },
}
"""The commands as the help lists them: where each is, and the line that explains it."""

FORMATS = {
    "sft": ("intercode.interop.export.formats:SFT", "a prompt and a completion for each reply"),
    "chat": (
        "intercode.interop.export.formats:CHAT",
        "whole conversations with a weight for each reply",
    ),
    "rl": ("intercode.interop.export.formats:RL", "the tokens that a model read and sampled"),
    "jsonl": ("intercode.interop.export.formats:JSONL", "a table"),
    "csv": ("intercode.interop.export.formats:CSV", "a table"),
    "parquet": ("intercode.interop.export.formats:PARQUET", "a table"),
    "atif": (
        "intercode.interop.export.formats:ATIF",
        "a folder of trajectories, as Harbor reads them",
    ),
    "inspect": ("intercode.interop.export.formats:INSPECT", "a log for Inspect View"),
    "intercode": ("intercode.interop.export.formats:INTERCODE", "a log as InterCode v1 wrote it"),
}
"""The formats of `export` in the order of its help: where each `runs.formats.Format` is, and the
words that explain it."""

PARTS = {
    "cluster": "intercode.train.cluster.driver:HostExecutor",
    "cluster_nodes": "intercode.train.cluster.nodes:examine_nodes",
    "data_generate": "intercode.generate.command:data_generate",
    "engine_attacks": "intercode.redteam.sql:ON_ENGINE",
    "export_tasks": "intercode.interop.command:export_tasks",
    "families": "intercode.generate:FAMILIES",
    "forgeries": "intercode.redteam.hacks:FORGERIES",
    "hacks": "intercode.redteam.hacks:HACKS",
    "page": "intercode.view.page:page",
    "read_recorded": "intercode.interop.recordings:read_recorded",
    "recorded_files": "intercode.interop.recordings:recorded_files",
    "v1_container": "intercode.interop.v1.session:container",
    "v1_session": "intercode.interop.v1.session:execute_stateless",
}
"""The parts of wings that the core uses, besides commands and formats. Environments, rewards and
attacks are named where they are registered: `envs.ENVIRONMENTS`, an environment's `rewards`, a
language's `attacks`."""

V1_NAMES = (
    "IntercodeEnv", "BashEnv", "SqlEnv", "PythonEnv", "CTFEnv", "SWEEnv",
    "AGENT_OBS", "EVAL_OBS", "CORRUPT_GOLD", "ACTION_EXEC", "REWARD",
)  # fmt: skip
"""The classes and constants of InterCode v1, which `intercode.envs` has under these names."""

MOVED = {
    "intercode.adapters.harbor": "intercode_sandbox.adapters.harbor",
    "intercode.adapters.inspect_sandbox": "intercode_sandbox.adapters.inspect_sandbox",
    "intercode.adapters.mini_swe_agent": "intercode_sandbox.adapters.mini_swe_agent",
    "intercode.adapters.nemo_gym": "intercode_sandbox.adapters.nemo_gym",
    "intercode.adapters": "intercode.train.adapters",
    "intercode.cluster": "intercode.train.cluster",
    "intercode.envs.sql.attacks": "intercode.redteam.sql",
    "intercode.rollouts.segments": "intercode.runs.segments",
    "intercode.rollouts": "intercode.train",
    "intercode.sandbox.": "intercode_sandbox.",
    "intercode.store": "intercode.runs.store",
    "intercode.view.charts": "intercode.report.charts",
} | dict.fromkeys(
    [
        "intercode.assets",
        "intercode.utils.utils",
        "intercode.utils.data_loader",
        "intercode.utils",
        "intercode.envs.ic_env",
        "intercode.envs.bash.bash_env",
        "intercode.envs.sql.sql_env",
        "intercode.envs.python.python_env",
        "intercode.envs.ctf.ctf_env",
        "intercode.envs.game.ctf_env",
        "intercode.envs.game",
    ],
    "intercode.interop.v1.interface",  # modules of InterCode v1
)
"""Import paths that modules had before they moved, or their beginnings, and what takes their place;
the first that fits counts."""


def part(name: str) -> Any:
    """Import and return what `PARTS` names."""
    return load(PARTS[name])


def load(path: str) -> Any:
    """Import and return what `module:attribute` names."""
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _new_path(name: str) -> str:
    """Return the path that a module has now; "" if it has not moved."""
    for old, new in MOVED.items():
        if name == old or name.startswith(f"{old.removesuffix('.')}."):
            return new + name.removeprefix(old)
    return ""


class _Doors:  # `importlib.abc` has the base classes, and takes as long to import as click
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        new = _new_path(name)
        moved = importlib.util.find_spec(new) if new else None
        return ModuleSpec(name, self, origin=moved.origin) if moved else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_new_path(spec.name))
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
