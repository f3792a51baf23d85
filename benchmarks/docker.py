"""The docker backend against the docker command, with the local backend beside it.

    python benchmarks/docker.py [--runs 40] [--image NAME] [--json]

Each row's two sides take turns, so that they meet the same noise; times are medians. Targets: a
step at most 0.2 × `docker exec`, a fresh sandbox from a warm pool at most 20 ms. Without --image, a
small Debian is made by mmdebstrap, once. Where there is no docker daemon the script says so and
ends. Exit status 1 if a target is missed.

The other systems on Docker follow, as in benchmarks/peers.py.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from statistics import median

import peers
from fidelity.v1 import no_docker
from measuring.clock import timed
from measuring.rows import Row, absent, command, finish
from measuring.systems import debian

from intercode_sandbox.base import Sandbox
from intercode_sandbox.docker import container
from intercode_sandbox.docker.container import DockerSandbox
from intercode_sandbox.docker.daemon import docker
from intercode_sandbox.docker.images import DockerImage, make_image
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import base

STEP, TOUCH = "ls /", "echo x > /tmp/x"


def in_turn(runs: int, *sides: Callable[[], float]) -> list[float]:
    rounds = [[side() for side in sides] for _ in range(runs)]
    return [median(times) for times in zip(*rounds, strict=True)]


def execute(container: str) -> None:
    docker("exec", container, "ls", "/")


def acquire(make: Callable[[], Sandbox]) -> float:
    started = time.perf_counter()
    with make():
        return time.perf_counter() - started


def warm(sandbox: DockerSandbox) -> None:
    """Wait until its pool has a fresh container."""
    while container._pools[os.getpid(), sandbox.host.spec]._fresh.empty():
        time.sleep(0.01)


def from_warm_pool(here: DockerSandbox, image: DockerImage) -> float:
    warm(here)
    return acquire(lambda: DockerSandbox(image))


def replaced(sandbox: Sandbox) -> float:
    """A reset after something was written and scored."""
    sandbox.exec(TOUCH)
    sandbox.diff()
    return timed(sandbox.reset)


def renewed(sandbox: Sandbox) -> float:
    """A reset after nothing was written."""
    sandbox.exec(STEP)
    return timed(sandbox.reset)


def start(image: DockerImage) -> None:
    docker("run", "--rm", "--network", "none", image.id, "true")


def measure(image: DockerImage, runs: int) -> Iterator[Row]:
    with ExitStack() as stack:
        here = stack.enter_context(DockerSandbox(image))
        plain = docker("run", "--detach", "--network", "none", image.id, "sleep", "infinity")
        stack.callback(docker, "rm", "--force", plain)
        local = stack.enter_context(LocalSandbox(base(None)))
        steps: list[Callable[[], float]] = [
            lambda: timed(lambda: here.exec(STEP)),
            lambda: timed(lambda: execute(plain)),
            lambda: timed(lambda: local.exec(STEP)),
        ]
        ours, theirs, beside = in_turn(runs, *steps)
        yield Row("step `ls /`: docker backend, docker exec", ours, theirs, 0.2)
        yield Row("step `ls /`: docker backend, local backend", ours, beside)
        few = max(3, runs // 4)
        ours, theirs, beside = in_turn(
            few,
            lambda: from_warm_pool(here, image),
            lambda: timed(lambda: start(image)),
            lambda: acquire(lambda: LocalSandbox(base(None))),
        )
        yield Row("a fresh sandbox: docker backend (warm pool), 20 ms", ours, 0.02, 1)
        yield Row("a fresh sandbox: docker backend (warm pool), docker run", ours, theirs)
        yield Row("a fresh sandbox: docker backend (warm pool), local backend", ours, beside)
        ours, theirs = in_turn(few, lambda: replaced(here), lambda: replaced(local))
        yield Row("reset after a change: docker backend, local backend", ours, theirs)
        ours, theirs = in_turn(runs, lambda: renewed(here), lambda: renewed(local))
        yield Row("reset after a look: docker backend, local backend", ours, theirs)
        for each in (here, local):
            each.exec(TOUCH)
        docker("exec", plain, "sh", "-c", TOUCH)
        ours, theirs, beside = in_turn(
            runs,
            lambda: timed(here.diff),
            lambda: timed(lambda: docker("diff", plain)),
            lambda: timed(local.diff),
        )
        yield Row(
            "what has changed: docker backend (with contents), docker diff (names)", ours, theirs
        )
        yield Row("what has changed: docker backend, local backend", ours, beside)


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--image", help="a docker image or a Dockerfile")
    peers.add_options(parser)
    options = parser.parse_args()
    if absent(options, why=no_docker()):
        return 0
    image = options.image or debian()
    rows = [*measure(make_image(image), options.runs)]
    rows += peers.rows(peers.on_docker(options, max(2, options.runs // 3)))
    return finish(options, rows)


if __name__ == "__main__":
    sys.exit(main())
