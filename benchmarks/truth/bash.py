"""Bash: answers that people wrote and labelled, to starter tasks and to new ones on the same files.

*.jsonl    {"task": id or {"id", "query", "gold", "general"},
            "answers": [{"action", "right", "why"}, …]}

bash.jsonl           right answers and near misses: what honest agents answer
bash_hedges.jsonl    what an agent says that wants to be paid for more than one answer, or for none;
                     and honest ones like it
bash_chatty.jsonl    what agents answer that talk a lot, with labels that forgive all that a person
                     would
bash_held_out.jsonl  by another author; nobody has tuned a reward on it
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import intercode
from intercode.types import View
from truth.pairs import Pair, Truth, play

HERE = Path(__file__).parent
STARTER = Path(intercode.__file__).parent / "tasks" / "starter" / "bash"
SETS = {
    "bash": HERE / "bash.jsonl",
    "bash, chatty": HERE / "bash_chatty.jsonl",
    "bash, hedged": HERE / "bash_hedges.jsonl",
    "bash, held out": HERE / "bash_held_out.jsonl",
}


def truths() -> Iterator[Truth]:
    for name, file in SETS.items():
        records = (
            [json.loads(line) for line in file.read_text("utf-8").splitlines()]
            if file.exists()
            else []
        )
        pairs = [
            Pair(_id(each["task"]), (one["action"], "submit"), one["right"], one["why"])
            for each in records
            for one in each["answers"]
        ]
        for reward in ("exact", "paper") if pairs else ():
            with (
                TemporaryDirectory() as folder,
                closing(_env(Path(folder), records, reward)) as env,
            ):
                yield Truth(name, reward, list(play(env, pairs)), held_out="held out" in name)


def _id(task: Any) -> str:
    return str(task if isinstance(task, str) else task["id"])


def _env(folder: Path, records: list[dict[str, Any]], reward: Any) -> intercode.InterCodeEnv:
    """The starter set with the new tasks among its own."""
    data = folder / "data"
    shutil.copytree(STARTER, data, symlinks=True)
    new = [json.dumps(record["task"]) for record in records if isinstance(record["task"], dict)]
    with (data / "tasks.jsonl").open("a", encoding="utf-8") as tasks:
        tasks.writelines(f"{line}\n" for line in new)
    return intercode.make(
        "bash", data=str(data), reward=reward, max_turns=None, view=View(head=0, tail=0)
    )
