"""Where `exact` refuses an answer and says that it is unsure, so that a judge may be asked there and nowhere else."""

from __future__ import annotations

import pytest

from intercode.rewards import bash_exact, sql_exact
from intercode.rewards.exact_sql import free
from intercode.types import Change, Outcome, Table, Task

TASK = Task("1", "Which files are large?", "find / -size +1M")
ADDED = {"/depot/x": Change("added", "file", 0o644, "00")}
GOLD = Table(("name", "age"), (("ann", 3), ("bob", 4), ("cy", None)))


@pytest.mark.parametrize(
    ("said", "changes", "unsure"),
    [
        ("Among others I found /a/b.iso and /a/c.iso.", {}, True),
        ("/a/b.iso (largest)\n/a/d.iso", {}, True),
        ("/a/b.iso\n/a/c.iso", {}, False),  # solved
        ("The large files are /a/b.iso and /a/c.iso.", {}, False),  # solved
        ("/x/d.txt", {}, False),
        ("", {}, False),
        ("Among others I found /a/b.iso and /a/c.iso.", ADDED, False),
    ],
)
def test_bash_is_unsure_where_only_the_answer_differs_and_most_of_it_is_there(
    said: str, changes: dict[str, Change], unsure: bool
) -> None:
    assert bash_exact(Outcome(said, changes), Outcome("/a/b.iso\n/a/c.iso\n"), TASK).unsure is unsure


def test_bash_is_not_unsure_of_what_a_probe_decides() -> None:
    assert not bash_exact(Outcome("it is 3", probe="off"), Outcome("3", probe="on"), TASK).unsure


@pytest.mark.parametrize(
    ("columns", "rows", "unsure"),
    [
        (("name", "age", "id"), (("ann", 3, 1), ("bob", 4, 2), ("cy", None, 3)), True),
        (("name", "age"), (("ann", 3), ("bob", 4)), True),
        (("name", "age"), (("ann", 3), ("bob", 4), ("cy", None)), False),  # solved
        (("name", "age"), (("ann", 3), ("eve", 5), ("fay", 6)), False),
    ],
)
def test_sql_is_unsure_where_most_values_are_there(
    columns: tuple[str, ...], rows: tuple[tuple[object, ...], ...], unsure: bool
) -> None:
    assert sql_exact(Table(columns, rows), GOLD, free(GOLD)).unsure is unsure


def test_sql_is_not_unsure_of_a_statement_without_rows() -> None:
    assert not sql_exact(None, GOLD, free(GOLD)).unsure
