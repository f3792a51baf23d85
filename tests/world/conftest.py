"""Other people's files and this project's collected faults, read where they lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared"


def folder_of(variable: str, name: str) -> Path:
    return Path(os.environ.get(variable) or SHARED / name)


def existing(variable: str, name: str, what: str) -> Path:
    folder = folder_of(variable, name)
    if not folder.is_dir():
        pytest.skip(f"no {what}: set {variable} to their folder")
    return folder


@pytest.fixture(scope="session")
def world() -> Path:
    return existing("INTERCODE_WORLD", "world", "public files")


@pytest.fixture(scope="session")
def cases() -> Path:
    return existing("INTERCODE_CASES", "cases", "collected inputs")
