"""`intercode eval` with agents that call tools or fork, and what is read back of such runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

CALLS = [
    {
        "text": "I look.",
        "calls": [{"name": "execute", "arguments": {"code": "ls"}}, {"name": "execute", "arguments": '{"code"'}],
    },
    {"calls": [{"name": "execute", "arguments": '{"code": "ls /box | wc -l"}'}]},
    {"calls": [{"name": "submit", "arguments": "{}"}]},
]


def play(
    cli: Any, box: Path, tmp_path: Path, agent: str, script: object, turns: int = 10
) -> tuple[Any, list[dict[str, Any]], Any]:
    """What `eval` says of one task, the turns of its episode, and what `replay` says of the run."""
    (tmp_path / "script.json").write_text(json.dumps(script))
    words = ("--data", box, "--limit", 1, "--turns", turns, "--agent", agent, "--model", "scripted:script.json")
    found = cli("eval", "bash", *words, "--out", "run", "--json").json
    record = json.loads((tmp_path / "run" / "episodes.jsonl").read_text())
    return found, record["turns"], cli("replay", "run", "--json").json


def test_calls_are_in_the_record_and_the_run_is_read_back(cli: Any, box: Path, tmp_path: Path) -> None:
    found, turns, again = play(cli, box, tmp_path, "tools", CALLS)
    assert (found["success_rate"], found["mean_turns"]) == (1.0, 4.0)
    assert [len(turn.get("calls", ())) for turn in turns] == [2, 0, 1, 1]
    assert cli("report", "run", "--json").json["success_rate"] == 1.0
    assert again["replayed_success_rate"] == 1.0


def test_a_search_is_recorded_with_its_forks_and_replayed_without_what_was_given_up(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    _, turns, again = play(cli, box, tmp_path, "tree_search", ["```\nrm -r /box; false\n```"], turns=2)
    assert [turn.get("after") for turn in turns] == [None, -1, -1]
    assert again["turns"] == 1
