"""A cache of its own for tests that fill or break one."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def empty_cache() -> Iterator[Path]:
    with _other_cache() as folder:
        yield folder


@pytest.fixture(scope="module")
def module_cache() -> Iterator[Path]:
    with _other_cache() as folder:
        yield folder


@contextlib.contextmanager
def _other_cache() -> Iterator[Path]:
    """A folder that the sandboxes' user may enter (pytest's own are private to the caller)."""
    folder = Path(tempfile.mkdtemp(prefix="intercode-test-"))
    folder.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTERCODE_CACHE", str(folder))
        yield folder
    shutil.rmtree(folder)
