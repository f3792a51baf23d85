"""The tables of docs/records.md and docs/variables.md: each example plays, each field and variable
is read by the code, and no variable is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.errors import UsageError

ROOT = Path(__file__).parents[2]
SOURCES = "\n".join(path.read_text("utf-8") for path in ROOT.glob("src/intercode*/**/*.py"))
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "All environments": ("sql", {"query": "How many?", "gold": "SELECT count(*) FROM users"}),
    "Bash": ("bash", {"query": "Print the working directory.", "gold": "pwd"}),
    "SQL": ("sql", {"query": "How many?", "gold": "SELECT count(*) FROM users"}),
    "Python": (
        "python",
        {
            "query": "Write add(a, b).",
            "gold": "def add(a, b):\n    return a + b",
            "tests": ["assert add(1, 2) == 3"],
        },
    ),
    "Capture the flag": ("ctf", {"query": "Decode 0x666c6167.", "gold": "flag{abc}"}),
}
USERS = "CREATE TABLE users (id INTEGER PRIMARY KEY); INSERT INTO users VALUES (1), (2);"


def examples() -> Iterator[tuple[str, str, str]]:
    """The heading, the field and the example of each row."""
    sections = (ROOT / "docs" / "records.md").read_text("utf-8").split("\n## ")[1:]
    for section in sections:
        for row in re.findall(r"^\| `(\w+)` \| .* \| `(.*)` \|$", section, re.MULTILINE):
            yield section.partition("\n")[0], *row


@pytest.mark.parametrize(("heading", "field", "example"), list(examples()))
def test_each_example_of_a_field_plays(
    heading: str, field: str, example: str, tmp_path: Path
) -> None:
    needs_bwrap()
    name, base = BASES[heading]
    assert re.search(rf"\b{field}\b", SOURCES), "no code reads the field"
    given = json.loads(f"{{{example}}}")
    assert field in given
    if field == "image":
        return  # nobody has built it here
    (tmp_path / "tasks.json").write_text(json.dumps([{**base, **given}]))
    (tmp_path / "databases").mkdir()
    (tmp_path / "databases" / "harbour.sql").write_text(USERS)
    sql = {"databases": tmp_path / "databases", "engine": "sqlite"}
    how: dict[str, Any] = {"data": tmp_path / "tasks.json", **(sql if name == "sql" else {})}
    if (name, field) == ("ctf", "setup"):
        with pytest.raises(UsageError, match="network"):
            intercode.make(name, **how)
        how["everything"] = True
    with closing(intercode.make(name, **how)) as env:
        env.reset()
        for solution in env.tasks[0].golds:
            env.reset()
            if name != "ctf":
                env.step(solution)
            *_, info = env.step("submit flag{abc}" if name == "ctf" else "submit")
            if field == "follow_up":
                env.step(given[field]["gold"])
                *_, info = env.step("submit")
            assert info["score"].success


def test_each_variable_is_read_and_none_is_left_out() -> None:
    page = (ROOT / "docs" / "variables.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    read = f"{SOURCES}\n{(ROOT / 'scripts' / 'demo').read_text('utf-8')}"
    named = set(re.findall(r"\b(?:INTERCODE|OPENAI)_[A-Z_]+\b", read))
    assert {name for name in listed if not re.search(rf"\b{name}\b", read)} == set()
    assert named - listed == set()
