"""Replies of a model, as the parser gets them: at most one action, soon, and words around it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fuzzing import Attempt, Target
from hypothesis import strategies as st
from shapes import DATA, records

from intercode.agents.code import split_reply
from intercode.envs import language_of

pytestmark = pytest.mark.slow

_SECONDS = 2.0
"""For a reply of some ten thousand characters, on a machine that others use as well."""
_LANGUAGES = ("bash", "sql", "python", "ctf", "perl")
_MARKS = (
    "``` ~~~ ```bash ```sql ` ```` <bash> </bash> <code> <tool_call> </tool_call> <think> </think> "
    "<|end|> </s> Action: execute[ ] [ submit submit[ submit: Observation: Thought: { } $ >>> ... "
    "mysql> > # * _ 1. ; | -l ls SELECT"
)
_GAPS = (
    "\n",
    "\n\n",
    " ",
    "\t",
    "\r\n",
    "    ",
    "Action Input:",
    "I think. ",
    "\ud800",
    "\0",
    "é",
    "\u200b",
    "\ufeff",
)
_CALLS = records(
    "id",
    name=st.sampled_from(["execute", "submit"]),
    arguments=records("code", "answer"),
    action=DATA,
).map(json.dumps)
_MARK = st.sampled_from([*_MARKS.split(" "), *_GAPS])
_PIECES = st.one_of(_MARK, _MARK, _MARK, st.text(max_size=8), _CALLS)
_REPLIES = st.tuples(
    st.lists(_PIECES, max_size=30).map("".join), st.sampled_from([1, 1, 1, 500, 3000])
).map(lambda parts: (parts[0] * parts[1])[:30_000])


@contextmanager
def _parser() -> Iterator[Attempt]:
    def attempt(given: tuple[str, str]) -> None:
        began = time.perf_counter()
        action, words = split_reply(given[0], language_of({"env": given[1]}))
        assert time.perf_counter() - began < _SECONDS
        assert isinstance(words, str)
        assert action is None or isinstance(action, str)

    yield attempt


TARGETS = [
    Target(
        "the parser of replies",
        st.tuples(_REPLIES, st.sampled_from(_LANGUAGES)),
        _parser,
        quick=200,
    )
]
