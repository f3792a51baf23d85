"""The starter tasks in a container and in a local sandbox, on one root, exported from docker:
nothing may differ."""

from __future__ import annotations

from pathlib import Path

import docker_images
import pytest

from intercode.agents import gold
from intercode.agents.base import Act, StrategySteps
from intercode.envs import prepare
from intercode.errors import UsageError
from intercode.factory import EnvFactory
from intercode.runner.run import evaluate
from intercode.types import Task
from intercode_sandbox.docker.images import DockerImage, export_image

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.rest]


def explorer(task: Task, protocol: str) -> StrategySteps:
    """Looks at the machine and at what the task is about, as an agent would before it answers, and
    answers right."""
    yield Act(
        "pwd; id; umask; env | sort; ls /; cd /depot && ls -lR --time-style=+%F | head -n 40; "
        "jobs; echo $?; cd /"
    )
    yield Act(
        "find /lab /depot -newer /etc/passwd -printf '%y %m %s %p\\n' | sort; du -ab /lab | "
        "sort -k 2; no-such-tool; which awk"
    )
    yield from gold(task, protocol)


def test_golds_earn_all_and_what_is_seen_on_the_way_is_the_same(
    image: DockerImage, module_cache: Path
) -> None:
    def played(factory: EnvFactory) -> list[tuple[str, float, list[str]]]:
        episodes = evaluate(factory, explorer, tasks=factory.tasks[::8], workers=2)
        return [
            (each.task, each.reward, [turn.observation for turn in each.turns]) for each in episodes
        ]

    export_image(image.name, "exported")
    docker = prepare("bash", sandbox="docker", image=image.name)
    local = prepare("bash", image="exported")
    seen = played(docker)
    assert {reward for _, reward, _ in seen} == {1.0}
    assert seen == played(local)
    assert docker.facts()["userland"] == local.facts()["userland"]


def test_python_is_played_by_the_images_own(image: DockerImage) -> None:
    factory = prepare("python", sandbox="docker", image=image.name, limit=2)
    assert [each.reward for each in evaluate(factory, gold, tasks=factory.tasks, workers=2)] == [
        1.0,
        1.0,
    ]
    with pytest.raises(UsageError, match="has no usable Python"):
        prepare("python", sandbox="docker", image=docker_images.busybox())
