"""The starter tasks in a container and behind the local wall, on one root, exported from docker: nothing may differ."""

from __future__ import annotations

import docker_images
import pytest

from intercode.agents import Strategy, gold, noop
from intercode.agents.base import Act, Moves
from intercode.env import Setting
from intercode.envs import prepare
from intercode.errors import UsageError
from intercode.runner.run import evaluate
from intercode.sandbox.docker.images import DockerImage
from intercode.types import Episode, Task

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def settings(image: DockerImage, exported: str) -> tuple[Setting, Setting]:
    return prepare("bash", sandbox="docker", image=image.name), prepare("bash", image=exported)


def explorer(task: Task, protocol: str) -> Moves:
    """Looks at the machine and at what the task is about, as an agent would before it answers."""
    yield Act("pwd; id; umask; env | sort; ls /; cd /depot && ls -lR --time-style=+%F | head -n 40; jobs; echo $?")
    yield Act(
        "find /lab /depot -newer /etc/passwd -printf '%y %m %s %p\\n' | sort; du -ab /lab | sort -k 2; no-such-tool; which awk"
    )
    yield Act(
        f"cd /tmp && ({task.gold}) 2>&1; echo $?; diff <(ls /depot) <(ls /lab); stat -c '%A %U %h %n' /depot/* | tail -n 5"
    )


def played(setting: Setting, strategy: Strategy) -> list[Episode]:
    return evaluate(setting, strategy, tasks=setting.tasks, workers=2)


def shown(episodes: list[Episode]) -> list[tuple[str, float, list[str]]]:
    return [(each.task, each.reward, [turn.observation for turn in each.turns]) for each in episodes]


def test_golds_earn_all_and_print_the_same(settings: tuple[Setting, Setting]) -> None:
    docker, local = (played(setting, gold) for setting in settings)
    assert [(each.task, each.error) for each in docker if not each.success] == []
    assert shown(docker) == shown(local)


def test_exploring_shows_the_same(settings: tuple[Setting, Setting]) -> None:
    docker, local = (shown(played(setting, explorer)) for setting in settings)
    assert docker == local


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
