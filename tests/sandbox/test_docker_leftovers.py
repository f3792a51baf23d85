"""Whose containers are removed: those of processes that are gone, at the next start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import docker_images
import pytest
from test_docker import docker

from intercode.sandbox.docker import leftovers

pytestmark = pytest.mark.slow

START = """
import sys
from intercode.sandbox.docker.images import make_image
from intercode.sandbox.docker.sandbox import DockerSandbox
DockerSandbox(make_image(sys.argv[1])).close()
"""


@contextmanager
def container(*options: str) -> Iterator[str]:
    """One that is there and does nothing."""
    name = docker("create", *options)
    try:
        yield name[:12]
    finally:
        subprocess.run(["docker", "rm", "--force", name], capture_output=True, check=False)


def there() -> set[str]:
    return set(docker("ps", "--all", "--format", "{{.ID}}").split())


def test_the_next_start_removes_the_containers_of_the_dead_and_no_other() -> None:
    docker_images.require_docker()
    image = docker_images.busybox()
    with subprocess.Popen(["true"]) as gone:
        pass
    dead = leftovers.label().replace(f"/{os.getpid()}/", f"/{gone.pid}/")
    alive = leftovers.label()
    with container("--label", dead, image) as left, container("--label", alive, image) as mine, container(image) as foreign:
        subprocess.run([sys.executable, "-c", START, image], check=True)
        assert {left, mine, foreign} & there() == {mine, foreign}
