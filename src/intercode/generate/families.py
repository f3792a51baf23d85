"""The parts of a family of generated tasks: places, questions, and the random draws of one split.

    Family ─┬─► Place, Place, …           a site in a tree, or a database: files, and the facts that
            │                             questions use
            └─► Question, Question, …     phrasings and a gold, each with <parameters>

Test tasks differ from training tasks in words and numbers: `Draw` keeps the last fifth of every
list and range for the test split, and a question has separate phrasings for it.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from intercode.env import GoldRun
from intercode.errors import UsageError

Split = Literal["train", "test"]
Parameters = dict[str, Any]
Item = TypeVar("Item")

_WORDS = {
    name: words.split()
    for name, words in tomllib.loads(
        Path(__file__).with_name("words.toml").read_text("utf-8")
    ).items()
}
NOUNS, PEOPLE, TOWNS = (_WORDS[name] for name in ("nouns", "people", "towns"))


class Draw(random.Random):
    """Random numbers for one split. Values that `word`, `words`, `number` and `sites` draw for one
    split are never drawn for the other."""

    def __init__(self, seed: str, split: Split) -> None:
        super().__init__(f"{seed} {split}")
        self.split: Split = split

    def part(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return this split's part of a list: the last fifth for the test split, else the rest."""
        cut = len(items) * 4 // 5
        return items[cut:] if self.split == "test" else items[:cut]

    def word(self, items: Sequence[Item]) -> Item:
        return self.choice(self.part(items))

    def words(self, items: Sequence[Item], count: int) -> list[Item]:
        """Return different items in random order."""
        return self.sample(self.part(items), count)

    def number(self, low: int, high: int) -> int:
        """Return a number from low to high: from the upper fifth of the range for the test split,
        else from below it."""
        cut = low + (high - low) * 4 // 5
        return self.randint(cut + 1, high) if self.split == "test" else self.randint(low, cut)

    def sites(self, count: int) -> list[str]:
        """Return different names of places: at most 800 for training, 200 for the test split.
        Raises `UsageError` for more."""
        names = [
            f"{first}-{second}"
            for first in self.part(_WORDS["sites"])
            for second in _WORDS["kinds"]
        ]
        if count > len(names):
            raise UsageError(
                f"so many tasks need {count} places, and there are {len(names)} names; "
                "give a smaller n"
            )
        return self.sample(names, count)


@dataclass
class Place:
    """A site or a database. `files` are texts and archives, by path from the data folder."""

    name: str
    files: dict[str, str | bytes] = field(default_factory=dict)
    facts: Parameters = field(default_factory=dict)
    """Values that questions use; `site` is the place's absolute path, `db` the database's name."""

    def write(self, path: str, content: str | bytes) -> None:
        """Add a file of the tree; `path` is absolute."""
        self.files[f"tree{path}"] = content


@dataclass(frozen=True)
class Question:
    """A question about a place, with a gold. <NAME> in a text stands for the parameter NAME.

    `train` and `test` are the phrasings of each split; `form`, a key of `FORMS`, adds a sentence
    about the answer.
    """

    kind: str
    difficulty: int
    gold: str
    train: Sequence[str]
    test: Sequence[str]
    form: str = ""


def outcome_of(gold: str, run: GoldRun) -> str:
    """Return what a Bash gold printed and changed, "" for nothing."""
    (outcome,) = run.evidence if isinstance(run.evidence, list) and run.evidence else (None,)
    return repr(outcome) if outcome and (outcome.output.strip() or outcome.changes) else ""


def rows_of(gold: str, run: GoldRun) -> str:
    """Return the rows of an SQL gold, "" for none."""
    return "" if run.summary == "[]" else run.summary


def text_of(gold: str, run: GoldRun) -> str:
    """Return the text of a gold, which counts as the answer of a Python task."""
    return gold


@dataclass(frozen=True)
class Family:
    """Questions about places of one kind, in the file `questions/NAME.toml`.

    `place` makes a place from a name; `draw` returns the parameters of one task that are not facts
    of the place. `inputs` returns the arguments of a Python task's tests from its kind and
    parameters. A data folder has one place for every `tasks_per_place` tasks. `answer` returns the
    answer of a gold that was executed, or "" if there is none.
    """

    name: str
    env: Literal["bash", "sql", "python"]
    about: str
    place: Callable[[Draw, str], Place]
    draw: Callable[[Draw, Place], Parameters]
    inputs: Callable[[Draw, str, Parameters], Sequence[tuple[Any, ...]]] | None = None
    tasks_per_place: int = 8
    answer: Callable[[str, GoldRun], str] = outcome_of

    @cached_property
    def questions(self) -> Sequence[Question]:
        path = Path(__file__).with_name("questions") / f"{self.name}.toml"
        return [
            Question(kind, **fields)
            for kind, fields in tomllib.loads(path.read_text("utf-8")).items()
        ]


FORMS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "": (("",), ("",)),
    "number": (
        ("Print the number only.", "Print only the number."),
        ("Nothing but that number is printed.", "Answer with the number only."),
    ),
    "text": (
        ("Print nothing else.", "Print only that."),
        ("Nothing else is printed.", "Output only this."),
    ),
    "paths": (
        (
            "Print only absolute paths, one per line, in any order.",
            "Print absolute paths only, one per line, in any order.",
        ),
        ("Nothing but absolute paths is printed, one per line, in any order.",),
    ),
    "names": (
        ("Print the names only, without folders, one per line, in any order.",),
        ("Each line of the output is only a bare name, without its folder; in any order.",),
    ),
}
"""The sentences that say what the answer looks like, for training and for the test split."""


def fill(text: str, parameters: Parameters) -> str:
    """Return the text with each <NAME> replaced. Raises `KeyError` for a name without a value."""
    return re.sub(r"<([a-z]\w*)>", lambda match: str(parameters[match[1]]), text)
