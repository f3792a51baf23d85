"""The chroot sandbox where nothing else can stand: in a container without privileges, the outer wall of attacks on it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from intercode.sandbox.chroot import berth
from intercode.sandbox.docker.images import DockerImage

pytestmark = pytest.mark.slow

SOURCE = Path(berth.__file__).parents[3]
UNHELD = {"a disk filler", "an inode filler", "a bomb of socket buffers"}
"""The disk is watched: what is written between two looks is there. Buffers of socket pairs are not counted."""


@pytest.fixture(scope="module")
def caged(image: DockerImage) -> dict[str, Any]:
    """What `caged.py` found out in there."""
    command = ["docker", "run", "--rm", "--network", "none", "--memory", "2g", "--memory-swap", "2g", "--pids-limit", "500"]
    command += ["--volume", f"{SOURCE}:/code/src:ro", "--volume", f"{Path(__file__).parent}:/code/tests:ro"]
    command += ["--env", "PYTHONPATH=/code/src:/code/tests", image.id, "python3", "-B", "/code/tests/caged.py"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_no_other_wall_can_stand_where_it_is_tried(caged: dict[str, Any]) -> None:
    assert caged["walls"] == {"user namespaces": False, "mounting": False, "mount namespaces": False}


def test_the_doctor_names_it_there(caged: dict[str, Any]) -> None:
    assert caged["doctor"] == [None, "only --sandbox chroot works here, which is weak"]


def test_it_keeps_the_contract_there_but_for_what_is_excused(caged: dict[str, Any]) -> None:
    assert caged["contract"] == ""


def test_attacks_fail_there_but_for_what_is_listed(caged: dict[str, Any]) -> None:
    assert set(caged["breaches"]) - UNHELD == set(), caged["breaches"]


def test_nobody_outlives_it_there(caged: dict[str, Any]) -> None:
    assert caged["survivors"] == []
