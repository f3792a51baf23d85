"""docs/own-environment.md, its page of rules, docs/rewards.md and docs/own-judge.md, followed
literally in an empty folder, with the package as a wheel outside of the sources."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from email import message_from_string
from pathlib import Path

import pytest
import wheel
from docker_images import debian, require_docker
from following import Step, follow, steps

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "own-environment.md").read_text()
PLAIN, _, DOCKER = DOCUMENT.partition("## An image, and a service in it")
RULES = (ROOT / "docs" / "own-environment-rules.md").read_text()
LANGUAGE = RULES.partition("## A database engine")[0]
REWARDS = (ROOT / "docs" / "rewards.md").read_text()

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.rest]
Follow = Callable[[list[Step]], None]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a user with only the package installed, and its dependencies."""
    site = wheel.install(tmp_path_factory.mktemp("installed"))
    paths = [str(site / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    kept = {
        name: os.environ[name] for name in ("HOME", "LANG", "INTERCODE_CACHE") if name in os.environ
    }
    return {**kept, "PATH": ":".join(paths), "PYTHONPATH": str(site), "COLUMNS": "120"}


@pytest.fixture
def following(tmp_path: Path, installed: Mapping[str, str]) -> Follow:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")

    def all_of(found: list[Step]) -> None:
        for step in found:
            follow(step, tmp_path, installed)

    return all_of


def test_the_package_has_a_page_whose_links_lead_somewhere(
    installed: Mapping[str, str],
) -> None:
    (record,) = Path(installed["PYTHONPATH"]).glob("*.dist-info/METADATA")
    about = message_from_string(record.read_text())
    assert {"pymysql>=1.1", "sqlglot>=25"} <= set(about.get_all("Requires-Dist", []))
    links = re.findall(r"\]\((.*?)\)", str(about.get_payload()))
    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://")] == []


@pytest.mark.parametrize("attack", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_new_user_gets_what_the_tutorial_prints(
    following: Follow, tmp_path: Path, attack: bool
) -> None:
    """`intercode attack` tries everything on the sandbox again, as tests/cli/test_cli_attack.py
    does in Bash."""
    where = "import intercode, pathlib; print(pathlib.Path(intercode.__file__).parents[1].name)"
    page = steps(PLAIN + LANGUAGE)
    chosen = [step for step in page if attack or not step.text.startswith("intercode attack ")]
    assert len(chosen) == len(page) - (not attack)
    following([Step(None, f'python -c "{where}"', "site"), *chosen])
    assert {"tasks.jsonl", "setup.sh", "garden.py", "test_garden.py"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_a_reward_is_a_function_in_a_file(following: Follow) -> None:
    following(steps(REWARDS))


def test_a_judge_is_a_class_with_one_method(following: Follow) -> None:
    following(steps((ROOT / "docs" / "own-judge.md").read_text()))


def test_so_does_one_with_docker(following: Follow, tmp_path: Path) -> None:
    """Without a base image of the user's own it is that of the docker tests, made by the same
    command."""
    require_docker()
    there = "docker image inspect intercode-base > /dev/null 2>&1"
    base = Step(None, f"{there} || docker tag {debian()} intercode-base")
    following([base, *steps(DOCKER)])
    assert {"image", "till.jsonl", "till.py"} <= {path.name for path in tmp_path.iterdir()}


def test_what_is_printed_otherwise_is_noticed(following: Follow) -> None:
    following(steps("```console\n$ echo one two; seq 9\none … 9\n```"))
    with pytest.raises(AssertionError, match="three"):
        following(steps("```console\n$ echo three\none\n```"))
    with pytest.raises(AssertionError, match="exit 3"):
        following(steps("```console\n$ exit 3\n```"))
