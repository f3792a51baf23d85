"""Inputs that several targets share: plain data of any shape, and broken bytes."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

SCALARS = st.one_of(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-2, 3)
    | st.floats()
    | st.text(st.characters(), max_size=12),
    st.sampled_from(["", " ", "\0", "\ud800", "é", "0", "NaN", "true", "submit"]),
)
DATA = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=8,
)


def records(
    *names: str, rest: st.SearchStrategy[Any] = DATA, **fields: st.SearchStrategy[Any]
) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with these fields: mostly as they should be (`fields`), at times something else, or
    missing."""
    often = {name: st.one_of(kind, kind, kind, rest) for name, kind in fields.items()}
    return st.fixed_dictionaries({}, optional={**often, **dict.fromkeys(names, rest)})


@st.composite
def spoilt(draw: st.DrawFn, whole: st.SearchStrategy[Any]) -> Any:
    """Sound data with up to two parts of it left out, or something else in their place."""
    top = [copy.deepcopy(draw(whole))]
    for _ in range(draw(st.integers(0, 2))):
        _spoil(draw, top)
    return top[0] if top else None


def _spoil(draw: st.DrawFn, part: Any) -> None:
    """One part of a list or an object, or something within it."""
    keys = sorted(part, key=str) if isinstance(part, dict) else range(len(part))
    if not keys:
        return
    key = draw(st.sampled_from(keys))
    if isinstance(part[key], dict | list) and draw(st.integers(0, 3)):
        _spoil(draw, part[key])
    elif draw(st.booleans()):
        part[key] = draw(DATA)
    else:
        del part[key]


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Some bytes of it changed, doubled, cut out or put in; at times none."""
    data = draw(whole)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 8)))
        data = data[:start] + draw(st.binary(max_size=8)) + data[end:]
    return data
