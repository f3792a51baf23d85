"""What a careful person would call solved in SQL."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest
from naive_rows import same_rows

from intercode.envs.sql.compare import Order, free, order_of, sql_exact, strict
from intercode.envs.sql.text import Ordering
from intercode.types import Digits, Score, Table

Rows = list[tuple[object, ...]]

TOP_THREE = Order(tuple((letter,) for letter in "abcde"), (1, 2, 2, 2, 3))
"""ORDER BY … LIMIT 3 over a b c d e, of which b, c and d tie."""
FROM_THIRD = Order(TOP_THREE.rows, TOP_THREE.ties, start=2)
TWO_GROUPS = Order((("a",), ("a",), ("b",), ("c",)), (1, 2, 2, 3))
"""One row in two tie groups."""


def table(rows: Rows, *columns: str) -> Table:
    return Table(
        columns or tuple(f"c{place}" for place in range(len(rows[0]) if rows else 1)), tuple(rows)
    )


def letters(text: str) -> Table:
    return table([(letter,) for letter in text], "a")


def score(ours: Table | None, theirs: Table, order: Order | None = None) -> Score:
    return sql_exact(ours, theirs, order or free(theirs))


SAME = [
    (1, 1.0), (1, Decimal("1.00")), (Decimal("1.5"), Decimal("1.50")), (True, 1),
    (10**400, 10**400), (2**60, float(2**60)), (0.1 + 0.2, 0.3), (0.1 + 0.2 - 0.3, 0.0),
    (12345.678, 12345.678 * (1 + 0.9e-9)), (math.nan, math.nan), (math.inf, math.inf),
    (10.3, Decimal("10.30")), (33.33333333333333, Decimal("33.3333")),
    (2 / 3, Decimal("0.66666666666666666667")), (Decimal("33.3333"), Decimal("33.33333")),
    (Decimal("1.6667"), Decimal("1.66667")), (Decimal("5.00"), Decimal("5.0000")),
    (Decimal("0.3333"), Decimal("0.33333333")), (Decimal("0.0213"), Decimal("0.0213456")),
    (0.1 + 0.2 - 0.3, Decimal("0.0000")),
    ("2020-01-02", date(2020, 1, 2)), ("2020-01-02 03:04:05", datetime(2020, 1, 2, 3, 4, 5)),
    (None, None), ("-838:59:59", -timedelta(hours=838, minutes=59, seconds=59)),
    ("2020-01-02 03:04:05.678", datetime(2020, 1, 2, 3, 4, 5, 678000)),
    ("2020-01-02 03:04:05.000", datetime(2020, 1, 2, 3, 4, 5)),
    ("03:04:05.50", timedelta(hours=3, minutes=4, seconds=5.5)),
    (b"x", bytearray(b"x")),
]  # fmt: skip
OTHER = [
    (None, ""), (None, 0), (None, "NULL"), (None, 0.0), (1, "1"), (1.5, "1.5"), (b"x", "x"),
    ("a", "A"), ("a", "a "), (1.0, 1.00000001), (2500001.25, 2500002.25),
    (1600.0, 1600.0 * (1 + 2e-9)), (math.inf, -math.inf), (math.inf, 1e308),
    (10**10 + 1, 10**10 + 2), (10**10 + 1, 1e10 + 2), (2**53 + 1, float(2**53)), (0, 1e-17),
    (Decimal(7), 7.000000000001), (Decimal("1000000.01"), Decimal("1000000.02")),
    (Decimal("10.30"), 10.299999999999999), (Decimal("1.7"), 5 / 3),
    (Decimal("1.6667"), Decimal("1.7")), (Decimal("1.6667"), Decimal("1.667")),
    (Decimal("1.6667"), Decimal("1.6668")), (Decimal("1.6667"), Decimal("1.66681")),
    (Decimal("1.6667"), 1.66681), (Decimal("0.0000"), 1e-4), (Decimal("0.0017"), 0.00181),
    (Decimal("2.0000"), 2.00011), (Decimal("33.33333"), 33.3333),
    (datetime(2020, 1, 2), date(2020, 1, 2)), ("1.50", "1.5"), ("a:1.50", "a:1.5"),
    ("2020-01-02 03:04:05.6", datetime(2020, 1, 2, 3, 4, 5, 678000)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("ours", "theirs", "same"), [*((*two, True) for two in SAME), *((*two, False) for two in OTHER)]
)
def test_values_are_equal_if_they_say_the_same(ours: object, theirs: object, same: bool) -> None:
    assert score(table([(ours,)]), table([(theirs,)])).success is same
    assert score(table([(theirs,)]), table([(ours,)])).success is same


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (Decimal("0.0000"), Decimal("0.000012")),
        (Decimal("0.0000"), 8.1e-09),
        (Decimal("0.0003"), 0.000345),
        (Decimal("0.0033"), 1 / 300),
        (Decimal("-0.00001"), Decimal("-0.0000123")),
    ],
)
def test_a_short_answer_keeps_two_digits_of_a_tiny_gold_and_a_short_gold_has_no_more(
    short: object, long: object
) -> None:
    assert score(table([(short,)]), table([(long,)])).success is False
    assert score(table([(long,)]), table([(short,)])).success is True


FLOAT, MONEY_FLOAT, FIXED = Digits(6, None), Digits(6, 2), Digits(None, 4)
DOUBLE_CENTS = Digits(None, 2)


@pytest.mark.parametrize(
    ("gold", "digits", "same", "other"),
    [
        (0.1, FLOAT, [0.10000000149011612, Decimal("0.1000000015"), Decimal("0.10")], [0.100002]),
        (3.3, FLOAT, [3.299999952316284], [3.30001, "3.3", None]),
        (16777200.0, FLOAT, [16777216, 16777216.0, Decimal("16777216.00")], [16777300, 16777100.0]),
        (0.0, FLOAT, [0, 1e-13], [1e-9]),
        (19.99, MONEY_FLOAT, [19.989999771118164], [19.9876, 19.98]),
        (123456.7, MONEY_FLOAT, [123456.703125], [123456.71, 123457]),
        (7.4288, FIXED, [7.428828979051812, Decimal("7.428829")], [7.4291, 7.43, Decimal("7.43")]),
        (0.0012, FIXED, [0.00124], [0.0013, 0.00129]),
        (19.99, DOUBLE_CENTS, [19.99], [19.9900001, 20.0]),
    ],
)
def test_only_the_golds_own_column_says_how_far_its_numbers_were_shortened(
    gold: float, digits: Digits, same: list[object], other: list[object]
) -> None:
    shortened = Table(("n",), ((gold,),), digits=(digits,))
    for answer in [*same, *other]:
        assert score(table([(answer,)], "n"), shortened).success is (answer in same), answer
    alike = Table(("n",), ((gold * (1 + 1e-6),),), digits=(digits,))
    assert score(alike, shortened).success is (gold == 0)
    shuffled = table([(answer, "x") for answer in same], "n", "x")
    golds = Table(("n", "x"), ((gold, "x"),) * len(same), digits=(digits, None))
    assert score(shuffled, golds).success


def test_an_answer_that_is_shortened_loosens_nothing() -> None:
    for gold, answer, digits in (
        (1.7000000476837158, 1.7, FLOAT),
        (16777216, 16777200.0, FLOAT),
        (Decimal("2500001.25"), 2500000.0, FLOAT),
        (Decimal("19.99"), 19.9900017, MONEY_FLOAT),
        (7.428828979051812, 7.4288, FIXED),
        (1 / 3, 0.3333, FIXED),
    ):
        ours = Table(("n",), ((answer,),), digits=(digits,))
        assert not score(ours, table([(gold,)], "n")).success, (gold, answer)


@pytest.mark.parametrize(
    ("text", "gold", "order", "reward", "rows", "in_order"),
    [
        ("cab", "abc", free(letters("abc")), 1, 1, 1),
        ("aab", "abb", free(letters("abb")), 0.495, 0.5, 1),  # a row counts as often as it is there
        ("ab", "abcd", free(letters("abcd")), 0.495, 0.5, 1),
        ("abc", "abc", strict(letters("abc")), 1, 1, 1),
        ("acb", "abc", strict(letters("abc")), 0.495, 1, 0),
        *((text, "abc", TOP_THREE, 1, 1, 1) for text in ("abc", "acb", "abd", "adc", "acd")),
        ("bac", "abc", TOP_THREE, 0.495, 1, 0),
        ("abe", "abc", TOP_THREE, 0.495, 0.5, 1),
        ("abb", "abc", TOP_THREE, 0.495, 0.5, 1),
        ("ab", "abc", TOP_THREE, 0.66, 2 / 3, 1),
        ("abcd", "abc", TOP_THREE, 0.7425, 0.75, 1),
        ("", "abc", TOP_THREE, 0, 0, 1),
        *((text, "cde", FROM_THIRD, 1, 1, 1) for text in ("cde", "bce", "dbe")),
        ("cbd", "cde", FROM_THIRD, 0.495, 0.5, 1),
        *((text, "aa", TWO_GROUPS, 1, 1, 1) for text in ("aa", "ab")),
        ("ba", "aa", TWO_GROUPS, 0.495, 1, 0),
    ],
)
def test_rows_count_in_the_golds_order_and_a_tie_that_its_limit_cuts_is_free(
    text: str, gold: str, order: Order, reward: float, rows: float, in_order: float
) -> None:
    found = sql_exact(letters(text), letters(gold), order)
    assert found.parts == pytest.approx({"rows": rows, "order": in_order, "columns": 1.0})
    assert (found.reward, found.success) == (pytest.approx(reward), reward == 1)


PEOPLE = table([("ann", 3), ("bob", 4)], "name", "age")
SWAPPED: Rows = [(3, "ann"), (4, "bob")]


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        (table(SWAPPED, "AGE", "Name"), PEOPLE, True),  # names decide,
        (table(SWAPPED, "name", "age"), PEOPLE, False),
        (table(SWAPPED, "n", "name"), PEOPLE, True),  # one may be called otherwise,
        (Table(("x", "y"), PEOPLE.rows), PEOPLE, True),  # else the place does
        (table(SWAPPED, "x", "y"), PEOPLE, False),
        (Table(("name", "name"), PEOPLE.rows), PEOPLE, True),
        (table([("ann", 3, 1), ("bob", 4, 2)], "name", "age", "id"), PEOPLE, False),
        (table([], "a"), table([], "b"), True),
        (table([], "a", "b"), table([], "a"), False),
        (None, PEOPLE, False),
        (Table(PEOPLE.columns, PEOPLE.rows, cut=True), PEOPLE, False),
        (PEOPLE, Table(PEOPLE.columns, PEOPLE.rows, cut=True), False),
        # each value has a type of its own
        (
            table([(3.0, 1), (2.5, 2)]),
            table([(3, 1), (2.5, 2)]),
            True,
        ),
        (
            # COUNT(*) is another count in a query of another form
            table([("ann", 1, 2)], "name", "COUNT(*)", "SUM(n)"),
            table([("ann", 1, 2)], "name", "COUNT(DISTINCT id)", "COUNT(*)"),
            True,
        ),
        (
            table([(2, "ann", 1)], "SUM(n)", "name", "COUNT(*)"),
            table([("ann", 1, 2)], "name", "COUNT(*)", "SUM(n)"),
            True,
        ),
        (table([(10**10 + 1.0, 1), (2.5, 2)]), table([(10**10, 1), (2.5, 2)]), False),
        (
            # noise of floats does not mix rows up
            table([(0.1 + 0.2, 5.0), (0.3, 7.0), (1.0, 5.0 + 1e-9)]),
            table([(0.3, 5.0), (0.1 + 0.2, 7.0), (1.0, 5.0)]),
            True,
        ),
        (
            table([(0.3, 5.0), (0.3, 5.0), (1.0, 7.0)]),
            table([(0.3, 5.0), (0.3, 7.0), (1.0, 5.0)]),
            False,
        ),
    ],
)
def test_columns_are_as_many_as_the_golds_and_in_order_by_name_or_place(
    ours: Table | None, theirs: Table, same: bool
) -> None:
    assert score(ours, theirs).success is same


def test_it_is_unsure_where_most_values_are_there() -> None:
    assert score(table([("ann", 3, 1), ("bob", 4, 2)], "name", "age", "id"), PEOPLE).ambiguous
    assert not any(
        score(ours, PEOPLE).ambiguous
        for ours in (None, PEOPLE, table([("ann", 3), ("eve", 5), ("fay", 6)]))
    )


def ranked(*rows: tuple[object, int]) -> Table:
    return table(list(rows), "a", "tie")


def test_the_order_is_made_of_the_whole_result_and_strict_where_that_does_not_fit() -> None:
    full = ranked(("a", 1), ("b", 2), ("c", 2), ("d", 2), ("e", 3))
    limited = Ordering(True, True)
    assert order_of(letters("abd"), limited, full) == Order(TOP_THREE.rows[:4], (0, 1, 1, 1))
    assert order_of(letters("de"), Ordering(True, True, 3), full) == Order(
        TOP_THREE.rows[1:], (1, 1, 1, 2), start=2
    )
    gold = letters("ab")
    assert order_of(gold, Ordering(False, False), None) == free(gold)
    cut = Table(("a", "tie"), (("a", 1), ("b", 2)), cut=True)
    for other in (None, cut, ranked(("a", 1)), ranked(("b", 1), ("a", 2)), ranked()):
        assert order_of(gold, limited, other) == strict(gold)
    longer = ranked(("a", 1), ("b", 2), ("c", 3))
    assert order_of(gold, Ordering(True, False), longer) == strict(gold)
    doubled = ranked(("a", 1), ("b", 1), ("b", 2))
    assert order_of(gold, limited, doubled) != strict(gold)
    assert order_of(gold, Ordering(True, True, distinct=True), doubled) == strict(gold)
    by_place = order_of(gold, Ordering(True, True, places=(0,)), letters("abb"))
    assert by_place == Order(letters("abb").rows, (0, 1, 1))
    # a limit beyond the end
    assert sql_exact(gold, gold, order_of(gold, limited, ranked(("a", 1), ("b", 2)))).success


def test_tables_of_close_numbers_are_equal_where_a_slow_comparison_pairs_all_rows() -> None:
    dice, verdicts = random.Random(11), Counter[bool]()
    for _ in range(4000):
        scale, other = dice.choices((1, 4, 5, None), k=2)
        theirs: Rows = [
            (number(scale, dice), dice.choice("ab")) for _ in range(dice.randrange(1, 7))
        ]
        ours: Rows = [
            (nearly(value, other, dice), word) for value, word in dice.sample(theirs, len(theirs))
        ]
        verdicts[same_rows(ours, theirs)] += 1
        assert score(table(ours), table(theirs)).success is same_rows(ours, theirs), (ours, theirs)
    assert min(verdicts.values()) > 1000


def number(scale: int | None, dice: random.Random) -> float | Decimal:
    value = 7 + dice.randrange(8) / 10**4
    return value if scale is None else Decimal(f"{value:.{scale}f}")


def nearly(value: object, scale: int | None, dice: random.Random) -> float | Decimal:
    """The number once more, as another type or of another scale."""
    noisy = float(str(value)) + dice.choice((0, 0, 1e-10, 2e-5, 6e-5, 1e-4))
    return noisy if scale is None else Decimal(f"{noisy:.{scale}f}")


def test_twenty_thousand_rows_are_compared_in_about_a_second() -> None:
    dice = random.Random(3)
    rows: Rows = [
        (dice.random() * 1000, f"name {dice.randrange(500)}", None, number)
        for number in range(20_000)
    ]
    noisy = [(value * (1 + 0.9e-9), *rest) for value, *rest in rows if isinstance(value, float)]
    dice.shuffle(noisy)
    started = time.process_time()
    assert score(table(noisy), table(rows)).success
    assert not score(table([*noisy[1:], noisy[1]]), table(rows)).success
    assert time.process_time() - started < 60
