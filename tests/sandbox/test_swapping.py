"""Files that are moved while `diff` looks: it shows one moment of the agent's jobs, and what moves all the same is told."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from intercode.sandbox.build import open_sandbox
from intercode.sandbox.guest import layers

MOVING = 'while (1) { rename "/opt/a/f", "/opt/b/f"; rename "/opt/b/f", "/opt/a/f" }'
SWAPPING = """
import os
while True:
    os.symlink("to", "new"); os.rename("new", "f")
    open("new", "w").write("x" * 9000); os.rename("new", "f"); os.truncate("f", 0); os.truncate("f", 1 << 20)
    os.mkfifo("new"); os.rename("new", "f")
"""


@pytest.mark.parametrize("start", ["template", pytest.param("image", marks=pytest.mark.slow)])
def test_a_file_that_a_job_moves_is_in_one_place_and_the_job_goes_on(request: pytest.FixtureRequest, start: str) -> None:
    with open_sandbox(request.getfixturevalue(start), session="persistent", limits=None, environment=None) as sandbox:
        sandbox.exec("mkdir -p /opt/a /opt/between; touch /opt/a/f /opt/between/{1..300}; mkdir /opt/b")
        sandbox.exec("sleep 100 & stopped=$!; kill -STOP $stopped")
        sandbox.exec(f"perl -e '{MOVING}' & moving=$!; sleep 0.2")
        for _ in range(40):
            changes = sandbox.diff()
            assert len(changes.keys() & {"/opt/a/f", "/opt/b/f"}) == 1
            assert {change.type for change in changes.values()} == {"dir", "file"}
        is_stopped = "for job in $moving $stopped; do [[ $(< /proc/$job/stat) == *') T '* ]]; echo $?; done"
        assert sandbox.exec(is_stopped).output == "1\n0\n"


def test_a_file_that_another_process_swaps_is_never_absent_and_no_error(tmp_path: Path) -> None:
    for name in ("upper", "lower"):
        (tmp_path / name / "tree").mkdir(parents=True)
    upper, lower = (os.open(tmp_path / name, os.O_RDONLY) for name in ("upper", "lower"))
    changing = {"kind": "added", **layers.OTHER}
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPING], cwd=tmp_path / "upper" / "tree")
    try:
        while not (tmp_path / "upper" / "tree" / "f").is_fifo():
            assert swapper.poll() is None
        until = time.monotonic() + 30
        while layers.diff(upper, lower, "tree")["/f"] != changing:  # until it looks at the wrong moment
            assert time.monotonic() < until
    finally:
        swapper.kill()
        swapper.wait()
        layers.close(upper, lower)
