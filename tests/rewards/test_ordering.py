"""How much of a gold's line order counts, read off the gold command."""

from __future__ import annotations

import pytest

from intercode.envs.bash.ordering import FREE, STRICT, order_key

FREED = [
    "find . -type f | sed 's@^./@@' | grep x",
    "find a | tr '\\n' ' '",
    "find . | while read f; do wc -l $f; done",
    "for f in *.c; do wc -l $f; done",
    "t=$(find a | sort | tail -n 1); find b",
    "mkdir a; touch a/b; ls a",
    "ls | sort -R",
    "find . | sort",
    "grep x f",
    "grep x *.c",
    "cat f | grep x | cut -f 1 | tr a-z A-Z | sed s/a/b/",
    "awk -F, '$3 == \"x\" { print $1 }' f",
    "sed -n 's/x: //p' f",
    "awk '{c[$1]++} END {for (k in c) print k}' f",
    "df / | tail -n 1 | awk '{ printf \"%s\\n\", $3 }'",
    "wc -c *",
    "comm -23 <(sort a | uniq) <(sort b)",
]
KEPT = [
    "",
    "frobnicate",
    "cat f",
    "ls -t",
    "find . | xargs ls -t",
    "find . -printf '%s %p\\n' | sort -n | cut -d' ' -f2",
    "for f in *.c; do wc -l $f; done | sort -k1,1 -t:",
    "echo b; echo a",
    "find a; cat b",
    "find . > out; cat out",
    "grep -v x f",
    "grep -A 2 x f",
    "grep x f | tac",
    "grep x f | head -n 2",
    "grep x f | sed '/a/,/b/d'",
    "awk '!seen[$0]++' f",
    "awk '$1 == last { print n++ }' f",
    "awk '{ print $1 }' f",
    "wc -c a b",
    "grep -c '[a-z]' a; grep -c '[0-9]' a",
]


ASKED = [
    ("find . | sort", "list the files sorted by name", False),
    ("grep x f", "in the order of the file", False),
    ("grep x f", "the most recent", False),
    ("grep x f", "at most three, by their first field, of /orders/last", True),
    ("cat f", "the names, in any order", True),
]


@pytest.mark.parametrize(
    ("gold", "query", "free"),
    [*((gold, "", True) for gold in FREED), *((gold, "", False) for gold in KEPT), *ASKED],
)
def test_the_order_of_a_gold_is_read_off_its_last_pipeline_and_the_query(
    gold: str, query: str, free: bool
) -> None:
    assert (order_key(gold, query) is FREE) is free


def test_lines_that_tie_under_a_numeric_sort_are_free_and_others_are_not() -> None:
    key = order_key("uniq -c f | sort -rn", "rank them")
    assert key not in (FREE, STRICT)
    assert [key(line) for line in ("3 a", "2 b", "2 c")] == [
        key(line) for line in ("3 a", "2 c", "2 b")
    ]
    assert [key(line) for line in ("3 a", "2 b")] != [key(line) for line in ("2 b", "3 a")]


def test_what_is_told_of_several_things_has_its_place_where_a_line_names_none_of_them() -> None:
    key = order_key("stat -c '%s %n' /d/a /d/b.txt", "")
    assert [key("3 a"), key("5 /d/b.txt"), key("5 b.txt.gz"), key("3")] == [
        None,
        None,
        "5 b.txt.gz",
        "3",
    ]
    twice = order_key("wc -l a; wc -w a", "")
    assert twice("3 a") != twice("5 a")
