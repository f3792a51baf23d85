"""Task folders of Harbor get the same rewards from Harbor's own runner as here."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker_images
import pytest
from harbor_runner import needs_harbor, run_harbor
from harbor_tasks import (
    HOOK,
    SEPARATE,
    acting,
    passing,
    played,
    prepare,
    write_task,
    write_usual_tasks,
)

from intercode.agents import gold, noop
from intercode.interop.harbor.directory import read_directory

BASE = "debian:bookworm-slim"
"""The name in the tasks' Dockerfiles."""
ANSWERS = [
    "wc -l <in.txt >out.txt",
    "echo 3 >out.txt",
    "printf 3 >out.txt",
    "echo 4 >out.txt",
    "wc -l in.txt >out.txt",
    "echo 3 >/tmp/out.txt",
    "mkdir out.txt; echo 3 >out.txt/out.txt",
    "echo 3 >real; ln -s real out.txt",
    "ln -s /app/in.txt out.txt",
    "mkfifo out.txt",
    "echo 3 >out.txt; mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt",
    "mkdir -p /logs/artifacts /tests; echo 3 | tee /logs/artifacts/out.txt /tests/out.txt",
]
pytestmark = [pytest.mark.integrations, pytest.mark.may_skip, needs_harbor]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    docker_images.require_docker()
    subprocess.run(["docker", "tag", docker_images.debian(), BASE], check=True)
    folder = tmp_path_factory.mktemp("tasks")
    write_usual_tasks(folder)
    write_task(
        folder / "collected",
        SEPARATE + HOOK.format("cp /app/out.txt /logs/artifacts/") + HOOK.format("exit 3"),
        tests__test_dot_sh=passing('"$(cat /logs/artifacts/out.txt)" = 3'),
    )
    write_task(
        folder / "shared",
        '[verifier]\nenvironment_mode = "shared"\ntimeout_sec = 20\n',
        tests__Dockerfile=None,
        tests__test_dot_sh=passing('"$(cat out.txt)" = 3'),
    )
    yield folder
    subprocess.run(["docker", "image", "rm", BASE], check=True, stdout=subprocess.DEVNULL)


def test_solutions_earn_1_and_doing_nothing_0(tasks: Path, tmp_path: Path) -> None:
    names = {record["id"] for record in read_directory(tasks)}
    assert run_harbor(tasks, "oracle", tmp_path) == dict.fromkeys(names, 1.0)
    assert run_harbor(tasks, "nop", tmp_path) == dict.fromkeys(names, 0.0)
    factory = prepare(tasks)
    for agent, reward in ((gold, 1.0), (noop, 0.0)):
        episodes = played(factory, agent).values()
        assert {episode.task: episode.reward for episode in episodes} == dict.fromkeys(
            names, reward
        )


def test_answers_earn_the_same(tasks: Path, tmp_path: Path) -> None:
    factory = prepare(tasks)
    here, folder = dict[str, float | None](), tmp_path / "answers"
    for number, answer in enumerate(ANSWERS):
        for name, episode in played(factory, acting(answer)).items():
            copy = folder / f"{name}-{number}"
            shutil.copytree(tasks / name, copy)
            (copy / "solution" / "solve.sh").write_text(f"#!/bin/bash\n{answer}\n")
            here[copy.name] = episode.reward
    there = run_harbor(folder, "oracle", tmp_path)
    # a FIFO lets the tests wait until their time is up: no verdict there, which is 0 here
    assert {name: reward or 0.0 for name, reward in there.items()} == here
    assert set(here.values()) == {0.0, 1.0}
