"""The kinds of issues that a task can have, in a few stable words for programs.

A broken task makes its score meaningless. A suspicious task is worth a person's look.
"""

from __future__ import annotations

BROKEN = {
    "gold_fails": "the gold does not run, or does not earn the full reward",
    "gold_differs": "two executions of the gold differ",
    "noop_solves": "doing nothing succeeds",
    "duplicate": "asks what an earlier task asks, word by word",
    "missing": "query or gold name what is not there: a path, a variable",
    "not_general": "marked general, but a constant answer passes",
    "empty_test": "a test that uses nothing of the answer",
    "odd_flag": "a flag unlike the others, or damaged",
    "needs_network": "cannot be played without a network",
    "needs_files": "speaks of files that are not here",
}
SUSPICIOUS = {
    "gold_complains": "the gold prints an error, though it ends well",
    "retrieval_solves": "the gold of the most similar other task succeeds",
    "golds_disagree": "an alternative gold and the gold do not match each other",
    "alternative_fails": "an alternative gold does not run, so that it accepts nothing",
    "near_duplicate": "the same gold as another task, in almost the same words",
    "plain_flag": "the flag stands in plain text in the assets",
    "disagrees": "query and gold name different things",
    "weak_tests": "a constant or an argument passes all tests, or a test comes twice",
    "by_luck": "an empty or constant answer is right",
    "unstable": "the answer depends on the clock, the machine or chance",
}
KINDS = {**BROKEN, **SUSPICIOUS}


class TaskIssue(str):
    """A sentence about a task; `kind` is one of `KINDS`."""

    __slots__ = ("kind",)
    kind: str

    def __new__(cls, why: str, kind: str = "gold_fails") -> TaskIssue:
        issue = super().__new__(cls, why)
        issue.kind = kind
        return issue
