"""How many episodes a batch waits for."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from intercode.errors import UsageError
from intercode.train.batching import Batches, Pace, Wait
from intercode.train.sampling import Sampled

EPISODES = 16


@pytest.mark.parametrize(
    ("call", "each", "sizes", "fixed"),
    [
        (1.0, 0.0, [64, 16, 64], 1.0),
        (0.0, 0.02, [64, 16, 33, 31], 0.0),
        (0.5, 0.01, [64, 16, 64, 33, 63], 0.5),
        (1.0, 0.0, [64, 64, 63], None),  # about one size tells nothing
        (1.0, 0.0, [], None),
    ],
)
def test_the_part_of_a_call_that_its_size_does_not_change(
    call: float, each: float, sizes: list[int], fixed: float | None
) -> None:
    pace = Pace()
    for size in sizes:
        pace.note_call(size, call + each * size)
    assert pace.fixed() == (fixed if fixed is None else pytest.approx(fixed))
    if fixed:
        pace.note_call(64, 60.0)  # a call that compiles its model first
        assert pace.fixed() == pytest.approx(fixed, rel=0.2)


def play(generate_seconds: float, acting: Callable[[int], float], wait: Wait = "auto") -> list[int]:
    """The sizes of the calls for 16 episodes of five turns, none of them for less than
    an eighth of those that play, but for one; `acting` gives the seconds of an episode's turn by
    its number."""
    turns, sizes, small = 5, list[int](), list[int]()
    unfinished, lock = [EPISODES], threading.Lock()

    def generate(prompts: list[list[int]]) -> list[Sampled]:
        sizes.append(len(prompts))
        small.extend(sizes[-1:] if sizes[-1] * 8 < unfinished[0] else [])
        time.sleep(generate_seconds)
        return [([1], [])] * len(prompts)

    batches = Batches(generate, Pace(), wait)

    def act(episode: int) -> None:
        for _ in range(turns):
            time.sleep(acting(episode))
            answer: Future[Sampled] = Future()
            batches.inbox.put(([0], answer))
            answer.result()
        with lock:
            unfinished[0] -= 1
        batches.inbox.put(None)

    threads = [threading.Thread(target=act, args=(number,)) for number in range(EPISODES)]
    for thread in threads:
        thread.start()
    batches.serve(lambda: unfinished[0], lambda why: None)
    for thread in threads:
        thread.join()
    assert sum(sizes) == EPISODES * turns
    assert len(small) <= 1, sizes
    return sizes


def test_calls_that_cost_the_same_whatever_their_size_are_for_all_episodes() -> None:
    chance = random.Random(2)
    sizes = play(0.5, lambda episode: chance.uniform(0, 0.03))
    # two calls for all measure, and two for halves; then all are known to be better
    assert len(sizes) <= 8, sizes
    assert sizes[:2] == [EPISODES] * 2


def test_while_halves_act_the_others_are_answered() -> None:
    chance = random.Random(3)
    sizes = play(0.1, lambda episode: chance.uniform(0.2, 0.6))
    assert sizes[0] == EPISODES
    assert sizes[3:].count(EPISODES) <= 1, sizes
    assert len(sizes) <= 18, sizes


@pytest.mark.parametrize(("wait", "largest"), [("half", EPISODES // 2), ("all", EPISODES)])
def test_the_caller_may_choose(wait: Wait, largest: int) -> None:
    sizes = play(0.3, lambda episode: 0.01 * episode, wait)
    assert sizes[0] >= largest - 1
    assert sum(size >= largest - 1 for size in sizes) >= len(sizes) - 2, sizes


def test_an_episode_that_acts_for_long_is_not_waited_for() -> None:
    started = time.monotonic()
    sizes = play(0.05, lambda episode: 2.0 if episode == 3 else 0.02)
    alone = sum(size == 1 for size in sizes)
    assert time.monotonic() - started >= 10
    assert 4 <= alone <= 8, sizes  # the others have ended before its second turn
    assert len(sizes) <= alone + 12, sizes


def test_another_way_to_wait_is_refused() -> None:
    with pytest.raises(UsageError, match="auto, half or all"):
        play(0.0, lambda episode: 0.0, "quarter")  # type: ignore[arg-type]
