"""Play the same rollouts with environments of this machine and of a cluster's nodes, then lose a
host; print what came."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from typing import Any

import loopback
from policies import LETTERS
from process_table import processes
from token_server import TokenServer

import intercode
from intercode.models import OpenAIModel, ScriptedModel
from intercode.train import Rollout, RolloutLimits, RolloutPool, groups
from intercode.train.cluster.envs import RayEnvs


def told(rollout: Rollout) -> list[Any]:
    segments = [
        [*map(list, (each.prompt_ids, each.token_ids, each.mask, each.logprobs))]
        for each in rollout.segments
    ]
    return [rollout.task, rollout.seed, rollout.group, rollout.reward, segments]


def play(factory: Any) -> tuple[list[Any], list[Any]]:
    def reply(prompt: list[int]) -> tuple[list[int], list[float]]:
        """What is drawn depends on the prompt alone, not on the batch."""
        text, chance = LETTERS.decode(prompt), random.Random(hash(tuple(prompt)))
        task = next(task for task in factory.tasks if task.query in text)
        codes = [f"echo λ {chance.random()}", chance.choice([task.gold, "false"]), "submit"]
        ids = [ord(letter) for letter in f"```bash\n{codes[text.count(chr(10) + '>') - 1]}\n```"]
        return ids, [-chance.random() for _ in ids]

    with RolloutPool(factory, "try_again", envs=4) as pool:
        jobs = groups([task.id for task in factory.tasks[:6]], 2)
        rollouts = pool.run_batch(jobs, lambda prompts: [*map(reply, prompts)], LETTERS)
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
        RolloutPool(factory, "try_again", envs=4, limits=RolloutLimits(reply_tokens=30)) as pool,
    ):
        model = OpenAIModel("m", base_url=f"{server.url}/v1", logprobs=True)
        rollouts = list(pool.run(groups([task.id for task in factory.tasks[:6]], 2), model))
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
        for rollout in pool.run([task.id for task in factory.tasks[:8]], ScriptedModel(["none"])):
            rewards.append(rollout.reward)
            if len(rewards) == 2:
                for pid in processes(os.environ["INTERCODE_CACHE"], "ray::EnvHost"):
                    os.kill(pid, signal.SIGKILL)
    found["after a kill"] = rewards
print(json.dumps(found))
