"""An environment without Docker: a setup script creates the world, and our own reward gives partial
credit.

    PYTHONPATH=examples/mailroom intercode eval mailroom_env:MailroomEnv --agent gold

The tasks are to move letters. Each changed path is one decision. The reward is the number of
decisions that agent and gold share, divided by the number that either made. One task has its own
`setup`, which runs after the script.
"""

from __future__ import annotations

from intercode import BashEnv, Outcome, Score, Task


class MailroomEnv(BashEnv):
    data = "tasks.jsonl"
    setup = "setup.sh"

    def reward(self, agent: Outcome, gold: Outcome, task: Task) -> Score:
        ours, theirs = set(decisions(agent)), set(decisions(gold))
        share = len(ours & theirs) / len(ours | theirs)
        return Score(share, share == 1, {"share": share})


def decisions(outcome: Outcome) -> list[tuple[str, str, str | None]]:
    """Return the paths below /mail that were added, removed or changed, and their new contents."""
    return [
        (path, change.kind, change.digest)
        for path, change in outcome.changes.items()
        if path.startswith("/mail/")
    ]
