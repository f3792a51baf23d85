"""The families bash-rounds and sql-rounds: a report whose lines answer questions, and requests that
change it.

    add         a line with the answer to a question
    replace     the same question about another value
    generalise  one more line: the same question about another value
    except      a line is removed
    undo        the change before is taken back

Only `add` says a whole question, so what the others mean is in the requests before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from intercode.generate.draws import Draw
from intercode.generate.families import Place, Question
from intercode.generate.hops.english import question, say
from intercode.generate.hops.families import FAMILIES as QUESTIONS
from intercode.generate.hops.families import GOLDS, Written, draw_term, others_of
from intercode.generate.hops.terms import Term, World
from intercode.generate.ladder import KNOWN

NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
ABOUT = "a report that changes in 3 to 6 rounds; each line answers a question of several look-ups"
SAYS = {
    "add": "Add the line {name}: {text}",
    "replace": "In the line {name}, use {text} instead.",
    "generalise": "Add the line {name}: the same as {like}, but for {text}.",
    "except": "Remove the line {name}.",
    "undo": "Undo your last change.",
}
WAYS = {
    "bash": (
        "Make the file {site}/report with lines NAME=ANSWER, sorted by name. ",
        " Print the report.",
        "value=$(\n{code}\n)\ntouch {site}/report\nsed -i '/^{name}=/ d' {site}/report\n"
        'echo "{name}=$value" >>{site}/report\nsort -o {site}/report {site}/report\n'
        "cat {site}/report",
        "sed -i '/^{name}=/ d' {site}/report\ncat {site}/report",
        "{name}={value}\n",
    ),
    "sql": (
        "Make the table report (name TEXT PRIMARY KEY, value TEXT), with a row for each line. ",
        " Show name and value of all rows, ordered by name.",
        "CREATE TABLE IF NOT EXISTS report (name TEXT PRIMARY KEY, value TEXT);\n"
        "REPLACE INTO report VALUES ('{name}', ({code}));\n"
        "SELECT name, value FROM report ORDER BY name",
        "DELETE FROM report WHERE name = '{name}';\nSELECT name, value FROM report ORDER BY name",
        "('{name}', '{value}')",
    ),
}
"""By environment: what the first query begins with and each ends with, golds that set and remove a
line, and a line as it is shown."""


def ask(draw: Draw, place: Place, hops: int, asks: int, env: str) -> Question | str:
    """Return the first request for a report with the later ones, or the reason why there are
    none."""
    (begin, end, put, drop, shown), since = WAYS[env], dict[str, list[int]]()
    written: Written = replace(place.data, walks=replace(place.data.walks, asked=set()))
    rounds, cells, rung = list[dict[str, Any]](), list[str](), KNOWN
    count = draw.randint(3, 6)
    for query, name, term, at in islice(_changes(draw, written, hops), count):
        rung = at
        gold = drop.format(name=name, **place.facts)
        if term:
            gold = put.format(name=name, code=GOLDS[env](place, term), **place.facts)
            cells.append(shown.format(name=name, value=written.world.value(term)))
        rounds.append({"query": query + end, "gold": gold, "changes": since.get(name, [])})
        since[name] = [len(rounds)]
    if len(rounds) < count or asks:
        return "no walk of so many hops, no other value, or clauses to leave out"
    rounds[0]["query"] = begin.format_map(place.facts) + rounds[0]["query"]
    kind = f"{count} rounds"
    if rung != KNOWN:
        kind += ", with new look-ups"
    return Question(
        kind=kind,
        difficulty=hops,
        gold=rounds[0]["gold"],
        query=[rounds[0]["query"]],
        held_out=rung != KNOWN,
        answer=cells,
        rung=rung,
        extra={"rounds": rounds},
    )


def _changes(
    draw: Draw, written: Written, hops: int
) -> Iterator[tuple[str, str, Term | None, str]]:
    """Yield requests, each with the line that it changes, that line's term from now on, and the
    rung of the terms so far; no more once a term cannot be drawn."""
    world, report = written.world, dict[str, Term]()
    last: tuple[str, Term | None] = "", None
    kind, rung = "", KNOWN
    for number, name in enumerate(NAMES):
        before, kind, like = kind, draw.choice([*SAYS]), draw.choice([*report] or [""])
        able = len(report) > (kind == "except")
        if not able or (kind == "undo" and (number < 2 or before == "undo")):
            kind = "add"
        term: Term | None = None
        text = ""
        match kind:
            case "add":
                term, at = draw_term(draw, written, hops)
                rung = max(rung, at)
                if term:
                    text = question(draw, world, term)
            case "replace" | "generalise":
                term, text = _another(draw, world, report[like])
            case "undo":
                name, term = last
        if not (text or kind in ("except", "undo")):
            return
        if kind in ("replace", "except"):
            name = like
        last = name, report.pop(name, None)
        if term:
            report[name] = term
        yield SAYS[kind].format(name=name, like=like, text=text), name, term, rung


def _another(draw: Draw, world: World, term: Term) -> tuple[Term | None, str]:
    """Return the term about another value of one of its conditions, and that value in words; None
    if it has no such value."""
    for node in draw.shuffled(node for node in term.nodes if node.hop.hidden):
        for hop in draw.shuffled(others_of(world, node)):
            other = term.with_hop(node, hop)
            if world.value(other) not in (None, "", world.value(term)):
                return other, say(Term(hop), draw.choice(hop.says))
    return None, ""


FAMILIES = tuple(
    replace(family, name=f"{family.env}-rounds", about=ABOUT, ask=partial(ask, env=family.env))
    for family in QUESTIONS
)
