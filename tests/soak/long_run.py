"""Thousands of episodes in one process, honest and hostile ones mixed: the program that
`test_long_run.py` runs.

The same block of episodes is played ten times, so that what two blocks leave behind, and what they
take, can be compared. Each goes to stderr; in the end all of them, as JSON, to stdout.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from random import Random

from footprint import Footprint, processor_seconds
from mischief import ACTIONS, hostile

import intercode
from intercode.agents.baselines import gold
from intercode.env import InterCodeEnv
from intercode.errors import IntercodeError
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play

BLOCKS = 10
HOSTILE = 0.3


@dataclass
class Block:
    """What one block of episodes took, and left behind."""

    episodes: int = 0
    processor: float = 0.0
    unsolved: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    footprint: Footprint | None = None


def play_block(envs: dict[str, InterCodeEnv], episodes: int) -> Block:
    block, used = Block(episodes), processor_seconds()
    for number in range(episodes):
        name = list(envs)[number % len(envs)]
        try:
            play_one(envs[name], name, number, block)
        except IntercodeError as error:
            block.errors.append(f"{name}, episode {number}: {error}")
    block.processor = processor_seconds() - used
    for env in envs.values():
        env.reset(options={"task": 0})
    block.footprint = Footprint.settled()
    return block


def play_one(env: InterCodeEnv, name: str, number: int, block: Block) -> None:
    task, chance = env.tasks[number // len(ACTIONS) % len(env.tasks)], Random(number)
    honest = chance.random() > HOSTILE
    episode = play(
        env, task, gold if honest else hostile(ACTIONS[name], chance), None, BudgetTracker()
    )
    if honest and not episode.success:
        block.unsolved.append(f"{name}, episode {number}: {task.id}")


def main(episodes: int) -> None:
    with ExitStack() as stack:
        envs = {name: stack.enter_context(closing(intercode.make(name))) for name in ACTIONS}
        blocks = []
        for _ in range(BLOCKS):
            blocks.append(asdict(play_block(envs, episodes // BLOCKS)))
            print(blocks[-1], file=sys.stderr, flush=True)
    json.dump(blocks, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]))
