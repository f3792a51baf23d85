"""The verdict of a task's tests, from the files that they wrote."""

from __future__ import annotations

import pytest

from intercode.envs.verdict import (
    CaseResult,
    MalformedVerdict,
    Verdict,
    gold_fault,
    read_rewards,
    read_tests,
    score,
)

JUNIT = b"""<testsuites><testsuite>
<testcase classname="a" name="one"/>
<testcase classname="a" name="two"><failure message="no">trace</failure></testcase>
<testcase name="three"><skipped/></testcase>
<testcase name="four"><error>boom</error></testcase>
</testsuite></testsuites>"""
CTRF = b"""{"results": {"tool": {"name": "pytest"}, "tests": [
{"name": "one", "status": "passed"}, {"name": "two", "status": "failed", "message": "no"}]}}"""


def verdict(
    *tests: str, status: int | None = 0, timed_out: bool = False, **rewards: float
) -> Verdict:
    """A verdict with tests such as "one" (passed), "two!" (failed), "three?" (skipped)."""
    outcomes = {"!": "failed", "?": "skipped"}
    results = [CaseResult(name.rstrip("!?"), outcomes.get(name[-1], "passed")) for name in tests]
    return Verdict(rewards or None, results, status, timed_out, "")


def test_results_are_read_from_junit_and_ctrf() -> None:
    assert read_tests({"junit.xml": JUNIT}) == [
        CaseResult("a::one", "passed"),
        CaseResult("a::two", "failed", "no"),
        CaseResult("three", "skipped"),
        CaseResult("four", "failed", "boom"),
    ]
    assert read_tests({"ctrf.json": CTRF, "other.json": b"[1]"}) == [
        CaseResult("one", "passed"),
        CaseResult("two", "failed", "no"),
    ]


def test_rewards_are_finite_numbers() -> None:
    assert read_rewards({"reward.txt": b" 0.5\n"}) == {"reward": 0.5}
    assert read_rewards({"reward.json": b'{"a": 1, "b": 0}', "reward.txt": b"1"}) == {
        "a": 1,
        "b": 0,
    }
    assert read_rewards({"ctrf.json": CTRF}) is None
    for content in (b"NaN", b"passed", b"{}", b'{"a": "1"}', b"true", b"1e999", b""):
        with pytest.raises(MalformedVerdict, match=r"reward\.json"):
            read_rewards({"reward.json": content})
    with pytest.raises(MalformedVerdict, match=r"junit\.xml"):
        read_tests({"junit.xml": b"<testsuite>"})


@pytest.mark.parametrize(
    ("agent", "gold", "reward", "success"),
    [
        (verdict("one", "two"), verdict("one", "two"), 1, True),
        (verdict("one", "two!"), verdict("one", "two"), 0, False),
        (verdict("one"), verdict("one", "two"), 0, False),  # a test that was not run
        (verdict("one", "one!"), verdict("one"), 0, False),  # reported twice
        (verdict("one", "new!"), verdict("one"), 1, True),  # not among the gold's
        (verdict("one", "two?"), verdict("one", "two?"), 1, True),
        (verdict("one", "two?"), verdict("one", "two"), 0, False),
        (verdict(), verdict("one"), 0, False),
        (verdict(), verdict(), 1, True),
        (verdict(status=3), verdict(), 0, False),
        (verdict(reward=0.4), verdict(reward=1), 0.4, False),
        (verdict(reward=7), verdict(reward=1), 1, True),
        (verdict(a=1, b=0), verdict(a=1, b=1), 0.5, False),
        (verdict("one!", reward=1), verdict("one", reward=1), 0, False),
        (verdict("one"), verdict("one", reward=1), 0, False),  # no reward where the gold has one
        (verdict("one", reward=1, timed_out=True), verdict("one", reward=1), 0, False),
        (verdict(status=None), verdict(), 0, False),
    ],
)
def test_a_pass_needs_every_test_that_passed_for_the_gold(
    agent: Verdict, gold: Verdict, reward: float, success: bool
) -> None:
    given = score(agent, gold, of_gold=True, rewards_only=False)
    assert (given.reward, given.success) == (reward, success)
    assert bool(given.rule) != success or given.reward not in (0, 1)


def test_without_a_gold_all_tests_must_pass() -> None:
    untouched = verdict("one!", "two", status=1)
    for agent, success in (
        (verdict("one", "two"), True),
        (verdict("one", "two!"), False),
        (verdict("one"), False),
        (verdict("one", "two", "more!"), False),
        (verdict("one", "two?"), True),
    ):
        assert score(agent, untouched, of_gold=False, rewards_only=False).success is success


def test_a_gold_that_does_not_pass_is_a_fault_of_the_data() -> None:
    assert gold_fault(verdict("one"), rewards_only=False) == ""
    assert gold_fault(verdict("one!"), rewards_only=False) == "these tests fail: one"
    assert gold_fault(verdict(reward=0.5), rewards_only=True) == "its reward is 0.5"
    assert gold_fault(verdict(status=2), rewards_only=False) == "the tests end with status 2"
    assert "neither reward.json nor reward.txt" in gold_fault(verdict(), rewards_only=True)
    assert "ran out of time" in gold_fault(verdict(timed_out=True), rewards_only=False)
