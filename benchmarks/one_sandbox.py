"""One sandbox beside other people's: its start, a command, eight commands at once, and its memory.

    eval "$(benchmarks/peers.sh FOLDER)"
    .venv/bin/python benchmarks/one_sandbox.py [--runs 40] [--write] [--json] [--mini PYTHON]
        [--sandlock PYTHON]

    start    open a sandbox and run the first `true` in it; other sandboxes may be open
    exec     `true` in a sandbox that is open
    eight    eight `true` in one sandbox, from eight threads
    memory   PSS of the processes that an idle sandbox keeps, mean of four, without the program that
             opened them; containers with their shims and spare ones, daemons left out

The program that asks is a Python process for each system, which times itself (measuring/peer.py).
All systems take turns, and of their times the lower quartile counts. A number in brackets is that
system's figure divided by that of `intercode.sandbox()`.

Docker's containers have no network and are made of a small Debian by mmdebstrap. mini-swe-agent's
local and bubblewrap environments and sandlock start a process for each command and keep none, so
their start is that of their first command. What is not installed is left out, in words. Exit status
1 if a bound is missed: a start takes at most half of `docker run`, a command a fifth of `docker
exec`. `--write` puts the table into docs/performance.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

import peers
from fidelity.v1 import no_docker
from measuring.clock import Measure, lower_quartiles
from measuring.peer import Candidate, Peer, installed
from measuring.rows import Row, command, finish, skip
from measuring.systems import debian

KEPT = 4
"""How many idle sandboxes are weighed."""
BOUNDS = {("docker run, docker exec", "start"): 0.5, ("docker run, docker exec", "exec"): 0.2}
COLUMNS = {"start": "start", "exec": "`true`", "eight": "eight `true` at once", "memory": "memory"}

_ALL = ("start", "exec", "eight")
_SYSTEM = """
from concurrent.futures import ThreadPoolExecutor
{make}
boxes, pool = [], ThreadPoolExecutor(8)
def start():
    boxes.append(make())
    run(boxes[-1])
def eight():
    list(pool.map(run, boxes[:1] * 8))
operations = {{
    "start": start,
    "end": lambda: end(boxes.pop()),
    "exec": lambda: run(boxes[0]),
    "eight": eight,
}}
"""
_ENDING = """
while boxes:
    end(boxes.pop())
"""
_OURS = """
import intercode
make = lambda: {make}
def run(box):
    assert box.exec(["true"]).exit_code == 0
end = lambda box: box.close()
"""
_OUR_CONTAINERS = """
from intercode_sandbox.docker import daemon
owned = "label=" + daemon.owner_label()
containers = lambda: daemon.docker("ps", "--quiet", "--filter", owned).split()
"""
_DOCKER = """
import subprocess
def docker(*words):
    return subprocess.run(["docker", *words], capture_output=True, check=True, text=True).stdout
def make():
    return docker("run", "-d", "--network", "none", {image!r}, "sleep", "infinity").strip()
run = lambda box: docker("exec", box, "true")
end = lambda box: docker("rm", "--force", box)
containers = lambda: boxes
"""
_MINI = """
os.environ["MSWEA_SILENT_STARTUP"] = "1"
from {module} import {kind}
make = lambda: {kind}({options})
def run(box):
    said = box.execute({{"command": "true"}})
    assert said["returncode"] == 0, said
end = lambda box: getattr(box, "cleanup", lambda: None)()
"""
_MINI_CONTAINERS = """
import subprocess
def end(box):  # its own cleanup waits ten seconds in the background
    subprocess.run(["docker", "rm", "--force", box.container_id], capture_output=True, check=True)
    box.container_id = None
containers = lambda: [box.container_id for box in boxes]
"""
_SANDLOCK = """
from sandlock import Sandbox
make = lambda: Sandbox(fs_readable=["/"])
def run(box):
    said = box.run(["true"])
    assert said.exit_code == 0, said
end = lambda box: None
"""


def systems(mini: str | None, sandlock: str | None) -> Iterator[Candidate]:
    """Ours first. The Pythons have mini-swe-agent with intercode, and sandlock."""

    def system(
        name: str, python: str | None, make: str, operations: tuple[str, ...] = _ALL
    ) -> Candidate:
        return Candidate(name, python, _SYSTEM.format(make=make), operations, _ENDING)

    def of_mini(
        name: str, module: str, kind: str, options: str = "", containers: str = ""
    ) -> Candidate:
        make = _MINI.format(module=module, kind=kind, options=options) + containers
        return system(f"mini-swe-agent, {name}", mini, make)

    yield system("`intercode.sandbox()`", sys.executable, _OURS.format(make="intercode.sandbox()"))
    fork = "boxes[0].fork() if boxes else intercode.sandbox()"
    yield system("`box.fork()`, `box` being one", sys.executable, _OURS.format(make=fork))
    yield of_mini("intercode", "intercode_sandbox.adapters.mini_swe_agent", "IntercodeEnvironment")
    folder = "minisweagent.environments"
    yield of_mini("local", f"{folder}.local", "LocalEnvironment")
    yield of_mini("bubblewrap", f"{folder}.extra.bubblewrap", "BubblewrapEnvironment")
    yield system("sandlock", sandlock, _SANDLOCK, ("start", "exec"))  # one command at a time
    if why := no_docker():
        return skip("the systems on docker", why)
    image = debian()
    ours = _OURS.format(make=f"intercode.sandbox({image!r}, provider='docker')")
    yield system("`intercode.sandbox(provider='docker')`", sys.executable, ours + _OUR_CONTAINERS)
    yield system("docker run, docker exec", sys.executable, _DOCKER.format(image=image))
    options = f"image={image!r}, run_args=['--rm', '--network', 'none']"
    yield of_mini("docker", f"{folder}.docker", "DockerEnvironment", options, _MINI_CONTAINERS)


def measure(candidates: list[Candidate], runs: int) -> dict[str, peers.Figures]:
    with installed(candidates) as found:
        figures: dict[str, peers.Figures] = {peer.name: {} for peer in found}
        for peer in found:  # each keeps one open from here on
            peer.measure("start")
        for figure in _ALL:
            measured = one_more if figure == "start" else Peer.measure
            table: dict[str, Measure] = {
                peer.name: partial(measured, peer, figure)
                for peer in found
                if figure in peer.operations
            }
            times = max(4, runs // 4) if figure == "start" else runs
            for name, seconds in lower_quartiles(table, times).items():
                figures[name][figure] = seconds
        for peer in found:
            for _ in range(KEPT - 1):
                peer.measure("start")
            if memory := peer.memory(itself=False):
                figures[peer.name]["memory"] = memory / KEPT
    return figures


def one_more(peer: Peer, figure: str) -> float:
    """A start beside the sandbox that is open. The end is not timed."""
    seconds = peer.measure(figure)
    peer.measure("end")
    return seconds


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument(
        "--write", action="store_true", help="renew the table in docs/performance.md"
    )
    peers.add_options(parser, "mini", "sandlock")
    options = parser.parse_args()
    figures = measure([*systems(options.mini, options.sandlock)], options.runs)
    shown = peers.markdown([figures], COLUMNS)
    if options.write:
        peers.renew("one sandbox", shown)
    rows: list[Row] = [*peers.rows(figures, COLUMNS, BOUNDS)]
    return finish(options, rows, show=lambda: print(shown))


if __name__ == "__main__":
    sys.exit(main())
