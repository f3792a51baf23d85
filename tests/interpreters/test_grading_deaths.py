"""Processes that end in the middle of a test: killed by the machine they cost no reward, ended by the answer they pay none."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from families import family, wait_until
from graded import Grade

NAMED = "open('/proc/self/comm', 'w').write('the victim')"


@pytest.mark.parametrize(("far", "near"), [(NAMED, "pass"), ("pass", NAMED)], ids=["the agent's branch", "the grader's"])
def test_what_the_machine_kills_in_a_test_is_tested_again(grade: Grade, far: str, near: str) -> None:
    code = f"import time\ndef f():\n    {far}\n    time.sleep(0.3)\n    return 1"
    killer = threading.Thread(target=kill_the_victim)
    killer.start()
    (result,) = grade(code, "f", seconds=10, tests=[f"{near}\nassert it() == 1\nassert it() == 1"])
    killer.join()
    assert (result.passed, result.why) == (True, "")


def kill_the_victim() -> None:
    """After the first of its two answers, which take 0.3 s each."""
    assert wait_until(victims)
    (pid,) = victims()
    wait_until(lambda: False, 0.45)
    os.kill(pid, signal.SIGKILL)


def victims() -> list[int]:
    return [pid for pid, _ in family(os.getpid()) if comm(pid) == "the victim"]


def comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_what_the_answer_kills_fails(grade: Grade, end: str) -> None:
    (result,) = grade(f"import os\ndef f(): {end}", "f", tests=["assert it() == 1"])
    assert (result.passed, result.why) == (False, "the interpreter ended during the call")
