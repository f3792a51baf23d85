"""Plausible mistakes: what a gold becomes by one small change. A generated task is kept only if the
reward refuses all that mean something else, so that its files tell wrong from right.

    Bash     an option, a stage of a pipe, an anchor, an escape or a condition less; < for <= and
             so on; first for last; another column; a part for the whole, the size for the content;
             small letters for capitals; all files with such a name; numbers as text
    SQL      a condition, a sort key, a group or a DISTINCT less; < for <= or for >= and so on, all
             limits at once; a join for an anti-join; a number one off; AND for OR; another
             aggregate, join or order; LIMIT 1; rows or values once, or as often as they are there;
             a part of a name; namesakes as one; NULL for 0, or among others; the filter of a LEFT
             JOIN in WHERE
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
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sqlglot
from sqlglot import exp

_OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "-lt": "-le", "-le": "-lt"}
_OTHER |= {"-gt": "-ge", "-ge": "-gt"}


def _dropped(match: re.Match[str]) -> str:
    return ""


def _compared(match: re.Match[str]) -> str:
    return _OTHER[match[0]]


def _one_less(match: re.Match[str]) -> str:
    return f"{match[1]}{int(match[2]) - 1}"


def _one_more(match: re.Match[str]) -> str:
    return f"{match[1]}{int(match[2]) + 1}"


_COMPARISON = r"(?<= )(?:[<>]=?|-[lg][te])"
_TESTS = "type|name|path|size|mindepth|maxdepth|iname|C"
_EDITS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (rf" -(?!(?:{_TESTS}|exec|printf) )[a-zA-Z]+(?= )", _dropped),  # an option
    (r"(?<= -)[a-zA-Z](?=[a-zA-Z]{1,2} )", _dropped),  # one of several letters
    (r"(?<= -)([a-zA-Z]{1,2})[a-zA-Z](?= )", r"\1"),
    (rf" -(?:{_TESTS}) \S+", _dropped),  # a test of find, or the folder of tar
    (r"(find \S+)(?= )(?![^|]* -maxdepth)", r"\1 -maxdepth 1"),
    (r"( -size [+-])(\d+)", _one_less),
    (r"( -size [+-])(\d+)", _one_more),
    (r" -k\d+(?:,\d+)?[a-z]*", _dropped),  # a sort key
    (r"(?<= -k)(\d+,\d+)[nr](r?)(?= |$)", r"\1\2"),  # as text, or the other way round
    (r"(?<= -k)(\d+,\d+)nr(?= |$)", r"\1n"),
    (r"(?<= -k)(\d+,\d+)(?= |$)", r"\1r"),
    (r" \| (?:[^|']|'[^']*')+(?=\|)", " "),  # a stage of a pipe
    (r" \| (?:[^|'()]|'[^']*')+$", _dropped),
    (r"(?<=['/])\^|\$(?=['/)])|\\[<>b]", _dropped),  # an anchor
    (r"\\\.", "."),  # an escape
    (r"\*\.", "*"),
    (r"/g(?=[;'])", "/"),  # all matches of a line
    (rf"{_COMPARISON}(?= [\d$\"])", _compared),  # a limit
    (r"[^'{(&|;]+ && (?=[^']*[{'])", _dropped),  # a condition
    (r" && [^'{)&|;]+(?=[ ')])", _dropped),
    (r"&&", "||"),
    (r"\bNF(?= && |\s*\{)", "length"),  # a line of spaces counts
    (r'\$(\d+) == ("[^"]*"|\w+)', r"$\1 ~ \2"),  # a part for the whole
    (r'\$\d+ == ("[^"]*"|\w+)', r"$0 ~ \1"),
    (r'\$(\d+) == ("[^"]*")', r"index($\1, \2) == 1"),
    (r"cmp(?: -s)? (\S+) (\S+)", r"[ $(wc -c < \1) = $(wc -c < \2) ]"),
    (r"\bgrep(?! (?:-\w+ )*-\w*i)(?= (?:-\w+ )*'?[\\.^<]*[A-Za-z(])", "grep -i"),  # any case
    (r"-name(?= '?[^' ]*[A-Za-z])", "-iname"),
    (r"\bhead\b", "tail"),  # first for last
    (r"\btail\b", "head"),
    (r"\$\{(\w+)%([^%}*]+)\}", r"${\1/\2}"),
    (r"'NR == 1 \{", "'END {"),
    (r"(?<=\$)(\d)\b", lambda match: str(int(match[1]) + 1)),  # another column
    (r"(?<=\$)([2-9])\b", lambda match: str(int(match[1]) - 1)),
    (r"\{print (\$\d+), (\$\d+)", r"{print \2, \1"),
    (r"comm -23", "comm -13"),
    (r"comm -13", "comm -23"),
    (r"sort -u", "sort"),
    (r"(find \S+)(?= )(?! -m(?:ax|in)depth| .*(?:-path|NR ==))", r"\1 -mindepth 2"),
    (r"\|\|", "&&"),
    (r"\\\|[\w ]+|[\w ]+\\\|", _dropped),  # one of two words
    (r"(--wildcards '[^']*)'", r"\1*'"),
    (r"--wildcards", "--ignore-case --wildcards"),
    (r"(?<=-F, ')([^|]*?\$\d+ [<>]=? )(\d+)", r'\1"\2"'),  # compared as text
    (r"\bNR > 1\b", "NR > 2"),
    (r'\$NF == "(\w+)"', r"/\1$/"),  # a part for the whole
    (r'\$NF == "(\w+)"', r"$NF ~ /^\1/"),
    (r'\$(\d+) == "(\w+)"', r"$\1 ~ /\2$/"),
    (r"\(\^\| \)|\( \|\$\)", _dropped),
    (r"\$(\d+) != (\d+)", r"$\1 < \2"),
    (r"\$(\d+) != (\d+)", r'$0 !~ " \2( |$)"'),
)


def bash_mutants(gold: str) -> Iterator[str]:
    """Yield the mutants of a command."""
    for pattern, replacement in _EDITS:
        for match in re.finditer(pattern, gold):
            new = match.expand(replacement) if isinstance(replacement, str) else replacement(match)
            yield gold[: match.start()] + new + gold[match.end() :]
    if re.match(r"(?:cd \S+ && )?(?:chmod|cp|mv|rm|truncate)\b[^|;]*$", gold):
        for match in re.finditer(r"(?<=/)[\w-]+\.\w+(?= |$)", gold):  # all files with such a name
            for new in (f"{match[0]}*", f"*{match[0]}"):
                yield gold[: match.start()] + new + gold[match.end() :]


def limit_mutants(gold: str) -> Iterator[tuple[str, bool]]:
    """Yield a solution in any language with < for <= and so on, in one place each; and whether the
    limit there is a number or a date."""
    for match in re.finditer(rf"{_COMPARISON}(?= (['\"]?\d|[a-z\"$(]))", gold):
        mutant = gold[: match.start()] + _compared(match) + gold[match.end() :]
        yield mutant, match[1][-1].isdigit()


def normal_sql(query: str) -> str:
    """Return a query as sqlglot writes it, to compare two."""
    return sqlglot.parse_one(query, read="mysql").sql(dialect="mysql")


_SHIFTED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.GT: exp.GTE,
    exp.GTE: exp.GT,
    exp.LT: exp.LTE,
    exp.LTE: exp.LT,
    exp.Sum: exp.Count,
    exp.Max: exp.Min,
    exp.Min: exp.Max,
    exp.Avg: exp.Sum,
}
_COMPLEMENT: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
}


def sql_mutants(gold: str) -> Iterator[str]:
    """Yield the mutants of a query."""
    tree = sqlglot.parse_one(gold, read="mysql")
    for place, node in enumerate(tree.walk()):
        for change in _sql_changes(node):
            mutant = tree.copy()
            there = next(twin for number, twin in enumerate(mutant.walk()) if number == place)
            change(there)
            yield mutant.sql(dialect="mysql")
    shifted = tree.copy()
    limits: list[Any] = [node for node in shifted.walk() if type(node) in _COMPLEMENT]
    for limit in limits:
        limit.replace(_SHIFTED[type(limit)](**limit.args))
    if len(limits) > 1:  # two mistakes may cancel each other
        yield shifted.sql(dialect="mysql")


def _sql_changes(node: Any) -> Iterator[Callable[[Any], object]]:
    """Yield what can be done to a copy of a node."""
    if other := _SHIFTED.get(type(node)):
        yield lambda there: there.replace(other(**there.args))
    if complement := _COMPLEMENT.get(type(node)):
        yield lambda there: there.replace(complement(**there.args))
    match node:
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE() if node.expression.is_int:
            step = 1 if isinstance(node, (exp.GT, exp.LTE)) else -1
            limit = exp.Literal.number(int(node.expression.sql()) + step)  # it may be negative
            yield lambda there: there.set("expression", limit)
        case exp.And():
            yield lambda there: there.replace(there.this)
            yield lambda there: there.replace(there.expression)
            yield lambda there: there.replace(exp.Or(**there.args))
        case exp.Or():
            yield lambda there: there.replace(exp.And(**there.args))
        case exp.Not(this=exp.Exists()):
            yield _join_instead
        case exp.Paren(this=exp.Or()):
            yield lambda there: there.replace(there.this)
        case exp.Where() | exp.Having() | exp.Distinct() | exp.Limit() | exp.Order():
            yield lambda there: there.pop()
        case exp.Count(this=exp.Distinct(expressions=[exp.Column() as counted])):
            yield lambda there: there.set("this", there.this.expressions[0])
            table, key, _ = counted.name.rpartition("_id")
            for label in ("name", "title") if key else ():  # namesakes count once
                one = f"SELECT one.{label} FROM {table} AS one WHERE one.id = {counted.sql()}"
                named = exp.Distinct(expressions=[exp.Subquery(this=sqlglot.parse_one(one))])
                yield lambda there, named=named: there.set("this", named)  # type: ignore[misc]
        case exp.Count(this=exp.Column()):
            yield lambda there: there.set("this", exp.Star())
        case exp.Ordered(parent=exp.Order(expressions=keys)):
            up = bool(node.args.get("desc"))
            yield lambda there: there.replace(
                exp.Ordered(this=there.this, desc=not up, nulls_first=up)
            )
            if len(keys) > 1:
                yield lambda there: there.pop()
            if len(keys) > 1 and node is keys[-1]:
                names = {key.name for key in node.parent.find_all(exp.Column)}
                for column in node.find_ancestor(exp.Select).expressions:
                    if isinstance(column, exp.Column) and column.name not in names:
                        yield lambda there, by=column: there.set("this", by.copy())  # type: ignore[misc]
        case exp.Join(side="LEFT"):
            yield lambda there: there.set("side", None)
            yield _filter_later
        case exp.EQ(expression=exp.Literal(is_string=True, this=text)) if text[1:].islower():
            for pattern in (f"{text}%", f"%{text}"):  # a part of the name
                like = exp.Like(this=node.this.copy(), expression=exp.Literal.string(pattern))
                yield lambda there, like=like: there.replace(like)  # type: ignore[misc]
        case exp.NEQ(this=exp.Column() as column):
            unknown = exp.Is(this=column.copy(), expression=exp.Null())
            yield lambda there: there.replace(exp.paren(exp.or_(there.copy(), unknown)))
        case exp.Case(args={"default": exp.Expression()}, parent=exp.Sum()) if (
            select := node.find_ancestor(exp.Select)
        ) and select.args.get("group"):  # in some groups, none
            yield lambda there: there.set("default", None)
        case exp.Between():
            yield lambda there: there.replace(
                exp.and_(
                    exp.GT(this=there.this, expression=there.args["low"]),
                    exp.LTE(this=there.this.copy(), expression=there.args["high"]),
                )
            )
            yield lambda there: there.replace(
                exp.and_(
                    exp.GTE(this=there.this, expression=there.args["low"]),
                    exp.LT(this=there.this.copy(), expression=there.args["high"]),
                )
            )
        case exp.Select():
            yield from _select_changes(node)
        case exp.Sum(this=exp.Column()):
            once = exp.Distinct(expressions=[node.this.copy()])
            yield lambda there: there.set("this", once)
        case exp.Column(parent=exp.Group(expressions=[_, _, *_] as keys)) if node.name == "id" or (
            not any(key.name == "id" and key.table == node.table for key in keys)
        ):  # beside the key of its table, a column makes no difference
            yield lambda there: there.pop()
        case exp.Window(args={"partition_by": [_, *_]}):
            yield lambda there: there.set("partition_by", None)
        case exp.Rank():
            yield lambda there: there.replace(exp.RowNumber())
        case exp.Union():
            yield lambda there: there.set("distinct", not there.args["distinct"])
        case exp.Coalesce():
            yield lambda there: there.replace(there.this)
        case exp.Sub():
            yield lambda there: there.replace(exp.Add(**there.args))
        case exp.Add():
            yield lambda there: there.replace(exp.Sub(**there.args))


def _select_changes(select: exp.Select) -> Iterator[Callable[[Any], object]]:
    columns, grouped = select.expressions, bool(select.args.get("group"))
    one_row = not grouped and all(
        column.find(exp.AggFunc) and not column.find(exp.Window) for column in columns
    )
    if select.parent is None and not select.args.get("limit") and not one_row:
        yield lambda there: there.set("limit", exp.Limit(expression=exp.Literal.number(1)))
    unique = grouped or one_row or any(column.name == "id" for column in columns)
    if select.parent is None and not select.args.get("distinct") and not unique:
        yield lambda there: there.set("distinct", exp.Distinct())
    others = [column.copy() for column in columns if column.name != "id"]
    if select.parent is None and not grouped and 0 < len(others) < len(columns):

        def merge(there: Any) -> None:
            """Put rows together that are equal but for the id."""
            there.set("expressions", [_least(column) for column in there.expressions])
            there.set("group", exp.Group(expressions=others))

        yield merge


def _least(column: Any) -> Any:
    return exp.Min(this=column.copy()) if column.name == "id" else column


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


def normal_python(source: str) -> str:
    """Return a source as `ast` writes it, to compare two."""
    return ast.unparse(ast.parse(source))


_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARGUMENT_CHANGES = ("{}[1:]", "{}[:-1]", "[*dict.fromkeys({})]")
_CALLED = {"min": "max", "max": "min", "ljust": "rjust", "rjust": "ljust", "any": "all"}
_CALLED |= {"all": "any", "startswith": "endswith", "endswith": "startswith"}


def python_mutants(gold: str) -> Iterator[str]:
    """Yield the mutants of a function."""
    tree = ast.parse(gold)
    for place, node in enumerate(ast.walk(tree)):
        for change in _python_changes(node):
            mutant: ast.AST = copy.deepcopy(tree)
            there = next(twin for number, twin in enumerate(ast.walk(mutant)) if number == place)
            result = change(there)
            if result is not None:
                mutant = _Replacing(there, result).visit(mutant)
            yield ast.unparse(ast.fix_missing_locations(mutant))


class _Replacing(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def _python_changes(node: ast.AST) -> Iterator[Callable[[ast.AST], ast.AST | None]]:
    """Yield functions that change a copy of a node, or return what takes its place."""

    def changing(name: str, value: object) -> Callable[[ast.AST], None]:
        return lambda there: setattr(there, name, value)

    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARED:
            yield changing("ops", [_COMPARED[type(operator)]()])
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value=str() as text)]) if (
            len(text) > 1
        ):  # a part for the whole, any case
            whole = ast.unparse(node.left)
            yield lambda there: ast.parse(f"{text!r} in {whole}", mode="eval").body
            yield lambda there: ast.parse(f"{whole}.lower() == {text.lower()!r}", mode="eval").body
        case ast.FunctionDef(args=ast.arguments(args=arguments)):  # the first or last item missed
            for name in (argument.arg for argument in arguments):
                for change in _ARGUMENT_CHANGES:
                    first = ast.parse(f"{name} = {change.format(name)}").body
                    yield changing("body", [*first, *node.body])
        case ast.AugAssign():
            yield lambda there: ast.Assign([there.target], there.value)  # type: ignore[attr-defined]
        case ast.Slice():
            for name in ("lower", "upper", "step"):
                if (limit := getattr(node, name)) and ast.unparse(limit) not in ("0", "1"):
                    yield changing(name, None)
        case ast.BoolOp(op=operator, values=values):
            yield changing("op", ast.Or() if isinstance(operator, ast.And) else ast.And())
            for place in range(len(values)):
                yield changing("values", [value for n, value in enumerate(values) if n != place])
        case ast.BinOp(op=ast.Add() | ast.Sub() as operator):
            yield changing("op", ast.Sub() if isinstance(operator, ast.Add) else ast.Add())
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            yield changing("value", number + 1)
            if number > 0:
                yield changing("value", number - 1)
        case ast.IfExp():
            yield lambda there: there.body  # type: ignore[attr-defined]
            yield lambda there: there.orelse  # type: ignore[attr-defined]
        case ast.comprehension(ifs=[_, *_] as ifs):
            for place in range(len(ifs)):
                yield changing("ifs", [test for n, test in enumerate(ifs) if n != place])
        case ast.If(orelse=[]):
            yield changing("test", ast.Constant(True))
        case ast.Call(func=ast.Name(id=name)):
            if name in _CALLED:
                yield changing("func", ast.Name(_CALLED[name], ast.Load()))
            if name in ("sum", "len") and "set(" not in ast.unparse(node):  # equal items once
                once = ast.parse(f"{name}(set({ast.unparse(node.args[0])}))", mode="eval").body
                yield lambda there: once
            if name in ("sorted", "set", "reversed"):
                yield changing("func", ast.Name("list", ast.Load()))
            if any(word.arg in ("reverse", "key") for word in node.keywords):
                yield changing("keywords", [])
        case ast.Call(func=ast.Attribute(attr=name)):
            if name in _CALLED:
                yield lambda there: setattr(there.func, "attr", _CALLED[name])  # type: ignore[attr-defined]
            for part in ("lstrip", "rstrip") if name == "strip" else ():
                yield lambda there, part=part: setattr(there.func, "attr", part)  # type: ignore[misc]
            if name in ("strip", "lower", "upper", "lstrip", "rstrip", "title"):
                yield lambda there: there.func.value  # type: ignore[attr-defined]
            if name == "fromkeys":  # equal items again
                yield lambda there: there.args[0]  # type: ignore[attr-defined]
            if name == "split" and not node.args:
                yield changing("args", [ast.Constant(" ")])


MUTANTS = {"bash": bash_mutants, "sql": sql_mutants, "python": python_mutants}
NORMAL: Mapping[str, Callable[[str], str]] = {
    "bash": str,
    "sql": normal_sql,
    "python": normal_python,
}
"""The form in which mutants are written, but for their spaces."""
