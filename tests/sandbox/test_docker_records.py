"""Records with an image and a setup of their own, in containers: the same as in local sandboxes."""

from __future__ import annotations

import json
from pathlib import Path

import docker_images
import pytest

import intercode
from intercode.errors import DataError

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.rest]


def folder(path: Path, *records: dict[str, str]) -> str:
    docker_images.require_docker()
    base = docker_images.busybox()
    (path / "mine").mkdir()
    (path / "mine" / "Dockerfile").write_text(f"FROM {base}\nENV WHO=mine\nRUN echo mine > /who\n")
    (path / "setup.sh").write_text("[ -e /who ] || echo all > /who\n")
    (path / "tasks.jsonl").write_text(
        "".join(
            json.dumps({"query": "Who?", "gold": "cat /who", **each}) + "\n" for each in records
        )
    )
    return base


def test_each_record_is_played_in_its_own_image_after_its_own_setup(tmp_path: Path) -> None:
    base = folder(
        tmp_path,
        {},
        {"image": "mine"},
        {"image": "mine", "setup": "echo two >> /who"},
        {"setup": "echo three > /who"},
    )
    factory = intercode.prepare("bash", data=str(tmp_path), sandbox="docker", image=base)
    facts = factory.facts()
    assert (facts["sandbox"], list(facts["images"])) == ("docker", ["mine"])
    with factory() as env:
        for number, seen in enumerate(["all\n", "mine\nmine", "mine\ntwo\nmine", "three\n"]):
            env.reset(options={"task": number})
            assert env.step("cat /who; echo -n $WHO")[0] == seen
            env.step("cat /who")
            assert env.step("submit")[1] == 1.0


def test_an_image_that_is_not_there_is_the_datas_fault(tmp_path: Path) -> None:
    base = folder(tmp_path, {"id": "far", "image": "intercode-test:nowhere"})
    factory = intercode.prepare("bash", data=str(tmp_path), sandbox="docker", image=base)
    with (
        pytest.raises(DataError, match=r"task far: field 'image': .*intercode-test:nowhere"),
        factory() as env,
    ):
        env.reset(seed=0)
