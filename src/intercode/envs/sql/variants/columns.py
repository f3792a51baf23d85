"""New values for one column, with the same type, range and format as the old values.

    '2019-03-31' ──► 43188 ──► a few steps away, or to a literal's boundary ──► '2019-04-02'

Numbers, days and times, also those written as text, lie on a scale of whole steps (`Scale`), on
which a value can be moved. Values that are not on a scale, and values in a column with few distinct
ones, are replaced only by values that occur in the column. No text is invented except keys, which
follow the pattern of an old key. Left out: days in formats other than ISO, and times of day.
"""

from __future__ import annotations

import calendar
import contextlib
import itertools
import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

Literal = str | int | float

_NUMBER = re.compile(r"-?\d{1,15}|-?\d{1,12}\.\d{1,6}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_NUMBERS = (int, float, Decimal)
_MOSTLY = 0.9
_FEW = 12
_EPOCH = datetime(1970, 1, 1)
_MOST_DIGITS = 4
"""The most decimals of new values."""
_TRIES = 60
_SEARCHED = 5000
"""The most distinct texts of a column that are searched for a literal, as LIKE does."""


@dataclass(frozen=True)
class Scale:
    """Values as whole numbers. `count` returns the step of a value of one of the `kinds`, or None
    if it is not on the scale; `value` is the inverse."""

    kinds: tuple[type, ...]
    count: Callable[[Any], int | None]
    value: Callable[[int], object]
    unit: int = 1
    """Steps of one natural unit: 86,400 for times, 100 for an amount with two decimals."""

    def step(self, value: object) -> int | None:
        natural = _natural(value)
        if isinstance(natural, self.kinds):
            return self.count(natural)
        return None

    def steps(self, values: Iterable[object]) -> list[int]:
        """Return the different steps of those values that are on the scale, in order."""
        steps = {self.step(value) for value in values}
        return sorted(step for step in steps if step is not None)


def plain(value: object) -> object:
    """Return a value in the form for comparison with literals: texts casefolded, numbers as floats,
    days as ISO text."""
    if isinstance(value, str):
        value = value.strip().casefold()
    natural = _natural(value)
    if isinstance(natural, _NUMBERS):
        return float(natural)
    if isinstance(natural, date):
        return str(natural)
    return natural


class Column:
    """The values of a column. `named`: values that a literal equals or is contained in; `few`: few
    distinct values, as in an enumeration (a flag, a code, a rating); `labels`: all values are
    texts, each in one row; `edges`: the steps of literals in range, where `<` and `<=` differ."""

    def __init__(self, values: Sequence[object], literals: Collection[Literal]) -> None:
        self._present = present = [value for value in values if value is not None]
        self.counts = Counter(present)
        self.missing = len(values) > len(present)
        self.distinct = sorted(self.counts, key=repr)
        words = {plain(literal) for literal in literals}
        parts = [part for part in words if isinstance(part, str) and len(part) > 1]
        self.named = set()
        searched = 0
        for value in self.distinct:
            if plain(value) in words:
                self.named.add(value)
            elif isinstance(value, str) and searched < _SEARCHED:
                searched += 1
                text = value.casefold()
                if any(part in text for part in parts):
                    self.named.add(value)
        self._sorted_named = sorted(self.named, key=repr)
        self._unnamed = [value for value in self.distinct if value not in self.named]
        self.few = len(self.counts) <= 2 < len(present)
        self.few |= len(self.counts) <= min(_FEW, len(present) / 4)
        self.labels = len(self.distinct) == len(present) and {*map(type, present)} == {str}
        self._taken = set(self.distinct)
        self.scale = None if self.few else _scale(self.distinct)
        self._steps = []
        self.edges = []
        if self.scale and (steps := self.scale.steps(self.distinct)):
            self._steps = steps
            for step in self.scale.steps(literals):
                if steps[0] <= step <= steps[-1]:
                    self.edges.append(step)
        whole = [value for value in self.distinct if isinstance(value, int)]
        self._whole = 0 < len(whole) == len(self.distinct)
        self._beyond = itertools.count(max(self._steps[-1:] or whole, default=0) + 1)

    def other(self, rng: Random, old: object) -> object:
        """Return a value that the column may contain, usually not the old one."""
        if not self._present:
            return old
        chance = rng.random()
        if self.edges and chance < 0.35:
            return self._value_at(rng.choice(self.edges) + rng.choice((-1, 0, 0, 1)))
        if self.scale and chance < 0.65 and (step := self.scale.step(old)) is not None:
            change = self.scale.unit
            if rng.random() < 0.6:
                change = rng.randint(1, max((self._steps[-1] - self._steps[0]) // 8, 1))
            if step - change >= self._steps[0] and rng.random() >= 0.5:
                change = -change
            return self._value_at(step + change)
        if self.labels and self._unnamed:
            return rng.choice(self._unnamed)
        if self._sorted_named and chance > 0.85:
            return rng.choice(self._sorted_named)
        return rng.choice(self.distinct if self.few else self._present)

    def is_named_once(self, value: object) -> bool:
        """Return whether a literal names the value and only one row has it."""
        return value in self.named and self.counts[value] == 1

    def unused(self, rng: Random) -> object | None:
        """Return a new key in the pattern of the old keys; None if none was found."""
        if self._whole:
            return next(self._beyond)
        if not self._present:
            return None
        for number in range(_TRIES):
            old = rng.choice(self._present)
            if self.scale is None or self.scale.step(old) is None:
                new = _respell(rng, old)
            else:
                if number > _TRIES // 2:
                    step = next(self._beyond)
                else:
                    step = rng.randint(self._steps[0], self._steps[-1])
                try:
                    new = self.scale.value(step)
                except (OverflowError, ValueError):  # beyond the last representable day
                    continue
            if new is not None and new not in self._taken:
                self._taken.add(new)
                return new
        return None

    def _value_at(self, step: int) -> object:
        assert self.scale
        return self.scale.value(min(max(step, self._steps[0]), self._steps[-1]))


def _respell(rng: Random, old: object) -> object | None:
    """Change one or two letters or digits in a text, each to one of the same kind."""
    if not isinstance(old, str):
        return None
    letters = [*old]
    changeable = [match.start() for match in re.finditer("[0-9A-Za-z]", old)]
    if not changeable:
        return None
    for number in rng.sample(changeable, min(len(changeable), rng.choice((1, 2)))):
        kinds = (string.digits, string.ascii_lowercase, string.ascii_uppercase)
        letters[number] = rng.choice(next(kind for kind in kinds if letters[number] in kind))
    return "".join(letters)


# -- scales ----------------------------------------------------------------------------------------


def _natural(value: object) -> object:
    """Return the number, day or time that a text represents; other values unchanged."""
    if not isinstance(value, str):
        return value
    if _NUMBER.fullmatch(value):
        return Decimal(value) if "." in value else int(value)
    with contextlib.suppress(ValueError):  # the thirtieth of February
        if _DAY.fullmatch(value):
            return date.fromisoformat(value)
        if _TIME.fullmatch(value):
            return datetime.fromisoformat(value)
    return value


def _scale(values: Sequence[object]) -> Scale | None:
    """Return a scale if 90 % of the values are numbers, days or times. New values are texts if most
    old values are."""
    natural = [*map(_natural, values)]
    texts = [value for value in values if isinstance(value, str)]
    counts, least, width = Counter(map(type, natural)), max(_MOSTLY * len(values), 1), 0

    def write(value: object) -> object:
        return str(value).zfill(width) if 2 * len(texts) > len(values) else value

    if counts[date] >= least:
        return Scale((date,), date.toordinal, lambda step: write(date.fromordinal(step)))
    if counts[datetime] >= least:
        return Scale(
            (date,),
            lambda moment: calendar.timegm(moment.timetuple()),
            lambda step: write(_EPOCH + timedelta(seconds=step)),
            86_400,
        )
    if counts[int] + counts[float] + counts[Decimal] < least:
        return None
    kind = next(kind for kind in (Decimal, float, int) if counts[kind])
    digits = 0
    for number in natural:
        decimals = str(number).partition(".")[2]
        if isinstance(number, _NUMBERS) and decimals != "0" and "e" not in decimals:
            digits = max(digits, min(len(decimals), _MOST_DIGITS))
    if not digits and any(text[:1] == "0" != text for text in texts):
        width = max(map(len, texts))

    def count(number: int | float | Decimal) -> int | None:
        # a literal such as 100.0 in a percentage is not on a scale of whole numbers
        if abs(float(number)) < 1e15 and not (kind is int and isinstance(number, float)):
            return round(Decimal(number).scaleb(digits))
        return None

    return Scale(
        _NUMBERS, count, lambda step: write(kind(Decimal(step).scaleb(-digits))), 10**digits
    )
