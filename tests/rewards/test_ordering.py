"""How much of a gold's line order counts, read off the gold command."""

from __future__ import annotations

import pytest

from intercode.rewards.ordering import FREE, STRICT, order_key
from intercode.rewards.pipelines import split


@pytest.mark.parametrize(
    ("gold", "query", "free"),
    [
        ("find . -name x", "", True),
        ("find . -type f | sed 's@^./@@' | grep x", "", True),
        ("find . | sort", "list the files", True),
        ("find . | sort", "list the files sorted by name", False),
        ("find . -printf '%s %p\\n' | sort -n | cut -d' ' -f2", "list the files", False),
        ("find . | xargs ls -t", "", False),
        ("find . -print0 | xargs -0 -n 1 -I {} ls -l {}", "", True),
        ("ls -t", "", False),
        ("ls | sort -R", "", True),
        ("cd x && ls", "", True),
        ("mkdir a; touch a/b; ls a", "", True),
        ("cat f", "", False),
        ("grep x f", "", True),
        ("grep x f", "in the order of the file", False),
        ("grep x f", "the most recent", False),
        ("grep x f", "at most three, by their first field, of /orders/last", True),
        ("cat f | grep x | cut -f 1 | tr a-z A-Z | sed s/a/b/", "", True),
        ("awk -F, '$3 == \"x\" { print $1 }' f", "", True),
        ("awk '/a/ && $2 > 3' f", "", True),
        ("sed -n 's/x: //p' f", "", True),
        ("grep -v x f", "", False),
        ("grep -A 2 x f", "", False),
        ("grep x f | tac", "", False),
        ("grep x f | head -n 2", "", False),
        ("grep x f | sed -n 2p", "", False),
        ("grep x f | sed '/a/,/b/d'", "", False),
        ("awk '/a/, /b/' f", "", False),
        ("awk '!seen[$0]++' f", "", False),
        ("awk '$1 == last { print n++ }' f", "", False),
        ("awk 'NR > 2 { print }' f", "", False),
        ("awk '{ print $1 }' f", "", False),
        ("cut -f 1 f", "", False),
        ("t=$(find a | sort | tail -n 1); find b", "", True),
        ("grep -r x .", "", True),
        ("grep x *.c", "", True),
        ("echo b; echo a", "", False),
        ("find a; find b", "", True),
        ("find a; cat b", "", False),
        ("wc -c a b", "", False),
        ("wc -c *", "", True),
        ("stat -c '%U %a\\n' a", "", True),
        ("find a | xargs -n 1 basename", "", True),
        ("find a | tr '\\n' ' '", "", True),
        ("df / | tail -n 1 | awk '{ printf \"%s\\n\", $3 }'", "", True),
        ("find a -printf '%u\\n%g\\n' | sort -u", "", True),
        ("find a -print0 | tr '\\0' '\\n'", "", True),
        ("grep -rlZ x a | tr '\\000' '\\n'", "", True),
        ("find a -type f | tr -s '\\n'", "", True),
        ("du a | tr -d '\\r\\n'", "", True),
        ("find a -print0 | xargs -0 -n 1", "", True),
        ("find a | xargs -L 1 echo", "", True),
        ("du a | xargs -d '\\n' -n 1", "", True),
        ('find a -exec sh -c \'printf "%s\\n" "${1%.c}"\' _ {} \\;', "", True),
        ("du -k *.c | awk '{ printf \"%s \", $2; print $1 }'", "", True),
        ('du -k *.c | awk \'{ printf "%s ", $2; printf "%d\\n", $1 }\'', "", True),
        ("du -k *.c | awk '{ gsub(/\\n/, \"\"); print }'", "", True),
        ("du -k *.c | sed 's/$/\\n/'", "", True),
        ("find a -exec file {} + | grep ELF | cut -d: -f1 | xargs -n 1", "", True),
        ("md5sum *.c | awk '{ print $2 }' | xargs -n 1 echo", "", True),
        ("ps -C sleep -o pid= | tr -s ' ' '\\n'", "", True),
        ("df --output=target | tail -n +2 | xargs -n 1", "", True),
        ("find a -exec stat -c %n {} + | xargs -n1", "", True),
        ("grep '^staff:' groups | cut -d: -f4 | sed 's/,/\\n/g'", "", True),
        ("du -k *.c | xargs -n 2", "", True),
        ("du -ak0 | xargs -0 -n 1", "", True),
        ('du -k *.c | awk \'{ printf("%s %s%s", $1, $2, "\\n") }\'', "", True),
        ('du -k *.c | awk \'{ gsub("\\n", ""); print $2 }\'', "", True),
        ('du -k *.c | awk \'BEGIN { print "KiB path"; print "---" } { print $1, $2 }\'', "", True),
        ("find a -exec du -k {} + | sed 's/^/\\n/'", "", True),
        ("find a -exec wc -l {} + | sed 's/.*/&\\n/'", "", True),
        ("find a -printf '%u\\n%g\\n' | awk '!seen[$0]++'", "", True),
        ("id -Gn bob | tr ' ' '\\n'", "", True),
        ("stat -c %U a b | sort -u", "", True),
        ("sort a | wc -l; sort b | wc -l", "", False),
        ("stat -c %s a 2> errors", "", True),
        ("find a; wc -l < b", "", True),
        ("wc -l < a; ls b | wc -l", "", False),
        ("grep -c '[a-z]' a; grep -c '[0-9]' a", "", False),
        ("grep -rc x a b", "", True),
        ("tac f | head -3", "", False),
        ("for f in *.c; do wc -l $f; done", "", True),
        ("for f in *.c; do wc -l $f; done | sort -k1,1 -t:", "", False),
        ("for i in 3 1 2; do echo $i; done", "", False),
        ("find . | while read f; do wc -l $f; done", "", True),
        ("awk '{c[$1]++} END {for (k in c) print k}' f", "", True),
        ("awk '{print $1; for (i = 0; i < 3; i++) print i}' f", "", False),
        ("find . \\( -name a -o -name b \\) -exec ls -d {} \\;", "", True),
        ("comm -23 <(sort a | uniq) <(sort b)", "", True),
        ("sudo LANG=C find / -name x 2>/dev/null", "", True),
        ("find . > out; cat out", "", False),
        ("frobnicate", "", False),
        ("find . -name 'unbalanced", "", True),
        ("", "", False),
    ],
)
def test_the_order_of_a_gold_is_read_off_its_last_pipeline(gold: str, query: str, free: bool) -> None:
    assert (order_key(gold, query) is FREE) is free


def test_lines_that_tie_under_a_numeric_sort_are_free_and_others_are_not() -> None:
    key = order_key("uniq -c f | sort -rn", "rank them")
    assert key not in (FREE, STRICT)
    assert [key(line) for line in ("3 a", "2 b", "2 c")] == [key(line) for line in ("3 a", "2 c", "2 b")]
    assert [key(line) for line in ("3 a", "2 b")] != [key(line) for line in ("2 b", "3 a")]


def test_what_is_told_of_several_things_has_its_place_where_a_line_names_none_of_them() -> None:
    key = order_key("stat -c '%s %n' /d/a /d/b.txt", "")
    assert [key("3 a"), key("5 /d/b.txt"), key("5 b.txt.gz"), key("3")] == [None, None, "5 b.txt.gz", "3"]
    twice = order_key("wc -l a; wc -w a", "")
    assert twice("3 a") != twice("5 a")


def test_scripts_are_cut_at_top_level_only() -> None:
    script = "a | b '|;' \"x;$(c | d)\" ; e $(f; g) && h `i | j` 2>&1 | k \\; || l &> m & n"
    assert [len(pipeline) for pipeline in split(script)] == [2, 1, 2, 1, 1]
