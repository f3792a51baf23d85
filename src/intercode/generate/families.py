"""The parts of a family of generated tasks: places, questions, and the random draws of one split.

    Family ─┬─► Place, Place, …           a site in a tree, or a database: files, and the facts that
            │                             questions use
            └─► Question, Question, …     phrasings and a gold, each with <parameters>

Test tasks differ from training tasks in words and numbers: `Draw` keeps the last fifth of every
list and range for the test split. Questions that are `held_out` occur in the test split alone.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

from intercode.env import GoldRun

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
    """Random numbers for one split. Values that `word`, `words`, `number`, `limit` and `sites`
    draw for one split are never drawn for the other."""

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

    def limit(self, values: Iterable[int]) -> int:
        """Return one of the values (0 if there are none) or, less often, a number beside one.
        For the test split it leaves 4 when it is divided by 5, else it does not, so that both
        splits have limits from the whole range."""
        values = list(values) or [0]
        beside = [value + step for value in values for step in (-2, -1, 1, 2)]
        exact, beside = (
            [value for value in numbers if (value % 5 == 4) is (self.split == "test")]
            for numbers in (values, beside)
        )
        return self.choice(beside if beside and self.random() < 0.2 else exact or beside)

    def sites(self) -> Iterator[str]:
        """Yield different names of places: 16,000 for training, 4,000 for the test split."""
        firsts, seconds = self.part(_WORDS["sites"]), _WORDS["kinds"]
        names = [f"{first}-{second}" for first in firsts for second in seconds]
        yield from self.sample(names, len(names))
        yield from (f"{name}-{second}" for second in seconds for name in names)


@dataclass
class Place:
    """A site or a database. `files` are texts, archives and the targets of symbolic links, by path
    from the data folder; `rules` says in words what a task of difficulty 3 has to find in them."""

    name: str
    files: dict[str, str | bytes | PurePosixPath] = field(default_factory=dict)
    facts: Parameters = field(default_factory=dict)
    """Values that questions use; `site` is the place's absolute path, `db` the database's name."""
    rules: str = ""
    data: Any = None
    """Rows, connections and the like from which the family draws parameters."""
    programs: set[str] = field(default_factory=set)
    """The paths of executable files."""

    def write(self, path: str, content: str | bytes, *, program: bool = False) -> None:
        """Add a file of the tree; `path` is absolute."""
        self.files[f"tree{path}"] = content
        if program:
            self.programs.add(f"tree{path}")

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link of the tree, which may lead nowhere; `path` is absolute."""
        self.files[f"tree{path}"] = PurePosixPath(target)

    def contents(self) -> dict[str, bytes | PurePosixPath]:
        """Return the content of each file, by path from the data folder."""
        return {
            path: content.encode() if isinstance(content, str) else content
            for path, content in self.files.items()
        }

    def explain(self, path: str, rules: str) -> None:
        """Add a file with the rules of the place."""
        self.rules = rules
        self.write(path, rules)


@dataclass(frozen=True)
class Question:
    """A question about a place, with a gold. <NAME> in a text stands for the parameter NAME.

    `query` has several phrasings; `form`, a key of `FORMS`, adds a sentence about the answer.
    `choices` are parameters that are words in the query and code in the gold, each a list of pairs
    `[words, code]`, or `[words, code, mistake]`; `wrong` names the mistake <wrong_NAME>. A task is
    kept only if the reward refuses each of the solutions `wrong`, and each mutant of the gold
    except those in `equivalents`, which mean what the gold means.
    """

    kind: str
    difficulty: int
    gold: str
    query: Sequence[str]
    form: str = ""
    choices: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    wrong: Sequence[str] = ()
    equivalents: Sequence[str] = ()
    held_out: bool = False


@dataclass(frozen=True)
class Omission:
    """A clause that queries leave out for a user to be asked about: in place of the words of
    `choice` they have those of `hidden`. It holds for the `kinds` of questions, or else for all
    that no earlier omission holds for; see `asks.toml`."""

    choice: str
    hidden: str
    asks: Sequence[str]
    reply: str
    kinds: Sequence[str] = ()


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


@cache
def _omissions() -> Mapping[str, Sequence[Omission]]:
    """Return the omissions of `asks.toml`, by family."""
    entries = tomllib.loads(Path(__file__).with_name("asks.toml").read_text("utf-8"))
    return {name: [Omission(**fields) for fields in listed] for name, listed in entries.items()}


@dataclass(frozen=True)
class Family:
    """Questions about places of one kind, in the file `questions/NAME.toml`.

    `place` makes a place from a name; `draw` returns the parameters of one task that are not facts
    of the place. `inputs` returns the arguments of a Python task's tests from its kind and
    parameters. A data folder has one place for every `tasks_per_place` tasks, and for each task of
    difficulty 3 one that no other of them shares. `answer` returns the
    answer of a gold that was executed, or "" if there is none. `judge` returns, for a place and a
    gold, a function that says whether a mistake is refused, or None if only the reward can say: it
    is fast, so that parameters are drawn again where they tell too little.
    """

    name: str
    env: Literal["bash", "sql", "python"]
    about: str
    place: Callable[[Draw, str], Place]
    draw: Callable[[Draw, Place], Parameters]
    inputs: Callable[[Draw, str, Parameters], Sequence[tuple[Any, ...]]] | None = None
    tasks_per_place: int = 8
    answer: Callable[[str, GoldRun], str] = outcome_of
    judge: Callable[[Place, str], Callable[[str], bool | None]] = lambda place, gold: (
        lambda mistake: None
    )

    @cached_property
    def questions(self) -> Sequence[Question]:
        path = Path(__file__).with_name("questions") / f"{self.name}.toml"
        return [
            Question(kind, **fields)
            for kind, fields in tomllib.loads(path.read_text("utf-8")).items()
        ]

    def omissions(self, question: Question) -> list[Omission]:
        """Return the clauses that a question can leave out: those with so many values that a guess
        fails more often than not."""
        first = dict[str, Omission]()
        for omission in _omissions().get(self.name, ()):
            values = question.choices.get(omission.choice, ())
            if len(values) >= FEWEST_VALUES and question.kind in (
                omission.kinds or [question.kind]
            ):
                first.setdefault(omission.choice, omission)
        return list(first.values())


FEWEST_VALUES = 3
FORMS: Mapping[str, Sequence[str]] = {
    "": ("",),
    "number": ("Print the number only.", "Print only the number."),
    "text": ("Print nothing else.", "Print only that."),
    "paths": (
        "Print only absolute paths, one per line, in any order.",
        "Print absolute paths only, one per line, in any order.",
    ),
    "names": ("Print the names only, without folders, one per line, in any order.",),
}
"""The sentences that say what the answer looks like."""


def fill(text: str, parameters: Parameters) -> str:
    """Return the text with each <NAME> replaced. Raises `KeyError` for a name without a value."""
    return re.sub(r"<([a-z]\w*)>", lambda match: str(parameters[match[1]]), text)


def with_placeholders(text: str, parameters: Parameters) -> str:
    """Return the text with <NAME> for each longer value of a parameter, to count texts alike."""
    values = {str(value): name for name, value in parameters.items() if len(str(value)) > 1}
    known = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
    return re.sub(
        rf"\b(?:{known})\b|(?<![\w/])(?:{known})\b", lambda match: f"<{values[match[0]]}>", text
    )
