"""One table of the systems beside which this one stands: starts, commands, verdicts and episodes a
second, memory, each with its ratio to ours, and how many golds print the same.

    .venv/bin/python benchmarks/peers.py [--runs 15] [--write] [--json] [--first PYTHON] [--swe-rex
    PYTHON] [--mini PYTHON]
        [--sandlock PYTHON] [--bashkit PYTHON]

Each system is a process of its own that times itself (measuring/systems.py says what is timed).
In a round each system in turn plays five in a row, of which the median counts: of the rounds a
step's figure is the lower quartile, a reset's and a verdict's the best of three. Throughput is that
of two such processes at the same time, `--runs` episodes each, starting them left out; memory is
the PSS of a process with one environment and of all that it started, containers with their shims
and spare ones among it. A number in brackets is that system's figure divided by ours of the same
kind, local or on Docker.

Of a system whose shell is not bash, `outputs` counts, of the starter golds that print something,
those after which it has the output, lines in any order, and the exit status that ours has. Files
are not compared.

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
from statistics import median

from fidelity import v1
from measuring import systems
from measuring.clock import Measure, lower_quartiles, timed
from measuring.peer import Peer, installed
from measuring.rows import Row, Unit, command, finish, skip

RATES = {
    "reset": "starts/s",
    "step": "commands/s",
    "verdict": "verdicts/s",
    "throughput": "episodes/s, two at a time",
}
COLUMNS = {**RATES, "memory": "memory", "outputs": "same output"}
"""The figures, and how the table names them."""
UNITS: dict[str, Unit] = {"memory": "B", "outputs": ""}
FEW = 4
"""Resets and verdicts, which may start containers, have this many times fewer rounds than steps."""
IN_A_ROW = 5
BEFORE = {"step": (), "reset": ("step",), "verdict": ("reset", "step")}
"""What comes before each and is not timed: a reset of what nobody has used costs nothing."""
BOUNDS = {("SWE-ReX, docker", "step"): 0.5, ("intercode-bench, docker", "throughput"): 1 / 3}
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"

Figures = dict[str, float]
"""Seconds (for throughput those of an episode), bytes of memory, and a number of golds."""


def measure(pairs: Sequence[systems.Pair], runs: int) -> dict[str, Figures]:
    with installed([one for one, _ in pairs]) as peers:
        found: dict[str, Figures] = {peer.name: {} for peer in peers}
        for figure in BEFORE:
            table: dict[str, Measure] = {
                peer.name: partial(in_a_row, peer, figure)
                for peer in peers
                if figure in peer.operations
            }
            for name, seconds in lower_quartiles(
                table, runs if figure == "step" else max(2, runs // FEW)
            ).items():
                found[name][figure] = seconds
        for peer in peers:
            found[peer.name]["memory"] = peer.memory()
        outputs = {peer.name: peer.outputs() for peer in peers}
        reference = outputs[peers[0].name]
        for name in filter(outputs.get, outputs):
            both = zip(outputs[name], reference, strict=True)
            found[name]["outputs"] = sum(its == ours for its, ours in both if ours[0])
        with installed([other for _, other in pairs if other.name in found]) as others:
            twins = {other.name: other for other in others}
            for peer in peers:
                found[peer.name]["throughput"] = together((peer, twins[peer.name]), runs)
    return found


def in_a_row(peer: Peer, figure: str) -> float:
    """Return the median seconds of a figure, `IN_A_ROW` times without a pause, since in a pause a
    system may prepare its next start."""
    seconds = []
    for _ in range(IN_A_ROW):
        for before in BEFORE[figure]:
            peer.measure(before)
        seconds.append(peer.measure(figure))
    return median(seconds)


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
            words = "an episode, two at a time" if figure == "throughput" else figure
            yield Row(
                f"{words}: {ours}, against {name}",
                found[ours][figure],
                found[name][figure],
                bounds.get((name, figure)),
                unit=UNITS.get(figure, "s"),
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
    value, ratio = at[figure], at[figure] / ours[figure]
    if figure == "outputs":
        return f"{value} of {ours[figure]}"
    if figure in RATES:
        shown, ratio = _digits(1 / value, 3), 1 / ratio
    elif figure == "memory":
        shown = f"{value / 2**20:.0f} MiB"
    else:
        shown = f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"
    return shown if at is ours else f"{shown} ({_digits(ratio, 2)})"


def _digits(value: float, count: int) -> str:
    return f"{float(f'{value:.{count}g}'):,g}"


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
        "bashkit": "BASHKIT",
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
    with ExitStack() as stack:
        pairs = systems.local(stack, options.mini, options.sandlock, options.bashkit)
        groups = [measure([*pairs], options.runs)]
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
