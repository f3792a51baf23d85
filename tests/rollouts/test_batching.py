"""When a batch waits for the episodes that still act."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Future

import pytest

from intercode.train.batching import Batches, Pace
from intercode.train.sampling import Sampled


@pytest.mark.parametrize(
    ("call", "each", "sizes", "fixed"),
    [
        (1.0, 0.0, [64, 16, 64], 1.0),
        (0.0, 0.02, [64, 16, 33, 31], 0.0),
        (0.5, 0.01, [64, 16, 64, 33, 63], 0.5),
        (1.0, 0.0, [16], 1.0),  # one size is known: wait for all, which is another
        (1.0, 0.0, [64, 64, 63], 0.0),  # about one size, and that was all: wait for nobody
        (1.0, 0.0, [], 0.0),
    ],
)
def test_the_part_of_a_call_that_its_size_does_not_change(
    call: float, each: float, sizes: list[int], fixed: float
) -> None:
    pace = Pace()
    for size in sizes:
        pace.note(size, size if size == 63 else 64, call + each * size)
    assert pace.fixed() == pytest.approx(fixed)
    pace.note(64, 64, 60.0)  # a call that compiles its model first
    if len(sizes) > 2 and fixed:
        assert pace.fixed() == pytest.approx(fixed, rel=0.2)


def test_calls_that_cost_the_same_whatever_their_size_are_for_all_episodes() -> None:
    episodes, turns = 8, 5
    sizes: list[int] = []
    chance = random.Random(2)
    unfinished = [episodes]

    def generate(prompts: list[list[int]]) -> list[Sampled]:
        sizes.append(len(prompts))
        time.sleep(0.5)
        return [([1], [])] * len(prompts)

    batches = Batches(generate, Pace())

    def act(pauses: list[float]) -> None:
        for pause in pauses:
            time.sleep(pause)
            answer: Future[Sampled] = Future()
            batches.inbox.put(([0], answer))
            answer.result()
        unfinished[0] -= 1
        batches.inbox.put(None)

    threads = [
        threading.Thread(target=act, args=([chance.uniform(0, 0.03) for _ in range(turns)],))
        for _ in range(episodes)
    ]
    for thread in threads:
        thread.start()
    batches.serve(lambda: unfinished[0], lambda why: None)
    for thread in threads:
        thread.join()
    assert sum(sizes) == episodes * turns
    assert len(sizes) <= turns + 2, sizes
    assert sizes.count(episodes) >= turns - 2, sizes
