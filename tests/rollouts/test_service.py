"""The rollout service: a real `intercode serve`, a real model server, and real requests."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import pytest
from families import alive, family, wait_until
from kept import needs_bwrap
from loopback import Quiet, Server, serving

pytest.importorskip("uvicorn", reason="the extra view is not installed")
TOKEN = "a token of the test"
OPEN = "/healthz"
SHOWN = ("temperature", "top_p", "max_tokens")


class Policy(Quiet):
    """Lists a folder, then submits. The model `broken` gets an error instead, and `echo` prints the
    parameters of each request."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append(self.headers["Authorization"])
        status, text = 200, "```bash\nls /\n```"
        if body["model"] == "broken":
            status = 400
        elif body["model"] == "echo":
            words = [f"{name}={body[name]}" for name in SHOWN if name in body]
            text = f"```bash\necho {' '.join(words)}\n```"
        elif body["messages"][-1]["role"] == "user" and len(body["messages"]) > 2:
            text = "```bash\nsubmit\n```"
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        content = json.dumps({"choices": [choice]}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture(scope="module")
def policy() -> Iterator[Any]:
    with serving(Server(Policy)) as server:
        yield server


@contextmanager
def service(
    *options: str, stderr: IO[bytes] | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    needs_bwrap()
    command = [Path(sys.executable).with_name("intercode"), "serve", "bash", *options]
    variables = {**os.environ, "INTERCODE_SERVE_TOKEN": TOKEN, "OPENAI_API_KEY": "of-the-service"}
    for name in ("INTERCODE_BASE_URL", "OPENAI_BASE_URL"):
        variables.pop(name, None)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=variables
    ) as process:
        try:
            assert process.stdout
            yield process.stdout.readline().removeprefix("serve: ").strip(), process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def address(policy: Any) -> Iterator[str]:
    with service(
        *("--agent", "try_again", "--agent", "react", "--envs", "8"),
        *("--base-url", f"{policy.url}/own/v1", "--allow-base-url", "http://127.0.0.1:*/v1"),
        *("--turns", "10", "--reply-tokens", "400"),
    ) as (url, _):
        yield url


def ask(
    url: str, path: str, body: Any = None, token: str | None = TOKEN, scheme: str = "Bearer"
) -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"{scheme} {token}"} if token else {}
    content = body if isinstance(body, bytes | None) else json.dumps(body)
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)) as line:
        line.request("GET" if body is None else "POST", path, content, headers)
        answer = line.getresponse()
        return answer.status, json.loads(answer.read())


def test_a_rollout_is_the_episode_with_its_reward(address: str, policy: Any) -> None:
    status, listed = ask(address, "/tasks")
    assert (status, listed["env"], listed["agents"]) == (200, "bash", ["try_again", "react"])
    task = listed["tasks"][0]
    assert set(task) == {"id", "query"}
    assert [ask(address, "/tasks", scheme=name)[0] for name in ("bearer", "Basic")] == [200, 401]
    order = {"task": task["id"], "model": "m", "base_url": f"{policy.url}/v1", "seed": 7}
    status, answer = ask(address, "/rollout", order)
    assert (status, answer["reward"], answer["success"], answer["seed"]) == (200, 0.0, False, 7)
    assert [turn["action"] for turn in answer["episode"]["turns"]] == ["ls /", "submit"]
    assert answer["segments"] == []  # the server returned no token ids


def test_the_services_key_goes_to_its_own_address_only(address: str, policy: Any) -> None:
    task = ask(address, "/tasks")[1]["tasks"][0]["id"]
    seen = {}
    for name, order in {
        "its own": {},
        "another": {"base_url": f"{policy.url}/v1"},
        "another, with a key": {"base_url": f"{policy.url}/v1", "key": "of-the-caller"},
    }.items():
        policy.requests.clear()
        assert ask(address, "/rollout", {"task": task, "model": "m", **order})[0] == 200
        seen[name] = set(policy.requests)
    assert seen == {
        "its own": {"Bearer of-the-service"},
        "another": {"Bearer none-needed"},
        "another, with a key": {"Bearer of-the-caller"},
    }


def test_requests_without_a_task_are_dealt_one_in_groups(policy: Any) -> None:
    with service("--base-url", f"{policy.url}/v1", "--deal", "3", "--turns", "2") as (url, _):
        answers = [ask(url, "/rollout", {"model": "m"})[1] for _ in range(7)]
        named = ask(url, "/rollout", {"model": "m", "task": answers[0]["task"], "seed": 4})[1]
        status, refused = ask(url, "/rollout", {"model": "m", "seed": 4})
        _, fault = ask(url, "/rollout", {"model": "broken"})
    assert [answer["group"] for answer in answers] == [0, 0, 0, 1, 1, 1, 2]
    by_group = {(answer["group"], answer["task"]) for answer in answers}
    assert len(by_group) == 3
    assert len({answer["seed"] for answer in answers}) == 7
    assert (named["task"], named["seed"], named["group"]) == (answers[0]["task"], 4, None)
    assert (status, "'seed'" in refused["error"]["message"]) == (400, True)
    assert (fault["group"], fault["error"]["fault"]) == (2, "model")


def test_a_request_may_lower_limits_and_set_the_sampling(address: str, policy: Any) -> None:
    task = ask(address, "/tasks")[1]["tasks"][0]["id"]
    usual = {"task": task, "model": "echo", "base_url": f"{policy.url}/v1"}

    def actions(**fields: Any) -> list[str]:
        status, answer = ask(address, "/rollout", usual | fields)
        assert (status, answer["cut"]) == (200, "turns")
        return [turn["action"] for turn in answer["episode"]["turns"] if turn["ask"]]

    assert actions() == ["echo temperature=1.0 max_tokens=400"] * 10
    lower = {"turns": 2, "reply_tokens": 50}
    sampling = {"temperature": 0.5, "top_p": 0.9}
    words = "echo temperature=0.5 top_p=0.9 max_tokens="
    assert actions(limits=lower, sampling=sampling) == [f"{words}50"] * 2
    assert actions(limits=lower, sampling={**sampling, "max_tokens": 7}) == [f"{words}7"] * 2
    status, answer = ask(address, "/rollout", usual | {"limits": {"context": 20}})
    assert (status, answer["cut"], answer["reward"]) == (200, "context", 0.0)


@pytest.mark.parametrize(
    ("order", "status", "message"),
    [
        ({"base_url": "http://169.254.169.254/v1"}, 403, "is not allowed"),
        ({"base_url": "http://127.0.0.1:80@169.254.169.254/v1"}, 403, "is not allowed"),
        ({"base_url": "http://127.0.0.1:1/v1/../admin"}, 403, "is not allowed"),
        ({"agent": "os:system"}, 400, "no agent is called os:system"),
        ({"agent": "agent.py:Agent"}, 400, "no agent is called agent.py:Agent"),
        ({"task": "nowhere"}, 404, "no task has the id nowhere"),
        ({"model": None}, 400, "'model' is missing"),
        ({"task": None}, 400, "'task' is missing; the service deals none (--deal)"),
        ({"network": "host"}, 400, "there is no field 'network'"),
        ({"seed": "1"}, 400, "'seed' must be a whole number"),
        ({"seed": -1}, 400, "'seed' must be a number from 0"),
        ({"seed": 2**31}, 400, "'seed' must be a number from 0"),
        ({"model": "m\ud800"}, 400, "half of a surrogate pair"),
        ({"limits": 3}, 400, "'limits' must be an object"),
        ({"limits": {"seconds": 3}}, 400, "there is no limit 'seconds'; there are turns, reply"),
        ({"limits": {"turns": 11}}, 400, "'turns' must be a whole number from 1 to 10"),
        ({"limits": {"turns": True}}, 400, "'turns' must be a whole number from 1 to 10"),
        ({"limits": {"context": 0}}, 400, "'context' must be a whole number from 1"),
        ({"sampling": {"n": 2, "top_p": 1}}, 400, "'sampling' cannot set n"),
        ({"sampling": {"max_tokens": 401}}, 400, "from 1 to 400, the limit 'reply_tokens'"),
        ({"sampling": {"max_completion_tokens": None}}, 400, "from 1 to 400, the limit"),
        ({"sampling": {"temperature": float("nan")}}, 400, "is not JSON"),
        ({"key": "\udfff"}, 400, "half of a surrogate pair"),
        ({"\ud800": 1}, 400, "half of a surrogate pair"),
        (b"\xff{}", 400, "is not JSON"),
        (b"{", 400, "is not JSON"),
        (b"[" * 100_000, 400, "is not JSON"),
        (b"x" * 100_000_000, 413, "more than 1048576 bytes"),
    ],
)
def test_what_is_not_allowed_is_refused(
    address: str, policy: Any, order: Any, status: int, message: str
) -> None:
    task = ask(address, "/tasks")[1]["tasks"][0]["id"]
    usual = {"task": task, "model": "m", "base_url": f"{policy.url}/v1"}
    body = order if isinstance(order, bytes) else usual | order
    try:
        answered, content = ask(address, "/rollout", body)
    except (BrokenPipeError, ConnectionResetError):
        assert status == 413  # the service closed the connection before it had the whole body
        return
    assert (answered, content["error"]["fault"]) == (status, "caller")
    assert message in content["error"]["message"]
    assert "reward" not in content


def test_without_the_token_only_the_health_is_shown(address: str) -> None:
    for token in (None, "", "another", TOKEN[:-1]):
        assert ask(address, OPEN, token=token) == (200, {"status": "ok"})
        assert ask(address, "/tasks", token=token)[0] == 401
        assert ask(address, "/rollout", {}, token=token)[0] == 401


def test_of_24_rollouts_at_once_those_of_a_broken_server_have_no_reward(
    address: str, policy: Any
) -> None:
    tasks = [task["id"] for task in ask(address, "/tasks")[1]["tasks"]]
    orders = [
        {
            "task": tasks[number % len(tasks)],
            "model": "broken" if number % 8 == 0 else "m",
            "base_url": f"{policy.url}/v1",
            "seed": number,
        }
        for number in range(24)
    ]
    with ThreadPoolExecutor(24) as callers:
        answers = list(callers.map(lambda order: ask(address, "/rollout", order), orders))
    for order, (status, content) in zip(orders, answers, strict=True):
        if order["model"] == "broken":
            assert (status, content["error"]["fault"], "reward" in content) == (502, "model", False)
            assert content["episode"]["reward"] is None
        else:
            assert (status, content["reward"]) == (200, 0.0)


def test_a_full_queue_says_so_and_a_killed_service_leaves_no_sandbox(policy: Any) -> None:
    with service("--envs", "1", "--queue", "0", "--base-url", f"{policy.url}/v1") as (url, process):
        task = ask(url, "/tasks")[1]["tasks"][0]["id"]
        order = {"task": task, "model": "m"}
        with ThreadPoolExecutor(8) as callers:
            answers = list(callers.map(lambda _: ask(url, "/rollout", order), range(8)))
        assert {status for status, _ in answers} == {200, 429}
        assert all(("reward" in content) == (status == 200) for status, content in answers)
        sandboxes = family(process.pid)
        assert sandboxes
        os.kill(process.pid, signal.SIGKILL)
        assert wait_until(lambda: not alive(sandboxes))


def test_a_caller_that_leaves_in_mid_body_prints_nothing(policy: Any, tmp_path: Path) -> None:
    with (
        (tmp_path / "stderr").open("wb+") as said,
        service("--envs", "1", "--base-url", f"{policy.url}/v1", stderr=said) as (url, _),
    ):
        head = f"POST /rollout HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        for sent in ("", "{", '{"task": "' + "x" * 100_000):
            address = urlsplit(url)
            with socket.create_connection((address.hostname, address.port), 60) as line:
                line.sendall(f"{head}Content-Length: 1000000\r\n\r\n{sent}".encode())
        order = {"task": ask(url, "/tasks")[1]["tasks"][0]["id"], "model": "m"}
        assert ask(url, "/rollout", order)[0] == 200
        said.seek(0)
        assert said.read() == b""
