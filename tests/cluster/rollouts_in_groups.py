"""Play groups of rollouts on a cluster's nodes until stdin ends; print a line for each group with
the rewards and the seeds."""

from __future__ import annotations

import itertools
import json
import sys
import threading

from intercode.models import ScriptedModel
from intercode.train import Job, RolloutPool, by_group
from intercode.train.cluster.envs import RayEnvs

SIZE = 4
address, data = sys.argv[1:]
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
with (
    RayEnvs("bash", on=address, data=data) as factory,
    RolloutPool(factory, "gold", envs=6) as pool,
):
    tasks = itertools.cycle(task.id for task in factory.tasks)
    jobs = (
        Job(next(tasks), seed, group)
        for group in itertools.takewhile(lambda _: not ended.is_set(), itertools.count())
        for seed in range(SIZE)
    )
    for group in by_group(pool.run(jobs, ScriptedModel(["none"])), SIZE):
        line = [[rollout.reward for rollout in group], [rollout.seed for rollout in group]]
        print(json.dumps(line), flush=True)
