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
SLIPS = ["```\nrm -r /box; false\n```", "```\nls /box | wc -l\n```", "submit"]


def go(cli: Any, box: Path, tmp_path: Path, agent: str, script: object, *more: object) -> Any:
    (tmp_path / "script.json").write_text(json.dumps(script))
    words = ("eval", "bash", "--data", box, "--limit", 1, "--agent", agent, "--model", "scripted:script.json")
    return cli(*words, "--out", "run", "--json", *more)


def turns(tmp_path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((tmp_path / "run" / "episodes.jsonl").read_text())["turns"]
    return found


def replayed(cli: Any, box: Path) -> Any:
    return cli("replay", "run", "--env", "bash", "--data", box, "--limit", 1, "--json").json


def test_calls_are_in_the_record_and_the_run_is_read_back(cli: Any, box: Path, tmp_path: Path) -> None:
    done = go(cli, box, tmp_path, "tools", CALLS)
    assert (done.status, done.json["success_rate"], done.json["mean_turns"]) == (0, 1.0, 4.0)
    assert [len(turn.get("calls", ())) for turn in turns(tmp_path)] == [2, 0, 1, 1]
    assert cli("report", "run", "--json").json["success_rate"] == 1.0
    assert replayed(cli, box)["replayed_success_rate"] == 1.0


def test_a_search_is_recorded_with_its_forks_and_replayed_without_what_was_given_up(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    script = [SLIPS[0]]
    done = go(cli, box, tmp_path, "tree_search", script, "--turns", 2)
    assert (done.status, [turn.get("after") for turn in turns(tmp_path)]) == (0, [None, -1, -1])
    assert replayed(cli, box)["turns"] == 1


def test_lines_of_play_are_recorded_with_where_they_began(cli: Any, box: Path, tmp_path: Path) -> None:
    done = go(cli, box, tmp_path, "best_of:2", SLIPS[1:])
    assert (done.status, done.json["success_rate"]) == (0, 1.0)
    moves = [(turn["action"], turn.get("after")) for turn in turns(tmp_path) if turn["action"]]
    assert moves == [("ls /box | wc -l", None), ("ls /box | wc -l", -1), ("submit", 0)]
    again = replayed(cli, box)
    assert (again["turns"], again["replayed_success_rate"], again["disagreements"]) == (2, 1.0, [])


def test_an_agent_that_draws_needs_a_temperature(cli: Any, box: Path) -> None:
    done = cli(
        "eval", "bash", "--data", box, "--agent", "best_of", "--model", "tiny", INTERCODE_BASE_URL="http://127.0.0.1:9/v1"
    )
    assert done.status == 2
    assert "--temperature" in done.err


def test_the_help_and_the_refusal_list_the_agents(cli: Any, box: Path) -> None:
    shown = " ".join(cli("eval", "--help").out.split())
    refused = cli("eval", "bash", "--data", box, "--agent", "golden")
    assert refused.status == 2
    for name in ("try_again", "react", "plan_solve_refine", "tools", "best_of", "tree_search", "module:function"):
        assert name in shown
        assert name in refused.err
