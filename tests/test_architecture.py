"""The order of the rooms, and the size of a file: what keeps the house small."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "intercode"
FILES = sorted(SOURCE.rglob("*.py"))

# From the ground up; a room may import rooms on lower floors, and files of its own.
FLOORS = [
    {"types", "errors", "tfidf", "sqltext", "pythontext", "submission", "findings"},
    {"blame", "exclusive", "observation", "shared_texts"},
    {"sandbox", "rewards", "tasks", "agents", "models", "store", "recordings", "predictions"},
    {"env", "engines", "interpreters"},
    {"envs", "testing"},
    {"runner"},
    {"report", "doctor", "export", "attacks"},
    {"cli"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """Rooms that a file imports anywhere, functions included; type checking counts as well."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    parts = (name.split(".") for name in names)
    return {part[1] for part in parts if part[0] == "intercode" and len(part) > 1} & set(FLOOR)


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_imports_point_down_only(path: Path) -> None:
    here = room(path)
    if here == "__init__":
        return
    above = {other for other in imported_rooms(path) if other != here and FLOOR[other] >= FLOOR[here]}
    assert not above, f"{name(path)} ({here}, floor {FLOOR[here]}) imports {above}"


def test_every_room_has_its_floor() -> None:
    assert {room(path) for path in FILES} - {"__init__"} == set(FLOOR)


def test_the_guest_imports_only_the_standard_library_and_itself() -> None:
    for path in (SOURCE / "sandbox" / "guest").glob("*.py"):
        assert not imported_rooms(path), path
