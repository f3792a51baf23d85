"""InterCode v1's Bash or SQL environment behind JSON lines. Runs in the interpreter of
`intercode-bench`, with nothing of ours.

    argv    the name of an image, a task file; for SQL also the port of the database server
    stdin   {"task": index, "actions": [text or null, …]}, or {"seconds": number}
    stdout  {"turns": [{"observation", "reward"}, …]}, or the episodes per second of the golds in
            turn, played for so long; "ready" comes first

The loop is InterCode v1's experiment: after each action a submission, which scores; a reply
without code executes nothing and earns 0. Its environment knows two image names and their shells;
this one is told of a third.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from typing import Any, Dict  # noqa: UP035


def play(env: Any, task: int, actions: list[str | None]) -> list[dict[str, Any]]:
    env.reset(task)
    return [_turn(env, action) for action in actions]


def _turn(env: Any, action: str | None) -> dict[str, Any]:
    if action is None:
        return {"observation": None, "reward": 0.0}
    observation = env.step(action)[0]
    _, reward, _, _ = env.step("submit")
    return {"observation": observation, "reward": float(reward)}


def speed(env: Any, seconds: float) -> float:
    """Return episodes per second: reset, the gold, `submit`."""
    env.reset(0)
    begins, count = time.monotonic(), 0
    while time.monotonic() < begins + seconds:
        env.reset(count % len(env.data_loader))
        env.step(env.gold)
        env.step("submit")
        count += 1
    return count / (time.monotonic() - begins)


def use_database(record: dict[str, Any]) -> str:
    return f"use {record['extra']['db']}"


# The environment compares annotations with these values; `from __future__` made them texts.
use_database.__annotations__ = {"record": Dict, "return": str}  # noqa: UP006


def environment(image: str, tasks: str, port: str | None = None) -> Any:
    if port:
        sql = import_module("intercode.envs.sql.sql_env")
        sql.SQL_CONFIG["port"] = int(port)
        return sql.SqlEnv(image, data_path=tasks, preprocess=use_database)
    bash = import_module("intercode.envs.bash.bash_env")
    bash.IMAGE_TO_SETTINGS[image] = "/bin/bash"
    return bash.BashEnv(image, data_path=tasks)


def main() -> None:
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    env = environment(*sys.argv[1:])
    replies.write('"ready"\n')
    for line in sys.stdin:
        asked = json.loads(line)
        if "seconds" in asked:
            reply: Any = speed(env, asked["seconds"])
        else:
            reply = {"turns": play(env, asked["task"], asked["actions"])}
        replies.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    main()
