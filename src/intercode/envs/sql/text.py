"""SQL text: the meaning of a gold's row order, its literals, and the statements in a script.

    the gold                        SELECT name FROM pet ORDER BY age, RANK() OVER (…) LIMIT 3
    every row and its keys          SELECT name, DENSE_RANK() OVER (ORDER BY age) AS intercode_1,
    (`Ordering.derived`)            RANK() OVER (…) AS intercode_2
                                    FROM pet ORDER BY age, RANK() OVER (…)

Rows with equal keys tie: they may come in any order, and a LIMIT may take any of them. Without
ORDER BY a LIMIT may take any rows, so all rows tie. The database computes the ranks, so that ties
follow its collation. A window function's result cannot be ranked and is compared as printed; so is
a column that a position under `*` names, and a column in a UNION without unique column names.

    the key                         its column
    a position, an output name      the expression that is selected there
    an expression                   itself: a name is a source's column, otherwise an alias
    with UNION                      the same over the outputs, SELECT … FROM (… UNION …)

There is no derived statement, so the gold's own order is required ("strict"), for an output name
with two meanings, an OFFSET that is not a number, FETCH, ORDER BY after parentheses or at random,
variables that the gold sets, and SQL that cannot be parsed. The same applies if the database
refuses the derived statement (as MariaDB does for an expression with a UNION in which two columns
have the same name). The functions here never raise for invalid SQL: whether a gold runs is for its
engine to decide. sqlglot is imported on first use.

Left out: ties under a LIMIT inside a subquery and under ROW_NUMBER, which the database decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

    from intercode.envs.sql.dialect import Dialect

_ALIASES = 3
"""The most aliases that are resolved inside the keys of one ORDER BY."""

_KNOWN = re.compile(
    r"(\s|\(|--[^\n]*\n|/\*.*?\*/)*(SELECT|WITH|VALUES|INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP)\b",
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
    """The meaning of a statement's row order.

    `ordered`: ORDER BY at top level; `limited`: LIMIT or OFFSET at top level; `offset`: how many
    rows are skipped; `distinct`: SELECT DISTINCT. `derived`: statements that return all rows
    without the limit, in order, with the keys as extra columns; the first that the database accepts
    is used. `places`: columns of the gold that are also keys. Rows tie if all keys are equal.
    """

    ordered: bool
    limited: bool
    offset: int = 0
    distinct: bool = False
    derived: tuple[str, ...] = ()
    places: tuple[int, ...] = ()

    @property
    def free(self) -> bool:
        """Return whether rows may come in any order. An order that is neither free nor derived is
        strict."""
        return not self.ordered and not self.limited


def ordering(sql: str, dialect: Dialect) -> Ordering:
    """Return the meaning of the order of a gold's rows."""
    from sqlglot import exp

    query = parse_statement(sql, dialect)
    while isinstance(query, exp.Subquery) and not any(
        query.args[part] for part in query.args if part != "this"
    ):
        query = query.this
    if not isinstance(query, exp.Select | exp.SetOperation):
        may_order = bool(_MAY_ORDER.search(sql))
        return Ordering(ordered=may_order, limited=may_order)
    limit = query.args.get("limit")
    skip = query.args.get("offset")
    ordered = bool(query.args.get("order"))
    limited = bool(limit or skip)
    if isinstance(limit, exp.Fetch) or not (ordered or limited):  # FETCH may count ties or percents
        return Ordering(ordered, limited)
    offset = None
    skipped = 0
    if skip is not None:
        offset = skip.expression
    elif limit is not None:
        offset = limit.args.get("offset")
    if offset is not None:
        if not (isinstance(offset, exp.Literal) and offset.this.isdigit()):
            return Ordering(ordered, limited)
        skipped = int(offset.this)
    distinct = bool(query.args.get("distinct"))
    return Ordering(ordered, limited, skipped, distinct, *_derived(query, dialect))


def literals(sql: str, dialect: Dialect) -> set[str | int | float]:
    """Return the literals in a statement; a LIKE pattern also without its wildcards. LIMIT and
    positions do not count.

    If quoted names may be texts (`Dialect.texts_in_marks`), they are included.
    """
    from sqlglot import exp

    query = parse_statement(sql, dialect)
    if query is None:
        return set()
    named = set()
    for literal in query.find_all(exp.Literal):
        text = literal.this
        above = literal.parent
        if literal.is_string:
            named.add(text)
            if isinstance(above, exp.Like | exp.ILike):
                named.add(text.strip("%_"))
        elif not isinstance(above, exp.Limit | exp.Offset | exp.Ordered | exp.Fetch):
            number = int(text) if text.isdigit() else float(text)
            named.add(-number if isinstance(above, exp.Neg) else number)
    for name in query.find_all(exp.Identifier):
        if dialect.texts_in_marks and name.quoted:
            named.add(name.this)
    return named


def parse_statement(sql: str, dialect: Dialect) -> exp.Expr | None:
    """Return the single statement in a text; None if there is not exactly one, or sqlglot cannot
    parse the text."""
    import logging

    from sqlglot import parse
    from sqlglot.errors import SqlglotError

    if not _KNOWN.match(sql):
        return None
    # it warns on standard error of each statement that it keeps as text
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        statements = [parsed for parsed in parse(sql, read=dialect.name) if parsed is not None]
    except (SqlglotError, RecursionError, ValueError):
        return None
    return statements[0] if len(statements) == 1 else None


def _derived(query: exp.Query, dialect: Dialect) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return `Ordering.derived` and `Ordering.places`; no statement if a key is uncertain.

    Whether a name inside an expression is a source's column or an alias depends on the database:
    the first statement resolves no alias, the next ones replace one, two, … by their expressions.
    """
    from sqlglot import exp

    odd = query.find(exp.Parameter, exp.SessionParameter, exp.PropertyEQ, exp.Into, exp.Rand)
    order = query.args.get("order")
    keys = [_key(query, term.this) for term in order.expressions] if order else []
    if odd or not query.selects or None in keys:
        return (), ()
    whole = query.copy()
    for part in ("limit", "offset"):
        whole.set(part, None)
    expressions = [key for key in keys if isinstance(key, exp.Expr)]
    aliases = {}
    unsure = set()
    if isinstance(query, exp.SetOperation) and expressions:
        whole.set("order", None)
        whole = exp.select("intercode_all.*").from_(whole.subquery("intercode_all"))
        whole.set("order", query.args["order"].copy())
    else:
        for output in query.selects:
            if isinstance(output, exp.Alias):
                aliases[output.alias.lower()] = output.this
    for key in expressions:
        for column in key.find_all(exp.Column):
            name = _bare(column)
            if aliases.get(name, column) == column:
                continue
            # some servers look for an alias first
            if isinstance(column.parent, exp.Collate):
                return (), ()
            # it is a text if no source has the column
            if dialect.texts_in_marks and column.this.quoted:
                return (), ()
            unsure.add(name)
    names = sorted(unsure)[:_ALIASES]

    def derive(replaced: tuple[str, ...]) -> str:
        def resolve(node: exp.Expr) -> exp.Expr:
            return exp.paren(aliases[_bare(node)]) if _bare(node) in replaced else node

        statement = whole.copy()
        for number, key in enumerate(expressions, 1):
            value = key.copy().transform(resolve)
            if not value.find(exp.Window):
                value = exp.Window(this=exp.DenseRank(), order=exp.Order(expressions=[value]))
            statement.select(exp.alias_(value, f"intercode_{number}"), copy=False)
        return statement.sql(dialect=dialect.name)

    replacements = chain(*(combinations(names, size) for size in range(len(names) + 1)))
    return tuple(map(derive, replacements)), tuple(key for key in keys if isinstance(key, int))


def _key(query: exp.Query, key: exp.Expr) -> exp.Expr | int | None:
    """Return the meaning of an ORDER BY key: an expression over the sources (with UNION, over the
    outputs), or the index of an output; None if it is uncertain."""
    from sqlglot import exp

    selected = query.selects
    place = None
    names = [output.alias_or_name.lower() for output in selected]
    outputs = [output.unalias() for output in selected]
    star = [*(output.is_star for output in selected), True].index(True)
    while isinstance(key, exp.Paren):
        key = key.this
    if isinstance(key, exp.Literal):
        place = int(key.this) - 1 if key.is_int else -1
        if star <= place and star < len(selected):
            return place
        if not 0 <= place < len(selected):
            return None
    elif name := _bare(key):
        meanings = {outputs[at] for at, other in enumerate(names) if other == name}
        if len(meanings) > 1:
            return None
        if name in names[:star]:
            place = names.index(name)
    expression = key if place is None else outputs[place]
    if isinstance(query, exp.SetOperation):
        if expression not in outputs:
            return expression
        place = outputs.index(expression)
        if names[place] and len({*names}) == len(names):
            return exp.column(selected[place].alias_or_name, quoted=True)
        return place
    for output in selected:
        differs = output.alias and output.unalias() != expression
        if place is not None and differs and output.alias.lower() == _bare(expression):
            return place  # some servers resolve the name to this output
    return expression


def _bare(node: exp.Expr) -> str:
    """Return a column's name in lower case; "" for other nodes and for names with a table."""
    from sqlglot import exp

    if isinstance(node, exp.Column) and not node.table:
        return node.name.lower()
    return ""


# -- scripts and times ----------------------------------------------------------------------------


def split_statements(text: str) -> Iterator[str]:
    """Yield a MySQL script's statements, without comments; `/*! … */` is not a comment. DELIMITER
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
