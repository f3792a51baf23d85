"""The contract of a strategy: a generator that yields questions and actions, and does no I/O.

    strategy ──Launch(command)─► driver  ──► a program in the sandbox, which asks the model itself
             ◄──── Launched ───
    strategy ──Ask(messages)──►  driver  ──► model
             ◄──── Reply ──────
             ──Act(action)────►  driver  ──► environment
             ◄──── Step ───────
             ──Fork()─────────►  driver  ──► a copy of the environment, in the same state
             ◄──── Branch ─────              used by Act(action, env=branch), Fork(branch) and
                                             Close(branch)

The driver (`runner/episode.py`) answers each request, records the turn, and closes the generator
and all copies when the episode ends. A generator that returns is done.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from intercode.types import Ended, Message, Reply, Task, Tool

SUBMIT = "submit"
NO_CODE = "No code was found in the reply."

Branch = int
"""The number of an environment: 0 is the episode's own, the root; others are copies that the driver
made."""
ROOT: Branch = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the model. The answer is a `Reply`.

    `messages` is the whole conversation, since models keep none. The reply may call `tools`. To
    draw several replies to one question, number the draws from 0.
    """

    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    draw: int = 0


@dataclass(frozen=True, slots=True)
class Fork:
    """Copy an environment in its current state. The answer is the `Branch` of the copy.

    `ForkError` is raised at the yield if no copy can be made, for example while a job of the agent
    is running.
    """

    env: Branch = ROOT


@dataclass(frozen=True, slots=True)
class Close:
    """Close a copy that is no longer needed. The answer is None."""

    branch: Branch


@dataclass(frozen=True, slots=True)
class Act:
    """Execute code in an environment. The answer is a `Step`.

    An action of None stands for a reply without code: nothing is executed, the turn earns 0, and
    `note` (by default `NO_CODE`) is the observation. `thought` is what the model wrote around its
    code; it is only recorded.

    `env` is the environment to act on. If it ends, the episode ends. The first submission closes
    all other environments, so that no search sees a score. `own_turn` records the action as a
    separate turn, not as the answer to the last question. `forced` marks a submission that the
    model did not choose, and says why the episode ends: by "turns" if they are used up (True means
    that too), "limit", or "stopped" after a program that ended by itself.
    """

    action: str | None
    thought: str | None = None
    note: str | None = None
    env: Branch = ROOT
    own_turn: bool = False
    forced: bool | Ended = False

    def __post_init__(self) -> None:
        if self.action is None and not self.note:
            object.__setattr__(self, "note", NO_CODE)


@dataclass(frozen=True, slots=True)
class Launch:
    """Run a command-line agent in the episode's sandbox, to its end. The answer is a `Launched`.

    In the command and in the values of `env`, {query}, {base_url}, {key} and {model} stand for the
    query and the model's address, key and name, quoted in the command. Without {query} there, the
    query is on stdin. `turns` limits the model's replies. `ending` is the command with which the
    program shall submit. If that has an answer, the first `submit` without one is refused.
    """

    command: str
    query: str
    turns: int
    env: Mapping[str, str] = field(default_factory=dict)
    ending: str = SUBMIT


@dataclass(frozen=True, slots=True)
class Launched:
    """The end of a program. `submission` is the answer that it submitted, "" for none; None: it did
    not submit. `ended` is the reason then: "turns", "limit", or "stopped" if it ended by itself.
    `facts` are its `status` (None: it was ended), the last of its `stdout` and `stderr`, and its
    `seconds` and `cpu_seconds`."""

    submission: str | None
    ended: Ended
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """The environment's answer to an action, in Gymnasium's words."""

    observation: str
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] | None = None


Request = Ask | Act | Fork | Close | Launch
StrategySteps = Generator[Request, Any, None]
"""The generator of a strategy: it yields a `Request` and is sent the answer, a `Reply` to an `Ask`,
a `Step` to an `Act`, a
`Launched` to a `Launch`.

The type of the answer depends on the request, which Python's types cannot express: hence `Any`.
"""

Strategy = Callable[[Task, str], StrategySteps]
"""A function of the task and the protocol (``"submit"`` or ``"paper"``), called once for each
episode."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A strategy with its name, and what a run records about it."""

    name: str
    strategy: Strategy
    needs_model: bool = False
    prompt_digest: str | None = None
    samples: bool = False
    """True if it draws several replies to one question, which would be equal at temperature 0."""


__all__ = [
    "ROOT", "SUBMIT", "Act", "Agent", "Ask", "Branch", "Close", "Fork", "Launch", "Launched",
    "Reply", "Request", "Step", "Strategy", "StrategySteps",
]  # fmt: skip
