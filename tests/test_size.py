"""The size of the source may only fall: the numbers are in `pyproject.toml`, under
`[tool.intercode.size]`.

A room's size is its number of syntax nodes, with a surcharge for packed forms, so that the plain
form of a statement never counts more. `INTERCODE_WRITE_SIZE=1` lowers the numbers to what is
there; to raise one, write it by hand, and the reason into the changelog.
"""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
SURCHARGE = {ast.IfExp: 3, ast.comprehension: 6, ast.Lambda: 2, ast.NamedExpr: 2}
TEXTS = {".toml", ".html", ".js", ".css", ".txt"}
BYTES, WORDS = "bytes of texts in src", "words of README and docs"


def weighted_nodes(code: str) -> int:
    nodes = [node for node in ast.walk(ast.parse(code)) if not isinstance(node, ast.expr_context)]
    return len(nodes) + sum(SURCHARGE.get(type(node), 0) for node in nodes)


def measure(root: Path) -> Counter[str]:
    """Return the size of each room of `root/src`, the texts there, and the words of documents."""
    sizes = Counter[str]()
    for path in sorted((root / "src").rglob("*")):
        parts = path.relative_to(root / "src").parts
        if "starter" in parts:
            continue
        if path.suffix == ".py":
            room = "/".join(parts[:2]) if len(parts) > 2 else parts[0]
            sizes[room] += weighted_nodes(path.read_text("utf-8"))
        elif path.suffix in TEXTS:
            sizes[BYTES] += path.stat().st_size
    for path in (root / "README.md", *(root / "docs").glob("*.md")):
        if path.exists():
            sizes[WORDS] += len(path.read_text("utf-8").split())
    return sizes


def grown(sizes: Mapping[str, int], wall: Mapping[str, int]) -> list[str]:
    """Return a line for each room that is larger than the wall allows."""
    return [
        f"{room}: {size}, {size - wall.get(room, 0)} more than the {wall.get(room, 0)} allowed"
        for room, size in sorted(sizes.items())
        if size > wall.get(room, 0)
    ]


def lowered(text: str, sizes: Mapping[str, int]) -> str:
    """Return the text of `pyproject.toml` with the numbers that have fallen."""
    for room, size in sizes.items():
        number = re.search(rf'^"{re.escape(room)}" = (\d+)$', text, re.MULTILINE)
        if number and size < int(number[1]):
            text = text.replace(number[0], f'"{room}" = {size}')
    return text


def test_no_room_is_larger_than_the_wall_allows() -> None:
    sizes, project = measure(ROOT), ROOT / "pyproject.toml"
    if os.environ.get("INTERCODE_WRITE_SIZE"):
        project.write_text(lowered(project.read_text("utf-8"), sizes), "utf-8")
    wall = tomllib.loads(project.read_text("utf-8"))["tool"]["intercode"]["size"]
    lines = grown(sizes, wall)
    assert not lines, "\n".join(["delete elsewhere in the room, or raise its number:", *lines])


def test_growth_is_printed_and_numbers_only_fall(tmp_path: Path) -> None:
    for room in ("shop/sales", "shop/stock"):
        (tmp_path / "src" / room).mkdir(parents=True)
        (tmp_path / "src" / room / "prices.py").write_text("price = 3 if cheap else 4\n")
    (tmp_path / "README.md").write_text("Prices of a shop.\n")
    sizes = measure(tmp_path)
    assert sizes == {"shop/sales": 10, "shop/stock": 10, WORDS: 4}
    wall = {"shop/sales": 10, "shop/stock": 9, WORDS: 9}
    assert grown(sizes, wall) == ["shop/stock: 10, 1 more than the 9 allowed"]
    text = f'"shop/sales" = 10\n"shop/stock" = 9\n"{WORDS}" = 9\n'
    assert lowered(text, sizes) == text.replace(f'"{WORDS}" = 9', f'"{WORDS}" = 4')
