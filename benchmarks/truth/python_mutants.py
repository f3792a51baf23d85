"""Golds in Python, changed into mutants that a hasty agent might have written.

Each is (what was done, the code). Whether a mutant is wrong is not known here: what it does on many
inputs tells.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from random import Random
from typing import cast

Change = Callable[[ast.AST], Iterator[ast.AST]]
"""What may stand in place of a node, which is not altered itself."""
Code = tuple[str, str]
_EACH = 3
"""How many mutants of one kind a gold has at most, drawn by chance from all its places."""

_EDGES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
}
_TURNED |= {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Mod: ast.FloorDiv,
    ast.FloorDiv: ast.Div,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any", "append": "extend"}
_COPIES = ("list", "dict", "tuple", "set", "sorted")


def mutants(gold: str, *, held_out: bool = False) -> Iterator[Code]:
    """Those that are held out are others of the same kinds."""
    for what, change in MUTATIONS.items():
        found = list(dict.fromkeys(_changed(gold, change)))
        chosen = _some(what, found)
        for code in (
            _some(what, [each for each in found if each not in chosen]) if held_out else chosen
        ):
            yield what, code


def _some(what: str, found: list[str]) -> list[str]:
    return Random(what).sample(found, min(_EACH, len(found)))


def _changed(gold: str, change: Change) -> Iterator[str]:
    """The gold with the change at one place, for each place and each way."""
    tree = ast.parse(gold)
    plain = ast.unparse(tree)
    for node, put in list(_places(tree)):
        for new in change(node):
            put(new)
            if (code := ast.unparse(ast.fix_missing_locations(tree))) != plain:
                yield code
            put(node)


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, Callable[[ast.AST], None]]]:
    """Each node, and what puts another in its place."""
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, ast.AST):
                yield value, lambda new, parent=parent, field=field: setattr(parent, field, new)  # type: ignore[misc]
            for at, item in enumerate(value) if isinstance(value, list) else ():
                if isinstance(item, ast.AST):
                    yield item, lambda new, value=value, at=at: value.__setitem__(at, new)  # type: ignore[misc]


# -- what is changed -------------------------------------------------------------------------------


def _compared(other: dict[type[ast.cmpop], type[ast.cmpop]]) -> Change:
    def change(node: ast.AST) -> Iterator[ast.AST]:
        for at, op in enumerate(node.ops if isinstance(node, ast.Compare) else ()):
            if isinstance(node, ast.Compare) and type(op) in other:
                yield ast.Compare(
                    node.left,
                    [*node.ops[:at], other[type(op)](), *node.ops[at + 1 :]],
                    node.comparators,
                )

    return change


def _off_by_one(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1)


def _operator(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OPERATORS:
        op = _OPERATORS[type(node.op)]()
        yield (
            ast.BinOp(node.left, op, node.right)
            if isinstance(node, ast.BinOp)
            else ast.AugAssign(node.target, op, node.value)
        )
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand


def _other_word(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)


def _half(node: ast.AST) -> Iterator[ast.AST]:
    for at in range(len(node.values)) if isinstance(node, ast.BoolOp) else ():
        if isinstance(node, ast.BoolOp):
            left = [*node.values[:at], *node.values[at + 1 :]]
            yield ast.BoolOp(node.op, left) if len(left) > 1 else left[0]


def _one_branch(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    if isinstance(node, ast.If):
        yield ast.If(ast.Constant(True), node.body, [])
        yield ast.If(ast.Constant(True), node.orelse or [ast.Pass()], [])
    if isinstance(node, ast.comprehension) and node.ifs:
        yield ast.comprehension(node.target, node.iter, node.ifs[1:], node.is_async)


def _exchanged(node: ast.AST) -> Iterator[ast.AST]:
    if (
        isinstance(node, ast.Call)
        and len(node.args) > 1
        and not any(isinstance(one, ast.Starred) for one in node.args[:2])
    ):
        yield ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords)
    if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
        yield ast.Tuple([node.elts[1], node.elts[0], *node.elts[2:]], node.ctx)


def _function(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Name) and node.id in _FUNCTIONS:
        yield ast.Name(_FUNCTIONS[node.id], node.ctx)
    if isinstance(node, ast.Attribute) and node.attr in _FUNCTIONS:
        yield ast.Attribute(node.value, _FUNCTIONS[node.attr], node.ctx)


def _no_option(node: ast.AST) -> Iterator[ast.AST]:
    for option in node.keywords if isinstance(node, ast.Call) else ():
        if isinstance(node, ast.Call):
            yield ast.Call(
                node.func, node.args, [other for other in node.keywords if other is not option]
            )


def _no_step(node: ast.AST) -> Iterator[ast.AST]:
    """A method that only prepares a value, as `.lower()`."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and not node.args
        and not node.keywords
    ):
        yield node.func.value


def _no_copy(node: ast.AST) -> Iterator[ast.AST]:
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _COPIES
        and len(node.args) == 1
    ):
        yield node.args[0]
    if isinstance(node, ast.List) and len(node.elts) == 1 and isinstance(node.elts[0], ast.Starred):
        yield node.elts[0].value


def _no_statement(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(
        node, ast.Assign | ast.AugAssign | ast.Expr | ast.Raise | ast.Break | ast.Continue
    ):
        yield ast.Pass()


def _first_only(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.For):
        yield ast.For(node.target, node.iter, [*node.body, ast.Break()], node.orelse)
    if isinstance(node, ast.While):
        yield ast.If(node.test, node.body, node.orelse)


def _one_longer(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Slice) and node.upper is not None:
        yield ast.Slice(node.lower, _more(node.upper), node.step)
    if isinstance(node, ast.Slice) and node.lower is not None:
        yield ast.Slice(_more(node.lower), node.upper, node.step)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        at = min(1, len(node.args) - 1)
        yield ast.Call(node.func, [*node.args[:at], _more(node.args[at]), *node.args[at + 1 :]], [])


def _more(bound: ast.expr) -> ast.expr:
    return ast.BinOp(bound, ast.Add(), ast.Constant(1))


def _kept(node: ast.AST) -> Iterator[ast.AST]:
    """An empty list, dict or set that is made once, as a default, and not at each call."""
    if not isinstance(node, ast.FunctionDef):
        return
    for at, statement in enumerate(node.body):
        for fresh in _fresh(statement):
            lent = _Lent(fresh).visit(ast.parse(ast.unparse(statement)).body[0])
            given = ast.arguments(
                **{
                    **dict(ast.iter_fields(node.args)),
                    "kwonlyargs": [*node.args.kwonlyargs, ast.arg("kept")],
                }
            )
            given.kw_defaults = [*node.args.kw_defaults, ast.parse(fresh, mode="eval").body]
            body = [*node.body[:at], cast(ast.stmt, lent), *node.body[at + 1 :]]
            yield ast.FunctionDef(node.name, given, body, node.decorator_list, node.returns)


def _fresh(statement: ast.stmt) -> list[str]:
    """The empty containers that a statement assigns."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    parts = value.elts if isinstance(value, ast.Tuple) else [value] if value else []
    return list(
        dict.fromkeys(
            text for part in parts if (text := ast.unparse(part)) in ("[]", "{}", "set()")
        )
    )


class _Lent(ast.NodeTransformer):
    """`kept` in place of the first expression of this text."""

    def __init__(self, text: str) -> None:
        self._text, self._done = text, False

    def visit(self, node: ast.AST) -> ast.AST:
        if not self._done and isinstance(node, ast.expr) and ast.unparse(node) == self._text:
            self._done = True
            return ast.Name("kept", ast.Load())
        return super().generic_visit(node)


def _no_method(node: ast.AST) -> Iterator[ast.AST]:
    for method in node.body if isinstance(node, ast.ClassDef) else ():
        if (
            isinstance(node, ast.ClassDef)
            and isinstance(method, ast.FunctionDef)
            and method.name != "__init__"
        ):
            body = [other for other in node.body if other is not method]
            yield ast.ClassDef(node.name, node.bases, node.keywords, body, node.decorator_list)


MUTATIONS: dict[str, Change] = {
    "an edge the other way": _compared(_EDGES),
    "the other comparison": _compared(_TURNED),
    "a number off by one": _off_by_one,
    "another operator": _operator,
    "and for or": _other_word,
    "half a condition missing": _half,
    "one branch only": _one_branch,
    "values exchanged": _exchanged,
    "another function": _function,
    "an option missing": _no_option,
    "a step missing": _no_step,
    "a copy missing": _no_copy,
    "a statement missing": _no_statement,
    "the first round of a loop only": _first_only,
    "a slice or range one longer": _one_longer,
    "kept from one call to the next": _kept,
    "a method missing": _no_method,
}
