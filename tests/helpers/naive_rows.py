"""Whether rows are equal in any order, told slowly and without the reward's code:
`docs/rewards-rules.md` once more."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from intercode.types import Digits

Rows = Sequence[Sequence[object]]


def same_rows(ours: Rows, theirs: Rows, digits: Sequence[Digits | None] = ()) -> bool:
    """`digits`: what the server left of the gold's numbers, by column, and not of the answer's."""
    partner: dict[int, int] = {}
    columns = digits or (None,) * 100

    def finds(row: int, tried: set[int]) -> bool:
        for place in range(len(theirs)):
            if place not in tried and all(map(same_value, ours[row], theirs[place], columns)):
                tried.add(place)
                if place not in partner or finds(partner[place], tried):
                    partner[place] = row
                    return True
        return False

    return len(ours) == len(theirs) and all(finds(row, set()) for row in range(len(ours)))


def same_value(answer: object, gold: object, digits: Digits | None) -> bool:
    if not (isinstance(answer, int | float | Decimal) and isinstance(gold, int | float | Decimal)):
        return type(answer) is type(gold) and answer == gold
    one, other = (Fraction(str(number)) for number in (answer, gold))
    apart, doubles = abs(one - other), isinstance(answer, float) + isinstance(gold, float)
    if digits and digits.significant and apart <= half_digit(gold, digits):
        return True
    if doubles == 2 and apart <= max(abs(one), abs(other)) / 10**9:
        return True
    if isinstance(answer, int) or isinstance(gold, int):
        return apart == 0
    if isinstance(gold, float) and places(answer) >= 4 and apart <= Fraction(1, 10**12):
        return True
    shorter = min(places(answer), gold_places := places(gold, digits))
    if shorter == 1000 or shorter < 4 or (not doubles and places(answer) == gold_places):
        return apart == 0
    unit = Fraction(1, 10**shorter)
    if abs(other) < 100 * unit:
        unit = unit / 2 if gold_places == shorter else Fraction(0)
    return apart <= max(unit, max(abs(one), abs(other)) / 10**12 if doubles else 0)


def places(number: object, digits: Digits | None = None) -> int:
    """Decimals of a number that mean something; 1000 for those of a DOUBLE."""
    if isinstance(number, Decimal):
        return len(str(number).partition(".")[2])
    fixed = digits.decimals if digits and not digits.significant else None
    return fixed if fixed is not None and fixed >= 4 else 1000


def half_digit(number: object, digits: Digits) -> Fraction:
    """Half a unit of the last digit that the server prints of a FLOAT; 0 of 0."""
    whole, power = Fraction(str(number)), Fraction(10) ** 40
    if whole == 0:
        return Fraction(0)
    while power > abs(whole):
        power /= 10
    last = power / 10 ** ((digits.significant or 1) - 1)
    return min(last, last if digits.decimals is None else Fraction(1, 10**digits.decimals)) / 2
