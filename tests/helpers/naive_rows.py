"""Whether rows are equal in any order, told slowly and without the reward's code: `docs/rewards.md`
in twenty lines."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction


def same_rows(ours: Sequence[Sequence[object]], theirs: Sequence[Sequence[object]]) -> bool:
    partner: dict[int, int] = {}

    def finds(row: int, tried: set[int]) -> bool:
        for place in range(len(theirs)):
            if place not in tried and all(map(same_value, ours[row], theirs[place])):
                tried.add(place)
                if place not in partner or finds(partner[place], tried):
                    partner[place] = row
                    return True
        return False

    return len(ours) == len(theirs) and all(finds(row, set()) for row in range(len(ours)))


def same_value(one: object, other: object) -> bool:
    if not (isinstance(one, int | float | Decimal) and isinstance(other, int | float | Decimal)):
        return type(one) is type(other) and one == other
    exact = [Fraction(str(number)) for number in (one, other)]
    apart, larger = abs(exact[0] - exact[1]), max(map(abs, exact))
    scales = [
        len(str(number).partition(".")[2]) for number in (one, other) if isinstance(number, Decimal)
    ]
    doubles = sum(isinstance(number, float) for number in (one, other))
    if doubles == 2:
        return apart <= max(larger / 10**9, Fraction(1, 10**12))
    if (
        doubles + len(scales) < 2
        or min(scales) < 4
        or (len(scales) == 2 and scales[0] == scales[1])
    ):
        return apart == 0
    return apart <= max(Fraction(1, 10 ** min(scales)), doubles * larger / 10**12)
