"""Exported tasks, as Harbor reads, lints and plays them: each solution earns 1, doing nothing 0."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import docker_images
import pytest

from intercode.generate import generate
from intercode.interop.harbor.export import FORMS, export_tasks

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(not find_spec("harbor"), reason="harbor is not installed"),
    pytest.mark.filterwarnings("default"),
]
HARBOR = Path(sys.executable).with_name("harbor")
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
    from harbor.models.task.task import Task
    from harbor.publisher.packager import Packager

    for task in tasks.iterdir():
        assert Task.is_valid_dir(task), task
        digest, _ = Packager.compute_content_hash(task)
        listed = tomllib.loads((task.resolve().parent / "dataset.toml").read_text())["tasks"]
        assert f"sha256:{digest}" in [entry["digest"] for entry in listed]
    subprocess.run([HARBOR, "lint", *tasks.iterdir()], check=True)


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("nop", 0.0)])
def test_harbors_runner_pays_solutions_alone(
    tasks: Path, tmp_path: Path, agent: str, reward: float
) -> None:
    words = ["run", "-p", str(tasks), "-a", agent, "-o", str(tmp_path), "--job-name", "job"]
    words += ["-n", "2", "-y", "-q", "--env", "plain_docker:PlainDocker"]
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    subprocess.run([HARBOR, *words], check=True, env=here)
    rewards = {}
    for file in tmp_path.glob("job/*/result.json"):
        result = json.loads(file.read_text())
        verdict = result.get("verifier_result") or {}
        rewards[result["trial_name"]] = verdict.get("rewards")
    assert len(rewards) == len(list(tasks.iterdir()))
    assert {str(paid) for paid in rewards.values()} == {str({"reward": reward})}, rewards
