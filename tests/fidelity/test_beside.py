"""InterCode v1 beside ours, on a few tasks; all of them are `benchmarks/fidelity.py`, by
hand."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from intercode.errors import SandboxUnavailable
from intercode_sandbox.docker.daemon import docker

pytestmark = [pytest.mark.fidelity, pytest.mark.slow, pytest.mark.alone]


@pytest.fixture(autouse=True)
def _docker() -> None:
    try:
        docker("version")
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.may_skip  # InterCode v1 comes from a registry of images
def test_intercode_v1_earns_today_what_ours_does(
    image: str, measure: Callable[..., tuple[Any, Any]]
) -> None:
    if not os.environ.get("INTERCODE_BENCH_PYTHON"):
        pytest.skip(
            "no InterCode v1 to compare with: "
            "run benchmarks/peers.sh and set INTERCODE_BENCH_PYTHON"
        )
    rows, figures = measure("fidelity", "--limit", "2")
    turns = {row["what"]: row["against"] for row in rows}
    assert (
        turns["docker: turns whose rewards agree"]
        == turns["local: turns whose rewards agree"]
        >= 30
    )
    assert set(figures) == {
        f"fs_{number} {backend}" for number in (1, 3, 4) for backend in ("docker", "local")
    }


def test_golds_earn_the_same_on_both_backends(
    image: str, measure: Callable[..., tuple[Any, Any]], part: int
) -> None:
    tasks = 3 if part == 1 else 1
    rows, differences = measure("backends", "--limit", str(tasks), may_miss=True)
    assert sum(row["against"] for row in rows) == 10 * tasks
    assert not [each for each in differences if each["cause"] == "unexplained"]
