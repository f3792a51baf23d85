"""Two runs on the same tasks: SciPy and plain enumeration are the oracles."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product

import pytest
from played import CONFIG, fine, played

from intercode.report.analysis import compare, interval_of_difference, sign_flip_test
from intercode.report.summary import pass_at_k
from intercode.types import Episode


def outcomes(prefix: str, *solved: Sequence[int]) -> list[Episode]:
    return [
        played(f"{prefix}{task}", fine(), solved=bool(won), epoch=epoch)
        for task, epochs in enumerate(solved)
        for epoch, won in enumerate(epochs)
    ]


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (1, 0), (7, 3), (392, 12)])
def test_with_one_epoch_p_is_mcnemars_exact(gained: int, lost: int) -> None:
    # each process of a test run collects this file, and the import takes a second
    from scipy import stats

    differences = [Fraction(1)] * gained + [Fraction(-1)] * lost + [Fraction(0)] * 20
    expected = stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert sign_flip_test(differences) == pytest.approx(expected, rel=1e-9)


def test_with_epochs_p_counts_all_ways_to_flip_the_signs() -> None:
    dice = random.Random(3)
    for _ in range(20):
        differences = [Fraction(dice.randint(-6, 6), 6) for _ in range(9)]
        seen = abs(sum(differences))
        sums = [
            abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
            for signs in product((1, -1), repeat=9)
        ]
        assert sign_flip_test(differences) == pytest.approx(
            sum(each >= seen for each in sums) / len(sums)
        )


def test_the_interval_of_a_difference_holds_the_truth_about_95_times_in_100() -> None:
    dice, hits, worlds = random.Random(3), 0, 400
    for _ in range(worlds):
        found = []
        for _ in range(60):
            a, b = (0.8, 0.9) if dice.random() < 0.4 else (0.2, 0.4)  # 0.16 apart on average
            found.append(
                Fraction(
                    sum(dice.random() < b for _ in range(3))
                    - sum(dice.random() < a for _ in range(3)),
                    3,
                )
            )
        low, high = interval_of_difference(found)
        hits += low <= 0.16 <= high
    assert 0.92 <= hits / worlds <= 0.98


def test_two_runs_are_compared_task_by_task() -> None:
    config = {**CONFIG, "hardness": {"t0": "hard", "t1": "easy", "t2": "easy"}}
    first = outcomes("t", [1, 1], [0, 0], [0, 1])
    second = outcomes("t", [0, 0], [1, 1], [1, 1], [1, 1])
    found = compare((config, first), (CONFIG, second))
    assert found is not None
    assert (found["tasks"], found["unpaired"]) == (3, 1)
    assert (found["rate_a"], found["rate_b"], found["difference"]) == (
        0.5,
        pytest.approx(2 / 3),
        pytest.approx(1 / 6),
    )
    assert [flip["task"] for flip in found["gained"]] == ["t1", "t2"], "the largest change first"
    assert found["lost"] == [{"task": "t0", "query": "the query of t0", "a": 1, "b": 0}]
    assert list(found["by_hardness"]) == ["easy", "hard"]
    assert found["by_hardness"]["easy"]["difference"] == 0.75


def test_only_scored_tasks_of_one_id_and_one_query_are_compared() -> None:
    mine, theirs = played("0", query="Count the lines."), played("0", query="Count the words.")
    longer = played("0", query="Database: trees\nCount the lines.")
    lost = Episode("0", mine.query, (), None, False, None)
    assert [
        compare((CONFIG, [mine]), (CONFIG, [other])) is None for other in (theirs, lost, longer)
    ] == [True, True, False]


def test_pass_at_k_is_the_share_of_draws_of_k_that_hold_a_success() -> None:
    solved = ([1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0], [1, 0, 1, 0, 0])
    found = pass_at_k(outcomes("t", *solved))
    assert list(found) == ["1", "2", "3", "4"]
    for k, part in found.items():
        draws = [[any(draw) for draw in combinations(epochs, int(k))] for epochs in solved]
        assert part["rate"] == pytest.approx(
            sum(sum(each) / len(each) for each in draws) / len(draws)
        )
        assert part["ci95"][0] < part["rate"] < part["ci95"][1]


def test_the_interval_of_pass_at_k_holds_the_truth_about_95_times_in_100() -> None:
    dice, hits, worlds = random.Random(2), 0, 300
    chances = (0.05, 0.3, 0.9)
    truth = sum(1 - (1 - chance) ** 2 for chance in chances) / 3
    for _ in range(worlds):
        tasks = [
            [dice.random() < chance for _ in range(4)] for chance in dice.choices(chances, k=60)
        ]
        low, high = pass_at_k(outcomes("t", *tasks))["2"]["ci95"]
        hits += low <= truth <= high
    assert 0.92 <= hits / worlds <= 0.985
