"""The rows of a domain, drawn so that most hops are sound and needed.

    entities ──► rows: balanced, permutations ──► champions

A *champion* is the entity that a hop with the pick `most` finds for an argument, or for a day:
each has its own, and a rival that would win if a condition were dropped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from intercode.generate.draws import Draw, without
from intercode.generate.hops.schema import Column, Condition, Domain, Hop, Row, Table, Type
from intercode.generate.hops.terms import World, closed, passing

Forms = Mapping[str, Mapping[str, Mapping[str, str]]]
_PART = re.compile(r"<([^<>]+)>")
_RANGE = re.compile(r"(\d+)-(\d+)")
LEAD = 2
"""The number of rows by which a champion leads."""


def draw_world(draw: Draw, domain: Domain) -> World:
    patterns = _Patterns(draw, domain.words)
    forms = {name: patterns.entities(type) for name, type in domain.types.items()}
    begin = datetime(draw.randint(2018, 2025), draw.randint(1, 12), draw.randint(1, 28))
    tables = dict[str, list[Row]]()
    for name, table in domain.tables.items():
        rows = _Rows(patterns, table, forms, begin)
        contests = [hop for hop in domain.hops if hop.table == name and hop.pick == "most"]
        for hop in contests * 2:  # the champions of one may have changed those of another
            rows.add_champions(hop)
        tables[name] = rows.rows
    return World(domain, forms, tables)


class _Patterns:
    def __init__(self, draw: Draw, words: Mapping[str, Sequence[str]]) -> None:
        self.draw, self.words = draw, words

    def text(self, patterns: str | Sequence[str], known: dict[str, str]) -> str:
        """Return a text of one of the patterns; words that are drawn are added to what is known."""
        if isinstance(patterns, str):
            patterns = [patterns]
        return _PART.sub(lambda part: self._part(part[1], known), self.draw.choice(patterns))

    def _part(self, part: str, known: dict[str, str]) -> str:
        if match := _RANGE.fullmatch(part):
            return str(self.draw.randint(int(match[1]), int(match[2])))
        if "|" in part:
            return self.draw.choice(part.split("|"))
        name = part.lower()
        if name not in known:
            known[name] = self.draw.choice(self.words[name])
        return known[name] if part == name else known[name].capitalize()

    def entities(self, type: Type) -> dict[str, dict[str, str]]:
        """Return the forms and words of each entity, by its first form. No two share a form."""
        entities, taken = dict[str, dict[str, str]](), set[str]()
        while len(entities) < type.count:
            known = dict[str, str]()
            forms = []
            for name, patterns in type.forms.items():
                known[name] = self.text(patterns, known)
                forms.append(known[name])
            if taken.isdisjoint(forms):
                taken.update(forms)
                entities[forms[0]] = known
        return entities


class _Rows:
    """The rows of a table."""

    def __init__(self, patterns: _Patterns, table: Table, forms: Forms, begin: datetime) -> None:
        self.patterns, self.draw = patterns, patterns.draw
        self.table, self.forms, self.begin = table, forms, begin
        self.order = dict[str, list[str]]()
        """The champions of each hop."""
        types = [column.type for column in table.columns.values() if column.type]
        self.count = len(forms[types[0]]) * (table.times or 1)
        columns = dict[str, list[Any]]()
        for name, column in table.columns.items():
            columns[name] = self._cells(column, columns)
        self.rows = [
            dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)
        ]

    def _cells(self, column: Column, columns: Mapping[str, list[Any]]) -> list[Any]:
        """Return the cells of a column that comes after some others."""
        if column.type:
            alike = [
                columns[name] for name in columns if self.table.columns[name].type == column.type
            ]
            return self._balanced([*self.forms[column.type]], alike)
        if column.form:
            entities = self.forms[self.table.columns[self.table.key].type]
            return [entities[key][column.form] for key in columns[self.table.key]]
        if column.every:
            days = range(0, self.count * column.every, column.every)
            return [f"{self.begin + timedelta(days=day):%Y-%m-%d}" for day in days]
        cells = [self._cell(column) for _ in range(self.count)]
        if column.time:
            cells.sort()
        return cells

    def _balanced(self, entities: Sequence[str], alike: Sequence[list[str]]) -> list[str]:
        """Return permutations of the entities one after another, none twice in a row of the table.

        The last one is whole.
        """
        cells, rows = list[str](), [*zip(*alike, strict=True)]
        while len(cells) < self.count:
            size = (self.count - len(cells)) % len(entities) or len(entities)
            block = self.draw.sample(entities, size)
            pairs = zip(block, rows[len(cells) :], strict=False)
            if not any(entity in row for entity, row in pairs):
                cells += block
        return cells

    def _cell(self, column: Column) -> Any:
        if column.type:
            return self.draw.choice([*self.forms[column.type]])
        if column.time:
            minutes = self.draw.randrange(column.time * 1440)
            return f"{self.begin + timedelta(minutes=minutes):%Y-%m-%d %H:%M}"
        text = self.patterns.text(column.value, {})
        return int(text) if column.numbers else text

    # -- champions ---------------------------------------------------------------------------------

    def add_champions(self, hop: Hop) -> None:
        """Add rows so that each argument, or each day, has a champion of its own, and another that
        would win without one of the conditions."""
        arguments = list[list[Condition]]([[]])
        for key, kind in zip(hop.keys, hop.args, strict=True):
            arguments = [[Condition(key, entity)] for entity in self.forms[kind]]
        if hop.name not in self.order:
            self.order[hop.name] = self.draw.shuffled(self.forms[hop.gives])
        order, place = self.order[hop.name], 0
        for closed_hop in closed(hop, self.rows):
            for argument in arguments:
                champion, rival = order[place % len(order)], order[place % len(order) - 1]
                place += 1
                for test in closed_hop.where:
                    if not test.length:  # it is no day
                        rest = without(closed_hop.where, [test])
                        self._lead(hop, argument, rest, [*rest, self._other(test)], rival)
                self._lead(hop, argument, closed_hop.where, closed_hop.where, champion)
        self.rows.sort(key=lambda row: str(row[self.table.time]))

    def _other(self, test: Condition) -> Condition:
        """Return a condition with another value."""
        values = {row[test.column] for row in self.rows} - {test.value}
        return replace(test, value=self.draw.choice(sorted(values)))

    def _lead(
        self,
        hop: Hop,
        argument: Sequence[Condition],
        tests: Sequence[Condition],
        clear: Sequence[Condition],
        champion: str,
    ) -> None:
        """Add rows that pass the tests `clear`, until an entity leads among those that pass the
        other tests."""
        tally = Counter(row[hop.give] for row in passing(self.rows, [*argument, *tests]))
        count = tally.pop(champion, 0)
        alike = passing(self.rows, clear) or self.rows
        for _ in range(max(tally.values(), default=0) + LEAD - count):
            like = self.draw.choice(alike)
            row = {name: self._cell(column) for name, column in self.table.columns.items()}
            row |= {test.column: like[test.column] for test in clear}
            row |= {test.column: test.value for test in argument}
            self.rows.append(row | {hop.give: champion})
