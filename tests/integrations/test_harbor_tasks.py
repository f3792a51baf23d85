"""Exported tasks, as Harbor reads, lints and plays them: each solution earns 1, doing nothing 0."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import docker_images
import pytest
from harbor_runner import PROGRAMS, needs_harbor, run_harbor

from intercode.generate import generate
from intercode.interop.harbor.export import FORMS, export_tasks

pytestmark = [pytest.mark.integrations, pytest.mark.may_skip, needs_harbor]
READS = """
import sys
from harbor.models.task.task import Task
from harbor.publisher.packager import Packager
for task in sys.argv[1:]:
    assert Task.is_valid_dir(task), task
    print(Packager.compute_content_hash(task)[0])
"""
LIGHTHOUSE = Path(__file__).parents[1] / "data" / "lighthouse"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tasks of all environments, rounds and tests of files among them."""
    docker_images.require_docker()
    folder = tmp_path_factory.mktemp("harbor")
    generate("bash-rounds", n=1, split="train", seed=0, out=folder / "rounds")
    sources = {env: env for env in FORMS}
    sources |= {str(folder / "rounds"): "bash", str(LIGHTHOUSE): "python"}
    for number, (source, env) in enumerate(sources.items()):
        out = folder / f"set-{number}"
        export_tasks(source, out, env=env, image=docker_images.debian(), limit=2)
        for task in filter(Path.is_dir, out.iterdir()):
            (folder / "tasks").mkdir(exist_ok=True)
            (folder / "tasks" / task.name).symlink_to(task)
    return folder / "tasks"


def test_harbor_reads_each_task_without_a_finding_and_with_the_digest(tasks: Path) -> None:
    folders = sorted(tasks.iterdir())
    words = [PROGRAMS / "python", "-c", READS, *folders]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    for task, digest in zip(folders, done.stdout.split(), strict=True):
        listed = tomllib.loads((task.resolve().parent / "dataset.toml").read_text())["tasks"]
        assert f"sha256:{digest}" in [entry["digest"] for entry in listed]
    subprocess.run([PROGRAMS / "harbor", "lint", *folders], check=True)


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("nop", 0.0)])
def test_harbors_runner_pays_solutions_alone(
    tasks: Path, tmp_path: Path, agent: str, reward: float
) -> None:
    names = [task.resolve().name for task in tasks.iterdir()]
    assert run_harbor(tasks, agent, tmp_path) == dict.fromkeys(names, reward)
