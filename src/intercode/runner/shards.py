"""Play parts of a run on several machines, without a connection between the machines, and merge the
parts.

    eval … --shard 1/3 ──► RUN1 ─┐
    eval … --shard 2/3 ──► RUN2 ─┼─► merge ──► RUN, as one machine would have played it
    eval … --shard 3/3 ──► RUN3 ─┘

A hash of task and epoch chooses the shard, so that a task's shard does not depend on the other
tasks. Shards have about equally many episodes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from intercode.errors import UsageError
from intercode.runs.store import (
    FREE,
    Config,
    Episodes,
    Key,
    RunStore,
    differing_settings,
    storage_faults,
    stream_run,
)
from intercode.runs.trust import may_be_signed
from intercode.types import Episode

OF_A_SHARD = frozenset({"shard", "shard_tasks"})
"""Settings of a shard's run: its name, and the ids of the whole run's tasks."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Part number `number` of `count`, counted from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard that a text such as "2/7" names. Raises `UsageError` for other texts."""
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if not (match and 1 <= int(match[1]) <= int(match[2])):
            raise UsageError(
                f"{text!r} is not a shard; write NUMBER/COUNT, such as 2/7 for the second of seven"
            )
        return cls(int(match[1]), int(match[2]))

    @property
    def name(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, task: str, epoch: int) -> bool:
        """Return whether this shard plays a task in an epoch, counted from 0."""
        digest = hashlib.sha256(f"{task}\0{epoch}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.number - 1


def merge_runs(
    folders: Sequence[str | Path], out: str | Path, *, trust: bool = False
) -> tuple[dict[str, Any], list[Key]]:
    """Write the run of which `folders` are shards to the new folder `out`; return its settings, and
    what is missing.

    Missing are the tasks and epochs without a reward; `intercode eval --resume` plays them. The run
    is written next to `out` and renamed when it is complete. It is signed if all shards are, or
    with `trust`. Raises `UsageError` if settings, data or userland differ, or if an episode was
    played twice, and as `stream_run` and `RunStore.create` do.
    """
    runs = [stream_run(folder) for folder in folders]
    first = runs[0][0]
    # where each record is: the folder of the run, its episodes, the place among them
    merged = dict[Key, tuple[str, Episodes, int]]()
    scored = set[Key]()
    for config, episodes in runs:
        if differing := differing_settings(first, config, FREE | {"shard"}):
            settings = ", ".join(differing.values())
            raise UsageError(
                f"{first['run']} and {config['run']} are not shards of one run ({settings})"
            )
        for place, episode in enumerate(episodes):
            key = episode.task, episode.epoch
            if episode.reward is not None:
                if key in scored:
                    raise UsageError(
                        f"task {key[0]}, epoch {key[1]} was played in "
                        f"{merged[key][0]} and in {config['run']}; merge one of them"
                    )
                scored.add(key)
            elif key in merged:
                continue
            merged[key] = config["run"], episodes, place
    tasks = first.get("shard_tasks") or dict.fromkeys(task for task, _ in merged)
    order = [(task, epoch) for epoch, task in product(range(first["epochs"]), tasks)]
    if strange := merged.keys() - set(order):
        raise UsageError(f"task {min(strange)[0]} is not a task of the run {first['run']}")
    config = {
        **first,
        "options": dict(first.get("options", {})),
        "planned": len(order),
        "run": str(out),
        "created": min(settings["created"] for settings, _ in runs),
    }
    config["options"].pop("shard", None)
    for name in OF_A_SHARD:
        config.pop(name, None)
    sign = trust or all(may_be_signed(settings) for settings, _ in runs)
    records = (merged[key][1:] for key in order if key in merged)
    _write_run(
        Path(os.path.realpath(out)), config, (episodes[n] for episodes, n in records), sign=sign
    )
    return config, [key for key in order if key not in scored]


def _write_run(out: Path, config: Config, records: Iterable[Episode], *, sign: bool) -> None:
    """Write a run next to `out`, and rename it when it is complete."""
    with storage_faults(out):
        if out.exists() and any(out.iterdir()):
            raise UsageError(f"{out} is not empty; choose another folder with --out")
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}.", suffix=".new"))
    try:
        whole = draft / "run"  # one folder deeper, so that a search for runs does not find it
        with RunStore.create(whole, config, sign=sign) as store:
            for episode in records:
                store.append(episode)
        with storage_faults(out):
            whole.rename(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
