"""The death of what the agent's user owns (a shell, an interpreter, a test's process) is an outcome, whoever killed it. A gold
that did not come to its end is no yardstick, a test that ends its grader is the data's fault, a lost sandbox the machine's."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from families import NAMED, killing_the_parent_of, the_victims, wait_until
from kept import needs_bwrap

import intercode
from intercode.errors import DataError, SandboxDied
from intercode.sandbox.local import LocalSandbox

PAUSE = "timeout 1 sleep 61.75"
DOUBLE = {"gold": "def f(x): return x + x", "tests": ["assert f(1) == 2"], "hidden": ["assert f(3) == 6"]}
ANSWER = "def f(x): return 2 * x"
Made = Callable[..., Any]
pytestmark = pytest.mark.slow


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """Makes environments of one task."""
    needs_bwrap()
    with ExitStack() as stack:

        def make(env: str, options: dict[str, Any] | None = None, **record: Any) -> Any:
            (tmp_path / "tasks.jsonl").write_text(json.dumps({"id": "t", "query": "Do it.", **record}) + "\n")
            env = intercode.make(env, data=str(tmp_path), **options or {})
            stack.callback(env.close)
            env.reset(options={"task": "t"})
            return env

        yield make


def kill_the_victim() -> None:
    assert wait_until(the_victims)
    os.kill(the_victims()[0], signal.SIGKILL)
    assert wait_until(lambda: not the_victims())


def solves(env: Any) -> bool:
    env.reset()
    env.step(ANSWER)
    return bool(env.step("submit")[1] == 1)


def test_a_gold_whose_shell_is_killed_is_an_error_and_not_kept(made: Made) -> None:
    env = made("bash", gold="echo 1")
    with killing_the_parent_of(PAUSE, times=1) as killed, pytest.raises(DataError, match="gold ends with status -9"):
        made("bash", gold=f"echo 1; {PAUSE}")
    assert len(killed) == 1
    env.step("echo 1")
    assert env.step("submit")[1] == 1


def test_a_process_that_is_killed_in_a_test_has_failed_it(made: Made) -> None:
    pauses = f"x = int(input()); import time; x == 1 and ({NAMED}, time.sleep(9))\nprint(2 * x)"
    programs = {"gold": "print(int(input()) * 2)", "cases": {"inputs": ["1\n"], "outputs": ["2\n"]}}
    calls = f"def f(x):\n    import time\n    {NAMED}\n    time.sleep(9)\n    return 2 * x"
    for task, answer in ((programs, pauses), (DOUBLE, calls)):
        env = made("python", **task)
        env.step(answer)
        killer = threading.Thread(target=kill_the_victim)
        killer.start()
        _, reward, terminated, _, info = env.step("submit")
        killer.join()
        assert (reward, terminated, info["ended"]) == (0, True, "submit")


def test_a_lost_grader_is_the_machines_fault_once_and_nobodys_after(made: Made) -> None:
    """Also while a gold is tried."""
    env = made("python", **DOUBLE)
    for play in (lambda: solves(env), lambda: env.try_gold(env.task).faults == ()):
        assert play()
        referee: LocalSandbox = env._shop._referee.sandbox
        referee._wall.wall.end(referee._number)
        assert referee._ready.poll(10_000)
        with pytest.raises(SandboxDied):
            play()
        assert play()


@pytest.mark.parametrize(
    "tests",
    [
        {"tests": ["import os; os._exit(0)", "assert f(1) == 2"]},
        {"tests": ["import os; os.kill(os.getpid(), 9)"]},
        {"tests": ["assert f(1)"], "hidden": ["import os; os._exit(0)"]},
    ],
)
def test_a_test_that_ends_its_grader_whoever_answers_is_the_datas_fault(made: Made, tests: dict[str, Any]) -> None:
    env = made("python", **{**DOUBLE, **tests})
    env.step(ANSWER)
    with pytest.raises(DataError, match="ends its own process"):
        env.step("submit f")
