"""The reader of executable documents itself: it must be able to fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from documents import Command, carry_out, commands, fits

TEXT = """
```python hello.py
print("hello", 1 / 4, "s")
```
```console
$ python3 hello.py
hello … s
```
"""


def test_what_is_typed_and_what_it_prints_are_told_apart() -> None:
    body = "$ cat <<E\n> text\n> E\ntext\n\nmore\n$ true\n"
    assert list(commands(body)) == [Command("cat <<E\ntext\nE", "text\n\nmore"), Command("true", "")]


@pytest.mark.parametrize("printed", ["a 1.5 s\nend", "a  s  \nend\n"])
def test_an_ellipsis_stands_for_anything_within_a_line(printed: str) -> None:
    assert fits("a … s\nend", printed)
    assert not fits("a … s\nend", printed.replace("end", "and"))
    assert not fits("a … s\nend", printed.replace("s", "s\n", 1))


def test_an_ellipsis_on_a_line_of_its_own_stands_for_any_lines() -> None:
    assert fits("a\n…\nz", "a\nz")
    assert fits("a\n…\nz", "a\nb\nc\nz")
    assert not fits("a\n…\nz", "a\nb\nc")


def test_a_document_is_carried_out_and_one_that_does_not_hold_fails(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    document.write_text(TEXT, "utf-8")
    assert carry_out(document, tmp_path, os.environ) == 1
    document.write_text(TEXT.replace("hello …", "bye …"), "utf-8")
    with pytest.raises(AssertionError, match="should print"):
        carry_out(document, tmp_path, os.environ)
