"""Plausible mistakes: what a gold becomes by one small change. A generated task is kept only if the
reward refuses all that mean something else, so that its files tell wrong from right.

    Bash     what `mistakes.toml` has for all families and for one: an option, a stage of a pipe or
             a condition less, first for last, a part for the whole, the size for the content, any
             case, another order, the ends of letter ranges, spaces
    SQL      a condition, a sort key, a group or a DISTINCT less; < for <= or for >= and so on, all
             limits at once; a join for an anti-join; a number one off; AND for OR; another
             aggregate, join or order; LIMIT 1; rows or values once, or as often as they are there;
             a part of a name, any case; namesakes as one; NULL for 0, or among others; the filter
             of a LEFT JOIN in WHERE; the highest id for the latest; the name of another table
    Python   a condition or a call less; < for <= and so on; AND for OR; a number one off; + for -;
             repeated spaces; a part for the whole, any case; the first or last item of an argument
             missed, or equal items once; the last for the sum; a slice without a limit; spaces
             at one end

A mutant that cannot be executed is refused as well, and costs only the time.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import sqlglot
from sqlglot import exp

from intercode.generate.draws import Item, read_toml


def _both_ways(pairs: Mapping[Item, Item]) -> dict[Item, Item]:
    """Return the partner of each member of the pairs."""
    return {**pairs, **{second: first for first, second in pairs.items()}}


_OTHER = _both_ways({"<": "<=", ">": ">=", "-lt": "-le", "-gt": "-ge"})


_STEPS = {"@less": -1, "@more": 1}


def _changed(match: re.Match[str], change: str) -> str:
    """Return what takes the place of a match: another comparison, a number or a letter further on
    or back, or a text with groups of the match."""
    if change == "@compared":
        return _OTHER[match[0]]
    if change not in _STEPS:
        return match.expand(change)
    if match[0].isalpha():
        return chr(ord(match[0]) + _STEPS[change])
    return str(int(match[0]) + _STEPS[change])


def bash_mutants(gold: str, family: str = "") -> Iterator[str]:
    """Yield the mutants of a command, with the first mistakes of a family."""
    return _edited(gold, "bash", family)


def _edited(gold: str, *tables: str) -> Iterator[str]:
    """Yield what the edits of some tables in `mistakes.toml` make of a gold, in one place each."""
    for table in tables:
        for pattern, change in read_toml("mistakes").get(table, ()):
            for match in re.finditer(pattern, gold):
                yield gold[: match.start()] + _changed(match, change) + gold[match.end() :]


# -- SQL -------------------------------------------------------------------------------------------


def normal_sql(query: str) -> str:
    """Return a query as sqlglot writes it, to compare two."""
    return sqlglot.parse_one(query, read="mysql").sql(dialect="mysql")


_SHIFTED: Mapping[Any, Any] = _both_ways({exp.GT: exp.GTE, exp.LT: exp.LTE})


def sql_mutants(gold: str, family: str = "") -> Iterator[str]:
    """Yield the mutants of a query, with the first mistakes of a family."""
    tree = sqlglot.parse_one(gold, read="mysql")
    yield from _edited(tree.sql(dialect="mysql"), "sql", family)
    for place, node in enumerate(tree.walk()):
        for change in _sql_changes(node):
            mutant = tree.copy()
            _change(next(islice(mutant.walk(), place, None)), change)
            yield mutant.sql(dialect="mysql")
    shifted = tree.copy()
    limits: list[Any] = [node for node in shifted.walk() if type(node) in _SHIFTED]
    for limit in limits:
        limit.replace(_SHIFTED[type(limit)](**limit.args))
    if len(limits) > 1:  # two mistakes may cancel each other
        yield shifted.sql(dialect="mysql")


def _change(node: Any, change: Any) -> None:
    """Change a node of a mutant. A change is None, which removes the node; an expression that
    replaces it; the name of one of its parts, which replaces it; another type, which gets its
    parts; a dict of new parts; or a function."""
    match change:
        case None | exp.Expression():
            node.replace(change)
        case str():
            node.replace(node.args[change])
        case type():
            node.replace(change(**node.args))
        case dict():
            for name, value in change.items():
                node.set(name, value)
        case _:
            change(node)


def _sql_changes(node: Any) -> Iterator[Any]:
    """Yield the changes of a node, see `_change`."""
    match node:
        case exp.And():
            yield from ("this", "expression", exp.Or)
        case exp.Where() | exp.Order():
            yield None
        case exp.Not(this=exp.Exists()):
            yield _join_instead
        case exp.Count(this=exp.Distinct(expressions=[exp.Column() as counted])):
            yield {"this": counted.copy()}
            table, key, _ = counted.name.rpartition("_id")
            if key:
                for label in ("name", "title"):  # namesakes count once
                    query = f"SELECT one.{label} FROM {table} AS one WHERE one.id = {counted.sql()}"
                    label_of = exp.Subquery(this=sqlglot.parse_one(query))
                    yield {"this": exp.Distinct(expressions=[label_of])}
        case exp.Ordered(parent=exp.Order(expressions=keys)):
            yield from _ordered_changes(node, keys)
        case exp.Join(side="LEFT"):
            yield {"side": None}
            yield _filter_later
        case exp.Select():
            yield from _select_changes(node)
        case exp.Column(parent=exp.Group(expressions=[_, _, *_] as keys)) if node.name == "id" or (
            not any(key.name == "id" and key.table == node.table for key in keys)
        ):  # next to the key of its table, a column makes no difference
            yield None


def _ordered_changes(node: Any, keys: Sequence[Any]) -> Iterator[Any]:
    up = bool(node.args.get("desc"))
    yield exp.Ordered(this=node.this.copy(), desc=not up, nulls_first=up)
    if len(keys) == 1:
        return
    yield None
    if node is keys[-1]:
        names = {key.name for key in node.parent.find_all(exp.Column)}
        for column in node.find_ancestor(exp.Select).expressions:
            if isinstance(column, exp.Column) and column.name not in names:
                yield {"this": column.copy()}


def _select_changes(select: exp.Select) -> Iterator[dict[str, Any]]:
    columns, grouped = select.expressions, bool(select.args.get("group"))
    if select.parent is not None:
        return
    one_row = not grouped and all(
        column.find(exp.AggFunc) and not column.find(exp.Window) for column in columns
    )
    if not select.args.get("limit") and not one_row:
        yield {"limit": exp.Limit(expression=exp.Literal.number(1))}
    compared = [column.copy() for column in columns if column.name != "id"]
    has_id = len(compared) < len(columns)
    if not (select.args.get("distinct") or grouped or one_row or has_id):
        yield {"distinct": exp.Distinct()}
    if not grouped and compared and has_id:  # rows that are equal but for the id as one
        merged = [column.copy() for column in columns]
        for place, column in enumerate(columns):
            if column.name == "id":
                merged[place] = exp.Min(this=column.copy())
        yield {"expressions": merged, "group": exp.Group(expressions=compared)}


def _join_instead(missing: Any) -> None:
    """Look for a partner without the conditions instead of for no partner with them; the last
    condition joins the two."""
    where = missing.this.find(exp.Where)
    *conditions, key = where.this.flatten()
    where.set("this", exp.and_(exp.not_(exp.and_(*conditions)), key))
    missing.replace(missing.this)


def _filter_later(join: Any) -> None:
    """Move the filter of a LEFT JOIN to WHERE, where it also drops rows of the left table."""
    key, *filters = join.args["on"].flatten()
    select = join.find_ancestor(exp.Select)
    join.set("on", key.copy())
    for condition in filters:
        missing = exp.Is(this=exp.column("id", join.alias_or_name), expression=exp.Null())
        select.where(exp.or_(condition.copy(), missing), copy=False)


# -- Python ----------------------------------------------------------------------------------------


def normal_python(source: str) -> str:
    """Return a source as `ast` writes it, to compare two."""
    return ast.unparse(ast.parse(source))


_COMPARED: Mapping[Any, Any] = _both_ways({ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.In: ast.NotIn})
_OPPOSITES: Mapping[Any, Any] = _both_ways({ast.And: ast.Or, ast.Add: ast.Sub})
_ARGUMENT_CHANGES = ("{}[1:]", "{}[:-1]", "[*dict.fromkeys({})]")
_CALLED = {
    **_both_ways({"min": "max", "ljust": "rjust", "any": "all", "startswith": "endswith"}),
    "sorted": "list",
    "set": "list",
    "reversed": "list",
}


def python_mutants(gold: str, family: str = "") -> Iterator[str]:
    """Yield the mutants of a function."""
    tree = ast.parse(gold)
    for node in ast.walk(tree):
        for new in _python_changes(node):
            # a copy of the tree, with the new node where its memory looks for the old one
            mutant = copy.deepcopy(tree, {id(node): new})
            yield ast.unparse(ast.fix_missing_locations(mutant))


def _with(node: ast.AST, part: str, value: object) -> ast.AST:
    """Return a copy of a node with another part."""
    twin = copy.copy(node)
    setattr(twin, part, value)
    return twin


def _without_each(node: ast.AST, part: str) -> Iterator[ast.AST]:
    """Yield copies of a node without one of the items of a list."""
    items = getattr(node, part)
    for place in range(len(items)):
        yield _with(node, part, items[:place] + items[place + 1 :])


def _expression(source: str) -> ast.expr:
    return ast.parse(source, mode="eval").body


def _python_changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what can take a node's place."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARED:
            yield _with(node, "ops", [_COMPARED[type(operator)]()])
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value=str() as text)]) if (
            len(text) > 1
        ):  # a part for the whole, any case
            whole = ast.unparse(node.left)
            yield _expression(f"{text!r} in {whole}")
            yield _expression(f"{whole}.lower() == {text.lower()!r}")
        case ast.FunctionDef(args=ast.arguments(args=arguments)):  # the first or last item missed
            for argument in arguments:
                for change in _ARGUMENT_CHANGES:
                    first = ast.parse(f"{argument.arg} = {change.format(argument.arg)}").body
                    yield _with(node, "body", [*first, *node.body])
        case ast.AugAssign():
            yield ast.Assign([node.target], node.value)
        case ast.Slice():
            for name in ("lower", "upper", "step"):
                if (limit := getattr(node, name)) and ast.unparse(limit) not in ("0", "1"):
                    yield _with(node, name, None)
        case ast.BoolOp():
            yield _with(node, "op", _OPPOSITES[type(node.op)]())
            yield from _without_each(node, "values")
        case ast.BinOp(op=ast.Add() | ast.Sub() as operator):
            yield _with(node, "op", _OPPOSITES[type(operator)]())
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            yield _with(node, "value", number + 1)
            if number > 0:
                yield _with(node, "value", number - 1)
        case ast.IfExp():
            yield node.body
            yield node.orelse
        case ast.comprehension():
            yield from _without_each(node, "ifs")
        case ast.If(orelse=[]):
            yield _with(node, "test", ast.Constant(True))
        case ast.Call(func=ast.Name(id=name)):
            if name in _CALLED:
                yield _with(node, "func", ast.Name(_CALLED[name]))
            if name in ("sum", "len") and "set(" not in ast.unparse(node):  # equal items once
                yield _expression(f"{name}(set({ast.unparse(node.args[0])}))")
            if any(word.arg in ("reverse", "key") for word in node.keywords):
                yield _with(node, "keywords", [])
        case ast.Call(func=ast.Attribute(attr=name) as method):
            if name in _CALLED:
                yield _with(node, "func", _with(method, "attr", _CALLED[name]))
            if name == "strip":
                for part in ("lstrip", "rstrip"):
                    yield _with(node, "func", _with(method, "attr", part))
            if name in ("strip", "lower", "upper", "lstrip", "rstrip", "title"):
                yield method.value
            if name == "fromkeys":  # equal items again
                yield node.args[0]
            if name == "split" and not node.args:
                yield _with(node, "args", [ast.Constant(" ")])


MUTANTS = {"bash": bash_mutants, "sql": sql_mutants, "python": python_mutants}
"""Takes a gold and the name of its family."""
NORMAL: Mapping[str, Callable[[str], str]] = {
    "bash": str,
    "sql": normal_sql,
    "python": normal_python,
}
"""The form in which mutants are written, but for their spaces."""
