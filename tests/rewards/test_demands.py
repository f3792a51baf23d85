"""What of a query speaks of the answer, and what only of its files or of changes."""

from __future__ import annotations

import pytest

from intercode.rewards.demands import demanded, of_the_answer


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("/a/b.tsv has columns parted by tabs. Print the ids.", "Print the ids."),
        ("Print the ids in /a/b.tsv (a header, then tab-separated ids).", "Print the ids in /a/b.tsv."),
        ("Every line of /a/x is a name, perhaps indented. Which is longest?", "Which is longest?"),
        ("Print the ids. Columns stay parted by tabs.", "Print the ids. Columns stay parted by tabs."),
        ("The files of /a are old", "The files of /a are old"),  # there is nothing else
    ],
)
def test_what_it_tells_of_its_files_is_left_out(query: str, kept: str) -> None:
    assert demanded(query) == kept


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("Write the ids to /a/b, one a line, and print how many there are.", "print how many there are."),
        ("Set the port to 8 in /a/b and leave all else alone. Print the line.", "Print the line."),
        ("Print the ids without blanks.", "Print the ids without blanks."),
        ("Delete /a/b.", "Delete /a/b."),
    ],
)
def test_what_it_wants_changed_is_left_out(query: str, kept: str) -> None:
    assert of_the_answer(query) == kept
