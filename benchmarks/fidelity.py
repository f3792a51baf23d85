"""The first system beside ours: the same recorded actions, the same image, the same day; do they earn the same rewards?

    first system    `intercode-bench` in a Python of its own, its own Bash environment on two containers
    ours            the paper's protocol, on Docker, and on the local backend with the same image exported

GPT-3.5's actions of 2023 (Try Again on NL2Bash's fs_1, fs_3, fs_4) are played turn by turn. A reward agrees if it differs
by at most 0.011; of all turns at least 99 % must, on either backend. No side has a network. Each disagreement is given to
rules, all of them experiments (fidelity/beside.py), or listed as unexplained. What a side answered is not kept.

`python benchmarks/fidelity.py [--first PYTHON] [--json] [--out FILE] [--limit N] [--workers N] [NAME…]`, NAME as "fs_1";
skipped without the public data, the root v1-bash, Docker, or the first system (benchmarks/peers.sh installs it). Exit
status 1 if an agreement is below its bound. All of it takes about ten minutes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from fidelity import data, first
from fidelity.beside import BACKENDS, Compared, compare, record, world
from fidelity.proof import UNEXPLAINED
from measuring.rows import Row, absent, command, finish, table

BOUND = 0.99


def measure(run: data.Run, python: str, workers: int, limit: int | None) -> list[Compared]:
    here = world(run, python)
    today = record(here, workers, limit)
    return [compare(here, today, backend, workers) for backend in BACKENDS]


def rows(measured: Sequence[Compared]) -> Iterator[Row]:
    for each in measured:
        yield Row(f"{each.name}: turns whose rewards agree", each.figures["agree"], each.figures["turns"], unit="")
    for backend in BACKENDS:
        mine = [each.figures for each in measured if each.name.endswith(backend)]
        agree, turns = (sum(figures[key] for figures in mine) for key in ("agree", "turns"))
        yield Row(f"{backend}: turns whose rewards agree", agree, turns, BOUND, floor=True, unit="")


def show(measured: Sequence[Compared]) -> None:
    table(list(rows(measured)))
    for each in measured:
        figures = each.figures
        print(f"\n{each.name}: observations equal {figures['observations_equal']} of {figures['turns']}, ", end="")
        print(f"success {figures['recorded_success_rate']:.1%} and {figures['replayed_success_rate']:.1%}")
        for name, count in Counter(cause.proof.cause for cause in each.causes).items():
            print(f"  {count:4} {name}")
        for cause in each.causes:
            scene, rewards = cause.scene, f"{cause.scene.recorded:.2f}, ours {cause.replayed:.2f}"
            print(f"  task {scene.task.id} turn {scene.index}: {rewards}, {cause.proof.cause}")
            if cause.proof.cause == UNEXPLAINED:
                print(f"    {scene.action[:200]!r}\n    {scene.observation[:300]!r}\n    {scene.agent().output[:300]!r}")


def details(measured: Sequence[Compared]) -> list[dict[str, Any]]:
    return [{"name": each.name, "causes": [cause.as_json() for cause in each.causes]} for each in measured]


def main() -> int:
    parser = command(__doc__, out=True, workers=True)
    parser.add_argument("names", nargs="*", metavar="NAME", help="file systems; all three by default")
    parser.add_argument("--first", help=f"a Python with intercode-bench (${first.INTERPRETER})")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N tasks of each file system")
    options = parser.parse_args()
    python, missing = first.interpreter(options.first)
    runs = [run for run in data.runs() if run.name.startswith("multiturn")]
    chosen = [run for run in runs if not options.names or run.name.split()[-1] in options.names]
    if absent(options, *(run.path for run in chosen), *data.files(), why=data.no_image() or missing or first.no_docker()):
        return 0
    measured = [each for run in chosen for each in measure(run, python, options.workers, options.limit)]
    return finish(options, list(rows(measured)), show=lambda: show(measured), details=details(measured))


if __name__ == "__main__":
    sys.exit(main())
