"""Golds in Python, said in other ways that mean the same.

Each is (what was done, the code), with the change wherever it applies. That it means the same is
not taken for granted: an answer that does anything else on some input is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

Rewrite = Callable[[Any], Any]
"""A node, or statements, in place of a node; the node itself where it does not apply."""
_SIDES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
}
_SIDES |= {ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}


def rewritings(gold: str) -> Iterator[tuple[str, str]]:
    plain = ast.unparse(ast.parse(gold))
    for what, rewrite in REWRITINGS.items():
        tree = _Everywhere(rewrite).visit(ast.parse(gold))
        if (code := ast.unparse(ast.fix_missing_locations(tree))) != plain:
            yield what, code


def renamed(gold: str, names: dict[str, str]) -> str:
    return ast.unparse(_Renamed(names).visit(ast.parse(gold)))


def local_names(gold: str, name: str) -> dict[str, str]:
    """A new name for each that the gold gives to a value and that nobody else may use."""
    tree = ast.parse(gold)
    nodes = list(ast.walk(tree))
    bound = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    given = {
        arg.arg
        for node in nodes
        if isinstance(node, ast.arguments)
        for arg in [*node.posonlyargs, *node.args]
    }
    named = {node.arg for node in nodes if isinstance(node, ast.keyword)}
    public = {
        arg.arg
        for node in nodes
        if isinstance(node, ast.arguments) and node.defaults
        for arg in node.args
    }
    return {
        old: f"value_{place}"
        for place, old in enumerate(sorted((bound | given) - named - public - {name, "self"}))
    }


class _Everywhere(ast.NodeTransformer):
    def __init__(self, rewrite: Rewrite) -> None:
        self._rewrite = rewrite

    def visit(self, node: ast.AST) -> Any:
        return self._rewrite(self.generic_visit(node))


class _Renamed(ast.NodeTransformer):
    """Names, arguments, functions, classes and caught errors; attributes keep theirs."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit(self, node: ast.AST) -> ast.AST:
        for field in ("id", "arg", "name"):
            old = getattr(node, field, None)
            if isinstance(old, str) and not isinstance(node, ast.alias | ast.keyword):
                setattr(node, field, self._names.get(old, old))
        return self.generic_visit(node)


# -- what is rewritten -----------------------------------------------------------------------------


def _sides(node: ast.AST) -> ast.AST:
    if not isinstance(node, ast.Compare) or len(node.ops) > 1 or type(node.ops[0]) not in _SIDES:
        return node
    return ast.Compare(node.comparators[0], [_SIDES[type(node.ops[0])]()], [node.left])


def _branches(node: ast.AST) -> ast.AST:
    if isinstance(node, ast.IfExp):
        return ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)
    if isinstance(node, ast.If) and node.orelse:
        return ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)
    return node


def _spelled_out(node: ast.AST) -> ast.AST:
    if not isinstance(node, ast.AugAssign) or not isinstance(node.target, ast.Name):
        return node
    return ast.Assign(
        [node.target], ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
    )


def _named(node: ast.AST) -> Any:
    """What is returned has a name."""
    if not isinstance(node, ast.Return) or node.value is None:
        return node
    return [
        ast.Assign([ast.Name("answer", ast.Store())], node.value),
        ast.Return(ast.Name("answer", ast.Load())),
    ]


def _loop(node: ast.AST) -> Any:
    """A list that is assigned or returned is gathered in a loop."""
    if not isinstance(node, ast.Assign | ast.Return) or not isinstance(node.value, ast.ListComp):
        return node
    made = ast.parse("gathered = []").body[0]
    inner: ast.stmt = ast.Expr(
        ast.Call(ast.parse("gathered.append", mode="eval").body, [node.value.elt], [])
    )
    for each in reversed(node.value.generators):
        for condition in reversed(each.ifs):
            inner = ast.If(condition, [inner], [])
        inner = ast.For(each.target, each.iter, [inner], [])
    gathered = ast.Name("gathered", ast.Load())
    return [
        made,
        inner,
        (
            ast.Return(gathered)
            if isinstance(node, ast.Return)
            else ast.Assign(node.targets, gathered)
        ),
    ]


def _formatted(node: ast.AST) -> ast.AST:
    """`format` for an f-string whose formats are fixed."""
    if not isinstance(node, ast.JoinedStr):
        return node
    template: str = ""
    values: list[ast.expr] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            template += str(part.value).replace("{", "{{").replace("}", "}}")
        elif isinstance(part, ast.FormattedValue) and (spec := _spec(part)) is not None:
            template += "{" + spec + "}"
            values.append(part.value)
        else:
            return node
    return (
        ast.Call(ast.Attribute(ast.Constant(template), "format", ast.Load()), values, [])
        if values
        else node
    )


def _spec(part: ast.FormattedValue) -> str | None:
    """The format of one value, empty for the usual one; None if it is not fixed."""
    if part.format_spec is None and part.conversion == -1:
        return ""
    fixed = part.format_spec.values if isinstance(part.format_spec, ast.JoinedStr) else []
    plain = len(fixed) == 1 and isinstance(fixed[0], ast.Constant) and part.conversion == -1
    return ":" + ast.unparse(fixed[0]).strip("'") if plain else None


def _de_morgan(node: ast.AST) -> ast.AST:
    if not isinstance(node, ast.If | ast.While | ast.IfExp) or not isinstance(
        node.test, ast.BoolOp
    ):
        return node
    other = ast.Or() if isinstance(node.test.op, ast.And) else ast.And()
    node.test = ast.UnaryOp(
        ast.Not(), ast.BoolOp(other, [ast.UnaryOp(ast.Not(), one) for one in node.test.values])
    )
    return node


def _documented(node: ast.AST) -> ast.AST:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        node.body.insert(0, ast.Expr(ast.Constant("Written with care.")))
    for arg in node.args.args if isinstance(node, ast.FunctionDef) else ():
        arg.annotation = ast.Name("object", ast.Load())
    return node


def _endless(node: ast.AST) -> ast.AST:
    """A `while` whose condition ends it from within."""
    if not isinstance(node, ast.While) or node.orelse:
        return node
    return ast.While(
        ast.Constant(True),
        [ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], []), *node.body],
        [],
    )


REWRITINGS: dict[str, Rewrite] = {
    "sides of comparisons exchanged": _sides,
    "branches exchanged": _branches,
    "x = x + y for x += y": _spelled_out,
    "a name for what is returned": _named,
    "a loop for a comprehension": _loop,
    "format for f-strings": _formatted,
    "conditions turned inside out": _de_morgan,
    "documented and annotated": _documented,
    "loops that break": _endless,
}
