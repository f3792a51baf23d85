"""What the Bash environment costs, as ratios to the plainest way there is: `subprocess.run(["bash", "-c", CMD])`.

    .venv/bin/python benchmarks/bash.py [--json] [--mini PYTHON] [--first PYTHON]

**Operations.** A round times each operation nine times in a row (with the untimed step that begins a round, the ten turns of
a default episode), the operations in an order that is shuffled anew; a block is five rounds. Of eight blocks the one that took
least time in all counts (the quietest moment, judged by both sides together), and a figure is the median of its 45 times. `raw`
is `bash -c 'ls /'`, the yardstick unless the row names another. A fork is timed alone, and together with closing the twin;
closing tells the wall to end the twin's cell and does not wait for it.

**Workers.** Five pairs of real runs (`evaluate`, agent `gold`, every starter task four times), one worker and two in turns.
The pair in which two workers were fastest against one counts, for both rows. CPU seconds are those of this process and of all
children that were waited for: the kernel adds the times of a reaped process to its parent's, up to bwrap, for which `close`
waits. Missing are the last cell of each wall (it dies with its pid namespace, unreaped: about 1 % of a run) and kernel
threads, which tear namespaces down. Where others use the processors, two workers also get a larger share of them than one:
read the wall times from a quiet machine.

**Peers** stand in the table where they are installed, each in a virtual environment of its own, whose interpreter `--mini`
(or `$MINI_SWE_AGENT_PYTHON`) and `--first` (or `$INTERCODE_BENCH_PYTHON`; needs Docker and the image `intercode-bash`) name.
They are measured in the same rounds, each by a process of its own that times itself.

Exit status 1 if a bound is missed. `--json` prints a list of {what, ours, against, ratio}, times in seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from intercode.agents.baselines import gold
from intercode.env import InterCodeEnv, Setting
from intercode.envs import prepare
from intercode.runner.run import evaluate

BLOCKS, ROUNDS, IN_A_ROW = 8, 5, 9
PAIRS, EPOCHS = 5, 4
TASK = "effective-port"
THREE = ("x=1", "mkdir /tmp/made", "cd /tmp/made && echo kept > file")

Operation = tuple[Callable[[], object], Callable[[], float]]
"""What is done before, untimed, and what measures itself."""
Figures = dict[str, float]


@dataclass(frozen=True)
class Row:
    what: str
    ours: float
    against: float
    bound: float | None = None

    @property
    def ratio(self) -> float:
        return self.ours / self.against

    @property
    def missed(self) -> bool:
        return self.bound is not None and self.ratio > self.bound


# -- operations ---------------------------------------------------------------------------------------------------------


def timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def raw(command: str) -> object:
    return subprocess.run(["bash", "-c", command], capture_output=True)


def ours(env: InterCodeEnv, answer: str) -> dict[str, Operation]:
    """The environment's operations. What comes before is not timed."""

    def begin() -> None:
        env.reset(options={"task": TASK})

    def step(action: str) -> None:
        env.step(action)

    def reset_and_step() -> None:
        begin()
        step("x=1")

    def episode() -> None:
        begin()
        step(answer)
        _, reward, *_ = env.step("submit")
        assert reward == 1.0

    def three_actions() -> None:
        begin()
        for action in THREE:
            step(action)

    return {
        "ls": (nothing, lambda: timed(lambda: step("ls /"))),
        "x=1": (nothing, lambda: timed(lambda: step("x=1"))),
        "reset": (reset_and_step, lambda: timed(begin)),
        "reset, x=1": (reset_and_step, lambda: timed(reset_and_step)),
        "episode": (reset_and_step, lambda: timed(episode)),
        "fork": (three_actions, lambda: timed_fork(env)),
        "fork, close": (three_actions, lambda: timed(lambda: env.fork().close())),
    }


def timed_fork(env: InterCodeEnv) -> float:
    started = time.perf_counter()
    twin = env.fork()
    seconds = time.perf_counter() - started
    twin.close()
    return seconds


def nothing() -> None:
    pass


def operations(env: InterCodeEnv, answer: str, peers: list[Peer]) -> dict[str, Operation]:
    table: dict[str, Operation] = {
        "raw ls": (nothing, lambda: timed(lambda: raw("ls /"))),
        "raw x=1": (nothing, lambda: timed(lambda: raw("x=1"))),
        **ours(env, answer),
    }
    for peer in peers:
        table |= {f"{peer.name} {name}": (nothing, partial(peer.measure, name)) for name in peer.operations}
    return table


def block(table: dict[str, Operation], restart: Callable[[], object], chance: random.Random) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {name: [] for name in table}
    for _ in range(ROUNDS):
        for name in chance.sample(sorted(table), len(table)):
            restart()
            before, measure = table[name]
            for _ in range(IN_A_ROW):
                before()
                samples[name].append(measure())
    return samples


def measure_operations(setting: Setting, peers: list[Peer]) -> Figures:
    """The medians of the quietest block."""
    env, chance = setting(), random.Random(0)
    answer = next(task.gold for task in setting.tasks if task.id == TASK)
    try:
        table = operations(env, answer, peers)
        restart = table["reset"][0]
        blocks = [block(table, restart, chance) for _ in range(BLOCKS)]
    finally:
        env.close()
    quietest = min(blocks, key=lambda samples: sum(map(sum, samples.values())))
    return {name: statistics.median(times) for name, times in quietest.items()}


# -- workers ------------------------------------------------------------------------------------------------------------


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def play_all(setting: Setting, workers: int, epochs: int = EPOCHS) -> tuple[float, float]:
    """CPU seconds and wall seconds per episode."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    episodes = evaluate(setting, gold, tasks=setting.tasks, workers=workers, epochs=epochs)
    cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
    assert all(episode.success for episode in episodes)
    return cpu / len(episodes), wall / len(episodes)


def measure_workers(setting: Setting) -> list[Row]:
    if len(os.sched_getaffinity(0)) < 2:
        skip("two workers", "there is one processor")
        return []
    play_all(setting, 2, epochs=1)  # golds are executed once
    pairs = [(play_all(setting, 1), play_all(setting, 2)) for _ in range(PAIRS)]
    (cpu_1, wall_1), (cpu_2, wall_2) = min(pairs, key=lambda pair: pair[1][1] / pair[0][1])
    return [
        Row("CPU per starter episode, 2 workers against 1", cpu_2, cpu_1, 1.15),
        Row("wall per starter episode, 2 workers against 1", wall_2, wall_1, 1 / 1.6),
    ]


# -- peers --------------------------------------------------------------------------------------------------------------

SERVE = """
import os, sys, time
replies = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
{setup}
replies.write("ready\\n")
for line in sys.stdin:
    act = operations[line.strip()]
    started = time.perf_counter()
    act()
    replies.write(repr(time.perf_counter() - started) + "\\n")
"""
MINI = """
from minisweagent.environments.{module} import {kind}
env = {kind}()
def step():
    said = env.execute({{"command": "ls /"}})
    assert said["returncode"] == 0, said
operations = {{"ls": step}}
step()
"""
FIRST = """
from intercode.assets import bash_image_name, bash_test_data
from intercode.envs import BashEnv
env = BashEnv(bash_image_name, data_path=bash_test_data)
def episode():
    env.reset(0)
    env.step(env.gold)
    env.step("submit")
operations = {"ls": lambda: env.step("ls /"), "reset": lambda: env.reset(0), "episode": episode}
episode()
"""


class Peer:
    """Another system in an interpreter of its own: it is sent the name of an operation and answers with the seconds."""

    def __init__(self, name: str, python: str, setup: str, operations: tuple[str, ...]) -> None:
        self.name, self.operations = name, operations
        environment = {**os.environ, "MSWEA_SILENT_STARTUP": "1"}
        code = SERVE.format(setup=setup)
        how: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([python, "-c", code], env=environment, **how)
        if self._hear() != "ready":
            _, words = self._process.communicate()
            faults = [line for line in words.splitlines() if "Error" in line or "Exception" in line]
            raise OSError((faults or ["it did not start"])[-1][:200])

    def measure(self, operation: str) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(operation + "\n")
        self._process.stdin.flush()
        return float(self._hear())

    def close(self) -> None:
        self._process.communicate()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return str(self._process.stdout.readline()).strip()


def skip(what: str, why: str) -> None:
    print(f"{what}: skipped, {why}", file=sys.stderr)


@contextmanager
def installed_peers(mini: str | None, first: str | None) -> Iterator[list[Peer]]:
    known = [
        ("mini-swe-agent local", mini, MINI.format(module="local", kind="LocalEnvironment"), ("ls",)),
        ("mini-swe-agent bubblewrap", mini, MINI.format(module="extra.bubblewrap", kind="BubblewrapEnvironment"), ("ls",)),
        ("intercode-bench docker", first, FIRST, ("ls", "reset", "episode")),
    ]
    with ExitStack() as stack:
        found = []
        for name, python, setup, names in known:
            if python is None:
                skip(name, "no interpreter is named for it (see --help)")
                continue
            try:
                found.append(Peer(name, python, setup, names))
            except OSError as error:
                skip(name, str(error))
                continue
            stack.callback(found[-1].close)
        yield found


# -- the table ----------------------------------------------------------------------------------------------------------


def rows(at: Figures, peers: list[Peer]) -> list[Row]:
    yardstick = at["raw ls"]
    table = [
        Row("step `ls /`, against raw", at["ls"], yardstick, 1.0),
        Row("step `x=1`, against raw", at["x=1"], yardstick, 0.1),
        Row("step `x=1`, against `bash -c x=1`", at["x=1"], at["raw x=1"], 0.1),
        Row("reset, against raw", at["reset"], yardstick, 4.0),
        Row("reset and step `x=1`, against raw", at["reset, x=1"], yardstick, 4.0),
        Row("gold episode (reset, action, score), against raw", at["episode"], yardstick, 6.0),
        Row("fork after three actions, against raw", at["fork"], yardstick, 8.0),
        Row("fork and close, against raw", at["fork, close"], yardstick, 8.0),
    ]
    words = {"ls": "step `ls /`", "reset": "reset", "episode": "gold episode"}
    for peer in peers:
        table += [Row(f"{words[name]}, against {peer.name}", at[name], at[f"{peer.name} {name}"]) for name in peer.operations]
    return table


def show(table: list[Row]) -> None:
    print(f"{'':58}{'ours':>11}{'against':>11}{'ratio':>8}{'bound':>8}")
    for row in table:
        bound = f"{row.bound:8.3g}" if row.bound else " " * 8
        mark = "  missed" if row.missed else ""
        print(f"{row.what:58}{row.ours * 1e3:8.3f} ms{row.against * 1e3:8.3f} ms{row.ratio:8.2f}{bound}{mark}")


def as_json(row: Row) -> dict[str, Any]:
    return {**{key: value for key, value in asdict(row).items() if key != "bound"}, "ratio": row.ratio}


def main() -> int:
    parser = argparse.ArgumentParser(description="What the Bash environment costs against raw subprocesses and peers.")
    parser.add_argument("--json", action="store_true", help="print a list of {what, ours, against, ratio}, in seconds")
    parser.add_argument("--mini", default=os.environ.get("MINI_SWE_AGENT_PYTHON"), help="a Python with mini-swe-agent")
    parser.add_argument("--first", default=os.environ.get("INTERCODE_BENCH_PYTHON"), help="a Python with intercode-bench")
    chosen = parser.parse_args()
    setting = prepare("bash")
    with installed_peers(chosen.mini, chosen.first) as peers:
        table = rows(measure_operations(setting, peers), peers)
    table += measure_workers(setting)
    if chosen.json:
        print(json.dumps([as_json(row) for row in table], indent=1))
    else:
        show(table)
    for row in table:
        if row.missed:
            print(f"missed: {row.what}: {row.ratio:.2f} > {row.bound:.3g}", file=sys.stderr)
    return int(any(row.missed for row in table))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
