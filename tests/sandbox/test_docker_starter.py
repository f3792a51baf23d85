"""The starter tasks in a container and behind the local wall, on one and the same root: nothing may differ."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker_images
import pytest

from intercode.agents import Strategy, gold, noop
from intercode.env import Setting
from intercode.envs import prepare
from intercode.errors import UsageError
from intercode.runner.run import evaluate
from intercode.sandbox.docker.images import DockerImage
from intercode.types import Episode

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def settings(image: DockerImage) -> Iterator[tuple[Setting, Setting]]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root.tar"
        made = subprocess.run(
            ["docker", "create", image.id, "true"], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.strip()
        subprocess.run(["docker", "export", "--output", str(root), made], check=True)
        subprocess.run(["docker", "rm", made], check=True, stdout=subprocess.DEVNULL)
        yield prepare("bash", sandbox="docker", image=image.name), prepare("bash", image=str(root))


def played(setting: Setting, strategy: Strategy) -> list[Episode]:
    return evaluate(setting, strategy, tasks=setting.tasks, workers=2)


def shown(episodes: list[Episode]) -> list[tuple[str, float, list[str]]]:
    return [(each.task, each.reward, [turn.observation for turn in each.turns]) for each in episodes]


def test_golds_earn_all_and_print_the_same(settings: tuple[Setting, Setting]) -> None:
    docker, local = (played(setting, gold) for setting in settings)
    assert [(each.task, each.error) for each in docker if not each.success] == []
    assert shown(docker) == shown(local)


def test_doing_nothing_earns_nothing(settings: tuple[Setting, Setting]) -> None:
    assert {each.reward for each in played(settings[0], noop)} == {0.0}


def test_runs_of_both_name_the_same_userland(settings: tuple[Setting, Setting]) -> None:
    docker, local = (setting.facts() for setting in settings)
    assert docker["userland"] == local["userland"]


def test_python_is_played_by_the_images_own(image: DockerImage) -> None:
    setting = prepare("python", sandbox="docker", image=image.name, limit=3)
    assert [each.reward for each in played(setting, gold)] == [1.0, 1.0, 1.0]
    assert {each.reward for each in played(setting, noop)} == {0.0}


def test_an_image_without_python_is_the_callers_fault() -> None:
    docker_images.require_docker()
    with pytest.raises(UsageError, match="has no Python"):
        prepare("python", sandbox="docker", image=docker_images.busybox())
