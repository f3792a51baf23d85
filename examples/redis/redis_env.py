"""An environment with a service inside: the agent works in Bash on a Redis server, in a container
of an image of our own.

    mmdebstrap --variant=minbase bookworm | docker import - intercode-base    once, for the FROM of
                                                                              the Dockerfile
    PYTHONPATH=examples/redis intercode eval redis_env:RedisEnv --agent gold

No process outlives the building of an image, so `start` begins the server in each episode. What the
server holds is in no file; `probe` shows it, as a digest of all keys, values and whether they
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
        """The server must hold the same; where a question was asked, the answer must have the same
        words in any order."""
        kept = agent.probe == gold.probe
        told = task.extra["kind"] == "effect" or sorted(agent.output.split()) == sorted(
            gold.output.split()
        )
        return Score(
            float(kept and told), kept and told, {"kept": float(kept), "told": float(told)}
        )
