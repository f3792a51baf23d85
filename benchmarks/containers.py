"""How much slower is an episode in an ordinary container? The starter sets, with golds as the
agent, one episode at a time.

    outside                               local sandbox
    docker run seccomp=unconfined         local sandbox, the container's /proc     at most 1.5 times
    docker run                            pod                                      at most 8 times

    python benchmarks/containers.py [--json] [--rounds 3]

A figure is the mean time of an episode over a set, of the quickest round; the sides take turns. The
first episodes, in which sandboxes start and golds are executed, do not count. Only tasks that all
sides can play count. Needs Docker and Debian's mmdebstrap, which makes the image; exit status 1 if
a bound is missed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measuring.rows import Row, command, finish

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sandbox"))
from docker_images import debian

SETS = ("bash", "sql", "python", "ctf")
SIDES: dict[str, tuple[list[str] | None, float]] = {
    "outside": (None, 1.0),
    "shared /proc": (["--security-opt", "seccomp=unconfined"], 1.5),
    "pod": ([], 8.0),
}
PLAYER = """
import json, sys, time
import intercode
from intercode.agents import gold
from intercode.errors import IntercodeError
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play

sets = {name: intercode.prepare(name) for name in sys.argv[1:]}
envs = {name: made() for name, made in sets.items()}
for name, env in envs.items():
    solved = []
    for task in sets[name].tasks:
        try:
            solved += [task.id] * (play(env, task, gold, None, BudgetTracker()).reward == 1)
        except IntercodeError:
            pass
    print(json.dumps(solved), flush=True)
for line in sys.stdin:
    name, *ids = json.loads(line)
    tasks = [task for task in sets[name].tasks if task.id in ids]
    began = time.perf_counter()
    for task in tasks:
        play(envs[name], task, gold, None, BudgetTracker())
    print((time.perf_counter() - began) / len(tasks), flush=True)
"""


class Side:
    """A process that plays episodes, outside or in a container."""

    def __init__(self, options: list[str] | None) -> None:
        words = [sys.executable]
        if options is not None:
            folders = [
                path for path in sys.path if path.startswith("/") and not path.startswith("/usr")
            ]
            mounts = [word for path in folders for word in ("--volume", f"{path}:{path}:ro")]
            words = ["docker", "run", "--rm", "-i", "--network", "none", *options, *mounts]
            words += ["--env", f"PYTHONPATH={':'.join(folders)}", debian(), "python3"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [*words, "-c", PLAYER, *SETS], stdin=pipe, stdout=pipe, text=True
        )

    def answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def play(self, name: str, tasks: set[str]) -> float:
        assert self._process.stdin is not None
        print(json.dumps([name, *tasks]), file=self._process.stdin, flush=True)
        return float(self.answer())

    def close(self) -> None:
        self._process.communicate()


def rows(rounds: int) -> Iterator[Row]:
    sides = {name: Side(options) for name, (options, _) in SIDES.items()}
    solved = {name: {each: set(side.answer()) for each in SETS} for name, side in sides.items()}
    for each in SETS:
        tasks = set.intersection(*(found[each] for found in solved.values()))
        times: dict[str, list[float]] = {name: [] for name in SIDES}
        for _ in range(rounds):
            for name, side in sides.items():
                times[name].append(side.play(each, tasks))
        for name, (_, bound) in SIDES.items():
            note = f"{len(tasks)} of {len(solved['outside'][each])} tasks"
            yield Row(f"{each}, {name}", min(times[name]), min(times["outside"]), bound, note=note)
    for side in sides.values():
        side.close()


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    return finish(options, list(rows(options.rounds)))


if __name__ == "__main__":
    sys.exit(main())
