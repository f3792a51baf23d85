"""Findings that outlive the check: kept in the cache under what they depend on, so that an evaluation need not check again.

    ROOT/findings/KEY.json      KEY: tasks, the setting's facts (digests of data and template, userland, reward), this program

Any change of the program's text makes another key: a finding may come from the rules, an environment, a reward. So does one of
the modules of an environment of the user's own. Left out: what else that reads, and its facts do not show; check again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intercode.env import EnvFactory
from intercode.runner.provenance import source_digests
from intercode.sandbox import cache
from intercode.store import write_whole
from intercode.validate.check import Tick, check

Findings = dict[str, Any]
_ROW = ("task", "kind", "why")
PACKAGE = Path(__file__).parents[1]


def findings(env: str, factory: EnvFactory, *, workers: int, tick: Tick = lambda: None) -> Findings:
    """Those of an earlier check of the same; else the check is run, and they are kept if they can be."""
    known = kept(_file(env, factory))
    if known is not None:
        return known
    found = check(factory, factory.tasks, left_out=factory.left_out, workers=workers, tick=tick)
    with contextlib.suppress(OSError):
        remember(env, factory, found)
    return found


def remember(env: str, factory: EnvFactory, found: Findings) -> None:
    """Raises `OSError` if the cache does not take them; everyone who shares it may read them."""
    file = _file(env, factory)
    file.parent.mkdir(exist_ok=True)
    write_whole(file, json.dumps(found), mine=f".{os.getpid()}")


def kept(file: Path) -> Findings | None:
    """None also for a file that is damaged or may not be read."""
    try:
        found = json.loads(file.read_bytes())
        return found if all(isinstance(row[field], str) for row in found["broken"] for field in _ROW) else None
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return None


def broken(found: Findings) -> Mapping[str, str]:
    """Of each broken task the first reason: its kind, and why."""
    reasons: dict[str, str] = {}
    for row in found["broken"]:
        reasons.setdefault(row["task"], f"{row['kind']}: {row['why']}")
    return reasons


def _file(env: str, factory: EnvFactory) -> Path:
    what = [_program(), env, source_digests(env=env), [task.id for task in factory.tasks], factory.facts()]
    key = hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()
    return cache.root() / "findings" / f"{key[:32]}.json"


@functools.cache
def _program() -> str:
    """A digest of all its modules."""
    state = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        state.update(f"{path.relative_to(PACKAGE)}\0".encode() + path.read_bytes())
    return state.hexdigest()
