"""InterCode v1 beside ours: the same recorded actions, the same image, the same day; do they earn
the same rewards?

    InterCode v1 ── turns ──► recording of today ──► replay on docker and locally ──► figures

InterCode v1 is `intercode-bench` in a Python of its own, with its Bash environment on two
containers. Ours plays the paper's protocol, on Docker, and on the local backend with the same image
exported. GPT-3.5's actions of 2023 (Try Again on NL2Bash's fs_1, fs_3, fs_4) are played turn by
turn. Both sides start each episode anew: InterCode v1 would play on in the same containers, cleaned
by git in between, and then an episode's rewards depend on the episodes before it. No side has a
network.

A reward agrees if it differs by at most 0.011; of all turns at least 99 % must, on either backend.

`python benchmarks/fidelity.py [--first PYTHON] [--json] [--out FILE] [--limit N] [--workers N]
[NAME…]`, NAME as "fs_1"; skipped without the public data, the root v1-bash, Docker, or InterCode v1
(benchmarks/peers.sh installs it). Exit status 1 if an agreement is below its bound. All of it takes
about ten minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from fidelity import data, v1
from measuring.rows import Row, absent, command, finish, table

from intercode.envs.bash.env import BashEnv
from intercode.envs.bash.options import BashOptions
from intercode.factory import EnvFactory
from intercode.rescoring.recordings import Recording, load_recording
from intercode.rescoring.replay import replay
from intercode.types import Episode, View

BOUND = 0.99
BACKENDS = ("docker", "local")
FILE_SYSTEMS = {f"fs_{number}": number for number in (1, 3, 4)}


def measure(number: int, python: str, options: Any) -> dict[str, dict[str, Any]]:
    """Return the figures of `intercode replay --json`, by file system and backend."""
    image = v1.image(python, number)
    tasks = data.nl2bash(number)["data"]
    recording = load_recording(data.recorded(f"bash_multiturn_gpt-3.5_10_turns_fs_{number}"))
    episodes = recording.episodes[: options.limit]

    def play(episode: Episode) -> Episode:
        with v1.playing(python, image, tasks) as alone:
            turns = alone.play(int(episode.task), [turn.action for turn in episode.turns])
        return answered(episode, turns)

    with ThreadPoolExecutor(options.workers) as pool:
        today = replace(recording, episodes=list(pool.map(play, episodes)))
    return {
        f"fs_{number} {backend}": compare(
            today, environment(image, tasks, backend), options.workers
        )
        for backend in BACKENDS
    }


def answered(episode: Episode, played: Sequence[v1.Turn]) -> Episode:
    """The episode with what InterCode v1 answers today."""
    turns = tuple(
        replace(
            turn,
            observation=turn.observation if now.observation is None else now.observation,
            score=now.reward,
        )
        for turn, now in zip(episode.turns, played, strict=True)
    )
    best = max((now.reward for now in played), default=0.0)
    return replace(episode, turns=turns, reward=best, success=best == 1)


def environment(image: str, tasks: str, backend: str) -> EnvFactory:
    class AsInContainer(BashEnv):
        start = v1.as_in_container(image)

    return AsInContainer.prepare(
        BashOptions(
            data=tasks,
            sandbox=backend,
            image=image if backend == "docker" else v1.export(image),
            protocol="paper",
            max_turns=None,
            keep_going=True,
            view=View(head=None),
        )
    )


def compare(today: Recording, factory: EnvFactory, workers: int) -> dict[str, Any]:
    tasks = [task for task in factory.tasks if today.has(task)]
    return replay(today, factory, tasks, workers=workers)


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
        "names", nargs="*", metavar="NAME", help="file systems [all of fs_1, fs_3, fs_4]"
    )
    parser.add_argument("--first", help=f"a Python with intercode-bench (${v1.INTERPRETER})")
    parser.add_argument(
        "--limit", type=int, metavar="N", help="only the first N tasks of each file system"
    )
    options = parser.parse_args()
    python, missing = v1.interpreter(options.first)
    missing = data.missing("nl2bash") or missing or v1.no_docker()
    if absent(options, data.folder() / "recorded", why=missing):
        return 0
    measured = dict[str, dict[str, Any]]()
    for name, number in FILE_SYSTEMS.items():
        if not options.names or name in options.names:
            measured |= measure(number, python, options)
    details = {
        name: {**figures, "disagreements": None} for name, figures in measured.items()
    }  # which hold texts of the data
    return finish(options, list(rows(measured)), show=lambda: show(measured), details=details)


if __name__ == "__main__":
    sys.exit(main())
