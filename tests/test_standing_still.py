"""A machine that stands still for a while (stopped, frozen, suspended) costs an agent no time
limit, and so no reward."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from families import family
from kept import needs_bwrap
from orchard import skip_unless_there

LIMIT = 2
"""Seconds of an action, a statement or a test; each of those below needs about one."""
STILL, LONG = 3.0, 24.0
"""Seconds. The host waits for a sandbox for 15 s longer than the limit."""
PLAY = """
import json, sys
import intercode
from intercode_sandbox.base import Limits

env, options, actions = json.loads(sys.argv[1])
if env != "sql":
    options["limits"] = Limits(seconds=options["seconds"])
if env == "bash":
    del options["seconds"]
made = intercode.make(env, **options)
made.reset(seed=0)
for action in actions[:-1]:
    made.step(action)
print("begun", flush=True)
print(json.dumps(made.step(actions[-1])[:2]))
made.close()
"""
COUNT = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) "
    "SELECT max(i) FROM n"
)
TASK = {
    "query": "Write f, which gives 1 after a moment.",
    "gold": "import time\ndef f():\n    time.sleep(0.5)\n    return 1",
    "tests": ["assert f() + f() == 2"],
}
PLAYS: dict[str, tuple[str, dict[str, Any], list[str], str | float]] = {
    "bash": ("bash", {}, ["sleep 1; echo done"], "done"),
    "sqlite": ("sql", {"engine": "sqlite"}, [COUNT], "3000000"),
    "mariadb": ("sql", {"engine": "mariadb"}, ["SELECT 'done', SLEEP(1)"], "done"),
    "python": ("python", {}, ["import time; time.sleep(1); print('done')"], "done"),
    "a test": ("python", {}, [TASK["gold"], "submit f"], 1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("play", "all_of_it", "seconds"),
    [
        *(("bash", True, STILL), ("a test", False, STILL)),
        *(
            pytest.param(play, True, STILL, marks=pytest.mark.soak)
            for play in PLAYS
            if play != "bash"
        ),
        pytest.param("bash", True, LONG, marks=pytest.mark.soak),
    ],
)
def test_what_stood_still_did_not_run_out_of_time(
    play: str, all_of_it: bool, seconds: float, tmp_path: Path
) -> None:
    needs_bwrap()
    if play == "mariadb":
        skip_unless_there(play)
    env, options, actions, due = PLAYS[play]
    if play == "a test":
        (tmp_path / "tasks.json").write_text(json.dumps([TASK]))
        options = {"data": str(tmp_path / "tasks.json")}
    words = [sys.executable, "-c", PLAY, json.dumps([env, options | {"seconds": LIMIT}, actions])]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        pause = threading.Event()
        pause.wait(0.4)  # the action is under way
        stopped = _stopped(process.pid, all_of_it)
        pause.wait(seconds)  # what is tested
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        observation, reward = json.loads(process.stdout.read())
    assert "timed out" not in observation
    assert due in (reward, observation) or str(due) in observation


def _stopped(first: int, all_of_it: bool) -> list[int]:
    pids = [first, *(sorted(pid for pid, _ in family(first)) if all_of_it else ())]
    for pid in pids:
        with suppress(ProcessLookupError):  # what an action started may have ended
            os.kill(pid, signal.SIGSTOP)
    return pids
