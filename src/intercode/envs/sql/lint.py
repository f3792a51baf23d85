"""Lint rules for SQL tasks: values, superlatives, aggregates and order that a query and its gold should share."""

from __future__ import annotations

import re
from collections.abc import Iterator

from intercode.envs.lint import Cue, disagrees, named, numbers, quoted, unheeded
from intercode.envs.sql.text import ordering, parse_statement
from intercode.types import Task, TaskIssue

_CUES = (
    Cue(r"\b(average|mean)\b(?! that| by)", r"\bavg|average|mean\b|/", "no average"),
    Cue(
        r"\b(distinct|unique|(the|all|many|any) different)\b(?! from)",
        r"\bdistinct\b|\bgroup\s+by\b|\bunion\b|\bintersect\b|\bexcept\b|!=|<>|not in",
        "no DISTINCT",
    ),
    Cue(r"\b(descending|decreasing)\b", r"\bdesc\b", "no DESC"),
    Cue(r"\balphabetical(ly)?\b|\b(ascending|increasing) order\b|\b(sorted|ordered) by\b", r"\border\s+by\b", "no ORDER BY"),
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
    (r"\b(latest|most recent)\b", r"min\s*\(\s*[\w.]*(year|date)\b|order\s+by\s+[\w.]*(year|date\w*)\s*(asc\b|limit|$)"),
    (r"\b(?<!not )in ascending\b", r"\bdesc\s*(limit \d+)?\s*;?\s*$"),
)
_HINT = re.compile(r"\((?:use|in) (?:the )?table [^)]*\)", re.IGNORECASE)
"""A hint of the data set about where to look; its words are no values of the gold."""
_CONSTANT = re.compile(r"\s*select\b(?!.*\bfrom\b)", re.IGNORECASE | re.DOTALL)
_LIMIT = re.compile(r"\blimit\b", re.IGNORECASE)


def lint(task: Task) -> Iterator[TaskIssue]:
    """Yield where query and gold disagree. A value that the task's field `evidence` explains may be written differently."""
    query = _HINT.sub(" ", task.query)
    gold, explained = task.gold, f"{task.gold} {task.extra.get('evidence') or ''}"
    yield from unheeded(_CUES, query, gold)
    span = re.search(r"\b(oldest|latest|youngest) to\b|\bfrom the\b", query, re.IGNORECASE)
    for wanted, opposite in () if span else _OPPOSITES:
        word, taken = re.search(wanted, query, re.IGNORECASE), re.search(opposite, gold, re.IGNORECASE)
        if word and taken:
            yield disagrees(f"query says {word[0]!r}, the gold takes the opposite ({taken[0]})")
    # A number may be counted, or stand in a column of that name.
    found = re.search(r"\bhow many (?:\w+ )??(\w{3})\w*\b", query, re.IGNORECASE)
    counted = r"\bcount\b|\bsum\b|\bavg\b|max|min|num|total|amount|quantity|capacity|size|iif|case"
    if found and not re.search(rf"{counted}|select.*{found[1]}.* from", gold, re.IGNORECASE):
        yield disagrees(f"query says {found[0]!r}, but the gold has no count")
    values = re.sub(r"[%_\s]", "", explained).lower()
    for value in quoted(query):
        if re.sub(r"[%_\s.,!?]+$|[%_\s]", "", value).lower() not in values:
            yield disagrees(f"query quotes {value!r}, which the gold does not have")
    for number in numbers(query):
        if number > 1 and not named(number, explained) and not (number > 99 and f"{number:g}" in values):
            yield disagrees(f"query names the number {number:g}, which the gold does not have")
    if parse_statement(gold, "mysql") is None and parse_statement(gold, "sqlite") is None:
        yield TaskIssue("gold is no SQL that can be read")
    elif _CONSTANT.match(gold):
        yield TaskIssue("the gold takes nothing from any table: it is a constant", "by_luck")
    elif _LIMIT.search(gold) and (order := ordering(gold, "mysql")).limited and not order.ordered:
        yield TaskIssue("LIMIT without ORDER BY takes any rows", "unstable")
