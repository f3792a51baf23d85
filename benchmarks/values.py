"""What `value()` says between turns: whether it is what a submission would earn, whether the agent
can notice it, and what it costs.

    .venv/bin/python benchmarks/values.py [--episodes 1000] [--seed 0] [--json]

    with       action, value(), action, value(), …    the last value ──┐
                  └─ the same observations?                            ├─ equal?
    without    action,          action,          …    submit: reward ──┘

An episode is one to ten actions drawn for a starter task: looks, wrong edits, half of the gold, the
golds of this and of other tasks, and actions that tell if something read files, sent signals or
executed statements (values.toml). In CTF, each flag in the last output is submitted. An episode of
ten actions is timed with and without values, twenty in a row of each kind (in turns, each world
would start its spare beside the other): the medians of the quietest of eight blocks.
"""

from __future__ import annotations

import random
import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from measuring.clock import quietest, timed
from measuring.rows import Row, command, finish, skip

from intercode.env import InterCodeEnv
from intercode.envs import prepare
from intercode.envs.sql.engines.mariadb import MariadbEngine
from intercode.factory import EnvFactory
from intercode.types import Task

ACTIONS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
KINDS = {"bash": 0.4, "sqlite": 0.25, "mariadb": 0.25, "ctf": 0.1}
"""The part of the episodes that each kind of world has."""
BLOCKS, IN_A_ROW, MOST = 8, 20, 1.7
FLAG = re.compile(r"intercode\{[^}]*\}")


def ready(kind: str) -> EnvFactory:
    more = {"submits": 99} if kind == "ctf" else {} if kind == "bash" else {"engine": kind}
    return prepare("sql" if "engine" in more else kind, max_turns=None, **more)


def lines(part: str, kind: str) -> list[str]:
    return str(ACTIONS[part].get(kind) or ACTIONS[part]["sql"]).splitlines()


def draw(kind: str, tasks: Sequence[Task], chance: random.Random) -> tuple[Task, list[str]]:
    """Return a task and a script for it."""
    task, other = chance.choice(tasks), chance.choice(tasks)
    half = " ".join(task.gold.split(" ")[: task.gold.count(" ") // 2])
    parts = [lines(part, kind) for part in ("looks", "edits", "notices", "notices")]
    parts += [[task.gold], [task.gold], [half, other.gold, f"{task.gold} LIMIT 1"]]
    return task, [chance.choice(chance.choice(parts)) for _ in range(chance.randint(1, 10))]


def play(
    env: InterCodeEnv, task: Task, script: Sequence[str], after: Callable[[], object] = bool
) -> list[tuple[str, int | None]]:
    """Return the observations and exit statuses; call `after` after each action."""
    env.reset(options={"task": task.id})
    observations = []
    for action in script:
        observation, *_, info = env.step(action)
        observations.append((observation, info["exit_code"]))
        after()
    return observations


def submit(env: InterCodeEnv, kind: str, last: str) -> float:
    """Return the reward of the best submission."""
    words = [f" {flag}" for flag in {*FLAG.findall(last)}] if kind == "ctf" else [""]
    return next(filter(None, (float(env.step(f"submit{word}")[1]) for word in words)), 0.0)


def share_rows(kind: str, count: int, chance: random.Random) -> list[Row]:
    """Compare episodes with values with the same without, and print those that differ."""
    factory, states = ready(kind), []
    tasks = [task for task in factory.tasks if not task.general]
    with closing(factory()) as env, closing(factory()) as bare:
        for task, script in (draw(kind, tasks, chance) for _ in range(count)):
            observed, value = play(env, task, script, env.value), env.value()
            expected = play(bare, task, script)
            reward = submit(bare, kind, expected[-1][0])
            states.append((value == reward, observed == expected, reward > 0))
            if not all(states[-1][:2]):
                pairs = [pair for pair in zip(observed, expected, strict=True) if len({*pair}) > 1]
                print(f"{kind}, {task.id}, {script}: value {value}, reward {reward}; {pairs}")
    right, same, paid = (sum(column) / count for column in zip(*states, strict=True))
    what, paying = f"{kind}, {count} states", f"{paid:.0%} earn something"
    return [
        Row(f"{what}: the value is the reward", right, 1.0, 1, True, "", paying),
        Row(f"{what}: observations as without values", same, 1.0, 1, True, ""),
    ]


def cost_row(kind: str) -> Row:
    factory, actions = ready(kind), [*lines("ten", kind), "submit"]
    task = next(task for task in factory.tasks if not task.general)

    def block() -> dict[str, list[float]]:
        return {
            "with": [timed(lambda: play(env, task, actions, env.value)) for _ in range(IN_A_ROW)],
            "without": [timed(lambda: play(bare, task, actions)) for _ in range(IN_A_ROW)],
        }

    with closing(factory()) as env, closing(factory()) as bare:
        medians = quietest(block() for _ in range(BLOCKS))
    return Row(f"{kind}, ten actions with values", medians["with"], medians["without"], MOST)


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = []
    for kind, part in KINDS.items():
        if kind == "mariadb" and (why := MariadbEngine.missing()):
            skip(kind, why)
            continue
        rows += share_rows(kind, round(options.episodes * part), random.Random(options.seed))
    return finish(options, rows + [cost_row(kind) for kind in ("bash", "sqlite")])


if __name__ == "__main__":
    sys.exit(main())
