"""The two examples of a user's own environments: golds earn all, nothing and wrong answers nothing,
and the check is clean."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import intercode
from intercode.agents import Act, StrategySteps
from intercode.factory import EnvFactory
from intercode.runner.run import evaluate
from intercode.testing import check_env
from intercode.types import Task
from intercode.validate.check import check

pytestmark = [pytest.mark.slow, pytest.mark.alone]

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = {"mailroom": "mailroom_env:MailroomEnv", "redis": "redis_env:RedisEnv"}
WRONG = {
    "mailroom": "echo no > /mail/inbox/no; rm -r /mail/office",
    "redis": "redis-cli set till 1; redis-cli del points",
}
BASE_LINE = re.compile(r"mmdebstrap .* intercode-base$", re.MULTILINE)


@pytest.fixture(scope="module", params=["mailroom", pytest.param("redis", marks=pytest.mark.soak)])
def name(request: pytest.FixtureRequest) -> str:
    """An example that this machine can play."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if request.param == "redis":
        _need_the_base_image()
    return str(request.param)


@pytest.fixture(scope="module")
def factory(name: str) -> Iterator[EnvFactory]:
    sys.path.insert(0, str(EXAMPLES / name))
    try:
        yield intercode.prepare(FILES[name], max_turns=None)
    finally:
        sys.path.remove(str(EXAMPLES / name))


def _need_the_base_image() -> None:
    """As the Dockerfile says it is made, if it is not here."""
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "version"], capture_output=True).returncode
    ):
        pytest.skip("docker is not installed, or its daemon does not answer")
    if (
        subprocess.run(
            ["docker", "image", "inspect", "intercode-base"], capture_output=True
        ).returncode
        == 0
    ):
        return
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed, and the base image is made by it")
    line = BASE_LINE.search((EXAMPLES / "redis" / "image" / "Dockerfile").read_text())
    assert line
    subprocess.run(["bash", "-o", "pipefail", "-c", line[0]], check=True)


@pytest.mark.parametrize(
    "file",
    [path for name in FILES for path in sorted((EXAMPLES / name).glob("*.py"))],
    ids=lambda p: p.name,
)
def test_it_is_short(file: Path) -> None:
    assert len(file.read_text().splitlines()) < 120


@pytest.mark.slow
def test_golds_earn_all_and_doing_nothing_or_wrong_earns_nothing(
    name: str, factory: EnvFactory
) -> None:
    def wrong(task: Task, protocol: str) -> StrategySteps:
        yield Act(WRONG[name])
        yield Act("submit")

    found = check(factory, factory.tasks, workers=2)
    assert found["broken"] == []
    assert (found["gold_ok"], found["noop_paid"], found["nondeterministic"]) == (
        len(factory.tasks),
        0,
        0,
    )
    played = evaluate(factory, wrong, tasks=factory.tasks, workers=2)
    assert {(each.task, each.reward, each.error) for each in played} == {
        (task.id, 0.0, None) for task in factory.tasks
    }


@pytest.mark.slow
def test_it_keeps_the_contract_of_environments(factory: EnvFactory) -> None:
    check_env(factory)
