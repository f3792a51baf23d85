"""The starter set for CTF keeps what its README promises: each flag is found by work, and stands
nowhere in plain sight."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.envs.ctf.challenges import survey
from intercode.tasks import open_data
from intercode.tasks.dataset import STARTER
from intercode.types import View

pytestmark = pytest.mark.slow

DATA = open_data(None, env="ctf")
CHALLENGES = survey(DATA.tasks, DATA.assets, DATA.file)
PLACES = "/ctf /dev /etc /home /opt /root /run /srv /tmp /var /proc"


def flag(task: str) -> str:
    """A flag follows from its task's id alone, so that it is known here without the gold that finds
    it."""
    digest = hashlib.sha256(f"the starter set's {task}".encode()).digest()
    return f"intercode{{{''.join(chr(97 + byte % 26) for byte in digest[:16])}}}"


FLAGS = {task.id: flag(task.id) for task in DATA.tasks}


@pytest.fixture(scope="module")
def env() -> Iterator[Any]:
    needs_bwrap()
    made = intercode.make("ctf", view=View(head=None), max_turns=None)
    yield made
    made.close()


@pytest.mark.slow
def test_the_hidden_flag_is_right_and_another_tasks_is_wrong(env: Any) -> None:
    for (task, own), other in zip(FLAGS.items(), reversed(FLAGS.values()), strict=True):
        for word, right in ((own, True), (other, False)):
            env.reset(options={"task": task})
            score = env.step(f"submit {word}")[4].get("score")
            assert (score is not None and score.success) is right, task


def test_a_task_has_its_own_files_only_and_names_them(env: Any) -> None:
    for task in DATA.tasks:
        env.reset(options={"task": task.id})
        files = env.step("find /ctf -type f -printf '%P\\n' | sort")[0].split()
        assert files == sorted(CHALLENGES[task.id].files), task.id
        named = set(re.findall(r"/ctf/([\w.-]+[\w-])", task.query))
        assert named, task.id
        assert named <= {name.split("/")[0] for name in files}, task.id


def test_no_flag_stands_in_plain_text_in_what_is_shipped() -> None:
    shipped = [path.read_bytes() for path in (STARTER / "ctf").rglob("*") if path.is_file()]
    unpacked = [content for found in CHALLENGES.values() for content in found.files.values()]
    for task, hidden in FLAGS.items():
        word = hidden.encode()[10:-1]
        assert not any(
            word in content or word[::-1] in content for content in [*shipped, *unpacked]
        ), task


def searched(env: Any, words: list[str], roots: str) -> list[str]:
    """Where a search inside finds one of the words; they are sent turned around, and looked for as
    they are."""
    env.world.workspace.sandbox.write(
        "/dev/shm/search.py", (Path(__file__).parent / "helpers/flag_search.py").read_bytes()
    )
    turned = " ".join(word[::-1] for word in words)
    shown = env.world.workspace.sandbox.exec(
        f"python3 /dev/shm/search.py {turned} {roots}", timeout=300
    )
    assert shown.exit_code == 0, shown.output
    return [line for line in shown.output.splitlines() if line]


@pytest.mark.soak
def test_a_search_inside_finds_no_flag_where_it_would_find_one(env: Any) -> None:
    """Files, and each process's variables, arguments and memory: first with the flag put there, as
    the positive control."""
    env.reset(options={"task": "gate"})
    word = FLAGS["gate"]
    env.step(
        f"export SEEN={word}; printf %s {word} > /ctf/note; "
        f"sleep 300 & bash -c 'sleep 300; :' {word} &"
    )
    kinds = {re.sub(r"\d+", "N", workspace) for workspace in searched(env, [word], PLACES)}
    assert {"/ctf/note", "/proc/N/environ", "/proc/N/cmdline", "/proc/N/mem"} <= kinds
    for task, hidden in FLAGS.items():
        env.reset(options={"task": task})
        env.step("ls -la")
        assert searched(env, [hidden], PLACES) == [], task
    assert searched(env, [*FLAGS.values()], "/usr") == []
