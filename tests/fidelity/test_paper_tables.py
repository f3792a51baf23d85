"""Reports on the recorded runs: the published rates, and one turn against up to ten on the same
tasks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from intercode.report.analysis import analysis, by_turn
from intercode.report.summary import groups, load_run, number
from intercode.types import Episode

pytestmark = pytest.mark.fidelity

METHODS = {"try_again": "Try Again", "react": "ReAct", "plan_solve": "Plan & Solve"}
PUBLISHED = {
    "sql, Single Turn": 10.5,
    "sql, Try Again": 47.3,
    "sql, ReAct": 58.7,
    "sql, Plan & Solve": 49.1,
    "bash, ReAct": 20.5,
    "bash, Plan & Solve": 28.0,
}
"""Success rates in percent, as published; those of incomplete sets are left out."""


def test_success_rates_are_those_of_the_paper(public_data: Path) -> None:
    """Logs of one environment and method are one run over several data sets."""
    runs: dict[str, list[Episode]] = defaultdict(list)
    for path in sorted((public_data / "recorded").glob("*.json")):
        config, episodes = load_run(path)
        method = "Single Turn" if config["turns"] == 1 else METHODS[config["agent"]]
        runs[f"{config['env']}, {method}"] += episodes
        assert bool(groups(config.get("hardness", {}), episodes)) == (config["env"] == "sql")
    rates = {
        name: 100 * sum(episode.success for episode in episodes) / len(episodes)
        for name, episodes in runs.items()
    }
    assert {name: round(rates[name], 1) for name in PUBLISHED} == PUBLISHED
    last = {name: 100 * by_turn(episodes)[-1]["solved"] for name, episodes in runs.items()}
    assert last == pytest.approx(rates), "what is solved by the last turn is what is solved"


# Solved / failed: episodes, right after an error fine in %, repeated in %, exploring first, turns.
SOLVED_AND_FAILED = {
    "| bash, Try Again, 10 turns | 67 / 80 | 80.0 / 23.0 | 2.5 / 25.6 | 0.0 / 0.2 |",
    "| bash, ReAct, 10 turns | 41 / 159 | 24.0 / 28.1 | 13.8 / 14.0 | 0.5 / 1.0 |",
    "| bash, Plan & Solve | 56 / 144 | 25.6 / 20.4 | 15.6 / 16.0 | 2.3 / 2.1 |",
    "| python, Try Again, 7 turns | 69 / 48 | – / 0.0 | 8.5 / 72.0 | 0.0 / 0.0 |",
    "| sql, Try Again, 10 turns | 489 / 545 | 76.2 / 13.6 | 1.9 / 29.6 | 0.1 / 0.2 |",
    "| sql, ReAct, 10 turns | 607 / 427 | 95.5 / 45.9 | 1.5 / 4.7 | 1.8 / 1.9 |",
    "| sql, Plan & Solve | 508 / 526 | 80.0 / 10.2 | 8.0 / 8.6 | 2.0 / 1.9 |",
}


def test_the_report_counts_what_solved_and_failed_episodes_did(
    public_data: Path,
) -> None:
    runs: dict[str, list[Episode]] = defaultdict(list)
    for path in sorted((public_data / "recorded").glob("*.json")):
        config, episodes = load_run(path)
        turns = f", {config['turns']} turns" if config["turns"] else ""
        runs[f"{config['env']}, {METHODS[config['agent']]}{turns}"] += episodes
    del runs["sql, Try Again, 1 turns"]

    rows = set()
    for name, episodes in runs.items():
        actions = analysis({"env": name.partition(",")[0]}, episodes)["actions"]
        solved, failed = actions["solved"], actions["failed"]
        cells = [f"{solved['episodes']} / {failed['episodes']}"]
        for key, scale in (("next_turn_fine", 100), ("repeated", 100), ("explored_first", 1)):
            cells.append(f"{number(solved[key], scale)} / {number(failed[key], scale)}")
        rows.add(f"| {' | '.join([name, *cells])} |")
    assert rows == SOLVED_AND_FAILED


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
