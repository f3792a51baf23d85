"""Episodes that an asynchronous trainer samples for, or drives itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from policies import LETTERS, Policy, make_tokenizer

from intercode.errors import UsageError
from intercode.factory import EnvFactory
from intercode.models import ScriptedModel
from intercode.train import Rollout, RolloutLimits, RolloutPool, hf_chat

TASKS = [
    {"id": "count", "query": "How many entries does /box have?", "gold": "ls /box | wc -l"},
    {"id": "touch", "query": "Make the file /box/new.", "gold": "touch /box/new"},
]
TOUCHES = ["```bash\ntouch /box/new\n```", "```bash\nsubmit\n```"]


@pytest.fixture(scope="module")
def pool(factory: EnvFactory) -> Iterator[RolloutPool]:
    with RolloutPool(factory, envs=4) as pool:
        yield pool


def ids(text: str) -> list[int]:
    return list(map(ord, text))


def test_an_asynchronous_function_samples_one_reply_at_a_time(
    factory: EnvFactory, pool: RolloutPool
) -> None:
    tokenizer = make_tokenizer()
    policy, chat = Policy(tokenizer, factory.tasks, wrong=0.3), hf_chat(tokenizer)
    waiting, most = 0, 0

    async def sample(prompt: list[int]) -> tuple[list[int], list[float]]:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        await asyncio.sleep(0.01)
        waiting -= 1
        return policy.reply(prompt)

    async def play() -> list[Rollout]:
        jobs = [(task.id, seed) for task in factory.tasks for seed in range(10)]
        return await asyncio.gather(*(pool.play(job, generate=sample, chat=chat) for job in jobs))

    rollouts = asyncio.run(play())
    assert most > 1
    for rollout in rollouts:
        (segment,) = rollout.segments
        whole = [*segment.prompt_ids, *segment.token_ids]
        places = [0] * len(segment.prompt_ids) + list(segment.mask)
        sampled = 0
        for turn in rollout.episode.turns:
            if turn.sample:
                start = len(turn.sample.prompt_ids)
                reply = whole[start : start + len(turn.sample.token_ids)]
                assert tuple(whole[:start]) == turn.sample.prompt_ids, "what the policy saw"
                assert reply in [said for said, _ in policy.sampled[turn.sample.prompt_ids]]
                assert all(places[start : start + len(reply)])
                sampled += len(reply)
        assert sum(segment.mask) == sampled
        right = rollout.episode.turns[1].action != "false"
        assert (rollout.reward, rollout.episode.error) == (float(right), None)


def test_what_the_function_raises_is_raised_and_the_environment_is_free_again(
    factory: EnvFactory,
) -> None:
    async def failing(prompt: list[int]) -> Any:
        raise ZeroDivisionError("of the trainer")

    async def endless(prompt: list[int]) -> Any:
        started.set()
        await asyncio.Event().wait()

    async def cancelled(pool: RolloutPool) -> None:
        task = asyncio.ensure_future(pool.play("touch", generate=endless, chat=LETTERS))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with RolloutPool(factory, envs=1) as pool:
        with pytest.raises(ZeroDivisionError, match="of the trainer"):
            asyncio.run(pool.play("touch", generate=failing, chat=LETTERS))
        started = asyncio.Event()
        asyncio.run(cancelled(pool))
        (rollout,) = pool.run(["touch"], ScriptedModel(TOUCHES))  # type: ignore[list-item]
        assert rollout.reward == 1.0
        with pytest.raises(UsageError, match="a model, or with generate and chat"):
            asyncio.run(pool.play("touch", generate=failing))


def test_a_trainer_drives_an_episode_with_ids(pool: RolloutPool) -> None:
    async def drive() -> None:
        async with pool.episode(("touch", 3), LETTERS) as episode:
            first = list(episode.prompt)
            assert "Make the file" in LETTERS.decode(first)
            assert (episode.done, episode.reward, episode.segment) == (False, None, None)
            await episode.feed(ids(TOUCHES[0]), [-1.0] * len(TOUCHES[0]))
            assert episode.prompt[: len(first) + len(TOUCHES[0])] == first + ids(TOUCHES[0])
            with pytest.raises(UsageError, match="ids with 1 log-prob"):
                await episode.feed(ids(TOUCHES[1]), [-1.0])
            with pytest.raises(UsageError, match="takes token ids"):
                await episode.feed(TOUCHES[1])
            await episode.feed(ids(TOUCHES[1]))
            assert (episode.done, episode.reward) == (True, 1.0)
            segment = episode.segment
            assert segment
            assert list(segment.prompt_ids) == first
            assert sum(segment.mask) == len(TOUCHES[0]) + len(TOUCHES[1])
            assert episode.rollout
            assert (episode.rollout.task, episode.rollout.seed) == ("touch", 3)
            with pytest.raises(UsageError, match="has ended"):
                episode.feed(ids("ls"))

    asyncio.run(drive())


def test_a_trainer_drives_an_episode_with_texts_and_without_an_event_loop(
    factory: EnvFactory,
) -> None:
    with RolloutPool(factory, envs=1, limits=RolloutLimits(turns=1)) as pool:
        for _ in range(2):
            with pool.episode("touch") as episode:
                assert [message["role"] for message in episode.messages][-1] == "user"
                with pytest.raises(UsageError, match="takes text"):
                    episode.feed([1, 2])
                episode.feed("```bash\ntrue\n```").result()
                assert (episode.done, episode.reward) == (True, 0.0)
                assert episode.rollout
                assert (episode.rollout.cut, episode.segment) == ("turns", None)
        with pool.episode("touch") as left:
            pass
        again = pool.episode("touch")
        again.open().result()
        assert (left.done, left.reward) == (True, None), "the one thread has ended it"
        again.feed("```bash\ntouch /box/new\n```").result()
        assert again.reward == 1.0
        open_at_the_end = pool.episode("count")
        open_at_the_end.open().result()
    with pytest.raises(UsageError, match="has ended"):
        open_at_the_end.feed("ls")
