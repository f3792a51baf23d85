"""Generate families of tasks: `generate("bash-files", n=2000, seed=1, out="files")` writes a data
folder.

    places are drawn and written ──► candidates are drawn ──► their golds and mistakes are executed
                                              ▲                              │
                                              └─ until each kind is full ◄───┴──► kept or dropped

A candidate is dropped if its gold complains, prints nothing and changes nothing, if its query or
gold was drawn before, if too many tasks of its split have the same answer, or if the reward
accepts a plausible mistake: a mutant of the gold, or a solution that the question names as wrong.
The same family, n, seed and `asks` give the same bytes.

With `asks`, each query leaves out one or two clauses, which become the facets of a user who can be
asked (`intercode.user`); a candidate is also dropped if another value of such a clause is right.

`families.py` defines the parts of a family; `bash.py`, `sql.py` and `python.py` define the
families; `mutants.py` makes the mistakes. Not covered: tasks that need a network, and CTF.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from itertools import cycle, islice, zip_longest
from math import ceil
from pathlib import Path, PurePosixPath
from queue import SimpleQueue
from typing import Any, get_args

from intercode.env import EnvFactory, GoldRun
from intercode.envs import prepare
from intercode.errors import UsageError
from intercode.generate import bash, python, repair, sql
from intercode.generate.families import (
    FORMS,
    Draw,
    Family,
    Omission,
    Parameters,
    Place,
    Question,
    Split,
    fill,
    with_placeholders,
)
from intercode.generate.mutants import MUTANTS, NORMAL
from intercode.types import Score

FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (*bash.FAMILIES, *repair.FAMILIES, *sql.FAMILIES, *python.FAMILIES)
}
SHARE = 0.03
"""The largest part of a split's tasks that may have the same answer."""
FEWEST = 10
TRIES = 60
"""If none of this many candidates is kept, the kind yields no tasks."""
DRAWS = 40
"""The number of times that parameters are drawn for one candidate."""
PATIENCE = 8
"""After this many rounds in a row without a new task, the kind is exhausted."""
TEST_EVERY = 5
"""Every fifth task is a test task."""
RULES_SHOWN = 1 / 3
"""The part of the tasks of difficulty 3 whose query shows the rule."""
_SHOWN = 3
"""The number of tests that the agent of a Python task may see; the others are hidden."""
Record = dict[str, Any]


@dataclass(frozen=True)
class Generated:
    """The number of tasks by split, and by kind those kept and the candidates drawn, with the
    reasons of those dropped."""

    splits: Mapping[str, int]
    kept: Mapping[str, int]
    dropped: Mapping[str, Mapping[str, int]]

    def yields(self) -> dict[str, float]:
        """Return the part of the candidates that was kept, by kind."""
        return {
            kind: count / (count + sum(self.dropped.get(kind, {}).values()))
            for kind, count in self.kept.items()
        }


@dataclass(frozen=True)
class _Candidate:
    """A task that may be kept. `values` are the places of the values of the omitted clauses in the
    question's `choices`."""

    record: Record
    question: Question
    place: Place
    parameters: Parameters
    mistakes: Sequence[str]
    values: Mapping[str, int]


def generate(
    name: str,
    *,
    n: int,
    seed: int,
    out: str | Path,
    asks: int = 0,
    workers: int | None = None,
    on_task: Callable[[], object] = lambda: None,
) -> Generated:
    """Write `n` tasks of the family `name` into the new folder `out`, and return what was kept and
    dropped.

    Solutions are executed in `workers` sandboxes at once (None: one for each processor), which
    changes no byte. `asks` is the number of clauses that each query leaves out for the user to be
    asked about. `on_task` is called for each task. Raises `UsageError` for an unknown family, one
    whose questions cannot leave out so many clauses, fewer than 10 tasks, more tasks than the
    family has, and a folder that is not empty.
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
        workers = workers or len(os.sched_getaffinity(0))
        generation = _Generation(family, n, seed, asks, unfinished, workers, on_task)
        tasks = generation.run()
        shutil.rmtree(out, ignore_errors=True)
        unfinished.rename(out)
    return Generated(
        Counter(task["split"] for task in tasks),
        Counter(task["kind"] for task in tasks),
        generation.dropped,
    )


class _Generation:
    """Generate the tasks of one data folder, and write the folder."""

    def __init__(
        self,
        family: Family,
        n: int,
        seed: int,
        asks: int,
        folder: Path,
        workers: int,
        on_task: Callable[[], object],
    ) -> None:
        self.family = family
        self.omissions = {
            question.kind: family.omissions(question) for question in family.questions
        }
        self.questions = [
            question for question in family.questions if len(self.omissions[question.kind]) >= asks
        ]
        if all(question.held_out for question in self.questions):
            able = [
                other.name
                for other in FAMILIES.values()
                if any(map(other.omissions, other.questions))
            ]
            raise UsageError(
                f"the questions of {family.name} cannot leave out {asks} clauses; "
                f"those of {', '.join(able)} can"
            )
        self.asks = asks
        self.n = n
        self.folder = folder
        self.workers = workers
        self.on_task = on_task
        self.draws = {split: Draw(f"{family.name} {n} {seed}", split) for split in get_args(Split)}
        self.sizes: dict[Split, int] = {"train": n - n // TEST_EVERY, "test": n // TEST_EVERY}
        self.names = {split: draw.sites() for split, draw in self.draws.items()}
        self.places: dict[Split, list[Place]] = {split: [] for split in self.sizes}
        self.rules_used = set[str]()
        """The places that have a task of difficulty 3."""
        self.tried = defaultdict[str, set[str]](set)
        """By kind of difficulty 3, the places in which a candidate was drawn."""
        self.wanted = {
            split: _share_out(self.questions, split, n) for split, n in self.sizes.items()
        }
        hard = {kind.kind for kind in self.questions if kind.difficulty == 3}
        for split, wanted in self.wanted.items():
            needed = sum(count for kind, count in wanted.items() if kind in hard)
            if needed > (most := len([*Draw("", split).sites()])):
                raise UsageError(
                    f"{n} tasks need {needed} places, and there are {most} names; give a smaller n"
                )
        self.kept: dict[Split, dict[str, list[_Candidate]]] = {
            split: {kind: [] for kind in wanted} for split, wanted in self.wanted.items()
        }
        self.answers: dict[Split, Counter[str]] = {split: Counter() for split in self.sizes}
        self.dropped = defaultdict[str, Counter[str]](Counter)
        self.seen = set[str]()

    def run(self) -> list[Record]:
        """Write the folder and return its tasks."""
        fruitless = Counter[tuple[Split, str]]()
        while missing := self._missing():
            taken = set[str]()
            candidates = [
                candidate
                for (split, kind), count in missing.items()
                for candidate in self._draw_kind(split, kind, count, taken)
            ]
            for candidate, result in zip(candidates, self._execute(candidates), strict=True):
                self._keep(candidate, *result)
            for key, count in missing.items():
                fruitless[key] = fruitless[key] + 1 if self._missing().get(key) == count else 0
                self._give_up(*key, fruitless[key])
        usual = self._usual_values()
        order = {split: _in_turn(list(kinds.values())) for split, kinds in self.kept.items()}
        tasks = [
            {
                "id": f"{self.family.name}-{number}",
                **_finished(next(order["test" if number % TEST_EVERY == 0 else "train"]), usual),
            }
            for number in range(1, self.n + 1)
        ]
        self._write_tasks(tasks)
        self._remove_unused({task["place"] for task in tasks})
        return tasks

    def _usual_values(self) -> dict[tuple[str, str], int]:
        """Return, by kind and omitted clause, the value that most training tasks have."""
        counts = defaultdict[tuple[str, str], Counter[int]](Counter)
        for kind, candidates in self.kept["train"].items():
            for candidate in candidates:
                for name, value in candidate.values.items():
                    counts[kind, name][value] += 1
        return {key: values.most_common(1)[0][0] for key, values in counts.items()}

    def _missing(self) -> dict[tuple[Split, str], int]:
        return {
            (split, kind): count - len(self.kept[split][kind])
            for split, wanted in self.wanted.items()
            for kind, count in wanted.items()
            if len(self.kept[split][kind]) < count
        }

    def _give_up(self, split: Split, kind: str, fruitless: int) -> None:
        """Raise `UsageError` if a kind has no tasks, or no more of them."""
        dropped, tasks = self.dropped[kind], self.kept[split][kind]
        if not tasks and dropped.total() >= TRIES:
            reasons = "; ".join(f"{reason}: {count}" for reason, count in dropped.most_common(5))
            raise UsageError(
                f"no task of the kind {kind} of {self.family.name} could be kept ({reasons})"
            )
        if fruitless == PATIENCE:
            raise UsageError(
                f"the family {self.family.name} has fewer than {self.n} different tasks (of the "
                f"kind {kind}, {len(tasks)} for the split {split}); give a smaller n"
            )

    # -- places ------------------------------------------------------------------------------------

    def _add_place(self, split: Split) -> Place:
        """Draw a place, and write its files."""
        if (name := next(self.names[split], None)) is None:
            raise UsageError("there are no more names of places; give a smaller n")
        place = self.family.place(self.draws[split], name)
        for name, content in place.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, PurePosixPath):
                path.symlink_to(content)
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)
                path.chmod(0o755 if name in place.programs else 0o644)
            for parent in path.relative_to(self.folder).parents:
                (self.folder / parent).chmod(0o755)
        self.places[split].append(place)
        return place

    def _place_for(self, split: Split, question: Question, taken: set[str]) -> Place:
        """Return a place for a candidate. One that must find a rule gets a place where no other
        task does: not one of those `taken`, and one that is new to its kind."""
        places, draw = self.places[split], self.draws[split]
        if question.difficulty == 3:
            tried = self.tried[question.kind]
            unfit = self.rules_used | taken | tried
            free = [place for place in places if place.name not in unfit]
            place = draw.choice(free) if free else self._add_place(split)
            taken.add(place.name)
            tried.add(place.name)
            return place
        if len(places) < max(2, self.sizes[split] // self.family.tasks_per_place):
            return self._add_place(split)
        return draw.choice(places)

    def _remove_unused(self, used: Collection[str]) -> None:
        for places in self.places.values():
            for place in places:
                for name in place.files if place.name not in used else ():
                    (self.folder / name).unlink()
                    for parent in (self.folder / name).relative_to(self.folder).parents:
                        with suppress(OSError):  # it is not empty
                            (self.folder / parent).rmdir()

    # -- candidates --------------------------------------------------------------------------------

    def _draw_kind(
        self, split: Split, kind: str, missing: int, taken: set[str]
    ) -> Iterator[_Candidate]:
        """Yield the candidates of one round: as many as are missing, and more the fewer of the
        kind were kept before."""
        (question,) = (one for one in self.questions if one.kind == kind)
        count = sum(len(kinds.get(kind, ())) for kinds in self.kept.values())
        rate = (count + 2) / (count + self.dropped[kind].total() + 2)
        for _ in range(min(missing + 200, int(missing / rate * 1.05) + 2)):
            candidate = self._draw(split, question, taken)
            if isinstance(candidate, str):
                self.dropped[kind][candidate] += 1
            else:
                yield candidate

    def _draw(self, split: Split, question: Question, taken: set[str]) -> _Candidate | str:
        """Return a candidate, or the reason why the last of several was none."""
        place = self._place_for(split, question, taken)
        for _ in range(DRAWS):
            candidate = self._draw_in(place, split, question)
            if not isinstance(candidate, str):
                break
        return candidate

    def _draw_in(self, place: Place, split: Split, question: Question) -> _Candidate | str:
        draw = self.draws[split]
        parameters = {**place.facts, **self.family.draw(draw, place)}
        drawn = {name: draw.choice(pairs) for name, pairs in question.choices.items()}
        chosen = {name: [fill(text, parameters) for text in texts] for name, texts in drawn.items()}
        code = {**parameters, **{name: code for name, (_, code, *_) in chosen.items()}}
        code |= {f"wrong_{name}": wrong for name, (_, _, *rest) in chosen.items() for wrong in rest}
        words = (draw.choice(question.query), draw.choice(FORMS[question.form]))
        omissions = draw.sample(self.omissions[question.kind], self.asks) if self.asks else []
        told = {**parameters, **{name: words for name, (words, *_) in chosen.items()}}
        hidden = {omission.choice: fill(omission.hidden, parameters) for omission in omissions}
        query = fill(" ".join(filter(None, words)), {**told, **hidden})
        facets = [_facet(omission, told) for omission in omissions]
        gold = fill(question.gold, code)
        replies = [facet["reply"] for facet in facets]
        keys = {" ".join((query, *replies)).lower(), f"{place.name} {gold}"}
        if keys & self.seen:
            return "drawn before"
        shown = question.difficulty == 3 and draw.random() < RULES_SHOWN
        record = {
            "query": f"{query}\n\n{place.rules.strip()}" if shown else query,
            "gold": gold,
            "split": split,
            "difficulty": question.difficulty,
            "family": self.family.name,
            "kind": question.kind,
            **({"held_out": True} if question.held_out else {}),
            **({"rule_shown": True} if shown else {}),
            "place": place.name,
            **({"db": parameters["db"]} if "db" in parameters else {}),
            **({"path": parameters["path"]} if "<path>" in question.gold else {}),
            **({"facets": facets} if facets else {}),
        }
        refused, mistakes = self.family.judge(place, gold), list[str]()
        values = {name: question.choices[name].index(drawn[name]) for name in hidden}
        others = [
            fill(question.gold, {**code, name: fill(other[1], parameters)})
            for name, value in values.items()
            for place_of_other, other in enumerate(question.choices[name])
            if place_of_other != value
        ]
        for mistake in (*others, *self._mistakes(question, gold, code)):
            if (verdict := refused(mistake)) is False:
                return with_placeholders(f"this passes too: {mistake}", code)
            if verdict is None:
                mistakes.append(mistake)
        if self.family.inputs:
            arguments = self.family.inputs(draw, question.kind, parameters)
            tests = _write_tests(gold, arguments, mistakes)
            if isinstance(tests, str):
                return with_placeholders(tests, code)
            record |= {"tests": tests[:_SHOWN], "hidden": tests[_SHOWN:]}
            mistakes = []
        self.seen |= keys
        return _Candidate(record, question, place, code, mistakes, values)

    def _mistakes(self, question: Question, gold: str, parameters: Parameters) -> Iterator[str]:
        """Yield the solutions that the reward has to refuse."""
        normal = NORMAL[self.family.env]
        yield from (fill(solution, parameters) for solution in question.wrong)
        texts = (question.gold, *question.equivalents)
        same = (normal(fill(text, parameters)) for text in texts)
        seen = {" ".join(text.split()) for text in same}
        for mutant in MUTANTS[self.family.env](gold):
            if (form := " ".join(mutant.split())) not in seen:
                seen.add(form)
                yield mutant

    def _execute(self, candidates: Sequence[_Candidate]) -> list[tuple[GoldRun, str]]:
        """Execute the golds of the candidates in the family's environment; return each run, and a
        mistake that the reward accepts, "" if there is none."""
        if not candidates:
            return []
        self._write_tasks([candidate.record for candidate in candidates])
        factory: EnvFactory = prepare(self.family.env, data=str(self.folder))
        idle: SimpleQueue[Any] = SimpleQueue()

        def execute(task: Any, candidate: _Candidate) -> tuple[GoldRun, str]:
            env = idle.get()
            try:
                run: GoldRun = env.run_gold(task)
                mistakes = () if run.faults else candidate.mistakes
                return run, next((wrong for wrong in mistakes if accepts(env, task, wrong)), "")
            finally:
                idle.put(env)

        with ExitStack() as stack, ThreadPoolExecutor(self.workers) as pool:
            for _ in range(self.workers):
                idle.put(stack.enter_context(closing(factory())))
            return list(pool.map(execute, factory.tasks, candidates))

    def _keep(self, candidate: _Candidate, run: GoldRun, accepted: str) -> None:
        """Keep a candidate that has a sound gold and tells it from all mistakes, if its kind has
        room for it and its answer is not too frequent."""
        record, kind = candidate.record, candidate.question.kind
        split: Split = record["split"]
        answer = self.family.answer(record["gold"], run)
        tasks = self.kept[split][kind]
        most = ceil(SHARE * self.sizes[split])
        if reason := (
            (str(run.faults[0]) if run.faults else "")
            or ("" if answer else "the gold prints nothing and changes nothing")
            or (
                accepted and f"this passes too: {with_placeholders(accepted, candidate.parameters)}"
            )
            or ("a frequent answer" if self.answers[split][answer] >= most else "")
        ):
            self.dropped[kind][reason] += 1
        elif len(tasks) < self.wanted[split][kind]:
            self.answers[split][answer] += 1
            tasks.append(candidate)
            if candidate.question.difficulty == 3:
                self.rules_used.add(candidate.place.name)
            self.on_task()

    def _write_tasks(self, records: Sequence[Record]) -> None:
        lines = [json.dumps(record, ensure_ascii=False) for record in records]
        (self.folder / "tasks.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def _share_out(questions: Sequence[Question], split: Split, size: int) -> Counter[str]:
    """Return how many tasks of each kind a split gets. Of the test tasks, every second one is of a
    kind that is held out."""
    held_out = [question.kind for question in questions if question.held_out]
    others = [question.kind for question in questions if not question.held_out]
    if split == "train" or not held_out:
        return Counter(islice(cycle(others), size))
    new = size // 2
    return Counter(islice(cycle(others), size - new)) + Counter(islice(cycle(held_out), new))


def _facet(omission: Omission, parameters: Parameters) -> Record:
    reply = fill(omission.reply, parameters)
    reply = reply[:1].upper() + reply[1:]
    return {"name": omission.choice, "asks": list(omission.asks), "reply": reply}


def _finished(candidate: _Candidate, usual: Mapping[tuple[str, str], int]) -> Record:
    """Return the record of a task. With a user, its `unclarified` is the gold with the usual values
    of the clauses that the query leaves out."""
    question, parameters = candidate.question, dict(candidate.parameters)
    if not candidate.values:
        return candidate.record
    for name in candidate.values:
        code = question.choices[name][usual.get((question.kind, name), 0)][1]
        parameters[name] = fill(code, candidate.parameters)
    return {**candidate.record, "unclarified": fill(question.gold, parameters)}


def _in_turn(groups: Sequence[Sequence[_Candidate]]) -> Iterator[_Candidate]:
    """Yield the first of each group, then the second of each, and so on."""
    for row in zip_longest(*groups):
        yield from (candidate for candidate in row if candidate is not None)


def accepts(env: Any, task: Any, solution: str) -> bool:
    """Play an episode that executes the solution, and return whether it succeeds."""
    env.reset(options={"task": task.id})
    env.step(solution)
    score: Score = env.step("submit")[4]["score"]
    return score.success


def _write_tests(
    gold: str, inputs: Sequence[tuple[Any, ...]], mistakes: Sequence[str]
) -> list[str] | str:
    """Return asserts with the results of the gold; the last assert makes all hidden calls.

    Return the reason if they would be weak: more than half of the results are equal, or a mistake
    has the same results as the gold.
    """
    name = gold.partition("def ")[2].partition("(")[0]
    results = _results(gold, name, inputs)
    assert results is not None
    calls = {
        f"{name}({', '.join(map(repr, arguments))})": repr(result)
        for arguments, result in zip(inputs, results, strict=True)
    }
    if len(calls) < _SHOWN + 2 or max(Counter(calls.values()).values()) > len(calls) // 2:
        return "too many equal results"
    for mistake in mistakes:
        if _results(mistake, name, inputs) == results:
            return f"this passes too: {mistake}"
    shown, hidden = list(calls.items())[:_SHOWN], list(calls.items())[_SHOWN:]
    at_once = (
        f"assert [{', '.join(call for call, _ in hidden)}] == "
        f"[{', '.join(result for _, result in hidden)}]"
    )
    return [*(f"assert {call} == {result}" for call, result in shown), at_once]


def _results(source: str, name: str, inputs: Sequence[tuple[Any, ...]]) -> list[Any] | None:
    """Return what a function returns for a copy of each input; None if it fails."""
    try:
        call = _function(source, name)
        return [call(*arguments) for arguments in copy.deepcopy(inputs)]
    except Exception:
        return None


def _function(source: str, name: str) -> Callable[..., Any]:
    scope: Parameters = {}
    exec(source, scope)
    function: Callable[..., Any] = scope[name]
    return function


__all__ = ["FAMILIES", "Family", "Generated", "Place", "Question", "generate"]
