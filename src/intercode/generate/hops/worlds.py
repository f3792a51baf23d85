"""The rows of a domain, drawn so that most hops are sound and needed.

    entities ──► rows: balanced, permutations ──► champions ──► winners that differ

A *champion* is the entity that a hop with the pick `most` finds for an argument, or for a day:
each has its own, and a rival that would win if a condition were dropped.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import cycle
from typing import Any

from intercode.generate.draws import Draw, without
from intercode.generate.hops.schema import Column, Condition, Domain, Hop, Table, key_of
from intercode.generate.hops.terms import Row, World, closed, holds, order_of, other_tests

_PART = re.compile(r"<([^<>]+)>")
_RANGE = re.compile(r"(\d+)-(\d+)")
TRIES = 40
LEAD = 2
MOST_ADDED = 30


def draw_world(draw: Draw, domain: Domain) -> World:
    patterns = _Patterns(draw, domain.words)
    known = dict[str, dict[str, Row]]()
    for name, type in domain.types.items():
        known[name] = patterns.entities(type.forms, type.count)
    begin = datetime(draw.randint(2018, 2025), draw.randint(1, 12), draw.randint(1, 28))
    tables = dict[str, list[Row]]()
    for name, table in domain.tables.items():
        rows = _Rows(draw, domain, patterns, table, known, begin)
        hops = [hop for hop in domain.hops if hop.table == name]
        rows.draw_all()
        for hop in [*hops, *hops]:
            if hop.pick in ("most", "summost"):
                rows.add_champions(hop)
        rows.settle(hops)
        tables[name] = rows.rows
    return World(domain, known, tables)


class _Patterns:
    def __init__(self, draw: Draw, words: Mapping[str, Sequence[str]]) -> None:
        self.draw, self.words = draw, words

    def text(self, patterns: str | Sequence[str], known: Row) -> str:
        """Return a text of one of the patterns; words that are drawn are added to what is known."""
        if isinstance(patterns, str):
            patterns = (patterns,)
        pattern = self.draw.choice(patterns)
        return _PART.sub(lambda match: self._part(match[1], known), pattern)

    def _part(self, part: str, known: Row) -> str:
        if match := _RANGE.fullmatch(part):
            return str(self.draw.randint(int(match[1]), int(match[2])))
        if "|" in part:
            return self.draw.choice(part.split("|"))
        name = part.lower()
        if name not in known:
            known[name] = self.draw.choice(self.words[name])
        text = str(known[name])
        return text if part == name else text.capitalize()

    def fresh(self, patterns: str | Sequence[str], known: Row, taken: set[str]) -> str:
        """Return a text that was not taken, if there is one soon."""
        for _ in range(TRIES):
            drawn = dict(known)
            text = self.text(patterns, drawn)
            if text not in taken:
                break
        taken.add(text)
        known |= drawn
        return text

    def entities(
        self, forms: Mapping[str, str | Sequence[str]], count: int
    ) -> dict[str, dict[str, str]]:
        """Return the forms and words of each entity, by its first form, in order."""
        taken = defaultdict[str, set[str]](set)
        entities = dict[str, dict[str, str]]()
        while len(entities) < count:
            known: Row = {}
            for name, patterns in forms.items():
                known[name] = self.fresh(patterns, known, taken[name])
            entities[known[next(iter(forms))]] = known
        return dict(sorted(entities.items()))


class _Rows:
    """The rows of a table."""

    def __init__(
        self,
        draw: Draw,
        domain: Domain,
        patterns: _Patterns,
        table: Table,
        known: Mapping[str, Mapping[str, Row]],
        begin: datetime,
    ) -> None:
        self.draw, self.domain, self.patterns = draw, domain, patterns
        self.table, self.known, self.begin = table, known, begin
        self.taken = defaultdict[str, set[str]](set)
        self.rows = list[Row]()
        self.champions = dict[Any, list[str]]()
        self.ranks = defaultdict[str, list[str]](list)
        self.key = key_of(table)
        self.first = next((name for name, column in table.columns.items() if column.type), "")
        self.time = table.time

    def draw_all(self) -> None:
        types = [column.type for column in self.table.columns.values() if column.type]
        count = self.table.times * len(self.known[(types or [""])[0]]) if self.table.times else 0
        keys: list[str] = []
        if self.table.each:
            keys = list(self.known[self.table.each])
            if not self.time:
                keys = self.draw.shuffled(keys)
            count = len(keys)
        columns = dict[str, list[str]]()
        for name, column in self.table.columns.items():
            if column.type:
                unlike = columns.get(column.unlike, keys if column.unlike == self.key else [])
                entities = list(self.known[column.type])
                if column.some:
                    entities = self.draw.sample(entities, column.some)
                columns[name] = self._balanced(entities, count, unlike)
        for place in range(count):
            given = {name: values[place] for name, values in columns.items()}
            if keys:
                given[self.key] = keys[place]
            self.rows.append(self._row(given))
        self._sort()
        if self.time and (columns or keys):  # what was balanced has to stay in order of time
            for place, row in enumerate(self.rows):
                row |= {name: values[place] for name, values in columns.items()}
                if keys:
                    row[self.key] = keys[place]

    def _balanced(self, entities: list[str], count: int, unlike: Sequence[str]) -> list[str]:
        """Return permutations of the entities one after another, each unlike another list."""
        values = list[str]()
        while len(values) < count:
            block = self.draw.shuffled(entities)
            against = unlike[len(values) : len(values) + len(block)]
            while any(map(str.__eq__, block, against)):
                block = self.draw.shuffled(entities)
            values += block
        return values[len(values) - count :]

    def _row(self, given: Row) -> Row:
        """Return a row with some values given."""
        row: Row = {}
        known: Row = {}
        if self.key:
            known = self.known[self.table.each][given[self.key]]
        elif self.first in given:  # the words of the row are those of this entity
            known = self.known[self.table.columns[self.first].type][given[self.first]]
        for name, column in self.table.columns.items():
            if name in given:
                value = given[name]
            elif column.form:
                value = known[column.form]
            elif column.type:
                value = self.draw.choice(list(self.known[column.type]))
            elif column.time:
                value = self._moment(column)
            elif column.every:
                value = f"{self.begin + timedelta(days=len(self.rows) * column.every):%Y-%m-%d}"
            elif column.after:
                value = self._later(row, column.after, column.only)
            else:
                value = self._value(name, known)
            row[name] = value
        return row

    def _value(self, name: str, known: Row) -> Any:
        column = self.table.columns[name]
        if self.table.each or column.order:
            text = self.patterns.fresh(column.value, known, self.taken[name])
        else:
            text = self.patterns.text(column.value, known)
        return int(text) if column.numbers else text

    def _moment(self, column: Column) -> str:
        minutes = self.draw.randrange(column.time * 1440)
        moment = self.begin + timedelta(days=column.start, minutes=minutes)
        return f"{moment:%Y-%m-%d %H:%M}"

    def _later(self, row: Row, before: str, only: str) -> str:
        column, _, value = only.partition(" = ")
        if only and row[column] != value:
            return ""
        minutes = self.draw.randint(60, 30000)
        return f"{datetime.fromisoformat(row[before]) + timedelta(minutes=minutes):%Y-%m-%d %H:%M}"

    def _sort(self) -> None:
        if self.time:
            self.rows.sort(key=lambda row: str(row[self.time]))

    # -- champions ---------------------------------------------------------------------------------

    def add_champions(self, hop: Hop) -> None:
        """Add rows so that each argument, or each day, has a champion of its own, and others that
        would win without one of the conditions, or with another limit."""
        for closed_hop in closed(hop, self.rows):
            arguments: list[Row] = [{}]
            if hop.keys:
                arguments = [{hop.keys[0]: entity} for entity in self.known[hop.args[0]]]
            for argument in arguments:
                key = closed_hop, *argument.values()
                if key not in self.champions:
                    if not self.ranks[hop.name]:
                        self.ranks[hop.name] = self.draw.shuffled(self.known[hop.gives])
                    champion = self.ranks[hop.name].pop()
                    others = without(self.known[hop.gives], [champion])
                    self.champions[key] = [champion, *self.draw.sample(others, 2)]
                self._let_win(closed_hop, argument, *self.champions[key])
        self._sort()

    def _let_win(self, hop: Hop, argument: Row, champion: str, first: str, second: str) -> None:
        clear = list(hop.where)
        for place, test in enumerate(hop.where):
            rest = [other for other in hop.where if other != test]
            if test.op == ">=":
                equal, lower = [*other_tests(test, self.rows)][:2]
                clear[place] = replace(test, value=test.value + 1)
                self._lead(hop, argument, [*rest, equal], [*rest, equal], first)
                self._lead(hop, argument, [*rest, lower], [*rest, replace(lower, op="=")], second)
                self._lead(hop, argument, rest, [*rest, replace(lower, op="=")], second)
            elif test.value != hop.value:
                others = [replace(test, value=value) for value in self._values(test)]
                self._lead(hop, argument, rest, [*rest, self.draw.choice(others)], second)
        self._lead(hop, argument, hop.where, clear, champion)

    def _values(self, test: Condition) -> list[Any]:
        """Return the other values in the column of a condition."""
        return sorted({row[test.column] for row in self.rows} - {test.value})

    def _lead(
        self,
        hop: Hop,
        argument: Row,
        tests: Sequence[Condition],
        clear: Sequence[Condition],
        champion: str,
    ) -> None:
        """Add rows that pass the tests `clear`, until an entity leads among those that pass the
        other tests."""
        tally = Counter[Any]()
        passing = self._passing(tests)
        for row in passing:
            if all(row[key] == value for key, value in argument.items()):
                tally[row[hop.give]] += self._weight(hop, row)
        others = max([count for name, count in tally.items() if name != champion] or [0])
        lead = LEAD
        if hop.pick == "summost":
            lead = others // 20 + 1
        alike = self._passing(clear) or self.rows
        large = sorted(self._weight(hop, row) for row in alike)[-len(alike) // 10 :]
        for _ in range(MOST_ADDED):
            if tally[champion] >= others + lead:
                break
            row, like = self._row({**argument, hop.give: champion}), self.draw.choice(alike)
            row |= {test.column: like[test.column] for test in clear}
            if hop.pick == "summost":  # few large numbers, or the champion would also be the most
                row[hop.by] = self.draw.choice(large)
            self.rows.append(row)
            tally[champion] += self._weight(hop, row)

    def _weight(self, hop: Hop, row: Row) -> int:
        weight: int = row[hop.by] if hop.pick == "summost" else 1
        return weight

    def _passing(self, tests: Sequence[Condition]) -> list[Row]:
        passing = []
        for row in self.rows:
            if all(holds(row[test.column], test) for test in tests):
                passing.append(row)
        return passing

    # -- winners -----------------------------------------------------------------------------------

    def settle(self, hops: Sequence[Hop]) -> None:
        """Let the latest or earliest rows of different arguments have different values."""
        for hop in hops:
            if hop.pick not in ("latest", "earliest") or not hop.gives or hop.give == self.key:
                continue
            if len(hop.keys) != 1:
                continue
            order = self.table.columns[hop.by].order
            choose: Callable[..., Row] = max if hop.pick == "latest" else min
            groups = defaultdict[str, list[Row]](list)
            for row in self.rows:
                if row[hop.by] and all(holds(row[test.column], test) for test in hop.where):
                    groups[row[hop.keys[0]]].append(row)
            winners = []
            for rows in groups.values():
                winners.append(choose(rows, key=lambda row: order_of(row[hop.by], order)))
            if len({row[hop.give] for row in winners}) < len(winners):
                entities = cycle(self.draw.shuffled(self.known[hop.gives]))
                for row in winners:
                    row[hop.give] = next(entities)
