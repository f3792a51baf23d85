"""The paper's way of executing: quoting, `cd`, the time limit, and golds as lists.

The appendix of the design is the source, and what InterCode v1's recordings show beyond the
shell itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import intercode
from intercode_sandbox.base import Limits

Make = Callable[..., Any]


@pytest.fixture
def env(make: Make) -> Any:
    return make("long", protocol="paper", max_turns=None)


def test_an_action_is_quoted_as_intercode_v1_did(env: Any) -> None:
    for action, printed in (
        # the inner quotes end the argument, and `words` is bash's name
        (
            'echo "two  words"',
            "two\n",
        ),
        ('echo \\"two  words\\"', "two  words\n"),  # a backslash keeps the quotes
        ("echo 'two  words'", "two  words\n"),
        ("word=7; echo $word", "7\n"),  # shlex leaves dollars alone
        ("echo \\$HOME", "$HOME\n"),
        ("echo \\\\$HOME", "$HOME\n"),  # two backslashes become one, which then quotes the dollar
        ("echo `echo ran`", "ran\n"),
        ("echo a\necho b", "a\nb\n"),
        ("  echo stripped  \n", "stripped\n"),
        ("echo out; echo err >&2; echo more; false", "out\nerr\nmore\n"),
    ):
        assert env.step(action)[0] == printed, action
    for action in ('echo "', "echo \\", 'echo "two" "thr'):
        observation, reward, *_, info = env.step(action)
        assert (observation, info["exit_code"], info["timed_out"]) == (
            "Malformed command",
            None,
            False,
        )
        assert 0 < reward < 1


def test_an_action_that_starts_with_cd_moves_if_it_succeeds_and_nothing_else_carries_over(
    env: Any,
) -> None:
    for actions, folder in (
        (["cd /box", "word=lost; export word; alias ll=ls"], "/box"),
        (["cd box"], "/box"),
        (["cd /box/../box/./"], "/box"),
        (["cd /box", "cd .."], "/"),
        (["cd ../../.."], "/"),
        (["cd /nowhere"], "/"),
        (["cd /box", "cd nowhere"], "/box"),
        (["true && cd /box"], "/"),
        (["cd"], "/"),
        (["cd /box; cd /"], "/"),
    ):
        env.reset(options={"task": "long"})
        for action in actions:
            env.step(action)
        assert env.step("pwd; echo [$word]")[0] == f"{folder}\n[]\n", actions


def test_files_stay_while_the_episode_lasts(env: Any) -> None:
    env.step("echo kept > /box/new")
    assert env.step("cat /box/new")[0] == "kept\n"
    env.reset(options={"task": "long"})
    assert env.step("cat /box/new; pwd")[0] == "cat: /box/new: No such file or directory\n/\n"


def test_a_timed_out_action_prints_these_words_only(make: Make) -> None:
    env = make("count", protocol="paper", limits=Limits(seconds=0.3))
    observation, *_, info = env.step("echo lost; sleep 30")
    assert (observation, info["timed_out"]) == ("Command timed out", True)
    assert env.step("cd /box")[0] == ""
    assert env.step("sleep 30")[0] == "Command timed out"
    assert env.step("pwd")[0] == "/box\n"


def test_golds_are_joined_and_quoted_like_actions_and_belong_to_their_task(
    tmp_path: Path, box: Path
) -> None:
    golds = [
        ["cd /box", "ls | wc -l"],
        "echo $((1 + 1))",
        'echo "broken',
        'find /box -name "b"',
        "echo $((1 + 1)) # again",
    ]
    file = tmp_path / "listed.json"
    file.write_text(
        json.dumps([{"query": f"task {number}", "gold": gold} for number, gold in enumerate(golds)])
    )
    with closing(
        intercode.make("bash", data=str(file), tree=str(box / "tree"), protocol="paper")
    ) as env:
        for task, right in (
            (0, "echo 3"),  # joined by `;`, and executed as one action
            (1, "echo 2"),
            (2, "echo Malformed command"),
            (3, "echo /box/b"),  # -name b, once the quotes are gone
            (4, "echo $((4 - 2))"),
        ):
            env.reset(options={"task": task})
            env.step("cd /box")
            assert [env.step("true")[1] < 1 for _ in range(2)] == [True, True]
            assert env.step(right)[1:3] == (1.0, True), right
