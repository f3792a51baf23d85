"""One table of the systems beside which this one stands: step, reset, episode, throughput, memory,
each with its ratio to ours.

    .venv/bin/python benchmarks/peers.py [--runs 15] [--write] [--json] [--first PYTHON] [--swe-rex
    PYTHON] [--mini PYTHON]
        [--sandlock PYTHON]

Each system is a process of its own that times itself (measuring/systems.py says what is timed).
Steps, resets and episodes are lower quartiles, all systems in turns; throughput is that of two such
processes at the same time, starting them left out; memory is the PSS of a process with one
environment and of all that it started, containers with their shims and spare ones among it. A
number in brackets is that system's figure divided by ours of the same kind, local or on Docker.

The systems are found by variables that `benchmarks/peers.sh` prints; what is not installed is left
out, in words; what is installed and fails ends the script. Exit status 1 if a bound is missed: a
step on Docker at most half of SWE-ReX's, an episode there a third of intercode-bench's. `--write`
puts the table into docs/performance.md.
"""

from __future__ import annotations

import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from fidelity import v1
from measuring import systems
from measuring.clock import Measure, lower_quartiles, timed
from measuring.peer import Peer, installed
from measuring.rows import Row, Unit, command, finish, skip

COLUMNS = {
    "step": "step",
    "reset": "reset",
    "episode": "episode",
    "throughput": "two at a time",
    "memory": "memory",
}
"""The figures, and how the table names them."""
FEW = 4
"""How much rarer what may start containers is measured than a step."""
BOUNDS = {("SWE-ReX, docker", "step"): 0.5, ("intercode-bench, docker", "throughput"): 1 / 3}
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"

Figures = dict[str, float]
"""Seconds (for throughput those of an episode), and bytes of memory."""


def measure(pairs: Sequence[systems.Pair], runs: int) -> dict[str, Figures]:
    with installed([one for one, _ in pairs]) as peers:
        found: dict[str, Figures] = {peer.name: {} for peer in peers}
        for figure in ("step", "reset", "episode"):
            table: dict[str, Measure] = {
                peer.name: partial(after_a_step, peer, figure)
                for peer in peers
                if figure in peer.operations
            }
            for name, seconds in lower_quartiles(
                table, runs if figure == "step" else max(2, runs // FEW)
            ).items():
                found[name][figure] = seconds
        for peer in peers:
            found[peer.name]["memory"] = peer.memory()
        with installed([other for _, other in pairs if other.name in found]) as others:
            twins = {other.name: other for other in others}
            for peer in peers:
                found[peer.name]["throughput"] = together(
                    (peer, twins[peer.name]), max(2, runs // FEW)
                )
    return found


def after_a_step(peer: Peer, figure: str) -> float:
    """A reset of what nobody has used costs nothing, and an episode begins with one."""
    for before in ("reset", "step") if figure != "step" else ():
        if before in peer.operations:
            peer.measure(before)
    return peer.measure(figure)


def together(pair: Sequence[Peer], times: int) -> float:
    """Seconds for each episode of two systems at the same time."""

    def play(peer: Peer) -> None:
        for _ in range(times):
            peer.measure("episode")

    with ThreadPoolExecutor(len(pair)) as pool:
        return timed(lambda: list(pool.map(play, pair))) / times / len(pair)


def on_docker(options: Namespace, runs: int) -> dict[str, Figures]:
    with ExitStack() as stack:
        return measure(
            [*systems.on_docker(stack, options.first, options.swe_rex, options.mini)], runs
        )


def rows(
    found: dict[str, Figures],
    columns: Mapping[str, str] = COLUMNS,
    bounds: Mapping[tuple[str, str], float] = BOUNDS,
) -> Iterator[Row]:
    ours, *theirs = found
    for name in theirs:
        for figure in (each for each in columns if each in found[name]):
            words = "an episode, two at a time" if figure == "throughput" else columns[figure]
            bound = bounds.get((name, figure))
            unit: Unit = "B" if figure == "memory" else "s"
            yield Row(
                f"{words}: {ours}, against {name}",
                found[ours][figure],
                found[name][figure],
                bound,
                unit=unit,
            )


def markdown(groups: Sequence[dict[str, Figures]], columns: Mapping[str, str] = COLUMNS) -> str:
    lines = [f"| | {' | '.join(columns.values())} |", "|---" * (len(columns) + 1) + "|"]
    for found in groups:
        ours = next(iter(found.values()))
        lines += [
            f"| {name} | {' | '.join(cell(at, ours, figure) for figure in columns)} |"
            for name, at in found.items()
        ]
    return "\n".join(lines) + "\n"


def cell(at: Figures, ours: Figures, figure: str) -> str:
    if figure not in at:
        return "–"
    value = at[figure]
    seconds = f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"
    shown = {"memory": f"{value / 2**20:.0f} MiB", "throughput": f"{1 / value:.3g}/s"}.get(
        figure, seconds
    )
    ratio = ours[figure] / value if figure == "throughput" else value / ours[figure]
    return shown if at is ours else f"{shown} ({ratio:.2g})"


def renew(name: str, table: str) -> None:
    """Write a table between the marks of that name in docs/performance.md."""
    place = re.compile(rf"(?s)(?<=<!-- {name} -->\n).*(?=<!-- /{name} -->)")
    PAGE.write_text(place.sub(lambda _: table, PAGE.read_text()))


def add_options(parser: ArgumentParser, *only: str) -> None:
    """Options that name the systems' Pythons: all, or `only` some."""
    names = {
        "first": "INTERCODE_BENCH",
        "swe-rex": "SWE_REX",
        "mini": "MINI_SWE_AGENT",
        "sandlock": "SANDLOCK",
    }
    for option in only or names:
        variable = f"{names[option]}_PYTHON"
        parser.add_argument(
            f"--{option}",
            default=os.environ.get(variable),
            help=f"a Python that has it (${variable})",
        )


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument(
        "--write", action="store_true", help="renew the table in docs/performance.md"
    )
    add_options(parser)
    options = parser.parse_args()
    groups = [measure([*systems.local(options.mini, options.sandlock)], options.runs)]
    if why := v1.no_docker():
        skip("the systems on docker", why)
    else:
        groups.append(on_docker(options, options.runs))
    shown = markdown(groups)
    if options.write:
        renew("peers", shown)
    return finish(
        options, [row for found in groups for row in rows(found)], show=lambda: print(shown)
    )


if __name__ == "__main__":
    sys.exit(main())
