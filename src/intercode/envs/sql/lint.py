"""Lint rules for SQL tasks: values, superlatives, aggregates and ordering on which a query and its
gold should agree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from intercode.envs.lint import Cue, disagrees, named, numbers, quoted, unheeded
from intercode.envs.sql.dialect import Dialect
from intercode.envs.sql.engines import dialects
from intercode.envs.sql.text import ordering, parse_statement, split_statements
from intercode.types import Task, TaskIssue

_CUES = (
    Cue(r"\b(average|mean)\b(?! that| by)", r"\bavg|average|mean\b|/", "no average"),
    Cue(
        r"\b(distinct|unique|(the|all|many|any) different)\b(?! from)",
        r"\bdistinct\b|\bgroup\s+by\b|\bunion\b|\bintersect\b|\bexcept\b|!=|<>|not in",
        "no DISTINCT",
    ),
    Cue(r"\b(descending|decreasing)\b", r"\bdesc\b", "no DESC"),
    Cue(
        r"\balphabetical(ly)?\b|\b(ascending|increasing) order\b|\b(sorted|ordered) by\b",
        r"\border\s+by\b",
        "no ORDER BY",
    ),
    Cue(
        r"\b(maximum|highest|largest|biggest|oldest|latest|most recent|longest|heaviest|tallest|"
        r"minimum|lowest|smallest|youngest|earliest|shortest|lightest)\b",
        r"\bmax|\bmin|order\s+by|highest|largest|lowest|smallest|[<>]=? *all|rank",
        "neither MAX, MIN nor ORDER BY",
    ),
)
_OPPOSITES = (
    (r"\byoungest\b", r"max\s*\(\s*[\w.]*\bage\b|order\s+by\s+[\w.]*\bage\s+desc"),
    (r"\boldest\b", r"min\s*\(\s*[\w.]*\bage\b|order\s+by\s+[\w.]*\bage\s*(asc\b|limit|$)"),
    (r"\bearliest\b", r"max\s*\(\s*[\w.]*(year|date)\b|order\s+by\s+[\w.]*(year|date\w*)\s+desc"),
    (
        r"\b(latest|most recent)\b",
        r"min\s*\(\s*[\w.]*(year|date)\b|order\s+by\s+[\w.]*(year|date\w*)\s*(asc\b|limit|$)",
    ),
    (r"\b(?<!not )in ascending\b", r"\bdesc\s*(limit \d+)?\s*;?\s*$"),
)
_HINT = re.compile(r"\((?:use|in) (?:the )?table [^)]*\)", re.IGNORECASE)
"""A hint in the query about where to look; its words are not values in the gold."""
_CONSTANT = re.compile(r"\s*select\b(?!.*\bfrom\b)", re.IGNORECASE | re.DOTALL)
_LIMIT = re.compile(r"\blimit\b", re.IGNORECASE)
_CHANGING = """
NOW SYSDATE CURDATE CURTIME CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP LOCALTIME LOCALTIMESTAMP
UTC_DATE UTC_TIME UTC_TIMESTAMP RANDOM RANDOMBLOB RANDOM_BYTES UUID UUID_SHORT SYS_GUID
CONNECTION_ID
"""
"""Functions that depend on the time or are random in some engine."""
_CHANGING_ALONE = "RAND UNIX_TIMESTAMP DATE TIME DATETIME JULIANDAY UNIXEPOCH"
"""Functions that do so only without arguments."""
_OF_MOMENTS = (
    "DATE TIME DATETIME JULIANDAY UNIXEPOCH STRFTIME TIMEDIFF TS_OR_DS_TO_DATE TIME_TO_STR"
)
"""Functions that accept the text 'now' for the current time, by their names in sqlglot."""


def lint(task: Task) -> Iterator[TaskIssue]:
    """Yield the points on which query and gold disagree. A value that the task's field `evidence`
    explains may be written differently, and golds that are forms of an answer contain no query."""
    if "golds_are" in task.extra:
        return
    query = _HINT.sub(" ", task.query)
    gold = task.gold
    explained = f"{gold} {task.extra.get('evidence') or ''}"
    yield from unheeded(_CUES, query, gold)
    span = re.search(r"\b(oldest|latest|youngest) to\b|\bfrom the\b", query, re.IGNORECASE)
    for cue, opposite in () if span else _OPPOSITES:
        word = re.search(cue, query, re.IGNORECASE)
        taken = re.search(opposite, gold, re.IGNORECASE)
        if word and taken:
            yield disagrees(f"query says {word[0]!r}, but the gold takes the opposite ({taken[0]})")
    # A number may be counted, or read from a column of that name.
    match = re.search(r"\bhow many (?:\w+ )??(\w{3})\w*\b", query, re.IGNORECASE)
    if match and not re.search(
        r"\bcount\b|\bsum\b|\bavg\b|max|min|num|total|amount|quantity|capacity|size|iif|case"
        rf"|select.*{match[1]}.* from",
        gold,
        re.IGNORECASE,
    ):
        yield disagrees(f"query says {match[0]!r}, but the gold has no count")
    values = re.sub(r"[%_\s]", "", explained).lower()
    for value in quoted(query):
        if re.sub(r"[%_\s.,!?]+$|[%_\s]", "", value).lower() not in values:
            yield disagrees(f"query quotes {value!r}, which the gold does not contain")
    for number in numbers(query):
        is_part = number > 99 and f"{number:g}" in values
        if number > 1 and not is_part and not named(number, explained):
            yield disagrees(f"query names the number {number:g}, which the gold does not contain")
    statements = [*split_statements(gold)] or [gold]
    readable = []
    for dialect in dialects():
        if all(parse_statement(statement, dialect) is not None for statement in statements):
            readable.append(dialect)
    if not readable:
        yield TaskIssue("gold is not SQL that can be parsed")
    elif changing := _changing(gold, readable):
        yield TaskIssue(f"the answer depends on the moment or on chance ({changing})", "unstable")
    elif _CONSTANT.match(gold):
        yield TaskIssue("the gold takes nothing from any table: it is a constant", "by_luck")
    elif _LIMIT.search(gold):
        order = ordering(gold, readable[0])
        if order.limited and not order.ordered:
            yield TaskIssue("LIMIT without ORDER BY returns arbitrary rows", "unstable")


def _changing(gold: str, readable: Sequence[Dialect]) -> str | None:
    """Return the first function call in a gold that depends on the time or is random, as parsed in
    one of the dialects."""
    from sqlglot import exp

    for dialect in readable:
        query = parse_statement(gold, dialect)
        for call in query.find_all(exp.Func) if query is not None else ():
            if isinstance(call, exp.Anonymous):
                name = call.name.upper()
                arguments = call.expressions
            else:
                name = call.sql_name().upper()
                arguments = [*filter(None, call.args.values())]
            now = name in _OF_MOMENTS.split() and any(
                text.name.lower() == "now" and text.args.get("quoted", True)
                for text in call.find_all(exp.Literal, exp.Identifier)
            )
            alone = name in _CHANGING_ALONE.split() and not arguments
            if now or alone or name in _CHANGING.split():
                return call.sql(dialect.name)
    return None
