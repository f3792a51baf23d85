"""When an episode is scored. A protocol is a value with a name.

submit    `submit` scores the state and ends the episode; other actions earn 0
paper     every step is scored, reward 1 ends the episode, and the best score counts
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from intercode.errors import UsageError


@dataclass(frozen=True, slots=True)
class Protocol:
    """A protocol, with the reward and the session that it implies.

    Args:
        scores_steps: every step carries the score of the state, and success ends the episode;
            otherwise a submission does, and only that.
        as_v1: observations are worded, and Python is scored, as in InterCode v1.
    """

    name: str
    reward: str = "exact"
    session: Literal["persistent", "stateless"] = "persistent"
    scores_steps: bool = False
    as_v1: bool = False


SUBMIT = Protocol("submit")
PAPER = Protocol("paper", reward="paper", session="stateless", scores_steps=True, as_v1=True)
"""InterCode v1's: every action runs in a new shell and is scored."""
PROTOCOLS: Mapping[str, Protocol] = {protocol.name: protocol for protocol in (SUBMIT, PAPER)}


def find_protocol(name: str) -> Protocol:
    """Return the protocol of this name. Raises `UsageError` if there is none."""
    if name not in PROTOCOLS:
        raise UsageError(f"protocol {name!r}: it is {' or '.join(map(repr, PROTOCOLS))}")
    return PROTOCOLS[name]
