"""A long run of honest and hostile episodes (`long_run.py`): nothing grows, and nothing becomes
slower.

$INTERCODE_SOAK_EPISODES is their number. The pace is printed; what is held to its bound is the
processor time of an episode, since others may be busy on the machine. It is compared with the
second block: the first also fills caches. The C library's own allocator serves Python here, which
gives free memory back: what is resident is held.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kept import needs_bwrap

EPISODES = int(os.environ.get("INTERCODE_SOAK_EPISODES", "5000"))
GROWTH, SLOWING = 0.05, 0.10
HERE = Path(__file__).parent


@pytest.mark.soak
def test_a_long_run_holds_no_more_than_a_short_one_and_is_as_fast(
    capfd: pytest.CaptureFixture[str],
) -> None:
    needs_bwrap()
    variables = {
        **os.environ,
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join(map(str, (HERE, HERE.parent / "helpers"))),
    }
    with capfd.disabled():
        words = [sys.executable, str(HERE / "long_run.py"), str(EPISODES)]
        done = subprocess.run(words, env=variables, stdout=subprocess.PIPE, check=True)
    blocks = json.loads(done.stdout)
    assert [block["errors"] + block["unsolved"] for block in blocks] == [[] for _ in blocks]
    before, after = blocks[0]["footprint"], blocks[-1]["footprint"]
    assert {
        name: (before[name], after[name])
        for name in before
        if after[name] > (1 + GROWTH) * before[name]
    } == {}
    assert blocks[-1]["processor"] < (1 + SLOWING) * blocks[1]["processor"]
