"""Whose containers are removed: those of processes that are gone, at the next start; a user's own of an image of ours stay."""

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

FURNISHED = """
import sys
from intercode.sandbox.docker.images import make_image, with_script
print(with_script(make_image(sys.argv[1]), f"echo {sys.argv[2]} > /owner", name="setup").id)
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


@contextmanager
def furnished(image: str) -> Iterator[str]:
    """The id of an image that a process made with a setup script, in a container, before it ended."""
    made = subprocess.check_output([sys.executable, "-c", FURNISHED, image, str(os.getpid())], text=True).splitlines()[-1]
    yield made
    docker("image", "rm", "--force", made)


def test_the_next_start_removes_the_containers_of_the_dead_and_no_other() -> None:
    docker_images.require_docker()
    image = docker_images.busybox()
    with subprocess.Popen(["true"]) as gone:
        pass
    dead = leftovers.label().replace(f"/{os.getpid()}/", f"/{gone.pid}/")
    alive = leftovers.label()
    with container("--label", dead, image) as left, container("--label", alive, image) as mine, container(image) as foreign:
        with furnished(image):
            pass
        assert {left, mine, foreign} & there() == {mine, foreign}


def test_a_container_of_the_users_own_of_an_image_that_we_made_stays() -> None:
    docker_images.require_docker()
    with furnished(docker_images.busybox()) as image, container(image) as own:
        leftovers.clear()
        assert own in there()
