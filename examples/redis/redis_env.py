"""An environment with a service inside: the agent works in Bash on a Redis server, in a container of an image of our own.

    mmdebstrap --variant=minbase bookworm | docker import - intercode-base            once, for the Dockerfile's FROM
    PYTHONPATH=examples/redis intercode eval redis_env:RedisEnv --agent gold

No process outlives the building of an image, so `start` begins the server in each episode. What the server holds is in no
file; `probe` prints it, after the agent and after the gold.
"""

from __future__ import annotations

from intercode import BashEnv, Outcome, Score, Task


class RedisEnv(BashEnv):
    sandbox = "docker"
    image = "image/Dockerfile"
    data = "tasks.jsonl"
    start = """
        setsid redis-server --save '' > /dev/null 2>&1 &
        until redis-cli ping > /dev/null 2>&1; do kill -0 $! || exit; done
        redis-cli < /srv/shed.redis
    """
    probe = """
        redis-cli --raw keys '*' | sort | while read -r key; do
            kind=$(redis-cli --raw type "$key")
            echo "$kind $key $([ "$(redis-cli --raw ttl "$key")" = -1 ] || echo expires)"
            case $kind in
                string) redis-cli --raw get "$key" ;;
                list) redis-cli --raw lrange "$key" 0 -1 ;;
                set) redis-cli --raw smembers "$key" | sort ;;
                zset) redis-cli --raw zrange "$key" 0 -1 withscores ;;
                hash) redis-cli --raw hgetall "$key" | paste - - | sort ;;
            esac
        done
    """

    def reward(self, agent: Outcome, gold: Outcome, task: Task) -> Score:
        """The server must hold the same; where a question was asked, the answer must have the same words in any order."""
        kept = agent.probe == gold.probe
        told = task.extra["kind"] == "effect" or sorted(agent.output.split()) == sorted(gold.output.split())
        return Score(float(kept and told), kept and told, {"kept": float(kept), "told": float(told)})
