"""An environment without Docker: a setup script makes the world, and a reward of our own gives
partial credit.

    PYTHONPATH=examples/mailroom intercode eval mailroom_env:MailroomEnv --agent gold

Letters are to be moved about. Each path that changed is one decision: the reward is the share of
decisions, the agent's and the gold's together, that both made. One task brings a `setup` of its
own, which runs after the script.
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
    """Which paths below /mail came, went or changed, and what they hold now."""
    return [
        (path, change.kind, change.digest)
        for path, change in outcome.changes.items()
        if path.startswith("/mail/")
    ]
