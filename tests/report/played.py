"""Episodes as short as can be said, for the tests of reports."""

from __future__ import annotations

from typing import Any

from intercode.types import Episode, Turn

CONFIG: dict[str, Any] = {
    "run": "runs/a", "env": "bash", "agent": "try_again", "model": "m", "reward": "exact",
    "protocol": "submit", "turns": 5,
}  # fmt: skip


def fine(action: str = "ls", seen: str = "a\n", **more: Any) -> Turn:
    return Turn(action=action, observation=seen, exit_code=0, **more)


def error(action: str = "cat /nowhere", seen: str = "no such file\n", **more: Any) -> Turn:
    return Turn(action=action, observation=seen, exit_code=1, **more)


def no_code() -> Turn:
    return Turn(reply="I would look around.", observation="No code was found.")


def submit() -> Turn:
    return Turn(action="submit", observation="")


def played(task: str, *turns: Turn, solved: bool = False, **more: Any) -> Episode:
    return Episode(
        task,
        more.pop("query", f"the query of {task}"),
        turns,
        float(solved),
        solved,
        more.pop("ended", "submit"),
        **more,
    )
