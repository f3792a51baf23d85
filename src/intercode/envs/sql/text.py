"""What can be read off a gold's SQL before it is run: what its order means, and which literals it names. And a TIME's text.

    SELECT name FROM pet ORDER BY age LIMIT 3                                        the gold
    SELECT name, DENSE_RANK() OVER (ORDER BY age) AS intercode_tie FROM pet          every row, and its tie group:
    ORDER BY age                                                                     `Ordering.derived`

Rows of one tie group are free in order, and a LIMIT may take any of them. The database ranks by itself, so that rows tie
under its own collation. Without ORDER BY a LIMIT may take any rows: then all are one group.

No derived statement, so that the gold's order counts as it is ("strict"), where a key is not certain to mean the same in a
window: a name that is a select alias inside a larger expression, a position under `*`, a DISTINCT whose key is not
selected, keys of a UNION that are not plain names, an OFFSET that is not a number, FETCH, ORDER BY behind parentheses or
at random, windows and variables of the gold's own, SQL that cannot be parsed. Nothing here raises for what a text says:
whether a gold runs is for its engine to say. sqlglot is imported when first used.

Left out: ties under a LIMIT inside a subquery; which of them such a gold takes is left to the database.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

TIE = "intercode_tie"
"""The last column of a derived statement: the number of the row's tie group, from 1, in order."""

_KNOWN = re.compile(r"(\s|\(|--[^\n]*\n|/\*.*?\*/)*(SELECT|WITH|VALUES|INSERT|UPDATE|DELETE)\b", re.IGNORECASE | re.DOTALL)
_MAY_ORDER = re.compile(r"\b(ORDER\s+BY|LIMIT|FETCH)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ordering:
    """What a statement's order means.

    `ordered`: it has ORDER BY at top level; `limited`: LIMIT or OFFSET at top level; `offset`: how many rows are skipped.
    `derived`: the statement that gives every row without the limit, in order, with its tie group as last column.
    """

    ordered: bool
    limited: bool
    offset: int = 0
    derived: str | None = None

    @property
    def free(self) -> bool:
        """Whether the rows' order says nothing; what is neither free nor derived is strict."""
        return not self.ordered and not self.limited


STRICT = Ordering(ordered=True, limited=True)


def ordering(sql: str, dialect: str) -> Ordering:
    """What the order of a gold's rows means; `dialect` is sqlglot's name of it: "mysql" or "sqlite"."""
    from sqlglot import exp

    query = _query(sql, dialect)
    if query is None:
        return STRICT if _MAY_ORDER.search(sql) else Ordering(ordered=False, limited=False)
    found = query.args
    ordered, limited = bool(found.get("order")), bool(found.get("limit") or found.get("offset"))
    limit, skip = found.get("limit"), found.get("offset")
    if isinstance(limit, exp.Fetch) or not (ordered or limited):  # FETCH may count ties or percents
        return Ordering(ordered, limited)
    given = skip.expression if skip is not None else limit.args.get("offset") if limit is not None else None
    if given is not None and not (isinstance(given, exp.Literal) and given.this.isdigit()):
        return Ordering(ordered, limited)
    return Ordering(ordered, limited, int(given.this) if given is not None else 0, _derived(query, dialect))


def literals(sql: str, dialect: str) -> set[str | int | float]:
    """The values that a statement names; a LIKE pattern also without its wildcards. LIMIT and positions do not count.

    For SQLite the names in double quotes too, since it takes them for strings where there is no such column.
    """
    from sqlglot import exp

    query = parsed(sql, dialect)
    if query is None:
        return set()
    found: set[str | int | float] = set()
    for literal in query.find_all(exp.Literal):
        text, above = literal.this, literal.parent
        if literal.is_string:
            found |= {text, text.strip("%_")} if isinstance(above, exp.Like | exp.ILike) else {text}
        elif not isinstance(above, exp.Limit | exp.Offset | exp.Ordered | exp.Fetch):
            number = int(text) if text.isdigit() else float(text)
            found.add(-number if isinstance(above, exp.Neg) else number)
    if dialect == "sqlite":
        found |= {name.this for name in query.find_all(exp.Identifier) if name.quoted}
    return found


def clock(span: timedelta) -> str:
    """As MySQL writes a TIME: hours may pass 24, and be negative; a fraction where there is one."""
    sign, span = ("-", -span) if span < timedelta(0) else ("", span)
    seconds = span.days * 86400 + span.seconds
    fraction = f".{span.microseconds:06}" if span.microseconds else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def parsed(sql: str, dialect: str) -> exp.Expr | None:
    """The one statement of a text; None if it is not one, or not understood."""
    from sqlglot import parse
    from sqlglot.errors import SqlglotError

    if not _KNOWN.match(sql):
        return None
    try:
        found = [statement for statement in parse(sql, read=dialect) if statement is not None]
    except (SqlglotError, RecursionError, ValueError):
        return None
    return found[0] if len(found) == 1 else None


def _query(sql: str, dialect: str) -> exp.Query | None:
    """A SELECT or a set operation, without parentheses around the whole."""
    from sqlglot import exp

    found = parsed(sql, dialect)
    while isinstance(found, exp.Subquery) and not any(found.args[part] for part in found.args if part != "this"):
        found = found.this
    return found if isinstance(found, exp.Select | exp.SetOperation) else None


def _derived(query: exp.Query, dialect: str) -> str | None:
    """The query without its limit, with one more column that numbers the tie groups; None where a key is not certain."""
    from sqlglot import exp

    odd = (exp.Window, exp.Parameter, exp.SessionParameter, exp.PropertyEQ, exp.Into, exp.Rand)
    if any(query.find(kind) for kind in odd) or not query.selects:
        return None
    order, keys = query.args.get("order"), list[exp.Expr]()
    for key in order.expressions if order is not None else ():
        meant = _meant(query, key.this)
        if meant is None:
            return None
        keys.append(key.copy())
        keys[-1].set("this", meant)
    whole = query.copy()
    for part in ("order", "limit", "offset"):
        whole.set(part, None)
    if isinstance(whole, exp.Select):
        ranked, order = whole, order and order.copy()
    else:
        ranked = exp.select("intercode_all.*").from_(whole.subquery("intercode_all"))
        order = exp.Order(expressions=[key.copy() for key in keys])
    rank = exp.Window(this=exp.DenseRank(), order=exp.Order(expressions=keys)) if keys else exp.Literal.number(1)
    ranked = ranked.select(exp.alias_(rank, TIE), copy=False)
    if keys:
        ranked.set("order", order)
    return ranked.sql(dialect=dialect)


def _meant(query: exp.Query, key: exp.Expr) -> exp.Expr | None:
    """What a key stands for in a window: a position or an alias for a selected expression, all else for itself.

    None where that is not certain: for a set operation what is no column's name, for distinct rows what is not selected.
    """
    from sqlglot import exp

    selected, found = query.selects, key
    if isinstance(key, exp.Literal):
        position = int(key.this) if key.is_int and 0 < int(key.this) <= len(selected) else None
        if position is None or any(one.is_star for one in selected[:position]):
            return None
        found = selected[position - 1]
    elif isinstance(key, exp.Column) and not key.table:
        named = [one for one in selected if one.alias_or_name.lower() == key.name.lower()]
        if len({one.unalias() for one in named}) > 1:
            return None
        found = named[0] if named else key
    else:
        aliases = {one.alias.lower() for one in selected if isinstance(one, exp.Alias)}
        if any(not column.table and column.name.lower() in aliases for column in key.find_all(exp.Column)):
            return None
    if isinstance(query, exp.SetOperation):
        named_so = found is not key and isinstance(found, exp.Alias | exp.Column)
        return exp.column(found.alias_or_name, quoted=True) if named_so else None
    found = found.unalias().copy()
    distinct = query.args.get("distinct") and not isinstance(key, exp.Literal)
    return found if not distinct or any(one.is_star or one.unalias() == found for one in selected) else None
