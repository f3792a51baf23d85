"""An image with Python, pip and pytest, made in the cache once by each version of the code that
makes images: for tests of that code and of verifiers, and in the place of images that Dockerfiles
begin from."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from pathlib import Path

import pytest

from intercode_sandbox import cache, image
from intercode_sandbox.image import build_image, image_path

PACKAGES = ["python3", "python3-pip", "python3-pytest"]
_SOURCE = Path(image.__file__).read_bytes() + repr(PACKAGES).encode()
NAME = f"tests-base-{hashlib.sha256(_SOURCE).hexdigest()[:12]}"


def base_image() -> str:
    """The image's name."""
    with open(cache.root() / "tests.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not image_path(NAME).is_dir():
            if shutil.which("mmdebstrap") is None:
                pytest.skip("mmdebstrap is not installed, and the base image is made by it")
            build_image(NAME, PACKAGES)
    return NAME


def require_builder(name: str, patch: pytest.MonkeyPatch) -> None:
    """Let Dockerfiles be built by docker, or by buildah."""
    import docker_images

    if name == "docker":
        docker_images.require_docker()
        return
    if shutil.which("buildah") is None:
        pytest.skip("buildah is not installed")
    patch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
