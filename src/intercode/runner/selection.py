"""Some of the tasks of a data set: named ones, those that a run did not solve, in an order that a seed draws."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from intercode.env import EnvFactory
from intercode.envs import prepare
from intercode.errors import UsageError
from intercode.store import read_run
from intercode.types import Task


def prepare_some(env: str, *, task: Sequence[str] = (), limit: int | None = None, **options: Any) -> EnvFactory:
    """As `prepare`, with the tasks `task` alone, if any are named; `limit` counts these."""
    factory = prepare(env, limit=None if task else limit, **options)
    kept = select(factory.tasks, task, limit=limit)
    known = {each.id for each in kept}
    left_out = [(each, why) for each, why in factory.left_out if not task or each.id in known]
    return replace(factory, tasks=kept, left_out=left_out)


def select(
    tasks: Sequence[Task],
    named: Sequence[str] = (),
    *,
    failed_in: str | None = None,
    shuffle: bool = False,
    seed: int = 0,
    limit: int | None = None,
) -> Sequence[Task]:
    """The tasks with the ids `named` (none: all), of these those that the run `failed_in` played and never solved.

    The first `limit` of them, in an order drawn by `seed` if `shuffle`. Raises `UsageError` if there is no such task.
    """
    if unknown := sorted(set(named) - {task.id for task in tasks}):
        raise UsageError(f"no task has the id {unknown[0]!r}")
    kept = [task for task in tasks if not named or task.id in named]
    if failed_in:
        episodes = read_run(failed_in)[1]
        failed = {episode.task for episode in episodes} - {episode.task for episode in episodes if episode.success}
        kept = [task for task in kept if task.id in failed]
    if not kept:
        raise UsageError(f"none of these tasks was played in {failed_in} and not solved there")
    return (random.Random(seed).sample(kept, len(kept)) if shuffle else kept)[:limit]
