"""The families of composed tasks."""

from __future__ import annotations

from intercode.generate.composed.bash import Bash
from intercode.generate.composed.python import Python
from intercode.generate.composed.sql import Sql
from intercode.generate.draws import Draw
from intercode.generate.families import Family, Parameters, Question
from intercode.generate.ground import Inputs


def _inputs(draw: Draw, question: Question, parameters: Parameters) -> Inputs:
    """Return the inputs that a task was composed with; they do not grow."""
    return Inputs(tuple(parameters["inputs"]), lambda *arguments: False)


FAMILIES = (
    Family(
        "bash-composed",
        "bash",
        "several steps, each known from the last one's result: files, tables, git, archives",
        compose=lambda trial: Bash(trial()),
        tasks_per_place=1,
    ),
    Family(
        "sql-composed",
        "sql",
        "several steps, each known from the last one's result: filter, join, group, rank",
        compose=lambda trial: Sql(),
        tasks_per_place=1,
    ),
    Family(
        "python-composed",
        "python",
        "several steps, each known from the last one's result: filter, convert, group",
        inputs=_inputs,
        compose=lambda trial: Python(),
        tasks_per_place=1,
    ),
)
