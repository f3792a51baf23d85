"""Tasks in Harbor's and Terminal-Bench's form, made by us: what is read of them, golds, doing
nothing, and faults of the data."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from base_image import base_image, require_builder

import intercode
from intercode.agents import Act, StrategySteps, gold, noop
from intercode.errors import DataError, UsageError
from intercode.factory import EnvFactory
from intercode.interop.harbor.directory import read_directory
from intercode.redteam.hacks import HACKS
from intercode.runner.run import evaluate
from intercode.tasks.formats import Unreadable
from intercode.types import Episode, Task
from intercode.validate.check import check_texts

TASKS = Path(__file__).parent / "tasks"
WARM = ": where there is a network, run `intercode check harbor --data DIR --warm` once"
OFFLINE = re.compile(
    r"Could not resolve|Temporary failure|Failed to fetch|No matching distribution|no such host"
)


@pytest.fixture(scope="module")
def factory() -> EnvFactory:
    return intercode.prepare("harbor", data=str(TASKS), image=base_image())


def tasks(factory: EnvFactory, *names: str) -> list[Task]:
    return [task for task in factory.tasks if task.id in names]


def played(factory: EnvFactory, agent: Any, *names: str) -> dict[str, Episode]:
    episodes = evaluate(factory, agent, tasks=tasks(factory, *names), workers=2)
    return {episode.task: episode for episode in episodes}


def acting(action: str) -> Any:
    def strategy(task: Task, protocol: str) -> StrategySteps:
        yield Act(action)
        yield Act("submit")

    return strategy


# -- playing ---------------------------------------------------------------------------------------

OFFLINE_TASKS = (
    "as-root",
    "older",
    "service",
    "several-files",
    "slow-program",
    "total",
    "two-numbers",
)


@pytest.mark.slow
def test_golds_earn_all_and_doing_nothing_or_a_hack_earns_nothing(factory: EnvFactory) -> None:
    overwritten = played(factory, acting(HACKS["overwritten tests"]), "several-files")
    assert overwritten["several-files"].reward == 0
    golds = played(factory, gold, *OFFLINE_TASKS)
    assert {name: (golds[name].reward, golds[name].error) for name in golds} == dict.fromkeys(
        OFFLINE_TASKS, (1.0, None)
    )
    idle = played(factory, noop, *OFFLINE_TASKS)
    assert {episode.reward for episode in idle.values()} == {0.0}
    assert "alive" in str(golds["service"].outcomes["verified"])
    assert "/etc/ledger.conf" in str(golds["as-root"].outcomes["verified"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["with-apt", "with-pip"])
def test_a_dockerfile_may_install_packages(
    factory: EnvFactory, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # which takes over this machine's settings of pip; a daemon has its own
    require_builder("buildah", monkeypatch)
    episode = played(factory, gold, name)[name]
    if OFFLINE.search(episode.error or ""):
        pytest.skip(f"no package registry can be reached: {episode.error}")
    assert (episode.reward, episode.error) == (1.0, None)


@pytest.mark.slow
def test_several_numbers_are_one_reward(factory: EnvFactory) -> None:
    action = "tail -n +2 ledger.csv | cut -d, -f1 > names.txt"  # all of them, in another order
    episode = played(factory, acting(action), "two-numbers")["two-numbers"]
    assert (episode.reward, episode.success) == (0.5, False)
    assert episode.parts == {"complete": 1.0, "ordered": 0.0}


@pytest.mark.slow
def test_a_timeout_of_the_tests_is_the_agents_failure(factory: EnvFactory) -> None:
    action = "echo 'while :; do sleep 1; done' > last.sh"
    episode = played(factory, acting(action), "slow-program")["slow-program"]
    assert (episode.reward, episode.error) == (0.0, None)
    assert "ran out of time" in str(episode.outcomes["rule"])


@pytest.mark.slow
def test_no_reward_is_the_datas_fault(factory: EnvFactory) -> None:
    episode = played(factory, gold, "no-reward")["no-reward"]
    assert episode.reward is None
    assert re.match(
        r"data: task no-reward: .*neither reward.json nor reward.txt", episode.error or ""
    )


@pytest.mark.slow
def test_a_dockerfile_that_does_not_build_is_the_datas_fault(tmp_path: Path) -> None:
    shutil.copytree(TASKS / "total", tmp_path / "total")
    (tmp_path / "total" / "environment" / "Dockerfile").write_text(
        "FROM debian:bookworm-slim\nRUN echo a part is missing >&2; exit 3\n"
    )
    factory = intercode.prepare("harbor", data=str(tmp_path), image=base_image())
    with factory() as env, pytest.raises(DataError, match=r"(?s)task total: .*a part is missing"):
        env.reset(seed=0)


# -- reading ---------------------------------------------------------------------------------------


def variant(folder: Path, name: str, more: str = "", **files: str) -> None:
    """A copy of the task `total` whose task.toml and files say something else."""
    shutil.copytree(TASKS / "total", folder / name)
    with open(folder / name / "task.toml", "a") as file:
        file.write(more)
    for path, text in files.items():
        (folder / name / path.replace("__", "/").replace("_dot_", ".")).write_text(text)


def test_what_a_sandbox_cannot_offer_is_left_out_with_the_reason(tmp_path: Path) -> None:
    compose = "services: {main: {}, database: {image: postgres}}\n"
    judge = '[verifier.env]\nAPI_KEY = "${API_KEY}"\n'
    variant(tmp_path, "allowed", 'network_mode = "allowlist"\n')
    variant(tmp_path, "compose", **{"environment__docker-compose_dot_yaml": compose})
    variant(tmp_path, "gpu", "gpus = 1\n")
    variant(tmp_path, "judge", judge)
    variant(tmp_path, "public", 'network_mode = "public"\n')
    variant(tmp_path, "separate", 'os = "windows"\n')
    variant(tmp_path, "uv", tests__test_dot_sh="uvx -w pytest==8 pytest /tests\n")
    variant(tmp_path, "local", tests__test_dot_sh="curl -s http://localhost:80 | grep ok\n")
    variant(tmp_path, "untested")
    (tmp_path / "untested" / "tests" / "test.sh").unlink()
    factory = intercode.prepare("harbor", data=str(tmp_path))
    assert [task.id for task in factory.tasks] == ["local", "public"]
    assert {task.id: (issue.kind, str(issue)) for task, issue in factory.left_out} == {
        "allowed": (
            "needs_network",
            "its tests need hosts on the internet (network_mode = allowlist)",
        ),
        "compose": ("needs_machine", "its container database does not say its port"),
        "gpu": ("needs_machine", "needs a GPU"),
        "judge": ("needs_network", "needs API_KEY of the host"),
        "separate": ("needs_machine", "needs windows"),
        "uv": ("needs_network", f"its tests download (uvx -w pytest==8 pytest /tests){WARM}"),
        "untested": ("needs_files", "has no test.sh"),
    }
    facts = factory.facts()
    assert facts["left_out"].keys() == {task.id for task, _ in factory.left_out}
    assert "no network" in facts["network"]
    (tmp_path / "local" / "environment" / "Dockerfile").unlink()
    (tmp_path / "public" / "environment" / "Dockerfile").unlink()
    why = (
        r"none of 9 tasks can .*: has neither .*: give it an image with --image NAME \(2: local,"
        r" public\); .* other reasons"
    )
    with pytest.raises(UsageError, match=why):
        intercode.prepare("harbor", data=str(tmp_path))
    kept = intercode.prepare("harbor", data=str(tmp_path), everything=True, image=base_image())
    assert {"local", "public"} <= {task.id for task in kept.tasks}
    assert {"allowed", "judge", "uv"} <= {task.id for task in kept.tasks}


@pytest.mark.parametrize(
    ("more", "field", "value"),
    [
        ('cpus = 2\nmemory = "2G"\n', "memory", 2048),
        ("memory_mb = 512\n", "verify_memory", 512),
        ('memory = "512M"\nstorage = "10G"\n', "disk", 512),
        ('workdir = "/srv"\n', "cwd", "/srv"),
        ('[environment.env]\nMODE = "${MODE:-fast}"\n', "env", {"MODE": "fast"}),
        ('docker_image = "team/base"\n', "image", "environment/Dockerfile"),
    ],
)
def test_settings_become_fields(tmp_path: Path, more: str, field: str, value: object) -> None:
    variant(tmp_path, "one")
    file = tmp_path / "one" / "task.toml"
    file.write_text(file.read_text().replace('memory = "1G"\n', "") + more)
    (record,) = read_directory(tmp_path / "one")
    assert (record["id"], record[field]) == ("one", value)


def test_a_folder_without_tasks_and_a_broken_task_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"contains task\.toml or task\.yaml"):
        list(read_directory(tmp_path))
    variant(tmp_path, "broken", "[agent\n")
    (broken,) = read_directory(tmp_path)
    assert isinstance(broken, Unreadable)
    assert re.search(r"broken/task\.toml: is not TOML .*line", broken.why)


def test_all_ten_tasks_are_read_and_can_be_stored() -> None:
    records = list(read_directory(TASKS))
    assert len(json.loads(json.dumps(records))) == 10
    assert [record["id"] for record in records if record["unplayable"]] == []


def test_tasks_lie_some_levels_deep_and_ids_stay_different(tmp_path: Path) -> None:
    for place in ("tasks/easy/one", "tasks/hard/one", "tasks/hard/two"):
        variant((tmp_path / place).parent, (tmp_path / place).name)
    records = {record["id"]: record for record in read_directory(tmp_path)}
    assert [*records] == ["tasks-easy-one", "tasks-hard-one", "two"]
    assert records["two"]["image"] == "tasks/hard/two/environment/Dockerfile"
    factory = intercode.prepare("harbor", data=str(tmp_path), image=base_image())
    assert len(factory.tasks) == 3


def test_a_step_has_the_tests_and_the_solution_of_its_task(tmp_path: Path) -> None:
    variant(tmp_path, "one")
    variant(tmp_path, "steps", '[[steps]]\nname = "first"\n')
    (tmp_path / "steps" / "steps" / "first").mkdir(parents=True)
    instruction = (tmp_path / "steps" / "instruction.md").rename(
        tmp_path / "steps" / "steps" / "first" / "instruction.md"
    )
    one, steps = read_directory(tmp_path)
    (step,) = steps["rounds"]
    assert (one["unplayable"], steps["unplayable"]) == (None, None)
    assert (step["query"], step["gold"]) == (instruction.read_text(), one["gold"])
    assert step["verify"] == "steps/tests"


def test_helpers_of_tests_that_download_are_found_and_comments_are_no_solution(
    tmp_path: Path,
) -> None:
    variant(tmp_path, "helped", tests__install_dot_sh="curl -LsSf https://host/install.sh | sh\n")
    variant(tmp_path, "stub", solution__solve_dot_sh="#!/bin/bash\n\n# to be written\n")
    shutil.copytree(TASKS / "older", tmp_path / "older")
    (tmp_path / "older" / "tests" / "setup.sh").write_text("git clone https://host/x\n")
    helped, older, stub = read_directory(tmp_path)
    assert [kind for _, kind in helped["unplayable"]] == ["needs_network"]
    assert [kind for _, kind in older["unplayable"]] == ["needs_network"]
    assert (stub["gold"], stub["keep_processes"]) == (None, False)


def test_equal_words_on_other_files_are_no_duplicate(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        variant(tmp_path, name)
    (tmp_path / "b" / "environment" / "more.txt").write_text("more")
    issues = check_texts("harbor", data=str(tmp_path))["broken"]
    assert [(row["task"], row["kind"]) for row in issues] == [("c", "duplicate")]
    assert "as task a" in issues[0]["why"]
