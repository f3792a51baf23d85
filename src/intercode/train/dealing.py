"""Choose the tasks of each training step by measured pass rates, from a mixture of environments.

    mixture ──► deal ──► jobs in groups ──► a pool plays them ──► note ──► pass rates
                 ▲                                                            │
                 └──── tasks between keep[0] and keep[1], harder levels ──────┘

A group whose rollouts all succeed or all fail has no gradient. So tasks are drawn by the chance
that their group is mixed, under a pass rate that is itself drawn from what is known of the task,
its kind and its level (Thompson sampling); `batch` plays further groups until enough are mixed
(dynamic sampling of DAPO, Yu et al. 2025). A level of a family is the `difficulty` of its tasks
(hops, in some families) times their rounds. It opens when 40 % of the rollouts at the level below
succeed, or when none of the last ones do.
"""

from __future__ import annotations

import json
import math
import os
import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from intercode.errors import DataError, UsageError
from intercode.factory import EnvFactory
from intercode.reading import read_json
from intercode.train.grouping import EQUAL
from intercode.train.jobs import Job, Rollout
from intercode.types import Task

PRIOR = 1.0
"""Rollouts that the rate of a task's kind counts for, and that of the level for a kind."""
SOLVED = 0.4
"""Success rate of a level at which the next one opens."""
LOW = 1e-3
"""Factor of the weight of tasks outside `keep`, so that a step always finds tasks."""
ENOUGH = 8
"""Rollouts of a level, at least, before the next one opens."""
HOPELESS = 64
"""Failures in a row at a level, before the next one opens anyway."""
REMEMBERED = 10_000
"""Groups whose rollouts `note` takes: the last ones that were dealt."""
MOST = 2**53
"""Groups or rollouts of a state, at most: what a float counts exactly."""
ROUNDS = 4
"""Calls of `fill` in one `batch`, at most."""

Signal = Literal["mixed", "solved", "failed", "lost"]
"""The result of a group: rewards differ, all succeeded, none did, or no rollout has a reward."""


class Rate(NamedTuple):
    """Successes among rollouts, as they counted when the rollout number `at` was noted; and how
    many rollouts have failed since the last success."""

    wins: float = 0.0
    plays: float = 0.0
    at: int = 0
    failed: int = 0


@dataclass(frozen=True)
class _Entry:
    """A task of the mixture, and the names under which its pass rates are kept."""

    task: Task
    name: str
    """With a digest of the query, since other data may have the same ids."""
    kind: str
    level: str
    below: str | None
    """The next easier level of the family; None for the easiest."""


class Sampler:
    """Deals the jobs of training steps from a mixture of environments.

        sampler = Sampler([(files, 2), (shop, 1)], keep=(0.1, 0.9))
        with RolloutPool([files, shop], envs=256) as pool:
            for step in range(100):
                batch = sampler.batch(lambda jobs: pool.run_batch(jobs, generate, chat), 32, size=8)
                …
                sampler.save("sampler.json")

    One thread at a time may use it.
    """

    def __init__(
        self,
        mixture: Sequence[tuple[EnvFactory | Sequence[Task], float]],
        *,
        keep: tuple[float, float] = (0.1, 0.9),
        window: int = 1000,
        seed: int = 0,
    ) -> None:
        """`mixture` has pairs of a factory of `intercode.prepare`, or a list of tasks, and its
        share of the groups.

        Tasks whose pass rate is outside `keep` are left out. A result counts half after `window`
        further rollouts, since the policy changes. Equal arguments and results in the same order
        give equal jobs; `batch` sorts them.
        """
        if not 0 <= keep[0] < keep[1] <= 1 or window < 1:
            raise UsageError(
                f"keep is {keep} and window {window}; "
                "give two rates such as (0.1, 0.9), and a number of rollouts"
            )
        self._weights = [weight for _, weight in mixture]
        if not all(0 <= weight < math.inf for weight in self._weights) or not sum(self._weights):
            raise UsageError("give each environment a weight; none is negative, and not all are 0")
        self.keep, self.window, self.seed = keep, window, seed
        self._sources = list[list[_Entry]]()
        for number, (source, _) in enumerate(mixture):
            tasks: Any = getattr(source, "tasks", source)
            self._sources.append(_entries(number, tasks))
        if not all(self._sources):
            raise UsageError("an environment of the mixture has no tasks")
        self._rates, self._open = dict[str, Rate](), dict[int, _Entry]()
        self._groups = self._rollouts = 0
        self._was_loaded = False
        self._last_batch = dict[str, float]()

    def deal(self, groups: int, size: int) -> list[Job]:
        """Return the jobs of `groups` groups, `size` jobs for each, in the order of their
        groups."""
        if groups < 1 or size < 1:
            raise UsageError(f"{groups} groups of {size} cannot be dealt; both are at least 1")
        chance = random.Random(f"{self.seed}/{self._groups}")
        jobs: list[Job] = []
        picks = chance.choices(range(len(self._sources)), self._weights, k=groups)
        for source, entries in enumerate(self._sources):
            for entry in self._draw(entries, picks.count(source), size, chance):
                seed = (self.seed + self._groups * size) % 2**31
                jobs += [Job(entry.task, seed + n, self._groups) for n in range(size)]
                self._open[self._groups] = entry
                self._groups += 1
        return jobs

    def stream(self, size: int) -> Iterator[Job]:
        """Yield jobs without end, a group at a time, for `RolloutPool.run`: `note` what it
        yields."""
        while True:
            yield from self.deal(1, size)

    def note(self, rollouts: Iterable[Rollout]) -> None:
        """Note the results of rollouts that this sampler dealt; a fault is not a result."""
        for rollout in rollouts:
            entry = self._open.get(rollout.group)
            if entry is None or entry.task.id != rollout.task:
                entry = self._dealt_before(rollout.task)
            if entry is None:
                raise UsageError(
                    f"the rollout of {rollout.task} in group {rollout.group} "
                    "was not dealt by this sampler"
                )
            if rollout.reward is None:
                continue
            self._rollouts += 1
            for name in (entry.name, entry.kind, entry.level):
                wins, plays = self._counts(name)
                failed = self._rates.get(name, Rate()).failed + 1
                if rollout.episode.success:
                    wins, failed = wins + 1, 0
                self._rates[name] = Rate(wins, plays + 1, self._rollouts, failed)
        for group in list(self._open)[:-REMEMBERED]:
            del self._open[group]

    def batch(
        self,
        fill: Callable[[list[Job]], Iterable[Rollout]],
        groups: int,
        size: int,
        *,
        rounds: int = ROUNDS,
    ) -> list[Rollout]:
        """Return the rollouts of `groups` groups, as many of them mixed as possible,
        each in the order of its seeds.

        `fill(jobs)` plays jobs, in the order given or any other, and returns a rollout for each,
        up to `rounds` times: the groups that are missing, divided by the share of groups that were
        mixed so far. If there are still too few, flat groups complete the batch, and then groups
        without a reward. All results are noted.
        """
        mixed, flat, lost = list[list[Rollout]](), list[list[Rollout]](), list[list[Rollout]]()
        places = {"mixed": mixed, "solved": flat, "failed": flat, "lost": lost}
        solved, asked = 0, groups
        for _ in range(max(1, rounds)):
            jobs = self.deal(asked, size)
            rollouts = sorted(fill(jobs), key=attrgetter("group", "seed"))
            if len(rollouts) != len(jobs):
                raise UsageError(f"fill returned {len(rollouts)} rollouts for {len(jobs)} jobs")
            self.note(rollouts)
            for _, rollouts_of_group in groupby(rollouts, attrgetter("group")):
                group = list(rollouts_of_group)
                signal = signal_of(group)
                solved += signal == "solved"
                places[signal].append(group)
            played = len(mixed) + len(flat) + len(lost)
            if len(mixed) >= groups:
                break
            missing = (groups - len(mixed)) * played / max(len(mixed), 1)
            asked = math.ceil(min(missing, groups))
        self._last_batch = {
            "sampler/groups_played": played / groups,
            "sampler/mixed_groups": len(mixed) / played,
            "sampler/solved_groups": solved / played,
            "sampler/batch_mixed": min(1.0, len(mixed) / groups),
        }
        # flat groups in the order in which they were dealt, so that neither kind is preferred
        return list(chain.from_iterable([*mixed, *flat, *lost][:groups]))

    def numbers(self) -> dict[str, float]:
        """Return figures for a log: shares of the last batch, and for each family its pass rate,
        its highest open level, and the share of its tasks whose pass rate is within `keep`."""
        numbers = dict(self._last_batch)
        families = defaultdict[str, list[_Entry]](list)
        for entry in chain.from_iterable(self._sources):
            families[entry.level.rpartition("/")[0]].append(entry)
        for family, entries in families.items():
            levels = dict.fromkeys(entry.level for entry in entries if self._is_open(entry))
            all_wins = all_plays = within = 0.0
            for level in levels:
                wins, plays = self._counts(level)
                all_wins, all_plays = all_wins + wins, all_plays + plays
            for entry in entries:
                wins, plays = self._counts(entry.name)
                mean = (wins + PRIOR * self._mean_of_kind(entry)) / (plays + PRIOR)
                within += self._is_within(mean)
            numbers |= {
                f"sampler/{family}/pass_rate": all_wins / all_plays if all_plays else 0.0,
                f"sampler/{family}/level": max(float(level.rpartition("/")[2]) for level in levels),
                f"sampler/{family}/within_keep": within / len(entries),
            }
        return numbers

    def save(self, path: str | Path) -> None:
        """Write what is known to a JSON file; groups that are being played are not in it."""
        state = {
            "seed": self.seed,
            "groups": self._groups,
            "rollouts": self._rollouts,
            "rates": self._rates,
        }
        draft = Path(f"{path}.new")
        draft.write_text(json.dumps(state, indent=1))
        os.replace(draft, path)

    def load(self, path: str | Path) -> None:
        """Go on from a file that `save` wrote: with the same mixture, the next jobs are those that
        the saved sampler would have dealt. Rates of tasks that are new here begin as unknown, and
        rollouts that were dealt before may still be noted. Raises `UsageError` for another file,
        or one of a mixture with tasks that this one lacks."""
        try:
            state, rates = read_json(path), {}
            numbers = [state[name] for name in ("seed", "groups", "rollouts")]
            is_whole = all(isinstance(number, int) for number in numbers)
            if not is_whole or not 0 <= min(numbers[1:]) <= max(numbers[1:]) <= MOST:
                raise ValueError(f"a count is not a whole number up to {MOST}")
            for name, (wins, plays, at, failed) in state["rates"].items():
                rates[name] = Rate(float(wins), float(plays), int(at), int(failed))
                # false for NaN too
                if not (0 <= wins <= plays <= numbers[2] and 0 <= at <= numbers[2]):
                    raise ValueError(f"{name}: {wins} of {plays} at {at}")
        except (
            DataError,
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            OverflowError,
        ) as error:
            raise UsageError(f"{path} is no file of a sampler ({error!r:.200})") from error
        known = set[str]()
        for entry in chain.from_iterable(self._sources):
            known.update((entry.name, entry.kind, entry.level))
        if foreign := sorted(rates.keys() - known):
            raise UsageError(
                f"{path} is of another mixture: this one has no {foreign[0]!r:.100}; "
                "give the environments and tasks with which it was saved"
            )
        self.seed, self._groups, self._rollouts = numbers
        self._rates, self._open, self._was_loaded = rates, {}, True

    # -- inside ------------------------------------------------------------------------------------

    def _draw(
        self, entries: Sequence[_Entry], count: int, size: int, chance: random.Random
    ) -> list[_Entry]:
        """Draw tasks without replacement, as long as there are enough, by the chance that their
        groups are mixed (Efraimidis and Spirakis 2006)."""
        keys, means = [], {}
        candidates = [entry for entry in entries if self._is_open(entry)] if count else []
        for place, entry in enumerate(candidates):
            if entry.kind not in means:
                means[entry.kind] = self._mean_of_kind(entry)
            mean = min(max(means[entry.kind], 0.02), 0.98)
            wins, plays = self._counts(entry.name)
            rate = chance.betavariate(PRIOR * mean + wins, PRIOR * (1 - mean) + plays - wins)
            weight = 1 - rate**size - (1 - rate) ** size + 1e-9
            if not self._is_within(rate):
                weight *= LOW
            keys.append((math.log(1 - chance.random()) / weight, place))
        keys.sort(reverse=True)
        return [candidates[keys[n % len(keys)][1]] for n in range(count)]

    def _dealt_before(self, id: str) -> _Entry | None:
        """Return the entry of a task that was dealt before a `load`, if one environment alone has a
        task with this id."""
        entries = [entry for entry in chain.from_iterable(self._sources) if entry.task.id == id]
        return entries[0] if self._was_loaded and len(entries) == 1 else None

    def _counts(self, name: str) -> tuple[float, float]:
        """Return successes and rollouts as they count now: half after `window` others."""
        rate = self._rates.get(name, Rate())
        factor = 0.5 ** ((self._rollouts - rate.at) / self.window)
        return rate.wins * factor, rate.plays * factor

    def _mean_of_kind(self, entry: _Entry) -> float:
        """Return the expected pass rate of a task of a kind, of which nothing else is known."""
        mean = 0.5
        for name in (entry.level, entry.kind):
            wins, plays = self._counts(name)
            mean = (wins + PRIOR * mean) / (plays + PRIOR)
        return mean

    def _is_within(self, rate: float) -> bool:
        return self.keep[0] <= rate <= self.keep[1]

    def _is_open(self, entry: _Entry) -> bool:
        """Return whether the level below is solved, or never is; a level stays open."""
        if entry.below is None or entry.level in self._rates:
            return True
        rate = self._rates.get(entry.below, Rate())
        if rate.failed >= HOPELESS:
            return True
        return rate.plays >= ENOUGH and rate.wins >= SOLVED * rate.plays


def signal_of(group: Sequence[Rollout]) -> Signal:
    """Return whether the rewards of a group differ, and if not, which they are."""
    rewards = [rollout.reward for rollout in group if rollout.reward is not None]
    if not rewards:
        return "lost"
    if max(rewards) - min(rewards) >= EQUAL:
        return "mixed"
    if any(rollout.episode.success for rollout in group):
        return "solved"
    return "failed"


def _entries(source: int, tasks: Sequence[Task]) -> list[_Entry]:
    """Return the entries of one environment's tasks; families and kinds of two environments are
    apart."""
    difficulties = defaultdict[str, set[float]](set)
    rows = []
    for task in tasks:
        family = f"{source}/{task.extra.get('family', 'tasks')}"
        difficulty: Any = task.extra.get("difficulty", 0)
        if not isinstance(difficulty, int | float) or not math.isfinite(difficulty):
            difficulty = 0
        if task.rounds:
            difficulty = (difficulty or 1) * (1 + len(task.rounds))
        difficulties[family].add(difficulty)
        rows.append((task, family, difficulty))
    entries = []
    for task, family, difficulty in rows:
        level, below = f"{family}/{difficulty:g}", None
        if easier := [other for other in difficulties[family] if other < difficulty]:
            below = f"{family}/{max(easier):g}"
        entries.append(
            _Entry(
                task,
                f"{source}:{task.id}/{zlib.crc32(repr(task.query).encode()):08x}",
                f"{level}/{task.extra.get('kind', '')}",
                level,
                below,
            )
        )
    return entries
