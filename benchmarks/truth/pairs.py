"""An answer with a label, what a reward says of it, and the precision and recall of many such
verdicts.

Intervals are Wilson's at 95 %; answers to one task are alike, so they count for less than
independent ones (clusters, as in `report.interval`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from intercode.env import InterCodeEnv
from intercode.report.summary import interval
from intercode.types import Episode


@dataclass(frozen=True)
class Pair:
    """`actions` are played one after another, the last of them submits. `why` says what is right or
    wrong about it."""

    task: str
    actions: tuple[str, ...]
    right: bool
    why: str


@dataclass(frozen=True)
class Verdict:
    pair: Pair
    accepted: bool
    rule: str = ""
    """What accepted or refused the answer, where the reward names it."""

    @property
    def wrong(self) -> bool:
        return self.accepted != self.pair.right

    def __str__(self) -> str:
        said = "accepts a wrong answer" if self.accepted else "refuses a right answer"
        return f"{said}: {self.pair.task}: {self.pair.why}: {' ⏎ '.join(self.pair.actions)}"


@dataclass(frozen=True)
class Truth:
    """What one reward of one environment says of its pairs."""

    env: str
    reward: str
    verdicts: Sequence[Verdict]
    held_out: bool = False

    @property
    def precision(self) -> Share:
        return Share(
            [
                (verdict.pair.task, verdict.pair.right)
                for verdict in self.verdicts
                if verdict.accepted
            ]
        )

    @property
    def recall(self) -> Share:
        return Share(
            [
                (verdict.pair.task, verdict.accepted)
                for verdict in self.verdicts
                if verdict.pair.right
            ]
        )


@dataclass(frozen=True)
class Share:
    """How many of some verdicts are good, each with the task that it is of."""

    counted: Sequence[tuple[str, bool]]

    @property
    def value(self) -> float:
        """1 of nothing."""
        return sum(good for _, good in self.counted) / len(self.counted) if self.counted else 1.0

    def __str__(self) -> str:
        low, high = interval(
            [Episode(task, "", (), float(good), good, "submit") for task, good in self.counted]
        )
        return f"{self.value:.3f} ({low:.3f} to {high:.3f})"


def play(env: InterCodeEnv, pairs: Sequence[Pair], part: str | None = None) -> Iterator[Verdict]:
    """Each pair as an agent would play it. With `part`, what that part of the score says of a
    solved one decides."""
    for pair in pairs:
        env.reset(options={"task": pair.task})
        for action in pair.actions:
            _, _, over, _, info = env.step(action)
            if over:
                break
        score = info.get("score")
        yield Verdict(
            pair,
            score is not None
            and score.success
            and (part is None or score.parts.get(part, 1.0) == 1),
            score.rule if score else "",
        )
