"""Generate families of tasks: `generate("bash-files", n=2000, seed=1, out="files")` writes a data
folder.

    a place is drawn ──► a task of it ──► its mistakes ──► the place grows until the reward refuses
                                                           them all

A task is dropped if its gold complains, prints nothing and changes nothing, if its query or gold
was drawn before, if too many tasks of its split have the same answer, or if some plausible mistake
is still accepted after the place grew: a mutant of the gold, or a solution that the question names
as wrong. The same arguments give the same bytes.

With `asks`, each query leaves out one or two clauses, which become the facets of a user who can be
asked (`intercode.user`); another value of such a clause is a mistake, too. With `steps`, a family
of composed tasks makes tasks of so many steps, and with `hops`, a family of questions those of so
many look-ups.

    families.py     the parts of a family; bash.py, repair.py, sql.py, python.py define them, and
                    questions/ contains what they ask
    ladder.py       what the test split reserves
    generation.py   a data folder, unit by unit      drafts.py    one task before it is kept
    grower.py       growth                           ground.py    what grows
    mutants.py      mistakes                         judges.py    what a mistake is refused by
    hops/           questions of several look-ups    trial.py     commands tried in a sandbox
    composed.py     Python tasks of several steps

Not covered: tasks that need a network, and CTF.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from intercode.errors import UsageError, did_you_mean
from intercode.generate import bash, composed, hops, python, repair, sql
from intercode.generate.draws import Split
from intercode.generate.families import Family, Question
from intercode.generate.generation import CARD, PROGRESS, Generation, Plan
from intercode.reading import present

FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        *bash.FAMILIES,
        *repair.FAMILIES,
        *sql.FAMILIES,
        *python.FAMILIES,
        *hops.FAMILIES,
        *composed.FAMILIES,
    )
}
FEWEST = 10
MOST_STEPS, MOST_HOPS = 8, 6
_USUAL_STEPS = 4


def generate(
    name: str,
    *,
    n: int,
    seed: int,
    out: str | Path,
    asks: int = 0,
    steps: int | None = None,
    hops: int | None = None,
    kinds: Collection[str] = (),
    split: Split | None = None,
    difficulty: Collection[int] = (),
    resume: bool = False,
    workers: int | None = None,
    on_task: Callable[[], object] = lambda: None,
) -> Generation:
    """Write `n` tasks of the family `name` into the new folder `out`, and return the finished
    generation, which counts what was kept and dropped.

    Solutions are executed in `workers` sandboxes at once (None: one for each processor), which
    changes no byte. A tenth of the test split are tasks of another family of the same environment,
    for comparison. `asks` is the number of clauses that each query leaves out for the user to be
    asked about. `steps` (2 to 8, by default 4) is for families of composed tasks, `hops` (2 to 6,
    by default as many of 2, 3, 4 and 5) for families of questions. With `kinds`,
    only tasks of these kinds are made, and the test split has them too. With `split`, all `n` tasks
    are of that split; with `difficulty`, of these difficulties. `resume` goes on with a generation
    that was interrupted. `on_task` is called for each task. Raises `UsageError` for an unknown
    family, split or kind, one whose questions cannot leave out so many clauses, a difficulty that
    no question has, fewer than 10 tasks of two splits, more tasks than the family has, and a folder
    that is not empty.
    """
    if name not in FAMILIES:
        names = ", ".join(FAMILIES)
        raise UsageError(
            f"no family is named {name!r}; there are {names}{did_you_mean(name, FAMILIES)}"
        )
    if split not in (None, *get_args(Split)):
        raise UsageError(f"no split is named {split!r}; there are {', '.join(get_args(Split))}")
    if n < (1 if split else FEWEST):
        raise UsageError(
            f"n is {n}; a family needs at least {FEWEST} tasks, to have a training and a test "
            "split; give more, or one split"
        )
    family, out = FAMILIES[name], Path(out)
    for what, number, most in (("steps", steps, MOST_STEPS), ("hops", hops, MOST_HOPS)):
        able = [other.name for other in FAMILIES.values() if other.length == what]
        if number is not None and name not in able:
            raise UsageError(f"the tasks of {name} have no {what}; those of {', '.join(able)} do")
        if number is not None and not 2 <= number <= most:
            raise UsageError(f"{what} is {number}; it has to be from 2 to {most}")
    if family.length == "steps":
        steps = steps or _USUAL_STEPS
    kinds, levels = sorted(kinds), sorted({*difficulty})
    plan = Plan(family, n, seed, asks, steps or 0, hops or 0, kinds, split, levels)
    _require_kinds(plan)
    _require_programs(family)
    _require_new(out, resume)
    out.mkdir(parents=True, exist_ok=True)
    workers = workers or len(os.sched_getaffinity(0))
    generation = Generation(plan, out, workers, on_task, _beyond(family))
    generation.run()
    return generation


def _require_new(out: Path, resume: bool) -> None:
    """Raise `UsageError` unless the folder is new or empty, or has a generation to resume."""
    if resume and present(out / CARD):
        raise UsageError(f"{out} is finished; nothing is left to resume")
    begun = present(out / PROGRESS)
    unused = not present(out) or (present(out) == "folder" and not any(out.iterdir()))
    if not unused and not (resume and begun):
        hint = "resume it, " if begun else ""
        raise UsageError(f"{out} exists; {hint}name a new folder, or remove it first")


def _require_programs(family: Family) -> None:
    """Raise `UsageError` if a program that solutions use is not installed."""
    if missing := [program for program in family.programs if not shutil.which(program)]:
        raise UsageError(
            f"solutions of {family.name} use {', '.join(missing)}, not installed here; "
            f"run: apt-get install {' '.join(missing)}"
        )


def _require_kinds(plan: Plan) -> None:
    """Raise `UsageError` for kinds and difficulties that a family does not have, or too many
    omitted clauses."""
    family = plan.family
    if plan.difficulty and (what := family.length):
        raise UsageError(f"the difficulty of {family.name} is its number of {what}: give {what}")
    levels = sorted({question.difficulty for question in family.questions})
    if wrong := sorted({*plan.difficulty} - {*levels}):
        raise UsageError(
            f"no question of {family.name} has the difficulty {wrong[0]}; "
            f"there are {', '.join(map(str, levels))}"
        )
    if plan.asks == 1 and family.length == "hops":
        return
    if plan.asks and not _kinds(replace(plan, difficulty=()).able(family)):
        able = []
        for other in FAMILIES.values():
            if any(map(other.omissions, other.questions)) or (
                other.length == "hops" and plan.asks == 1
            ):
                able.append(other.name)
        raise UsageError(
            f"the questions of {family.name} cannot leave out {plan.asks} clauses; "
            f"those of {', '.join(able)} can"
        )
    kinds = _kinds(family.questions)
    if unknown := sorted({*plan.kinds} - {*kinds}):
        raise UsageError(
            f"{family.name} has no kind {unknown[0]!r} for training; it has {', '.join(kinds)}"
        )
    wanted = {*(plan.kinds or kinds)}
    if levels and wanted.isdisjoint(question.kind for question in plan.able(family)):
        raise UsageError(
            f"no question of {family.name} fits kinds, difficulty and asks at once; give fewer"
        )


def _kinds(questions: Sequence[Question]) -> list[str]:
    """Return the kinds that training can have."""
    return [question.kind for question in questions if not question.held_out]


def _beyond(family: Family) -> Family | None:
    """Return the next family of the same environment, the last tasks of the test split's ladder."""
    if not family.questions:
        return None
    alike = [other for other in FAMILIES.values() if other.env == family.env and other.questions]
    return alike[(alike.index(family) + 1) % len(alike)]
