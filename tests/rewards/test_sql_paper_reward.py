"""The paper's SQL reward, and Kendall's tau against SciPy's."""

from __future__ import annotations

import math
import random
from datetime import date
from decimal import Decimal

import pytest

from intercode.interop.v1.sql import kendall_tau, sql_paper
from intercode.types import Table

THOUSAND = Table(("a",), tuple((f"{number:04}",) for number in range(1000)))


def table(*rows: object) -> Table:
    return Table(("a",), tuple((row,) for row in rows))


@pytest.mark.parametrize(
    ("ours", "theirs", "reward", "parts"),
    [
        (table(*"abc"), table(*"abc"), 1, {"iou": 1, "order": 1}),
        (None, table("a"), 0, {"iou": 0}),
        (None, None, 0, {"iou": 0}),
        (None, table(), 0, {"iou": 0}),
        (table(), table(), 1, {"iou": 1}),
        (table(), table(*"ab"), 0, {"iou": 0}),
        (table(*"aab"), table(*"ab"), 0.67, {"iou": 2 / 3, "order": 1}),  # the product is rounded,
        (table(*"axy"), table("a"), 1 / 3, {"iou": 1 / 3}),  # a share without an order is not
        (table(*"cba"), table(*"abc"), -1, {"iou": 1, "order": -1}),
        (table(*"xaybzc"), table(*"abc"), 0.5, {"iou": 0.5, "order": 1}),
        # a row too many counts at its first places
        (
            table(*"abca"),
            table(*"abc"),
            0.75,
            {"iou": 0.75, "order": 1},
        ),
        (table(1), table(Decimal(1)), 0, {"iou": 0}),  # rows are compared as they are printed
        (table(1), table(1.0), 0, {"iou": 0}),
        (table(date(2020, 1, 2), None), table(date(2020, 1, 2), None), 1, {"iou": 1, "order": 1}),
        (table(9, 10), table(9, 10), 1, {"iou": 1, "order": 1}),
        # solved, as it was
        (
            Table(("a",), THOUSAND.rows[:-1]),
            THOUSAND,
            1,
            {"iou": 0.999, "order": 1},
        ),
    ],
)
def test_the_reward_is_the_share_of_common_rows_times_their_order(
    ours: Table | None, theirs: Table | None, reward: float, parts: dict[str, float]
) -> None:
    score = sql_paper(ours, theirs)
    assert score.reward == pytest.approx(reward)
    assert score.parts == pytest.approx(parts)
    assert score.success == (reward == 1)


def test_without_order_only_the_share_counts() -> None:
    assert sql_paper(table(*"cba"), table(*"abc"), ordered=False).parts == {"iou": 1.0}


def test_tau_is_that_of_scipy() -> None:
    oracle = pytest.importorskip("scipy.stats").kendalltau
    dice = random.Random(7)
    sizes = [(dice.randrange(2, 40), dice.randrange(1, 12)) for _ in range(400)]
    for count, kinds in [*sizes, (20_000, 3000)]:
        first, second = ([str(dice.randrange(kinds)) for _ in range(count)] for _ in range(2))
        ours, theirs = kendall_tau(first, second), float(oracle(first, second)[0])
        assert math.isnan(theirs) if ours is None else ours == pytest.approx(theirs, abs=1e-12)
    # as numbers: -1
    assert kendall_tau(["(9,)", "(10,)", "(11,)"], ["(11,)", "(10,)", "(9,)"]) == pytest.approx(
        1 / 3
    )
