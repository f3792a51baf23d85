"""How much Ray costs: the driver's work for an episode, a run on one node against a run without
Ray, a step of a rollout, and a rollout that a node plays; and how soon a new node plays.

    .venv/bin/python benchmarks/cluster.py [--episodes 5000] [--workers 2] [--json]

The driver's work is measured on three nodes whose hosts answer at once with an episode of three
turns. Counted are the processor time of the driver's process and the clock. Then one node plays the
starter tasks of bash four times by their golds, with as many workers as this process does without
Ray; starting the hosts is not counted. All nodes are on this machine, so nothing here says how much
quicker more machines are.

A rollout has three actions, and its model is a server in a process of its own. A node joins while
four rollouts are played at a time, and counts as playing when an environment is there.

Exit status 1 if a bound is missed: 1 ms of the driver for an episode, by either measure; 10 seconds
until a node that joins plays.
"""

from __future__ import annotations

import itertools
import os
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from measuring.rows import Row, absent, command, finish

import intercode
from intercode.models import OpenAIModel
from intercode.runner.budget import BudgetTracker
from intercode.runner.run import evaluate
from intercode.runs.evaluation import Evaluation
from intercode.train import RolloutPool, groups
from intercode.train.cluster.driver import HostExecutor
from intercode.train.cluster.envs import RayEnvs
from intercode.types import Episode, Task, Turn

BOUND = 1e-3
"""Seconds of the driver for an episode."""
STEPS = 300
SMALL: dict[str, Any] = {"object_store_memory": 80_000_000, "include_dashboard": False}
JOIN = 10.0
"""Seconds until a node that joins plays."""
SERVER = """
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Chat(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log_message = lambda *_: None

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        turn = sum(message["role"] == "assistant" for message in asked)
        text = "```bash\\n%s\\n```" % ("submit" if turn == 2 else "ls /")
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        body = json.dumps({"choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

server = ThreadingHTTPServer(("127.0.0.1", 0), Chat)
print(server.server_port, flush=True)
server.serve_forever()
"""


class InstantHost:
    """A host that answers each job at once."""

    def __init__(self, *anything: object) -> None:
        turn = Turn(
            ({"role": "user", "content": "What now?" * 50},),
            "```bash\nls\n```",
            action="ls",
            observation="a\n" * 200,
        )
        self._episode = Episode("", "Do it.", (turn,) * 3, 1.0, True, "submit")

    def begin(self) -> dict[str, Any]:
        return {}

    def exchange(self, jobs: Sequence[tuple[str, int]], stop: str | None) -> list[Episode]:
        return [replace(self._episode, task=task, epoch=epoch) for task, epoch in jobs]

    def end(self, seconds: float) -> None:
        pass


@contextmanager
def cluster(nodes: int) -> Iterator[Any]:
    """Start a cluster on this machine, and yield it."""
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory(
        prefix="ray-", dir="/tmp", ignore_cleanup_errors=True
    ) as folder:
        made = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "temp_dir": folder, **SMALL}
        )
        for number in range(nodes):
            add_node(made, number)
        try:
            yield made
        finally:
            made.shutdown()  # type: ignore[no-untyped-call]


def add_node(made: Any, number: int) -> None:
    address = f"127.0.0.{number + 2}"
    made.add_node(num_cpus=1, node_name=f"node-{number}", node_ip_address=address, **SMALL)


def driver_cost(address: str, episodes: int, workers: int) -> tuple[float, float]:
    """Return the processor time and the time by the clock that the driver needs for an episode,
    after a first hundred."""
    options: dict[str, Any] = {"env": "bash", "agent": "gold"}
    jobs = [(Task(f"task-{number}", "Do it.", gold=""), 0) for number in range(episodes + 100)]
    with HostExecutor(
        address, Evaluation.plan(**options), options, workers=workers, host=InstantHost
    ) as executor:
        played = executor.play(jobs, BudgetTracker())
        for _ in range(100):
            next(played)
        work, clock = time.process_time(), time.perf_counter()
        count = sum(1 for _ in played)
        assert count == episodes, f"{count} of {episodes} episodes came"
        return (time.process_time() - work) / count, (time.perf_counter() - clock) / count


def real_run(workers: int, address: str | None = None) -> float:
    """Return the seconds from the first episode to the last of 200."""
    options: dict[str, Any] = {"env": "bash", "agent": "gold"}
    plan = Evaluation.plan(**options)
    ends: queue.SimpleQueue[float] = queue.SimpleQueue()

    def play(executor: HostExecutor | None) -> None:
        evaluate(
            plan.factory,
            plan.agent.strategy,
            tasks=plan.tasks,
            epochs=4,
            workers=workers,
            crew=executor,
            on_episode=lambda episode: ends.put(time.perf_counter()),
        )

    if address is None:
        play(None)
    else:
        with HostExecutor(address, plan, options, workers=workers) as executor:
            play(executor)
    times = [ends.get() for _ in range(ends.qsize())]
    return times[-1] - times[0]


def step_time(make: Any) -> float:
    """Return the seconds of one small step in an episode."""
    with closing(make()) as env:
        env.max_turns = None
        env.reset(seed=1)
        env.step("true")
        started = time.perf_counter()
        for _ in range(STEPS):
            env.step("true")
        return (time.perf_counter() - started) / STEPS


class HereModel(OpenAIModel):
    """A model of another class is asked from the driver."""


def rollout_cost(factory: RayEnvs, kind: type[OpenAIModel], url: str) -> float:
    """Return the driver's processor time for a rollout, after a first four."""
    with RolloutPool(factory, envs=4) as pool:
        model, jobs = kind("m", base_url=url), groups(factory.tasks, 3)
        list(pool.run(jobs[:4], model))
        work = time.process_time()
        rollouts = list(pool.run(jobs, model))
        assert all(len(rollout.episode.turns) == 3 for rollout in rollouts)
        return (time.process_time() - work) / len(rollouts)


def join_time(made: Any, factory: RayEnvs, url: str) -> float:
    """Return the seconds from the moment when a node has joined until it has an environment."""
    with RolloutPool(factory, envs=4) as pool:
        jobs = itertools.cycle(groups(factory.tasks, 1))
        rollouts = pool.run(jobs, HereModel("m", base_url=url))
        next(rollouts)
        add_node(made, 1)
        joined = time.perf_counter()
        while len(factory.places()) < 2:
            next(rollouts)
        return time.perf_counter() - joined


def main() -> int:
    parser = command(__doc__, workers=True)
    parser.add_argument("--episodes", type=int, default=5000)
    options = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if absent(options, why=None if find_spec("ray") else "Ray is not installed"):
        return 0
    with cluster(3) as made:
        work, clock = driver_cost(made.address, options.episodes, options.workers)
    rows = [
        Row("the driver for an episode, processor time", work, BOUND, 1.0),
        Row("the driver for an episode, by the clock", clock, BOUND, 1.0),
    ]
    here = real_run(options.workers)
    with (
        cluster(1) as made,
        subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE) as server,
    ):
        assert server.stdout
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        rows.append(
            Row(
                "200 episodes on one node, against no Ray",
                real_run(options.workers, made.address),
                here,
            )
        )
        with RayEnvs("bash", on=made.address) as factory:
            there = step_time(factory)
            whole = rollout_cost(factory, OpenAIModel, url)
            stepped = rollout_cost(factory, HereModel, url)
            joined = join_time(made, factory, url)
        server.kill()
        rows.append(
            Row(
                "a step of a rollout on a node, against no Ray",
                there,
                step_time(intercode.prepare("bash")),
            )
        )
    rows += [
        Row("the driver for a rollout that a node plays, against step by step", whole, stepped),
        Row("until a node that joins plays", joined, JOIN, 1.0),
    ]
    return finish(options, rows)


if __name__ == "__main__":
    sys.exit(main())
