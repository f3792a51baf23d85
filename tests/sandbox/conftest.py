"""One template for all, this machine's userland; and one image for docker."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import docker_images
import pytest

from intercode_sandbox import template as templates
from intercode_sandbox.docker import images
from intercode_sandbox.docker.images import DockerImage, make_image


@pytest.fixture(scope="session")
def template() -> templates.Template:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return templates.base(None)


@pytest.fixture(scope="session", autouse=True)
def _shelf() -> Iterator[None]:
    """What this process makes of images goes to a shelf of its own, which is empty in the end."""
    shelf = f"{docker_images.SHELF}/made-{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "_REPOSITORY", shelf)
        yield
    docker_images.remove(shelf)


@pytest.fixture(scope="session")
def image() -> DockerImage:
    docker_images.require_docker()
    return make_image(docker_images.debian())


@pytest.fixture
def sandbox(shared: Any) -> Any:
    """A module's own sandbox, in a new episode."""
    shared.reset()
    return shared
