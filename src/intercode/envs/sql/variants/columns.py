"""New values for one column: of the same type, range and format as the old values.

    '2019-03-31' ──► 43188 ──► a few steps on, or to a literal's boundary ──► '2019-04-02'

Numbers, days and times, also those written as text, lie on a scale of whole steps (`Scale`), on which a value can be moved.
Values on no scale, and those of a column with few distinct ones, only change among the values that the column has. No text is
invented except keys, which follow the pattern of an old key. Left out: days in other formats than ISO's, and times of day.
"""

from __future__ import annotations

import datetime
import itertools
import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from random import Random

Literal = str | int | float

_WHOLE = re.compile(r"-?\d{1,15}")
_POINT = re.compile(r"-?\d{1,12}\.\d{1,6}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_MOSTLY = 0.9
_FEW = 12
_EPOCH = datetime.datetime(1, 1, 1)
_SECOND = datetime.timedelta(seconds=1)
_DIGITS_OF_FLOATS = 4
_TRIES = 60
_SEARCHED = 5000
"""Distinct texts of a column that are searched for a literal, as LIKE does."""


@dataclass(frozen=True)
class Scale:
    """Values as whole numbers: `step` returns None for a value that is not on the scale, `value` goes back."""

    step: Callable[[object], int | None]
    value: Callable[[int], object]
    unit: int = 1
    """Steps of one natural unit: 86,400 for times, 100 for an amount with two decimals."""


def plain(value: object) -> object:
    """Return a value as it is compared with a literal: texts without case, numbers as floats, days as ISO text."""
    if isinstance(value, str):
        text = value.strip().casefold()
        return float(text) if _WHOLE.fullmatch(text) or _POINT.fullmatch(text) else text
    if isinstance(value, bool | int | float | Decimal):
        return float(value)
    return value.isoformat(*(" ",) * isinstance(value, datetime.datetime)) if isinstance(value, datetime.date) else value


class Column:
    """The values of a column. `named`: those that a literal names in whole or in part; `few`: as in an enumeration (a flag, a
    code, a rating); `labels`: texts, each of one row; `edges`: the steps of literals within the range, at which `<` and `<=`
    differ."""

    def __init__(self, values: Sequence[object], literals: Collection[Literal]) -> None:
        present = [value for value in values if value is not None]
        self.counts = Counter(present)
        self.missing = len(values) - len(present)
        self.distinct = sorted(self.counts, key=repr)
        self.named = _named(self.distinct, literals)
        distinct = len(self.counts)
        self.few = (distinct <= 2 < len(present)) or (distinct <= _FEW and 4 * distinct <= len(present))
        self.scale = scale = None if self.few else _scale(self.distinct)
        self.labels = len(self.distinct) == len(present) and bool(present) and all(isinstance(one, str) for one in present)
        self._present, self._sorted_named = present, sorted(self.named, key=repr)
        self._unnamed = [value for value in self.distinct if value not in self.named]
        steps = {scale.step(value) for value in self.distinct} if scale else set()
        self._steps = sorted(step for step in steps if step is not None)
        edges = {_literal_step(scale, literal) for literal in literals} if scale and self._steps else set()
        self.edges = sorted(step for step in edges if step is not None and self._steps[0] <= step <= self._steps[-1])
        whole = [one for one in self.distinct if isinstance(one, int)]
        self._whole = 0 < len(whole) == len(self.distinct)
        self._beyond = itertools.count(max(self._steps[-1:] or whole, default=0) + 1)

    def other(self, rng: Random, old: object) -> object:
        """Return a value that the column may hold, most often not the old one."""
        if not self._present:
            return old
        step = self.scale.step(old) if self.scale and old is not None else None
        chance = rng.random()
        if self.edges and chance < 0.35:
            return self.value_at(rng.choice(self.edges) + rng.choice((-1, 0, 0, 1)))
        if self.scale and step is not None and chance < 0.65:
            span = self._steps[-1] - self._steps[0]
            size = rng.randint(1, max(span // 8, 1)) if rng.random() < 0.6 else self.scale.unit
            return self.value_at(step + (size if step - size < self._steps[0] or rng.random() < 0.5 else -size))
        if self.labels and self._unnamed:
            return rng.choice(self._unnamed)
        if self._sorted_named and chance > 0.85:
            return rng.choice(self._sorted_named)
        return rng.choice(self.distinct) if self.few else rng.choice(self._present)

    def is_named_once(self, value: object) -> bool:
        """Tell whether a literal names the value, and only one row has it."""
        return value in self.named and self.counts[value] == 1

    def extremes(self) -> list[object]:
        """Return the least and the greatest value of a column on a scale; none if there are few values."""
        if self.scale is None or len(self._steps) < 4 or self._steps[-1] - self._steps[0] < 4:
            return []
        ends = {self._steps[0], self._steps[-1]}
        return [value for value in self.distinct if self.scale.step(value) in ends]

    def inner(self, rng: Random) -> object:
        """Return a value between the least and the greatest, and not close to them."""
        low, high = self._steps[0], self._steps[-1]
        margin = max((high - low) // 8, 1)
        return self.value_at(rng.randint(low + margin, max(high - margin, low + margin)))

    def new_extreme(self, rng: Random, old: object) -> object:
        """Return a value that takes the place of the least or the greatest."""
        low, high = self._steps[0], self._steps[-1]
        step = rng.randint(1, max((high - low) // 16, 1))
        return self.value_at(low + step if self.scale and self.scale.step(old) == low else high - step)

    def unused(self, rng: Random, taken: Collection[object]) -> object | None:
        """Return a new key in the pattern of the old keys; None if none was found."""
        if self._whole:
            return next(self._beyond)
        for number in range(_TRIES if self._present else 0):
            old = rng.choice(self._present)
            if self.scale is None or self.scale.step(old) is None:
                new = _respell(rng, old)
            else:
                step = next(self._beyond) if number > _TRIES // 2 else rng.randint(self._steps[0], self._steps[-1])
                try:
                    new = self.scale.value(step)
                except (OverflowError, ValueError):  # beyond the last day
                    new = None
            if new is not None and new not in taken:
                return new
        return None

    def value_at(self, step: int) -> object:
        assert self.scale is not None
        return self.scale.value(min(max(step, self._steps[0]), self._steps[-1]))


def _named(distinct: Iterable[object], literals: Collection[Literal]) -> set[object]:
    words = {plain(literal) for literal in literals}
    exact = {value for value in distinct if plain(value) in words}
    parts = [part for part in words if isinstance(part, str) and len(part) > 1]
    texts = [value for value in distinct if isinstance(value, str) and value not in exact][:_SEARCHED]
    return exact | {text for text in texts if any(part in text.casefold() for part in parts)}


def _respell(rng: Random, old: object) -> object | None:
    """Change one or two letters or digits of a text, each to another of its kind."""
    if not isinstance(old, str):
        return None
    letters = list(old)
    changeable = [number for number, letter in enumerate(letters) if letter.isascii() and letter.isalnum()]
    if not changeable:
        return None
    for number in rng.sample(changeable, min(len(changeable), rng.choice((1, 2)))):
        kinds = (string.digits, string.ascii_lowercase, string.ascii_uppercase)
        letters[number] = rng.choice(next(kind for kind in kinds if letters[number] in kind))
    return "".join(letters)


# -- scales -------------------------------------------------------------------------------------------------------------


def _scale(values: Sequence[object]) -> Scale | None:
    if not values:
        return None
    kind = Counter(map(type, values)).most_common(1)[0][0]
    if kind is str:
        return _text_scale([value for value in values if isinstance(value, str)])
    if kind is int or kind is float:
        floats = [repr(value) for value in values if isinstance(value, float)]
        if not floats:
            return Scale(lambda value: value if isinstance(value, int) else None, lambda step: step)
        decimals = ["" if "e" in text or "n" in text else text.partition(".")[2] for text in floats]
        digits = min(max(0 if part == "0" else len(part) for part in decimals), _DIGITS_OF_FLOATS)
        return Scale(lambda value: _scaled(value, digits), lambda step: round(step / 10**digits, digits), 10**digits)
    if kind is Decimal:
        exponents = [value.as_tuple().exponent for value in values if isinstance(value, Decimal)]
        digits = max(-exponent if isinstance(exponent, int) else 0 for exponent in exponents)
        return Scale(lambda value: _scaled(value, digits), lambda step: Decimal(step).scaleb(-digits), 10**digits)
    if kind is datetime.date:
        return Scale(lambda value: value.toordinal() if isinstance(value, datetime.date) else None, datetime.date.fromordinal)
    if kind is datetime.datetime:
        return Scale(_second, lambda step: _EPOCH + datetime.timedelta(seconds=step), 86_400)
    return None


def _text_scale(texts: Sequence[str]) -> Scale | None:
    """Return a scale for texts if nine in ten are written alike."""

    def mostly(pattern: re.Pattern[str]) -> bool:
        return sum(1 for text in texts if pattern.fullmatch(text)) >= _MOSTLY * len(texts)

    if mostly(_WHOLE):
        width = max(map(len, texts)) if any(text[0] == "0" and len(text) > 1 for text in texts if text) else 0
        return Scale(partial(_written, (_WHOLE,), int), lambda step: str(step).zfill(width))
    if mostly(_POINT):
        digits = max(len(text.partition(".")[2]) for text in texts if _POINT.fullmatch(text))
        whole = partial(_written, (_POINT, _WHOLE), lambda text: int(Decimal(text).scaleb(digits)))
        return Scale(whole, lambda step: f"{Decimal(step).scaleb(-digits):f}", 10**digits)
    if mostly(_DAY):
        return Scale(_written_day, lambda step: datetime.date.fromordinal(step).isoformat())
    if mostly(_TIME):
        mark, second = texts[0][10], partial(_written, (_TIME,), lambda text: _second(datetime.datetime.fromisoformat(text)))
        return Scale(second, lambda step: (_EPOCH + datetime.timedelta(seconds=step)).isoformat(mark), 86_400)
    return None


def _written(patterns: Collection[re.Pattern[str]], parse: Callable[[str], int | None], value: object) -> int | None:
    """Return what `parse` makes of a text in one of the patterns; None for other values, and for a day that is none."""
    try:
        return parse(value) if isinstance(value, str) and any(pattern.fullmatch(value) for pattern in patterns) else None
    except ValueError:
        return None


def _scaled(value: object, digits: int) -> int | None:
    if isinstance(value, float) and not abs(value) < 1e15:
        return None
    return round(Decimal(value).scaleb(digits)) if isinstance(value, int | float | Decimal) else None


def _second(value: object) -> int | None:
    return (value - _EPOCH) // _SECOND if isinstance(value, datetime.datetime) else None


def _written_day(value: object) -> int | None:
    return _written((_DAY,), lambda text: datetime.date.fromisoformat(text).toordinal(), value)


def _literal_step(scale: Scale, literal: Literal) -> int | None:
    """Return a literal's step, in whatever type it was written: the first form of it that is on the scale."""
    forms: list[object] = [literal, str(literal)]
    text = str(literal)
    if _WHOLE.fullmatch(text) or _POINT.fullmatch(text):
        forms += [int(text)] if _WHOLE.fullmatch(text) else [float(text)]
    elif _DAY.match(text):
        day = _written_day(text[:10])
        forms += [] if day is None else [_EPOCH + datetime.timedelta(days=day - 1), datetime.date.fromordinal(day)]
    steps = (scale.step(form) for form in forms if not isinstance(form, datetime.datetime) or scale.step is _second)
    return next((step for step in steps if step is not None), None)
