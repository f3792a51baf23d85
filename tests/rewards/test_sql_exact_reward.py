"""What a careful person would call solved in SQL: each edge as a sentence."""

import math
import random
import time
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest

from intercode.rewards import sql_exact
from intercode.rewards.exact_sql import Order, free, order_of, strict
from intercode.sqltext import Ordering
from intercode.types import Score, Table

Rows = list[tuple[object, ...]]

TOP_THREE = Order(tuple((letter,) for letter in "abcde"), (1, 2, 2, 2, 3))
"""ORDER BY … LIMIT 3 over a b c d e, of which b, c and d tie."""


def table(rows: Rows, *columns: str) -> Table:
    return Table(columns or tuple(f"c{place}" for place in range(len(rows[0]) if rows else 1)), tuple(rows))


def letters(text: str) -> Table:
    return table([(letter,) for letter in text], "a")


def score(ours: Table | None, theirs: Table, order: Order | None = None) -> Score:
    return sql_exact(ours, theirs, order or free(theirs))


def same(ours: object, theirs: object) -> bool:
    return score(table([(ours,)]), table([(theirs,)])).success


def top_three(text: str) -> Score:
    return sql_exact(letters(text), letters("abc"), TOP_THREE)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (1, 1.0),
        (1, Decimal("1.00")),
        (1.5, Decimal("1.50")),
        (True, 1),
        (0.1 + 0.2, 0.3),
        (1e9 + 1, 1e9 + 2),
        (33.3333, Decimal("33.33333")),
        (1e-17, 0),
        (-0.0, 0),
        (math.nan, math.nan),
        (math.inf, math.inf),
        (10**400, 10**400),
        ("2020-01-02", date(2020, 1, 2)),
        ("2020-01-02 03:04:05", datetime(2020, 1, 2, 3, 4, 5)),
        ("-838:59:59", -timedelta(hours=838, minutes=59, seconds=59)),
        (b"x", bytearray(b"x")),
        (None, None),
    ],
)
def test_values_that_say_the_same_are_equal(ours: object, theirs: object) -> None:
    assert same(ours, theirs)
    assert same(theirs, ours)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (None, ""),
        (None, 0),
        (None, "NULL"),
        (1, "1"),
        (b"x", "x"),
        ("a", "A"),
        ("a", "a "),
        (1.0, 1.00001),
        (10**9 + 1, 10**9 + 2),
        (Decimal("1000000.01"), Decimal("1000000.02")),
        (math.inf, -math.inf),
        (datetime(2020, 1, 2), date(2020, 1, 2)),
    ],
)
def test_values_that_differ_are_refused(ours: object, theirs: object) -> None:
    assert not same(ours, theirs)
    assert not same(theirs, ours)


def test_rows_are_free_in_order_where_the_gold_does_not_order() -> None:
    assert score(letters("cab"), letters("abc")) == Score(1.0, True, {"rows": 1.0, "order": 1.0, "columns": 1.0})


def test_a_row_counts_as_often_as_it_is_there() -> None:
    found = score(letters("aab"), letters("abb"))
    assert not found.success
    assert found.parts["rows"] == 0.5
    assert not score(letters("ab"), letters("aab")).success


def test_nothing_is_the_same_as_nothing_with_as_many_columns() -> None:
    assert score(table([], "a"), table([], "b")).success
    assert score(table([], "a", "b"), table([], "a")).reward == 0


def test_a_failed_statement_earns_nothing() -> None:
    assert score(None, letters("a")) == Score(0.0, False, {"rows": 0.0, "order": 0.0, "columns": 0.0})
    assert not sql_exact(letters("a"), None, free(letters("a"))).success


def test_too_many_columns_earn_nothing() -> None:
    assert score(table([("x", 1)], "a", "b"), table([("x",)], "a")).parts == {"rows": 0, "order": 0, "columns": 0}


def test_a_part_of_the_rows_earns_less_than_one() -> None:
    assert score(letters("ab"), letters("abcd")).reward == pytest.approx(0.99 / 2)


def test_names_decide_the_order_of_columns() -> None:
    gold = table([("ann", 3), ("bob", 4)], "name", "age")
    assert score(table([(3, "ann"), (4, "bob")], "AGE", "Name"), gold).success
    assert not score(table([(3, "ann"), (4, "bob")], "name", "age"), gold).success


def test_a_column_left_over_on_each_side_is_the_same() -> None:
    gold = table([("ann", 3)], "name", "COUNT(*)")
    assert score(table([(3, "ann")], "n", "name"), gold).success


@pytest.mark.parametrize("names", [("x", "y"), ("name", "name")])
def test_position_decides_where_names_do_not(names: tuple[str, str]) -> None:
    gold = table([("ann", 3)], "name", "age")
    assert score(table([("ann", 3)], *names), gold).success
    assert not score(table([(3, "ann")], *names), gold).success


def test_a_strict_order_refuses_the_same_rows_in_another() -> None:
    gold = letters("abc")
    assert score(letters("abc"), gold, strict(gold)).success
    wrong = score(letters("acb"), gold, strict(gold))
    assert wrong.reward == pytest.approx(0.99 / 2)
    assert wrong.parts == {"rows": 1.0, "order": 0.0, "columns": 1.0}


@pytest.mark.parametrize("text", ["abc", "acb", "abd", "adc", "acd"])
def test_a_limit_through_a_tie_accepts_any_of_the_tie(text: str) -> None:
    assert top_three(text) == Score(1.0, True, {"rows": 1.0, "order": 1.0, "columns": 1.0})


@pytest.mark.parametrize("text", ["abe", "bcd", "bac", "abb", "ab", "abcd", "abcde", ""])
def test_a_limit_through_a_tie_refuses_all_else(text: str) -> None:
    assert not top_three(text).success
    assert top_three(text).reward < 1


def test_rows_out_of_order_are_told_from_rows_that_are_wrong() -> None:
    assert top_three("bac").parts == {"rows": 1.0, "order": 0.0, "columns": 1.0}
    assert top_three("abe").parts == {"rows": 0.5, "order": 1.0, "columns": 1.0}


def test_an_offset_may_cut_a_tie_at_its_start() -> None:
    order = Order(TOP_THREE.rows, TOP_THREE.ties, start=2)
    assert all(sql_exact(letters(text), letters("cde"), order).success for text in ("cde", "bce", "dbe"))
    assert not any(sql_exact(letters(text), letters("cde"), order).success for text in ("cbd", "bbe", "ace"))


def test_one_row_in_two_tie_groups_counts_in_each() -> None:
    order = Order((("a",), ("a",), ("b",), ("c",)), (1, 2, 2, 3))
    gold = letters("aa")
    assert all(sql_exact(letters(text), gold, order).success for text in ("aa", "ab"))
    assert sql_exact(letters("ba"), gold, order).parts == {"rows": 1.0, "order": 0.0, "columns": 1.0}


def ranked(*rows: tuple[object, int]) -> Table:
    return table(list(rows), "a", "tie")


def test_order_is_made_of_the_whole_result_and_its_ties() -> None:
    full = ranked(("a", 1), ("b", 2), ("c", 2), ("d", 2), ("e", 3))
    assert order_of(letters("abd"), Ordering(True, True, 0, "…"), full) == Order(TOP_THREE.rows[:4], (1, 2, 2, 2))
    assert order_of(letters("de"), Ordering(True, True, 3, "…"), full) == Order(TOP_THREE.rows[1:], (2, 2, 2, 3), start=2)


def test_order_is_free_where_the_gold_does_not_order() -> None:
    assert order_of(letters("ab"), Ordering(False, False), None) == free(letters("ab"))


def test_order_is_strict_where_the_whole_result_does_not_fit() -> None:
    gold, limited = letters("ab"), Ordering(True, True, 0, "…")
    cut = Table(("a", "tie"), (("a", 1), ("b", 2)), cut=True)
    for full in (None, cut, letters("ab"), ranked(("a", 1)), ranked(("b", 1), ("a", 2)), ranked()):
        assert order_of(gold, limited, full) == strict(gold)
    assert order_of(gold, Ordering(True, False, 0, "…"), ranked(("a", 1), ("b", 2), ("c", 3))) == strict(gold)


def test_a_limit_beyond_the_end_is_no_limit() -> None:
    full, limited = ranked(("a", 1), ("b", 2)), Ordering(True, True, 0, "…")
    assert sql_exact(letters("ab"), letters("ab"), order_of(letters("ab"), limited, full)).success
    assert sql_exact(table([], "a"), table([], "a"), order_of(table([], "a"), Ordering(True, True, 9, "…"), full)).success


def test_an_answer_that_was_cut_is_never_solved() -> None:
    gold = letters("ab")
    assert not score(Table(gold.columns, gold.rows, cut=True), gold).success
    assert not score(gold, Table(gold.columns, gold.rows, cut=True)).success


def test_noise_of_floats_in_two_columns_does_not_mix_rows_up() -> None:
    gold = table([(0.3, 5.0), (0.1 + 0.2, 7.0), (1.0, 5.0)])
    assert score(table([(0.1 + 0.2, 5.0), (0.3, 7.0), (1.0, 5.0 + 1e-9)]), gold).success
    assert not score(table([(0.3, 5.0), (0.3, 5.0), (1.0, 7.0)]), gold).success


def test_floats_on_either_side_of_a_tolerance_step_are_judged_by_their_distance() -> None:
    for shift in (0.2e-6, 0.5e-6, 0.9e-6):
        assert all(same(value, value * (1 + shift)) for value in (1.0, 3.7, 1e-5, 12345.678))
        assert not any(same(value, value * (1 + 2 * shift + 1e-6)) for value in (1.0, 3.7, 1e-5, 12345.678))


def test_twenty_thousand_rows_are_compared_in_about_a_second() -> None:
    dice = random.Random(3)
    rows: Rows = [(dice.random() * 1000, f"name {dice.randrange(500)}", None, number) for number in range(20_000)]
    noisy = [(value * (1 + 1e-9), *rest) for value, *rest in rows if isinstance(value, float)]
    gold = table(rows)
    dice.shuffle(noisy)
    started = time.process_time()
    assert score(table(noisy), gold).success
    assert not score(table([*noisy[1:], noisy[1]]), gold).success
    assert time.process_time() - started < 4
