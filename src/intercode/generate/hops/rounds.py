"""The families bash-rounds and sql-rounds: a report whose lines answer questions, and requests that
change it.

    add         a line with the answer to a question
    replace     the same question about another value
    generalise  one more line: the same question about another value
    except      a line is left out
    undo        the change before is taken back

Only `add` says a whole question, so what the others mean is in the requests before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from intercode.generate.draws import Draw
from intercode.generate.families import Family, Place, Question
from intercode.generate.hops.english import in_words, question
from intercode.generate.hops.families import (
    PER_PLACE,
    Written,
    bash_gold,
    bash_place,
    draw_term,
    others_of,
    sql_gold,
    sql_place,
)
from intercode.generate.hops.terms import Term, World
from intercode.generate.ladder import KNOWN

FEWEST, MOST = 3, 6
NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
SAYS = {
    "add": "Add the line {name}: {text}",
    "replace": "In the line {name}, I mean {text} instead.",
    "generalise": "Add the line {name}: the same as {like}, but for {text}.",
    "except": "Leave out the line {name}.",
    "undo": "Undo your last change.",
}
BASH = (
    "Make the file {site}/report with lines NAME=ANSWER, sorted by name, and print it after this "
    "and each later change. "
)
SQL = (
    "Make the table report with the columns name (its primary key) and value, both TEXT; its rows "
    "are the lines. Show name and value of all, by name, after this and each later change. "
)


def bash_line(place: Place, name: str, term: Term | None) -> str:
    """Return a gold that sets a line to the value of a term, or removes the line."""
    path = f"{place.facts['site']}/report"
    lines = [f"touch {path}", f"sed -i '/^{name}=/d' {path}"]
    if term:
        lines.insert(0, f"value=$(\n{bash_gold(place, term)}\n)")
        lines += [f'echo "{name}=$value" >>{path}', f"sort -o {path} {path}"]
    return "\n".join([*lines, f"cat {path}"])


def sql_line(place: Place, name: str, term: Term | None) -> str:
    """Return a gold that sets a row to the value of a term, or removes the row."""
    statements = [
        "CREATE TABLE IF NOT EXISTS report (name TEXT PRIMARY KEY, value TEXT)",
        f"DELETE FROM report WHERE name = '{name}'",
    ]
    if term:
        statements.append(f"INSERT INTO report VALUES ('{name}', ({sql_gold(place, term)}))")
    return ";\n".join([*statements, "SELECT name, value FROM report ORDER BY name"])


def printed(values: Mapping[str, Any]) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())


def selected(values: Mapping[str, Any]) -> str:
    return str([(name, str(value)) for name, value in values.items()])


def ask(
    draw: Draw,
    place: Place,
    hops: int,
    asks: int,
    line: Callable[[Place, str, Term | None], str],
    shown: Callable[[Mapping[str, Any]], str],
    begin: str,
) -> Question | str:
    """Return the first request for a report with the later ones, or the reason why there are
    none."""
    written: Written = place.data
    world, report, since = written.world, dict[str, Term](), dict[str, int]()
    last: tuple[str, Term | None] | None = None
    rounds, kinds, answers, rungs = list[dict[str, Any]](), list[str](), list[str](), list[str]()
    for number in range(draw.randint(FEWEST, MOST)):
        able = ["add", *["replace", "generalise"][: 2 * len(report)]]
        if len(report) > 1:
            able.append("except")
        if last:
            able.append("undo")
        kind, name, like, text = draw.choice(able), NAMES[number], "", ""
        term: Term | None = None
        if kind == "add":
            term, rung = draw_term(draw, written, hops)
            rungs.append(rung)
            if term is None or asks:
                return "no walk of so many hops, or clauses to leave out"
            text = question(draw, world, term)
        elif kind == "undo" and last:
            name, term = last
        else:
            like = draw.choice([*report])
        if kind in ("replace", "except"):
            name = like
        if kind in ("replace", "generalise"):
            term, text = _another(draw, world, report[like])
            if term is None:
                return "no other value"
        query = SAYS[kind].format(name=name, like=like, text=text)
        rounds.append({"query": query, "gold": line(place, name, term)})
        if name in since:
            rounds[-1]["changes"] = [since[name]]
        last = (name, report.pop(name, None)) if number and kind != "undo" else None
        since[name] = number + 1
        if term:
            report[name] = term
        values = {key: world.value(report[key]) for key in sorted(report)}
        answers.append(shown(values))
        kinds.append(kind)
    first = rounds[0]
    return Question(
        kind="+".join(kinds),
        difficulty=hops,
        gold=first.pop("gold"),
        query=[begin.format_map(place.facts) + first.pop("query")],
        held_out=max(rungs) != KNOWN,
        answer="\n".join(answers),
        rung=max(rungs),
        extra={"rounds": rounds},
    )


def _another(draw: Draw, world: World, term: Term) -> tuple[Term | None, str]:
    """Return the term about another value of one of its conditions, and that value in words; None
    if it has no such value."""
    for node in draw.shuffled([node for node in term.nodes if node.hop.hidden]):
        for hop in draw.shuffled(others_of(world, node)):
            other = term.with_hop(node, hop)
            if world.value(other) not in (None, "", world.value(term)):
                return other, draw.choice(hop.says).replace("<v>", in_words(hop.value))
    return None, ""


FAMILIES = (
    Family(
        "bash-rounds",
        "bash",
        "a report in a file, which changes in 3 to 6 rounds; each line answers a question",
        place=bash_place,
        ask=partial(ask, line=bash_line, shown=printed, begin=BASH),
        tasks_per_place=PER_PLACE,
    ),
    Family(
        "sql-rounds",
        "sql",
        "a report in a table, which changes in 3 to 6 rounds; each row answers a question",
        place=sql_place,
        ask=partial(ask, line=sql_line, shown=selected, begin=SQL),
        tasks_per_place=PER_PLACE,
    ),
)
