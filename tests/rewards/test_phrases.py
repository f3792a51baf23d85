"""What may stand around an answer, and what may not."""

from __future__ import annotations

import pytest

from intercode.rewards import bash_exact
from intercode.types import Outcome, Task

COUNT = ("How many files are below /depot?", "find /depot -type f | wc -l", "42")
MAIL = ("Whom must one ask before using moss? Print the mail address.", "cat who", "mira@lab.example")
LIST = ("Which files are large? Print their paths in any order.", "find / -size +1M", "/a/b.iso\n/a/c.iso")
PAIRS = ("Print each month and its number of lines.", "cat counts", "2024-05 3\n2024-06 4")


def solved(asked: tuple[str, str, str], ours: str) -> bool:
    query, gold, theirs = asked
    return bash_exact(Outcome(ours), Outcome(theirs), Task("1", query, gold)).success


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        (COUNT, "There are 42 files below /depot."),
        (COUNT, "42 files"),
        (MAIL, "One must ask mira@lab.example before using moss."),
        (LIST, "The large files:\n/a/c.iso\n/a/b.iso"),
        (LIST, "-rw-r--r-- 1 root 2000000 /a/b.iso\n-rw-r--r-- 1 root 2000001 /a/c.iso"),
        (PAIRS, "month number\n2024-05 3\n2024-06 4"),
        (PAIRS, "2024-05: 3 lines\n2024-06: 4 lines"),
    ],
)
def test_a_sentence_a_title_and_columns_of_another_kind_are_free(asked: tuple[str, str, str], ours: str) -> None:
    assert solved(asked, ours)


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        (COUNT, "There are 43 files below /depot."),
        (COUNT, "42 43"),
        (COUNT, "-42"),
        (COUNT, "There are about 42 files."),
        (COUNT, "There are not 42 files."),
        (MAIL, "One must ask mira@lab.example or tom@lab.example."),
        (LIST, "/a/b.iso\n/a/c.iso\n/a/d.iso"),
        (LIST, "/a/b.iso /a/d.iso\n/a/c.iso"),
        (LIST, "README large\n/a/c.iso\n/a/b.iso"),
        (PAIRS, "2024-05 4\n2024-06 3"),
        (("Print only the number of files.", "ls | wc -l", "42"), "There are 42 files."),
        (("Print NAME,STATUS.", "cat x", "lee,active"), "lee active"),
    ],
)
def test_a_second_guess_a_limit_and_what_the_query_forbids_are_not(asked: tuple[str, str, str], ours: str) -> None:
    assert not solved(asked, ours)


def test_a_query_that_says_any_order_frees_it_whatever_the_gold_does() -> None:
    gold = "awk '{ print $1 }' x"
    assert solved(("Print the names, in any order.", gold, "b\na"), "a\nb")
    assert not solved(("Print the names.", gold, "b\na"), "a\nb")
