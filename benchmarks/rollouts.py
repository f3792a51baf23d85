"""How much a training step costs beyond its generator: 128 rollouts of five turns, generated in
batches, while the others act.

    .venv/bin/python benchmarks/rollouts.py [--rollouts 128] [--envs 64] [--runs 3] [--json] [--mini
    PYTHON]

A reply has 50 tokens (a token is a character). It is one of four commands on files, then `submit`.
`RolloutPool.run_batch` plays the rollouts, after one step to start the environments, and scores
each. Two generators sleep, each with a pool of its own:

proportional    for the tokens of the batch, 2,000 a second in all, as a server does that is full:
                alone it needs 128 · 5 · 50 / 2000 = 16 s
flat            one second for any batch, as a GPU with room: the fewest calls are 128 · 5 / 64 = 10

The figure of the first is the time of the quickest of three steps (on docker: of one), since what
others do on the machine only adds; that of the second is the fewest calls of a step.

Beside it stand the environments of mini-swe-agent (bubblewrap, docker) in the same pool, with the
same commands: a fresh one for each episode, without a score. A variable that `benchmarks/peers.sh`
prints names them; what is not installed is left out.

The first step of a new pool is measured too, without and with `warm()`, which is not part of it.

Then a generator answers at once. Rows say what an episode costs when 2 or 4 hosts have the
environments (`hosts=`), against environments in this process: elapsed time, processor time of all
processes and of this one, as lower quartiles of steps in turn.

Exit status 1 if a bound is missed: a step of ours takes at most 1.05 times the proportional
generator's own time, and at most 1.1 times the fewest calls of the flat one; at most 5 % of calls
are for a few episodes while the others act; with hosts, an episode
takes at most 1.05 times the time and 1.1 times the processor time of one process.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from fidelity import v1
from measuring import systems
from measuring.clock import timed
from measuring.memory import family
from measuring.rows import Row, command, finish, skip

import intercode
from intercode.factory import EnvFactory
from intercode.runner.env_forks import Playable
from intercode.train import Job, RolloutPool, groups
from intercode.types import Message, Task
from intercode_sandbox.docker.daemon import docker

COMMANDS = (
    *("seq 999 >a; sort -r a >b", "sed -i s/9/x/ b; grep -c x b", "mkdir -p d; cp a b d; ls d"),
    *("head -n 3 d/b; rm a; wc -l b", "submit"),
)
TOKENS = 50
"""Tokens of a reply."""
RATE = 2000
"""Tokens a second."""
CALL = 1.0
"""Seconds of a call of the flat generator."""
BOUND = 1.05
HOSTS = (2, 4)
COSTS = {
    "elapsed time of an episode, against one process": 1.05,
    "processor time of an episode, against one process": 1.1,
    "processor time of the caller for an episode, against one process": 1.0,
}
"""What is measured with hosts, and the bounds."""
MOST_CALLS = 1.1
"""Times the fewest calls of the flat generator."""
OPENING = 0x110000
"""The token that opens a reply; all others are characters."""
VERSION = (
    "import sys, sysconfig; print(*sys.version_info[:2], sep='.');"
    " print(sysconfig.get_path('purelib'))"
)


class Characters:
    """A chat whose tokens are characters."""

    def encode(self, messages: Sequence[Message]) -> list[int]:
        return [
            *map(
                ord, "".join(f"{message['role']}: {message['content']}\n" for message in messages)
            ),
            OPENING,
        ]

    def append(self, ids: list[int], messages: Sequence[Message], known: int) -> list[int]:
        return ids + self.encode(messages[known:])

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(map(chr, token_ids))


class Generator:
    """Replies with the command of the turn, and sleeps: `call` seconds, and `token` seconds for
    each token of the batch."""

    def __init__(self, call: float = 0.0, token: float = 0.0) -> None:
        self.call, self.token = call, token
        self.sizes: list[int] = []

    @property
    def calls(self) -> int:
        return len(self.sizes)

    def needless(self, rollouts: int, envs: int) -> float:
        """Share of the calls that were for less than a quarter of a half of the episodes, though
        more questions than there are episodes were still to come in their step."""
        few, left = 0, 0
        for size in self.sizes:
            left = (left or rollouts * len(COMMANDS)) - size
            few += size * 8 < envs and left >= envs
        return few / self.calls

    def __call__(self, prompts: list[list[int]]) -> list[tuple[list[int], list[float]]]:
        self.sizes.append(len(prompts))
        time.sleep(self.call + self.token * TOKENS * len(prompts))
        return [(reply(prompt.count(OPENING)), [-1.0] * TOKENS) for prompt in prompts]


def reply(turn: int) -> list[int]:
    block = f"\n```bash\n{COMMANDS[turn - 1]}\n```"
    return [ord(each) for each in f"{'I go on.':.<{TOKENS - len(block)}}{block}"]


class Mini:
    """An environment of mini-swe-agent for the pool: a fresh one for each episode, and no score."""

    protocol = "submit"

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make, self.env = make, None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        self.close()
        self.env = self.make()
        return "Act on files.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action == "submit":
            return "", 0.0, True, False, {}
        assert self.env is not None
        found = self.env.execute({"command": action})
        assert found["returncode"] == 0, found
        return found["output"], 0.0, False, False, {"exit_code": 0}

    def close(self) -> None:
        if self.env is not None:
            self.env.cleanup()
            self.env = None


def steps(
    make_env: Callable[[], Playable],
    tasks: Sequence[Task],
    options: Any,
    generator: Generator,
    *,
    warm: int,
    runs: int,
) -> list[tuple[float, int]]:
    """Seconds and calls of `runs` steps, after a step of `warm` rollouts."""
    jobs = groups(tasks, options.rollouts // len(tasks))
    found = []
    with RolloutPool(make_env, "try_again", envs=options.envs, tasks=tasks) as pool:
        pool.run_batch(jobs[:warm], Generator(), Characters())
        for _ in range(runs):
            before = generator.calls
            seconds = timed(partial(step, pool, jobs, generator))
            found.append((seconds, generator.calls - before))
    return found


def step(pool: RolloutPool, jobs: Sequence[Job], generator: Generator) -> None:
    for each in pool.run_batch(jobs, generator, Characters()):
        turns = each.episode.turns
        assert len(turns) == len(COMMANDS), each.episode
        assert all(turn.exit_code in (0, None) for turn in turns), each.episode


def processor_seconds() -> float:
    """Processor time of this process and of all that descend from it, ended ones too."""
    ticks = 0
    for pid in family(os.getpid()):
        with suppress(OSError):  # it has ended
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def hosts(factory: EnvFactory, options: Any) -> Iterator[Row]:
    """Rows of episodes on hosts, against episodes in this process."""
    jobs = groups(factory.tasks, options.rollouts // len(factory.tasks))
    costs: dict[int, list[tuple[float, ...]]] = {}
    with ExitStack() as opened:
        pools = {
            count: opened.enter_context(
                RolloutPool(factory, "try_again", envs=options.envs, hosts=count)
            )
            for count in (1, *HOSTS)
        }
        for pool in pools.values():
            pool.warm()
            step(pool, jobs, Generator())
        for _ in range(max(3, options.runs)):
            for count, pool in pools.items():
                used, here = processor_seconds(), time.process_time()
                seconds = timed(partial(step, pool, jobs, Generator()))
                used, here = processor_seconds() - used, time.process_time() - here
                cost = (seconds, used, here)
                costs.setdefault(count, []).append(tuple(each / len(jobs) for each in cost))
    lower = {
        count: [sorted(column)[len(column) // 4] for column in zip(*rows, strict=True)]
        for count, rows in costs.items()
    }
    for number, (what, bound) in enumerate(COSTS.items()):
        for count in HOSTS:
            yield Row(f"{count} hosts: {what}", lower[count][number], lower[1][number], bound)


def first_step(factory: EnvFactory, options: Any, *, warm: bool) -> tuple[float, int]:
    """Seconds and calls of the first step of a new pool with the flat generator."""
    generator = Generator(call=CALL)
    jobs = groups(factory.tasks, options.rollouts // len(factory.tasks))
    with RolloutPool(factory, "try_again", envs=options.envs) as pool:
        if warm:
            pool.warm()
        return timed(partial(step, pool, jobs, generator)), generator.calls


def peers(python: str | None) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names of mini-swe-agent's environments, and functions that make them, imported from the
    folder of its interpreter."""
    if python is None:
        return skip("mini-swe-agent", "no interpreter is named for it (see --help)")
    asked = subprocess.run(
        [python, "-I", "-c", VERSION], capture_output=True, text=True, check=True
    )
    version, folder = asked.stdout.splitlines()
    if version != f"{sys.version_info.major}.{sys.version_info.minor}":
        return skip(
            "mini-swe-agent", f"it has Python {version}: run peers.sh with PYTHON={sys.executable}"
        )
    sys.path.append(folder)  # last, so that our own packages are used where both have them
    os.environ["MSWEA_SILENT_STARTUP"] = "1"
    module = "minisweagent.environments"
    bubblewrap = resolve_name(f"{module}.extra.bubblewrap:BubblewrapEnvironment")
    container = resolve_name(f"{module}.docker:DockerEnvironment")
    logging.getLogger("minisweagent").setLevel(logging.WARNING)
    yield "mini-swe-agent, bubblewrap", bubblewrap
    if why := v1.no_docker():
        return skip("mini-swe-agent, docker", why)
    mark = f"intercode-bench-rollouts={os.getpid()}"
    how = {"image": systems.debian(), "run_args": ["--rm", "--network", "none", "--label", mark]}
    try:
        yield "mini-swe-agent, docker", partial(container, **how)
    finally:  # its own cleanup goes on in the background, and may fail on a busy machine
        if left := docker("ps", "--all", "--quiet", "--filter", f"label={mark}").split():
            docker("rm", "--force", *left, seconds=120)


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--rollouts", type=int, default=128)
    parser.add_argument("--envs", type=int, default=64, help="environments at once")
    parser.add_argument("--runs", type=int, default=3, help="steps, of which the quickest counts")
    parser.add_argument(
        "--mini",
        default=os.environ.get("MINI_SWE_AGENT_PYTHON"),
        help="a Python that has mini-swe-agent",
    )
    options = parser.parse_args()
    factory = intercode.prepare("bash", limit=16)
    count = options.rollouts * len(COMMANDS)
    alone, fewest = count * TOKENS / RATE, -(-count // options.envs)
    full, roomy = Generator(token=1 / RATE), Generator(call=CALL)
    ours = steps(factory, factory.tasks, options, full, warm=options.rollouts, runs=options.runs)
    flat = steps(factory, factory.tasks, options, roomy, warm=options.rollouts, runs=options.runs)
    seconds, calls = min(ours)[0], min(calls for _, calls in flat)
    rows = [
        Row("intercode, against the generator alone", seconds, alone, BOUND),
        Row("flat generator: calls, against the fewest", calls, fewest, MOST_CALLS, unit=""),
        Row("flat generator: step, against its calls alone", min(flat)[0], fewest * CALL),
    ]
    for name, generator in (("proportional", full), ("flat", roomy)):
        share = generator.needless(options.rollouts, options.envs)
        rows.append(Row(f"{name} generator: share of needless calls", share, 0.05, 1.0, unit=""))
    cold, warm = (first_step(factory, options, warm=warm) for warm in (False, True))
    rows += [
        Row("flat generator: first step of a new pool, against a later one", cold[0], min(flat)[0]),
        Row("flat generator: the same after warm()", warm[0], min(flat)[0]),
        Row("flat generator: calls of the first step", cold[1], fewest, unit=""),
        *hosts(factory, options),
    ]
    for name, make in peers(options.mini):
        runs = 1 if "docker" in name else options.runs
        (theirs, _), *_ = sorted(
            steps(partial(Mini, make), factory.tasks, options, full, warm=4, runs=runs)
        )
        rows += [
            Row(f"{name}, against the generator alone", theirs, alone),
            Row(f"intercode, against {name}", seconds, theirs),
        ]
    return finish(options, rows)


if __name__ == "__main__":
    sys.exit(main())
