"""The docker backend against the docker command, with the local backend beside it.

    python benchmarks/docker.py [--runs 40] [--image NAME] [--json]

Each row's two sides take turns, so that they meet the same noise; times are medians. Targets: a step at most
0.2 × `docker exec`, a fresh sandbox from a warm pool at most 20 ms. Without --image, a small Debian is made by mmdebstrap,
once. Where there is no docker daemon the script says so and ends.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from intercode.errors import SandboxUnavailable
from intercode.sandbox.base import Sandbox
from intercode.sandbox.docker.daemon import docker
from intercode.sandbox.docker.images import DockerImage, make_image
from intercode.sandbox.docker.sandbox import DockerSandbox
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import base

IMAGE = "intercode-bench:base"
STEP, TOUCH = "ls /", "echo x > /tmp/x"
_PAUSE = 1.0  # until the pool has a fresh container again


def timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def in_turn(runs: int, *sides: Callable[[], float]) -> list[float]:
    rounds = [[side() for side in sides] for _ in range(runs)]
    return [median(times) for times in zip(*rounds, strict=True)]


def execute(container: str) -> None:
    docker("exec", container, "ls", "/")


def acquire(make: Callable[[], Sandbox]) -> float:
    """The pool has had time."""
    time.sleep(_PAUSE)
    start = time.perf_counter()
    with make():
        return time.perf_counter() - start


def replaced(sandbox: Sandbox) -> float:
    """A reset after something was written and scored; the pool has had time."""
    sandbox.exec(TOUCH)
    sandbox.diff()
    time.sleep(_PAUSE)
    return timed(sandbox.reset)


def renewed(sandbox: Sandbox) -> float:
    """A reset after nothing was written."""
    sandbox.exec(STEP)
    return timed(sandbox.reset)


def start(image: DockerImage) -> None:
    docker("run", "--rm", "--network", "none", image.id, "true")


def measure(image: DockerImage, runs: int) -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        here = stack.enter_context(DockerSandbox(image))
        local = stack.enter_context(LocalSandbox(base(None)))
        steps: list[Callable[[], float]] = [
            lambda: timed(lambda: here.exec(STEP)),
            lambda: timed(lambda: execute(here.container)),
            lambda: timed(lambda: local.exec(STEP)),
        ]
        ours, theirs, beside = in_turn(runs, *steps)
        yield row("step `ls /`: docker backend, docker exec", ours, theirs)
        yield row("step `ls /`: docker backend, local backend", ours, beside)
        few = max(3, runs // 4)
        ours, theirs, beside = in_turn(
            few,
            lambda: acquire(lambda: DockerSandbox(image)),
            lambda: timed(lambda: start(image)),
            lambda: acquire(lambda: LocalSandbox(base(None))),
        )
        yield row("a fresh sandbox: docker backend (warm pool), docker run", ours, theirs)
        yield row("a fresh sandbox: docker backend (warm pool), local backend", ours, beside)
        ours, theirs = in_turn(few, lambda: replaced(here), lambda: replaced(local))
        yield row("reset after a change: docker backend (warm pool), local backend", ours, theirs)
        ours, theirs = in_turn(runs, lambda: renewed(here), lambda: renewed(local))
        yield row("reset after a look: docker backend, local backend", ours, theirs)
        here.exec(TOUCH)
        local.exec(TOUCH)
        ours, theirs, beside = in_turn(
            runs, lambda: timed(here.diff), lambda: timed(lambda: docker("diff", here.container)), lambda: timed(local.diff)
        )
        yield row("what has changed: docker backend (with contents), docker diff (names)", ours, theirs)
        yield row("what has changed: docker backend, local backend", ours, beside)


def row(what: str, ours: float, against: float) -> dict[str, Any]:
    return {"what": what, "ours": ours, "against": against, "ratio": ours / against}


def debian() -> str:
    if not docker("image", "ls", "--quiet", IMAGE):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "root.tar"
            command = ["mmdebstrap", "--quiet", "--variant=minbase", "bookworm", str(root)]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            docker("import", "--change", 'CMD ["bash"]', str(root), IMAGE, seconds=600)
    return IMAGE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--image")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    try:
        rows = list(measure(make_image(asked.image or debian()), asked.runs))
    except SandboxUnavailable as error:
        sys.exit(print(f"not measured: {error}", file=sys.stderr))
    if asked.json:
        print(json.dumps(rows))
        return
    for each in rows:
        print(f"{each['what']:80} {each['ours'] * 1e3:8.2f} ms {each['against'] * 1e3:8.2f} ms {each['ratio']:7.3f}")


if __name__ == "__main__":
    main()
