"""Thousands of episodes in one process, honest and hostile ones mixed: the program that `test_long_run.py` runs.

The same block of episodes is played ten times, so that what two blocks leave behind, and what they take, can be compared.
A row for each goes to stderr; in the end all of them, as JSON, to stdout.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from random import Random

from footprint import Footprint, processor_seconds
from mischief import ACTIONS, hostile

import intercode
from intercode.agents.baselines import gold
from intercode.env import InterCodeEnv
from intercode.errors import IntercodeError
from intercode.runner.episode import play
from intercode.runner.meter import Meter

BLOCKS = 10
HOSTILE = 0.3

Worlds = dict[str, InterCodeEnv]


@dataclass
class Block:
    """What one block of episodes took, and left behind."""

    episodes: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    unsolved: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    faults: int = 0
    footprint: Footprint | None = None


@contextmanager
def worlds() -> Iterator[Worlds]:
    with ExitStack() as stack:
        made = {name: intercode.make(name) for name in ACTIONS}
        for env in made.values():
            stack.callback(env.close)
        yield made


def play_block(envs: Worlds, episodes: int) -> Block:
    block = Block(episodes)
    began, used = time.perf_counter(), processor_seconds()
    for number in range(episodes):
        name = list(envs)[number % len(envs)]
        try:
            play_one(envs[name], name, number, block)
        except IntercodeError as error:
            block.errors.append(f"{name}, episode {number}: {error}")
    block.seconds, block.processor = time.perf_counter() - began, processor_seconds() - used
    for env in envs.values():
        env.reset(options={"task": 0})
    block.footprint = Footprint.settled()
    return block


def play_one(env: InterCodeEnv, name: str, number: int, block: Block) -> None:
    task, chance = env.tasks[number // len(ACTIONS) % len(env.tasks)], Random(number)
    honest = chance.random() > HOSTILE
    episode = play(env, task, gold if honest else hostile(ACTIONS[name], chance), None, Meter())
    block.faults += episode.ended == "agent_fault"
    if honest and not episode.success:
        block.unsolved.append(f"{name}, episode {number}: {task.id}")


def line(block: Block, number: int) -> str:
    """A row of the table."""
    rate, cost = block.episodes / block.seconds, block.processor / block.episodes
    held = ", ".join(f"{key} {value:,}" for key, value in asdict(block.footprint).items()) if block.footprint else ""
    return (
        f"episode {number:5}: {rate:5.1f} a second, {1000 * cost:.1f} ms of processor each; {block.faults} agent faults; {held}"
    )


def main(episodes: int) -> None:
    blocks: list[Block] = []
    with worlds() as envs:
        for number in range(1, BLOCKS + 1):
            blocks.append(play_block(envs, episodes // BLOCKS))
            print(line(blocks[-1], number * episodes // BLOCKS), file=sys.stderr, flush=True)
    json.dump([asdict(block) for block in blocks], sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]))
