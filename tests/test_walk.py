"""`scripts/walk.py`: the way through the source, on a package of four files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "walk.py"
FILES = {
    "intercode/__init__.py": "",
    "intercode_sandbox/__init__.py": """
class Sandbox:
    def read(self) -> str:
        return clean("")

def clean(text: str) -> str:
    return text
""",
    "intercode/judge.py": """
from typing import Any, Protocol

class World(Protocol):
    def rows(self) -> list[str]: ...

class Judge(Protocol):
    def rule(self, world: World, word: str) -> float: ...

class PriceJudge:
    audit: Any

    def rule(self, world: World, word: str) -> float:
        self.audit.enter(word.strip())
        return float(min(map(price, world.rows()), key=lambda row: weight(row)))

def price(row: str) -> int:
    return weight(row)

def weight(row: str) -> int:
    return len(row)
""",
    "intercode/store.py": """
from intercode_sandbox import Sandbox

class Store:
    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def rows(self) -> list[str]:
        return self.sandbox.read().split()
""",
    "intercode/shop.py": """
from typing import Any
from collections.abc import Mapping

from intercode.judge import Judge, PriceJudge
from intercode.store import Store

class Base:
    judges: Mapping[str, Any]
    store: Any

    def score(self) -> float:
        return self.judge_of("price").rule(self.store, self.word)

    def judge_of(self, kind: str) -> Any:
        return self.judges[kind]

    @property
    def word(self) -> str:
        return ""

class Shop(Base):
    def __init__(self, store: Store) -> None:
        self.store, self.judges = store, self.make_judges()

    def make_judges(self) -> Mapping[str, Judge]:
        judge = PriceJudge()
        return {"price": judge}

    def judge_of(self, kind: str) -> Any:
        return super().judge_of(kind)
""",
}
LINES = """
files functions stays returns
shop.py Base.score
Shop.judge_of
Base.judge_of
judge.py PriceJudge.rule
price
weight
store.py Store.rows
intercode_sandbox Sandbox.read
shop.py Base.word
Shop.score 4 9 5 1
calls not followed: 1
"""


def test_the_way_and_its_figures_are_printed(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, SCRIPT, "--list", "intercode.shop:Shop", "score"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines == LINES.strip().splitlines()
