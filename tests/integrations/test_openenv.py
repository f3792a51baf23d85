"""The OpenEnv server, asked by OpenEnv's own client over a real socket."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest
from families import wait_until
from shaky import ANSWERS, REWARDS, SHAPED

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(
        find_spec("openenv") is None, reason="openenv is not installed: make integrations"
    ),
    pytest.mark.filterwarnings("default"),
]


@contextmanager
def serving(**options: Any) -> Iterator[Callable[[], Any]]:
    """Serve on loopback within the block; the yielded function connects a client."""
    import uvicorn
    from openenv.core import GenericEnvClient

    from intercode.train.adapters.openenv import app

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(
            uvicorn.Config(app("shaky:ShakyEnv", **options), log_level="warning")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield lambda: GenericEnvClient(
                base_url=f"http://127.0.0.1:{listening.getsockname()[1]}"
            ).sync()
        finally:
            server.should_exit = True
            thread.join()


def play(client: Any, task: str) -> list[Any]:
    """Return the results of an episode with the scripted answers."""
    query = client.reset(task=task).observation["text"]
    codes = ANSWERS[query]
    return [
        client.step({"action": code})
        for code in [*([codes] if isinstance(codes, str) else codes), "submit"]
    ]


@pytest.mark.parametrize("shaped", [False, True])
def test_each_task_earns_what_its_answer_deserves_and_a_fault_earns_nothing(shaped: bool) -> None:
    with serving(shaped=shaped) as connect, connect() as client:
        for task, reward in (SHAPED if shaped else REWARDS).items():
            if reward is None:
                with pytest.raises(RuntimeError, match="the machine has lost the sandbox"):
                    play(client, task)
            else:
                *steps, last = play(client, task)
                assert (last.reward, last.done) == (reward, True)
                assert [(step.reward, step.done) for step in steps] == [(0.0, False)] * len(steps)
        assert play(client, "right")[-1].reward == 1.0  # after the fault
        assert client.state()["task"] == "right"


def test_two_sessions_do_not_meet() -> None:
    with serving() as connect, connect() as one, connect() as other:
        one.reset(task="right")
        other.reset(task="late")
        one.step({"action": "echo mine > /tmp/note; word=mine"})
        seen = other.step({"action": "cat /tmp/note; echo $word"}).observation["text"]
        assert "mine" not in seen
        assert (
            one.step({"action": "cat /tmp/note; echo $word"}).observation["text"] == "mine\nmine\n"
        )


def test_a_session_that_is_left_is_closed_and_makes_room() -> None:
    with serving(sessions=1, idle_seconds=1.0) as connect, connect() as left:
        left.reset(task="right")
        with pytest.raises(RuntimeError, match="capacity"), connect() as second:
            second.reset(task="right")

        def there_is_room() -> bool:
            try:
                with connect() as third:
                    return bool(play(third, "right")[-1].reward == 1.0)
            except RuntimeError:
                time.sleep(0.2)
                return False

        assert wait_until(there_is_room, seconds=20)
        with pytest.raises(RuntimeError, match="closed"):
            left.step({"action": "echo 5"})
