"""The public data, the root of InterCode v1's runs, and the scripts of benchmarks/; what is
missing is said, and skips.

CI plays a fixed tenth of each data set, `make fidelity-all` the whole.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from intercode_sandbox import cache
from intercode_sandbox.image import V1_BASH as IMAGE
from intercode_sandbox.image import build_image, image_path

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def part() -> int:
    """Every how many tasks of a set one is played."""
    return 1 if os.environ.get("INTERCODE_FIDELITY_ALL") else 10


@pytest.fixture(scope="session")
def public_data() -> Path:
    folder = Path(os.environ.get("INTERCODE_DATA") or PROJECT.parent / "shared" / "data")
    if not (folder / "nl2bash").is_dir():
        pytest.skip(
            "no public data: set INTERCODE_DATA to the folder that holds nl2bash and recorded"
        )
    return folder


@pytest.fixture(scope="session")
def image() -> str:
    """The built root; made once, in half a minute, where the cache has none. Another process may
    want it as well."""
    with open(cache.root() / "tests.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not image_path(IMAGE).is_dir():
            if shutil.which("mmdebstrap") is None:
                pytest.skip(
                    f"no image {IMAGE}, and no mmdebstrap to build it: apt-get install mmdebstrap"
                )
            build_image(IMAGE)
    return IMAGE


@pytest.fixture(scope="session")
def measure(
    public_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., tuple[Any, Any]]:
    """Runs a script of benchmarks/ and returns its rows, and what it wrote to `--out`. One that
    plays whole sets is given a `part` of them.

    With `may_miss` a missed bound is no failure yet: the tests themselves hold what was measured to
    it.
    """

    def run(script: str, *names: str, may_miss: bool = False, part: int = 1) -> tuple[Any, Any]:
        out = tmp_path_factory.mktemp(script) / "details.json"
        command = [
            sys.executable,
            str(PROJECT / "benchmarks" / f"{script}.py"),
            "--json",
            "--out",
            str(out),
            *(["--part", str(part)] if part > 1 else []),
            *names,
        ]
        done = subprocess.run(
            command,
            env=os.environ | {"INTERCODE_DATA": str(public_data)},
            capture_output=True,
            text=True,
        )
        assert done.returncode in (0, int(may_miss)), done.stderr[-2000:]
        assert done.stdout, done.stderr[-2000:]
        return json.loads(done.stdout), json.loads(out.read_text())

    return run
