"""Mutants of golds: plausible mistakes, of every kind that the module names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from intercode.generate.mutants import bash_mutants, python_mutants, sql_mutants


@pytest.mark.parametrize(
    ("gold", "mistakes"),
    [
        ("grep -cw oak /notes", ["grep -w oak /notes", "grep -c oak /notes", "grep oak /notes"]),
        (
            "find /yard -type f -name '*.ini' -size +90c",
            [
                "find /yard -name '*.ini' -size +90c",
                "find /yard -type f -size +90c",
                "find /yard -type f -name '*ini' -size +90c",
                "find /yard -type f -name '*.ini' -size +89c",
                "find /yard -maxdepth 1 -type f -name '*.ini' -size +90c",
            ],
        ),
        (
            """awk 'NR > 1 && $3 == "B" {print $2, $1}' t | sort -k1,1nr -k2,2 | head -n 1""",
            [
                """awk '$3 == "B" {print $2, $1}' t | sort -k1,1nr -k2,2 | head -n 1""",
                """awk 'NR > 1 {print $2, $1}' t | sort -k1,1nr -k2,2 | head -n 1""",
                """awk 'NR > 1 && $0 ~ "B" {print $2, $1}' t | sort -k1,1nr -k2,2 | head -n 1""",
                """awk 'NR > 1 && $3 == "B" {print $1, $2}' t | sort -k1,1nr -k2,2 | head -n 1""",
                """awk 'NR > 1 && $3 == "B" {print $2, $1}' t | sort -k1,1nr | head -n 1""",
                """awk 'NR > 1 && $3 == "B" {print $2, $1}' t | sort -k1,1n -k2,2 | head -n 1""",
                """awk 'NR > 1 && $3 == "B" {print $2, $1}' t | sort -k1,1nr -k2,2 | tail -n 1""",
            ],
        ),
        (
            r"sed -i 's/^a\.b$/c/g' /x",
            [
                r"sed -i 's/a\.b$/c/g' /x",
                r"sed -i 's/^a.b$/c/g' /x",
                r"sed -i 's/^a\.b/c/g' /x",
                r"sed -i 's/^a\.b$/c/' /x",
            ],
        ),
        ("ls /a | sort | uniq -c", ["ls /a | uniq -c", "ls /a | sort"]),
        ("mv in/a.txt /b/", ["mv in/a.txt* /b/", "mv in/*a.txt /b/"]),
        ("grep -cxFf a b", ["grep -i -cxFf a b"]),
        (
            "find /a -name '*.c' | while read f; do cmp -s $f $g && mv $f ${f%.c}.h; done",
            [
                "find /a -iname '*.c' | while read f; do cmp -s $f $g && mv $f ${f%.c}.h; done",
                "find /a -name '*.c' | while read f; do cmp -s $f $g && mv $f ${f/.c}.h; done",
                "find /a -name '*.c' | while read f; do "
                "[ $(wc -c < $f) = $(wc -c < $g) ] && mv $f ${f%.c}.h; done",
            ],
        ),
        ("""awk 'NF && $1 == "b"' /x""", ["""awk 'length && $1 == "b"' /x"""]),
        ("""awk '$1 == "b"' /x""", ["""awk 'index($1, "b") == 1' /x"""]),
    ],
)
def test_a_command_is_mutated(gold: str, mistakes: list[str]) -> None:
    made = list(bash_mutants(gold))
    assert gold not in made
    for mistake in mistakes:
        assert mistake in [" ".join(each.split()) for each in made]


@pytest.mark.parametrize(
    ("gold", "mistakes"),
    [
        (
            "SELECT DISTINCT a FROM t WHERE b > 3 AND c = 'x' ORDER BY a, b",
            [
                "SELECT a FROM t WHERE b > 3 AND c = 'x' ORDER BY a, b",
                "SELECT DISTINCT a FROM t WHERE b >= 3 AND c = 'x' ORDER BY a, b",
                "SELECT DISTINCT a FROM t WHERE b > 3 ORDER BY a, b",
                "SELECT DISTINCT a FROM t WHERE b > 3 OR c = 'x' ORDER BY a, b",
                "SELECT DISTINCT a FROM t WHERE b > 3 AND c = 'x' ORDER BY a",
                "SELECT DISTINCT a FROM t WHERE b > 3 AND c = 'x' ORDER BY a DESC, b",
                "SELECT DISTINCT a FROM t WHERE b > 3 AND c = 'x' ORDER BY a, b LIMIT 1",
            ],
        ),
        (
            "SELECT a, COUNT(DISTINCT b) FROM t GROUP BY a HAVING SUM(c) < 9",
            [
                "SELECT a, COUNT(b) FROM t GROUP BY a HAVING SUM(c) < 9",
                "SELECT a, COUNT(DISTINCT b) FROM t GROUP BY a",
                "SELECT a, COUNT(DISTINCT b) FROM t GROUP BY a HAVING COUNT(c) < 9",
            ],
        ),
        (
            "SELECT a, SUM(CASE WHEN b THEN c ELSE 0 END) FROM t GROUP BY a",
            ["SELECT a, SUM(CASE WHEN b THEN c END) FROM t GROUP BY a"],
        ),
        (
            "SELECT COUNT(DISTINCT u_id), COUNT(c), SUM(d) FROM t WHERE e = 'Abc' AND f <> 'g'",
            [
                "SELECT COUNT(DISTINCT (SELECT one.name FROM u AS one WHERE one.id = u_id)), "
                "COUNT(c), SUM(d) FROM t WHERE e = 'Abc' AND f <> 'g'",
                "SELECT COUNT(DISTINCT u_id), COUNT(*), SUM(d) FROM t WHERE e = 'Abc' AND f <> 'g'",
                "SELECT COUNT(DISTINCT u_id), COUNT(c), SUM(DISTINCT d) FROM t "
                "WHERE e = 'Abc' AND f <> 'g'",
                "SELECT COUNT(DISTINCT u_id), COUNT(c), SUM(d) FROM t "
                "WHERE e LIKE 'Abc%' AND f <> 'g'",
                "SELECT COUNT(DISTINCT u_id), COUNT(c), SUM(d) FROM t "
                "WHERE e = 'Abc' AND (f <> 'g' OR f IS NULL)",
            ],
        ),
        (
            "SELECT a, b FROM t WHERE c > 3 ORDER BY d, id DESC",
            [
                "SELECT a, b FROM t WHERE c > 4 ORDER BY d, id DESC",
                "SELECT a, b FROM t WHERE c > 3 ORDER BY d, b DESC",
            ],
        ),
        (
            "SELECT id, name FROM t WHERE a < 3",
            ["SELECT MIN(id), name FROM t WHERE a < 3 GROUP BY name"],
        ),
        (
            "SELECT t.a, COUNT(u.id) FROM t LEFT JOIN u ON u.t_id = t.id AND b > 3 GROUP BY t.a",
            [
                "SELECT t.a, COUNT(u.id) FROM t LEFT JOIN u ON u.t_id = t.id "
                "WHERE b > 3 OR u.id IS NULL GROUP BY t.a"
            ],
        ),
        ("SELECT t.a FROM t LEFT JOIN u ON t.a = u.a", ["SELECT t.a FROM t JOIN u ON t.a = u.a"]),
        ("SELECT a FROM t WHERE a > -1", ["SELECT a FROM t WHERE a > 0"]),
    ],
)
def test_a_query_is_mutated(gold: str, mistakes: list[str]) -> None:
    made = list(sql_mutants(gold))
    assert gold not in made
    assert set(mistakes) <= set(made)


@pytest.mark.parametrize(
    ("body", "mistakes"),
    [
        ("x > 3 and y", ["x >= 3 and y", "x > 4 and y", "x > 2 and y", "x > 3 or y", "y", "x > 3"]),
        ("max(x) - len(y)", ["min(x) - len(y)", "max(x) + len(y)", "max(x) - len(set(y))"]),
        (
            "x.strip().ljust(9)",
            ["x.ljust(9)", "x.lstrip().ljust(9)", "x.strip().rjust(9)", "x.strip().ljust(10)"],
        ),
        ("[a for a in x if a if y]", ["[a for a in x if a]", "[a for a in x if y]"]),
        ("sorted(x, reverse=True)", ["sorted(x)", "list(x, reverse=True)"]),
        ("x if y else 0", ["x", "0"]),
        ("x.split()", ["x.split(' ')"]),
    ],
)
def test_a_function_is_mutated(body: str, mistakes: list[str]) -> None:
    written: Callable[[str], str] = "def f(x, y):\n    return {}".format
    made = list(python_mutants(written(body)))
    assert written(body) not in made
    assert {written(mistake) for mistake in mistakes} <= set(made)
