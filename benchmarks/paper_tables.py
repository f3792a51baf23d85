"""The tables of the first system's paper, rebuilt from its recorded runs: success by method and
data set, hardness, turn.

    python benchmarks/paper_tables.py [FOLDER] [--json] [--out FILE]

FOLDER holds the log files, by default the public ones. Files of one environment, method and number
of turns are one run over several data sets. Success is a best reward of exactly 1, in percent. Exit
status 1 if a rate is not the published one. Nothing is executed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fidelity import data
from measuring.rows import Row, absent, command, finish
from rich.console import Console

from intercode.report.analysis import by_turn, compare
from intercode.report.summary import LEVELS, groups, load, mean
from intercode.report.tables import comparison, render, table
from intercode.types import Episode

METHODS = {"try_again": "Try Again", "react": "ReAct", "plan_solve": "Plan & Solve"}
PUBLISHED = {
    "sql, Single Turn": 10.5,
    "sql, Try Again": 47.3,
    "sql, ReAct": 58.7,
    "sql, Plan & Solve": 49.1,
    "bash, ReAct": 20.5,
    "bash, Plan & Solve": 28.0,
}
"""Success rates of the recorded runs as published, in percent with one digit; those of incomplete
sets are left out."""

Run = tuple[dict[str, Any], list[Episode]]


def runs(folder: Path) -> dict[str, Run]:
    """The recorded runs by environment and method, files over several data sets put together."""
    found: dict[str, Run] = {}
    for path in sorted(folder.glob("*.json")):
        config, episodes = load(path)
        method = "Single Turn" if config["turns"] == 1 else METHODS[config["agent"]]
        whole, before = found.setdefault(f"{config['env']}, {method}", (config, []))
        whole["data_sets"] = {
            **whole.get("data_sets", {}),
            Path(_data(config, path)).stem: episodes,
        }
        before.extend(episodes)
    return dict(sorted(found.items()))


def _data(config: Mapping[str, Any], path: Path) -> str:
    """The data set's file, as the log names it."""
    return next(iter(config.get("data_set", {}).values()), path.stem)


def success(episodes: Sequence[Episode]) -> float:
    return 100 * (mean([episode.success for episode in episodes]) or 0.0)


def by_data(found: Mapping[str, Run]) -> Iterator[dict[str, str]]:
    for name, (config, episodes) in found.items():
        parts = config["data_sets"] if len(config["data_sets"]) > 1 else {}
        for label, part in {**parts, "all": episodes}.items():
            yield {
                "run": name,
                "data set": label,
                "tasks": str(len(part)),
                "success %": f"{success(part):.1f}",
            }


def by_hardness(found: Mapping[str, Run]) -> Iterator[dict[str, str]]:
    for name, (config, episodes) in found.items():
        if levels := groups(config.get("hardness", {}), episodes):
            rates = {
                level: f"{100 * levels[level]['success_rate']:.1f}"
                for level in LEVELS
                if level in levels
            }
            yield {"run": name, **rates, "all": f"{success(episodes):.1f}"}


def turn_by_turn(found: Mapping[str, Run]) -> Iterator[dict[str, str]]:
    """Solved by each turn, and after the last one the same."""
    solved = {
        name: [100 * row["solved"] for row in by_turn(episodes)]
        for name, (_, episodes) in found.items()
    }
    for name, rates in solved.items():
        longest = max(map(len, solved.values()))
        yield {
            "run": name,
            **{
                str(at): f"{(rates[at - 1 : at] or rates[-1:])[0]:.1f}"
                for at in range(1, longest + 1)
            },
        }


def show(found: Mapping[str, Run]) -> None:
    console = Console(width=140)
    for title, rows in {
        "Success by method and data set": by_data(found),
        "Success by hardness, %": by_hardness(found),
        "Solved by turn, %": turn_by_turn(found),
    }.items():
        if listed := list(rows):
            console.print(title, table(listed), sep="\n")
    static, interactive = found.get("sql, Single Turn"), found.get("sql, Try Again")
    if static and interactive:
        console.print(
            "SQL, one turn and up to ten:",
            *list(render(comparison(compare(static, interactive))))[:2],
            sep="\n",
        )


def main() -> int:
    parser = command(__doc__, out=True)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=data.folder() / "recorded", metavar="FOLDER"
    )
    options = parser.parse_args()
    if absent(options, options.folder):
        return 0
    found = runs(options.folder)
    rows = [
        Row(f"{name}: success %", round(success(episodes), 1), PUBLISHED.get(name), unit="")
        for name, (_, episodes) in found.items()
    ]
    faults = [
        f"{row.what}: {row.ours}, published {row.against}"
        for row in rows
        if row.against not in (None, row.ours)
    ]
    details = {
        "data": list(by_data(found)),
        "hardness": list(by_hardness(found)),
        "turns": list(turn_by_turn(found)),
    }
    return finish(options, rows, show=lambda: show(found), details=details, faults=faults)


if __name__ == "__main__":
    sys.exit(main())
