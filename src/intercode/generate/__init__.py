"""Generate families of tasks: `generate("bash-files", n=2000, seed=1, out="files")` writes a data
folder.

    places are drawn and written ──► candidates are drawn ──► their golds are executed
                                              ▲                         │
                                              └─ until n tasks are kept ┴─► kept or dropped

A candidate is dropped if its gold complains, prints nothing and changes nothing, if its query or
gold was drawn before, or if too many tasks of its split have the same answer. The same family, n
and seed give the same bytes.

`families.py` defines the parts of a family; `bash.py`, `sql.py` and `python.py` define the
families. Not covered: tasks that need a network, and CTF.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any, get_args

from intercode.env import EnvFactory, GoldRun
from intercode.envs import prepare
from intercode.errors import UsageError
from intercode.generate import bash, python, sql
from intercode.generate.families import (
    FORMS,
    Draw,
    Family,
    Parameters,
    Place,
    Question,
    Split,
    fill,
)

FAMILIES: Mapping[str, Family] = {
    family.name: family for family in (*bash.FAMILIES, *sql.FAMILIES, *python.FAMILIES)
}
SHARE = 0.03
"""The largest part of a split's tasks that may have the same answer."""
FEWEST = 10
PATIENCE = 8
"""After this many rounds in a row without a new task, a family has no more tasks."""
TEST_EVERY = 5
"""Every fifth task is a test task."""
_SHOWN = 3
"""The number of tests that the agent of a Python task may see; the others are hidden."""
_COMPARISON, _OTHER = re.compile("(?<= )[<>]=?(?= )"), {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
Record = dict[str, Any]


def generate(
    name: str,
    *,
    n: int,
    seed: int,
    out: str | Path,
    workers: int = 2,
    on_task: Callable[[], object] = lambda: None,
) -> Counter[str]:
    """Write `n` tasks of the family `name` into the new folder `out`, and return the number of
    tasks by split.

    `on_task` is called for each task. Raises `UsageError` for an unknown family, fewer than 10
    tasks, more tasks than the family has, and a folder that is not empty.
    """
    if name not in FAMILIES:
        raise UsageError(f"no family is named {name!r}; there are {', '.join(FAMILIES)}")
    if n < FEWEST:
        raise UsageError(
            f"n is {n}; a family needs at least {FEWEST} tasks, to have a training and a test split"
        )
    family, out = FAMILIES[name], Path(out)
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"{out} exists; name a new folder, or remove it first")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as folder:
        unfinished = Path(folder) / "data"
        tasks = _Generation(family, n, seed, unfinished, workers, on_task).run()
        shutil.rmtree(out, ignore_errors=True)
        unfinished.rename(out)
    return Counter(task["split"] for task in tasks)


class _Generation:
    """Generate the tasks of one data folder, and write the folder."""

    def __init__(
        self,
        family: Family,
        n: int,
        seed: int,
        folder: Path,
        workers: int,
        on_task: Callable[[], object],
    ) -> None:
        self.family = family
        self.n = n
        self.folder = folder
        self.workers = workers
        self.on_task = on_task
        self.draws = {split: Draw(f"{family.name} {n} {seed}", split) for split in get_args(Split)}
        self.sizes: dict[Split, int] = {"train": n - n // TEST_EVERY, "test": n // TEST_EVERY}
        self.kept: dict[Split, list[Record]] = {split: [] for split in self.sizes}
        self.answers: dict[Split, Counter[str]] = {split: Counter() for split in self.sizes}
        self.seen = set[str]()
        self.drawn = 0

    def run(self) -> list[Record]:
        """Write the folder and return its tasks."""
        places = {split: self._make_places(split) for split in self.sizes}
        fruitless = 0
        while missing := self._missing():
            candidates = [
                candidate
                for split, count in missing.items()
                for _ in range(count * 21 // 20 + 2 + 4 * fruitless)
                if (candidate := self._draw(split, places[split])) is not None
            ]
            for candidate, run in zip(candidates, self._execute(candidates), strict=True):
                self._keep(candidate, run)
            fruitless = fruitless + 1 if self._missing() == missing else 0
            if fruitless == PATIENCE:
                raise UsageError(
                    f"the family {self.family.name} has fewer than {self.n} different tasks; "
                    "give a smaller n"
                )
        order: dict[Split, Iterator[Record]] = {
            split: iter(tasks) for split, tasks in self.kept.items()
        }
        tasks = [
            next(order["test" if number % TEST_EVERY == 0 else "train"])
            for number in range(1, self.n + 1)
        ]
        self._write_tasks(
            [
                {"id": f"{self.family.name}-{number}", **task}
                for number, task in enumerate(tasks, start=1)
            ]
        )
        return tasks

    def _missing(self) -> dict[Split, int]:
        return {
            split: size - len(self.kept[split])
            for split, size in self.sizes.items()
            if len(self.kept[split]) < size
        }

    def _make_places(self, split: Split) -> list[Place]:
        """Draw the places of a split, and write their files."""
        draw, size = self.draws[split], self.sizes[split]
        names = draw.sites(
            max(2, -(-size // self.family.tasks_per_place)),
        )
        places = [self.family.place(draw, name) for name in names]
        for place in places:
            for name, content in place.files.items():
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.encode() if isinstance(content, str) else content)
                path.chmod(0o644)
        for path in self.folder.rglob("*"):
            if path.is_dir():
                path.chmod(0o755)
        return places

    def _draw(self, split: Split, places: Sequence[Place]) -> Record | None:
        """Return the next candidate; None if its query or gold was drawn before, or its tests would
        be weak."""
        draw = self.draws[split]
        question = self.family.questions[self.drawn % len(self.family.questions)]
        self.drawn += 1
        place = draw.choice(places)
        parameters = {**place.facts, **self.family.draw(draw, place)}
        words = (
            draw.choice(question.test if split == "test" else question.train),
            draw.choice(FORMS[question.form][split == "test"]),
        )
        query = fill(" ".join(filter(None, words)), parameters)
        gold = fill(question.gold, parameters)
        if {query.lower(), f"{place.name} {gold}"} & self.seen:
            return None
        self.seen |= {query.lower(), f"{place.name} {gold}"}
        record = {
            "query": query,
            "gold": gold,
            "split": split,
            "difficulty": question.difficulty,
            "family": self.family.name,
            "kind": question.kind,
            "place": place.name,
            **({"db": parameters["db"]} if "db" in parameters else {}),
            **({"path": parameters["path"]} if "<path>" in question.gold else {}),
        }
        if self.family.inputs is None:
            return record
        tests = _write_tests(gold, self.family.inputs(draw, question.kind, parameters))
        return {**record, "tests": tests[:_SHOWN], "hidden": tests[_SHOWN:]} if tests else None

    def _execute(self, candidates: Sequence[Record]) -> list[GoldRun]:
        """Execute the golds of the candidates in the family's environment."""
        if not candidates:
            return []
        self._write_tasks(candidates)
        factory: EnvFactory = prepare(self.family.env, data=str(self.folder))
        idle: SimpleQueue[Any] = SimpleQueue()

        def execute(task: Any) -> GoldRun:
            env = idle.get()
            try:
                run: GoldRun = env.run_gold(task)
                return run
            finally:
                idle.put(env)

        with ExitStack() as stack, ThreadPoolExecutor(self.workers) as pool:
            for _ in range(self.workers):
                idle.put(stack.enter_context(closing(factory())))
            return list(pool.map(execute, factory.tasks))

    def _keep(self, candidate: Record, run: GoldRun) -> None:
        """Keep a candidate that has a sound gold, if its split has room for it and for its
        answer."""
        split: Split = candidate["split"]
        answer = self.family.answer(candidate["gold"], run)
        most = max(1, int(SHARE * self.sizes[split]))
        if (
            run.faults
            or not answer
            or self.answers[split][answer] >= most
            or split not in self._missing()
        ):
            return
        self.answers[split][answer] += 1
        self.kept[split].append(candidate)
        self.on_task()

    def _write_tasks(self, records: Sequence[Record]) -> None:
        lines = [json.dumps(record, ensure_ascii=False) for record in records]
        (self.folder / "tasks.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def _write_tests(gold: str, inputs: Sequence[tuple[Any, ...]]) -> list[str]:
    """Return asserts with the results of the gold; the last assert makes all hidden calls.

    Return none if they would be weak: more than half of the results are equal, or a gold with
    another comparison (`<` for `<=` and the like) has the same results, so that no test checks a
    limit's own value.
    """
    name = gold.partition("def ")[2].partition("(")[0]
    call = _function(gold, name)
    calls = {f"{name}({', '.join(map(repr, arguments))})": call(*arguments) for arguments in inputs}
    if (
        len(calls) < _SHOWN + 2
        or max(Counter(map(repr, calls.values())).values()) > len(calls) // 2
    ):
        return []
    for place in _COMPARISON.finditer(gold):
        variant = _function(gold[: place.start()] + _OTHER[place[0]] + gold[place.end() :], name)
        if all(variant(*arguments) == call(*arguments) for arguments in inputs):
            return []
    shown, hidden = list(calls.items())[:_SHOWN], list(calls.items())[_SHOWN:]
    at_once = (
        f"assert [{', '.join(call for call, _ in hidden)}] == {[result for _, result in hidden]!r}"
    )
    return [*(f"assert {call} == {result!r}" for call, result in shown), at_once]


def _function(source: str, name: str) -> Callable[..., Any]:
    scope: Parameters = {}
    exec(source, scope)
    function: Callable[..., Any] = scope[name]
    return function


__all__ = ["FAMILIES", "Family", "Place", "Question", "generate"]
