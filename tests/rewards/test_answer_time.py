"""No output of an agent's may hold up the scoring of a run."""

import time

import pytest

from intercode.rewards import bash_exact
from intercode.types import Outcome, Task

TASK = Task("0", "Which is the largest file below /srv? Print its name.", "find /srv -type f | sort | tail -1")
HOSTILE = {
    "a long word of one letter": "1 " + "a" * 250_000 + " b",
    "a long number": "1" * 250_000,
    "a word without an end, and colons": "a: " * 80_000,
    "many short lines": "1\n" * 120_000,
    "blanks": " \t" * 120_000,
    "slashes": "/" * 250_000,
    "dots": "./" * 120_000,
    "comparisons": "is " + "<>~" * 80_000 + "x",
    "a line of complaints": "find: " + "x: " * 80_000 + "Permission denied",
    "eight megabytes": "1 a b\n" * 1_400_000,
}


@pytest.mark.parametrize("output", HOSTILE.values(), ids=HOSTILE)
def test_hostile_answers_are_compared_in_no_time(output: str) -> None:
    started = time.process_time()
    score = bash_exact(Outcome(output), Outcome("/srv/big.bin\n"), TASK)
    assert not score.success
    assert time.process_time() - started < 2


QUERIES = {
    "a long word": "Print the {}.",
    "a long word in quotes": "Print '{}' and sort it by name.",
    "nothing else": "{}",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("filling", ["x", "A", "1", "_", "a1", "http://", "x, "])
def test_a_long_query_holds_up_no_scoring(query: str, filling: str) -> None:
    task = Task("0", query.format((filling * 20_000)[:20_000]), "ls /srv | sort")
    started = time.process_time()
    assert not bash_exact(Outcome("a\nb c"), Outcome("b\nc d"), task).success
    assert time.process_time() - started < 1


def test_a_long_gold_of_digits_is_looked_at_in_no_time() -> None:
    started = time.process_time()
    assert not bash_exact(Outcome("1"), Outcome("1" * 120_000 + "x"), TASK).success
    assert time.process_time() - started < 2


LONG = [f"/srv/{number}.txt {number}" for number in range(5_000)]
NEARLY = {
    "one line is another": [*LONG[:-1], "/srv/x.txt 7"],
    "another word on each line": [f"{line} and {number}" for number, line in enumerate(LONG)],
    "turned around": LONG[::-1],
    "each line twice": sorted(LONG * 2),
    "turned around, a colon behind each line": [f"{line}:" for line in LONG[::-1]],
    "on one line": [" ".join(LONG[::-1])],
}


@pytest.mark.parametrize("lines", NEARLY.values(), ids=NEARLY)
def test_a_long_gold_and_what_is_nearly_it_are_compared_in_no_time(lines: list[str]) -> None:
    task = Task("0", "Print the files and their numbers in order.", "sort -n /srv/list")
    started = time.process_time()
    score = bash_exact(Outcome("\n".join(lines)), Outcome("\n".join(LONG)), task)
    assert not score.success
    assert time.process_time() - started < 2
