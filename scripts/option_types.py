"""Write the types of `intercode.make`, `prepare` and `evaluate` from the declared options:
`option_types.py [--check]`.

`--check` writes nothing and ends with status 1 if the file is not what would be written.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from written import write_or_check

from intercode.envs import ENVIRONMENTS, environment_class
from intercode.options import Options, RunOptions

STUB = Path(__file__).parents[1] / "src" / "intercode" / "typed.pyi"
HEAD = '''"""What `make`, `prepare` and `evaluate` take, for type checkers: written by
`scripts/option_types.py` from the declared options.

The name of an environment that is not in this package takes the options that all environments
have. Give it others as `**options`, a `dict[str, Any]`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload
'''


IMPORTS = {
    "intercode.env": "InterCodeEnv",
    "intercode.factory": "EnvFactory",
    "intercode.options": "Session",
    "intercode.runs": "Run",
    "intercode.types": "View",
    "intercode_sandbox.limits": "Limits",
}


def imports() -> Iterator[str]:
    classes = [environment_class(env) for env in ENVIRONMENTS]
    names = IMPORTS | {env_class.__module__: env_class.__name__ for env_class in classes}
    for module in sorted(names):
        yield f"from {module} import {names[module]}"


def classes() -> Iterator[type[Options]]:
    """Yield the declarations, each after those that it extends."""
    written: set[type] = {Options, object}
    for last in (*(environment_class(env).Options for env in ENVIRONMENTS), RunOptions):
        for owner in reversed(last.__mro__):
            if owner not in written:
                written.add(owner)
                yield owner


def table(owner: type[Options]) -> str:
    bases = [base.__name__ for base in owner.__bases__ if base is not Options]
    lines = [f"class {owner.__name__}({', '.join(bases) or 'TypedDict'}, total=False):"]
    for entry in fields(owner):
        if entry.name in owner.__annotations__:
            lines.append(f"    {entry.name}: {entry.type}")
    return "\n".join(lines if len(lines) > 1 else [*lines, "    ..."])


def signatures() -> Iterator[str]:
    options = {f'Literal["{env}"]': environment_class(env) for env in ENVIRONMENTS}
    kinds = {kind: one.Options.__name__ for kind, one in options.items()} | {"str": "EnvOptions"}
    for name in kinds.values():
        yield f"class _{name}Run({name}, RunOptions, total=False): ..."
    for kind, name in kinds.items():
        env_class = options[kind].__name__ if kind in options else "InterCodeEnv"
        yield (
            f"@overload\ndef make(env: {kind}, *, render_mode: str | None = None, "
            f"**options: Unpack[{name}]) -> {env_class}: ..."
        )
    for kind, name in kinds.items():
        yield f"@overload\ndef prepare(env: {kind}, **options: Unpack[{name}]) -> EnvFactory: ..."
    for kind, name in kinds.items():
        yield (
            f"@overload\ndef evaluate(env: {kind}, *, out: str | Path | None = None, "
            f"resume: bool = False, **options: Unpack[_{name}Run]) -> Run: ..."
        )


def stub() -> str:
    text = "\n".join([HEAD, *imports(), *map(table, classes()), *signatures(), ""])
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(STUB), "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(write_or_check(STUB, stub()))
