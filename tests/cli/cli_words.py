"""What the tests of the command line share."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

INTERCODE = str(Path(sys.executable).with_name("intercode"))
EVAL_KEYS = {
    "run", "env", "agent", "model", "reward", "episodes", "success_rate", "ci95", "mean_reward",
    "mean_turns", "errors", "seconds", "tokens", "cost",
}  # fmt: skip
REPLAY_KEYS = {
    "turns", "agree", "agreement", "observations_equal", "recorded_success_rate",
    "replayed_success_rate", "disagreements",
}  # fmt: skip
CHECK_KEYS = {"tasks", "gold_ok", "noop_paid", "nondeterministic", "broken", "suspicious", "kinds"}
TASKS: list[dict[str, Any]] = [
    {"id": "count", "query": "How many entries does /box have?", "gold": "ls /box | wc -l"},
    {"id": "touch", "query": "Make the empty file /box/new.", "gold": "touch /box/new"},
    {
        "id": "first",
        "query": "Print what /box/a holds, here and elsewhere.",
        "gold": "cat /box/a",
        "general": True,
    },
    {"id": "names", "query": "Print the names in /box.", "gold": "ls /box"},
    {"id": "last", "query": "Print what /box/c holds.", "gold": "cat /box/c"},
]


def write_tasks(path: Path, tasks: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return path
