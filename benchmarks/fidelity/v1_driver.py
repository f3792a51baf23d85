"""InterCode v1's Bash environment behind JSON lines. Runs in the interpreter of
`intercode-bench`, with nothing of ours.

    argv    the name of an image, a task file
    stdin   {"task": index, "actions": [text or null, …]}
    stdout  {"turns": [{"observation", "reward"}, …]}; "ready" comes first

The loop is InterCode v1's experiment: after each action a submission, which scores; a reply
without code executes nothing and earns 0. Its environment knows two image names and their shells;
this one is told of a third.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any


def play(env: Any, task: int, actions: list[str | None]) -> list[dict[str, Any]]:
    env.reset(task)
    return [_turn(env, action) for action in actions]


def _turn(env: Any, action: str | None) -> dict[str, Any]:
    if action is None:
        return {"observation": None, "reward": 0.0}
    observation = env.step(action)[0]
    _, reward, _, _ = env.step("submit")
    return {"observation": observation, "reward": float(reward)}


def main() -> None:
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    image, tasks = sys.argv[1:]
    bash = import_module("intercode.envs.bash.bash_env")
    bash.IMAGE_TO_SETTINGS[image] = "/bin/bash"
    env = bash.BashEnv(image, data_path=tasks)
    replies.write('"ready"\n')
    for line in sys.stdin:
        asked = json.loads(line)
        replies.write(json.dumps({"turns": play(env, asked["task"], asked["actions"])}) + "\n")


if __name__ == "__main__":
    main()
