"""The starter set for CTF keeps what its README promises: two ways to each flag, and none in plain sight."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from starter_ctf_flags import flag
from starter_ctf_solvers import SOLVERS, mode_bits

import intercode
from intercode.agents import Strategy, gold, noop, retrieval
from intercode.env import Setting, View
from intercode.runner.check import check
from intercode.runner.run import evaluate
from intercode.tasks import open_data
from intercode.tasks.challenges import survey
from intercode.tasks.dataset import STARTER
from intercode.types import Episode, Task

DATA = open_data(None, env="ctf")
TASKS = DATA.tasks
CHALLENGES = survey(TASKS, DATA.assets, DATA.file)
WAYS: list[dict[str, Any]] = [{}, {"reward": "paper"}, {"protocol": "paper"}, {"protocol": "paper", "reward": "exact"}]
PLACES = ["/ctf", "/dev", "/etc", "/home", "/opt", "/root", "/run", "/srv", "/tmp", "/var"]
SEARCH = Path(__file__).with_name("flag_search.py")
walled = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@cache
def prepared(way: int) -> Setting:
    return intercode.prepare("ctf", max_turns=None, **WAYS[way])


def played(agent: Strategy, way: int) -> list[Episode]:
    setting = prepared(way)
    episodes = evaluate(setting, agent, tasks=setting.tasks, workers=2)
    assert [episode.error for episode in episodes if episode.error] == []
    assert len(episodes) == len(TASKS)
    return episodes


@pytest.fixture
def env() -> Iterator[Any]:
    made = intercode.make("ctf", view=View(head=None), max_turns=None)
    yield made
    made.close()


# -- the records --------------------------------------------------------------------------------------------------------


def test_there_are_enough_tasks_with_enough_ideas() -> None:
    assert len(TASKS) >= 14
    assert max(Counter(task.extra["idea"] for task in TASKS).values()) <= 2
    assert len({task.query for task in TASKS}) == len({task.gold for task in TASKS}) == len(TASKS)
    kinds = {"encoding", "cryptography", "forensics", "archives", "reversing", "permissions", "logs", "git history"}
    assert {task.extra["kind"] for task in TASKS} == kinds


def test_at_least_a_third_needs_a_look_and_says_why() -> None:
    looks = [task for task in TASKS if task.extra["looks"]]
    assert 3 * len(looks) >= len(TASKS)
    assert all(len(task.extra["why"].split()) >= 8 for task in looks)


def test_each_task_says_where_its_files_are_and_what_a_flag_looks_like() -> None:
    for task in TASKS:
        named = re.findall(r"/ctf/([\w.-]+[\w-])", task.query)
        held = {name.split("/")[0] for name in CHALLENGES[task.id].files}
        assert named, task.id
        assert set(named) <= held, task.id
        assert "intercode{...}" in task.query, task.id


def test_no_task_wants_what_is_not_there() -> None:
    assert {name: found.faults for name, found in CHALLENGES.items() if found.faults} == {}
    assert {path.name.removesuffix(".tar") for path in (STARTER / "ctf" / "assets").iterdir()} == {task.id for task in TASKS}


def test_golds_survive_the_papers_quoting() -> None:
    assert [task.id for task in TASKS if shlex.split(f'bash -c "{task.gold}"') != ["bash", "-c", task.gold]] == []


def test_no_flag_stands_in_plain_text_in_what_is_shipped() -> None:
    shipped = [path.read_bytes() for path in (STARTER / "ctf").rglob("*") if path.is_file()]
    unpacked = [content for found in CHALLENGES.values() for content in found.files.values()]
    for task in TASKS:
        word = flag(task.id).encode()[10:-1]
        assert not any(word in content or word[::-1] in content for content in [*shipped, *unpacked]), task.id


# -- two ways to each flag ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOLVERS)
def test_a_second_solver_finds_the_flag_that_was_hidden(name: str) -> None:
    assert SOLVERS[name](CHALLENGES[name].files) == flag(name)


def test_permission_bits_spell_the_flag_in_the_archive_too() -> None:
    with tarfile.open(fileobj=io.BytesIO(CHALLENGES["mode-bits"].packed or b"")) as tar:
        assert mode_bits(tar.getmembers()) == flag("mode-bits")


@walled
def test_each_gold_finds_the_flag_that_was_hidden(env: Any) -> None:
    found = {task.id: env.try_gold(task) for task in env.tasks}
    assert {name: trial.evidence for name, trial in found.items()} == {task.id: flag(task.id) for task in TASKS}
    assert [name for name, trial in found.items() if trial.faults] == []


# -- what agents without a model earn -----------------------------------------------------------------------------------


@walled
@pytest.mark.slow
@pytest.mark.parametrize("way", range(len(WAYS)))
def test_every_gold_is_right_and_doing_nothing_is_not(way: int) -> None:
    assert [e.task for e in played(gold, way) if not e.success or e.reward != 1] == []
    assert [e.task for e in played(noop, way) if e.success or e.reward != 0] == []


@walled
@pytest.mark.slow
def test_the_golds_of_similar_tasks_solve_none() -> None:
    assert [e.task for e in played(retrieval(TASKS, 5), 0) if e.success] == []


@walled
@pytest.mark.slow
def test_the_data_check_finds_nothing() -> None:
    setting = prepared(0)
    assert check(setting, setting.tasks, workers=2)["broken"] == []


# -- nothing in plain sight ---------------------------------------------------------------------------------------------


def searched(env: Any, words: list[str], *roots: str) -> list[str]:
    """Where a search inside finds one of the words; they are sent turned around, and looked for as they are."""
    env._place.sandbox.write("/dev/shm/search.py", SEARCH.read_bytes())
    turned = " ".join(word[::-1] for word in words)
    shown = env._place.sandbox.exec(f"python3 /dev/shm/search.py {turned} {' '.join(roots)}", timeout=300)
    assert shown.exit_code == 0, shown.output
    return [line for line in shown.output.splitlines() if line]


@walled
def test_the_search_finds_what_is_there_to_be_found(env: Any) -> None:
    """In a file, a variable, an argument and the memory of a process: the positive control."""
    env.reset(options={"task": "gate"})
    word = flag("gate")
    env.step(f"export SEEN={word}; printf %s {word} > /ctf/note; sleep 300 & bash -c 'sleep 300; :' {word} &")
    places = searched(env, [word], "/ctf", "/proc")
    kinds = {re.sub(r"\d+", "N", place) for place in places}
    assert {"/ctf/note", "/proc/N/environ", "/proc/N/cmdline", "/proc/N/mem"} <= kinds


@walled
@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_no_search_inside_finds_the_flag(env: Any, task: Task) -> None:
    """In what differs between tasks: files outside of /usr, and all processes."""
    env.reset(options={"task": task.id})
    env.step("ls -la")
    assert searched(env, [flag(task.id)], *PLACES, "/proc") == []


@walled
@pytest.mark.slow
def test_no_flag_of_any_task_lies_in_the_userland(env: Any) -> None:
    env.reset(options={"task": TASKS[0].id})
    assert searched(env, [flag(task.id) for task in TASKS], "/usr", "/proc") == []


@walled
def test_only_the_tasks_own_files_are_inside(env: Any) -> None:
    for task in (TASKS[0], TASKS[-1], TASKS[0]):
        env.reset(options={"task": task.id})
        shown = env.step("find /ctf -type f -printf '%P\\n' | sort")[0].split()
        assert shown == sorted(CHALLENGES[task.id].files)


def test_a_name_that_no_file_can_have_has_no_assets() -> None:
    task = Task("x" * 300, "What is 0x2A in decimal? Answer tag{n}.", "tag{42}")
    assert survey([task], DATA.assets)[task.id].assets is None
