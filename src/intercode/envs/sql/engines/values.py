"""New values for one column: of the same type, range and format as the old ones.

    '2019-03-31' ──► 43188 ──► a few steps on, or to the edge of a literal ──► '2019-04-02'

Numbers, days and times, also those written as text, lie on a line of whole steps (`Line`), on which a value can be moved. What
lies on no line, and a column with few distinct values, only changes among the values that it has. No text is ever invented but
for keys, which follow the pattern of an old one. Left out: days in other formats than ISO's, and times of day.
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
from random import Random

Literal = str | int | float

_WHOLE = re.compile(r"-?\d{1,15}")
_POINT = re.compile(r"-?\d{1,12}\.\d{1,6}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_MOSTLY = 0.9
_FEW = 12
_EPOCH = datetime.datetime(1, 1, 1)
_STEP = datetime.timedelta(seconds=1)
_STEPS_OF_FLOATS = 4
_TRIES = 60
_SEARCHED = 5000
"""Distinct texts of a column in which parts are looked for, as LIKE does."""


@dataclass(frozen=True)
class Line:
    """Values as whole numbers: `place` gives None for one that is not on the line, `value` goes back."""

    place: Callable[[object], int | None]
    value: Callable[[int], object]
    day: int = 1
    """Steps of one natural unit: 86,400 for times, 100 for an amount with two decimals."""


def plain(value: object) -> object:
    """A value as it is compared with a literal: texts without case, numbers in whatever type they come, days as ISO text."""
    if isinstance(value, str):
        text = value.strip().casefold()
        return float(text) if _WHOLE.fullmatch(text) or _POINT.fullmatch(text) else text
    if isinstance(value, bool | int | float | Decimal):
        return float(value)
    return value.isoformat(*(" ",) * isinstance(value, datetime.datetime)) if isinstance(value, datetime.date) else value


class Column:
    """What is known of a column's values. `held`: those that a literal names, or a part of which it names."""

    def __init__(self, values: Sequence[object], literals: Collection[Literal]) -> None:
        present = [value for value in values if value is not None]
        self.counts = Counter(present)
        self.missing = len(values) - len(present)
        self.distinct = sorted(self.counts, key=repr)
        self.held = _held(self.distinct, literals)
        distinct = len(self.counts)  # few as in an enumeration: a flag, a code, a rating
        self.few = (distinct <= 2 < len(present)) or (distinct <= _FEW and 4 * distinct <= len(present))
        self.line = None if self.few else _line(self.distinct)
        self.names = len(self.distinct) == len(present) and bool(present) and all(isinstance(one, str) for one in present)
        self._present, self._sorted_held = present, sorted(self.held, key=repr)
        self._unnamed = [value for value in self.distinct if value not in self.held]
        self._places = _places(self.line, self.distinct)
        self.edges = _edges(self.line, self._places, literals)
        whole = [one for one in self.distinct if isinstance(one, int)]
        self._whole = 0 < len(whole) == len(self.distinct)
        self._beyond = itertools.count(max(self._places[-1:] or whole, default=0) + 1)

    def other(self, rng: Random, old: object) -> object:
        """A value that the column may hold, most often not the old one."""
        if not self._present:
            return old
        place = self.line.place(old) if self.line and old is not None else None
        chance = rng.random()
        if self.edges and chance < 0.35:
            return self.at(rng.choice(self.edges) + rng.choice((-1, 0, 0, 1)))
        if place is not None and chance < 0.65:
            return self.at(self._moved(rng, place))
        if self.names and self._unnamed:
            return rng.choice(self._unnamed)
        if self._sorted_held and chance > 0.85:
            return rng.choice(self._sorted_held)
        return rng.choice(self.distinct) if self.few else rng.choice(self._present)

    def alone(self, value: object) -> bool:
        """Whether a literal names the value, and one row alone has it."""
        return value in self.held and self.counts[value] == 1

    def ends(self) -> list[object]:
        """The least and the greatest of a column whose values can be moved."""
        if self.line is None or len(self._places) < 4 or self._places[-1] - self._places[0] < 4:
            return []
        ends = {self._places[0], self._places[-1]}
        return [value for value in self.distinct if self.line.place(value) in ends]

    def inner(self, rng: Random) -> object:
        """A value between the least and the greatest, and not too near to them."""
        low, high = self._places[0], self._places[-1]
        margin = max((high - low) // 8, 1)
        return self.at(rng.randint(low + margin, max(high - margin, low + margin)))

    def near_end(self, rng: Random, end: object) -> object:
        """A value that takes the place of the least or the greatest."""
        low, high = self._places[0], self._places[-1]
        step = rng.randint(1, max((high - low) // 16, 1))
        return self.at(low + step if self.line and self.line.place(end) == low else high - step)

    def unused(self, rng: Random, taken: Collection[object]) -> object | None:
        """A new key in the pattern of the old ones; None if none was found."""
        if self._whole:
            return next(self._beyond)
        for number in range(_TRIES if self._present else 0):
            old = rng.choice(self._present)
            place = self.line.place(old) if self.line else None
            new = _respelt(rng, old) if place is None else self._off(rng, beyond=number > _TRIES // 2)
            if new is not None and new not in taken:
                return new
        return None

    def _off(self, rng: Random, *, beyond: bool) -> object | None:
        """A value in the range, or beyond it; None beyond the last day there is."""
        assert self.line is not None
        place = next(self._beyond) if beyond else rng.randint(self._places[0], self._places[-1])
        try:
            return self.line.value(place)
        except (OverflowError, ValueError):
            return None

    def at(self, place: int) -> object:
        assert self.line is not None
        return self.line.value(min(max(place, self._places[0]), self._places[-1]))

    def _moved(self, rng: Random, place: int) -> int:
        span = self._places[-1] - self._places[0]
        steps = rng.randint(1, max(span // 8, 1)) if rng.random() < 0.6 else self.line.day if self.line else 1
        return place + (steps if place - steps < self._places[0] or rng.random() < 0.5 else -steps)


# -- lines --------------------------------------------------------------------------------------------------------------


def _line(values: Sequence[object]) -> Line | None:
    if not values:
        return None
    kind = Counter(map(type, values)).most_common(1)[0][0]
    if kind is str:
        return _text_line([value for value in values if isinstance(value, str)])
    if kind is int or kind is float:
        floats = [repr(value) for value in values if isinstance(value, float)]
        if not floats:
            return Line(lambda value: value if isinstance(value, int) else None, lambda place: place)
        decimals = ["" if "e" in text or "n" in text else text.partition(".")[2] for text in floats]
        digits = min(max(0 if part == "0" else len(part) for part in decimals), _STEPS_OF_FLOATS)
        return Line(lambda value: _scaled(value, digits), lambda place: round(place / 10**digits, digits), 10**digits)
    if kind is Decimal:
        exponents = [value.as_tuple().exponent for value in values if isinstance(value, Decimal)]
        digits = max(-exponent if isinstance(exponent, int) else 0 for exponent in exponents)
        return Line(lambda value: _scaled(value, digits), lambda place: Decimal(place).scaleb(-digits), 10**digits)
    if kind is datetime.date:
        return Line(lambda value: value.toordinal() if isinstance(value, datetime.date) else None, datetime.date.fromordinal)
    if kind is datetime.datetime:
        return Line(_second, lambda place: _EPOCH + datetime.timedelta(seconds=place), 86_400)
    return None


def _text_line(texts: Sequence[str]) -> Line | None:
    """A line for texts if nine in ten are written alike."""

    def mostly(pattern: re.Pattern[str]) -> bool:
        return sum(1 for text in texts if pattern.fullmatch(text)) >= _MOSTLY * len(texts)

    if mostly(_WHOLE):
        width = max(map(len, texts)) if any(text[0] == "0" and len(text) > 1 for text in texts if text) else 0
        return Line(lambda value: int(value) if _is(value, _WHOLE) else None, lambda place: str(place).zfill(width))  # type: ignore[call-overload]
    if mostly(_POINT):
        digits = max(len(text.partition(".")[2]) for text in texts if _POINT.fullmatch(text))
        return Line(lambda value: _point(value, digits), lambda place: f"{Decimal(place).scaleb(-digits):f}", 10**digits)
    if mostly(_DAY):
        return Line(_written_day, lambda place: datetime.date.fromordinal(place).isoformat())
    if mostly(_TIME):
        mark = texts[0][10]
        return Line(_written_second, lambda place: (_EPOCH + datetime.timedelta(seconds=place)).isoformat(mark), 86_400)
    return None


def _is(value: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _point(value: object, digits: int) -> int | None:
    return int(Decimal(str(value)).scaleb(digits)) if _is(value, _POINT) or _is(value, _WHOLE) else None


def _scaled(value: object, digits: int) -> int | None:
    if isinstance(value, float) and not abs(value) < 1e15:
        return None
    return round(Decimal(value).scaleb(digits)) if isinstance(value, int | float | Decimal) else None


def _second(value: object) -> int | None:
    return (value - _EPOCH) // _STEP if isinstance(value, datetime.datetime) else None


def _written_day(value: object) -> int | None:
    try:
        return datetime.date.fromisoformat(value).toordinal() if isinstance(value, str) and len(value) == 10 else None
    except ValueError:
        return None


def _written_second(value: object) -> int | None:
    try:
        return _second(datetime.datetime.fromisoformat(value)) if _is(value, _TIME) else None  # type: ignore[arg-type]
    except ValueError:
        return None


# -- values and literals ------------------------------------------------------------------------------------------------


def _held(distinct: Iterable[object], literals: Collection[Literal]) -> set[object]:
    named = {plain(literal) for literal in literals}
    exact = {value for value in distinct if plain(value) in named}
    parts = [part for part in named if isinstance(part, str) and len(part) > 1]
    texts = [value for value in distinct if isinstance(value, str) and value not in exact][:_SEARCHED]
    return exact | {text for text in texts if any(part in text.casefold() for part in parts)}


def _places(line: Line | None, values: Iterable[object]) -> list[int]:
    found = [line.place(value) for value in values] if line else []
    return sorted({place for place in found if place is not None})


def _edges(line: Line | None, places: list[int], literals: Iterable[Literal]) -> list[int]:
    """Literals on the line and within the range of its values: where `<` and `<=` part."""
    if line is None or not places:
        return []
    found = {_named(line, literal) for literal in literals}
    return sorted(place for place in found if place is not None and places[0] <= place <= places[-1])


def _named(line: Line, literal: Literal) -> int | None:
    """Where a literal lies, in whatever type it was written: by trying the forms that the line may know."""
    forms: list[object] = [literal, str(literal)]
    text = str(literal)
    if _WHOLE.fullmatch(text) or _POINT.fullmatch(text):
        forms += [int(text)] if _WHOLE.fullmatch(text) else [float(text)]
    elif _DAY.match(text):
        day = _written_day(text[:10])
        forms += [] if day is None else [_EPOCH + datetime.timedelta(days=day - 1), datetime.date.fromordinal(day)]
    places = (line.place(form) for form in forms if not isinstance(form, datetime.datetime) or line.place is _second)
    return next((place for place in places if place is not None), None)


def _respelt(rng: Random, old: object) -> object | None:
    """One or two letters or digits of a text changed, each for another of its kind."""
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
