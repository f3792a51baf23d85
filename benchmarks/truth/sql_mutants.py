"""Golds of SQL, changed: mutants that a hasty agent might have written, and other ways to say the
same.

Each is (what was done, the statement). Whether a mutant is wrong is not known here: its rows on
several contents tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from sqlglot import exp, parse_one

Change = Callable[[exp.Expr], exp.Expr | None]
"""What stands in place of a node; None where it does not apply. The node may be altered: it is a
copy."""
Statement = tuple[str, str]
_EACH = 1
"""How many mutants of one kind a gold has at most."""
_EDGES: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.LTE,
    exp.LTE: exp.LT,
    exp.GT: exp.GTE,
    exp.GTE: exp.GT,
}
_TURNED: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}
_AGGREGATES: dict[type[exp.Expr], type[exp.AggFunc]] = {
    exp.Max: exp.Min,
    exp.Min: exp.Max,
    exp.Sum: exp.Avg,
    exp.Avg: exp.Sum,
}


def mutants(gold: str) -> Iterator[Statement]:
    for what, change in MUTATIONS.items():
        yield from islice(((what, sql) for sql in _changed(gold, change)), _EACH)


def rewritings(gold: str) -> Iterator[Statement]:
    for what, change in REWRITINGS.items():
        yield from islice(((what, sql) for sql in _changed(gold, change)), 1)


def ordered(gold: str) -> bool:
    return parse_one(gold, dialect="sqlite").args.get("order") is not None


def limited(gold: str) -> bool:
    return parse_one(gold, dialect="sqlite").args.get("limit") is not None


def _changed(gold: str, change: Change) -> Iterator[str]:
    """The gold with the change at one place, for each place where it applies."""
    plain = parse_one(gold, dialect="sqlite").sql("sqlite")
    for place in range(sum(1 for _ in parse_one(gold, dialect="sqlite").walk())):
        tree = parse_one(gold, dialect="sqlite")
        node = next(islice(tree.walk(), place, None))
        found = change(node)
        if found is None:
            continue
        if node is tree:
            tree = found
        elif found is not node:
            node.replace(found)
        if (sql := tree.sql("sqlite")) != plain:
            yield sql


# -- mutants ---------------------------------------------------------------------------------------


def _join(node: exp.Expr) -> exp.Expr | None:
    if not isinstance(node, exp.Join) or not node.args.get("on"):
        return None
    node.set("side", None if node.side else "LEFT")
    return node


def _distinct(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Distinct):
        return exp.Count(this=node.this.expressions[0])
    if isinstance(node, exp.Select):
        node.set("distinct", None if node.args.get("distinct") else exp.Distinct())
        return node
    return None


def _edge(node: exp.Expr) -> exp.Expr | None:
    return (
        _EDGES[type(node)](this=node.this, expression=node.args["expression"])
        if type(node) in _EDGES
        else None
    )


def _missing(node: exp.Expr) -> exp.Expr | None:
    return node.this if isinstance(node, exp.And | exp.Or) else None


def _nowhere(node: exp.Expr) -> exp.Expr | None:
    if not isinstance(node, exp.Select) or not (node.args.get("where") or node.args.get("having")):
        return None
    node.set("where" if node.args.get("where") else "having", None)
    return node


def _limit(node: exp.Expr) -> exp.Expr | None:
    """One more or, where ties must all be shown, the first alone."""
    if not isinstance(node, exp.Select) or node.parent is not None:
        return None
    limit = node.args.get("limit")
    found: exp.Select = node.limit(int(limit.expression.this) + 1 if limit else 1)
    return found


def _null(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, exp.Coalesce):
        bare: exp.Expr = node.this
        return bare
    if isinstance(node, exp.Is) or (isinstance(node, exp.Not) and isinstance(node.this, exp.Is)):
        return exp.true() if not isinstance(node.parent, exp.Select) else None
    return None


def _aggregate(node: exp.Expr) -> exp.Expr | None:
    return _AGGREGATES[type(node)](this=node.this) if type(node) in _AGGREGATES else None


def _unordered(node: exp.Expr) -> exp.Expr | None:
    if node.parent is not None or not isinstance(node, exp.Query) or not node.args.get("order"):
        return None
    node.set("order", None)
    return node


def _direction(node: exp.Expr) -> exp.Expr | None:
    if not isinstance(node, exp.Ordered):
        return None
    node.set("desc", not node.args.get("desc"))
    return node


def _off_by_one(node: exp.Expr) -> exp.Expr | None:
    if (
        not isinstance(node, exp.Literal)
        or not node.is_int
        or isinstance(node.parent, exp.Limit | exp.Ordered)
    ):
        return None
    return exp.Literal.number(int(node.this) + 1)


def _case(node: exp.Expr) -> exp.Expr | None:
    return node.this if isinstance(node, exp.Lower) else None


def _union(node: exp.Expr) -> exp.Expr | None:
    if not isinstance(node, exp.SetOperation):
        return None
    return exp.Union(
        this=node.this, expression=node.args["expression"], distinct=not isinstance(node, exp.Union)
    )


def _column(node: exp.Expr) -> exp.Expr | None:
    """One column less."""
    if not isinstance(node, exp.Select) or node.parent is not None or len(node.selects) < 2:
        return None
    node.set("expressions", node.selects[:-1])
    return node


MUTATIONS: dict[str, Change] = {
    "another join": _join,
    "DISTINCT too many or missing": _distinct,
    "an edge the other way": _edge,
    "half a condition missing": _missing,
    "a whole condition missing": _nowhere,
    "another LIMIT": _limit,
    "NULL not thought of": _null,
    "another aggregate": _aggregate,
    "no order": _unordered,
    "the other direction": _direction,
    "a number off by one": _off_by_one,
    "case not thought of": _case,
    "another set operation": _union,
    "a column missing": _column,
}


# -- other ways to say the same --------------------------------------------------------------------


def _turned(node: exp.Expr) -> exp.Expr | None:
    return (
        _TURNED[type(node)](this=node.args["expression"], expression=node.this)
        if type(node) in _TURNED
        else None
    )


def _between(node: exp.Expr) -> exp.Expr | None:
    if not isinstance(node, exp.Between):
        return None
    low, high = node.args["low"], node.args["high"]
    return exp.paren(
        exp.and_(
            exp.GTE(this=node.this.copy(), expression=low), exp.LTE(this=node.this, expression=high)
        )
    )


def _in(node: exp.Expr) -> exp.Expr | None:
    if not isinstance(node, exp.In) or not node.expressions:
        return None
    return exp.paren(
        exp.or_(*(exp.EQ(this=node.this.copy(), expression=one.copy()) for one in node.expressions))
    )


def _where_for_on(node: exp.Expr) -> exp.Expr | None:
    """Joins by comma, their conditions in WHERE."""
    joins = node.args.get("joins") if isinstance(node, exp.Select) else None
    if (
        not isinstance(node, exp.Select)
        or not joins
        or any(join.side or not join.args.get("on") for join in joins)
    ):
        return None
    conditions = [join.args["on"].copy() for join in joins]
    for join in joins:
        join.set("on", None)
        join.set("kind", None)
    return node.where(*conditions)


def _named(node: exp.Expr) -> exp.Expr | None:
    """Every column by a name of its own."""
    if not isinstance(node, exp.Select) or node.parent is not None or node.args.get("order"):
        return None
    node.set(
        "expressions",
        [exp.alias_(one.unalias(), f"column_{place}") for place, one in enumerate(node.selects)],
    )
    return node


def _swapped(node: exp.Expr) -> exp.Expr | None:
    """The columns in another order, under their own names."""
    if not isinstance(node, exp.Select) or node.parent is not None or len(node.selects) < 2:
        return None
    if not all(isinstance(one, exp.Column | exp.Alias) for one in node.selects):
        return None
    node.set("expressions", node.selects[::-1])
    return node


def _in_cte(node: exp.Expr) -> exp.Expr | None:
    if (
        not isinstance(node, exp.Query)
        or node.parent is not None
        or node.args.get("order")
        or node.args.get("with_")
    ):
        return None
    return exp.select("*").from_("answer").with_("answer", as_=node.copy())


def _more_order(node: exp.Expr) -> exp.Expr | None:
    """What ties under the gold's keys, in an order of its own."""
    if not isinstance(node, exp.Select) or node.parent is not None or not node.args.get("order"):
        return None
    return node.order_by("1 DESC", append=True)


def _grouped(node: exp.Expr) -> exp.Expr | None:
    if not isinstance(node, exp.Select) or not node.args.get("distinct") or node.args.get("group"):
        return None
    node.set("distinct", None)
    return node.group_by(*(str(place) for place in range(1, len(node.selects) + 1)))


def _counted(node: exp.Expr) -> exp.Expr | None:
    return (
        exp.Mul(this=node.copy(), expression=exp.Literal.number("1.0"))
        if isinstance(node, exp.Count)
        else None
    )


def _exists(node: exp.Expr) -> exp.Expr | None:
    if not isinstance(node, exp.Not) or not isinstance(node.this, exp.Exists):
        return None
    inner = node.this.this
    inner.set("expressions", [exp.Count(this=exp.Star())])
    return exp.EQ(this=exp.Subquery(this=inner), expression=exp.Literal.number(0))


REWRITINGS: dict[str, Change] = {
    "sides of a comparison exchanged": _turned,
    "BETWEEN in two comparisons": _between,
    "IN as OR": _in,
    "conditions of joins in WHERE": _where_for_on,
    "columns by other names": _named,
    "columns in another order": _swapped,
    "in a CTE": _in_cte,
    "ties in another order": _more_order,
    "GROUP BY for DISTINCT": _grouped,
    "a count as a decimal number": _counted,
    "a count for NOT EXISTS": _exists,
}
