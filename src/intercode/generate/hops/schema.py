"""Domains: what there is, in which tables it is recorded, and what can be asked.

A domain is a file `hops/DOMAIN.toml`:

    held_out = true               # the whole domain is for the test split (left out otherwise)

    [words]                       # lists of words that patterns name
    first = "mira ben ines"

    [types.person]                # what hops lead to
    noun = "person"               # "that person"
    count = 14                    # so many in each place; more hide a key better
    forms.login = "<b|d|k><a|e|o><11-99>"            # what tables may call it, as patterns
    forms.name = "<First> <Last>"
    forms.email = ["<first>@example.org", "<last><2-9>@example.org"]

A *pattern* is a text with <10-99> (a number), <a|b> (a choice), <first> (a word of a list; the same
word in all forms and columns of a row) or <First> (that word with a capital letter), <login> (an
earlier form or column). Of a list of patterns, one is drawn for each entity. The first form is the
usual one: values of each form are all different. A type with several forms needs a *home*: a table
with `each` = the type and a column for each of the forms, where a person who has the e-mail address
finds the login.

    [tables.staff]
    each = "person"               # one row for each entity; or
    times = 7                     # seven rows for each entity of the first column with a type
    names = "staff contacts people"                  # names of files and tables, one is drawn
    folders = "hr office team"    # where the file may be
    carriers = "git log"          # only these carriers (left out: all that suit it)

    [tables.staff.columns]        # a column is drawn as its keys say; `names` are for headers
    login = {form = "login", names = "login user account"}       # of the type in `each`
    deputy = {is = "person", unlike = "login", names = "deputy stand_in"}
    room = {value = "<A|B|C><101-480>", names = "room office"}
    opened = {time = 60, names = "opened created"}               # within so many days
    closed = {after = "opened", only = "status = closed", names = "closed done"}
    host = {form = "name", names = "host"}
    version = {value = "<1-4>.<6-13>.<0-9>", order = "version", names = "version release"}

- `names` are of the form [a-z_]+, and no words of SQL (no `from`, `to`, `order`, `index`).
- `is`: an entity of a type, in one of its forms, which is drawn for each place. In a table with
  `each`, such a column is a permutation. In one with `times`, each entity occurs about equally
  often, and the first and the last rows (in order of time) are permutations.
- `unlike`: never the entity in that other column, which is of the same type.
- `some`: only so many of the entities occur.
- `form`: the entity of the row itself, in this form. The first such column is its key.
- `value`: a pattern. In a table with `each`, all values differ.
- `time`: "2026-03-04 14:05", within so many days after the first `start` days; rows are written in
  this order. `after`: a later time; "" except in rows for which `only` holds.
- `every`: a date in each row, so many days after the one before.
- `numbers`: true for numbers, which are compared and added up as such. `order = "version"`: 2.10 is
  later than 2.9.

    [hops.deputy]                 # a step: from an entity to another
    table = "staff"
    keys = "login"                # the columns that are the arguments <0>, <1>
    give = "deputy"
    says = ["the deputy of <0>", "the stand-in for <0>", "whoever stands in for <0>"]

    [hops.errors]                 # a root: a hop without keys
    table = "requests"
    where = ["at ^ day", "status >= 500"]
    pick = "most"
    give = "service"
    says = ["the service with the most server errors (5xx) on <v>", …]

    [questions.room]              # the outermost hop: a question. `give` need not be an entity
    table = "staff"
    keys = "login"
    give = "room"
    says = ["What is the room number of <0>?", …]

- `where`: COLUMN = VALUE, COLUMN >= VALUE, or COLUMN ^ VALUE (begins with). The values `day` and
  `month` (of a time) and `any` are drawn, and are <v> in `says`; steps have none of these.
- `pick`: `the` (the only one; left out), `most` (the most frequent), `summost` (the one with the
  largest sum of `by`), `latest`, `earliest` (by the column `by`), `sum` (of `by`, no `give`).
- `says`: at least three wordings; noun phrases are last in them; no dates or values but <v>; the
  phrase of a hop begins with "the" (or, not in all wordings, "whoever") and names one thing. Each
  must be true in any world of the domain, and no two hops may have wordings that could mean each
  other.
- `hidden`: a wording without <v>, for a query that leaves it out for a user to be asked about;
  `asks` are the words that ask for it, see `intercode.user`. Roots have both.
- `held_out = true`: the hop is for the test split only.

A hop is usable only from those entities where it is *sound* (see `terms.py`); how often it is
depends on the tables. `python benchmarks/composed.py --domain DOMAIN` prints it for each hop: those
below 20 % are better dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from intercode.generate.draws import read_toml, word_lists

DOMAINS = ("operations", "shop", "research")
_CONDITION = re.compile(r"(\w+) (=|>=|\^) (.+)")
OPEN = ("any", "day", "month")
"""Values of conditions that are drawn."""


@dataclass(frozen=True)
class Type:
    noun: str
    forms: Mapping[str, str | Sequence[str]]
    count: int = 14


@dataclass(frozen=True)
class Column:
    names: str
    form: str = ""
    type: str = ""
    unlike: str = ""
    some: int = 0
    value: str | Sequence[str] = ""
    time: int = 0
    start: int = 0
    every: int = 0
    after: str = ""
    only: str = ""
    numbers: bool = False
    order: str = ""

    @property
    def is_time(self) -> bool:
        return bool(self.time or self.after)


@dataclass(frozen=True)
class Table:
    names: str
    folders: str
    columns: Mapping[str, Column]
    each: str = ""
    times: int = 0
    carriers: str = ""

    @cached_property
    def time(self) -> str:
        """The column with the time in whose order rows are, "" if there is none."""
        return next((name for name, column in self.columns.items() if column.time), "")


@dataclass(frozen=True)
class Condition:
    column: str
    op: str
    value: Any


@dataclass(frozen=True)
class Hop:
    """A function from entities (of the types `args`) to an entity of the type `gives`, or to an
    answer, where `gives` is ""."""

    name: str
    table: str
    keys: tuple[str, ...]
    where: tuple[Condition, ...]
    pick: str
    by: str
    give: str
    args: tuple[str, ...] = ()
    gives: str = ""
    says: tuple[str, ...] = field(default=(), compare=False)
    hidden: str = field(default="", compare=False)
    asks: tuple[str, ...] = field(default=(), compare=False)
    value: Any = field(default="", compare=False)
    """The value that was drawn for its open condition."""
    is_question: bool = False
    held_out: bool = False


@dataclass(frozen=True)
class Domain:
    name: str
    types: Mapping[str, Type]
    tables: Mapping[str, Table]
    hops: Sequence[Hop]
    words: Mapping[str, Sequence[str]]
    held_out: bool = False

    @cached_property
    def homes(self) -> dict[str, str]:
        """The table with the forms of each type that has several."""
        homes = {}
        for name, table in self.tables.items():
            forms = [column.form for column in table.columns.values() if column.form]
            if table.each and len(forms) > 1:
                homes[table.each] = name
        return homes

    def type_of(self, table: str, column: str) -> str:
        """Return the type of the entities in a column, "" if it has none."""
        return _type_of(self.tables[table], column)


def _type_of(table: Table, column: str) -> str:
    """Return the type of a column: the key of a table with `each` has that of its rows."""
    if column == key_of(table):
        return table.each
    return table.columns[column].type


def key_of(table: Table) -> str:
    """Return the first column with a form of the row's entity, "" if the table has none."""
    return next((name for name, column in table.columns.items() if column.form), "")


@cache
def read_domain(name: str) -> Domain:
    data = read_toml(f"hops/{name}")
    tables = {}
    for table, entry in data["tables"].items():
        columns = {}
        for column, parts in entry["columns"].items():
            named = {"type" if part == "is" else part: value for part, value in parts.items()}
            columns[column] = Column(**named)
        tables[table] = Table(**{**entry, "columns": columns})
    hops = []
    for kind in ("hops", "questions"):
        for hop, entry in data[kind].items():
            hops.append(_read_hop(hop, tables[entry["table"]], entry, kind == "questions"))
    types = {name: Type(**entry) for name, entry in data["types"].items()}
    words = word_lists(data["words"])
    return Domain(name, types, tables, hops, words, data.get("held_out", False))


def _read_hop(name: str, table: Table, entry: Mapping[str, Any], is_question: bool) -> Hop:
    conditions = []
    for text in entry.get("where", ()):
        match = _CONDITION.fullmatch(text)
        if not match:
            raise ValueError(f"hop {name}: {text!r} is no condition")
        value: str | int = match[3]
        if table.columns[match[1]].numbers and match[3] not in OPEN:
            value = int(match[3])
        conditions.append(Condition(match[1], match[2], value))
    keys = tuple(entry.get("keys", "").split())
    give = entry.get("give", "")
    return Hop(
        name,
        entry["table"],
        keys,
        tuple(conditions),
        entry.get("pick", "the"),
        entry.get("by", ""),
        give,
        tuple(_type_of(table, key) for key in keys),
        _type_of(table, give) if give else "",
        tuple(entry["says"]),
        hidden=entry.get("hidden", ""),
        asks=tuple(entry.get("asks", ())),
        is_question=is_question,
        held_out=entry.get("held_out", False),
    )
