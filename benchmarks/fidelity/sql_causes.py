"""Why a re-executed SQL turn earns another reward than the recorded one: one rule for each cause, each an experiment.

Two questions, each answered by its own rules; the causes are joined by "+".

    Why does the action not print what was printed then?
        recording's own state    it names a table that is in no dump, which an earlier agent had made
        group by                 recorded as refused by ONLY_FULL_GROUP_BY; with it this server refuses it too
        order of groups          with its groups unsorted it prints exactly the recorded rows
        plan                     by another plan of this server it does
        dialect                  put in words that this server has, or answers rightly, it does
        order of ties            the recorded rows are a right answer to it: `exact` says so, ties and LIMIT included
    Why do the rows of then not earn what they earned?
        gold that fails          the gold is refused, and every turn with it was scored against no rows (or the agent's own)
        order of groups, plan    against the gold executed in that way they do
        formula                  the reward is the bare overlap, among episodes that can only have been scored so; or the share
                                 of the gold's rows that were found, as in every turn of this recording
        order of ties            one arrangement of the gold's tied rows gives the rewards of all turns of the episode

MySQL 8 does not sort groups; MariaDB does, unless it is told ORDER BY NULL. A rule looks at no task number. What one of the
two questions has no answer for is "unexplained".
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, permutations, product
from math import perm, prod

from fidelity.proof import UNEXPLAINED, Proof
from fidelity.sql_scenes import Scene, Way
from intercode.envs.sqlground import Gold
from intercode.rewards import sql_exact
from intercode.rewards.exact_sql import order_of
from intercode.rewards.sql_values import Row
from intercode.runner.replay import TOLERANCE
from intercode.sqltext import ordering
from intercode.types import Table

EMPTY = Table((), ())
_EXACT = 1e-9
ARRANGEMENTS = 50_000
"""How many orders of tied rows are tried; where there are more, none is."""

_ANY_VALUE = re.compile(r"\bANY_VALUE\s*\(", re.IGNORECASE)
_REFUSED = re.compile(r"only_full_group_by", re.IGNORECASE)
_NO_TABLE = re.compile(r"^Table '[^']+' doesn't exist$")


def _unsorted(statement: str) -> str:
    """ORDER BY NULL at every GROUP BY without ORDER BY."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    try:
        whole = parse_one(statement, read="mysql")
    except SqlglotError:
        return statement
    for select in whole.find_all(exp.Select):
        if select.args.get("group") and not select.args.get("order"):
            select.set("order", exp.Order(expressions=[exp.Ordered(this=exp.Null(), nulls_first=False)]))
    return whole.sql(dialect="mysql")


def _apart(statement: str) -> str:
    """IN (one query INTERSECT another), which MariaDB 10.11 answers wrongly, as IN (SELECT * FROM (…) AS t)."""
    from sqlglot import exp, parse_one, select
    from sqlglot.errors import SqlglotError

    try:
        whole = parse_one(statement, read="mysql")
    except SqlglotError:
        return statement
    for asked in whole.find_all(exp.In):
        inner = asked.args.get("query")
        if isinstance(inner, exp.Subquery) and isinstance(inner.this, exp.SetOperation):
            asked.set("query", select("*").from_(inner.this.subquery("t")).subquery())
    return whole.sql(dialect="mysql")


def _counted(statement: str) -> str:
    """How many values of each selected column that is not aggregated are in one group."""
    from sqlglot import exp, parse_one

    whole = parse_one(statement, read="mysql")
    if isinstance(whole, exp.Select):
        free = [one.unalias().copy() for one in whole.selects if not one.find(exp.AggFunc)]
        whole.set("expressions", [exp.Count(this=exp.Distinct(expressions=[one])) for one in free])
        for part in ("order", "limit", "having"):
            whole.set(part, None)
    return whole.sql(dialect="mysql")


COUNTED = Way("values counted", rewrite=_counted)
UNSORTED = Way("groups unsorted", rewrite=_unsorted)
STRICT = Way("ONLY_FULL_GROUP_BY", settings="SET SESSION sql_mode = CONCAT(@@sql_mode, ',ONLY_FULL_GROUP_BY')")
DIALECT = [
    Way("MIN for ANY_VALUE", rewrite=lambda statement: _ANY_VALUE.sub("MIN(", statement)),
    Way("what IN asks put into a table of its own", rewrite=_apart),
]
_SETTINGS = {
    "no join buffer": "SET SESSION join_cache_level = 0",
    "hash join": "SET SESSION join_cache_level = 8, optimizer_switch = 'join_cache_hashed=on,join_cache_bka=off,mrr=off'",
    "no semijoin": "SET SESSION optimizer_switch = 'semijoin=off'",
    "no materialization": "SET SESSION optimizer_switch = 'materialization=off,semijoin=off'",
    "no IN to EXISTS": "SET SESSION optimizer_switch = 'in_to_exists=off,semijoin=off'",
    "no first match": "SET SESSION optimizer_switch = 'firstmatch=off,loosescan=off,materialization=off'",
    "no merging": "SET SESSION optimizer_switch = 'derived_merge=off,derived_with_keys=off'",
}
PLANS = [
    Way(f"{name}{also}", settings, rewrite)
    for rewrite, also in ((str, ""), (_unsorted, ", groups unsorted"))
    for name, settings in _SETTINGS.items()
]


def explain(scene: Scene) -> Proof:
    """Both questions' answers; a question that does not arise has none."""
    if not (_differs(scene) or _unpaid(scene)):
        return Proof("chance", "executed once more, it agrees")
    answers = [_first(_AGENT, scene) if _differs(scene) else None, _first(_GOLD, scene) if _unpaid(scene) else None]
    proofs = [proof for proof in answers if proof is not None]
    if any(proof.cause == UNEXPLAINED for proof in proofs):
        return Proof(UNEXPLAINED, "; ".join(proof.how for proof in proofs if proof.how))
    return Proof(" + ".join(dict.fromkeys(proof.cause for proof in proofs)), "; ".join(proof.how for proof in proofs))


Rule = Callable[[Scene], Proof | None]


def _first(rules: Sequence[Rule], scene: Scene) -> Proof:
    return next(filter(None, (rule(scene) for rule in rules)), Proof(UNEXPLAINED, ""))


def _differs(scene: Scene) -> bool:
    """Whether the action prints other rows than then. Two refusals are alike, in whatever words."""
    return _printed(scene.agent().table) != _printed(scene.seen)


def _unpaid(scene: Scene) -> bool:
    return not scene.hits(scene.gold().table)


def _printed(table: Table | None) -> str:
    return str(None if table is None else list(table.rows))


# -- why the action does not print what was printed then ----------------------------------------------------------------


def by_state(scene: Scene) -> Proof | None:
    lacking = _NO_TABLE.match(scene.agent().error or "")
    return Proof("recording's own state", "a table of then: it is in no dump") if lacking and scene.seen else None


def by_refusal(scene: Scene) -> Proof | None:
    if not _REFUSED.search(scene.observation) or scene.agent(STRICT).error is None:
        return None
    return Proof("group by", "refused then; refused here with ONLY_FULL_GROUP_BY")


def by_unsorted(scene: Scene) -> Proof | None:
    return _prints(scene, [UNSORTED], "order of groups")


def by_plan(scene: Scene) -> Proof | None:
    return _prints(scene, PLANS, "plan")


def by_dialect(scene: Scene) -> Proof | None:
    return _prints(scene, DIALECT, "dialect")


def by_ties(scene: Scene) -> Proof | None:
    """The recorded rows answer the agent's own statement as well as ours do."""
    ours, meant = scene.agent().table, ordering(scene.action, "mysql")
    if ours is None or scene.seen is None:
        return None
    derived = Way("derived", rewrite=lambda statement: meant.derived or statement)
    order = order_of(ours, meant, scene.agent(derived).table if meant.derived else None)
    legal = sql_exact(Table(ours.columns, scene.seen.rows), ours, order).success
    return Proof("order of ties", "the action's rows in another order that is as right") if legal else None


def _prints(scene: Scene, ways: Sequence[Way], cause: str) -> Proof | None:
    wanted = _printed(scene.seen)
    for way in ways:
        if scene.seen is not None and _printed(scene.agent(way).table) == wanted:
            return Proof(cause, f"the action: {way.name}")
    return None


# -- why the rows of then do not earn what they earned ------------------------------------------------------------------


def by_failing_gold(scene: Scene) -> Proof | None:
    """MariaDB's own ONLY_FULL_GROUP_BY refuses more than MySQL's: so every turn with this gold must have been scored so."""
    if scene.gold(STRICT).error is None:
        return None
    where = "here" if scene.gold().error else "with ONLY_FULL_GROUP_BY"
    if all(turn.hits(EMPTY) for turn in _with_the_same_gold(scene)):
        return Proof("gold that fails", f"the gold: refused {where}; scored against no rows")
    certain = scene.gold().error is not None or _mixed(scene)
    if certain and all(turn.hits(turn.seen) for turn in _with_the_same_gold(scene)):
        return Proof("gold that fails", f"the gold: refused {where}; scored against the agent's own rows")
    return None


def _mixed(scene: Scene) -> bool:
    """Whether a column that the gold neither groups nor aggregates has several values in one group: MySQL refuses it then."""
    counted = scene.gold(COUNTED).table
    return counted is not None and any(isinstance(cell, int) and cell > 1 for row in counted.rows for cell in row)


def _with_the_same_gold(scene: Scene) -> Iterator[Scene]:
    """The turns of this recording that were scored with it, but for those whose agent changed what is refused."""
    others = chain.from_iterable(scene.book.of(task) for task in scene.book.tasks if task.gold == scene.task.gold)
    return chain(scene.beside(), (turn for turn in others if turn.task is not scene.task and not _relaxed(turn)))


def _relaxed(scene: Scene) -> bool:
    return any("sql_mode" in (action or "").lower() for action in scene.then.actions[: scene.acted])


def by_gold_unsorted(scene: Scene) -> Proof | None:
    return _pays(scene, [UNSORTED], "order of groups")


def by_gold_plan(scene: Scene) -> Proof | None:
    return _pays(scene, PLANS, "plan")


def by_formula(scene: Scene) -> Proof | None:
    """The bare overlap, here or in episodes before and after it, with none between that weighed order."""
    if not scene.bare:
        return None
    if scene.unweighed:
        return Proof("formula", "the overlap to more than two digits: not weighed by order")
    before, after = _around(scene, scene.book.unweighed)
    mixed = any(before < place < after for place in scene.book.weighed)
    stretch = before >= 0 and after < len(scene.book.tasks) and not mixed
    return Proof("formula", "the overlap, among episodes that were not weighed by order") if stretch else None


def by_share(scene: Scene) -> Proof | None:
    """The share of the gold's rows that were found: so in all turns of this recording, but those whose gold was refused."""
    if scene.share is None or abs(scene.share - scene.recorded) > _EXACT:
        return None
    turns = (turn for task in scene.book.tasks for turn in scene.book.of(task) if turn.share is not None)
    others = (turn for turn in turns if turn.task is not scene.task or turn.index != scene.index)
    if any(abs((turn.share or 0.0) - turn.recorded) > TOLERANCE and turn.gold(STRICT).error is None for turn in others):
        return None
    return Proof("formula", "the share of the gold's rows that were found, as in every turn of this recording")


def _around(scene: Scene, places: Sequence[int]) -> tuple[int, int]:
    """The last of these places up to the scene's episode, and the first from there."""
    mine = next(place for place, task in enumerate(scene.book.tasks) if task.id == scene.task.id)
    found = bisect(places, mine)
    before = places[found - 1] if found else -1
    after = before if before == mine else places[found] if found < len(places) else len(scene.book.tasks)
    return before, after


def by_gold_ties(scene: Scene) -> Proof | None:
    turns = scene.beside()
    for number, rows in enumerate(arrangements(scene.book.bench.gold(scene.task)), 1):
        arranged = Table((), rows)
        if all(turn.hits(arranged) for turn in turns):
            return Proof("order of ties", f"the gold's tied rows arranged, all {len(turns)} turns agree: try {number}")
    return None


def arrangements(gold: Gold) -> Iterator[tuple[Row, ...]]:
    """The gold's rows with those that tie in every order and, where a LIMIT cuts a tie, each choice of them.

    None where they are too many to try them all.
    """
    order, length = gold.order, len(gold.table.rows) if gold.table else 0
    places = Counter(order.ties[order.start : order.start + length])
    members = {tie: [row for row, its in zip(order.rows, order.ties, strict=True) if its == tie] for tie in places}
    if prod(perm(len(members[tie]), count) for tie, count in places.items()) > ARRANGEMENTS:
        return iter(())
    chosen = product(*(list(permutations(members[tie], count)) for tie, count in places.items()))
    return (tuple(chain.from_iterable(groups)) for groups in chosen)


def _pays(scene: Scene, ways: Sequence[Way], cause: str) -> Proof | None:
    for way in ways:
        if scene.hits(scene.gold(way).table):
            return Proof(cause, f"the gold: {way.name}")
    return None


_AGENT: Sequence[Rule] = (by_state, by_refusal, by_unsorted, by_plan, by_dialect, by_ties)
_GOLD: Sequence[Rule] = (by_failing_gold, by_gold_unsorted, by_formula, by_share, by_gold_plan, by_gold_ties)
