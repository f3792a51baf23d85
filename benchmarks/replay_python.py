"""The recorded GPT-3.5 run in Python, executed again: how many rewards agree, and how many episodes end as they did.

The recording has an episode for each of 117 of MBPP's first 120 tasks. A later task asks the same as one of them in the same
words; it is left out here, and is why `intercode replay` counts 118.

    agreement of rewards, turn by turn      shown
    agreement of success, by episode        ≥ 98 %
    success rate                            within one point of the recorded

`python benchmarks/replay_python.py [--json] [--out FILE] [--workers N]`; exit status 1 if a bound is missed. Every disagreement
is printed in full: there is no rule here that explains one away.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fidelity import data

from intercode.recordings import Recording
from intercode.runner.replay import prepare_replay, replay
from intercode.types import Episode, Task

LOG = "recorded/ic_python_multiturn_gpt-3.5_7_turns.json"
EPISODES, POINT = 0.98, 0.01


def measure(workers: int) -> dict[str, Any]:
    """The keys of `intercode replay --json`, and `episodes`, `episodes_agree`, `seconds`."""
    start = time.monotonic()
    folder, played = data.folder(), list[Episode]()
    mbpp = str(folder / "mbpp" / "ic_mbpp.json")
    recording, setting, tasks = prepare_replay(str(folder / LOG), "python", reward=None, data=mbpp)
    mine = [task for task in tasks if task.id == recording.find(task).task]
    figures = replay(recording, setting, mine, workers=workers, on_episode=played.append)
    agree = _same_ends(recording, mine, played)
    return {**figures, "episodes": len(mine), "episodes_agree": agree, "seconds": time.monotonic() - start}


def _same_ends(recording: Recording, tasks: Sequence[Task], played: Sequence[Episode]) -> int:
    now = {episode.task: bool(episode.success) for episode in played}
    return sum((recording.find(task).max_reward == 1) == now[task.id] for task in tasks)


def missed(figures: dict[str, Any]) -> list[str]:
    found = []
    if figures["episodes_agree"] < EPISODES * figures["episodes"]:
        found.append(f"success agrees on {figures['episodes_agree']} of {figures['episodes']} episodes")
    if abs(figures["replayed_success_rate"] - figures["recorded_success_rate"]) > POINT:
        found.append(f"success rate {figures['replayed_success_rate']:.3f}, was {figures['recorded_success_rate']:.3f}")
    return found


def show(figures: dict[str, Any]) -> None:
    print("{agree} of {turns} rewards agree, {episodes_agree} of {episodes} episodes end alike".format(**figures))
    print("success: recorded {recorded_success_rate:.1%}, now {replayed_success_rate:.1%}; {seconds:.0f} s".format(**figures))
    for row in figures["disagreements"]:
        print("task {task}, turn {turn}: recorded {recorded}, now {replayed}\n{action}".format(**row))


def rows(figures: dict[str, Any]) -> list[dict[str, Any]]:
    now, then = figures["replayed_success_rate"], figures["recorded_success_rate"]
    return [
        {"what": "rewards that agree", "ours": figures["agreement"], "against": None, "ratio": None},
        {
            "what": "episodes that end alike",
            "ours": figures["episodes_agree"] / figures["episodes"],
            "against": None,
            "ratio": None,
        },
        {"what": "success rate, against the recorded", "ours": now, "against": then, "ratio": now / then},
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON list")
    parser.add_argument("--out", type=Path, help="write all figures there, as JSON, without texts of the data")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if not (data.folder() / LOG).exists():
        print(f"skipped: {data.folder()} has no {LOG}; set INTERCODE_DATA", file=sys.stderr)
        if options.json:
            print("[]")
        return 0
    figures = measure(options.workers)
    print(json.dumps(rows(figures), indent=1)) if options.json else show(figures)
    if options.out:
        kept = [{**row, "action": None} for row in figures["disagreements"]]
        options.out.write_text(json.dumps({**figures, "disagreements": kept}, indent=1))
    for words in missed(figures):
        print(f"missed: {words}", file=sys.stderr)
    return int(bool(missed(figures)))


if __name__ == "__main__":
    sys.exit(main())
