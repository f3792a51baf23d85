"""`intercode eval` with a model behind a real local server: a run, a server that breaks, and the run resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, serving
from cli_words import TASKS

pytestmark = pytest.mark.slow

GOLDS = {task["query"]: task["gold"] for task in TASKS}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving(GOLDS) as running:
        yield running


def go(cli: Any, server: ChatServer, box: Path, *more: object) -> Any:
    words = ("eval", "bash", "--data", box, "--agent", "try_again", "--model", "tiny", "--out", "run", "--json")
    return cli(*words, *more, **server.variables)


def lines(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()]


def test_a_model_on_a_local_server_plays_every_task(cli: Any, server: ChatServer, box: Path, tmp_path: Path) -> None:
    done = go(cli, server, box, "--seed", 3, "--temperature", 0.5)
    found = done.json
    assert (done.status, done.err) == (0, "run: run\n")
    assert (found["episodes"], found["success_rate"], found["model"]) == (5, 1.0, "tiny")
    assert (found["mean_turns"], found["tokens"], found["cost"]) == (2.0, 2 * 5 * 110, 0.0)
    assert {request["model"] for request in server.requests} == {"tiny"}
    assert {(request["seed"], request["temperature"]) for request in server.requests} == {(3, 0.5)}
    turn = lines(tmp_path)[0]["turns"][0]
    assert turn["ask"][0]["role"] == "system"
    assert turn["thought"] == "Let me see."
    assert turn["usage"] == {"prompt_tokens": 100, "completion_tokens": 10, "cost": 0.0}


def test_a_spent_cost_ends_the_run_and_the_price_is_recorded(cli: Any, server: ChatServer, box: Path, tmp_path: Path) -> None:
    done = go(cli, server, box, "--price", "10,100", "--max-cost", 0.003, "--workers", 1)
    assert done.status == 0
    assert "raise --max-cost" in done.err
    assert (len(server.requests), done.json["cost"]) == (2, 0.004)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["price"] == [10.0, 100.0]
    assert go(cli, server, box, "--resume", "--price", "1,1").json["success_rate"] == 1.0


def test_a_reply_is_cut_off_only_where_that_is_asked_for(cli: Any, server: ChatServer, box: Path, tmp_path: Path) -> None:
    go(cli, server, box, "--limit", 1)
    assert all("max_tokens" not in request for request in server.requests)
    assert go(cli, server, box, "--limit", 1, "--reply-tokens", 77, "--resume").status == 2, "it decides results"
    server.requests.clear()
    go(cli, server, box, "--limit", 1, "--reply-tokens", 77, "--out", "other")
    assert {request["max_tokens"] for request in server.requests} == {77}
    assert json.loads((tmp_path / "other" / "run.json").read_text())["reply_tokens"] == 77


def test_one_turn_is_submitted_for_the_model(cli: Any, server: ChatServer, box: Path) -> None:
    found = go(cli, server, box, "--turns", 1).json
    assert (found["success_rate"], len(server.requests)) == (1.0, 5)


def test_the_papers_protocol_ends_at_the_first_success(cli: Any, server: ChatServer, box: Path) -> None:
    found = go(cli, server, box, "--protocol", "paper").json
    assert (found["success_rate"], found["mean_turns"], len(server.requests)) == (1.0, 1.0, 5)


def test_a_server_that_is_down_is_counted_as_errors_and_a_resumed_run_is_complete(
    cli: Any, server: ChatServer, box: Path, tmp_path: Path
) -> None:
    server.healthy = False
    broken = go(cli, server, box)
    assert broken.status == 3
    assert "errors:\n  " in broken.err
    assert "× model: http://127.0.0.1" in broken.err
    assert "HTTP 500" in broken.err
    assert "--resume" in broken.err
    found = broken.json
    assert found["errors"] == found["episodes"] >= 3
    assert (found["success_rate"], found["mean_reward"], found["ci95"]) == (None, None, [0.0, 1.0])
    assert all(line["reward"] is None and "model: " in line["error"] for line in lines(tmp_path))
    shown = cli("report", "run", "--json")
    assert (shown.status, shown.json) == (0, found)
    assert "HTTP 500" in shown.err
    server.healthy = True
    mended = go(cli, server, box, "--resume")
    assert mended.status == 0
    assert (mended.json["episodes"], mended.json["errors"], mended.json["success_rate"]) == (5, 0, 1.0)
    rewards = [line["reward"] for line in lines(tmp_path)]
    assert 0.0 not in rewards
    assert rewards.count(1.0) == 5


def test_a_server_that_breaks_on_the_way_costs_no_finished_episode(
    cli: Any, server: ChatServer, box: Path, tmp_path: Path
) -> None:
    server.good_for = 5
    broken = go(cli, server, box, "--workers", 1)
    assert (broken.status, broken.json["success_rate"], broken.json["errors"]) == (3, 1.0, 3)
    cut = next(line for line in lines(tmp_path) if line["error"])
    assert cut["turns"][0]["observation"] == "apple\n", "the turns until then are kept"
    kept = [line for line in lines(tmp_path) if line["reward"] is not None]
    server.healthy, server.good_for = True, None
    asked = len(server.requests)
    assert go(cli, server, box, "--resume").json["success_rate"] == 1.0
    assert len(server.requests) - asked == 2 * (5 - len(kept)), "only what was not finished is asked again"
    assert [line for line in lines(tmp_path) if line["reward"] is not None][: len(kept)] == kept


def test_a_refusal_is_told_at_once(cli: Any, box: Path, tmp_path: Path) -> None:
    """401 is an answer that another try cannot mend."""
    with serving({}) as server:
        server.RequestHandlerClass = type("Refusing", (server.RequestHandlerClass,), {"do_POST": _refuse})
        done = go(cli, server, box)
    assert done.status == 3
    assert "OPENAI_API_KEY" in done.err


def _refuse(handler: Any) -> None:
    handler.rfile.read(int(handler.headers["Content-Length"]))
    handler._send(401, {"error": {"message": "no"}})
