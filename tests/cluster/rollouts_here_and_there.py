"""Play the same rollouts with environments of this machine and of a cluster's nodes, then lose a
host; print what came."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import loopback
from policies import Policy, make_tokenizer
from process_table import processes
from token_server import TokenServer

import intercode
from intercode.models import OpenAIModel, ScriptedModel
from intercode.train import Rollout, RolloutLimits, RolloutPool, groups, hf_chat
from intercode.train.cluster.envs import RayEnvs


def told(rollout: Rollout) -> list[Any]:
    segments = [
        [*map(list, (each.prompt_ids, each.token_ids, each.mask, each.logprobs))]
        for each in rollout.segments
    ]
    return [rollout.task, rollout.seed, rollout.group, rollout.reward, segments]


def play(factory: Any) -> tuple[list[Any], list[Any]]:
    tokenizer = make_tokenizer()
    with RolloutPool(factory, "try_again", envs=8) as pool:

        def generate(prompts: list[list[int]]) -> list[tuple[list[int], list[float]]]:
            """What is drawn depends on the prompt alone, not on the batch."""
            return [
                Policy(tokenizer, factory.tasks, wrong=0.3, seed=hash(tuple(each))).reply(each)
                for each in prompts
            ]

        rollouts = pool.run_batch(
            groups([task.id for task in factory.tasks[:12]], 2), generate, hf_chat(tokenizer)
        )
        script = ScriptedModel(
            [f"```bash\n{word}\n```" for word in ("ls /box", "seq 2 9", "submit")]
        )
        tree = pool.tree(("print-2", 7), script, widths=(2, 2))
    return [told(each) for each in rollouts], [
        [each.reward, len(each.episode.turns)] for each in tree.rollouts
    ]


def play_with_a_server(factory: Any) -> list[Any]:
    """Over Ray, the nodes play the whole rollouts."""
    answers = {
        task.query: [f"```bash\n{code}\n```" for code in ("ls /box", task.gold, "submit")]
        for task in factory.tasks
    }
    with (
        loopback.serving(TokenServer(answers)) as server,
        RolloutPool(factory, "try_again", envs=8, limits=RolloutLimits(reply_tokens=30)) as pool,
    ):
        model = OpenAIModel("m", base_url=f"{server.url}/v1", logprobs=True)
        rollouts = list(pool.run(groups([task.id for task in factory.tasks[:12]], 2), model))
    return sorted([[*told(rollout), rollout.cut] for rollout in rollouts], key=str)


address, data = sys.argv[1:]
found: dict[str, Any] = {}
here = intercode.prepare("bash", data=data)
found["here"], found["tree here"] = play(here)
found["served here"] = play_with_a_server(here)
with RayEnvs("bash", on=address, data=data) as factory:
    found["there"], found["tree there"] = play(factory)
    found["served there"] = play_with_a_server(factory)
    with RolloutPool(factory, "gold", envs=1) as pool:
        rewards = []
        for rollout in pool.run([task.id for task in factory.tasks[:16]], ScriptedModel(["none"])):
            rewards.append(rollout.reward)
            if len(rewards) == 4:
                for pid in processes(os.environ["INTERCODE_CACHE"], "ray::EnvHost"):
                    os.kill(pid, signal.SIGKILL)
    found["after a kill"] = rewards
print(json.dumps(found))
