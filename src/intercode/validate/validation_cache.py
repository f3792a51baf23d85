"""Keep the results of `check` in the cache, so that `eval --exclude-broken` need not check again.

    ROOT/findings/KEY.json      KEY: tasks, the factory's facts (digests of data and template,
                                userland, reward), this program

The key covers the source of this program and of the user's own environment, since an issue may come
from a rule, an environment or a reward. Not covered: other files that the user's environment reads
without naming them in its facts; after changing those, run `check` again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import intercode_sandbox
from intercode.factory import EnvFactory
from intercode.runner.provenance import source_digests
from intercode.runs.store import write_whole
from intercode.validate.check import check
from intercode_sandbox import cache

CheckResult = dict[str, Any]
"""The return value of `check`."""
PACKAGES = (Path(__file__).parents[1], Path(intercode_sandbox.__file__).parent)


def cached_check(env: str, factory: EnvFactory, *, workers: int) -> CheckResult:
    """Return the result of an earlier check of the same factory; else check, and keep the result if
    the cache can be written."""
    cached = read(_file(env, factory))
    if cached is not None:
        return cached
    result = check(factory, factory.tasks, left_out=factory.left_out, workers=workers)
    with contextlib.suppress(OSError):
        write(env, factory, result)
    return result


def write(env: str, factory: EnvFactory, result: CheckResult) -> None:
    """Keep the result of a check for all who share the cache. Raises `OSError` if the cache cannot
    be written."""
    file = _file(env, factory)
    file.parent.mkdir(exist_ok=True)
    write_whole(file, json.dumps(result))


def read(file: Path) -> CheckResult | None:
    """Return a kept result; None if there is none, or the file is damaged or may not be read."""
    try:
        result: CheckResult = json.loads(file.read_bytes())
        for row in result["broken"]:
            if not all(isinstance(row[key], str) for key in ("task", "kind", "why")):
                return None
        return result
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return None


def broken(result: CheckResult) -> Mapping[str, str]:
    """Return, by task id, the first reason why a task is broken."""
    reasons: dict[str, str] = {}
    for row in result["broken"]:
        reasons.setdefault(row["task"], f"{row['kind']}: {row['why']}")
    return reasons


def _file(env: str, factory: EnvFactory) -> Path:
    facts = [
        _program(),
        env,
        source_digests(env=env),
        [task.id for task in factory.tasks],
        factory.facts(),
    ]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
    return cache.root() / "findings" / f"{key[:32]}.json"


@functools.cache
def _program() -> str:
    """Return a digest of all modules of the package."""
    state = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            state.update(f"{path.relative_to(package.parent)}\0".encode() + path.read_bytes())
    return state.hexdigest()
