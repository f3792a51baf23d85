"""Environments in several processes of this machine: the same results, nothing lost with a killed
process, and nothing left behind."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_words import INTERCODE
from kept import write_box
from policies import LETTERS, replying
from process_table import alive, below, processes, wait_for

import intercode
from intercode.agents import Act, Ask
from intercode.errors import UsageError
from intercode.factory import EnvFactory
from intercode.models import ScriptedModel
from intercode.runner.run import hosts_here
from intercode.train import Rollout, RolloutLimits, RolloutPool, groups

pytestmark = pytest.mark.slow

TASKS = [
    {"id": f"{kind}-{n}", "query": f"{query} Number {n}.", "gold": gold.format(n=n)}
    for n in range(4)
    for kind, query, gold in [
        ("names", "Print the names in /box.", "ls /box"),
        ("touch", "Make a file.", "touch /box/new{n}"),
        ("print", "Print the numbers.", "seq {n} 9"),
    ]
]
TASK_IDS = [task["id"] for task in TASKS]
CODES = ("ls /box", "seq 2 9", "cat /box/none", "submit")
REPLIES = [f"I try.\n```bash\n{code}\n```" for code in CODES]
SLOW = replying("```bash\nsleep 0.3; ls /box\n```", "```bash\nsubmit\n```")
SCRIPT = """
import sys, threading
import intercode
from intercode.models import ScriptedModel
from intercode.train import RolloutPool

def pay(agent, gold, task):
    return 0.5 if agent.changes == gold.changes else 0.25

print("loaded", __name__)
threading.Thread(target=threading.Event().wait, daemon=True).start()
codes = sys.argv[2:]
model = ScriptedModel(["```bash\\n" + code + "\\n```" for code in codes])
factory = intercode.prepare("bash", data=sys.argv[1], reward=pay)
with RolloutPool(factory, envs=4, hosts=2, shaped=True) as pool:
    jobs = [task.id for task in factory.tasks if task.id.startswith("names")] * 2
    for rollout in pool.run(jobs, model):
        print(rollout.reward, flush=True)
"""


@pytest.fixture(scope="module")
def pool(factory: EnvFactory) -> Iterator[RolloutPool]:
    with RolloutPool(factory, envs=4, hosts=2) as opened:
        yield opened


def plain(rollout: Rollout) -> Any:
    """A rollout without its durations."""
    turns = [replace(turn, seconds=0, reply_seconds=0) for turn in rollout.episode.turns]
    return replace(rollout, episode=replace(rollout.episode, turns=turns))


def hosts_of(pid: int) -> set[int]:
    """The hosts among a process's children."""
    children = {child for child, _ in below(pid)}
    return children & processes("cluster.processes", sys.executable).keys()


def test_rollouts_are_those_of_one_process(factory: EnvFactory, pool: RolloutPool) -> None:
    limits = {
        None: None,
        "turns": RolloutLimits(turns=2),
        "reply": RolloutLimits(reply_tokens=20),
        "tokens": RolloutLimits(tokens=60),
    }
    jobs = groups(factory.tasks[:4], 2)
    with RolloutPool(factory, envs=4, hosts=1) as single:
        for cut, limit in limits.items():
            here = single.run_batch(jobs, replying(*REPLIES), LETTERS, limits=limit)
            there = pool.run_batch(jobs, replying(*REPLIES), LETTERS, limits=limit)
            assert list(map(plain, there)) == list(map(plain, here))
            assert {rollout.cut for rollout in there} == {cut}
        model = ScriptedModel(REPLIES)
        trees = [each.tree(("print-2", 7), model, widths=(2, 2)) for each in (single, pool)]
        first, second = ([plain(leaf) for leaf in tree.rollouts] for tree in trees)
        assert first == second
    assert len(hosts_of(os.getpid())) == 2


@pytest.mark.parametrize("agent", ["gold", "tree_search"])
def test_agents_play_the_same_there(factory: EnvFactory, agent: str) -> None:
    played = []
    for hosts in (1, 2):
        with RolloutPool(factory, agent, envs=4, hosts=hosts, values=True) as pool:
            rollouts = pool.run(groups(factory.tasks[:3], 1), ScriptedModel(REPLIES))
            played.append(sorted(map(plain, rollouts), key=lambda rollout: rollout.task))
    assert played[0] == played[1]


def test_a_strategy_of_the_callers_runs_in_this_process(factory: EnvFactory) -> None:
    seen = []

    def own(task: Any, protocol: str) -> Any:
        seen.append((yield Ask([{"role": "user", "content": task.query}])).text)
        yield Act("ls /box")
        yield Act("submit")

    with RolloutPool(factory, own, envs=2, hosts=2) as pool:
        rewards = {
            rollout.task: rollout.reward
            for rollout in pool.run(factory.tasks, ScriptedModel(["a"]))
        }
    assert seen == ["a"] * len(TASKS)
    assert rewards == {task["id"]: float(task["gold"] == "ls /box") for task in TASKS}


def test_an_episode_can_be_lent(pool: RolloutPool) -> None:
    with pool.episode(("print-3", 1)) as episode:
        texts = iter(["```bash\nseq 3 9\n```", "```bash\nsubmit\n```"])
        while not episode.done:
            episode.feed(next(texts)).result()
    assert episode.reward == 1.0


def test_generate_is_called_in_the_callers_thread_and_its_errors_are_raised(
    pool: RolloutPool,
) -> None:
    threads = set[int]()

    def generate(prompts: list[list[int]]) -> Any:
        threads.add(threading.get_ident())
        if len(threads) > 1 or broken:
            raise OSError("the GPU is gone")
        return replying(*REPLIES)(prompts)

    broken = False
    pool.run_batch(groups(TASK_IDS[:4], 1), generate, LETTERS)
    assert threads == {threading.get_ident()}
    broken = True
    with pytest.raises(OSError, match="the GPU is gone"):
        pool.run_batch(groups(TASK_IDS[:4], 1), generate, LETTERS)
    broken = False
    assert None not in {
        rollout.reward for rollout in pool.run_batch(groups(TASK_IDS[:4], 1), generate, LETTERS)
    }


def test_what_a_model_raises_is_raised(pool: RolloutPool) -> None:
    class Own:
        name = "own"

        def complete(self, messages: Any, **options: Any) -> Any:
            return {}["key"]

    with pytest.raises(KeyError, match="key"):
        list(pool.run(["names-1"], Own()))


def test_nothing_is_lost_with_a_killed_host(factory: EnvFactory) -> None:
    calls, killed, others = itertools.count(), list[int](), hosts_of(os.getpid())

    def generate(prompts: list[list[int]]) -> Any:
        if next(calls) % 4 == 1 and len(killed) < 2:
            killed.append(min(hosts_of(os.getpid()) - others))
            os.kill(killed[-1], signal.SIGKILL)
        return SLOW(prompts)

    with RolloutPool(factory, envs=6, hosts=2, retries=3) as pool:
        rollouts = pool.run_batch(groups(TASK_IDS, 3), generate, LETTERS)
        assert pool.stats().replayed > 0
    assert len(killed) == 2
    assert [rollout.task for rollout in rollouts] == [name for name in TASK_IDS for _ in range(3)]
    assert all(rollout.reward == float(rollout.task.startswith("names")) for rollout in rollouts)


def test_hosts_that_are_killed_again_and_again_come_back(factory: EnvFactory) -> None:
    others = hosts_of(os.getpid())
    with RolloutPool(factory, envs=4, hosts=2, retries=9) as pool:
        killed, benched = set[int](), list[int]()

        def kill() -> None:
            until = time.monotonic() + 120
            while len(killed) < 8 and time.monotonic() < until:
                for pid in hosts_of(os.getpid()) - others - killed:
                    killed.add(pid)
                    os.kill(pid, signal.SIGKILL)
                benched.append(pool.stats("other").benched_hosts)
                time.sleep(0.01)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.warns(RuntimeWarning, match="the host on process-. is started anew"):
            rollouts = list(pool.run(groups(TASK_IDS, 1), ScriptedModel(REPLIES)))
        killer.join()
        assert len(killed) >= 8
        assert max(benched) > 0
        assert None not in {rollout.reward for rollout in rollouts}
        wait_for(lambda: pool.stats("other").benched_hosts == 0, 60)


def test_a_killed_parent_leaves_nothing(factory: EnvFactory, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    data = str(write_box(tmp_path / "box", TASKS))
    argv = [sys.executable, "train.py", data, "sleep 60 & sleep 600"]
    parent = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL)
    # an environment of a sandbox, with the two programs of its action
    wait_for(lambda: len(hosts_of(parent.pid)) == 2 and len(below(parent.pid)) >= 2 + 4 * 3, 60)
    started = below(parent.pid)
    parent.kill()
    parent.wait()
    wait_for(lambda: not alive(started), 20)


def test_the_callers_script_is_not_imported_again(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    data = str(write_box(tmp_path / "box", TASKS))
    argv = [sys.executable, "-W", "ignore", "train.py", data, "ls /box", "submit"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["loaded __main__", *["0.5"] * 8]


def test_environments_that_cannot_be_sent_stay_here_and_a_warning_says_so(
    factory: EnvFactory, tmp_path: Path
) -> None:
    data = write_box(tmp_path / "box", TASKS)
    prepared = intercode.prepare("bash", data=str(data))
    (data / "tasks.jsonl").unlink()
    for make, why in ((lambda: factory(), "is not a factory of"), (prepared, "process-1: ")):
        with (
            pytest.warns(RuntimeWarning, match=f"stay in this process, .*{why}") as noted,
            RolloutPool(make, envs=2, hosts=2, tasks=factory.tasks) as pool,
        ):
            rollouts = list(pool.run(["names-1"] * 4, ScriptedModel(REPLIES[:1] + REPLIES[-1:])))
        assert len(noted) == 1
        assert noted[0].filename == __file__
        assert [rollout.reward for rollout in rollouts] == [1.0] * 4
    with pytest.raises(UsageError, match="hosts is 0"):
        RolloutPool(factory, hosts=0)
    with (
        pytest.warns(match="hosts is 4, but 1 environments"),
        RolloutPool(factory, envs=1, hosts=4),
    ):
        pass


def test_by_default_there_is_a_host_for_four_environments_and_cores() -> None:
    cores = len(os.sched_getaffinity(0))
    assert [hosts_here(None, envs) for envs in (1, 4 * cores)] == [1, max(1, cores // 4)]
    assert [hosts_here(hosts, 3) for hosts in (1, 2, 4)] == [1, 2, 3]


# -- evaluations -----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_box(tmp_path / "box", TASKS)
    (tmp_path / "replies.json").write_text(json.dumps(REPLIES))
    (tmp_path / "pay.py").write_text(
        "def half(agent, gold, task):\n    return 0.5 if agent.changes == gold.changes else 0.25\n"
    )
    (tmp_path / "own.py").write_text(
        "from intercode.agents import Act\n"
        "def slow(task, protocol):\n    yield Act('sleep 1')\n    yield Act(task.gold)\n"
        "    yield Act('submit')\nslow.needs_model = False\n"
    )
    return tmp_path


def evaluate(folder: Path, *words: str) -> subprocess.Popen[str]:
    argv = [INTERCODE, "eval", "bash", "--data", "box", "--workers", "3", *words]
    return subprocess.Popen(
        argv, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def episodes(run: Path) -> list[dict[str, Any]]:
    path = run / "episodes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for row in rows:
        for turn in row["turns"]:
            turn["seconds"] = turn["reply_seconds"] = 0
    return sorted(rows, key=lambda row: (row["task"], row["epoch"]))


def settings(run: Path) -> dict[str, Any]:
    config = json.loads((run / "run.json").read_text())
    return {
        name: value
        for name, value in config.items()
        if name not in ("run", "created", "options", "signature")
    }


def test_a_run_is_the_same_on_two_hosts(folder: Path) -> None:
    how = (
        "--model",
        "scripted:replies.json",
        "--reward",
        "pay.py:half",
        "--epochs",
        "2",
        "--limit",
        "4",
    )
    for name, hosts in (("here", "1"), ("there", "2")):
        process = evaluate(folder, *how, "--out", name, "--hosts", hosts)
        said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert episodes(folder / "there") == episodes(folder / "here")
    assert settings(folder / "there") == settings(folder / "here")
    assert len(episodes(folder / "there")) == 2 * 4


def test_an_interrupted_run_is_resumed_on_another_number_of_hosts(folder: Path) -> None:
    run = folder / "run"
    process = evaluate(folder, "--agent", "own.py:slow", "--out", "run", "--hosts", "2")
    wait_for(lambda: len(episodes(run)) >= 2, 60)
    assert list((run / "underway").glob("*.turns")), "the episodes that are played can be viewed"
    (victim, _) = sorted(hosts_of(process.pid))
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: len(hosts_of(process.pid) - {victim}) == 2, 60)
    started = below(process.pid)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    wait_for(lambda: not alive(started), 20)
    process = evaluate(folder, "--resume", "run", "--agent", "own.py:slow")
    said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert Counter((row["task"], row["reward"]) for row in episodes(run)) == Counter(
        (task["id"], 1.0) for task in TASKS
    )


def test_hosts_are_for_this_machine(folder: Path) -> None:
    process = evaluate(folder, "--agent", "gold", "--hosts", "2", "--on", "ray")
    said = process.communicate(timeout=60)
    assert (process.returncode, "--hosts is for this machine" in said[1]) == (2, True)


def test_a_pool_that_closes_while_its_hosts_are_busy_leaves_none(factory: EnvFactory) -> None:
    replies = itertools.count()

    class Slow(ScriptedModel):
        def complete(self, *arguments: Any, **options: Any) -> Any:
            if next(replies) > 3:
                time.sleep(4)
            return super().complete(*arguments, **options)

    before = hosts_of(os.getpid())
    with RolloutPool(factory, envs=4, hosts=2) as pool:
        for _ in pool.run(groups(factory.tasks, 2), Slow(["```bash\nsubmit\n```"])):
            break
        assert len(hosts_of(os.getpid()) - before) == 2
    time.sleep(4)  # until the last reply has come
    assert hosts_of(os.getpid()) - before == set()
