"""The nouns as plain data: frozen dataclasses that every room may import and that import nothing.

    Task ──► Episode = Turn, Turn, … + Score        (what was asked, what happened, what it was worth)
    Sandbox ──► ExecResult, Change ──► Outcome      (what one side did: its answer and its effect on the files)
    Database ──► Table                              (what a statement returned)
    Model ◄── Message, ──► Reply (text, ToolCall, Usage)

Nothing here runs anything; JSON forms of `Episode` live in `store.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, TypeGuard

Ended = Literal["submit", "solved", "turns", "limit", "agent_fault"]
"""Why an episode ended: the agent submitted, reached reward 1, ran out of turns, used up a limit (unscored if it was the
run's, scored if it was its own), broke its sandbox."""

Message = dict[str, Any]
"""One chat message as the OpenAI protocol has it: ``{"role": "system"|"user"|"assistant", "content": text}``.

Where tools are used an assistant's has ``tool_calls`` as well, and ``{"role": "tool", "tool_call_id": …}`` answers one.
"""

Tool = Mapping[str, Any]
"""What a model may call, as the OpenAI protocol has it: ``{"type": "function", "function": {…}}``."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a record can hold it as a number: finite, and of 64 bits if it is whole."""
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and -(2**63) <= value < 2**63


@dataclass(frozen=True, slots=True)
class Task:
    """One instruction with its gold answer. `extra` holds every other field of the record, untouched.

    `golds` has all answers any of which may match, without duplicates: `gold`, then the alternatives that were given.
    """

    id: str
    query: str
    gold: str
    extra: Mapping[str, Any] = field(default_factory=dict)
    golds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "golds", tuple(dict.fromkeys((self.gold, *self.golds))))

    @property
    def general(self) -> bool:
        """Whether the answer must also hold on the second contents."""
        return bool(self.extra.get("general", False))


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What one action printed and how it ended.

    `output` is stdout and stderr as they came, decoded as UTF-8 (bytes that are not become ``\\xNN``), whole up to the
    sandbox's output limit; beyond it `overflow` is the hex digest of everything that was printed.
    `exit_code` is None when the shell did not live to tell. `session_lost` means that the shell died and a new one
    took its place. `cwd` is where the next action starts; empty where there are no folders.
    """

    output: str
    exit_code: int | None
    timed_out: bool = False
    session_lost: bool = False
    overflow: str | None = None
    cwd: str = "/"


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs from the template.

    `mode` holds the permission bits (``0o7777`` mask); `digest` is the hex digest of a regular file's content,
    `target` where a symbolic link points; all are None or 0 for a removed path. `held` is a digest of what an archive
    holds, however it is packed, and `attributes` are digests of its members' owners, modes and times; an environment that
    compares archives asks for them. `type` is "other" with mode 0 for what cannot be read, or changes while it is compared.
    """

    kind: Literal["added", "changed", "removed"]
    type: Literal["file", "dir", "link", "other"]
    mode: int = 0
    digest: str | None = None
    target: str | None = None
    held: str | None = None
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one side did: the answer it gave, and every path it changed (absolute path → change).

    `overflow` is the digest of the answer where it was longer than the sandbox keeps. `probe` is what an environment's own
    probe showed afterwards: what no file tells, such as the content of a service. `failed`: the last action ended with a
    non-zero status; a gold fails only if it printed nothing but errors (a `grep` that finds nothing has not failed).
    """

    output: str
    changes: Mapping[str, Change] = field(default_factory=dict)
    overflow: str | None = None
    probe: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """What a statement returned: the columns' names and the rows, with the values as the driver gives them (None, int,
    float, Decimal, str, bytes, dates). `cut`: there were more rows or bytes than are kept.

    An answer is `Table | None`; None where the statement failed or has no result set (an empty one is a `Table`).
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """`reward`, whether that counts as solved, and the named numbers that it was made of.

    `reward` is in [0, 1]; only the paper's SQL reward goes down to −1, where rows come in reversed order.
    `unsure`: not solved, and only because the answer reads otherwise; most of what the gold says is in it.
    """

    reward: float
    success: bool
    parts: Mapping[str, float] = field(default_factory=dict)
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens in and out, and the price in US dollars where it is known."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost,
        )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool. `arguments` should be a JSON object, and is kept as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered. `left_out` counts the messages that it was not shown, since there was no room for them.

    `counted`: it was had, and its usage counted, before the run was interrupted.
    """

    text: str
    usage: Usage = Usage()
    calls: tuple[ToolCall, ...] = ()
    left_out: int = 0
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """One question to the model and one action in the environment; either may be missing (None).

    Of several actions from one reply the first one's turn has the question, the reply with its `calls`, and the usage.
    `after` tells where a forked episode parts: the position, in the episode, of the turn in whose state this one acted,
    −1 for the beginning. None: the last turn that acted before this one. `left_out` of the messages in `ask`, the oldest
    observations first, were not shown to the model (None: all were).
    """

    ask: Sequence[Message] | None = None
    reply: str | None = None
    thought: str | None = None
    action: str | None = None
    observation: str = ""
    exit_code: int | None = None
    timed_out: bool = False
    truncated_output: bool = False
    score: float | None = None
    usage: Usage = Usage()
    seconds: float = 0.0
    calls: tuple[ToolCall, ...] | None = None
    after: int | None = None
    left_out: int | None = None

    @property
    def acted(self) -> bool:
        """Whether it was a move in the environment, be it one without code; else it was a question only."""
        return self.action is not None or bool(self.observation)


@dataclass(frozen=True, slots=True)
class Episode:
    """What happened on one task. `error` names an infrastructure fault; such an episode has no reward.

    `unsure` is that of its score. `lost` was used by an earlier attempt, which a fault or a kill ended, for replies to
    questions that this one did not ask.
    """

    task: str
    query: str
    turns: Sequence[Turn]
    reward: float | None
    success: bool
    ended: Ended | None
    parts: Mapping[str, float] = field(default_factory=dict)
    epoch: int = 0
    seed: int = 0
    error: str | None = None
    unsure: bool = False
    lost: Usage = Usage()

    @property
    def usage(self) -> Usage:
        return sum((turn.usage for turn in self.turns), self.lost)

    @property
    def line(self) -> list[Turn]:
        """The turns that acted and led to the last one, in order: what a forked episode gave up is left out."""
        return [self.turns[place] for place in line_of(self.turns)]


def line_of(turns: Sequence[Turn]) -> list[int]:
    """The positions of the turns that `Episode.line` has."""
    before, last = dict[int, int](), -1
    for place, turn in enumerate(turns):
        if turn.acted:
            before[place] = last if turn.after is None else turn.after
            last = place
    line: list[int] = []
    while last >= 0:
        line.append(last)
        last = before[last]
    return line[::-1]
