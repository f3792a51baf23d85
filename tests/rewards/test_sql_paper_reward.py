"""The paper's SQL reward, and Kendall's tau against SciPy's."""

import math
import random
from datetime import date
from decimal import Decimal

import pytest

from intercode.rewards import sql_paper
from intercode.rewards.kendall import kendall_tau
from intercode.types import Score, Table


def table(*rows: tuple[object, ...]) -> Table:
    return Table(("a",), rows)


def letters(text: str) -> Table:
    return table(*((letter,) for letter in text))


def reward(ours: str, theirs: str) -> float:
    return sql_paper(letters(ours), letters(theirs)).reward


def test_the_same_rows_in_the_same_order_are_solved() -> None:
    assert sql_paper(letters("abc"), letters("abc")) == Score(1.0, True, {"iou": 1.0, "order": 1.0})


@pytest.mark.parametrize("sides", [(None, letters("a")), (letters("a"), None), (None, None), (None, table())])
def test_a_side_without_rows_earns_nothing(sides: tuple[Table | None, Table | None]) -> None:
    assert sql_paper(*sides).reward == 0
    assert not sql_paper(*sides).success


def test_two_empty_lists_are_the_same() -> None:
    assert sql_paper(table(), table()) == Score(1.0, True, {"iou": 1.0})


def test_an_empty_list_has_nothing_in_common_with_rows() -> None:
    assert reward("", "ab") == 0


def test_the_share_of_common_rows_counts_rows_as_often_as_they_are_there() -> None:
    assert sql_paper(letters("aab"), letters("ab")).parts["iou"] == pytest.approx(2 / 3)


def test_the_product_of_share_and_order_is_rounded() -> None:
    assert reward("aab", "ab") == 0.67


def test_a_share_without_an_order_is_not_rounded() -> None:
    assert reward("axy", "a") == 1 / 3


def test_a_reversed_order_stays_below_zero() -> None:
    assert sql_paper(letters("cba"), letters("abc")) == Score(-1.0, False, {"iou": 1.0, "order": -1.0})


def test_order_is_that_of_the_rows_in_common_only() -> None:
    assert sql_paper(letters("xaybzc"), letters("abc")).parts == {"iou": 0.5, "order": 1.0}


def test_a_row_that_is_there_too_often_counts_at_its_first_places() -> None:
    assert sql_paper(letters("abca"), letters("abc")).parts["order"] == 1
    assert sql_paper(letters("bcaa"), letters("abc")).parts["order"] < 1


def test_rows_are_compared_as_they_are_printed() -> None:
    assert sql_paper(table((1,)), table((Decimal(1),))).reward == 0
    assert sql_paper(table((1,)), table((1.0,))).reward == 0
    assert sql_paper(table((date(2020, 1, 2), None)), table((date(2020, 1, 2), None))).success


def test_rows_are_ranked_as_strings() -> None:
    assert sql_paper(table((9,), (10,)), table((9,), (10,))).parts["order"] == 1
    assert kendall_tau(["(9,)", "(10,)", "(11,)"], ["(11,)", "(10,)", "(9,)"]) == pytest.approx(1 / 3)  # as numbers: -1


def test_without_order_only_the_share_counts() -> None:
    assert sql_paper(letters("cba"), letters("abc"), ordered=False) == Score(1.0, True, {"iou": 1.0})


def test_nearly_all_rows_of_a_long_answer_round_to_solved_as_they_did() -> None:
    gold = table(*((f"{number:04}",) for number in range(1000)))
    assert sql_paper(Table(gold.columns, gold.rows[:-1]), gold).success


def test_tau_is_that_of_scipy() -> None:
    oracle = pytest.importorskip("scipy.stats").kendalltau
    dice = random.Random(7)
    for _ in range(400):
        count, kinds = dice.randrange(2, 40), dice.randrange(1, 12)
        first, second = ([str(dice.randrange(kinds)) for _ in range(count)] for _ in range(2))
        ours, theirs = kendall_tau(first, second), float(oracle(first, second)[0])
        assert math.isnan(theirs) if ours is None else ours == pytest.approx(theirs, abs=1e-12)


def test_tau_of_twenty_thousand_rows_is_quick_and_exact() -> None:
    oracle = pytest.importorskip("scipy.stats").kendalltau
    dice = random.Random(1)
    first, second = ([str(dice.randrange(3000)) for _ in range(20_000)] for _ in range(2))
    assert kendall_tau(first, second) == pytest.approx(float(oracle(first, second)[0]), abs=1e-12)
