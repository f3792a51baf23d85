"""The same words on other lines, or with a number at the other end of its line."""

from __future__ import annotations

import pytest
from asked import Asked, solved

ROOTS = ("Which files of /a are large?", "find /a -size +1M", "x.iso\ny.iso")
COUNTS = ("Count the files per type.", "cut -f 2 t | sort | uniq -c", "9 cargo\n14 swift")
TWO = ("How many lines are there, and how many words?", "wc -lw < t", "23 322")


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        (ROOTS, "y.iso x.iso"),
        (ROOTS, "x.iso, y.iso"),
        (ROOTS, "The large files are x.iso and y.iso."),
        (COUNTS, "swift 14\ncargo 9"),
        (COUNTS, "swift: 14 files\ncargo: 9 files"),
        (COUNTS, "9 cargo, 14 swift"),
        (TWO, "lines: 23\nwords: 322"),
        (TWO, "23\n322"),
        (("Sort them by number: names with their numbers.", "sort -n t", "9 cargo\n14 swift"), "cargo 9\nswift 14"),
    ],
)
def test_other_arrangements_say_the_same(asked: Asked, ours: str) -> None:
    assert solved(asked, ours)


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        (ROOTS, "x.iso z.iso"),
        (COUNTS, "swift 9\ncargo 14"),
        (COUNTS, "9 swift, 14 cargo"),
        (TWO, "322\n23"),
        (TWO, "words: 322\nlines: 23"),
        (("Sort them by number: names with their numbers.", "sort -n t", "9 cargo\n14 swift"), "swift 14\ncargo 9"),
        (("Print the count, followed by the type.", "uniq -c t", "9 cargo\n14 swift"), "cargo 9\nswift 14"),
        (("Print the large files of /a, one a line.", "find /a -size +1M", "x.iso\ny.iso"), "x.iso y.iso"),
        (("Print the text of /a.", "cat /a", "x\n\ny"), "x y"),
    ],
)
def test_other_words_and_arrangements_that_the_query_fixes_do_not(asked: Asked, ours: str) -> None:
    assert not solved(asked, ours)
