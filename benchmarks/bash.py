"""What the Bash environment costs, as ratios to the plainest way there is: `subprocess.run(["bash",
"-c", CMD])`.

    .venv/bin/python benchmarks/bash.py [--json]

**Operations.** A round times each operation nine times in a row (with the untimed step that begins
a round, the ten turns of a default episode), the operations in an order that is shuffled anew; a
block is five rounds. Of eight blocks the one that took least time in all counts (the quietest
moment, judged by both sides together), and a figure is the median of its 45 times. `raw` is `bash
-c 'ls /'`, the yardstick unless the row names another. A fork is timed alone, and together with
closing the twin; closing tells the wall to end the twin's cell and does not wait for it. A round
begins when the spare has started. While a model thinks, the spare starts too: in the row with
thinking, 50 ms come before each of the three acts and are not timed.

**Workers.** Five pairs of real runs (`evaluate`, agent `gold`), one worker and two in turns. Every
starter task is played sixteen times, some 800 episodes, so that the start of the walls, which two
workers pay twice, is a hundredth of a run. The pair in which two workers were fastest against one
counts, for both rows. CPU seconds are those of this process and of all children that were waited
for: the kernel adds the times of a reaped process to its parent's, up to bwrap, for which `close`
waits. Missing are the last cell of each wall (it dies with its pid namespace, unreaped: about 1 %
of a run) and kernel threads, which tear namespaces down. Where others use the processors, two
workers also get a larger share of them than one: read the wall times from a quiet machine. What the
machine itself gains from a second processor, where each command is a new process, is told by the
yardstick in one thread and in two, from the same pair, and what spares cost where nothing thinks by
two workers without them.

Other systems are in benchmarks/peers.py. Exit status 1 if a bound is missed. `--json` prints a list
of {what, ours, against, ratio}, times in seconds.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial

from measuring.clock import Measure, in_turns, timed
from measuring.rows import Row, command, finish, skip

import intercode
from intercode.agents.baselines import gold
from intercode.env import InterCodeEnv
from intercode.envs import prepare
from intercode.factory import EnvFactory
from intercode.runner.run import evaluate
from intercode_sandbox.host import Host

BLOCKS = 8
PAIRS, EPOCHS, YARDSTICKS = 5, 16, 200
THINKING = 0.05
TASK = "effective-port"
THREE = ("x=1", "mkdir /tmp/made", "cd /tmp/made && echo kept > file")


# -- operations ------------------------------------------------------------------------------------


def raw(command: str) -> object:
    return subprocess.run(["bash", "-c", command], capture_output=True)


def begin(env: InterCodeEnv, *actions: str) -> None:
    env.reset(options={"task": TASK})
    for action in actions:
        env.step(action)


def settle(env: InterCodeEnv) -> None:
    begin(env, "x=1")
    time.sleep(0.1)  # until the spare has started


def after(before: Callable[[], object], act: Callable[[], object]) -> Measure:
    """What comes before is not timed."""

    def measure() -> float:
        before()
        return timed(act)

    return measure


def episode(env: InterCodeEnv, answer: str) -> None:
    begin(env, answer)
    _, reward, *_ = env.step("submit")
    assert reward == 1.0


def thinking_episode(env: InterCodeEnv, answer: str) -> float:
    """Seconds of a gold episode, without the thinking before each act."""
    acts = (partial(begin, env), partial(env.step, answer), partial(env.step, "submit"))
    seconds = 0.0
    for act in acts:
        time.sleep(THINKING)
        seconds += timed(act)
    return seconds


def fork(env: InterCodeEnv) -> float:
    """Closing is not timed."""
    begin(env, *THREE)
    started = time.perf_counter()
    twin = env.fork()
    seconds = time.perf_counter() - started
    twin.close()
    return seconds


def ours(env: InterCodeEnv, answer: str) -> dict[str, Measure]:
    amid, three = partial(begin, env, "x=1"), partial(begin, env, *THREE)
    return {
        "ls": lambda: timed(lambda: env.step("ls /")),
        "x=1": lambda: timed(lambda: env.step("x=1")),
        "reset": after(amid, lambda: begin(env)),
        "reset, x=1": after(amid, amid),
        "episode": after(amid, lambda: episode(env, answer)),
        "thinking": lambda: thinking_episode(env, answer),
        "fork": lambda: fork(env),
        "fork, close": after(three, lambda: env.fork().close()),
    }


def measure_operations(factory: EnvFactory) -> dict[str, float]:
    answer = next(task.gold for task in factory.tasks if task.id == TASK)
    with closing(factory()) as env, intercode.sandbox() as box:
        table: dict[str, Measure] = {
            f"raw {each}": partial(timed, partial(raw, each)) for each in ("ls /", "x=1")
        }
        table["beside"] = partial(timed, lambda: box.exec(["ls", "/"]))
        return in_turns(table | ours(env, answer), partial(settle, env), BLOCKS)


# -- workers ---------------------------------------------------------------------------------------


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def play_all(factory: EnvFactory, workers: int, epochs: int = EPOCHS) -> tuple[float, float]:
    """CPU seconds and wall seconds per episode."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    episodes = evaluate(factory, gold, tasks=factory.tasks, workers=workers, epochs=epochs)
    cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
    assert all(episode.success for episode in episodes)
    return cpu / len(episodes), wall / len(episodes)


def play_without_spares(factory: EnvFactory) -> tuple[float, float]:
    Host.spares = False
    try:
        return play_all(factory, 2)
    finally:
        Host.spares = True


def raw_wall(threads: int) -> float:
    """Wall seconds per yardstick, where so many threads take turns at it."""
    with ThreadPoolExecutor(threads) as pool:
        return timed(lambda: list(pool.map(raw, ["ls /"] * YARDSTICKS))) / YARDSTICKS


def measure_workers(factory: EnvFactory) -> list[Row]:
    if len(os.sched_getaffinity(0)) < 2:
        skip("two workers", "there is one processor")
        return []
    play_all(factory, 2, epochs=1)  # golds are executed once
    pairs = [
        (
            play_all(factory, 1),
            play_all(factory, 2),
            play_without_spares(factory),
            raw_wall(1),
            raw_wall(2),
        )
        for _ in range(PAIRS)
    ]
    (cpu_1, wall_1), (cpu_2, wall_2), (_, wall_0), raw_1, raw_2 = min(
        pairs, key=lambda pair: pair[1][1] / pair[0][1]
    )
    return [
        Row("CPU per starter episode, 2 workers against 1", cpu_2, cpu_1, 1.15),
        Row("wall per starter episode, 2 workers against 1", wall_2, wall_1, 0.68),
        Row("wall per starter episode, 2 workers, against without spares", wall_2, wall_0, 1.1),
        Row("wall per raw, 2 threads against 1: the machine's own", raw_2, raw_1),
    ]


# -- the table -------------------------------------------------------------------------------------


def rows(at: dict[str, float]) -> list[Row]:
    yardstick = at["raw ls /"]
    return [
        Row("step `ls /`, against raw", at["ls"], yardstick, 1.0),
        Row("`exec(['ls', '/'])`, against the step", at["beside"], at["ls"], 2.0),
        Row("step `x=1`, against raw", at["x=1"], yardstick, 0.1),
        Row("step `x=1`, against `bash -c x=1`", at["x=1"], at["raw x=1"], 0.2),
        Row("reset, against raw", at["reset"], yardstick, 2.7),
        Row("reset and step `x=1`, against raw", at["reset, x=1"], yardstick, 3.0),
        Row("gold episode (reset, action, score), against raw", at["episode"], yardstick, 4.5),
        Row("gold episode with thinking, against raw", at["thinking"], yardstick, 3.0),
        Row("fork after three actions, against raw", at["fork"], yardstick, 4.5),
        Row("fork and close, against raw", at["fork, close"], yardstick, 4.5),
    ]


def main() -> int:
    options = command(__doc__).parse_args()
    factory = prepare("bash")
    return finish(options, [*rows(measure_operations(factory)), *measure_workers(factory)])


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
