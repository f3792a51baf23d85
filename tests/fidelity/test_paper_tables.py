"""Reports on the recorded runs: the published rates, and one turn against up to ten on the same
tasks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.fidelity


def test_the_papers_tables_are_rebuilt(measure: Callable[..., tuple[Any, Any]]) -> None:
    """The script ends with status 1 where a rate is not the published one."""
    rows, details = measure("paper_tables")
    rates = {row["what"].removesuffix(": success %"): row["ours"] for row in rows}
    assert len(rates) >= 6
    assert {row["run"] for row in details["hardness"]} == {
        name for name in rates if name.startswith("sql")
    }
    last = {row["run"]: float(list(row.values())[-1]) for row in details["turns"]}
    assert last == rates, "what is solved by the last turn is what is solved"


def test_interactive_against_static_on_the_same_tasks(public_data: Path) -> None:
    logs = [
        public_data / "recorded" / f"ic_sql_multiturn_gpt-3.5{turns}_turns.json"
        for turns in ("-1", "_10")
    ]
    words = [str(Path(sys.executable).with_name("intercode")), "report", *map(str, logs), "--json"]
    found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)[
        "comparison"
    ]
    assert (found["tasks"], found["unpaired"], len(found["gained"]), len(found["lost"])) == (
        1034,
        0,
        392,
        12,
    )
    assert found["difference"] == pytest.approx((392 - 12) / 1034)
    assert found["ci95"][0] < found["difference"] < found["ci95"][1]
    assert found["p_value"] < 1e-90
    tasks = {level: part["tasks"] for level, part in found["by_hardness"].items()}
    assert tasks == {"easy": 248, "medium": 446, "hard": 174, "extra": 166}
    assert all(
        part["ci95"][0] > 0 and part["p_value"] < 1e-5 for part in found["by_hardness"].values()
    )
