"""The families of composed tasks."""

from __future__ import annotations

from intercode.generate.composed.python import Python
from intercode.generate.draws import Draw
from intercode.generate.families import Family, Parameters, Question
from intercode.generate.ground import Inputs


def _inputs(draw: Draw, question: Question, parameters: Parameters) -> Inputs:
    """Return the inputs that a task was composed with; they do not grow."""
    return Inputs(tuple(parameters["inputs"]), lambda *arguments: False)


FAMILIES = (
    Family(
        "python-composed",
        "python",
        "several steps, each known from the last one's result: filter, convert, group",
        inputs=_inputs,
        compose=lambda trial: Python(),
        tasks_per_place=1,
    ),
)
