"""The random draws of one split, and the words that they draw from.

Test tasks differ from training tasks in words and numbers: `Draw` keeps the last fifth of every
list and range for the test split.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeVar

Split = Literal["train", "test"]
Parameters = dict[str, Any]
Texts = Sequence[str]
Item = TypeVar("Item")


@cache
def read_toml(name: str) -> Mapping[str, Any]:
    """Return the content of NAME.toml in this package's folder."""
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))


def word_lists(table: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the words of each text in a table, by its key."""
    return {key: text.split() for key, text in table.items() if isinstance(text, str)}


WORDS = word_lists(read_toml("words"))
_PHRASES = [
    "{} and {} have to be checked before the next {}.",
    "The {} of the {} was moved to another {}.",
    "TODO: test the {} with an empty {}",
    "{} {} is down since the last {}",
    "Ask the owner of the {} about the {}.",
    "- remove the old {} from the {}",
    "{}: {} {}",
    "We need a {} for each {}.",
    "the {} waits for the {}",
    "{} {}",
]


def as_text(lines: Iterable[object]) -> str:
    """Return a text with one line for each item."""
    return "".join(f"{line}\n" for line in lines)


def among(items: Iterable[Item], pool: Container[object]) -> list[Item]:
    """Return the items that are in the pool."""
    return [item for item in items if item in pool]


def without(items: Iterable[Item], pool: Container[object]) -> list[Item]:
    """Return the items that are not in the pool."""
    return [item for item in items if item not in pool]


def of_type(kind: type[Item], values: Iterable[object]) -> list[Item]:
    """Return the values of a type."""
    return [value for value in values if isinstance(value, kind)]


def middle(values: Iterable[Any], part: int) -> list[int]:
    """Return the values without the lowest and the highest third, fifth or other part."""
    ordered = sorted(values)
    cut = len(ordered) // part
    return ordered[cut : len(ordered) - cut]


class Draw(random.Random):
    """Random numbers for one split. Values that `word`, `words`, `number`, `limit` and `sites`
    draw for one split are never drawn for the other."""

    def __init__(self, seed: str, split: Split, *, real: bool = False) -> None:
        """`real`: words and paths are like those of a project, a server or a company."""
        super().__init__(f"{seed} {split}")
        self.split: Split = split
        self.real = real
        self._kind = "real_" if real else ""
        self._words = {}
        for name in ("nouns", "people", "towns"):
            self._words[name] = self.part(WORDS[self._kind + name])

    def nouns(self, count: int) -> list[str]:
        """Return different words in lower case, in random order; likewise `people`, `towns`."""
        return self.sample(self._words["nouns"], count)

    def people(self, count: int) -> list[str]:
        return self.sample(self._words["people"], count)

    def nickname(self) -> str:
        """Return the name of a person in lower case."""
        return self.people(1)[0].lower()

    def towns(self, count: int) -> list[str]:
        return self.sample(self._words["towns"], count)

    def folders(self, count: int) -> list[str]:
        """Return different names of folders: towns in lower case."""
        return [*map(str.lower, self.towns(count))]

    def shuffled(self, items: Iterable[Item]) -> list[Item]:
        items = list(items)
        return self.sample(items, len(items))

    def line(self, often: Texts = ()) -> str:
        """Return a line of text, with the words `often` among others."""
        drawn = []
        for _ in range(self.randint(2, 9)):
            pool = self._words["nouns"]
            if often and self.random() < 0.4:
                pool = often
            drawn.append(self.choice(pool))
        if self.real:
            return self.choice(_PHRASES).format(*drawn, *drawn)
        return " ".join(drawn)

    def text(self, count: int, often: Texts = ()) -> str:
        """Return a text of so many lines, see `line`."""
        return as_text(self.line(often) for _ in range(count))

    def values(self, name: str, pools: Mapping[str, Any]) -> Parameters:
        """Return the values of a table in `draws.toml`, drawn in its order. Each text names a
        method and its arguments: numbers, or lists that `pools` has."""
        values: Parameters = {}
        for key, text in read_toml("draws")[name].items():
            method, *words = text.split()
            arguments = [pools[word] if word in pools else int(word) for word in words]
            values[key] = getattr(self, method)(*arguments)
        return values

    def home(self, plain: str, name: str) -> str:
        """Return the path of a place: in the plain folder, or in one where people have such
        things."""
        if self.real:
            plain = self.choice(WORDS["real_roots"])
        return f"/{plain}/{name}"

    def part(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return this split's part of a list: the last fifth for the test split, else the rest."""
        cut = len(items) * 4 // 5
        if self.split == "test":
            return items[cut:]
        return items[:cut]

    def word(self, items: Sequence[Item]) -> Item:
        return self.choice(self.part(items))

    def words(self, items: Sequence[Item], count: int) -> list[Item]:
        """Return different items in random order."""
        return self.sample(self.part(items), count)

    def number(self, low: int, high: int) -> int:
        """Return a number from low to high: from the upper fifth of the range for the test split,
        else from below it."""
        cut = low + (high - low) * 4 // 5
        if self.split == "test":
            return self.randint(cut + 1, high)
        return self.randint(low, cut)

    def limit(self, values: Iterable[int]) -> int:
        """Return one of the values (0 if there are none) or, less often, a number next to one.
        For the test split it leaves 4 when it is divided by 5, else it does not, so that both
        splits have limits from the whole range."""
        values = list(values) or [0]
        near = list[int]()
        for value in values:
            near += (value - 2, value - 1, value + 1, value + 2)
        exact, near = list(filter(self._fits, values)), list(filter(self._fits, near))
        if near and self.random() < 0.2:
            return self.choice(near)
        return self.choice(exact or near)

    def _fits(self, number: int) -> bool:
        return (number % 5 == 4) is (self.split == "test")

    def sites(self) -> Iterator[str]:
        """Yield different names of places: over 16,000 for training, 4,000 for the test split."""
        seconds = WORDS[f"{self._kind}kinds"]
        names = [*map("-".join, product(self.part(WORDS[f"{self._kind}sites"]), seconds))]
        yield from self.shuffled(names)
        for second, name in product(seconds, names):
            yield f"{name}-{second}"
