"""SQL text: the meaning of a gold's order, its literals, and the statements of a script.

    the gold                        SELECT name FROM pet ORDER BY age, RANK() OVER (…) LIMIT 3
    every row and its keys          SELECT name, DENSE_RANK() OVER (ORDER BY age) AS intercode_1,
    (`Ordering.derived`)            RANK() OVER (…) AS intercode_2
                                    FROM pet ORDER BY age, RANK() OVER (…)

Rows with equal keys tie: they are free in order, and a LIMIT may take any of them. Without ORDER BY
a LIMIT may take any rows: then all rows tie. The database ranks by itself, so that rows tie under
its own collation; a window's result cannot be ranked, and counts as it prints, as does the column
that a position under `*` names, or one in a UNION whose columns have no names or equal ones.

    the key                         its column
    a position, an output name      the expression that is selected there
    an expression                   itself: a name is a source's column, else an alias
    beside UNION                    the same over the outputs, SELECT … FROM (… UNION …)

There is no derived statement, and the gold's own order counts ("strict"), for an output name that
has two meanings, an OFFSET that is not a number, FETCH, ORDER BY behind parentheses or at random,
variables of the gold's own, and SQL that cannot be parsed; nor does one help that the database
refuses (as MariaDB does for an expression beside a UNION of which two columns have one name). No
text makes a function here raise: whether a gold runs is for its engine to say. sqlglot is imported
when first used.

Left out: ties under a LIMIT inside a subquery and under ROW_NUMBER, which the database decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

    from intercode.envs.sql.dialect import Dialect

_ALIASES = 3
"""The most aliases inside the keys of one ORDER BY that are looked into."""

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
    rows are skipped; `distinct`: SELECT DISTINCT. `derived`: statements that give every row without
    the limit, in order, with keys as further columns; the first that the database takes is right.
    `places`: columns of the gold's that are keys too. Rows tie whose keys are all equal.
    """

    ordered: bool
    limited: bool
    offset: int = 0
    distinct: bool = False
    derived: tuple[str, ...] = ()
    places: tuple[int, ...] = ()

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
    derived, places = _derived(query, dialect)
    return Ordering(
        ordered,
        limited,
        int(offset.this) if offset is not None else 0,
        bool(query.args.get("distinct")),
        tuple(derived),
        places,
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
    named: set[str | int | float] = set()
    for literal in query.find_all(exp.Literal):
        text, above = literal.this, literal.parent
        if literal.is_string:
            named |= {text, text.strip("%_")} if isinstance(above, exp.Like | exp.ILike) else {text}
        elif not isinstance(above, exp.Limit | exp.Offset | exp.Ordered | exp.Fetch):
            number = int(text) if text.isdigit() else float(text)
            named.add(-number if isinstance(above, exp.Neg) else number)
    if dialect.texts_in_marks:
        named |= {name.this for name in query.find_all(exp.Identifier) if name.quoted}
    return named


def parse_statement(sql: str, dialect: Dialect) -> exp.Expr | None:
    """Return the one statement of a text; None if there is none or more than one, or sqlglot does
    not understand the text."""
    from sqlglot import parse
    from sqlglot.errors import SqlglotError

    if not _KNOWN.match(sql):
        return None
    try:
        statements = [parsed for parsed in parse(sql, read=dialect.name) if parsed is not None]
    except (SqlglotError, RecursionError, ValueError):
        return None
    return statements[0] if len(statements) == 1 else None


def _derived(query: exp.Query, dialect: Dialect) -> tuple[list[str], tuple[int, ...]]:
    """Return `Ordering.derived` and `Ordering.places`; no statement where a key is uncertain.

    Whether a name inside an expression is a source's column or an alias is for the database to say:
    the first statement resolves no alias, the next ones replace one, two, … by what they stand for.
    """
    from sqlglot import exp

    odd = (exp.Parameter, exp.SessionParameter, exp.PropertyEQ, exp.Into, exp.Rand)
    order = query.args.get("order")
    keys = [_key(query, term.this) for term in order.expressions] if order else []
    if any(query.find(kind) for kind in odd) or not query.selects or None in keys:
        return [], ()
    whole = query.copy()
    for part in ("limit", "offset"):
        whole.set(part, None)
    expressions = [key for key in keys if isinstance(key, exp.Expr)]
    outputs = [output for output in query.selects if isinstance(output, exp.Alias)]
    aliases = {output.alias.lower(): output.this for output in outputs}
    if isinstance(query, exp.SetOperation) and expressions:
        aliases = {}
        whole.set("order", None)
        whole = exp.select("intercode_all.*").from_(whole.subquery("intercode_all"))
        whole.set("order", order and order.copy())
    columns = [column for key in expressions for column in key.find_all(exp.Column)]
    unsure = [column for column in columns if aliases.get(_bare(column), column) != column]
    if any(
        isinstance(column.parent, exp.Collate)  # some servers look for an alias first
        or (dialect.texts_in_marks and column.this.quoted)  # a text, where no source has it
        for column in unsure
    ):
        return [], ()
    mentioned = sorted({_bare(column) for column in unsure})[:_ALIASES]

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

    sizes = range(len(mentioned) + 1)
    statements = [derive(names) for size in sizes for names in combinations(mentioned, size)]
    return statements, tuple(key for key in keys if isinstance(key, int))


def _key(query: exp.Query, key: exp.Expr) -> exp.Expr | int | None:
    """Return what a key of ORDER BY stands for: an expression over the sources (beside UNION, over
    the outputs), or the place of an output; None where that is uncertain."""
    from sqlglot import exp

    selected, place = query.selects, None
    star = next((n for n, output in enumerate(selected) if output.is_star), len(selected))
    while isinstance(key, exp.Paren):
        key = key.this
    if isinstance(key, exp.Literal):
        place = int(key.this) - 1 if key.is_int else -1
        if star <= place and star < len(selected):
            return place
        if not 0 <= place < len(selected):
            return None
    elif name := _bare(key):
        named = [n for n, output in enumerate(selected) if output.alias_or_name.lower() == name]
        if len({selected[number].unalias() for number in named}) > 1:
            return None
        place = named[0] if named and named[0] < star else None
    expression = key if place is None else selected[place].unalias()
    if isinstance(query, exp.SetOperation):
        outputs = [output.unalias() for output in selected]
        if expression not in outputs:
            return expression
        place, names = outputs.index(expression), [out.alias_or_name.lower() for out in selected]
        unique = names[place] and len(set(names)) == len(names)
        return exp.column(selected[place].alias_or_name, quoted=True) if unique else place
    others = {out.alias.lower() for out in selected if out.alias and out.unalias() != expression}
    if place is None or _bare(expression) not in others:
        return expression
    return place  # some servers take the name for the other output


def _bare(node: exp.Expr) -> str:
    """Return a column's name in small letters; "" for anything else, and beside a table's name."""
    from sqlglot import exp

    return node.name.lower() if isinstance(node, exp.Column) and not node.table else ""


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
