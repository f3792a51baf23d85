"""How an agent thinks, apart from everything that runs: a generator of questions and actions.

    strategy ──Ask(messages)──►  driver  ──► model
             ◄──── Reply ──────
             ──Act(action)────►  driver  ──► environment
             ◄──── Step ───────
             ──Fork()─────────►  driver  ──► a copy of the environment, in the same state
             ◄──── Branch ─────                  for Act(action, on=branch), Fork(branch) and Drop(branch)

A strategy does no I/O. The driver (`runner/episode.py`) answers whatever it yields, records the turn, and closes the
generator and all copies when the episode is over; a generator that returns has nothing more to do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from intercode.types import Message, Reply, Task, Tool

NO_CODE = "No code was found in the reply."


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to the model: the whole conversation, since models keep none. Answered with a `Reply`.

    `tools` may be called in the reply. Where several replies to one question are wanted, `draw` numbers them from 0.
    """

    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    draw: int = 0


Branch = int
"""A copy of the environment that the driver holds; 0 is the environment itself, the trunk."""
TRUNK: Branch = 0


@dataclass(frozen=True, slots=True)
class Fork:
    """A copy of the environment as `of` is now. Answered with its `Branch`, or `ForkError` is raised at the yield where
    no copy can be had: the agent has left a job running, say."""

    of: Branch = TRUNK


@dataclass(frozen=True, slots=True)
class Close:
    """Closes a branch that is not needed any more. Answered with None."""

    branch: Branch


@dataclass(frozen=True, slots=True)
class Act:
    """Code for the environment. Answered with a `Step`.

    An action of None means that the reply held no code: nothing is executed, the turn earns 0, and `note`, which is
    never empty then, is the observation. `thought` is what the model said around its code; it is recorded only.

    `on` is the branch to act on. What ends an episode ends it on any branch, and the first submission chooses one: all
    others are closed, so that no search can see a score. `apart`: this does not answer the last question, and is a
    turn of its own in the record.
    """

    action: str | None
    thought: str | None = None
    note: str | None = None
    on: Branch = TRUNK
    apart: bool = False

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


Move = Ask | Act | Fork | Close
StrategySteps = Generator[Move, Any, None]
"""What a strategy makes: it yields a `Move` and is sent the answer, such as a `Reply` to an `Ask` or a `Step` to an `Act`.

The type of what is sent depends on what was yielded, which Python's types cannot say: hence `Any`.
"""

Strategy = Callable[[Task, str], StrategySteps]
"""Called once per episode with the task and the protocol, ``"submit"`` or ``"paper"``."""

SUBMIT = "submit"


@dataclass(frozen=True, slots=True)
class Agent:
    """A strategy under the name it was asked for, with what a run records about it."""

    name: str
    strategy: Strategy
    needs_model: bool = False
    prompt_digest: str | None = None
    samples: bool = False
    """Whether it draws several replies to one question, which are all alike at temperature 0."""


__all__ = [
    "SUBMIT",
    "TRUNK",
    "Act",
    "Agent",
    "Ask",
    "Branch",
    "Close",
    "Fork",
    "Move",
    "Reply",
    "Step",
    "Strategy",
    "StrategySteps",
]
