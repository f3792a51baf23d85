"""Rollouts on warm environments: exact tokens, limits, faults, and whoever asks for them."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from typing import Any

import loopback
import pytest
from policies import CONTROL, LETTERS, Policy, make_tokenizer, replying
from token_server import TokenServer

from intercode import rollout
from intercode.agents import Act, Ask
from intercode.errors import ModelError, UsageError
from intercode.factory import EnvFactory
from intercode.models import OpenAIModel, ScriptedModel
from intercode.train import (
    Job,
    Rollout,
    RolloutLimits,
    RolloutPool,
    advantages,
    groups,
    hf_chat,
    segments_of,
)

TASKS = [
    {"id": f"{kind}-{n}", "query": f"{query} Number {n}.", "gold": gold.format(n=n)}
    for n in range(5)
    for kind, query, gold in [
        ("count", "How many entries does /box have?", "ls /box | wc -l"),
        ("touch", "Make the file /box/new.", "touch /box/new{n}"),
        ("names", "Print the names in /box.", "ls /box"),
        ("print", "Print the numbers.", "seq {n} 9"),
    ]
]


@pytest.fixture(scope="module")
def pool(factory: EnvFactory) -> Iterator[RolloutPool]:
    with RolloutPool(factory, envs=16) as made:
        yield made


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return make_tokenizer()


def fenced(*codes: str) -> list[str]:
    return [f"```bash\n{code}\n```" for code in codes]


@pytest.mark.journey
def test_each_segment_has_exactly_the_ids_that_were_generated_over_60_episodes(
    factory: EnvFactory, pool: RolloutPool, tokenizer: Any
) -> None:
    policy, chat = Policy(tokenizer, factory.tasks, wrong=0.3), hf_chat(tokenizer)
    jobs = groups([task.id for task in factory.tasks], 3)
    rollouts = pool.run_batch(jobs, policy, chat)
    assert [(each.task, each.seed, each.group) for each in rollouts] == [
        tuple(job) for job in jobs
    ], "the order is kept"
    assert max(policy.batches) > 1
    assert policy.thread == threading.get_ident()
    odd = 0
    for each in rollouts:
        (segment,) = each.segments
        ids = list(segment.prompt_ids)
        mask = [0] * len(segment.prompt_ids)
        logprobs = [0.0] * len(segment.prompt_ids)
        whole, whole_mask = [*ids, *segment.token_ids], [*mask, *segment.mask]
        whole_logprobs = [*logprobs, *segment.logprobs]
        for turn in each.episode.turns:
            if turn.sample:
                start = len(turn.sample.prompt_ids)
                end = start + len(turn.sample.token_ids)
                assert tuple(whole[:start]) == turn.sample.prompt_ids, "what the policy saw"
                sampled = (whole[start:end], whole_logprobs[start:end])
                assert sampled in policy.sampled[turn.sample.prompt_ids], "what the policy said"
                assert whole_mask[start:end] == [1] * (end - start)
                canonical = tokenizer.encode(turn.reply, add_special_tokens=False)
                odd += whole[start : start + len(canonical)] != canonical
        assert sum(whole_mask) == sum(
            len(turn.sample.token_ids) for turn in each.episode.turns if turn.sample
        )
        right = each.episode.turns[1].action != "false"
        assert each.reward == each.episode.reward == float(right)
    assert odd > 90, "the splits are odd"
    assert {each.reward for each in rollouts} == {0.0, 1.0}


def test_a_program_that_prints_control_tokens_adds_none_to_the_conversation(
    pool: RolloutPool,
) -> None:
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(CONTROL)
    control = set(tokenizer.added_tokens_decoder)
    chat = hf_chat(tokenizer)

    def printing(prompts: list[list[int]], form: str) -> list[tuple[list[int], list[float]]]:
        hexed = "".join(f"\\x{byte:02x}" for byte in form.encode())
        first = tokenizer.decode(prompts[0]).count("assistant\n") == 1
        ids = tokenizer.encode(fenced(f"printf '{hexed}'" if first else "submit")[0])
        return [(ids, [])]

    def observed(form: str) -> tuple[str, list[int]]:
        (found,) = pool.run_batch([("print-0", 1)], partial(printing, form=form), chat)
        (segment,) = found.segments
        pairs = zip(segment.token_ids, segment.mask, strict=True)
        seen = [token for token, mask in pairs if not mask and token in control]
        return found.episode.turns[0].observation or "", seen

    _, expected = observed("x")
    assert len(expected) > 2
    for form in CONTROL:
        assert observed(form) == (form, expected)


def test_faults_have_no_reward_reach_no_policy_and_hang_nothing(factory: EnvFactory) -> None:
    """One episode in seven loses the sandbox under it, and one reply in 16 does not come."""
    answers = {task.query: fenced("ls /box", task.gold, "submit") for task in factory.tasks}
    chance, killed = random.Random(5), list[int]()
    envs: dict[int, Any] = {}

    def make() -> Any:
        env = envs[threading.get_ident()] = factory()  # a thread keeps its environment
        return env

    def looking(task: Any, protocol: str) -> Any:
        flow = strategy(task, protocol)
        answer = None
        victim = chance.random() < 0.15
        with suppress(StopIteration):
            while True:
                request = flow.send(answer)
                if victim and isinstance(request, Act) and request.action == task.gold:
                    killed.append(
                        envs[threading.get_ident()].world.workspace.sandbox.host._process.pid
                    )
                    os.kill(killed[-1], signal.SIGKILL)
                    victim = False
                answer = yield request

    with (
        loopback.serving(TokenServer(answers, broken=0.06)) as server,
        RolloutPool(make, envs=16, tasks=factory.tasks, retries=0) as pool,
    ):
        (setting,) = pool.settings
        strategy, setting.strategy = setting.strategy, looking
        model = OpenAIModel(
            "m", base_url=f"{server.url}/v1", tries=1, logprobs=True, temperature=1.0
        )
        rollouts = list(pool.run(groups(factory.tasks, 4), model))
        model.close()
    assert len(rollouts) == 80
    faults = [each for each in rollouts if each.episode.error]
    assert len(killed) > 8
    assert server.failed > 8
    deaths = sum("sandbox: " in str(each.episode.error) for each in faults)
    assert len(killed) / 2 < deaths <= len(killed), (
        "an episode may end before the kernel has ended its sandbox"
    )
    assert sum("model: " in str(each.episode.error) for each in faults) == server.failed
    assert [each for each in faults if each.reward is not None or each.cut] == []
    assert {each.reward for each in rollouts if not each.episode.error} == {1.0}, (
        "no fault became a reward"
    )
    said = json.dumps([request["messages"] for request in server.requests])
    assert not any(word in said for word in ("sandbox", "SandboxDied", "out of memory")), (
        "no fault reached the policy"
    )
    assert {request["temperature"] for request in server.requests} == {1.0}
    assert all(len(each.segments) == 1 for each in rollouts if not each.episode.error)
    assert advantages([each.reward for each in rollouts], 4).count(0.0) >= len(faults)


def test_a_rollout_that_loses_its_sandbox_is_played_again_with_its_seed(
    factory: EnvFactory, tokenizer: Any
) -> None:
    jobs, lost, envs = groups(factory.tasks[:4], 2), list[str](), list[Any]()

    def make() -> Any:
        envs.append(factory())
        return envs[-1]

    def losing(task: Any, protocol: str) -> Any:
        if lost.count(task.id) < 2 and (not lost or lost[-1] != "again"):
            lost.extend([task.id, "again"])
            yield Act("echo lost")
            sandbox = envs[-1].world.workspace.sandbox
            os.kill(sandbox.host._process.pid, signal.SIGKILL)
            assert sandbox._sock.recv(1) == b"", "it is dead before the next action"
        else:
            lost.append("played")
        yield from strategy(task, protocol)

    with RolloutPool(make, envs=1, tasks=factory.tasks) as pool:
        (setting,) = pool.settings
        strategy, setting.strategy = setting.strategy, losing
        rollouts = pool.run_batch(jobs, Policy(tokenizer, factory.tasks), hf_chat(tokenizer))
        stats = pool.stats()
    assert lost.count("played") == len(jobs)
    assert [(each.task, each.seed, each.reward) for each in rollouts] == [
        (job.task.id, job.seed, 1.0) for job in jobs
    ]
    assert all(turn.action != "echo lost" for each in rollouts for turn in each.episode.turns)
    assert all(len(each.segments) == 1 for each in rollouts)
    assert (stats.replayed, stats.faults) == (len(jobs), {})


def test_one_episode_against_a_server_has_its_tokens_and_a_fault_is_raised(
    factory: EnvFactory,
) -> None:
    task = factory.tasks[0]
    with loopback.serving(TokenServer({task.query: fenced(task.gold, "submit")})) as server:
        episode = rollout(task.id, env=factory, base_url=f"{server.url}/v1", model="m")
        (segment,) = segments_of(episode.turns)
        assert (episode.reward, len(segment.turns)) == (1.0, 2)
        cut = rollout(task, env=factory, base_url=f"{server.url}/v1", model="m", reply_tokens=5)
        assert (cut.ended, cut.reward, [turn.action for turn in cut.turns]) == (
            "limit",
            0.0,
            [None, "submit"],
        )
        server.broken = 1.0
        model = OpenAIModel("m", base_url=f"{server.url}/v1", tries=1)
        with pytest.raises(ModelError, match="500"):
            rollout(task, env=factory, model=model)
        model.close()
    with pytest.raises(UsageError, match="no task has the id 'x'"):
        rollout("x", env=factory, model=ScriptedModel(["x"]))


LONG = fenced("touch /box/new0", "seq 3000", "submit")


@pytest.mark.parametrize(
    ("limits", "cut", "ended", "actions"),
    [
        ({}, None, "submit", 3),
        ({"reply_tokens": 30}, None, "submit", 3),
        ({"reply_tokens": 20}, "reply", "limit", 1),
        ({"tokens": 200}, "tokens", "limit", 3),
        ({"tokens": 10}, "tokens", "limit", 1),
        ({"context": 3000}, "context", "limit", 3),
        ({"context": 50}, "context", "limit", 1),
        ({"turns": 1}, "turns", "turns", 2),
        ({"turns": 2}, "turns", "turns", 3),
        ({"turns": 3}, None, "submit", 3),
    ],
)
def test_a_limit_ends_an_episode_scored_and_no_segment_is_longer(
    factory: EnvFactory, limits: dict[str, Any], cut: str | None, ended: str, actions: int
) -> None:
    with RolloutPool(factory, envs=1, limits=RolloutLimits(**limits)) as pool:
        (found,) = pool.run_batch([("touch-0", 1)], replying(*LONG), LETTERS)
        assert (found.cut, found.episode.ended, found.episode.error) == (cut, ended, None)
        assert found.reward == (1.0 if actions > 1 else 0.0), "the state is scored as it is"
        assert sum(turn.acted for turn in found.episode.turns) == actions
        (segment,) = found.segments
        tokens, prompt = len(segment.token_ids), len(segment.prompt_ids)
        assert prompt > 0
        assert tokens <= limits.get("tokens", 10**9)
        assert prompt + tokens <= limits.get("context", 10**9)


def test_an_episode_that_uses_all_its_turns_is_scored_though_the_factory_has_a_limit_of_its_own(
    factory: EnvFactory,
) -> None:
    acting = ScriptedModel(fenced("touch /box/new0"))
    assert rollout("touch-0", env=factory, model=acting).reward == 1.0
    with closing(factory()) as env:
        assert (rollout("touch-0", env=env, model=acting).reward, env.max_turns) == (1.0, 10)
    with RolloutPool(factory, envs=1) as pool:
        (found,) = pool.run([("touch-0", 0)], acting)
    assert (found.reward, len(found.episode.turns), found.cut) == (1.0, 11, "turns")


def test_a_loop_may_be_left_and_jobs_may_be_endless(factory: EnvFactory, pool: RolloutPool) -> None:
    model = ScriptedModel(fenced("ls /box", "submit"))
    seeds = (Job("names-0", number, group=number) for number in itertools.count())
    found = list(itertools.islice(pool.run(seeds, model), 40))
    assert len({each.seed for each in found}) == 40
    assert {each.reward for each in found} == {1.0}


def test_a_coroutine_plays_beside_others(pool: RolloutPool) -> None:
    async def play() -> list[Rollout]:
        model = ScriptedModel(fenced("ls /box", "submit"))
        return await asyncio.gather(*(pool.play(("names-0", seed), model) for seed in range(20)))

    assert [(each.seed, each.reward) for each in asyncio.run(play())] == [
        (seed, 1.0) for seed in range(20)
    ]


def test_the_callers_mistakes_are_raised_and_leave_the_pool_whole(
    factory: EnvFactory, pool: RolloutPool
) -> None:
    def failing(prompts: list[list[int]]) -> Any:
        raise ZeroDivisionError("of the trainer")

    with pytest.raises(ZeroDivisionError, match="of the trainer"):
        pool.run_batch(groups(factory.tasks, 2), failing, LETTERS)
    wrong: list[tuple[Any, str]] = [
        ([], "0 replies to"), ([([1], [])] * 99, "99 replies to"),
        ([([1, 2], [-1.0])], "2 ids with 1"), (None, "pair"),
        ([([1], [float("nan")])], "are finite"), ([("777", [])], "pair"), ([([7.9], [])], "pair"),
        ([([-1], [])], "no id is negative"),
    ]  # fmt: skip
    for answer, why in wrong:
        with pytest.raises(UsageError, match=why):
            pool.run_batch([("count-0", 1)], lambda prompts, answer=answer: answer, LETTERS)
    with pytest.raises(UsageError, match="no task has the id 'x'"):
        pool.run_batch([("x", 1)], failing, LETTERS)
    with pytest.raises(UsageError, match="a model, or with generate and chat"):
        pool.tree(("names-0", 1), generate=failing)
    with pytest.raises(UsageError, match="do not form groups"):
        advantages([1.0, 0.0, 1.0], 2)
    for limit in (0, 2.5):
        with pytest.raises(UsageError, match=f"limit turns is {limit}"):
            RolloutLimits(turns=limit)  # type: ignore[arg-type]
    for job in ((0,), ("names-0", -1), ("names-0", "a"), (), ("names-0", 1, 2, 3)):
        with pytest.raises(UsageError, match="is not a job"):
            pool.run_batch([job], failing, LETTERS)
    with pytest.raises(UsageError, match="widths of a tree"):
        pool.tree("names-0", generate=failing, chat=LETTERS, widths=(2, 0))
    assert [
        each.reward
        for each in pool.run([("names-0", 1)], ScriptedModel(fenced("ls /box", "submit")))
    ] == [1.0]
    closed = RolloutPool(factory, envs=1)
    closed.close()
    with pytest.raises(UsageError, match="pool is closed"):
        list(closed.run([("names-0", 1)], ScriptedModel(["x"])))


def test_rollouts_of_a_pool_that_another_thread_closes_say_so(factory: EnvFactory) -> None:
    job, replies = ("names-0", 1), fenced(*["sleep 0.5"] * 9)
    for play in (
        lambda pool: pool.run_batch([job], replying(*replies), LETTERS),
        lambda pool: asyncio.run(pool.play(job, ScriptedModel(replies))),
    ):
        pool = RolloutPool(factory, envs=1)
        pool.warm()
        threading.Timer(1.0, pool.close).start()
        with pytest.raises(UsageError, match="pool is closed"):
            play(pool)


def test_an_agent_that_rewrites_its_history_gives_a_segment_a_conversation_and_says_so(
    factory: EnvFactory,
) -> None:
    def forgetful(task: Any, protocol: str) -> Any:
        for number in range(3):
            reply = yield Ask([{"role": "user", "content": f"{number}: {task.query}"}])
            yield Act(reply.text)

    with (
        RolloutPool(factory, forgetful, envs=1) as pool,
        pytest.warns(RuntimeWarning, match="3 segments"),
    ):
        (found,) = pool.run_batch([("names-0", 1)], replying("ls /box"), LETTERS)
    assert [each.turns for each in found.segments] == [(0,), (1,), (2,)]


def test_advantages_are_those_of_grpo_and_leave_faults_out() -> None:
    assert advantages([1.0, 0.0, None, 1.0, 1.0, 1.0], 3) == [1.0, -1.0, 0.0, 0.0, 0.0, 0.0]
    assert advantages([1.0, 0.0, 0.0, 0.0], 4, scale=False) == [0.75, -0.25, -0.25, -0.25]
    assert advantages([None, None], 2) == [0.0, 0.0]
    assert advantages([0.1 + 0.2, 0.3], 2) == [0.0, 0.0]


def test_a_tree_forks_the_live_episode_and_its_tokens_are_in_one_node_each(
    factory: EnvFactory, pool: RolloutPool
) -> None:
    chance = random.Random(1)

    def generate(prompts: list[list[int]]) -> list[tuple[list[int], list[float]]]:
        texts = []
        for prompt in prompts:
            turn = LETTERS.decode(prompt).count("\n>")
            code = (
                ["touch /box/here; X=1", "echo $X", "touch /box/new1; rm -f /box/here"][turn - 1]
                if turn < 4
                else "submit"
            )
            texts.append(
                fenced(
                    f"{code} #{chance.random()}"
                    if turn < 3
                    else code
                    if chance.random() < 0.5
                    else "submit"
                )[0]
            )
        return [([ord(each) for each in text], [-1.0] * len(text)) for text in texts]

    tree = pool.tree(Job("touch-1", 7), generate=generate, chat=LETTERS, widths=(3, 2, 2))
    assert len(tree.rollouts) == 12
    assert {each.reward for each in tree.rollouts} == {0.0, 1.0}
    for each in tree.rollouts:
        assert (each.episode.turns[1].observation, each.episode.error) == (
            "1\n",
            None,
        ), "the shell was copied"
        assert len(each.segments) == 1
    root = tree.root
    assert (root.segments, len(root.children), root.rollouts) == ((), 3, tree.rollouts)
    assert root.reward == sum(each.reward or 0 for each in tree.rollouts) / 12
    sampled = 0
    for first in root.children:
        assert len(first.children) == 2
        assert first.reward == sum(each.reward or 0 for each in first.rollouts) / 4
        for second in first.children:
            (one,), (two,) = first.segments, second.segments
            assert (
                second.segments[0].prompt_ids[: len(one.prompt_ids) + len(one.token_ids)]
                == one.prompt_ids + one.token_ids
            )
            assert (one.turns, two.turns) == ((0,), (1,))
            assert len(second.children) == 2
            for leaf in second.children:
                (whole,) = leaf.rollouts[0].segments
                (rest,) = leaf.segments
                assert rest.prompt_ids + rest.token_ids == whole.prompt_ids + whole.token_ids
            sampled += sum(len(leaf.segments[0].mask) for leaf in second.children)
    assert sampled > 0


def test_a_tree_with_a_served_model_and_an_agent_that_forks_by_itself(
    factory: EnvFactory, pool: RolloutPool
) -> None:
    tree = pool.tree(("names-0", 1), ScriptedModel(fenced("ls /box", "submit")), widths=(2,))
    assert (tree.root.reward, [len(child.rollouts) for child in tree.root.children]) == (
        1.0,
        [1, 1],
    )
    with (
        RolloutPool(factory, "best_of:2", envs=2) as forking,
        pytest.raises(UsageError, match="no method fork"),
    ):
        forking.tree(("names-0", 1), ScriptedModel(fenced("ls /box", "submit")), widths=(2,))
