"""The families bash-questions and sql-questions: places with a world, questions with golds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from intercode.generate.draws import Draw
from intercode.generate.families import FORMS, Family, Place, Question
from intercode.generate.hops.carriers import command, files
from intercode.generate.hops.english import in_words, question
from intercode.generate.hops.layouts import CARRIERS, Layout, coded, draw_layout
from intercode.generate.hops.schema import DOMAINS, Hop, read_domain
from intercode.generate.hops.sql import create, legend, select
from intercode.generate.hops.terms import Term, Walks, World
from intercode.generate.hops.worlds import draw_world
from intercode.generate.ladder import KNOWN, NEW_FAMILY, NEW_KIND

PER_PLACE = 10
NEW_DOMAIN, NEW_HOPS = 0.2, 0.4
"""The parts of the test split that are about a domain, or have a hop or a pair of hops, that
training does not have."""
LEGENDS = ("codes", "legend", "meanings")
BASH_FORMS = (
    "The records are in {}.",
    "Look it up under {}.",
    "All of it is recorded under {}.",
)


@dataclass(frozen=True)
class Written:
    """A world as it is written in one place."""

    world: World
    layouts: Mapping[str, Layout]
    walks: Walks

    def convert(self, kind: str, one: str, other: str) -> Hop:
        """Return the hop from one form of an entity to another: a look-up in its home."""
        home = self.world.domain.homes[kind]
        columns = {}
        for name, column in self.world.domain.tables[home].columns.items():
            columns[column.form] = name
        return Hop("form", home, (columns[one],), (), "the", "", columns[other])


def _draw(draw: Draw, carriers: list[str]) -> Written:
    """Return a world with layouts of its tables."""
    domains = [read_domain(name) for name in DOMAINS]
    new = draw.split == "test" and draw.random() < NEW_DOMAIN
    fitting = [domain for domain in domains if domain.held_out == new]
    world = draw_world(draw, draw.choice(fitting or domains))
    layouts, taken = dict[str, Layout](), set[str]()
    for name in world.domain.tables:
        layouts[name] = draw_layout(draw, world, name, carriers, taken)

    def shows(hop: Hop) -> str:
        return layouts[hop.table].forms[hop.give]

    return Written(world, layouts, Walks(world, draw, shows, Counter()))


def _bash_place(draw: Draw, name: str) -> Place:
    site = draw.home("srv", name)
    written = _draw(draw, [*CARRIERS])
    place = Place(name, facts={"site": site}, data=written)
    for layout in written.layouts.values():
        for path, content in files(layout, written.world).items():
            place.write(path, content)
    return place


def _sql_place(draw: Draw, name: str) -> Place:
    written, db = _draw(draw, ["sqlite"]), name.replace("-", "_")
    layouts = {}
    for table, layout in written.layouts.items():
        layouts[table] = coded(draw, written.world, layout)
    place = Place(name, facts={"db": db}, data=replace(written, layouts=layouts))
    statements = list[str]()
    if any(layout.codes for layout in layouts.values()):
        statements.append(legend([*layouts.values()], draw.choice(LEGENDS)))
    for layout in layouts.values():
        statements.append(create(layout, layout.texts(written.world)))
    place.files[f"databases/{db}.sql"] = "".join(draw.shuffled(statements))
    return place


def _keyed(written: Written, node: Term) -> tuple[Hop, list[Hop | None]]:
    """Return the hop of a term, and for each argument the look-up of the form that it needs: none
    if it has that form, or if the hop can select by its own form."""
    hop, needed = node.hop, list[Hop | None]()
    for place, arg in enumerate(node.args):
        kind, key = arg.hop.gives, hop.keys[place]
        form = written.layouts[arg.hop.table].forms[arg.hop.give]
        wanted = written.layouts[hop.table].forms[key]
        convert = None
        if form != wanted:
            convert = written.convert(kind, form, wanted)
            if convert.table == hop.table and key == convert.give:
                keys = (*hop.keys[:place], *convert.keys, *hop.keys[place + 1 :])
                hop, convert = replace(hop, keys=keys), None
        needed.append(convert)
    return hop, needed


def bash_gold(place: Place, term: Term) -> str:
    """Return a script with a command for each look-up."""
    written: Written = place.data
    world, lines = written.world, [f"cd {place.facts['site']}"]
    names = dict[Term, str]()
    counts = Counter[str]()

    def look_up(hop: Hop, variables: list[str], kind: str) -> str:
        code = command(written.layouts[hop.table], world, hop, variables)
        counts[kind] += 1
        name = f"{kind}{counts[kind]}"
        lines.append(f"{name}=$({code})")
        return name

    for node in term.nodes:
        hop, needed = _keyed(written, node)
        variables = [names[arg] for arg in node.args]
        for number, convert in enumerate(needed):
            if convert:
                kind = node.args[number].hop.gives
                variables[number] = look_up(convert, [variables[number]], kind)
        if node is term:
            lines.append(command(written.layouts[hop.table], world, hop, variables))
        else:
            names[node] = look_up(hop, variables, hop.gives)
    return "\n".join(lines)


def sql_gold(place: Place, term: Term) -> str:
    """Return one nested query."""
    written: Written = place.data

    def query(hop: Hop, arguments: list[str]) -> str:
        return select(hop, written.layouts[hop.table], arguments)

    hop, needed = _keyed(written, term)
    arguments = []
    for arg, convert in zip(term.args, needed, strict=True):
        inner = f"({sql_gold(place, arg)})"
        if convert:
            inner = f"({query(convert, [inner])})"
        arguments.append(inner)
    return query(hop, arguments)


def draw_term(draw: Draw, written: Written, hops: int) -> tuple[Term | None, str]:
    """Return a question of so many hops, if there is one, and its rung."""
    new = draw.split == "test" and draw.random() < NEW_HOPS
    term = replace(written.walks, draw=draw).term(hops, new)
    if written.world.domain.held_out:
        return term, NEW_FAMILY
    return term, NEW_KIND if new else KNOWN


def others_of(world: World, node: Term) -> list[Hop]:
    """Return the hop of a root with each other value that has an entity."""
    (original,) = [hop for hop in world.domain.hops if hop.name == node.hop.name]
    others = [hop for hop in world.closed(original) if world.function(hop).get(())]
    others.remove(node.hop)
    return others


def ask(
    draw: Draw,
    place: Place,
    hops: int,
    asks: int,
    gold: Callable[[Place, Term], str],
    shown: Callable[[Any], str],
) -> Question | str:
    """Return a question about a place, or the reason why there is none."""
    written: Written = place.data
    term, rung = draw_term(draw, written, hops)
    if term is None:
        return "no walk of so many hops"
    hidden = [node for node in term.nodes if node.hop.hidden]
    if len(hidden) < asks:
        return "too few clauses can be left out"
    hidden = draw.sample(hidden, asks)
    text = question(draw, written.world, term, hidden)
    if "site" in place.facts:
        where = draw.choice(BASH_FORMS).format(place.facts["site"])
        text = f"{text} {where} {draw.choice(FORMS['text'])}"
    return Question(
        kind="+".join(node.hop.name for node in term.nodes),
        difficulty=hops,
        gold=gold(place, term),
        query=[text],
        held_out=rung != KNOWN,
        answer=[shown(written.world.value(term))],
        rung=rung,
        extra=_facets(draw, place, term, hidden, gold),
    )


def _facets(
    draw: Draw, place: Place, term: Term, hidden: list[Term], gold: Callable[[Place, Term], str]
) -> dict[str, Any]:
    """Return the fields of a record whose query leaves out the values of some hops, with a gold
    that guesses them."""
    world: World = place.data.world
    facets, guess = [], term
    for node in hidden:
        reply = f"I mean {draw.choice(node.hop.says).replace('<v>', in_words(node.hop.value))}."
        facets.append({"name": node.hop.name, "asks": list(node.hop.asks), "reply": reply})
        guess = guess.with_hop(node, draw.choice(others_of(world, node)))
    if not facets:
        return {}
    return {"facets": facets, "unclarified": gold(place, guess)}


GOLDS = {"bash": bash_gold, "sql": sql_gold}


def printed(value: Any) -> str:
    """Return a part of the text of an outcome that prints a value."""
    line = f"{value}\n"
    return f"output={line!r}"


def selected(value: Any) -> str:
    return repr([(value,)])


FAMILIES = (
    Family(
        "bash-questions",
        "bash",
        "questions of several look-ups, each needed: logs, tables, JSON, mail, git, archives",
        place=_bash_place,
        ask=lambda draw, place, hops, asks: ask(draw, place, hops, asks, bash_gold, printed),
        length="hops",
        tasks_per_place=PER_PLACE,
    ),
    Family(
        "sql-questions",
        "sql",
        "questions of several look-ups, each needed: joins and nested queries",
        place=_sql_place,
        ask=lambda draw, place, hops, asks: ask(draw, place, hops, asks, sql_gold, selected),
        length="hops",
        tasks_per_place=PER_PLACE,
    ),
)
