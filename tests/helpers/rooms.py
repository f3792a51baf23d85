"""An image that tests of verifiers share: Python and pytest, in folders that an agent may write."""

from __future__ import annotations

import os
import shutil

import pytest

from intercode.errors import SandboxError
from intercode.sandbox.image import build_image


def image_with_pytest() -> str:
    """The image's name, in the cache in use; made at the first call."""
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed")
    if os.getuid() != 0 and not (shutil.which("newuidmap") or shutil.which("fakechroot")):
        pytest.skip("neither uidmap nor fakechroot is installed, which mmdebstrap needs")
    try:
        build_image("with-pytest", ["python3", "python3-pytest"])
    except SandboxError as error:
        pytest.skip(f"no image can be built here: {error}")
    return "with-pytest"
