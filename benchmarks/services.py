"""What a service beside the agent costs, as a ratio to the same task without one.

    .venv/bin/python benchmarks/services.py [--json]

A reset of a task with a service, less the time that the service's own program takes until its port
answers, against a reset without: the lower quartiles of 40, in turns, each after a tenth of a
second in which a model would think. Then 64 episodes on 32 environments at once, each of which asks
its own service twice.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path

from measuring.clock import timed
from measuring.rows import Row, command, finish

import intercode
from intercode.envs import services
from intercode.models import ScriptedModel
from intercode.train import RolloutPool, groups
from intercode_sandbox.base import Sandbox

ROUNDS, ENVS, EPISODES = 40, 32, 64
THINKING = 0.1
PROGRAM = """
import http.server
asked = []
class Counter(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"%d" % len(asked))
http.server.ThreadingHTTPServer(("127.0.0.1", 80), Counter).serve_forever()
"""
SERVICE = {"command": "exec python3 /srv/count.py", "port": 80, "files": {"/srv/count.py": PROGRAM}}
ASK = "```bash\ncurl -s http://count/; curl -s http://count/\n```"


def main() -> int:
    options = command(__doc__).parse_args()
    tasks = [
        {"id": id, "query": "What is 0x10 in decimal?", "gold": "16", **more}
        for id, more in (("without", {}), ("with", {"services": {"count": SERVICE}}))
    ]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)))
        factory = intercode.prepare("ctf", data=folder)
        rows = [*resets(factory), *many(factory)]
    return finish(options, rows)


def resets(factory: intercode.EnvFactory) -> list[Row]:
    seconds: dict[str, list[float]] = {"with": [], "without": [], "ready": []}
    start = services._start

    def timed_start(service: services.Service, box: Sandbox) -> None:
        seconds["ready"].append(timed(lambda: start(service, box)))

    services._start = timed_start
    with closing(factory()) as one, closing(factory()) as other:
        for _ in range(ROUNDS):
            for id, env in (("with", one), ("without", other)):
                reset = partial(env.reset, options={"task": id})
                reset()
                env.step("true")
                time.sleep(THINKING)
                seconds[id].append(timed(reset))
    services._start = start
    with_one, without, ready = (statistics.quantiles(times)[0] for times in seconds.values())
    return [
        Row("reset beside a service, less its own time to ready", with_one - ready, without, 2),
        Row("the service's own time to ready, against that reset", ready, without),
    ]


def many(factory: intercode.EnvFactory) -> list[Row]:
    policy = ScriptedModel([ASK, "```bash\nsubmit 16\n```"])
    began = time.perf_counter()
    with RolloutPool(factory, envs=ENVS) as pool:
        rollouts = list(pool.run(groups(["with"], EPISODES), policy))
    seconds = time.perf_counter() - began
    right = sum(rollout.episode.turns[0].observation == "12" for rollout in rollouts)
    return [
        Row(f"{EPISODES} episodes on {ENVS} at once that saw their own service",
            right, EPISODES, 1, floor=True, unit=""),
        Row("seconds of these episodes", seconds),
    ]  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
