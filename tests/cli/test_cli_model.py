"""`intercode eval` with a model behind a real local server: a run, a server that breaks, and the
run resumed."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
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
    words = (
        "eval",
        "bash",
        "--data",
        box,
        "--agent",
        "try_again",
        "--model",
        "tiny",
        "--out",
        "run",
        "--json",
    )
    return cli(*words, *more, **server.variables)


def lines(tmp_path: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    ]


def test_a_model_on_a_local_server_plays_every_task(
    cli: Any, server: ChatServer, box: Path, tmp_path: Path
) -> None:
    done = go(cli, server, box, "--seed", 3, "--temperature", 0.5, "--epochs", 2)
    found = done.json
    assert (done.status, done.err) == (0, "run: run\n")
    assert (found["episodes"], found["success_rate"], found["model"]) == (10, 1.0, "tiny")
    assert (found["mean_turns"], found["tokens"], found["cost"]) == (2.0, 2 * 10 * 110, None)
    assert {(request["model"], request["temperature"]) for request in server.requests} == {
        ("tiny", 0.5)
    }
    assert Counter(request["seed"] for request in server.requests) == {3: 10, 1003: 10}
    assert all("max_tokens" not in request for request in server.requests)
    turn = lines(tmp_path)[0]["turns"][0]
    assert turn["ask"][0]["role"] == "system"
    assert turn["thought"] == "Let me see."
    assert turn["usage"] == {"prompt_tokens": 100, "completion_tokens": 10, "cost": 0.0}


def test_a_spent_cost_ends_the_run_and_the_price_is_recorded(
    cli: Any, server: ChatServer, box: Path, tmp_path: Path
) -> None:
    done = go(cli, server, box, "--price", "10,100", "--max-cost", 0.003, "--workers", 1)
    assert done.status == 0
    assert "raise --max-cost" in done.err
    assert (len(server.requests), done.json["cost"]) == (2, 0.004)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["price"] == [10.0, 100.0]
    assert (
        go(cli, server, box, "--resume", "run", "--price", "1,1", "--max-cost", 1).json[
            "success_rate"
        ]
        == 1.0
    )


def test_the_users_table_of_prices_is_looked_up_and_named_where_it_lacks_the_model(
    cli: Any, server: ChatServer, box: Path, tmp_path: Path
) -> None:
    table = tmp_path / "config" / "intercode" / "prices.toml"
    server_and_table = {**server.variables, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    words = ("eval", "bash", "--data", box, "--model", "tiny", "--json", "--episode-cost", 9)
    unknown = cli(*words, **server_and_table)
    assert (unknown.status, len(server.requests)) == (2, 0)
    assert str(table) in unknown.err
    assert '"tiny" = [IN, OUT]' in unknown.err
    table.parent.mkdir(parents=True)
    table.write_text("tiny = [10, 100]")
    assert cli(*words, **server_and_table).json["cost"] == 0.02


def test_a_server_that_hangs_does_not_hold_up_the_end_of_the_runs_time(
    cli: Any, server: ChatServer, box: Path
) -> None:
    server.before_answer = lambda request: server.stopping.wait(60)
    started = time.monotonic()
    done = go(cli, server, box, "--max-seconds", 1)
    assert (done.status, 1 <= done.json["errors"] <= 2) == (3, True)
    assert re.search(
        r"no answer within 1(\.0)? s; not tried again, since the limit of 1 seconds is reached",
        done.err,
    )
    assert time.monotonic() - started < 40, "one try, and not six"
    server.before_answer = lambda request: None
    assert go(cli, server, box, "--resume", "run", "--max-seconds", 60).json["success_rate"] == 1.0


def test_a_server_that_is_down_is_counted_as_errors_and_a_resumed_run_is_complete(
    cli: Any, server: ChatServer, box: Path, tmp_path: Path
) -> None:
    server.healthy = False
    broken = go(cli, server, box)
    assert broken.status == 3
    for words in ("errors:\n  ", "× model: http://127.0.0.1", "HTTP 500", "--resume"):
        assert words in broken.err
    found = broken.json
    assert found["errors"] == found["episodes"] >= 3
    assert (found["success_rate"], found["mean_reward"], found["ci95"]) == (None, None, [0.0, 1.0])
    assert {line["reward"] for line in lines(tmp_path)} == {None}
    shown = cli("report", "run", "--json")
    assert (shown.status, shown.json.items() >= found.items(), "HTTP 500" in shown.err) == (
        0,
        True,
        True,
    )
    server.healthy = True
    mended = go(cli, server, box, "--resume", "run")
    assert mended.status == 0
    assert (mended.json["episodes"], mended.json["errors"], mended.json["success_rate"]) == (
        5,
        0,
        1.0,
    )
    assert Counter(line["reward"] for line in lines(tmp_path))[1.0] == 5


def test_resume_alone_takes_all_from_the_run_and_counts_what_the_whole_of_it_cost(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    """The first action prints a time, so that what followed it is not asked again; those answers
    were paid all the same."""
    with serving({query: ["date +%N", "pwd", gold] for query, gold in GOLDS.items()}) as server:
        answered = list[object]()
        server.before_answer = answered.append
        server.good_for = 6
        words = (
            "--model",
            "tiny",
            "--price",
            "10,100",
            "--workers",
            1,
            "--seed",
            3,
            "--out",
            "run",
            "--json",
        )
        broken = cli(
            "eval", "bash", "--data", box, *words, OPENAI_API_KEY="sk-secret", **server.variables
        )
        assert (broken.json["errors"], broken.json["episodes"]) == (3, 4)
        kept = [line for line in lines(tmp_path) if line["reward"] is not None]
        assert next(line for line in lines(tmp_path) if line["error"])["turns"], (
            "the turns until then are kept"
        )
        server.healthy, server.good_for = True, None
        rest = cli("eval", "--resume", "run", "--no-retry-errors", "--json")
        assert (rest.status, rest.json["errors"], rest.json["episodes"]) == (3, 3, 5)
        whole = cli("eval", "--resume", "run", "--json")
        assert (whole.status, whole.json["errors"], whole.json["success_rate"]) == (0, 0, 1.0)
        assert {(request["seed"], request["model"]) for request in server.requests} == {(3, "tiny")}
    assert len(answered) == 5 * 4 + 1
    for found in (whole.json, cli("report", "run", "--json").json):
        assert (found["tokens"], found["cost"]) == (
            len(answered) * 110,
            pytest.approx(len(answered) * 0.002),
        )
    assert kept[0] in lines(tmp_path)
    assert "sk-secret" not in (tmp_path / "run" / "run.json").read_text()


@pytest.mark.parametrize("keep", [True, False])
def test_what_a_thinking_model_thought_is_kept_everywhere_and_sent_back_if_wanted(
    cli: Any, server: ChatServer, box: Path, tmp_path: Path, keep: bool
) -> None:
    """The field `reasoning_content`, byte for byte; the code in it is not executed."""
    thinking = {"reasoning_content": "\n I count.\t\n```bash\nrm -rf /box\n```\u2028 λ 😀 \r\n "}
    task = TASKS[0]

    def says(request: dict[str, Any]) -> dict[str, Any]:
        code = task["gold"] if len(request["messages"]) == 2 else "submit"
        return {"content": f"```bash\n{code}\n```", **thinking}

    server.says = says
    more = ["--keep-reasoning"] if keep else []
    assert go(cli, server, box, "--task", task["id"], *more).json["success_rate"] == 1.0
    sent = server.requests[1]["messages"][2]
    code = f"```bash\n{task['gold']}\n```"
    assert sent == {"role": "assistant", "content": code, **(thinking if keep else {})}
    (episode,) = lines(tmp_path)
    assert [turn["reasoning"] for turn in episode["turns"]] == [thinking, thinking]
    assert [turn["action"] for turn in episode["turns"]] == [task["gold"], "submit"]
    assert cli("show", "run", task["id"]).out.count("reasoning: I count. ```bash") == 2
    assert "rm -rf /box" in cli("show", "run", task["id"], "--full").out
    replies = {
        "chat": lambda rows: [rows[0]["messages"][2], rows[0]["messages"][4]],
        "sft": lambda rows: [row["completion"][0] for row in rows],
        "jsonl": lambda rows: [row["reasoning"] for row in rows],
    }
    for form, replies_in in replies.items():
        assert cli("export", "run", "--format", form, "--out", form).status == 0
        rows = [json.loads(row) for row in (tmp_path / form).read_text().splitlines()]
        assert len(replies_in(rows)) == 2
        assert all(thinking.items() <= reply.items() for reply in replies_in(rows))


def test_replies_that_end_by_length_name_the_option(
    cli: Any, server: ChatServer, box: Path
) -> None:
    server.finish = "length"
    for more, advice in (((), "set --reply-tokens"), (("--reply-tokens", "9"), "raise --reply")):
        words = ("eval", "bash", "--data", box, "--model", "m", "--turns", 2, "--limit", 1)
        done = cli(*words, "--out", advice[:3], *more, **server.variables)
        assert "2 of 2 replies reached their token limit, so nothing in them was exec" in done.err
        assert advice in done.err
