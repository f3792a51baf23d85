"""Environments for the `TASKS` of a module."""

from __future__ import annotations

import pytest
from kept import kept, needs_bwrap, write_box

from intercode.factory import EnvFactory


@pytest.fixture(scope="module")
def factory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EnvFactory:
    needs_bwrap()
    folder = write_box(tmp_path_factory.mktemp("box"), request.module.TASKS)
    factory: EnvFactory = kept("bash", folder)()
    return factory
