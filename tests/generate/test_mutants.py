"""Mutants of golds: plausible mistakes, of every kind that the module names."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from intercode.generate import FAMILIES
from intercode.generate.drafts import Wanted, draft
from intercode.generate.draws import Draw, read_toml
from intercode.generate.ladder import rungs
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
    ("family", "gold", "mistake"),
    [
        ("bash-compare", "cmp -s a b && rm a", "[ $(wc -c < a) = $(wc -c < b) ] && rm a"),
        ("bash-compare", "cmp -s a b && rm a", "diff -qi a b > /dev/null && rm a"),
        ("bash-compare", "cmp -s a b && rm a", "diff -qb a b > /dev/null && rm a"),
        ("bash-compare", "cd /a && ls *.md", "shopt -s nocaseglob; cd /a && ls *.md"),
        ("bash-logs", """awk '$3 == "/a"' /l""", """awk 'tolower($3) == tolower("/a")' /l"""),
        ("bash-logs", "awk '$4 >= 400' /l", "awk '$4 ~ /^4/' /l"),
        ("bash-files", "sort /a", "sort -V /a"),
        ("bash-files", "sort -u /a | wc -l", 'tr -s " " < /a | sort -u | wc -l'),
        ("bash-files", "awk '{print $2}' /a", "awk -F'[ ]' '{print $2}' /a"),
        ("bash-find", "find /a -type d -name 'b*'", "find /a -type d -name 'b*' -prune"),
        ("bash-find", "sort -k1,1nr -k2,2 | head", "sort -k1,1nr -k2,2V | head"),
        ("bash-settings", "grep -c '^[a-m]' /a", "grep -c '^[a-l]' /a"),
        ("bash-settings", "sed -i 's/^k = [0-9]*/k = 3/' /a", "sed -i 's/^k = .*/k = 3/' /a"),
        ("bash-filing", "find -exec mv -t /b {} +", "find -exec cp -t /b {} +"),
        ("bash-filing", "find -name 'a-*'", "find -name 'a*'"),
    ],
)
def test_a_command_has_the_first_mistakes_of_its_family(
    family: str, gold: str, mistake: str
) -> None:
    assert mistake in list(bash_mutants(gold, family))


@pytest.mark.slow
def test_each_first_mistake_is_one_of_some_gold() -> None:
    tables, golds = read_toml("mistakes"), dict[str, list[str]]()
    for family in FAMILIES.values():
        if family.env == "python" or family.compose:
            continue
        for seed in range(24):
            draw = Draw(str(seed), "test")
            place = family.place(draw, "x")
            for question in family.questions:
                able = [*rungs(question)]
                wanted = Wanted(question, able[seed % len(able)])
                gold = draft(draw, family, place, wanted, 0).gold
                for name in (family.env, family.name):
                    golds.setdefault(name, []).append(gold)
    for name, edits in tables.items():
        for pattern, _ in edits:
            assert any(map(re.compile(pattern).search, golds[name])), pattern


@pytest.mark.parametrize(
    ("family", "gold", "mistake"),
    [
        ("sql-shop", "SELECT a FROM t WHERE b = 'Abc'", "SELECT a FROM t WHERE b LIKE 'Abc'"),
        (
            "sql-shop",
            "SELECT id FROM t WHERE day = (SELECT MAX(day) FROM t)",
            "SELECT id FROM t WHERE id = (SELECT MAX(id) FROM t)",
        ),
        (
            "sql-shop",
            "SELECT a FROM t WHERE rebate IS NOT NULL",
            "SELECT a FROM t WHERE rebate > 0",
        ),
        ("sql-shop", "SELECT a FROM t WHERE rebate IS NULL", "SELECT a FROM t WHERE rebate = 0"),
        ("sql-shop", "SELECT COUNT(*) FROM t", "SELECT COUNT(rebate) FROM t"),
        ("sql-shop", "SELECT COUNT(*) FROM t", "SELECT COUNT(DISTINCT customer_id) FROM t"),
        ("sql-library", "SELECT COUNT(back) FROM loan", "SELECT COUNT(*) FROM loan"),
        ("sql-library", "SELECT COUNT(id) - COUNT(back) FROM t", "SELECT COUNT(id) FROM t"),
        ("sql-library", "SELECT loan.id FROM loan", "SELECT reader.id FROM loan"),
        ("sql-league", "SELECT a FROM t GROUP BY t.id", "SELECT a FROM t GROUP BY t.name"),
    ],
)
def test_a_query_has_the_first_mistakes_of_its_family(family: str, gold: str, mistake: str) -> None:
    assert mistake in list(sql_mutants(gold, family))


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
