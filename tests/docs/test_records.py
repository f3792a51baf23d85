"""The tables of docs/records.md and docs/variables.md: each example plays, each field and variable
is read by the code, and no variable is left out."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode import InterCodeEnv

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


def tasks_of(heading: str) -> list[dict[str, Any]]:
    """A task for each example; nobody has built the image here."""
    _, base = BASES[heading]
    rows = [(field, example) for other, field, example in examples() if other == heading]
    return [
        {"id": field, **base, **json.loads(f"{{{example}}}")}
        for field, example in rows
        if field != "image"
    ]


@pytest.fixture(scope="module")
def env_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], InterCodeEnv]]:
    """Makes the environment on all examples below a heading, once."""
    needs_bwrap()
    folder = tmp_path_factory.mktemp("records")
    (folder / "harbour.sql").write_text(USERS)
    (folder / "run.sh").write_text("test -d /srv\n")
    with ExitStack() as stack:

        @functools.cache
        def make(heading: str) -> InterCodeEnv:
            name, _ = BASES[heading]
            (folder / f"{heading}.json").write_text(json.dumps(tasks_of(heading)))
            options: dict[str, Any] = {"data": folder / f"{heading}.json"}
            if name == "sql":
                options |= {"databases": folder, "engine": "sqlite"}
            if name == "ctf":
                playable = intercode.prepare(name, **options).tasks
                assert "setup" not in {task.id for task in playable}, "it needs the network"
                options["everything"] = True
            return stack.enter_context(closing(intercode.make(name, **options)))

        yield make


@pytest.mark.parametrize(("heading", "field", "example"), list(examples()))
def test_each_example_of_a_field_plays(
    heading: str, field: str, example: str, env_of: Callable[[str], InterCodeEnv]
) -> None:
    assert re.search(rf"\b{field}\b", SOURCES), "no code reads the field"
    given = json.loads(f"{{{example}}}")
    assert field in given
    if field == "image":
        return
    env, flag = env_of(heading), heading == "Capture the flag"
    episode = {"task": given.get("id", field)}
    env.reset(options=episode)
    for solution in env.task.golds:
        env.reset(options=episode)
        if not flag:
            env.step(solution)
        *_, info = env.step("submit flag{abc}" if flag else "submit")
        while "ended" not in info:  # further rounds
            env.step(env.task.gold)
            *_, info = env.step("submit")
        assert info["score"].success


def test_each_variable_is_read_and_none_is_left_out() -> None:
    page = (ROOT / "docs" / "variables.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    read = f"{SOURCES}\n{(ROOT / 'scripts' / 'demo').read_text('utf-8')}"
    named = set(re.findall(r"\b(?:INTERCODE|OPENAI)_[A-Z_]+\b", read))
    assert {name for name in listed if not re.search(rf"\b{name}\b", read)} == set()
    assert named - listed == set()
