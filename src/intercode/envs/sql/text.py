"""SQL text: the meaning of a gold's order, its literals, and the statements of a script.

    the gold                        SELECT name FROM pet ORDER BY age LIMIT 3
    every row and its tie group     SELECT name, DENSE_RANK() OVER (ORDER BY age) AS intercode_tie
    (`Ordering.derived`)            FROM pet ORDER BY age

Rows of one tie group are free in order, and a LIMIT may take any of them. The database ranks by
itself, so that rows tie under its own collation. Without ORDER BY a LIMIT may take any rows: then
all rows are one group.

There is no derived statement, and the gold's own order counts ("strict"), where a key may mean
something else in a window: a name that is a select alias inside a larger expression, a position
under `*`, a DISTINCT whose key is not selected, keys of a UNION, or beside a window's result, that
are not plain names, an OFFSET that is not a number, FETCH, ORDER BY behind parentheses or at
random, variables of the gold's own, SQL that cannot be parsed. No text makes a function here raise:
whether a gold runs is for its engine to say. sqlglot is imported when first used.

Left out: ties under a LIMIT inside a subquery and under ROW_NUMBER, which the database decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

    from intercode.envs.sql.dialect import Dialect

TIE = "intercode_tie"
"""The last column of a derived statement: the number of the row's tie group, from 1, rising."""

_KNOWN = re.compile(
    r"(\s|\(|--[^\n]*\n|/\*.*?\*/)*(SELECT|WITH|VALUES|INSERT|UPDATE|DELETE)\b",
    re.IGNORECASE | re.DOTALL,
)
_MAY_ORDER = re.compile(r"\b(ORDER\s+BY|LIMIT|FETCH)\b", re.IGNORECASE)
_TOKEN = re.compile(
    r"""'[^'\\]*(?:\\.[^'\\]*)*' | "[^"\\]*(?:\\.[^"\\]*)*" | `[^`]*`   # strings and names
      | (?P<comment>--(?=\s)[^\n]* | --\Z | \#[^\n]* | /\*(?![!M]).*?\*/)
      | (?P<delimiter>^[ \t]*DELIMITER[ \t]+(?P<mark>\S+)[ \t]*$)
      | /\*[!M].*?\*/
      | (?P<end>;) | [^'"`\#/;\-$|\n]+ | .""",
    re.VERBOSE | re.DOTALL | re.MULTILINE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Ordering:
    """The meaning of a statement's order.

    `ordered`: ORDER BY at top level; `limited`: LIMIT or OFFSET at top level; `offset`: how many
    rows are skipped; `derived`: the statement that gives every row without the limit, in order,
    with its tie group as last column.
    """

    ordered: bool
    limited: bool
    offset: int = 0
    derived: str | None = None

    @property
    def free(self) -> bool:
        """Tell whether the rows' order says nothing. An order that is neither free nor derived is
        strict."""
        return not self.ordered and not self.limited


def ordering(sql: str, dialect: Dialect) -> Ordering:
    """Return what the order of a gold's rows means."""
    from sqlglot import exp

    query = parse_statement(sql, dialect)
    while isinstance(query, exp.Subquery) and not any(
        query.args[part] for part in query.args if part != "this"
    ):
        query = query.this
    if not isinstance(query, exp.Select | exp.SetOperation):
        may_order = bool(_MAY_ORDER.search(sql))
        return Ordering(ordered=may_order, limited=may_order)
    limit, skip = query.args.get("limit"), query.args.get("offset")
    ordered, limited = bool(query.args.get("order")), bool(limit or skip)
    if isinstance(limit, exp.Fetch) or not (ordered or limited):  # FETCH may count ties or percents
        return Ordering(ordered, limited)
    offset = (
        skip.expression
        if skip is not None
        else limit.args.get("offset")
        if limit is not None
        else None
    )
    if offset is not None and not (isinstance(offset, exp.Literal) and offset.this.isdigit()):
        return Ordering(ordered, limited)
    return Ordering(
        ordered, limited, int(offset.this) if offset is not None else 0, _derived(query, dialect)
    )


def literals(sql: str, dialect: Dialect) -> set[str | int | float]:
    """Return the values that a statement names; a LIKE pattern also without its wildcards. LIMIT
    and positions do not count.

    Where quoted names may be texts (`Dialect.texts_in_marks`), they count too.
    """
    from sqlglot import exp

    query = parse_statement(sql, dialect)
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
    if dialect.texts_in_marks:
        found |= {name.this for name in query.find_all(exp.Identifier) if name.quoted}
    return found


def parse_statement(sql: str, dialect: Dialect) -> exp.Expr | None:
    """Return the one statement of a text; None if there is none or more than one, or sqlglot does
    not understand the text."""
    from sqlglot import parse
    from sqlglot.errors import SqlglotError

    if not _KNOWN.match(sql):
        return None
    try:
        found = [statement for statement in parse(sql, read=dialect.name) if statement is not None]
    except (SqlglotError, RecursionError, ValueError):
        return None
    return found[0] if len(found) == 1 else None


def _derived(query: exp.Query, dialect: Dialect) -> str | None:
    """Return the query without its limit, with one more column that numbers the tie groups; None
    where a key is uncertain."""
    from sqlglot import exp

    odd = (exp.Parameter, exp.SessionParameter, exp.PropertyEQ, exp.Into, exp.Rand)
    if any(query.find(kind) for kind in odd) or not query.selects:
        return None
    order = query.args.get("order")
    wanted = [key.this for key in order.expressions] if order is not None else []
    inside = [_window_key(query, key, False) for key in wanted]
    # a window in a window's order
    nested = any(key is not None and key.find(exp.Window) for key in inside)
    wrapped = nested or isinstance(query, exp.SetOperation)
    keys = [key.copy() for key in order.expressions] if order is not None else []
    for key in keys:
        ranked_by = _window_key(query, key.this, wrapped)
        if ranked_by is None:
            return None
        key.set("this", ranked_by)
    whole = query.copy()
    for part in ("order", "limit", "offset"):
        whole.set(part, None)
    if not wrapped:
        ranked, order = whole, order and order.copy()
    else:
        ranked = exp.select("intercode_all.*").from_(whole.subquery("intercode_all"))
        order = exp.Order(expressions=[key.copy() for key in keys])
    rank = (
        exp.Window(this=exp.DenseRank(), order=exp.Order(expressions=keys))
        if keys
        else exp.Literal.number(1)
    )
    ranked = ranked.select(exp.alias_(rank, TIE), copy=False)
    if keys:
        ranked.set("order", order)
    return ranked.sql(dialect=dialect.name)


def _window_key(query: exp.Query, key: exp.Expr, wrapped: bool) -> exp.Expr | None:
    """Return what a key stands for in a window: a position or an alias for a selected expression,
    any other key for itself.

    `wrapped`: the window is around the query, so that only the query's columns have a name there.
    None where the meaning is uncertain: around the query a key that is no column's name, in
    distinct rows one that is not selected.
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
        if any(
            not column.table and column.name.lower() in aliases
            for column in key.find_all(exp.Column)
        ):
            return None
    if wrapped:
        found = next((one for one in selected if one is found or one.unalias() == found), key)
        named_so = found is not key and isinstance(found, exp.Alias | exp.Column)
        return exp.column(found.alias_or_name, quoted=True) if named_so else None
    found = found.unalias().copy()
    distinct = query.args.get("distinct") and not isinstance(key, exp.Literal)
    return (
        found
        if not distinct or any(one.is_star or one.unalias() == found for one in selected)
        else None
    )


# -- scripts and times ----------------------------------------------------------------------------


def split_statements(text: str) -> Iterator[str]:
    """Yield a MySQL script's statements, without comments; `/*! … */` is no comment. DELIMITER
    lines change the end mark."""
    begin, mark, piece = 0, ";", list[str]()
    for token in _TOKEN.finditer(text):
        if token["delimiter"] is not None:
            mark = token["mark"]
        elif token["comment"] is not None:
            piece.append(" ")
        elif (mark == ";" and token["end"]) or (
            mark != ";" and text.startswith(mark, token.start())
        ):
            yield from filter(None, ["".join(piece).strip()])
            piece.clear()
            begin = token.start() + len(mark)
        elif token.start() >= begin:
            piece.append(token[0])
    yield from filter(None, ["".join(piece).strip()])


def format_time(span: timedelta) -> str:
    """Return a TIME as MySQL writes it: hours may pass 24, and be negative; a fraction where there
    is one."""
    sign, span = ("-", -span) if span < timedelta(0) else ("", span)
    seconds = span.days * 86400 + span.seconds
    fraction = f".{span.microseconds:06}" if span.microseconds else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"
