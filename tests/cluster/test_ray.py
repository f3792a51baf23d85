"""Runs over Ray on a cluster of this machine: no episode lost or twice, no reward for a fault, and
nothing left behind."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_words import INTERCODE
from kept import needs_bwrap, write_box
from process_table import alive, below, processes, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.long]

HERE = Path(__file__).parent
BEGUN = 300
"""Seconds within which hosts begin and a run of them ends, on a busy machine."""
TASKS = [
    {"id": f"{kind}-{n}", "query": f"{query} Number {n}.", "gold": gold.format(n=n)}
    for n in range(16)
    for kind, query, gold in [
        ("names", "Print the names in /box.", "ls /box"),
        ("touch", "Make the file /box/new.", "touch /box/new{n}"),
        ("print", "Print the numbers.", "seq {n} 9"),
        ("copy", "Copy a file.", "cp -p /box/a /box/{n}"),
    ]
]
AGENT = """
import os, time
from intercode.agents import Act
from helper import wait_until_let_go

def held(task, protocol):
    wait_until_let_go(task)
    yield Act(task.gold)
    yield Act("submit")

def killer(task, protocol):
    time.sleep(0.3)
    if task.id == "touch-1":
        os.kill(os.getpid(), 9)
    yield Act(task.gold)
    yield Act("submit")

def sleeper(task, protocol):
    yield Act("sleep 60 & echo begun")
    yield Act("sleep 600")

held.needs_model = killer.needs_model = sleeper.needs_model = False
"""
HELPER = """
import time
from pathlib import Path

def wait_until_let_go(task):
    while not task.id.endswith("-0") and not Path("FOLDER/go").exists():
        time.sleep(0.1)
"""
"""Lets the first four tasks be played, and the others when there is a file `go`."""
REWARD = """
def half(agent, gold, task):
    return 0.5 if agent.changes == gold.changes else 0.25
"""
ENV = """
import os
from pathlib import Path
from intercode.envs.bash.env import BashEnv
from intercode.errors import SandboxError

class Fragile(BashEnv):
    data = "box"

    def start_episode(self, task):
        if "BROKEN_DISK" in os.environ:
            Path("FOLDER/fault-" + task.id).touch()
            raise SandboxError("the disk is broken")
        super().start_episode(task)
"""
STRANGER = """
import sys
from intercode.train.cluster.driver import HostExecutor
from intercode.train.cluster.host import EpisodeHost
from intercode.runs.evaluation import Evaluation
from intercode.runner.run import evaluate

class Stranger(EpisodeHost):
    def begin(self, *arguments):
        return {**super().begin(*arguments), "template": "another"}

options = {"env": "bash", "data": sys.argv[1], "agent": "gold", "limit": 3}
plan = Evaluation.plan(**options)
with HostExecutor(2, plan, options, workers=2, host=Stranger) as executor:
    try:
        evaluate(plan.factory, plan.agent.strategy, tasks=plan.tasks, crew=executor)
    finally:
        print(executor.line())
"""
REPLIES = [
    "I look.\n```bash\nls /box\n```",
    "```bash\ntouch /box/new1\n```",
    "```bash\nseq 3 9\n```",
    "```bash\nsubmit\n```",
]


class Nodes:
    """A cluster with a cache of its own, whose path marks each process that belongs to it."""

    def __init__(self) -> None:
        self.cache = Path(tempfile.mkdtemp(prefix="intercode-test-"))
        self.cache.chmod(0o755)
        self.variables = {
            **os.environ,
            "INTERCODE_CACHE": str(self.cache),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(HERE / "nodes_on_demand.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.variables,
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def tell(self, *words: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"

    def add(self, name: str, **variables: str) -> None:
        self.tell("add", name, {"INTERCODE_CACHE": str(self.cache), **variables})

    def remove(self, name: str) -> None:
        self.tell("remove", name)

    def close(self) -> None:
        self._process.communicate(timeout=60)
        shutil.rmtree(self.cache, ignore_errors=True)

    def processes(self, *kinds: str) -> dict[int, str]:
        return processes(str(self.cache), *kinds)

    def assert_nothing_is_left(self) -> None:
        wait_for(lambda: not self.processes("ray::EpisodeHost", "ray::EnvHost"), 20)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    needs_bwrap()
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    made = Nodes()
    for name in ("node-a", "node-b"):
        made.add(name)
    yield made
    made.close()


@pytest.fixture(scope="module")
def three_nodes(nodes: Nodes) -> Nodes:
    nodes.add("node-c")
    return nodes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_box(tmp_path / "box", TASKS)
    for name, text in {
        "own.py": AGENT,
        "helper.py": HELPER,
        "pay.py": REWARD,
        "env.py": ENV,
    }.items():
        (tmp_path / name).write_text(text.replace("FOLDER", str(tmp_path)))
    (tmp_path / "replies.json").write_text(json.dumps(REPLIES))
    return tmp_path


def start(nodes: Nodes, folder: Path, *words: object) -> subprocess.Popen[str]:
    argv = [INTERCODE, "eval", *map(str, words)]
    return subprocess.Popen(
        argv,
        cwd=folder,
        env=nodes.variables,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(nodes: Nodes, folder: Path, *words: object) -> tuple[int, str]:
    process = start(nodes, folder, *words)
    out, err = process.communicate(timeout=BEGUN)
    return process.returncode, out + err


def lines(run: Path) -> list[dict[str, Any]]:
    if not (run / "episodes.jsonl").exists():
        return []
    found = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    for episode in found:
        for turn in episode["turns"]:
            turn["seconds"] = turn["reply_seconds"] = 0
    return sorted(found, key=lambda episode: (episode["task"], episode["epoch"]))


def settings(run: Path) -> dict[str, Any]:
    config = json.loads((run / "run.json").read_text())
    return {
        key: value
        for key, value in config.items()
        if key not in ("run", "created", "options", "signature")
    }


def test_nodes_play_what_one_machine_plays(nodes: Nodes, folder: Path) -> None:
    how = (
        *("bash", "--data", "box", "--agent", "try_again", "--model", "scripted:replies.json"),
        *("--reward", "pay.py:half", "--epochs", 2, "--limit", 6),
    )
    assert run(nodes, folder, *how, "--out", "here")[0] == 0
    status, said = run(nodes, folder, *how, "--out", "there", "--on", nodes.address)
    assert status == 0, said
    there = lines(folder / "there")
    named = [episode["outcomes"].pop("node") for episode in there]
    assert all(isinstance(name, str) and name for name in named)
    assert len(there) == 12
    assert there == lines(folder / "here")
    assert {episode["reward"] for episode in lines(folder / "there")} == {0.25, 0.5}
    assert settings(folder / "there") == settings(folder / "here")
    nodes.assert_nothing_is_left()


def test_nodes_with_another_template_are_refused(nodes: Nodes, folder: Path) -> None:
    """The hosts are processes here; the same code refuses those of Ray."""
    argv = [sys.executable, "-W", "ignore", "-c", STRANGER, str(folder / "box")]
    done = subprocess.run(argv, capture_output=True, text=True, env=nodes.variables, check=False)
    assert (
        "SandboxError: no host is left to play on (process-0: it differs from the driver "
        "(template: " in done.stderr
    )
    assert done.stdout == "0 hosts · 0 workers · benched: process-0, process-1\n"


def test_nodes_that_cannot_play_are_named_and_the_others_play(nodes: Nodes, folder: Path) -> None:
    nodes.add("no-cache", INTERCODE_CACHE="/proc/none")
    argv = [INTERCODE, "doctor", "--on", nodes.address]
    done = subprocess.run(argv, capture_output=True, text=True, env=nodes.variables, check=False)
    nodes.add("bad-disk", BROKEN_DISK="1")
    try:
        assert (done.returncode, done.stdout.count("ok  ")) == (1, 2), done.stdout + done.stderr
        assert "FAIL  no-cache: 1 cores, " in done.stdout
        assert "ok    node-a: 1 cores, " in done.stdout
        how = ("env.py:Fragile", "--agent", "own.py:held", "--limit", 20)
        driver = start(nodes, folder, *how, "--out", "run", "--on", nodes.address)
        wait_for(lambda: len([*folder.glob("fault-*")]) >= 3, BEGUN)
        (folder / "go").touch()
        out, said = driver.communicate(timeout=BEGUN)
        assert driver.returncode == 0, out + said
        assert "node no-cache was benched: the cache /proc/none cannot be made" in said
        assert (
            "node bad-disk was benched: 3 faults in a row, the last: sandbox: the disk is broken"
            in said
        )
        assert Counter((each["task"], each["reward"]) for each in lines(folder / "run")) == Counter(
            (task["id"], 1.0) for task in TASKS[:20]
        )
    finally:
        nodes.remove("no-cache")
        nodes.remove("bad-disk")


def test_without_ray_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError")
    argv = [INTERCODE, "eval", "bash", "--agent", "gold", "--on", "ray"]
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        argv, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "pip install 'ray[client]'" in done.stderr) == (
        2,
        True,
    ), done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_ended_driver_leaves_nothing_on_the_nodes(
    nodes: Nodes, folder: Path, number: signal.Signals
) -> None:
    how = ("bash", "--data", "box", "--agent", "own.py:sleeper", "--limit", 8)
    driver = start(nodes, folder, *how, "--out", "run", "--on", nodes.address)
    wait_for(lambda: len(below(*nodes.processes("ray::EpisodeHost"))) >= 2 * 2 * 3, BEGUN)
    begun = below(*nodes.processes("ray::EpisodeHost"))
    driver.send_signal(number)
    said = driver.communicate(timeout=30)
    assert driver.returncode == (130 if number == signal.SIGINT else -9), said
    wait_for(lambda: not alive(begun), 10)
    nodes.assert_nothing_is_left()


def test_rollouts_on_nodes_are_those_of_this_machine(nodes: Nodes, folder: Path) -> None:
    argv = [
        sys.executable,
        "-W",
        "ignore",
        str(HERE / "rollouts_here_and_there.py"),
        nodes.address,
        str(folder / "box"),
    ]
    paths = os.pathsep.join(str(HERE.parent / name) for name in ("rollouts", "cluster", "helpers"))
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        env={**nodes.variables, "PYTHONPATH": paths},
        timeout=BEGUN,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["there"] == found["here"]
    assert found["tree there"] == found["tree here"]
    assert found["served there"] == found["served here"]
    assert {rollout[-1] for rollout in found["served here"]} == {None, "reply"}
    assert {rollout[3] for rollout in found["here"]} > {1.0}
    assert found["after a kill"] == [1.0] * 8  # the lost one was played again
    nodes.assert_nothing_is_left()


def test_a_node_that_joins_plays_within_seconds_and_groups_stay_whole(
    nodes: Nodes, folder: Path
) -> None:
    tasks = [{"id": "names", "query": "Print the names in /box.", "gold": "sleep 0.3; ls /box"}]
    data = write_box(folder / "slow", tasks)
    argv = [sys.executable, "-W", "ignore", str(HERE / "rollouts_in_groups.py")]
    trainer = subprocess.Popen(
        [*argv, nodes.address, str(data)],
        env=nodes.variables,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert trainer.stdout
    begun = [json.loads(trainer.stdout.readline()) for _ in range(3)]
    hosts = nodes.processes("ray::EnvHost")
    nodes.add("node-late")
    try:
        (joined,) = wait_for(lambda: nodes.processes("ray::EnvHost").keys() - hosts.keys(), BEGUN)
        wait_for(lambda: below(joined), BEGUN)  # it has sandboxes
        os.kill(next(iter(hosts)), signal.SIGKILL)
        groups = begun + [json.loads(trainer.stdout.readline()) for _ in range(5)]
        rest, _ = trainer.communicate(timeout=60)
    finally:
        nodes.remove("node-late")
    assert trainer.returncode == 0
    groups += map(json.loads, rest.splitlines())
    assert groups == [[[1.0] * 4, [*range(4)]]] * len(groups)
    nodes.assert_nothing_is_left()


def test_a_task_that_ends_its_hosts_is_quarantined_and_the_others_are_played(
    three_nodes: Nodes, folder: Path
) -> None:
    nodes = three_nodes
    how = ("bash", "--data", "box", "--agent", "own.py:killer", "--limit", 8)
    status, said = run(nodes, folder, *how, "--out", "run", "--on", nodes.address)
    assert status == 3
    assert "task touch-1, epoch 0 was quarantined: its host ended 3 times (node-" in said
    played = {episode["task"]: episode for episode in lines(folder / "run")}
    killed = played.pop("touch-1")
    assert (killed["reward"], killed["error"].startswith("sandbox: quarantined")) == (None, True)
    assert len(killed["error"].partition("(")[2].partition(")")[0].split(", ")) == 3, "three nodes"
    assert [episode["reward"] for episode in played.values()] == [1.0] * 7
    nodes.assert_nothing_is_left()


def test_lost_hosts_and_nodes_cost_no_episode(three_nodes: Nodes, folder: Path) -> None:
    nodes = three_nodes
    how = ("bash", "--data", "box", "--agent", "own.py:held", "--limit", 24)
    driver = start(nodes, folder, *how, "--out", "run", "--on", nodes.address)
    wait_for(lambda: len(lines(folder / "run")) == 4, BEGUN)
    hosts = wait_for(
        lambda: len(found := nodes.processes("ray::EpisodeHost")) == 3 and found, BEGUN
    )
    victim = next(iter(hosts))
    # two workers with a sandbox each
    sandboxes = wait_for(lambda: len(found := below(victim)) >= 4 and found, BEGUN)
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: not alive(sandboxes), 5)
    wait_for(lambda: nodes.processes("ray::EpisodeHost").keys() - hosts.keys(), BEGUN)
    hosts |= nodes.processes("ray::EpisodeHost")
    sandboxes = below(*hosts)
    nodes.remove("node-c")
    nodes.add("node-d")
    wait_for(lambda: nodes.processes("ray::EpisodeHost").keys() - hosts.keys(), BEGUN)
    (folder / "go").touch()
    said = driver.communicate(timeout=BEGUN)
    assert driver.returncode == 0, said
    wait_for(lambda: not alive(sandboxes), 5)
    played = lines(folder / "run")
    assert Counter((episode["task"], episode["epoch"]) for episode in played) == Counter(
        (task["id"], 0) for task in TASKS[:24]
    )
    golds = {task["id"]: task["gold"] for task in TASKS}
    for episode in played:
        actions = [turn["action"] for turn in episode["turns"]]
        assert (episode["reward"], actions) == (1.0, [golds[episode["task"]], "submit"])
    nodes.assert_nothing_is_left()
