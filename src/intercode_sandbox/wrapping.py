"""Tells from an action's text whether bash must evaluate it in a special way. The host does this,
since `re` would take half a MiB in each sandbox."""

from __future__ import annotations

import re

_TRACES = re.compile(
    rb"\btrap\b.*\b(?:DEBUG|ERR|RETURN)\b|\bset\s+[-+]\w*[xv]|[-+]\w*o\s+(?:xtrace|verbose)\b"
)
"""Pattern of actions that turn on a trace or a trap, which would show or run the loop too. Later
actions run as `_TRACED` (`guest/shell.py`)."""
_BREAKS = re.compile(
    rb"""
      (?: break | continue | eval | source )\b             # x=1; break 2
    | (?: [\n;&|({] | then | do | else ) [ \t]* \. \s      # cd /srv && . ./run.sh
    """,  # not: find . -name a
    re.VERBOSE,
)
"""Pattern of actions that may contain or read a `break`. They run as `_BREAKING`."""
_WAS_TRACED = re.compile(rb"^declare -a __intercode=.*\[6\]=", re.MULTILINE)


def wrapping(action: bytes) -> dict[str, bool]:
    """Return what the request `exec` says about an action."""
    return {
        "traces": _TRACES.search(action) is not None,
        "breaks": _BREAKS.search(b"\n" + action) is not None,
    }


def was_traced(state: bytes) -> bool:
    """Return whether the session with this captured state runs its actions as `_TRACED`."""
    return _WAS_TRACED.search(state) is not None
