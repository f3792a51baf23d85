"""New values for one column, with the same type, range and format as the old values.

    '2019-03-31' ──► 43188 ──► a few steps away, or to a literal's boundary ──► '2019-04-02'

Numbers, days and times, also those written as text, lie on a scale of whole steps (`Scale`), on
which a value can be moved. Values that are not on a scale, and values in a column with few distinct
ones, are replaced only by values that occur in the column. No text is invented except keys, which
follow the pattern of an old key. Left out: days in formats other than ISO, and times of day.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random

Literal = str | int | float

_NUMBER = re.compile(r"-?\d{1,15}|-?\d{1,12}\.\d{1,6}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_MOSTLY = 0.9
_FEW = 12
_EPOCH = datetime.datetime(1, 1, 1)
_MOST_DIGITS = 4
"""The most decimals of new values."""
_TRIES = 60
_SEARCHED = 5000
"""The most distinct texts of a column that are searched for a literal, as LIKE does."""


@dataclass(frozen=True)
class Scale:
    """Values as whole numbers: `step` returns None for a value that is not on the scale; `value` is
    the inverse."""

    step: Callable[[object], int | None]
    value: Callable[[int], object]
    unit: int = 1
    """Steps of one natural unit: 86,400 for times, 100 for an amount with two decimals."""


def plain(value: object) -> object:
    """Return a value in the form for comparison with literals: texts casefolded, numbers as floats,
    days as ISO text."""
    natural = _natural(value.strip().casefold() if isinstance(value, str) else value)
    if isinstance(natural, int | float | Decimal):
        return float(natural)
    return str(natural) if isinstance(natural, datetime.date) else natural


class Column:
    """The values of a column. `named`: values that a literal equals or is contained in; `few`: few
    distinct values, as in an enumeration (a flag, a code, a rating); `labels`: all values are
    texts, each in one row; `edges`: the steps of literals in range, where `<` and `<=` differ."""

    def __init__(self, values: Sequence[object], literals: Collection[Literal]) -> None:
        present = [value for value in values if value is not None]
        self.counts = Counter(present)
        self.missing = len(values) - len(present)
        self.distinct = sorted(self.counts, key=repr)
        words = {plain(literal) for literal in literals}
        parts = [part for part in words if isinstance(part, str) and len(part) > 1]
        self.named = {value for value in self.distinct if plain(value) in words}
        texts = [
            value for value in self.distinct if isinstance(value, str) and value not in self.named
        ][:_SEARCHED]
        self.named |= {text for text in texts if any(part in text.casefold() for part in parts)}
        self.few = len(self.counts) <= 2 < len(present) or len(self.counts) <= min(
            _FEW, len(present) / 4
        )
        self.scale = scale = None if self.few else _scale(self.distinct)
        self.labels = (
            len(self.distinct) == len(present)
            and bool(present)
            and all(isinstance(value, str) for value in present)
        )
        self._taken = set(self.distinct)
        self._present, self._sorted_named = present, sorted(self.named, key=repr)
        self._unnamed = [value for value in self.distinct if value not in self.named]
        steps = {scale.step(value) for value in self.distinct} if scale else set()
        self._steps = sorted(step for step in steps if step is not None)
        edges = {scale.step(literal) for literal in literals} if scale and self._steps else set()
        self.edges = sorted(
            step for step in edges if step is not None and self._steps[0] <= step <= self._steps[-1]
        )
        whole = [value for value in self.distinct if isinstance(value, int)]
        self._whole = 0 < len(whole) == len(self.distinct)
        self._beyond = itertools.count(max(self._steps[-1:] or whole, default=0) + 1)

    def other(self, rng: Random, old: object) -> object:
        """Return a value that the column may contain, usually not the old one."""
        if not self._present:
            return old
        step = self.scale.step(old) if self.scale and old is not None else None
        chance = rng.random()
        if self.edges and chance < 0.35:
            return self.value_at(rng.choice(self.edges) + rng.choice((-1, 0, 0, 1)))
        if self.scale and step is not None and chance < 0.65:
            span = self._steps[-1] - self._steps[0]
            size = rng.randint(1, max(span // 8, 1)) if rng.random() < 0.6 else self.scale.unit
            return self.value_at(
                step + (size if step - size < self._steps[0] or rng.random() < 0.5 else -size)
            )
        if self.labels and self._unnamed:
            return rng.choice(self._unnamed)
        if self._sorted_named and chance > 0.85:
            return rng.choice(self._sorted_named)
        return rng.choice(self.distinct) if self.few else rng.choice(self._present)

    def is_named_once(self, value: object) -> bool:
        """Return whether a literal names the value and only one row has it."""
        return value in self.named and self.counts[value] == 1

    def unused(self, rng: Random) -> object | None:
        """Return a new key in the pattern of the old keys; None if none was found."""
        if self._whole:
            return next(self._beyond)
        for number in range(_TRIES if self._present else 0):
            old = rng.choice(self._present)
            if self.scale is None or self.scale.step(old) is None:
                new = _respell(rng, old)
            else:
                step = (
                    next(self._beyond)
                    if number > _TRIES // 2
                    else rng.randint(self._steps[0], self._steps[-1])
                )
                try:
                    new = self.scale.value(step)
                except (OverflowError, ValueError):  # beyond the last representable day
                    new = None
            if new is not None and new not in self._taken:
                self._taken.add(new)
                return new
        return None

    def value_at(self, step: int) -> object:
        assert self.scale is not None
        return self.scale.value(min(max(step, self._steps[0]), self._steps[-1]))


def _respell(rng: Random, old: object) -> object | None:
    """Change one or two letters or digits in a text, each to one of the same kind."""
    letters = list(old) if isinstance(old, str) else []
    changeable = [
        number for number, letter in enumerate(letters) if letter.isascii() and letter.isalnum()
    ]
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
            return datetime.date.fromisoformat(value)
        if _TIME.fullmatch(value):
            return datetime.datetime.fromisoformat(value)
    return value


def _scale(values: Sequence[object]) -> Scale | None:
    """Return a scale if 90 % of the values are numbers, days or times. New values are texts if most
    old values are."""
    natural = [_natural(value) for value in values]
    texts = [value for value in values if isinstance(value, str)]
    as_text = 2 * len(texts) > len(values)

    def mostly(*kinds: type) -> bool:
        return sum(type(value) in kinds for value in natural) >= max(_MOSTLY * len(values), 1)

    def write(value: object) -> object:
        return str(value).zfill(width) if as_text else value

    width = 0
    if mostly(datetime.date):
        return Scale(_day, lambda step: write(datetime.date.fromordinal(step)))
    if mostly(datetime.datetime):
        return Scale(_second, lambda step: write(_EPOCH + datetime.timedelta(seconds=step)), 86_400)
    if not mostly(int, float, Decimal):
        return None
    numbers = [value for value in natural if isinstance(value, int | float | Decimal)]
    kind = next((kind for kind in (Decimal, float) if kind in map(type, numbers)), int)
    decimals = ["" if "e" in str(value) else str(value).partition(".")[2] for value in numbers]
    digits = max(0 if part == "0" else min(len(part), _MOST_DIGITS) for part in decimals)
    if not digits and any(text[0] == "0" and len(text) > 1 for text in texts if text):
        width = max(map(len, texts))

    def step(value: object) -> int | None:
        number = _natural(value)
        if not isinstance(number, int | float | Decimal) or not abs(float(number)) < 1e15:
            return None
        # a literal such as 100.0 in a percentage is not on a scale of whole numbers
        factor = kind is int and isinstance(number, float)
        return None if factor else round(Decimal(number).scaleb(digits))

    return Scale(step, lambda step: write(kind(Decimal(step).scaleb(-digits))), 10**digits)


def _day(value: object) -> int | None:
    day = _natural(value)
    return day.toordinal() if isinstance(day, datetime.date) else None


def _second(value: object) -> int | None:
    moment = _natural(value)
    if isinstance(moment, datetime.date) and not isinstance(moment, datetime.datetime):
        moment = datetime.datetime.combine(moment, datetime.time())
    return (
        (moment - _EPOCH) // datetime.timedelta(seconds=1)
        if isinstance(moment, datetime.datetime)
        else None
    )
