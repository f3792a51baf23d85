"""Thousands of episodes in one process, honest and hostile ones mixed: nothing grows, and nothing becomes slower.

The same block of episodes is played ten times, so that what two blocks leave behind, and what they take, can be compared.
$INTERCODE_SOAK_EPISODES is their number in all. The pace is printed; what is held to its bound is the processor time of an
episode, since others may be busy on the machine. It is compared with the second block: the first also fills caches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from random import Random

import pytest
from footprint import Footprint, processor_seconds
from kept import needs_bwrap
from mischief import ACTIONS, hostile

import intercode
from intercode.agents.baselines import gold
from intercode.env import InterCodeEnv
from intercode.errors import IntercodeError
from intercode.runner.episode import play
from intercode.runner.meter import Meter

EPISODES = int(os.environ.get("INTERCODE_SOAK_EPISODES", "5000"))
BLOCKS = 10
HOSTILE = 0.3
GROWTH, SLOWING = 0.05, 0.10

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


@pytest.mark.soak
def test_a_long_run_holds_no_more_than_a_short_one_and_is_as_fast(capsys: pytest.CaptureFixture[str]) -> None:
    needs_bwrap()
    episodes = EPISODES // BLOCKS
    blocks: list[Block] = []
    with worlds() as envs:
        for _ in range(BLOCKS):
            blocks.append(play_block(envs, episodes))
            with capsys.disabled():
                print(line(blocks[-1], len(blocks) * episodes), flush=True)
    first, last = blocks[0], blocks[-1]
    assert [block.errors + block.unsolved for block in blocks] == [[]] * BLOCKS
    assert first.footprint is not None
    assert last.footprint is not None
    assert first.footprint.beyond(last.footprint, GROWTH) == {}
    assert last.processor < (1 + SLOWING) * blocks[1].processor
