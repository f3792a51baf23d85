"""Are questions of several look-ups sound, is each look-up needed, and can none be guessed?

    single           none: alternatives of one hop (a clause otherwise, a look-up skipped or
                     replaced by another entity) that give the answer all the same, in memory
    executed         none: the same as commands, in a sandbox or a database
    pairs            at most 2 %: two random alternatives at once that give the answer
    guess            the key of a hop, found by its frequency, length or place in the table instead:
                     at most 3 points above chance
    reader           all: a reader who knows all relations, from the English; a question with two
                     readings that have different answers fails
    memorised        at most 25 %: the most frequent command of each hop in other places, used in a
                     new place of a known domain; at most 10 % in the domain that is held out
    chains           how many different ones, over all drafts before repeats are thrown away
    gold, noop       all golds succeed, and doing nothing never does
    nearest          at most 3 % of the tasks of four hops

`python benchmarks/composed.py [--json] [--n N] [--seed N] [--hops 2,3,4,5] [LANGUAGE …]`; exit
status 1 if a bound is missed. `--domain DOMAIN` prints how often each of its hops is sound instead.
"""

from __future__ import annotations

import random
import re
import resource
import sqlite3
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

from measuring.rows import Row, command, finish

from intercode.agents import nearest, noop
from intercode.agents.baselines import gold
from intercode.envs import prepare
from intercode.generate import FAMILIES, generate
from intercode.generate.draws import Draw
from intercode.generate.families import Place
from intercode.generate.hops.carriers import PICKS
from intercode.generate.hops.english import in_words, question
from intercode.generate.hops.families import (
    PER_PLACE,
    bash_gold,
    bash_place,
    sql_gold,
    sql_place,
)
from intercode.generate.hops.schema import DOMAINS, Hop, read_domain
from intercode.generate.hops.terms import Term, World
from intercode.generate.hops.worlds import draw_world
from intercode.generate.trial import Trial
from intercode.runner.run import evaluate

MOST_PAIRS, MOST_NEAREST, MOST_ABOVE, MOST_SECONDS = 0.02, 0.03, 0.03, 0.25
MOST_MEMORISED = 0.25
EXECUTED = 200
MOST_ELSEWHERE = 0.1
PLACES = {"bash-questions": bash_place, "sql-questions": sql_place}
GUESSES: dict[str, Callable[[list[Any]], Any]] = {
    "the most frequent": lambda cells: Counter(cells).most_common()[0][0],
    "the rarest": lambda cells: Counter(cells).most_common()[-1][0],
    "the longest": lambda cells: max(cells, key=len),
    "the shortest": lambda cells: min(cells, key=len),
    "the first": lambda cells: cells[0],
    "the last": lambda cells: cells[-1],
    "the least in order": min,
    "the greatest in order": max,
}
"""Ways to find the key of a hop without what leads to it, from the cells of its column."""


@dataclass
class Figures:
    """Counts over all tasks of a language and a number of hops."""

    single: Counter[str] = field(default_factory=Counter)
    paid: list[str] = field(default_factory=list)
    pairs: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    tries: Counter[str] = field(default_factory=Counter)
    chance: Counter[str] = field(default_factory=Counter)
    chains: Counter[str] = field(default_factory=Counter)
    drafts: int = 0
    lost: int = 0


def terms(
    name: str, hops: int, n: int, seed: int, figures: Figures
) -> Iterator[tuple[Place, Term]]:
    """Yield places of all domains in turn and terms, ten for each place."""
    number = 0
    while figures.drafts < n:
        number += 1
        draw = Draw(f"{name} {seed} {number}", "train", real=number % 2 == 0)
        domain = read_domain(DOMAINS[number % len(DOMAINS)])
        place = PLACES[name](domain, draw, f"place-{number}")
        for _ in range(min(PER_PLACE, n - figures.drafts)):
            term = place.data.walks.term(hops, False)
            if term is None:
                figures.lost += 1
                continue
            figures.drafts += 1
            figures.chains[" ".join(node.hop.name for node in term.nodes)] += 1
            yield place, term


def measure(world: World, term: Term, figures: Figures, rng: random.Random) -> None:
    """Count what a mistake or two, or a guess, is paid."""
    answer, nodes = world.value(term), term.nodes
    for node in nodes:
        for what, other in world.others(node.hop):
            figures.single[what] += 1
            if world.value(term, hops={node: other}) == answer:
                figures.paid.append(f"{node.hop.name}: {what}")
        for entity in world.forms.get(node.hop.gives, ()):
            if entity != world.value(node):
                figures.single["another entity"] += 1
                if world.value(term, values={node: entity}) == answer:
                    figures.paid.append(f"{node.hop.name}: another entity")
    for one in nodes:
        for two in nodes:
            if one is not two:
                mistakes = {node: rng.choice(world.others(node.hop))[1] for node in (one, two)}
                figures.pairs["paid"] += world.value(term, hops=mistakes) == answer
                figures.pairs["all"] += 1
    for node in nodes:
        for key, arg in zip(node.hop.keys, node.args, strict=True):
            cells = [row[key] for row in world.tables[node.hop.table]]
            for name, guess in GUESSES.items():
                figures.hits[name] += guess(cells) == world.value(arg)
                figures.tries[name] += 1
                figures.chance[name] += 1000 // len({*cells})


def executed(tasks: list[tuple[Place, Term]], name: str, rng: random.Random) -> Iterator[bool]:
    """Yield whether an alternative that was executed prints the answer, for random ones."""
    with Trial() as trial:
        for place, term in rng.choices(tasks, k=EXECUTED):
            world: World = place.data.world
            node = rng.choice(term.nodes)
            alternatives = []
            for _, other in world.others(node.hop):
                alike = other.pick in PICKS and "" not in other.keys and (other.keys or other.where)
                if alike and world.value(term, hops={node: other}):
                    alternatives.append(other)
            if not alternatives:
                continue
            wrong = term.with_hop(node, rng.choice(alternatives))
            text = str(world.value(term))
            if name == "bash-questions":
                (outcome,) = trial.outcomes(place, [bash_gold(place, wrong)])
                yield outcome.output.strip() == text
            else:
                with closing(sqlite3.connect(":memory:")) as connection:
                    connection.executescript("".join(map(str, place.files.values())))
                    rows = connection.execute(sql_gold(place, wrong)).fetchall()
                    yield [str(cell) for row in rows for cell in row] == [text]


def readings(world: World, text: str) -> set[Any]:
    """Return the answers to a question, by all ways to read it."""
    known, last = dict[str, list[Term]](), text
    if two := re.fullmatch("(Take|Consider|Let) (.+)[.] (.+)", text):
        last = two[3]
        for part in two[2].split(", and "):
            name, _, phrase = part.removeprefix("let ").rpartition(" be ")
            for term in parsed(world, phrase, {}):
                noun = world.domain.types[term.hop.gives].noun
                known.setdefault(name or f"that {noun}", []).append(term)
    return {world.value(term) for term in parsed(world, last, known) if not term.hop.gives}


def parsed(world: World, text: str, known: Mapping[str, list[Term]]) -> list[Term]:
    """Return the terms that a phrase or a question can mean."""
    if text in known:
        return known[text]
    terms = []
    for hop in world.domain.hops:
        for wording in hop.says:
            match = pattern(wording).fullmatch(text)
            if not match:
                continue
            parts = match.groupdict()
            drawn = parts.pop("v", None)
            able = [parsed(world, part, known) for part in parts.values()]
            for args in product(*able):
                if tuple([arg.hop.gives for arg in args]) == hop.args:
                    for one in world.closed(hop):
                        if drawn is None or in_words(one.value) == drawn:
                            terms.append(Term(one, args))
    return terms


@cache
def pattern(wording: str) -> re.Pattern[str]:
    text = re.escape(wording).replace("<v>", "(?P<v>.+?)")
    return re.compile(re.sub(r"<(\d)>", r"(?P<_\1>.+)", text))


Ways = dict[str, Counter[tuple[str, ...]]]
"""By hop, how often it is looked up in which place and way."""


def memorised(tasks: list[tuple[Place, Term]], ways: Ways) -> int:
    """Return the number of tasks of which every hop is answered by the way in which most other
    places answer it: the carrier, its pack and path, and what stands for its columns."""
    solved = 0
    for place, term in tasks:
        known = []
        for node in term.nodes:
            others = Counter[tuple[str, ...]]()
            for (name, *way), count in ways[node.hop.name].items():
                if name != place.name:
                    others[tuple(way)] += count
            known.append(bool(others) and others.most_common(1)[0][0] == way_of(place, node.hop))
        solved += all(known)
    return solved


def way_of(place: Place, hop: Hop) -> tuple[str, ...]:
    layout = place.data.layouts[hop.table]
    columns = [column for column in (*hop.keys, hop.give) if column]
    return (layout.pack, layout.path, layout.carrier.split, *map(layout.field, columns))


def cpu() -> float:
    """Return the CPU seconds of this process and its ended children."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def rows(name: str, hops: int, n: int, seed: int) -> Iterator[Row]:
    """Yield the figures of a family at a number of hops."""
    label, figures, rng = f"{name}, {hops} hops", Figures(), Draw(f"{seed}", "train")
    tasks, read = [], 0
    familiar, elsewhere = list[tuple[Place, Term]](), list[tuple[Place, Term]]()
    ways: Ways = defaultdict(Counter)
    for place, term in terms(name, hops, n, seed, figures):
        world: World = place.data.world
        measure(world, term, figures, rng)
        read += readings(world, question(rng, world, term)) == {world.value(term)}
        tasks.append((place, term))
        if world.domain.held_out:
            elsewhere.append((place, term))
            continue
        familiar.append((place, term))
        for node in term.nodes:
            ways[node.hop.name][place.name, *way_of(place, node.hop)] += 1
    count = figures.single.total()
    yield Row(f"{label}: single alternatives paid", len(figures.paid), count, 0, unit="")
    paid = list(executed(tasks, name, rng))
    yield Row(f"{label}: executed alternatives paid", sum(paid), len(paid), 0, unit="")
    pairs = figures.pairs
    yield Row(f"{label}: pairs paid", pairs["paid"], pairs["all"], MOST_PAIRS, unit="")
    for guess, tries in figures.tries.items():
        chance = figures.chance[guess] / 1000 / tries
        yield Row(
            f"{label}: guess {guess}", figures.hits[guess], tries, chance + MOST_ABOVE, unit=""
        )
    yield Row(f"{label}: reader", read, len(tasks), 1, floor=True, unit="")
    for what, some, most in (
        ("new places", familiar, MOST_MEMORISED),
        ("the domain held out", elsewhere, MOST_ELSEWHERE),
    ):
        solved = memorised(some, ways)
        yield Row(f"{label}: memorised, {what}", solved, len(some), most, unit="")
    yield Row(f"{label}: chains", len(figures.chains), figures.drafts, unit="")
    yield Row(f"{label}: walks without a task", figures.lost, n + figures.lost, unit="")
    begin = cpu()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / name
        generate(name, n=n, seed=seed, out=out, hops=hops, workers=2)
        yield Row(f"{label}: CPU seconds a task", cpu() - begin, n, MOST_SECONDS, unit="")
        factory = prepare(FAMILIES[name].env, data=str(out))
        play = partial(evaluate, factory, tasks=factory.tasks, workers=2)
        failures = sum(not episode.success for episode in play(gold))
        yield Row(f"{label}: golds that fail", failures, n, 0, unit="")
        yield Row(f"{label}: noop", sum(one.success for one in play(noop)), n, 0, unit="")
        solved = sum(episode.success for episode in play(nearest(factory.tasks)))
        yield Row(f"{label}: nearest", solved, n, MOST_NEAREST if hops == 4 else None, unit="")


def sound(domain: str, seed: int) -> None:
    """Print for each hop the part of its arguments for which it is sound."""
    counts, usable = Counter[str](), Counter[str]()
    for number in range(5):
        world = draw_world(Draw(f"{domain} {seed} {number}", "train"), read_domain(domain))
        for hop in world.domain.hops:
            for concrete in world.closed(hop):
                for arguments in world.function(concrete):
                    counts[hop.name] += 1
                    usable[hop.name] += world.sound(concrete, arguments) is not None
    for name, count in counts.items():
        print(f"{name:16} {usable[name] / count:4.0%}")


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="bash, sql [both]")
    parser.add_argument("--n", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hops", default="2,3,4,5")
    parser.add_argument("--domain", help="print how often its hops are sound")
    options = parser.parse_args()
    if options.domain:
        sound(options.domain, options.seed)
        return 0
    measured = list[Row]()
    for language in options.languages or ("bash", "sql"):
        for hops in map(int, options.hops.split(",")):
            measured += rows(f"{language}-questions", hops, options.n, options.seed)
    return finish(options, measured)


if __name__ == "__main__":
    sys.exit(main())
