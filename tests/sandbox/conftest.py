"""One template for all: this machine's userland."""

from __future__ import annotations

import shutil

import pytest

from intercode.sandbox import template as templates


@pytest.fixture(scope="session")
def template() -> templates.Template:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return templates.base(None)
