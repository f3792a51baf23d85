"""The paper's way of executing: quoting, `cd`, the time limit, golds as lists. The appendix of the design is the source."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import intercode
from intercode.sandbox.base import Limits

Make = Callable[..., Any]


@pytest.fixture
def env(make: Make) -> Any:
    made = make(protocol="paper", max_turns=None)
    made.reset(seed=0, options={"task": "long"})
    return made


@pytest.mark.parametrize(
    ("action", "printed"),
    [
        ("echo plain", "plain\n"),
        ('echo "two  words"', "two\n"),  # the inner quotes end the argument, and `words` is bash's name
        ('echo \\"two  words\\"', "two  words\n"),  # a backslash keeps the quotes
        ("echo 'two  words'", "two  words\n"),
        ("word=7; echo $word", "7\n"),  # shlex leaves dollars alone
        ("echo \\$HOME", "$HOME\n"),
        ("echo \\\\$HOME", "$HOME\n"),  # two backslashes become one, which then quotes the dollar
        ("echo `echo ran`", "ran\n"),
        ("echo a\necho b", "a\nb\n"),
        ("  echo stripped  \n", "stripped\n"),
        ("echo out; echo err >&2; false", "out\nerr\n"),
    ],
)
def test_an_action_is_quoted_as_the_first_system_did(env: Any, action: str, printed: str) -> None:
    assert env.step(action)[0] == printed


@pytest.mark.parametrize("action", ['echo "', "echo \\", 'echo "two" "thr'])
def test_an_action_that_cannot_be_split_is_malformed(env: Any, action: str) -> None:
    observation, reward, *_, info = env.step(action)
    assert observation == "Malformed command"
    assert (info["exit_code"], info["timed_out"]) == (None, False)
    assert 0 < reward < 1


def test_only_the_folder_carries_over_from_one_action_to_the_next(env: Any) -> None:
    env.step("cd /box")
    env.step("word=lost; export word; alias ll=ls")
    assert env.step("pwd; echo [$word]")[0] == "/box\n[]\n"


@pytest.mark.parametrize(
    ("actions", "folder"),
    [
        (["cd /box"], "/box"),
        (["cd box"], "/box"),
        (["cd /box/../box/./"], "/box"),
        (["cd /box", "cd .."], "/"),
        (["cd ../../.."], "/"),
        (["cd /nowhere"], "/"),
        (["cd /box", "cd nowhere"], "/box"),
        (["true && cd /box"], "/"),
        (["cd"], "/"),
        (["cd /box; cd /"], "/"),
    ],
)
def test_an_action_that_starts_with_cd_moves_if_it_succeeds(env: Any, actions: list[str], folder: str) -> None:
    for action in actions:
        env.step(action)
    assert env.step("pwd")[0] == f"{folder}\n"


def test_files_stay_while_the_episode_lasts(env: Any) -> None:
    env.step("echo kept > /box/new")
    assert env.step("cat /box/new")[0] == "kept\n"
    env.reset(options={"task": "long"})
    assert env.step("cat /box/new; pwd")[0] == "cat: /box/new: No such file or directory\n/\n"


def test_a_timed_out_action_prints_these_words_only(make: Make) -> None:
    env = make(protocol="paper", limits=Limits(seconds=0.3))
    env.reset(seed=0)
    observation, *_, info = env.step("echo lost; sleep 30")
    assert (observation, info["timed_out"]) == ("Command timed out", True)
    assert env.step("cd /box")[0] == ""
    assert env.step("sleep 30")[0] == "Command timed out"
    assert env.step("pwd")[0] == "/box\n"


@pytest.mark.slow
def test_the_time_limit_is_10_seconds(env: Any) -> None:
    began = time.monotonic()
    assert env.step("sleep 11; echo done")[0] == "Command timed out"
    assert 10 <= time.monotonic() - began < 11


def test_standard_error_comes_between_the_lines_of_standard_output(env: Any) -> None:
    assert env.step("echo 1; echo 2 >&2; echo 3")[0] == "1\n2\n3\n"


@pytest.fixture
def listed(tmp_path: Path, box: Path) -> Iterator[Any]:
    """Golds that are lists, or need the quoting."""
    golds = [["cd /box", "ls | wc -l"], "echo $((1 + 1))", 'echo "broken', 'find /box -name "b"']
    file = tmp_path / "listed.json"
    file.write_text(json.dumps([{"query": f"task {number}", "gold": gold} for number, gold in enumerate(golds)]))
    made = intercode.make("bash", data=str(file), tree=str(box / "tree"), protocol="paper")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("task", "right"),
    [
        (0, "echo 3"),  # joined by `;`, and executed as one action
        (1, "echo 2"),
        (2, "echo Malformed command"),
        (3, "echo /box/b"),  # -name b, once the quotes are gone
    ],
)
def test_golds_are_joined_and_quoted_like_actions(listed: Any, task: int, right: str) -> None:
    listed.reset(options={"task": task})
    assert listed.step("true")[1] < 1
    assert listed.step(right)[1:3] == (1.0, True)


def test_a_gold_that_depends_on_its_folder_runs_at_the_root(listed: Any) -> None:
    listed.reset(options={"task": 1})
    assert listed.task.gold == "echo $((1 + 1))"
    listed.step("cd /box")
    assert listed.step("echo $((4 - 2))")[2]


def test_a_gold_that_was_executed_again_belongs_to_its_own_task(tmp_path: Path) -> None:
    file = tmp_path / "alike.json"
    file.write_text(json.dumps([{"id": name, "query": name, "gold": f"echo {name}"} for name in ("one", "one again")]))
    with contextlib.closing(intercode.make("bash", data=str(file), protocol="paper")) as env:
        env.reset(options={"task": "one"})
        assert [env.step("true")[2] for _ in range(3)] == [False] * 3
        env.reset(options={"task": "one again"})
        assert env.step("echo one again")[1:3] == (1.0, True)
