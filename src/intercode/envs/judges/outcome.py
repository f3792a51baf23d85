"""OutcomeJudge: compare what an agent's actions led to with what a gold leads to.

    before   each gold runs in the world, once for all environments that share a `GoldCache`
    rule     the best score over the golds; for a task marked `general` that looks solved, the
             actions run again on variant data, where they must succeed too

An alternative gold that fails is skipped. A subclass says how a gold runs, what an outcome is and
how two of them compare.

The golds of a later round run after those of the earlier ones. The facts that one of them changes
(a file's line, a table's row) are the demand of its round.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, starmap
from typing import Any, Generic, TypeVar

from intercode.envs.gold import GoldCache, Key
from intercode.envs.judges import Attempt, Ruling, W
from intercode.envs.rewards import rank
from intercode.errors import DataError
from intercode.types import Score, Task, TaskIssue
from intercode.user import part_of, still_alive

OTHER_DATA = "wrong on other data"
"""The rule of a verdict that fails only on variant data."""
Facts = frozenset[Any]
Seen = TypeVar("Seen")
Gold = TypeVar("Gold")


@dataclass(frozen=True, slots=True)
class Comparison(Generic[W, Seen, Gold]):
    """The agent's outcome in `world`, and the gold with the best score. `task.gold` is the text of
    that gold."""

    world: W
    agent: Seen
    task: Task
    gold: Gold
    score: Score


class OutcomeJudge(Generic[W, Seen, Gold]):
    """A judge by outcomes. `papers`: the reward is one of the paper's, which compare with the first
    gold and know no variants. `make_variant` makes a world with variant data."""

    def __init__(
        self,
        golds: GoldCache[Gold | None],
        make_variant: Callable[[], W | None] | None,
        *,
        papers: bool,
    ) -> None:
        self.golds = golds
        self._make_variant = make_variant
        self.papers = papers
        self._known: dict[tuple[int, str, str], tuple[Task, list[tuple[Task, Gold]]]] = {}
        self._variant: W | None = None
        self._spare: W | None = None

    @abstractmethod
    def run(self, world: W, task: Task, *, first: bool) -> Gold:
        """Execute a gold on the untouched world. Raises `DataError` if it has no outcome to compare
        with; `first`: it is not an alternative."""

    @abstractmethod
    def key(self, world: W, task: Task) -> Key:
        """Return what a gold's outcome depends on."""

    @abstractmethod
    def look(self, world: W, attempt: Attempt) -> Seen:
        """Return the agent's outcome."""

    @abstractmethod
    def compare(self, world: W, agent: Seen, gold: Gold, task: Task) -> Score:
        """Return the score of an outcome in `world` against that of one gold."""

    def facts(self, gold: Gold) -> Facts:
        """Return the facts in which a gold's outcome differs from the untouched world."""
        return Facts()

    def wrong_facts(self, world: W, agent: Seen, gold: Gold) -> Facts:
        """Return the facts in which the agent's outcome differs from a gold's."""
        return Facts()

    @abstractmethod
    def show(
        self,
        score: Score,
        first: Comparison[W, Seen, Gold],
        again: Comparison[W, Seen, Gold] | None = None,
    ) -> dict[str, Any]:
        """Return the final comparison for readers, `again` that on variant data; `score` is that of
        the ruling."""

    def join(self, score: Score, again: Score, task: Task) -> Score:
        """Return the score for both data, of which `score` is a success on the original."""
        parts = {**score.parts, "robust": float(again.success)}
        reward, rule = min(score.reward, again.reward), again.rule
        if not again.success:
            rule = on_other_data(rule)
        return replace(again, reward=reward, parts=parts, rule=rule)

    def tasks_of(self, task: Task) -> Sequence[Task]:
        """Return a copy of the task for each gold that the reward compares with, since a reward may
        read the text of the gold."""
        if self.papers:
            return [task]
        return [replace(task, gold=gold) for gold in task.golds]

    def before(self, world: W, task: Task) -> None:
        self._find_all(world, task, in_progress=False)

    def golds_of(self, world: W, task: Task) -> Sequence[tuple[Task, Gold]]:
        """Return the golds of the task in progress in `world`: a copy of the task for each that did
        not fail, and its outcome."""
        known = self._known.get((id(world), task.id, task.gold))
        if known and known[0] is task:
            return known[1]
        return self._find_all(world, task, in_progress=True)

    def _find_all(self, world: W, task: Task, *, in_progress: bool) -> list[tuple[Task, Gold]]:
        golds = []
        for posed in self.tasks_of(task):
            gold = self.find(world, posed, task, in_progress=in_progress)
            if gold is not None:
                golds.append((posed, gold))
        self._known[id(world), task.id, task.gold] = task, golds
        return golds

    def gold(self, world: W, task: Task) -> Gold:
        """Return the outcome of the task's gold."""
        gold = self.find(world, task, task)
        assert gold is not None  # only an alternative may have none
        return gold

    def find(self, world: W, posed: Task, task: Task, *, in_progress: bool = True) -> Gold | None:
        """Return the outcome of one of the task's golds; None for an alternative that fails. An
        unknown gold is executed, elsewhere if an episode is in progress in `world`."""
        first = posed.gold == task.gold

        def execute() -> Gold | None:
            try:
                return self.run(self.spare(world) if in_progress else world, posed, first=first)
            except DataError:
                if first:
                    raise
                return None

        key = self.key(world, posed)
        if not first:  # in another task's copy, an alternative may come first
            key = *key, "alternative"
        return self.golds.get(key, execute)

    def spare(self, world: W) -> W:
        """Return a world for golds while an episode is in progress in `world`."""
        self._spare = self._spare or world.fork(live=False)
        return self._spare

    def variant(self) -> W | None:
        """Return the world with variant data, if there are any."""
        if self._variant is None and self._make_variant:
            self._variant = self._make_variant()
        return self._variant

    def rule(self, world: W, attempt: Attempt) -> Ruling:
        first = self.compare_all(world, attempt)
        task, score = attempt.task, first.score
        alone = Ruling(score, lambda: self.show(score, first))
        if not (score.success and self.looks_twice(task) and (variant := self.variant())):
            return alone
        try:
            self.before(variant, task)
            variant.start(task)
        except DataError:  # the gold itself fails on the variant data
            if self.must_hold_twice(task):
                raise
            return alone
        for action in attempt.actions:
            variant.act(action)
        again = self.compare_all(variant, attempt)
        joined = self.join(score, again.score, task)
        return Ruling(joined, lambda: self.show(joined, first, again))

    def must_hold_twice(self, task: Task) -> bool:
        """Return whether a solution must succeed on variant data too."""
        return task.general

    def looks_twice(self, task: Task) -> bool:
        """Return whether a task that looks solved is tried on variant data."""
        return self.must_hold_twice(task)

    def compare_all(self, world: W, attempt: Attempt) -> Comparison[W, Seen, Gold]:
        """Compare the agent's outcome with each gold's, up to a success; return the best."""
        golds = self.golds_of(world, attempt.task)
        agent = self.look(world, attempt)
        best = None
        for posed, gold in golds:
            score = self.compare(world, agent, gold, posed)
            if posed.earlier:
                wrong = Facts() if score.success else self.wrong_facts(world, agent, gold)
                parts = self._demands(world, attempt.task, wrong)
                score = replace(score, parts={**score.parts, **parts})
            if best is None or rank(score) > rank(best.score):
                best = Comparison(world, agent, posed, gold, score)
            if score.success:
                break
        assert best  # the first gold has an outcome
        return best

    def _demands(self, world: W, task: Task, wrong: Facts) -> dict[str, float]:
        """Return a part for each demand that is alive and about facts: whether it holds."""
        parts = {}
        for posed in (*still_alive(task), task):
            demand = self.facts(self.gold(world, posed))
            if posed.earlier:
                demand ^= self.facts(self.gold(world, posed.earlier[-1]))
            if demand:
                parts[part_of(posed)] = float(demand.isdisjoint(wrong))
        return parts

    def demand(self, world: W, attempt: Attempt) -> Score:
        """Score the facts alone that a round's gold changes: later rounds may change others."""
        gold = self.gold(world, attempt.task)
        wrong = self.wrong_facts(world, self.look(world, attempt), gold)
        parts = self._demands(world, attempt.task, wrong)
        holds = parts.get(part_of(attempt.task), 1.0)
        return Score(holds, holds == 1, rule="" if holds else "an earlier demand is broken")

    def value(self, world: W, attempt: Attempt) -> float:
        return self.compare_all(world, attempt).score.reward

    def no_value(self, world: W, task: Task) -> str:
        if self._make_variant and self.must_hold_twice(task):
            return "a solution must also work on variant data"
        return ""

    def close(self) -> None:
        for world in (self._variant, self._spare):
            if world is not None:
                world.close()
        self._variant = self._spare = None


def on_other_data(rule: str) -> str:
    return ": ".join(filter(None, (OTHER_DATA, rule)))


def not_general(
    golds: Sequence[Gold], equal: bool, passes: Callable[[Gold, Gold], bool]
) -> list[TaskIssue]:
    """Return the issue of a task marked `general` if the outcomes of its gold on the original and
    on variant data are equal, or one passes for the other."""
    if not equal and not any(starmap(passes, permutations(golds, 2))):
        return []
    why = (
        "is marked general, but the gold has the same outcome on the variant data: "
        "a constant answer passes"
    )
    return [TaskIssue(why, "not_general")]
