"""An environment with a service inside: the agent works in Bash on a Redis server, in a container
from our own image.

    mmdebstrap --variant=minbase bookworm | docker import - intercode-base    once, for the FROM in
                                                                              the Dockerfile
    PYTHONPATH=examples/redis intercode eval redis_env:RedisEnv --agent gold

Processes do not survive the build of an image, so `start` starts the server in each episode. The
server keeps its data in no file; `probe` prints a digest of all keys, their values and whether they
expire, after the agent and after the gold.
"""

from __future__ import annotations

from intercode import BashEnv, Outcome, Score, Task


class RedisEnv(BashEnv):
    sandbox = "docker"
    image = "image/Dockerfile"
    data = "tasks.jsonl"
    start = """
        setsid redis-server --save '' --enable-debug-command local > /dev/null 2>&1 &
        until redis-cli ping > /dev/null 2>&1; do kill -0 $! || exit; done
        redis-cli < /srv/shed.redis
    """
    probe = "redis-cli debug digest"

    def reward(self, agent: Outcome, gold: Outcome, task: Task) -> Score:
        """Require the same data in the server, and if the task asks a question, the same words in
        the answer, in any order."""
        kept = agent.probe == gold.probe
        told = task.extra["kind"] == "effect" or sorted(agent.output.split()) == sorted(
            gold.output.split()
        )
        return Score(
            float(kept and told), kept and told, {"kept": float(kept), "told": float(told)}
        )
