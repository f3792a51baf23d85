"""The recorded GPT-3.5 run in Python, executed again: how many rewards agree, and how many episodes
end as they did.

The recording has an episode for each of 117 of MBPP's first 120 tasks. A later task asks the same
as one of them in the same words; it is left out here, and is why `intercode replay` counts 118.

    agreement of rewards, turn by turn      shown
    agreement of success, by episode        ≥ 98 %
    success rate                            within one point of the recorded

`python benchmarks/replay_python.py [--json] [--out FILE] [--workers N]`; exit status 1 if a bound
is missed. Every disagreement is printed in full: there is no rule here that explains one away.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from fidelity import data
from measuring.rows import Row, absent, command, finish

from intercode.rescoring.recordings import Recording
from intercode.rescoring.replay import prepare_replay, replay
from intercode.types import Episode, Task

LOG = "recorded/ic_python_multiturn_gpt-3.5_7_turns.json"
EPISODES, POINT = 0.98, 0.01


def measure(workers: int) -> dict[str, Any]:
    """The keys of `intercode replay --json`, and `episodes`, `episodes_agree`, `seconds`."""
    start = time.monotonic()
    folder, played = data.folder(), list[Episode]()
    mbpp = str(folder / "mbpp" / "ic_mbpp.json")
    recording, factory, tasks = prepare_replay(str(folder / LOG), "python", reward=None, data=mbpp)
    mine = [task for task in tasks if task.id == recording.find(task).task]
    figures = replay(recording, factory, mine, workers=workers, on_episode=played.append)
    agree = _same_ends(recording, mine, played)
    return {
        **figures,
        "episodes": len(mine),
        "episodes_agree": agree,
        "seconds": time.monotonic() - start,
    }


def _same_ends(recording: Recording, tasks: Sequence[Task], played: Sequence[Episode]) -> int:
    now = {episode.task: bool(episode.success) for episode in played}
    return sum(recording.find(task).success == now[task.id] for task in tasks)


def show(figures: dict[str, Any]) -> None:
    print(
        "{agree} of {turns} rewards agree, "
        "{episodes_agree} of {episodes} episodes end alike".format(**figures)
    )
    print(
        "success: recorded {recorded_success_rate:.1%}, now {replayed_success_rate:.1%};"
        " {seconds:.0f} s".format(**figures)
    )
    for row in figures["disagreements"]:
        print(
            "task {task}, turn {turn}: recorded {recorded}, now {replayed}\n{action}".format(**row)
        )


def rows(figures: dict[str, Any]) -> list[Row]:
    now, then = figures["replayed_success_rate"], figures["recorded_success_rate"]
    alike = figures["episodes_agree"] / figures["episodes"]
    return [
        Row("rewards that agree", figures["agreement"], unit=""),
        Row("episodes that end alike", alike, 1.0, EPISODES, floor=True, unit=""),
        Row("success rate, against the recorded", now, then, unit=""),
    ]


def faults(figures: dict[str, Any]) -> Iterator[str]:
    now, then = figures["replayed_success_rate"], figures["recorded_success_rate"]
    if abs(now - then) > POINT:
        yield f"success rate {now:.3f}, was {then:.3f}"


def main() -> int:
    options = command(__doc__, out=True, workers=True).parse_args()
    if absent(options, data.folder() / LOG, data.folder() / "mbpp" / "ic_mbpp.json"):
        return 0
    figures = measure(options.workers)
    details = {
        **figures,
        "disagreements": [{**row, "action": None} for row in figures["disagreements"]],
    }
    return finish(
        options, rows(figures), show=lambda: show(figures), details=details, faults=faults(figures)
    )


if __name__ == "__main__":
    sys.exit(main())
