"""Forking an environment: the same state, then separate lives; replay where a live copy is
impossible."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from families import alive, family, wait_until

from intercode.errors import ForkError, UsageError

Make = Callable[..., Any]


def test_a_fork_has_files_folder_and_the_shells_state_and_turns(make: Make) -> None:
    env = make(
        "count",
        "echo mine > /box/new; rm /box/b; cd /box",
        "word='two words'; list=(x 'y z'); declare -A map=([k]=v); export OUT=1",
        "greet() { echo hello $1; }; alias say='echo said'; shopt -s nullglob; set -o noclobber; "
        "trap 'echo caught' USR1",
        max_turns=5,
    )
    look = (
        'pwd; ls; cat new; echo "$word" "${list[1]}" "${map[k]}"; env | grep ^OUT; greet you; '
        "say it; echo no*thing; echo x > new; kill -USR1 $$"
    )
    with env.fork() as twin:
        seen, *_, info = twin.step(look)
        assert seen == env.step(look)[0]
        assert "hello you\nsaid it\n" in seen
        assert "caught" in seen
        assert info["exit_code"] == 0
        assert (twin.step("true")[3], env.turn) == (True, 4)


def test_forks_live_separate_lives(make: Make) -> None:
    env = make("touch", "cd /box")
    with env.fork() as left, env.fork() as right:
        left.step("touch new; word=left; cd /")
        right.step("touch wrong")
        assert env.step('echo "$word $(pwd)"; ls')[0] == " /box\na\nb\nc\n"
        assert right.step('echo "$word"; ls')[0] == "\na\nb\nc\nwrong\n"
        assert (left.step("submit")[1], right.step("submit")[1], env.step("submit")[1]) == (
            1.0,
            0.0,
            0.0,
        )
    with env.fork() as ended, pytest.raises(UsageError, match="over"):
        ended.step("ls")


def test_a_second_thread_is_told_and_takes_nothing_from_the_first(make: Make) -> None:
    env = make("count")
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(env.step, "sleep 0.5; echo here")
        wait_until(lambda: env.turn == 1)
        for call in (lambda: env.step("echo there"), env.reset, env.fork):
            with pytest.raises(
                UsageError, match="another thread is using this environment; give each thread one"
            ):
                call()
        assert first.result()[0] == "here\n"
    assert (env.step("echo there")[0], env.turn) == ("there\n", 2)


# -- what cannot be copied -------------------------------------------------------------------------


def test_a_running_job_and_an_open_descriptor_are_named(make: Make) -> None:
    env = make("count", "word=kept; sleep 60 & until grep -q sleep /proc/$!/comm; do :; done")
    with pytest.raises(ForkError, match=r"process \d+ \(sleep\)"):
        env.fork()
    assert env.step("echo $word")[0] == "kept\n", "a refused fork harms nothing"
    env.step("kill %1; wait")
    env.fork().close()
    with pytest.raises(ForkError, match=r"descriptor 5 \(/box/a\)"):
        make("count", "exec 5< /box/a").fork()


def test_replay_executes_the_episode_again(make: Make) -> None:
    env = make(
        "count", "cd /box; word=one", "echo $word > new; sleep 60 & cat new", "exit 3", "sleep 60 &"
    )
    with env.fork(replay=True) as twin:
        assert twin.turn == env.turn == 4
        assert twin.step('jobs -r | wc -l; pwd; cat new; echo "[$word]"')[0] == "1\n/box\none\n[]\n"


def test_a_replay_that_goes_another_way_is_refused_and_leaves_nothing(make: Make) -> None:
    """What was shown of the outputs is the same: they are compared in full."""
    env = make("count", "sleep 60 &", "seq 3000; date +%N; seq 3000")
    before = alive(family(os.getpid()))
    with pytest.raises(ForkError, match=r"turn 2: 'seq 3000; date \+%N"):
        env.fork(replay=True)
    # a spare that was starting has three processes, and a fork the sleeping one as well
    assert wait_until(lambda: len(alive(family(os.getpid())) - before) <= 3)
    assert env.step("echo still here")[0] == "still here\n"
