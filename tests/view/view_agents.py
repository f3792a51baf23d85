"""Agents without a model, for runs to look at: one takes its time, one forks, one is wrong in a way
that shows."""

from __future__ import annotations

from intercode.agents import Act, Fork, StrategySteps
from intercode.types import Task


def slow(task: Task, protocol: str) -> StrategySteps:
    """Act once in half a second, and let each output say when its action ended."""
    for number in range(4):
        yield Act(f"sleep 0.5; echo number {number} at $(date +%s.%N)")
    yield Act("submit")


def forking(task: Task, protocol: str) -> StrategySteps:
    """Look around, go on in three copies, one of them in two of its own, and submit the last."""
    yield Act("pwd")
    for number in range(3):
        branch = yield Fork()
        yield Act(f"echo branch {number}", env=branch)
        if number == 1:
            below = yield Fork(branch)
            yield Act("echo below", env=below)
            yield Act("echo beside", env=branch)
    yield Act("submit", env=branch)


def clumsy(task: Task, protocol: str) -> StrategySteps:
    """Make an error, and answer with every second line of the gold's answer; sometimes also change
    files."""
    yield Act("cat /nowhere", thought="The file may be there.")
    if len(task.query) % 3 == 0:
        yield Act(
            "sed -i '1s/$/, seen/' /depot/README.md; echo left > /depot/left",
            thought="I leave a note.",
        )
    yield Act(f"( {task.gold}\n) | sed -n '1~2p'", thought="Every second line should do.")
    yield Act("submit")


for agent in (slow, forking, clumsy):
    agent.needs_model = False  # type: ignore[attr-defined]
