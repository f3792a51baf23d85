"""The families of composed tasks."""

from __future__ import annotations

from collections.abc import Callable

from intercode.generate.composed.bash import Bash
from intercode.generate.composed.python import Python
from intercode.generate.composed.sql import Sql
from intercode.generate.composition import compose
from intercode.generate.draws import Draw
from intercode.generate.families import Family, Parameters, Place, Question, rows_of, text_of
from intercode.generate.ground import Inputs
from intercode.generate.trial import Trial

Composed = tuple[Place, Question] | str


def _bash(draw: Draw, name: str, steps: int, trial: Callable[[], Trial]) -> Composed:
    return compose(draw, name, steps, Bash(trial()))


def _sql(draw: Draw, name: str, steps: int, trial: Callable[[], Trial]) -> Composed:
    return compose(draw, name, steps, Sql())


def _python(draw: Draw, name: str, steps: int, trial: Callable[[], Trial]) -> Composed:
    return compose(draw, name, steps, Python())


def _inputs(draw: Draw, question: Question, parameters: Parameters) -> Inputs:
    """Return the inputs that a task was composed with; they do not grow."""
    return Inputs(tuple(parameters["inputs"]), lambda *arguments: False)


FAMILIES = (
    Family(
        "bash-composed",
        "bash",
        "several steps, each known from the last one's result: files, tables, git, archives",
        compose=_bash,
        tasks_per_place=1,
    ),
    Family(
        "sql-composed",
        "sql",
        "several steps, each known from the last one's result: filter, join, group, rank",
        compose=_sql,
        tasks_per_place=1,
        answer=rows_of,
    ),
    Family(
        "python-composed",
        "python",
        "several steps, each known from the last one's result: filter, convert, group",
        inputs=_inputs,
        compose=_python,
        tasks_per_place=1,
        answer=text_of,
    ),
)
