"""The families bash-questions and sql-questions: places with a world, questions with golds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from intercode.generate.draws import Draw
from intercode.generate.families import FORMS, Family, Place, Question
from intercode.generate.hops.carriers import PROGRAMS, command, files
from intercode.generate.hops.english import question, say
from intercode.generate.hops.layouts import CARRIERS, Layout, coded, draw_layout
from intercode.generate.hops.schema import DOMAINS, Domain, Hop, read_domain
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
    "The files are under {}.",
    "All of it is recorded under {}.",
)
Gold = Callable[[Place, Term], str]


@dataclass(frozen=True)
class Written:
    """A world as it is written in one place."""

    world: World
    layouts: Mapping[str, Layout]
    walks: Walks

    def keyed(self, node: Term) -> tuple[Hop, list[Hop | None]]:
        """Return the hop of a term, and for each argument the look-up of the form that it needs:
        none if it has that form, or if the hop can select by its own form."""
        hop, needed = node.hop, list[Hop | None]()
        for place, arg in enumerate(node.args):
            key = hop.keys[place]
            form = self.layouts[arg.hop.table].forms[arg.hop.give]
            wanted = self.layouts[hop.table].forms[key]
            convert = None
            if form != wanted:
                convert = self._convert(arg.hop.gives, form, wanted)
                if convert.table == hop.table and key == convert.give:
                    keys = [*hop.keys]
                    keys[place] = convert.keys[0]
                    hop, convert = replace(hop, keys=tuple(keys)), None
            needed.append(convert)
        return hop, needed

    def _convert(self, kind: str, form: str, wanted: str) -> Hop:
        """Return the hop from one form of an entity to another: a look-up in its home."""
        home = self.world.domain.home(kind)
        names = {}
        for name, column in self.world.domain.tables[home].columns.items():
            names[column.form] = name
        return Hop("form", home, (names[form],), give=names[wanted])


def _domain(draw: Draw) -> Domain:
    new = draw.split == "test" and draw.random() < NEW_DOMAIN
    domains = [read_domain(name) for name in DOMAINS]
    return draw.choice([domain for domain in domains if domain.held_out == new])


def _written(draw: Draw, domain: Domain, carriers: Sequence[str]) -> Written:
    """Return a world with layouts of its tables."""
    world = draw_world(draw, domain)
    layouts, taken = dict[str, Layout](), set[str]()
    for name in domain.tables:
        layouts[name] = draw_layout(draw, world, name, carriers, taken)

    def shows(hop: Hop) -> str:
        return layouts[hop.table].forms[hop.give]

    return Written(world, layouts, Walks(world, draw, shows))


def bash_place(domain: Domain, draw: Draw, name: str) -> Place:
    site = draw.home("srv", name)
    written = _written(draw, domain, [*CARRIERS])
    place = Place(name, facts={"site": site}, data=written)
    for layout in written.layouts.values():
        for path, content in files(layout, written.world).items():
            place.write(path, content)
    return place


def sql_place(domain: Domain, draw: Draw, name: str) -> Place:
    written, db = _written(draw, domain, ["sqlite"]), name.replace("-", "_")
    layouts, statements = {}, []
    for table, layout in written.layouts.items():
        layouts[table] = coded(draw, written.world, layout)
        statements.append(create(layouts[table], layouts[table].texts(written.world)))
    statements.append(legend([*layouts.values()], draw.choice(LEGENDS)))
    place = Place(name, facts={"db": db}, data=replace(written, layouts=layouts))
    place.files[f"databases/{db}.sql"] = "".join(draw.shuffled(statements))
    return place


def bash_gold(place: Place, term: Term) -> str:
    """Return a script with a command for each look-up."""
    written: Written = place.data
    lines, names = [f"cd {place.facts['site']}"], dict[Term, str]()
    counts = Counter[str]()

    def look_up(hop: Hop, variables: list[str], kind: str) -> str:
        """Add a command, and return the name of the variable that has what it prints."""
        code = command(written.layouts[hop.table], written.world, hop, variables)
        if not kind:
            lines.append(code)
            return ""
        counts[kind] += 1
        name = f"{kind}{counts[kind]}"
        lines.append(f"{name}=$({code})")
        return name

    for node in term.nodes:
        hop, needed = written.keyed(node)
        variables = []
        for arg, convert in zip(node.args, needed, strict=True):
            name = names[arg]
            if convert:
                name = look_up(convert, [name], arg.hop.gives)
            variables.append(name)
        names[node] = look_up(hop, variables, hop.gives)
    return "\n".join(lines)


def sql_gold(place: Place, term: Term) -> str:
    """Return one nested query."""
    written: Written = place.data

    def query(hop: Hop, arguments: list[str]) -> str:
        return select(hop, written.layouts[hop.table], arguments)

    hop, needed = written.keyed(term)
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
    """Return the hop of a term with each other value."""
    others = []
    for what, hop in world.others(node.hop):
        if what == "another value" and hop.value != node.hop.value and world.function(hop):
            others.append(hop)
    return others


def _ask(
    gold: Gold, shown: Callable[[Any], str], draw: Draw, place: Place, hops: int, asks: int
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
        extra=_facets(gold, draw, place, term, hidden),
    )


def _facets(gold: Gold, draw: Draw, place: Place, term: Term, hidden: list[Term]) -> dict[str, Any]:
    """Return the fields of a record whose query leaves out the values of some hops, with a gold
    that guesses them."""
    if not hidden:
        return {}
    facets, guess, world = [], term, place.data.world
    for node in hidden:
        reply = f"I mean {say(node, draw.choice(node.hop.says))}."
        facets.append({"name": node.hop.name, "asks": list(node.hop.asks), "reply": reply})
        guess = guess.with_hop(node, draw.choice(others_of(world, node)))
    return {"facets": facets, "unclarified": gold(place, guess)}


GOLDS = {"bash": bash_gold, "sql": sql_gold}


def _printed(value: Any) -> str:
    """Return a part of the text of an outcome that prints a value."""
    line = f"{value}\n"
    return f"output={line!r}"


def _selected(value: Any) -> str:
    return repr([(value,)])


FAMILIES = (
    Family(
        "bash-questions",
        "bash",
        "questions of several look-ups, each needed: logs, tables, JSON, mail, git, archives",
        place=lambda draw, name: bash_place(_domain(draw), draw, name),
        ask=partial(_ask, bash_gold, _printed),
        length="hops",
        tasks_per_place=PER_PLACE,
        programs=PROGRAMS,
    ),
    Family(
        "sql-questions",
        "sql",
        "questions of several look-ups, each needed: joins and nested queries",
        place=lambda draw, name: sql_place(_domain(draw), draw, name),
        ask=partial(_ask, sql_gold, _selected),
        length="hops",
        tasks_per_place=PER_PLACE,
    ),
)
