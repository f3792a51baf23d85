"""The random draws of one split, and the words that they draw from.

Test tasks differ from training tasks in words and numbers: `Draw` keeps the last fifth of every
list and range for the test split.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

Split = Literal["train", "test"]
Parameters = dict[str, Any]
Item = TypeVar("Item")


@cache
def read_toml(name: str) -> Mapping[str, Any]:
    """Return the content of NAME.toml in this package's folder."""
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))


_WORDS = {name: words.split() for name, words in read_toml("words").items()}
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


class Draw(random.Random):
    """Random numbers for one split. Values that `word`, `words`, `number`, `limit` and `sites`
    draw for one split are never drawn for the other."""

    def __init__(self, seed: str, split: Split, *, real: bool = False) -> None:
        """`real`: words and paths are like those of a project, a server or a company."""
        super().__init__(f"{seed} {split}")
        self.split: Split = split
        self.real = real
        self._words = {
            name: self.part(_WORDS[f"real_{name}" if real else name])
            for name in ("nouns", "people", "towns")
        }

    def nouns(self, count: int) -> list[str]:
        """Return different words in lower case, in random order; likewise `people`, `towns`."""
        return self.sample(self._words["nouns"], count)

    def people(self, count: int) -> list[str]:
        return self.sample(self._words["people"], count)

    def towns(self, count: int) -> list[str]:
        return self.sample(self._words["towns"], count)

    def line(self, often: Sequence[str] = ()) -> str:
        """Return a line of text, with the words `often` among others."""
        words = self._words["nouns"]
        drawn = [
            self.choice(often if often and self.random() < 0.4 else words)
            for _ in range(self.randint(2, 9))
        ]
        if not self.real:
            return " ".join(drawn)
        return self.choice(_PHRASES).format(*drawn, *drawn)

    def home(self, plain: str) -> str:
        """Return the folder of places: the plain one, or one where people have such things."""
        return f"/{self.choice(_WORDS['real_roots'])}" if self.real else f"/{plain}"

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
        """Yield different names of places: over 16,000 for training, 4,000 for the test split."""
        kind = "real_" if self.real else ""
        firsts, seconds = self.part(_WORDS[f"{kind}sites"]), _WORDS[f"{kind}kinds"]
        names = [f"{first}-{second}" for first in firsts for second in seconds]
        yield from self.sample(names, len(names))
        yield from (f"{name}-{second}" for second in seconds for name in names)
