"""The generation of a data folder, place by place.

    units ──► a place, drafts of tasks, growth ──► golds executed ──► merged and written
      ▲                                                                      │
      └───────────────── another round until each kind is full ◄────────────┘

A unit is one place and the kinds of its tasks. Units are independent of each other, so several are
worked on at once; they are merged in their order, so the bytes depend on the plan alone. Each unit
is a line of `progress.jsonl` until the folder is finished: an interrupted generation goes on from
there.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from math import ceil
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any

from intercode import __version__
from intercode.envs import prepare
from intercode.errors import UsageError
from intercode.generate.drafts import Draft, Record, Wanted, composed, draft
from intercode.generate.draws import Draw, Split, among
from intercode.generate.families import Ask, Family, Place, Question, with_placeholders
from intercode.generate.grower import NEUTRAL, grow
from intercode.generate.judges import SHOWN, bash_judge, fewer, python_judge, sql_judge, write_tests
from intercode.generate.ladder import KNOWN, NEW_FAMILY, SHARES, rungs
from intercode.generate.python import inputs_of
from intercode.generate.trial import Trial
from intercode.reading import present
from intercode.types import GoldRun
from intercode.validate.check import in_envs

SHARE = 0.03
"""The largest part of a split's tasks that may have the same answer."""
TRIES = 60
"""If none of this many drafts is kept, other kinds have more tasks instead."""
DRAWS = 8
"""The number of times that a task is drawn for one of a unit's kinds."""
PATIENCE = 8
"""After so many rounds without a new task of a kind, other kinds have more tasks instead."""
TEST_EVERY = 5
"""The number of tasks of which one is in the test split."""
BATCH = 24
"""The number of units whose golds are executed at once."""
BUDGET = {"bash": 9, "sql": 40, "python": 100}
"""The number of changes near its words that one mistake may survive."""
FIRST = {"bash": 3, "sql": 6, "python": 24}
"""The number of changes before any mistake is tried."""
USUAL_HOPS = (2, 3, 4, 5)
PROGRESS, CARD, TASKS = "progress.jsonl", "card.json", "tasks.jsonl"
_GOLD_TRIES = 3
"""The number of times that a gold may run out of time, on a busy machine."""


@dataclass(frozen=True)
class Plan:
    """The options that decide the bytes of a data folder."""

    family: Family
    n: int
    seed: int
    asks: int = 0
    steps: int = 0
    hops: int = 0
    kinds: Collection[str] = ()
    split: Split | None = None
    difficulty: Collection[int] = ()

    @property
    def facts(self) -> dict[str, Any]:
        facts = {**vars(self), "family": self.family.name}
        return {name: value for name, value in facts.items() if value or name == "seed"}

    @property
    def sizes(self) -> dict[Split, int]:
        """Return the number of tasks of each split that is written."""
        if self.split:
            return {self.split: self.n}
        return {"train": self.n - self.n // TEST_EVERY, "test": self.n // TEST_EVERY}

    def draw(self, unit: int, split: Split) -> Draw:
        """Return the random draws of a unit. Every second place looks real."""
        seed = f"{self.family.name} {self.n} {self.seed} {unit}"
        return Draw(seed, split, real=unit % 2 == 0)

    def able(self, family: Family) -> list[Question]:
        """Return the questions of a family that have a wanted difficulty and can leave out as many
        clauses as are asked for."""
        able = []
        for question in family.questions:
            wanted = not self.difficulty or question.difficulty in self.difficulty
            if wanted and len(family.omissions(question)) >= self.asks:
                able.append(question)
        return able


Key = tuple[Split, Wanted]


@dataclass(frozen=True)
class Unit:
    number: int
    split: Split
    site: str
    family: Family
    wanted: Sequence[Wanted]


@dataclass
class Work:
    """The place and the tasks of a unit, and by kind the reasons why drafts were dropped."""

    unit: Unit
    place: Place
    drafts: list[Draft] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    dropped: list[tuple[str, str]] = field(default_factory=list)
    suited: list[Draft] = field(default_factory=list)
    """The tasks that the place is known to suit as it is now."""

    def suit(self, drafted: Draft, place: Place) -> None:
        """Take the place after it grew for a task."""
        if place is not self.place:
            self.place, self.suited = place, []
        self.suited.append(drafted)

    def line(self) -> dict[str, Any]:
        """Return what `progress.jsonl` keeps."""
        tasks = []
        for drafted, answer in zip(self.drafts, self.answers, strict=True):
            task = {
                "wanted": drafted.wanted,
                "answer": answer,
                "keys": sorted(drafted.keys),
                "record": drafted.record,
            }
            tasks.append(task)
        return {"unit": self.unit.number, "tasks": tasks, "dropped": self.dropped}


def share_out(plan: Plan, split: Split, beyond: Family | None) -> list[Wanted]:
    """Return the kinds that a split wants. `beyond` is the family of the tasks that are farthest
    from those of training."""
    size = plan.sizes[split]
    if plan.family.ask:
        return [Wanted(None)] * size
    by_rung = defaultdict[str, list[Wanted]](list)
    for question in plan.able(plan.family):
        if plan.kinds and question.kind not in plan.kinds:
            continue
        for rung in rungs(question):
            by_rung[rung].append(Wanted(question, rung))
    if beyond:
        for question in plan.able(beyond):
            if question.difficulty < 3 and not question.held_out:
                by_rung[NEW_FAMILY].append(Wanted(question, NEW_FAMILY))
    if split == "train" or plan.kinds:
        return [*islice(cycle(by_rung[KNOWN]), size)]
    total = sum(map(SHARES.__getitem__, by_rung))
    shared, before = list[Wanted](), 0.0
    for rung in among(SHARES, by_rung):
        upto = before + SHARES[rung] / total * size
        shared += islice(cycle(by_rung[rung]), round(upto) - round(before))
        before = upto
    return shared


class Generation:
    """The generation of one data folder. `beyond` is the family of its farthest test tasks."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        workers: int,
        on_task: Callable[[], object],
        beyond: Family | None,
    ) -> None:
        self.plan, self.folder, self.workers = plan, folder, workers
        self.on_task, self.beyond = on_task, beyond
        self.names: dict[Split, list[list[str]]] = {}
        """The names of places that are left, by split: real ones, and made-up ones."""
        self.wanted = Counter[Key]()
        self.by_label: dict[str, Wanted] = {}
        for split in plan.sizes:
            self.names[split] = [[*plan.draw(unit, split).sites()][::-1] for unit in (0, 1)]
            for wanted in share_out(plan, split, beyond):
                self.wanted[split, wanted] += 1
                self.by_label[wanted.label] = wanted
        self.units = 0
        self.tasks = list[Record]()
        self.kept = Counter[Key]()
        self.exhausted = set[Key]()
        self.kinds = Counter[str]()
        self.answers = defaultdict[str, Counter[str]](Counter)
        self.dropped = defaultdict[str, Counter[str]](Counter)
        self.seen = set[str]()
        self._local, self._stack = threading.local(), ExitStack()

    def run(self) -> None:
        """Write the folder."""
        self._require_names()
        finished = self._read_progress()
        fruitless = Counter[Key]()
        with self._stack, ThreadPoolExecutor(self.workers) as pool:
            while missing := self.wanted - self.kept:
                units = list(self._units(missing))
                for start in range(0, len(units), BATCH):
                    self._work_on(units[start : start + BATCH], pool, finished)
                still = self.wanted - self.kept
                for key, count in missing.items():
                    fruitless[key] += 1
                    if still[key] != count:
                        fruitless[key] = 0
                    tries = self.dropped[key[1].kind].total()
                    if fruitless[key] == PATIENCE or (tries >= TRIES and not self.kept[key]):
                        self._share_again(key)
        self._finish()

    @property
    def splits(self) -> Counter[str]:
        """Return the number of tasks by split."""
        return Counter(map(itemgetter("split"), self.tasks))

    @property
    def rungs(self) -> Counter[str]:
        """Return the number of test tasks by rung of the ladder (`ladder.py`)."""
        return Counter(task["rung"] for task in self.tasks if "rung" in task)

    def yields(self) -> dict[str, float]:
        """Return the part of the drafts that became tasks, by kind."""
        parts = {}
        for kind, count in sorted(self.kinds.items()):
            parts[kind] = round(count / (count + self.dropped[kind].total()), 3)
        return parts

    # -- rounds ------------------------------------------------------------------------------------

    def _require_names(self) -> None:
        """Raise `UsageError` if there are too few names for the places of so many tasks."""
        for split, size in self.plan.sizes.items():
            hard = 0
            for (where, wanted), count in self.wanted.items():
                if where == split and _is_hard(wanted):
                    hard += count
            places = max(hard, size // self.plan.family.tasks_per_place)
            names = sum(map(len, self.names[split]))
            if places > names:
                raise UsageError(
                    f"{self.plan.n} tasks need {places} places, and there are {names} names; "
                    "give a smaller n"
                )

    def _share_again(self, key: Key) -> None:
        """Give the missing tasks of a kind to the other kinds of its rung, or else to all others.

        Raises `UsageError` if no other kind has tasks.
        """
        split, exhausted = key
        missing = self.wanted[key] - self.kept[key]
        self.wanted[key] = self.kept[key]
        self.exhausted.add(key)
        heirs, nearest = list[Key](), list[Key]()
        for other in self.wanted:
            if other[0] == split and other not in self.exhausted:
                heirs.append(other)
                if other[1].rung == exhausted.rung:
                    nearest.append(other)
        if not heirs:
            dropped = self.dropped[exhausted.kind].most_common(5)
            reasons = "; ".join(f"{reason}: {count}" for reason, count in dropped)
            raise UsageError(
                f"the family {self.plan.family.name} has fewer than {self.plan.n} different tasks "
                f"(of the kind {exhausted.kind}: {reasons}); give a smaller n"
            )
        for heir in islice(cycle(nearest or heirs), missing):
            self.wanted[heir] += 1

    def _units(self, missing: Counter[Key]) -> Iterator[Unit]:
        """Yield units for what is missing."""
        for split in self.plan.sizes:
            for family in (self.plan.family, self.beyond):
                waiting = Counter[Wanted]()
                for (where, wanted), count in missing.items():
                    is_beyond = wanted.rung == NEW_FAMILY
                    if where == split and is_beyond is (family is self.beyond):
                        waiting[wanted] = count
                while family and (kinds := _take(waiting, family.tasks_per_place)):
                    self.units += 1
                    names = self.names[split][self.units % 2]
                    if not names:
                        raise UsageError("there are no more names of places; give a smaller n")
                    yield Unit(self.units, split, names.pop(), family, kinds)

    def _work_on(
        self, units: Sequence[Unit], pool: ThreadPoolExecutor, finished: dict[int, Any]
    ) -> None:
        """Work on units that are not finished, and merge all of them."""
        new = [unit for unit in units if unit.number not in finished]
        works = {}
        for work in pool.map(self._work, new):
            works[work.unit.number] = work
        self._execute([*works.values()])
        with (self.folder / PROGRESS).open("a", encoding="utf-8") as progress:
            for unit in units:
                line = finished.pop(unit.number, None)
                if line is None:
                    work = works[unit.number]
                    if work.drafts:
                        write_files(self.folder, work.place)
                    line = work.line()
                    progress.write(json.dumps(line, ensure_ascii=False) + "\n")
                self._merge(unit.split, line)

    def _merge(self, split: Split, line: Mapping[str, Any]) -> None:
        """Keep the tasks of a unit except those that were drawn before or whose answer is too
        frequent."""
        for kind, reason in line["dropped"]:
            self.dropped[kind][reason] += 1
        most = ceil(SHARE * self.plan.sizes[split])
        new = []
        for task in line["tasks"]:
            answer, keys = task["answer"], {*task["keys"]}
            wanted = self.by_label[task["wanted"]]
            if keys & self.seen:
                self.dropped[wanted.kind]["drawn before"] += 1
            elif self.answers[split][answer] >= most:
                self.dropped[wanted.kind]["a frequent answer"] += 1
            else:
                self.seen |= keys
                self.answers[split][answer] += 1
                self.kept[split, wanted] += 1
                self.kinds[wanted.kind] += 1
                number = len(self.tasks) + 1
                self.tasks.append({"id": f"{self.plan.family.name}-{number}", **task["record"]})
                new.append(json.dumps(self.tasks[-1], ensure_ascii=False) + "\n")
                self.on_task()
        with (self.folder / TASKS).open("a", encoding="utf-8") as tasks:
            tasks.writelines(new)

    # -- one unit ----------------------------------------------------------------------------------

    def _work(self, unit: Unit) -> Work:
        draw = self.plan.draw(unit.number, unit.split)
        if unit.family.ask:
            return self._ask(draw, unit, unit.family.ask)
        place = unit.family.place(draw, unit.site)
        work = Work(unit, place)
        for wanted in unit.wanted:
            for _ in range(DRAWS):
                # queries have words of the place as it was: what grows is made up, like `reMilan`
                drafted = draft(draw, unit.family, place, wanted, self.plan.asks)
                if not (reason := self._try(draw, work, drafted)):
                    break
                work.dropped.append((wanted.kind, reason))
        if unit.family.env != "python":
            self._settle(draw, work)
        return work

    def _settle(self, draw: Draw, work: Work) -> None:
        """Let the place grow once more for each task, until it suits all at once; drop the tasks
        that it never suits."""
        for turn in range(len(work.drafts) + 2):
            for drafted in work.drafts[:]:
                if drafted in work.suited:
                    continue
                grown, passing = self._grow(draw, drafted, work.place, settling=turn)
                if passing == []:
                    work.suit(drafted, grown)
                else:
                    work.drafts.remove(drafted)
                    work.dropped.append((drafted.question.kind, "it needs a place of its own"))

    def _ask(self, draw: Draw, unit: Unit, ask: Ask) -> Work:
        """Draw questions of which the mistakes were tried already."""
        work = Work(unit, unit.family.place(draw, unit.site))
        length = self.plan.steps or self.plan.hops
        lengths = cycle([length] if length else USUAL_HOPS)
        for wanted, length in zip(unit.wanted, lengths, strict=False):
            for _ in range(DRAWS):
                asked = ask(draw, work.place, length, self.plan.asks)
                if isinstance(asked, str):
                    work.dropped.append((wanted.kind, asked))
                    continue
                drafted = composed(unit.family, work.place, asked, unit.split)
                if all(drafted.keys.isdisjoint(other.keys) for other in work.drafts):
                    work.drafts.append(drafted)
                    break
        return work

    def _try(self, draw: Draw, work: Work, drafted: Draft) -> str:
        """Let the ground of a task grow, and add the task to the work. Return why it cannot be
        added, "" if it was."""
        family = work.unit.family
        for other in work.drafts:
            if drafted.keys & other.keys:
                return "drawn before"
        ground: Any = work.place
        if family.env == "python":
            ground = inputs_of(drafted.question, drafted.parameters)
        ground, passing = self._grow(draw, drafted, ground)
        if passing is None:
            return "the gold fails, or it prints nothing and changes nothing"
        if passing:
            return with_placeholders(f"this passes too: {passing[0]}", drafted.parameters)
        if isinstance(ground, Place):
            work.suit(drafted, ground)
        else:
            calls = fewer(ground, drafted.gold, drafted.mistakes)
            tests = write_tests(drafted.gold, calls)
            if isinstance(tests, str):
                return with_placeholders(tests, drafted.parameters)
            parts = {"tests": tests[:SHOWN], "hidden": tests[SHOWN:]}
            drafted = replace(drafted, record=drafted.record | parts)
        work.drafts.append(drafted)
        return ""

    def _grow(
        self, draw: Draw, drafted: Draft, ground: Any, settling: int = -1
    ) -> tuple[Any, list[str] | None]:
        """Let the ground of a task grow, if it can, and return the mistakes that are still
        accepted. `settling` is the number of the turn in which a place has to suit all its
        tasks: it grows in turn 0 only."""
        env = self.plan.family.env
        budget, first, neutral = BUDGET[env], FIRST[env], 0.0
        judge: Any = python_judge
        if env == "sql":
            judge = sql_judge
        elif env == "bash":
            judge = bash_judge(self._trial(), drafted.record["query"])
            neutral = NEUTRAL  # in other languages, changes do not build on each other
        if settling >= 0:
            first = 0
        if settling > 0 or (isinstance(ground, Place) and not ground.tables and not ground.grows):
            budget = first = 0
        return grow(
            draw,
            ground,
            drafted.gold,
            drafted.mistakes,
            judge,
            budget=budget,
            first=first,
            neutral=neutral,
        )

    def _trial(self) -> Trial:
        """Return the trial of this thread."""
        if not hasattr(self._local, "trial"):
            self._local.trial = self._stack.enter_context(Trial())
        trial: Trial = self._local.trial
        return trial

    # -- golds -------------------------------------------------------------------------------------

    def _execute(self, works: Sequence[Work]) -> None:
        """Execute the golds in the family's environment, and drop tasks with faulty ones."""
        drafts, records = [], ""
        for work in works:
            for drafted in work.drafts:
                drafts.append((work, drafted))
                records += f"{json.dumps(drafted.record)}\n"
        if not drafts:
            return
        with tempfile.TemporaryDirectory(dir=self.folder.parent, prefix=".golds-") as name:
            for work in works:
                write_files(Path(name), work.place)
            (Path(name) / TASKS).write_text(records, "utf-8")
            factory = prepare(self.plan.family.env, data=name)
            runs = in_envs(factory, factory.tasks, run_gold, self.workers)
        for (work, drafted), run in zip(drafts, runs, strict=True):
            answer = self.plan.family.answer(drafted.gold, run)
            right = all(part in answer for part in drafted.question.answer)
            if answer and right and not run.faults:
                work.answers.append(hashlib.sha256(answer.encode()).hexdigest())
                continue
            reason, *_ = (*run.faults, "the gold has no answer, or another one")
            work.drafts.remove(drafted)
            work.dropped.append((drafted.question.kind, reason))

    # -- files -------------------------------------------------------------------------------------

    def _read_progress(self) -> dict[int, Any]:
        """Return the lines of the units that an interrupted generation merged."""
        path, begun = self.folder / PROGRESS, json.dumps(self.plan.facts)
        path.touch()
        text = path.read_text("utf-8")
        whole = text[: text.rfind("\n") + 1] or f"{begun}\n"  # without an unfinished line
        try:
            first, *lines = map(json.loads, whole.splitlines())
            units = {line["unit"]: line for line in lines}
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(f"{path} is damaged ({error}); remove the folder") from error
        if first != self.plan.facts:
            raise UsageError(f"{self.folder} was begun with other options: {json.dumps(first)}")
        path.write_text(whole, "utf-8")
        (self.folder / TASKS).write_text("", "utf-8")
        return units

    def _finish(self) -> None:
        """Write the card, and end the progress."""
        left_out = {}
        for _, wanted in sorted(self.exhausted, key=str):
            if not self.kinds[wanted.kind]:
                left_out[wanted.kind] = dict(self.dropped[wanted.kind].most_common(1))
        card = {
            **self.plan.facts,
            "intercode": __version__,
            "splits": self.splits,
            "distances": self.rungs,
            "yields": self.yields(),
            "left_out": left_out,
            "digests": digests(self.folder),
        }
        (self.folder / CARD).write_text(json.dumps(card, indent=2) + "\n", "utf-8")
        (self.folder / PROGRESS).unlink()


def _take(waiting: Counter[Wanted], count: int) -> list[Wanted]:
    """Take kinds for one place: different ones, as far as there are some, and at most one of
    difficulty 3."""
    taken = list[Wanted]()
    for wanted in cycle([*waiting]):
        if len(taken) == count or not waiting.total():
            break
        if waiting[wanted] and not (_is_hard(wanted) and any(map(_is_hard, taken))):
            taken.append(wanted)
            waiting[wanted] -= 1
        elif taken and all(_is_hard(other) or not waiting[other] for other in waiting):
            break
    return taken


def _is_hard(wanted: Wanted) -> bool:
    return wanted.question is not None and wanted.question.difficulty == 3


def run_gold(env: Any, task: Any) -> GoldRun:
    """Execute a gold, again if a busy machine let it run out of time."""
    for _ in range(_GOLD_TRIES):
        run: GoldRun = env.run_gold(task)
        if "out of time" not in str(run.faults):
            break
    return run


def write_files(folder: Path, place: Place) -> None:
    """Write the files of a place, with the usual permissions."""
    for name, content in place.contents().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, PurePosixPath):
            path.unlink(missing_ok=True)
            path.symlink_to(content)
        else:
            path.write_bytes(content)
            path.chmod(0o755 if name in place.programs else 0o644)
        for parent in path.relative_to(folder).parents:
            (folder / parent).chmod(0o755)


def digests(folder: Path) -> dict[str, str]:
    """Return a digest of the tasks, and one of all other files: names, contents, links and
    permissions."""
    tasks, files = hashlib.sha256((folder / TASKS).read_bytes()), hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            files.update(f"{name} -> {path.readlink()}\n".encode())
        elif present(path) == "file" and name not in (TASKS, PROGRESS, CARD):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            files.update(f"{name} {path.stat().st_mode & 0o777:o} {digest}\n".encode())
    return {"tasks": tasks.hexdigest(), "files": files.hexdigest()}
