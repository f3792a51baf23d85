"""A gold that was killed is no yardstick, and a lost grader is the machine's fault."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from families import killing_the_parent_of
from kept import needs_bwrap

import intercode
from intercode.errors import DataError, SandboxDied
from intercode_sandbox.local import LocalSandbox

PAUSE = "timeout 1 sleep 61.75"
DOUBLE = {
    "gold": "def f(x): return x + x",
    "tests": ["assert f(1) == 2"],
    "hidden": ["assert f(3) == 6"],
}
ANSWER = "def f(x): return 2 * x"
Made = Callable[..., Any]
pytestmark = pytest.mark.slow


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """Makes environments of one task."""
    needs_bwrap()
    with ExitStack() as stack:

        def make(env: str, options: dict[str, Any] | None = None, **record: Any) -> Any:
            (tmp_path / "tasks.jsonl").write_text(
                json.dumps({"id": "t", "query": "Do it.", **record}) + "\n"
            )
            env = intercode.make(env, data=str(tmp_path), **options or {})
            stack.callback(env.close)
            env.reset(options={"task": "t"})
            return env

        yield make


def solves(env: Any) -> bool:
    env.reset()
    env.step(ANSWER)
    return bool(env.step("submit")[1] == 1)


def test_a_gold_whose_shell_is_killed_is_an_error_and_not_kept(made: Made) -> None:
    env = made("bash", gold="echo 1")
    with (
        killing_the_parent_of(PAUSE, times=1) as killed,
        pytest.raises(DataError, match="gold ends with status -9"),
    ):
        made("bash", gold=f"echo 1; {PAUSE}")
    assert len(killed) == 1
    env.step("echo 1")
    assert env.step("submit")[1] == 1


def test_a_lost_grader_is_the_machines_fault_once_and_nobodys_after(made: Made) -> None:
    """Also while a gold is tried."""
    env = made("python", **DOUBLE)
    for play in (lambda: solves(env), lambda: env.run_gold(env.task).faults == ()):
        assert play()
        referee: LocalSandbox = env.world.sessions._grader.sandbox
        referee.host.end_episode(referee._number)
        assert referee._poll.poll(10_000)
        with pytest.raises(SandboxDied):
            play()
        assert play()
