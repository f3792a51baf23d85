"""How an agent thinks, apart from everything that runs: a generator of questions and actions.

    strategy ──Ask(messages)──►  driver  ──► model
             ◄──── Reply ──────
             ──Act(action)────►  driver  ──► environment
             ◄──── Step ───────

A strategy does no I/O. The driver (`runner/episode.py`) answers whatever it yields, records the turn, and closes the
generator when the episode is over; a generator that returns has nothing more to do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from intercode.types import Message, Reply, Task

NO_CODE = "No code was found in the reply."


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to the model: the whole conversation, since models keep none. Answered with a `Reply`."""

    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class Act:
    """Code for the environment. Answered with a `Step`.

    An action of None means that the reply held no code: nothing is executed, the turn earns 0, and `note`, which is
    never empty then, is the observation. `thought` is what the model said around its code; it is recorded only.
    """

    action: str | None
    thought: str | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        if self.action is None and not self.note:
            object.__setattr__(self, "note", NO_CODE)


@dataclass(frozen=True, slots=True)
class Step:
    """What the environment answered, in the words of Gymnasium."""

    observation: str
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] | None = None


Moves = Generator[Ask | Act, Any, None]
"""What a strategy makes: it yields `Ask` and is sent a `Reply`, or yields `Act` and is sent a `Step`.

The type of what is sent depends on what was yielded, which Python's types cannot say: hence `Any` (`Reply | Step`).
"""

Strategy = Callable[[Task, str], Moves]
"""Called once per episode with the task and the protocol, ``"submit"`` or ``"paper"``."""

SUBMIT = "submit"


@dataclass(frozen=True, slots=True)
class Agent:
    """A strategy under the name it was asked for, with what a run records about it."""

    name: str
    strategy: Strategy
    needs_model: bool = False
    prompt_digest: str | None = None


__all__ = ["SUBMIT", "Act", "Agent", "Ask", "Moves", "Reply", "Step", "Strategy"]
