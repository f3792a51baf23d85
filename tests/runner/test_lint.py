"""Rules over texts: each finds the disagreement that is planted, and nothing in a sound task."""

from __future__ import annotations

from typing import Any

import pytest

from intercode.envs import environment_class
from intercode.types import Task
from intercode.validate.check import find_duplicates, nearest_tasks

BASH = [
    ("Count the files in /den/cave.", "find /den/cave -type f | wc -l", "ls -A "
                                                                        "/den/cave", "disagrees"),
    ("List /den/cave by name.", "ls /den/cave", "ls /den", "disagrees"),
    ("Print the lines with 'otter' in /den/log.", "grep otter /den/log", "grep beaver "
                                                                         "/den/log", "disagrees"),
    ("Make a symbolic link /den/way to /den/log.", "ln -s /den/log "
                                                   "/den/way", "ln /den/log /den/way", "disagrees"),
    ("Remove all *.tmp files in /den.", "find /den -name '*.tmp' -delete", "find /den -maxdepth 1 "
                                                                           "-name "
                                                                           "'*.tmp'", "disagrees"),
    ("Print the word count of the log in /den.", "wc -w /den/log", "wc -w $LOGFILE", "missing"),
    ("Get the page.", "curl http://localhost/", "curl http://den.example/", "needs_network"),
    ("Find what changed in /den in the last day.", "find /den -newer /den", "find /den -mtime "
                                                                            "-1", "unstable"),
    ("Print the greeting of /den/log.", "echo $(head -n 1 /den/log)", "echo hello", "by_luck"),
    ("Print the lines of /den/q.txt.", "cat /den/q.txt", "cat /den/list.txt", "disagrees"),
    ("Print the number of processors in /den/machine.", "grep -c "
                                                        "cpu /den/machine", "nproc", "unstable"),
]  # fmt: skip
SQL = [
    ("What is the average age?", "SELECT AVG(age) FROM pet", "SELECT age FROM pet", "disagrees"),
    ("Age of the youngest?", "SELECT MIN(age) FROM pet", "SELECT MAX(age) FROM pet", "disagrees"),
    ("Pets called 'Rex'?", "SELECT id FROM pet WHERE name = 'Rex'", "SELECT id FROM pet WHERE "
                                                                    "name LIKE 'R%x'", "disagrees"),
    ("Any pet?", "SELECT id FROM pet ORDER BY id LIMIT 1", "SELECT id FROM pet "
                                                           "LIMIT 1", "unstable"),
    ("The pets' names?", "SELECT name FROM pet", "SELECT Pet Name FROM "
                                                 "WHERE Kind = Big Dog", "gold_fails"),
]  # fmt: skip
CHANGING = [
    "NOW()", "CURDATE()", "CURRENT_DATE", "CURRENT_TIME()", "CURRENT_TIMESTAMP(3)", "SYSDATE()",
    "LOCALTIME", "LOCALTIMESTAMP()", "UTC_TIMESTAMP()", "UNIX_TIMESTAMP()", "RAND()", "UUID()",
    "DATE_SUB(CURDATE(), INTERVAL 1 YEAR)", "date('now', '-1 year')", "date()", 'date("now")',
    "datetime('NOW')", "julianday('now')", "strftime('%Y', 'now')", "strftime('%Y')", "unixepoch()",
    "abs(random())", "timediff('now', born)", "strftime('%Y', coalesce(died, 'now'))",
]  # fmt: skip
LASTING = [
    "UNIX_TIMESTAMP(born)", "RAND(3)", "date(born, '+1 day')", "strftime('%Y', born)",
    "julianday(born)", "'now'", "now", "date(now)", "`current_date`", "FROM_UNIXTIME(born)",
]  # fmt: skip
PYTHON = [
    (["assert f(1) == 1", "assert f(2) == 3"], ["assert f(1) == 1", "assert f(2) == 2"]),
    (["assert f(1) == 2", "assert f(2) == 3"], ["assert f(1) == 2", "assert f(5) == 2"]),
    (["assert f(1)", "assert not f(2)"], ["assert f(1)", "assert f(2) is True"]),
    (
        ["assert f(1) == 2", "assert f(3) == 4"],
        ["assert f(1) == 2", "assert f(1)==2", "assert f(3) == 4"],
    ),
]
PYTHON_TEXTS = [
    ("def f(x) return x", ["assert f(1) == 2", "assert f(2) == 3"], "gold_fails"),
    ("def f(x): return x + 1", [], "no_tests"),
    (
        "def f(x): return x + 1",
        ["assert True", "assert f(1) == 2", "assert f(2) == 3"],
        "empty_test",
    ),
    (
        "import random\ndef f(x): return x + random.random()",
        ["assert f(1) > 1", "assert f(2) > 2"],
        "unstable",
    ),
]


def kinds(language: str, query: str, gold: str, **extra: Any) -> set[str]:
    return {issue.kind for issue in environment_class(language).lint(Task("t", query, gold, extra))}


@pytest.mark.parametrize(
    ("language", "row"), [*(("bash", row) for row in BASH), *(("sql", row) for row in SQL)]
)
def test_a_gold_that_differs_from_its_query_is_found(
    language: str, row: tuple[str, str, str, str]
) -> None:
    query, sound, planted, kind = row
    assert kind in kinds(language, query, planted)
    assert kinds(language, query, sound) == set()


def test_sql_that_depends_on_the_clock_or_on_chance_is_found_in_its_text() -> None:
    golds = {
        call: f"SELECT id FROM pet WHERE born > {call} ORDER BY id"
        for call in (*CHANGING, *LASTING)
    }
    assert [
        call for call, gold in golds.items() if kinds("sql", "Any pets?", gold) == {"unstable"}
    ] == CHANGING
    assert [call for call in LASTING if kinds("sql", "Any pets?", golds[call])] == []


@pytest.mark.parametrize(("sound", "weak"), PYTHON)
def test_tests_that_a_constant_or_an_argument_passes_are_found(
    sound: list[str], weak: list[str]
) -> None:
    assert kinds("python", "Write f.", "def f(x): ...", tests=weak) == {"weak_tests"}
    assert kinds("python", "Write f.", "def f(x): ...", tests=sound) == set()


@pytest.mark.parametrize(("gold", "tests", "kind"), PYTHON_TEXTS)
def test_python_that_cannot_be_read_or_depends_on_chance_is_found_in_its_text(
    gold: str, tests: list[str], kind: str
) -> None:
    assert kinds("python", "Write f.", gold, tests=tests) == {kind}
    sound = "import random\nrandom.seed(7)\ndef f(x): return x + random.random()"
    assert kinds("python", "Write f.", sound, tests=["assert f(1) > 1", "assert f(2) > 2"]) == set()


def test_a_script_is_unsafe_since_it_runs_in_the_process_of_the_answer() -> None:
    for field in ("script", "hidden_script"):
        expected = field.replace("script", "expected")
        assert kinds(
            "python", "Write f.", "def f(x): ...", **{field: "print(f(1))", expected: "2"}
        ) == {"unsafe_test"}


def test_the_same_gold_in_almost_the_same_words_is_found_and_another_database_is_not() -> None:
    first = Task(
        "a",
        "What are the names of all singers of the club, ordered by age?",
        "SELECT 1",
        {"db": "club"},
    )
    near = Task(
        "b",
        "What are the names of all the singers of the club, ordered by age?",
        "SELECT  1",
        {"db": "club"},
    )
    away = Task("c", near.query, "SELECT 1", {"db": "choir"})
    other = Task("d", "How many concerts were there?", "SELECT 1", {"db": "club"})
    assert [(task.id, issue.kind) for task, issue in find_duplicates([first, near, other])] == [
        ("b", "near_duplicate")
    ]
    assert [task.id for task, _ in find_duplicates([first, away])] == []
    assert nearest_tasks([first, near, other, away])["a"] is near
