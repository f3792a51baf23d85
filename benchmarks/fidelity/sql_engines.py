"""Why a gold returns other rows on SQLite than on MariaDB: one rule for each cause, each an experiment.

    blanks at the end    MariaDB, told that they count in the gold's texts, returns SQLite's rows
    digits of AVG        MariaDB, told to keep more of them, returns SQLite's rows
    text as number       MariaDB, given texts to compare with for numbers, or to take the mean of, returns SQLite's rows
    group by             a column is neither grouped nor aggregated, and without such columns the rows are the same
    tie in a subquery    with another of the rows that tie in it, MariaDB returns SQLite's rows

Rows are the same if either engine's answer solves the task with the other's gold, as `exact` has it: order counts where the
gold orders. What no rule explains is "unexplained".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from fidelity.proof import UNEXPLAINED, Proof
from fidelity.sql_scenes import Bench, Way
from intercode.rewards import sql_exact
from intercode.rewards.exact_sql import free
from intercode.types import Table, Task

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True)
class Difference:
    """A gold that both engines run, with other rows."""

    task: Task
    proof: Proof


def differences(maria: Bench, lite: Bench) -> tuple[int, list[Difference]]:
    """How many golds both engines can run, and those of them whose rows differ, explained."""
    both = [task for task in maria.tasks.values() if maria.gold(task).table and lite.gold(task).table]
    return len(both), [Difference(task, explain(maria, lite, task)) for task in both if not same(maria, lite, task)]


def same(maria: Bench, lite: Bench, task: Task) -> bool:
    one, other = maria.gold(task), lite.gold(task)
    assert one.table is not None
    assert other.table is not None
    return sql_exact(other.table, one.table, one.order).success and sql_exact(one.table, other.table, other.order).success


def explain(maria: Bench, lite: Bench, task: Task) -> Proof:
    wanted = lite.gold(task).table
    assert wanted is not None
    if _same_but_free_columns(task, maria.gold(task).table, wanted):
        return Proof("group by", "columns that are neither grouped nor aggregated")
    for cause, ways in _WAYS.items():
        for way in ways(maria, task):
            found = maria.answer(task, [task.gold], way).table
            if found is not None and sql_exact(found, wanted, lite.gold(task).order).success:
                return Proof(cause, way.name)
    return Proof(UNEXPLAINED, "")


def _rewriting(change: Callable[[exp.Expr], None]) -> Callable[[str], str]:
    """A rewriting of statements that changes the parsed one in place."""

    def rewrite(statement: str) -> str:
        from sqlglot import parse_one

        whole = parse_one(statement, read="mysql")
        change(whole)
        return whole.sql(dialect="mysql")

    return rewrite


def _count_blanks(whole: exp.Expr) -> None:
    from sqlglot import exp

    for literal in list(whole.find_all(exp.Literal)):
        if literal.is_string:
            literal.replace(exp.Collate(this=literal.copy(), expression=exp.var("utf8mb4_general_nopad_ci")))


def _number_as_text(whole: exp.Expr) -> None:
    from sqlglot import exp

    for literal in list(whole.find_all(exp.Literal)):
        if not literal.is_string and isinstance(literal.parent, exp.Predicate):
            literal.replace(exp.Literal.string(literal.this))


def _text_in_mean(whole: exp.Expr) -> None:
    from sqlglot import exp

    for mean in list(whole.find_all(exp.Avg)):
        mean.set("this", exp.cast(mean.this.copy(), "char"))


def _blanks(_maria: Bench, _task: Task) -> Iterator[Way]:
    yield Way("blanks count", rewrite=_rewriting(_count_blanks))


def _digits(_maria: Bench, _task: Task) -> Iterator[Way]:
    yield Way("more digits", settings="SET SESSION div_precision_increment = 12")


def _texts(_maria: Bench, _task: Task) -> Iterator[Way]:
    yield Way("numbers as texts", rewrite=_rewriting(_number_as_text))
    yield Way("the mean of texts", rewrite=_rewriting(_text_in_mean))


def _ties(_maria: Bench, _task: Task) -> Iterator[Way]:
    """A further key behind a subquery's own changes nothing but the order of what ties."""
    for descending in (False, True):
        way = "ties by what is selected, " + ("falling" if descending else "rising")
        yield Way(way, rewrite=_rewriting(partial(_break_ties, descending=descending)))


def _break_ties(whole: exp.Expr, *, descending: bool) -> None:
    from sqlglot import exp

    for select in whole.find_all(exp.Select):
        order = select.args.get("order")
        if select is not whole and select.args.get("limit") and order is not None:
            order.append("expressions", exp.Ordered(this=select.selects[0].unalias().copy(), desc=descending))


def _same_but_free_columns(task: Task, one: Table | None, other: Table) -> bool:
    kept = _bound_columns(task.gold)
    if one is None or kept is None or len(kept) in (0, len(one.columns)) or len(one.columns) != len(other.columns):
        return False
    left, right = (
        Table(tuple(map(str, kept)), tuple(tuple(row[at] for at in kept) for row in side.rows)) for side in (one, other)
    )
    return sql_exact(right, left, free(left)).success


def _bound_columns(statement: str) -> Sequence[int] | None:
    """The places of the columns that are grouped or aggregated; None where nothing is."""
    from sqlglot import exp, parse_one

    whole = parse_one(statement, read="mysql")
    if not isinstance(whole, exp.Select) or not (
        whole.args.get("group") or any(one.find(exp.AggFunc) for one in whole.selects)
    ):
        return None
    keys = whole.args["group"].expressions if whole.args.get("group") else []
    names = {key.name.lower() for key in keys}
    return [place for place, one in enumerate(whole.selects) if one.find(exp.AggFunc) or one.alias_or_name.lower() in names]


_WAYS: dict[str, Callable[[Bench, Task], Iterator[Way]]] = {
    "blanks at the end": _blanks,
    "digits of AVG": _digits,
    "text as number": _texts,
    "tie in a subquery": _ties,
}
