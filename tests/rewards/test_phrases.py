"""What may stand around an answer, and what may not."""

from __future__ import annotations

import pytest
from asked import Asked, solved

COUNT = ("How many files are below /depot?", "find /depot -type f | wc -l", "42")
MAIL = ("Whom must one ask before using moss? Print the mail address.", "cat who", "mira@lab.example")
LIST = ("Which files are large? Print their paths in any order.", "find / -size +1M", "/a/b.iso\n/a/c.iso")
PAIRS = ("Print each month and its number of lines.", "cat counts", "2024-05 3\n2024-06 4")
WIND = ("What was the highest wind? Print the number.", "cut -f 4 x | sort -n | tail -n 1", "14.0")
CODES = ("Print the code of each station that is large.", "awk '$3 > 20 { print $1 }' x", "RS\nYD")
WHO = ("Who owns /depot/README.md? Print user and group.", "stat -c '%U %G' x", "root staff")
SIZE = ("How many bytes has /depot/a b.txt?", "stat -c %s '/depot/a b.txt'", "2567")
NEWER = ("Which is newer, /lab/a.txt or /lab/b.txt?", "ls -t /lab/a.txt /lab/b.txt | head -n 1", "/lab/b.txt")


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        (COUNT, "There are 42 files below /depot."),
        (COUNT, "42 files"),
        (MAIL, "One must ask mira@lab.example before using moss."),
        (LIST, "The large files:\n/a/c.iso\n/a/b.iso"),
        (LIST, "-rw-r--r-- 1 root lab 2000000 Jan 15  2024 /a/b.iso\n-rw-r--r-- 1 root lab 2000001 Jan  5 12:00 /a/c.iso"),
        (PAIRS, "month number\n2024-05 3\n2024-06 4"),
        (PAIRS, "2024-05: 3 lines\n2024-06: 4 lines"),
        (PAIRS, "Lines of each month:\n2024-05, 3\n2024-06, 4"),
        (LIST, "1. '/a/b.iso'\n2. '/a/c.iso'"),
        (WHO, "root:staff"),
        (WHO, "It belongs to user root and group staff."),
        (SIZE, "2,567 bytes"),
        (SIZE, "2567 B"),
        (SIZE, "2567 /depot/a b.txt"),
        (NEWER, "/lab/b.txt is newer"),
        (("What share is full, in percent?", "awk x", "92.7"), "92.7%"),
        (
            ("Print the names that have a bracket.", "find x", "bill 1 (2).txt"),
            "-rw-r--r-- 1 a b 19 Jan 15  2024 bill 1 (2).txt",
        ),
    ],
)
def test_a_sentence_a_title_and_columns_of_another_kind_are_free(asked: Asked, ours: str) -> None:
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
        (WIND, "14.0 degrees"),
        (WIND, "14.0 15"),
        (WIND, "14.0 thousand"),
        (COUNT, "It cannot be 42."),
        (COUNT, "half of 42"),
        (LIST, "17\n/a/b.iso\n/a/c.iso"),
        (COUNT, "40.0 41.0 42 43.0"),
        (COUNT, "0x29 42 0x2b"),
        (COUNT, "42 is not the number of files"),
        (COUNT, "None of these is the number:\n42"),
        (("Print open or closed.", "cat door", "open"), "open closed"),
        (("Print OK if it is whole, else FAIL.", "cat x", "OK"), "OK FAIL"),
        (("Which of ann, bob and cid is first?", "head -1 x", "ann"), "ann bob cid"),
        (NEWER, "/lab/b.txt is newer, /lab/a.txt is not"),
        (CODES, "RS with plenty of good docks\nYD too"),
        (WHO, "root staff wheel"),
        (SIZE, "2567 kB"),
        (SIZE, "2567 lines"),
        (SIZE, "2567 3000B"),
        (NEWER, "/lab/a.txt /lab/b.txt"),
        (LIST, "/a/b.iso part two\n/a/c.iso"),
        (LIST, "/a/b.iso d.iso\n/a/c.iso"),
        (("How many SKUs are in both?", "comm -12 a b | wc -l", "17"), "17 SKUs are in spring only"),
        (("Print the version.", "cat x", "3.10"), "3.1"),
        (("Print each as `NAME -> PLACE`.", "find x", "a -> b"), "1 a -> b"),
        (("Print the words without the empty lines.", "grep . x", "a\nb"), "a\n\nb"),
        (("Print only the number of files.", "ls | wc -l", "42"), "There are 42 files."),
        (("Print NAME,STATUS.", "cat x", "lee,active"), "lee active"),
    ],
)
def test_a_second_guess_a_limit_and_what_the_query_forbids_are_not(asked: Asked, ours: str) -> None:
    assert not solved(asked, ours)


def test_a_query_that_says_any_order_frees_it_whatever_the_gold_does() -> None:
    gold = "awk '{ print $1 }' x"
    assert solved(("Print the names, in any order.", gold, "b\na"), "a\nb")
    assert not solved(("Print the names.", gold, "b\na"), "a\nb")
