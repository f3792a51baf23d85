"""One template for all: this machine's userland; and for docker an image, where there is a daemon."""

from __future__ import annotations

import shutil

import docker_images
import pytest

from intercode.sandbox import template as templates
from intercode.sandbox.docker.images import DockerImage, make_image


@pytest.fixture(scope="session")
def template() -> templates.Template:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return templates.base(None)


@pytest.fixture(scope="session")
def image() -> DockerImage:
    docker_images.require_docker()
    return make_image(docker_images.debian())
