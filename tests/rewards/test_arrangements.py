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


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        (("Convert /a.tsv to CSV and print it.", "tr '\\t' , < /a.tsv", "a,b\nd,e"), "a\tb\nd\te"),
        (("Print /a with = instead of : in it.", "sed s/:/=/ /a", "a=1\nb=2"), "a:1\nb:2"),
        (("Turn the colons of PATH into line ends.", "tr : '\\n' <<< $PATH", "/bin\n/sbin"), "/bin:/sbin"),
        (("Print the table of /a turned around.", "rs -T < /a", "1 2\n3 4"), "1 2 3 4"),
        (("Show /etc/hosts.", "cat /etc/hosts", "a: 1, 2"), "a 1 2"),
        (("Print the sums as month=sum.", "sums", "01=5\n02=6"), "01 5\n02 6"),
    ],
)
def test_signs_and_lines_count_where_they_are_what_is_asked_for(asked: Asked, ours: str) -> None:
    assert not solved(asked, ours)


def test_what_tools_report_of_changes_is_nothing_but_where_a_change_was_wanted() -> None:
    said = "'a' -> 'b'\nc"
    assert solved(("Move a to b, and print the newest file.", "mv a b; ls -t | head -1", "c"), said)
    assert not solved(("Print the newest file.", "ls -t | head -1", "c"), said)
