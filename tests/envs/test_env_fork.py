"""Forking an environment: the same state, then separate lives; replay where a live copy is impossible."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from families import alive, family, wait_until

from intercode.errors import ForkError, UsageError

Make = Callable[..., Any]


def begun(make: Make, *actions: str, task: str = "count", **options: Any) -> Any:
    env = make(**options)
    env.reset(seed=0, options={"task": task})
    for action in actions:
        env.step(action)
    return env


def test_a_fork_has_files_folder_and_the_shells_state(make: Make) -> None:
    env = begun(
        make,
        "echo mine > /box/new; rm /box/b; cd /box",
        "word='two words'; list=(x 'y z'); declare -A map=([k]=v); export OUT=1",
        "greet() { echo hello $1; }; alias say='echo said'; shopt -s nullglob; set -o noclobber; trap 'echo caught' USR1",
    )
    look = (
        'pwd; ls; cat new; echo "$word" "${list[1]}" "${map[k]}"; env | grep ^OUT; greet you; say it; echo no*thing; '
        "echo x > new; kill -USR1 $$"
    )
    twin = env.fork()
    seen, *_, info = twin.step(look)
    assert seen == env.step(look)[0]
    assert "hello you\nsaid it\n" in seen
    assert "caught" in seen
    assert info["exit_code"] == 0
    twin.close()


def test_a_fork_has_had_as_many_turns(make: Make) -> None:
    env = begun(make, "true", "true", max_turns=4)
    twin = env.fork()
    assert [twin.step("true")[3], twin.step("true")[3]] == [False, True]
    assert env.turn == 2
    assert env.step("true")[3] is False
    twin.close()


def test_a_second_thread_is_told_and_takes_nothing_from_the_first(make: Make) -> None:
    env = begun(make)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(env.step, "sleep 1; echo here")
        wait_until(lambda: env.turn == 1)
        for call in (lambda: env.step("echo there"), env.reset, env.fork):
            with pytest.raises(UsageError, match="another thread is using this environment; give each thread one"):
                call()
        assert first.result()[0] == "here\n"
    assert (env.step("echo there")[0], env.turn) == ("there\n", 2)


@pytest.mark.parametrize("name", ["step", "reset", "fork"])
def test_a_closed_environment_says_so(make: Make, name: str) -> None:
    env = begun(make)
    env.close()
    with pytest.raises(UsageError, match="the environment is closed; make a new one"):
        getattr(env, name)(*["true"] if name == "step" else [])


def test_forks_live_separate_lives(make: Make) -> None:
    env = begun(make, "cd /box", task="touch")
    left, right = env.fork(), env.fork()
    left.step("touch new; word=left; cd /")
    right.step("touch wrong")
    assert env.step('echo "$word $(pwd)"; ls')[0] == " /box\na\nb\nc\n"
    assert right.step('echo "$word"; ls')[0] == "\na\nb\nc\nwrong\n"
    assert (left.step("submit")[1], right.step("submit")[1], env.step("submit")[1]) == (1.0, 0.0, 0.0)
    assert right.reset(options={"task": "names"})[0].startswith("Print the names")
    assert right.step("ls /box")[0] == "a\nb\nc\n"
    for each in (left, right):
        each.close()


def test_a_fork_of_a_fork_outlives_both(make: Make) -> None:
    env = begun(make, "word=one")
    child = env.fork()
    child.step("word+=two")
    grandchild = child.fork()
    env.close()
    child.close()
    assert grandchild.step("echo $word")[0] == "onetwo\n"
    grandchild.step("ls /box | wc -l")
    assert grandchild.step("submit")[1] == 1.0
    grandchild.close()


def test_a_fork_goes_on_in_the_same_order_of_tasks(make: Make) -> None:
    env = make()
    env.reset(seed=3)
    env.step("true")
    twin = env.fork()
    assert [twin.reset()[1] for _ in range(9)] == [env.reset()[1] for _ in range(9)]
    twin.close()


def test_a_fork_of_an_ended_episode_has_ended(make: Make) -> None:
    env = begun(make, "sleep 50 &", "submit")
    for twin in (env.fork(replay=True), begun(make, "submit").fork()):
        with pytest.raises(UsageError, match="over"):
            twin.step("ls")
        twin.close()


def test_a_general_answer_is_held_against_second_contents_in_a_fork_too(make: Make) -> None:
    env = begun(make, "cd /box", task="first")
    twin = env.fork()
    env.step("cat a")
    twin.step("echo apple")
    assert env.step("submit")[1] == 1.0
    score = twin.step("submit")[4]["score"]
    assert (score.success, score.parts["robust"]) == (False, 0.0)
    twin.close()


def test_a_fork_of_a_paper_session_has_its_folder(make: Make) -> None:
    env = begun(make, "cd /box", "echo hello", protocol="paper", task="names")
    twin = env.fork()
    assert (twin.step("pwd")[0], twin.step("ls /box")[1]) == ("/box\n", 1.0)
    assert env.step("ls")[1] == 1.0
    twin.close()


# -- what cannot be copied ------------------------------------------------------------------------------------------------


def test_a_running_job_is_named(make: Make) -> None:
    env = begun(make, "word=kept; sleep 60 & until grep -q sleep /proc/$!/comm; do :; done")
    with pytest.raises(ForkError, match=r"process \d+ \(sleep\)"):
        env.fork()
    assert env.step("echo $word")[0] == "kept\n", "a refused fork harms nothing"
    env.step("kill %1; wait")
    env.fork().close()


def test_an_open_descriptor_is_named(make: Make) -> None:
    env = begun(make, "exec 5< /box/a")
    with pytest.raises(ForkError, match=r"descriptor 5 \(/box/a\)"):
        env.fork()


def test_replay_executes_the_episode_again(make: Make) -> None:
    env = begun(make, "cd /box; word=one", "echo $word > new; sleep 60 & cat new", "exit 3", "sleep 60 &")
    twin = env.fork(replay=True)
    assert twin.turn == env.turn == 4
    assert twin.step('jobs -r | wc -l; pwd; cat new; echo "[$word]"')[0] == "1\n/box\none\n[]\n"
    twin.close()


def test_a_replay_that_goes_another_way_is_refused_and_leaves_nothing(make: Make) -> None:
    env = begun(make, "sleep 60 &", "date +%s%N")
    before = alive(family(os.getpid()))
    with pytest.raises(ForkError, match=r"turn 2: 'date \+%s%N'"):
        env.fork(replay=True)
    assert wait_until(lambda: alive(family(os.getpid())) <= before)
    assert env.step("echo still here")[0] == "still here\n"


def test_a_replay_is_compared_in_full_and_not_as_it_was_shown(make: Make) -> None:
    env = begun(make, "sleep 60 &", "seq 3000; date +%N; seq 3000")
    with pytest.raises(ForkError, match="turn 2"):
        env.fork(replay=True)


# -- search ---------------------------------------------------------------------------------------------------------------


def test_a_search_over_fifty_forks_leaves_no_process_and_no_descriptor(make: Make) -> None:
    env = begun(make, "cd /box", task="touch")
    env.fork().close()
    before, open_before = alive(family(os.getpid())), len(os.listdir("/proc/self/fd"))
    rewards = []
    for number in range(50):
        branch = env.fork()
        branch.step("touch new" if number == 31 else f"touch new{number}")
        rewards.append(branch.step("submit")[1])
        branch.close()
    assert [number for number, reward in enumerate(rewards) if reward] == [31]
    assert wait_until(lambda: alive(family(os.getpid())) <= before)
    assert len(os.listdir("/proc/self/fd")) == open_before
    assert env.step("ls")[0] == "a\nb\nc\n"


def test_a_deep_chain_of_forks_keeps_all_that_was_done(make: Make) -> None:
    env = chain = begun(make, "steps=''", max_turns=None)
    for number in range(12):
        chain.step(f"steps+={number},; echo {number} > /box/{number}")
        following = chain.fork()
        if chain is not env:
            chain.close()
        chain = following
    assert chain.step("echo $steps; ls /box | wc -l")[0] == "0,1,2,3,4,5,6,7,8,9,10,11,\n15\n"
    chain.close()


def test_branches_may_be_explored_by_threads_of_their_own(make: Make) -> None:
    env = begun(make, "cd /box")
    branches = [env.fork() for _ in range(4)]

    def explore(number: int) -> list[str]:
        seen = []
        for step in range(8):
            seen.append(branches[number].step(f"word={number}.{step}; echo $word")[0])
            leaf = branches[number].fork()
            seen.append(leaf.step("echo $word")[0])
            leaf.close()
            branches[number].reset(options={"task": "count"})
            branches[number].step("true")
        branches[number].close()
        return seen

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(explore, range(4)))
    assert found == [[f"{number}.{step}\n" for step in range(8) for _ in range(2)] for number in range(4)]
