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
word in all forms of an entity) or <First> (that word with a capital letter). Of a list of patterns,
one is drawn for each entity. The first form is the usual one. A type with several forms needs a
*home*: a table of its entities with a column for each of the forms, where a person who has the
e-mail address finds the login.

    [tables.staff]
    times = 7                     # seven rows for each entity of the first column with a type
    names = "staff contacts people"                  # names of files and tables, one is drawn
    folders = "hr office team"    # where the file may be

    [tables.staff.columns]        # a column is drawn as its keys say; `names` are for headers
    login = {type = "person", form = "login", names = "login user account"}
    name = {form = "name", names = "name full_name"}
    deputy = {type = "person", names = "deputy stand_in"}
    room = {value = "<A|B|C><101-480>", names = "room office"}
    opened = {time = 60, names = "opened created"}               # within so many days

- `names` are of the form [a-z_]+, and no words of SQL (no `from`, `to`, `order`, `index`).
- A table without `times` has one row for each entity of its first column, which has a type and a
  form. Other columns with a `form` have that form of the row's entity.
- `type`: an entity, in one of its forms, which is drawn for each place. Each entity occurs about
  equally often, and never twice in a row; the last rows (in order of time) are a permutation.
- `value`: a pattern; `numbers`: true for numbers, which are compared and added up as such.
- `time`: "2026-03-04 14:05"; rows are written in this order.
- `every`: a date in each row, so many days after the one before.

    [hops.deputy]                 # a step: from an entity to another
    table = "staff"
    keys = "login"                # the columns that are the arguments <0>, <1>
    give = "deputy"
    says = ["the deputy of <0>", "the stand-in for <0>", "whoever stands in for <0>"]

    [hops.refused]                # a root: a hop without keys
    table = "requests"
    where = {at = "day", status = 403}
    pick = "most"
    give = "user"
    says = ["the user with the most 403s on <v>", …]

    [hops.room]                   # a question, the outermost hop: what it gives is no entity
    table = "staff"
    keys = "login"
    give = "room"
    says = ["What is the room number of <0>?", …]

- `where`: values of columns. The values `day` and `month` (of a time) and `any` are drawn, and are
  <v> in `says`. At most the first value is one of these; steps have none of them.
- `pick`: `the` (the only one; left out), `most` (the most frequent), `latest`, `earliest`,
  `largest` (by the numbers in the column `by`), `sum` (of `by`, no `give`).
- `says`: at least three wordings; noun phrases are last in them; no dates or values but <v>; the
  phrase of a hop begins with "the" (or, not in all wordings, "whoever") and names one thing. Each
  must be true in any world of the domain, and no two hops may have wordings that could mean each
  other.
- `hidden`: a wording without <v>, for a query that leaves it out for a user to be asked about;
  `asks` are the words that ask for it if it is no date, see `intercode.user`. Roots have both.
- `held_out = true`: the hop is for the test split only.

A hop is usable only from those entities where it is *sound* (see `terms.py`); how often it is
depends on the tables. `python benchmarks/composed.py --domain DOMAIN` prints it for each hop: those
below 20 % are better dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from intercode.generate.draws import read_toml, word_lists

Row = dict[str, Any]
DOMAINS = ("operations", "shop", "research")
OPEN = {"any": 0, "day": 10, "month": 7}
"""Values of conditions that are drawn, with the number of characters that they have, if not all."""
DATES = ("day", "date", "week", "month", "period", "when", "which time", "on what")
"""Words that ask for a date."""


@dataclass(frozen=True)
class Type:
    noun: str
    forms: Mapping[str, str | Sequence[str]]
    count: int = 14


@dataclass(frozen=True)
class Column:
    names: str = ""
    form: str = ""
    type: str = ""
    value: str | Sequence[str] = ""
    time: int = 0
    every: int = 0
    numbers: bool = False


@dataclass(frozen=True)
class Table:
    names: str
    folders: str
    columns: Mapping[str, Column]
    times: int = 0

    @cached_property
    def key(self) -> str:
        """The column with the entity that a row is about, "" if there is none."""
        if self.times:
            return ""
        return next(iter(self.columns))

    @cached_property
    def time(self) -> str:
        """The column with the time in whose order rows are, "" if there is none."""
        return next((name for name, column in self.columns.items() if column.time), "")


@dataclass(frozen=True)
class Condition:
    column: str
    value: Any
    length: int = 0
    """The number of characters that are compared, if not all."""

    def part(self, row: Row) -> Any:
        """Return what is compared with the value."""
        cell = row[self.column]
        return cell[: self.length] if self.length else cell


@dataclass(frozen=True)
class Hop:
    """A function from entities (of the types `args`) to an entity of the type `gives`, or to an
    answer, where `gives` is ""."""

    name: str
    table: str
    keys: tuple[str, ...] = ()
    where: tuple[Condition, ...] = ()
    pick: str = "the"
    by: str = ""
    give: str = ""
    args: tuple[str, ...] = ()
    gives: str = ""
    form: str = ""
    """The form of an entity that is the answer, "" if the answer is something else."""
    held_out: bool = False
    says: Sequence[str] = field(default=(), compare=False)
    hidden: str = field(default="", compare=False)
    asks: Sequence[str] = field(default=DATES, compare=False)

    @property
    def value(self) -> Any:
        """The value that was drawn for its first condition."""
        return self.where[0].value


@dataclass(frozen=True)
class Domain:
    name: str
    types: Mapping[str, Type]
    tables: Mapping[str, Table]
    hops: Sequence[Hop]
    words: Mapping[str, Sequence[str]]
    held_out: bool = False

    def home(self, kind: str) -> str:
        """Return the table with the forms of a type that has several."""
        homes = {}
        for name, table in self.tables.items():
            if table.key:
                homes[table.columns[table.key].type] = name
        return homes[kind]


@cache
def read_domain(name: str) -> Domain:
    data = read_toml(f"hops/{name}")
    tables = {}
    for table, entry in data["tables"].items():
        columns = {column: Column(**parts) for column, parts in entry["columns"].items()}
        tables[table] = Table(**{**entry, "columns": columns})
    hops = [_read_hop(hop, tables[entry["table"]], entry) for hop, entry in data["hops"].items()]
    types = {name: Type(**entry) for name, entry in data["types"].items()}
    words = word_lists(data["words"])
    return Domain(name, types, tables, hops, words, data.get("held_out", False))


def _read_hop(name: str, table: Table, entry: Mapping[str, Any]) -> Hop:
    parts = {"by": table.time, **entry}
    given = table.columns.get(entry.get("give", ""), Column())
    parts["gives"] = given.type
    if not given.type:
        parts["form"] = given.form
    keys = entry.get("keys", "").split()
    parts["keys"] = tuple(keys)
    parts["args"] = tuple([table.columns[key].type for key in keys])
    conditions = []
    for column, value in entry.get("where", {}).items():
        conditions.append(Condition(column, value, OPEN.get(value, 0)))
    parts["where"] = tuple(conditions)
    return Hop(name, **parts)
