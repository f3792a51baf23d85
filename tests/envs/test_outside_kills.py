"""Sandboxes and sessions that somebody kills from outside: no honest agent earns 0, and each lost
session is said."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from families import (
    arguments,
    family,
    kill_sandbox,
    killing_all_at,
    killing_the_wall_at,
    stat,
    wait_until,
)
from kept import needs_bwrap

import intercode
from intercode.errors import SandboxDied

Make = Callable[..., Any]
pytestmark = pytest.mark.slow

MARK = "sleep 61.75"
STARTS = {
    "bash": f"{MARK} &",
    "ctf": f"{MARK} &",
    "python": f"import subprocess; left = subprocess.Popen({MARK.split()})",
}
"""Actions that start a child of the session, by which the session is found."""


@pytest.fixture(params=STARTS)
def env(request: pytest.FixtureRequest) -> Iterator[Any]:
    needs_bwrap()
    with closing(intercode.make(request.param)) as made:
        made.reset(seed=1)
        made.start = STARTS[request.param]
        yield made


def sandbox_of(env: Any) -> Any:
    return env.world.sandbox


def find_session(env: Any) -> int:
    """The process of the shell or interpreter, by a child that it starts and that ends here."""
    env.step(env.start)

    def children() -> list[int]:
        return [
            pid
            for pid, _ in family(sandbox_of(env).host._process.pid)
            if arguments(pid).strip() == MARK and (fields := stat(pid)) and fields[0] != "Z"
        ]

    assert wait_until(lambda: len(children()) == 1), "it becomes the program a moment later"
    (child,) = children()
    session = int((stat(child) or ())[1])
    os.kill(child, signal.SIGKILL)
    return session


def kill_session(env: Any) -> None:
    os.kill(session := find_session(env), signal.SIGKILL)
    assert wait_until(lambda: not stat(session))


def die(env: Any) -> None:
    """An episode whose sandbox dies once, from outside, and is an error."""
    env.step("echo 1")
    sandbox = sandbox_of(env)
    kill_sandbox(sandbox.host._process.pid, "wall", random.Random(1))
    assert sandbox._poll.poll(60_000), "it is dead before the next action"
    with pytest.raises(SandboxDied, match="did not happen again"):
        env.step("echo 2")


def test_a_second_death_while_others_die_too_is_the_machines_fault(make: Make) -> None:
    die(make("count"))
    env = make("count")
    with (
        killing_the_wall_at(MARK, times=2) as killed,
        pytest.raises(SandboxDied, match="did not happen again"),
    ):
        env.step(f"timeout 1 {MARK}")
    assert len(killed) == 2, "the first replay died as well"
    env = make("count")
    with killing_the_wall_at(MARK, times=9) as killed:
        *_, info = env.step(f"timeout 1 {MARK}")
    assert info["ended"] == "agent_fault", "it dies whenever the episode is played"
    assert len(killed) > 1


@pytest.mark.rest
def test_agents_that_all_kill_their_sandboxes_at_once_earn_0(make: Make) -> None:
    envs = [make("count") for _ in range(8)]
    with killing_all_at(MARK), ThreadPoolExecutor(len(envs)) as threads:
        infos = [step[-1] for step in threads.map(lambda env: env.step(MARK), envs)]
    assert {info["ended"] for info in infos} == {"agent_fault"}
    assert {info["score"].reward for info in infos} == {0.0}


def test_a_session_lost_before_the_submission_is_said(env: Any) -> None:
    kill_session(env)
    observation, *_, info = env.step("echo 1")
    assert f"[the {env.session_noun} ended; a new one starts in" in observation
    assert info["session_lost"]
    *_, info = env.step("submit x")
    assert not info["session_lost"], "the action before it said so"
    env.reset(seed=1)
    kill_session(env)
    observation, *_, info = env.step("submit x")
    assert observation.endswith(f"[the {env.session_noun} ended]")
    assert info["session_lost"]


def test_a_sandbox_whose_session_is_killed_first_is_the_machines_fault(env: Any) -> None:
    """The session's death alone would be an outcome; here that of the sandbox follows."""
    wall = sandbox_of(env).host._process.pid
    session = find_session(env)

    def kill() -> None:
        os.kill(session, signal.SIGKILL)
        time.sleep(0.01)
        os.kill(wall, signal.SIGKILL)

    timer = threading.Timer(0.5, kill)
    timer.start()
    with pytest.raises(SandboxDied, match="did not happen again"):
        env.step("sleep 2" if env.session_noun == "shell" else "import time; time.sleep(2)")
    timer.join()
