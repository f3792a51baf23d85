"""The first system beside ours: the same recorded actions, the same image, the same day; do they
earn the same rewards?

    first system    `intercode-bench` in a Python of its own, its own Bash environment on two
                    containers
    ours            the paper's protocol, on Docker, and on the local backend with the same image
                    exported

GPT-3.5's actions of 2023 (Try Again on NL2Bash's fs_1, fs_3, fs_4) are played turn by turn. A
reward agrees if it differs by at most 0.011; of all turns at least 99 % must, on either backend. No
side has a network. What a side answered is not kept.

`python benchmarks/fidelity.py [--first PYTHON] [--json] [--out FILE] [--limit N] [--workers N]
[NAME…]`, NAME as "fs_1"; skipped without the public data, the root v1-bash, Docker, or the first
system (benchmarks/peers.sh installs it). Exit status 1 if an agreement is below its bound. All of
it takes about ten minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from fidelity import data, first
from fidelity.beside import BACKENDS, compare, record, world
from measuring.rows import Row, absent, command, finish, table

BOUND = 0.99


def measure(
    run: data.Run, python: str, workers: int, limit: int | None
) -> dict[str, dict[str, Any]]:
    """The figures of `intercode replay --json`, by file system and backend."""
    here = world(run, python)
    today = record(here, workers, limit)
    return {
        f"{run.name.split()[-1]} {backend}": compare(here, today, backend, workers)
        for backend in BACKENDS
    }


def rows(measured: Mapping[str, dict[str, Any]]) -> Iterator[Row]:
    for name, figures in measured.items():
        yield Row(f"{name}: turns whose rewards agree", figures["agree"], figures["turns"], unit="")
    for backend in BACKENDS:
        mine = [figures for name, figures in measured.items() if name.endswith(backend)]
        agree, turns = (sum(figures[key] for figures in mine) for key in ("agree", "turns"))
        yield Row(f"{backend}: turns whose rewards agree", agree, turns, BOUND, floor=True, unit="")


def show(measured: Mapping[str, dict[str, Any]]) -> None:
    table(list(rows(measured)))
    for name, figures in measured.items():
        print(
            f"\n{name}: observations equal {figures['observations_equal']} of {figures['turns']}, ",
            end="",
        )
        print(
            f"success {figures['recorded_success_rate']:.1%} and"
            f" {figures['replayed_success_rate']:.1%}"
        )
        for row in figures["disagreements"]:
            print(
                f"  task {row['task']} turn {row['turn']}: {row['recorded']:.2f}, ours"
                f" {row['replayed']:.2f}"
            )


def main() -> int:
    parser = command(__doc__, out=True, workers=True)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="file systems; all three by default"
    )
    parser.add_argument("--first", help=f"a Python with intercode-bench (${first.INTERPRETER})")
    parser.add_argument(
        "--limit", type=int, metavar="N", help="only the first N tasks of each file system"
    )
    options = parser.parse_args()
    python, missing = first.interpreter(options.first)
    runs = [run for run in data.runs() if run.name.startswith("multiturn")]
    chosen = [run for run in runs if not options.names or run.name.split()[-1] in options.names]
    if absent(
        options,
        *(run.path for run in chosen),
        *data.files(),
        why=data.no_image() or missing or first.no_docker(),
    ):
        return 0
    measured = dict[str, dict[str, Any]]()
    for run in chosen:
        measured |= measure(run, python, options.workers, options.limit)
    # which hold texts of the data
    details = {name: {**figures, "disagreements": None} for name, figures in measured.items()}
    return finish(options, list(rows(measured)), show=lambda: show(measured), details=details)


if __name__ == "__main__":
    sys.exit(main())
