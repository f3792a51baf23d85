"""The vocabulary as plain data: frozen dataclasses that every package may import and that import
nothing.

    Task ──► Episode = Turn, Turn, … + Score        (the instruction, what happened, the reward)
      └────► TaskIssue                              (a defect of the task)
    Sandbox ──► ExecResult, Change ──► Outcome      (the answer of the agent or the gold, and the
                                                     files that it changed)
    Database ──► Table                              (the rows that a statement returned)
    Model ◄── Message, ──► Reply (text, ToolCall, Usage, Sample)

Nothing here runs anything. `runs/store.py` converts an `Episode` to JSON and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from intercode_sandbox.results import Change as Change
from intercode_sandbox.results import Completed as Completed
from intercode_sandbox.results import ExecResult as ExecResult
from intercode_sandbox.results import is_number as is_number

Ended = Literal["submit", "solved", "turns", "stopped", "limit", "agent_fault"]
"""Why an episode ended: the agent submitted, reached reward 1 (paper's protocol), ran out of turns
(under `submit` its work was submitted for it), returned before that ("stopped"), or broke its
sandbox; or a limit was reached ("limit": without a reward if it was a limit of the run, with one if
it was a limit of the episode)."""

Message = dict[str, Any]
"""A chat message in OpenAI's protocol: ``{"role": "system"|"user"|"assistant", "content":
text}``.

With tools, a message of the assistant may have ``tool_calls``, and ``{"role": "tool",
"tool_call_id": …}`` answers a call.
"""

Tool = Mapping[str, Any]
"""A tool that a model may call, in OpenAI's protocol: ``{"type": "function", "function": {…}}``."""


@dataclass(frozen=True, slots=True)
class Task:
    """An instruction with its gold answer. `extra` contains all other fields of the task's record,
    unchanged.

    `golds` contains all accepted answers without duplicates: `gold` first, then its alternatives. A
    task that is scored by tests may have no gold; `gold` is then "". `rounds` are the tasks of the
    rounds that follow in the same world, and `earlier` those of the rounds before.
    """

    id: str
    query: str
    gold: str
    extra: Mapping[str, Any] = field(default_factory=dict)
    golds: tuple[str, ...] = ()
    rounds: tuple[Task, ...] = ()
    earlier: tuple[Task, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "golds", tuple(dict.fromkeys(gold for gold in (self.gold, *self.golds) if gold))
        )

    @property
    def general(self) -> bool:
        """Return whether the answer must also hold on variant data; never that of a later round."""
        return bool(self.extra.get("general", False)) and not self.earlier

    @property
    def split(self) -> str | None:
        """Return the part of the data set that the task belongs to, such as "train"; None if the
        record has no `split`."""
        split = self.extra.get("split")
        return split if isinstance(split, str) else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of the agent or of the gold: the answer, and every changed path (absolute path →
    change).

    `overflow` is the digest of an answer that is longer than the sandbox keeps. `probe` is the
    output of the environment's own probe, for state that is in no file, such as the content of a
    service. `failed`: the last action ended with a non-zero status.
    """

    output: str
    changes: Mapping[str, Change] = field(default_factory=dict)
    overflow: str | None = None
    probe: str = ""
    failed: bool = False


class Digits(NamedTuple):
    """Digits of a column's floating-point numbers that the server prints; None: all."""

    significant: int | None
    decimals: int | None


@dataclass(frozen=True, slots=True)
class Table:
    """The result set of a statement: names of columns, and rows with the driver's values (None,
    int, float, Decimal, str, bytes, dates). `cut`: there were more rows or bytes than the engine
    keeps. `digits`: by column, those that the server leaves of a number; empty if it shortens none.

    An answer is `Table | None`: None if the statement failed or has no result set. An empty result
    set is a `Table`.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    cut: bool = False
    digits: tuple[Digits | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Score:
    """A reward in [0, 1], whether it counts as solved, and the named numbers that make it up.

    Only the paper's SQL reward goes down to −1, for rows in reversed order. `ambiguous`: not solved
    only because of the answer's wording, and the answer has most of the gold's words. `rule` names
    in plain words what accepted or refused the answer; empty if the reward does not say.
    """

    reward: float
    success: bool
    parts: Mapping[str, float] = field(default_factory=dict)
    ambiguous: bool = False
    rule: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens in and out, and the cost in US dollars (0.0 if the price is unknown).

    `reasoning_tokens` are those of `completion_tokens` that the model spent on reasoning, where the
    server says so. `uncounted` replies came without counts, so their tokens are unknown and not in
    the sums.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    reasoning_tokens: int = 0
    uncounted: int = 0

    @property
    def tokens(self) -> int:
        """The tokens sent and received."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost,
            self.reasoning_tokens + other.reasoning_tokens,
            self.uncounted + other.uncounted,
        )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of a model. `arguments` should be a JSON object; it is the text that the model
    wrote."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Sample:
    """The tokens of a reply, for training: ids, and their log-probabilities under the policy that
    sampled them.

    `prompt_ids` are the tokens of the whole question. Each tuple is empty if the server did not
    return it. `finish_reason` is the server's; `policy_version` names the weights.
    """

    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    finish_reason: str | None = None
    policy_version: str | int | None = None
    prompt_ids: tuple[int, ...] = ()


REASONING = (
    "reasoning_content", "reasoning", "reasoning_text", "thinking", "reasoning_details",
    "thinking_blocks",
)  # fmt: skip
"""The fields of a message in which servers return a model's reasoning."""

INCOMPLETE = {
    "length": "was cut off at its token limit",
    "model_context_window_exceeded": "was cut off because the context was full",
    "content_filter": "was stopped by the server's content filter",
    "refusal": "is a refusal",
    "malformed_call": "is a call that the server could not parse",
}
"""The values of `finish_reason` for a reply that must not be executed, with what happened to it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer. `left_out` counts the messages that were not sent because the context had
    no room for them.

    `counted`: an earlier, interrupted process received the reply and counted its usage. `sample` is
    None unless the model supplies it. `final`: a limit cut the reply off, so the episode ends and
    is scored without it. `reasoning` has the fields `REASONING` of the server's message, as they
    were sent. `finish_reason` is the server's; with one of `INCOMPLETE`, nothing is executed.
    """

    text: str
    usage: Usage = Usage()
    calls: tuple[ToolCall, ...] = ()
    left_out: int = 0
    counted: bool = False
    sample: Sample | None = None
    final: bool = False
    reasoning: Mapping[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None

    @property
    def message(self) -> Message:
        """Return the reply as a message of the conversation."""
        return _reply_message(self.text, self.calls, self.reasoning)


def _reply_message(
    text: str | None, calls: Sequence[ToolCall] | None, reasoning: Mapping[str, Any] | None
) -> Message:
    message: Message = {"role": "assistant", "content": text, **(reasoning or {})}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]
    return message


@dataclass(frozen=True, slots=True)
class Turn:
    """A question to the model and an action in the environment; either may be missing (None).

    If one reply has several actions, only the turn of the first action has the question, the reply,
    its `reasoning`, `calls`, `sample` and usage, its `finish_reason` and `reply_seconds`. `after`
    is set in a forked episode: the position in the episode of the turn whose state this action
    continues, −1 for the initial state. None: the last turn before this one that acted. `left_out`
    of the messages in `ask`, the oldest observations first, were not sent to the model (None: all
    were sent). `limits` names the limits that the action hit: disk, memory, output, processes,
    time. `forced`: the work was submitted for the agent, which had no turns left; that is not one
    of the agent's turns. `session_lost`: the shell or interpreter ended. `value`: the reward that a
    submission right after this turn would have earned, if the run recorded it. `asked` is set if
    the action was a question to the user: the facet of the task that answered, "" for none.
    `tools` are those that the question offered; None: those of the question before, or none.
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
    sample: Sample | None = None
    limits: tuple[str, ...] = ()
    reasoning: Mapping[str, Any] | None = None
    finish_reason: str | None = None
    reply_seconds: float | None = None
    forced: bool = False
    session_lost: bool = False
    value: float | None = None
    asked: str | None = None
    tools: Sequence[Tool] | None = None

    @property
    def message(self) -> Message:
        """Return the reply as a message of the conversation, as `Reply.message` does."""
        return _reply_message(self.reply, self.calls, self.reasoning)

    @property
    def acted(self) -> bool:
        """Return whether the turn acted in the environment, with code or without; False for a
        question alone."""
        return self.action is not None or bool(self.observation)


def reasoning_of(turn: Turn) -> str:
    """Return the reasoning in the server's fields as text; they repeat each other."""
    for value in (turn.reasoning or {}).values():
        parts = value if isinstance(value, list | tuple) else (value,)
        texts = [
            str(part.get("text") or part.get("summary") or "")
            if isinstance(part, Mapping)
            else str(part or "")
            for part in parts
        ]
        if content := "\n".join(filter(None, texts)).strip():
            return content
    return ""


@dataclass(frozen=True, slots=True)
class Episode:
    """The record of one task played once. `error` names an infrastructure fault; such an episode
    has no reward.

    `parts` and `ambiguous` are those of its `Score`. `lost` is the usage of an earlier attempt,
    ended by a fault or a kill, for replies to questions that this attempt did not ask. `outcomes`
    says what the agent and the gold did, as `InterCodeEnv.outcomes` does; its `failed` names the
    parts of the reward that failed. `split` is the task's. `takes_answer`: the environment took
    `submit ANSWER` for this task, and the agent's prompt says so; None: not recorded. `no_value`:
    why no turn has a `value`, in a run that records them. `takes_questions`: it took `ask
    QUESTION`, likewise.
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
    ambiguous: bool = False
    lost: Usage = Usage()
    outcomes: Mapping[str, Any] = field(default_factory=dict)
    split: str | None = None
    takes_answer: bool | None = None
    no_value: str = ""
    takes_questions: bool = False

    @property
    def usage(self) -> Usage:
        return sum((turn.usage for turn in self.turns), self.lost)

    @property
    def line(self) -> list[Turn]:
        """Return the turns that acted and led to the last one, in order, no abandoned branches."""
        return [self.turns[place] for place in line_of(self.turns)]


def line_of(turns: Sequence[Turn]) -> list[int]:
    """Return the positions of the turns in `Episode.line`."""
    before = parents_of(turns)
    last, line = max(before, default=-1), list[int]()
    while last >= 0:
        line.append(last)
        last = before[last]
    return line[::-1]


def parents_of(turns: Sequence[Turn]) -> dict[int, int]:
    """Return for each turn that acted, by position, the turn whose state it continues (−1: the
    initial state), in order."""
    before, last = dict[int, int](), -1
    for place, turn in enumerate(turns):
        if turn.acted:
            before[place] = last if turn.after is None else turn.after
            last = place
    return before


BROKEN = {
    "gold_fails": "the gold does not run, or does not earn the full reward",
    "gold_differs": "two executions of the gold differ",
    "noop_solves": "doing nothing succeeds",
    "duplicate": "asks the same as an earlier task, word for word",
    "missing": "query or gold name something that does not exist: a path, a variable",
    "not_general": "marked general, but a constant answer passes",
    "no_tests": "its tests are missing, or cannot be read",
    "unreadable": "its record is malformed, or one of its files cannot be read",
    "empty_test": "a test that does not use the answer",
    "hack_pays": "a known hack of verifiers makes the tests pass",
    "odd_flag": "a damaged flag, or the only one without braces",
    "needs_network": "cannot be played without a network",
    "needs_files": "mentions files that are not here",
    "needs_machine": "needs more than a sandbox: a GPU, several containers, a different system",
    "no_build": "its Dockerfile, or that of a service, does not build",
}
"""Issues of a broken task, whose score is meaningless: stable words for programs."""

SUSPICIOUS = {
    "no_gold": "no gold shows that the tests can be passed",
    "gold_complains": "the gold prints an error, although it succeeds",
    "retrieval_solves": "the gold of the most similar other task succeeds",
    "golds_disagree": "an alternative gold and the gold do not match each other",
    "alternative_fails": "an alternative gold does not run, so it accepts nothing",
    "near_duplicate": "the same gold as another task, in almost the same words",
    "in_both": "the set that `--against` names has a task with the same query or gold",
    "near_in_both": "that set has almost the same task, in other folders or another database",
    "plain_flag": "the assets contain the flag in plain text",
    "solution": "the assets contain a solution, which the agent does not get",
    "not_given": "its server asks for something that it does not get",
    "disagrees": "query and gold name different things",
    "not_english": "the query is not English, so `exact` compares strictly",
    "weak_tests": "a constant or an argument passes all tests, or a test is repeated",
    "unsafe_test": "a test runs in the answer's process, which may forge the verdict",
    "shadowed": "the preamble defines or imports a name that the answer must define itself",
    "facet_unreached": "no question of a facet's own words gets its reply",
    "facet_tells": "the reply of a facet contains the gold",
    "by_luck": "an empty or constant answer is right",
    "unstable": "the answer depends on the clock, the machine or chance",
}
"""Issues of a task that is worth a person's look."""

KINDS = {**BROKEN, **SUSPICIOUS}


class TaskIssue(str):
    """A sentence about a task; `kind` is one of `KINDS`."""

    __slots__ = ("kind",)
    kind: str

    def __new__(cls, why: str, kind: str = "gold_fails") -> TaskIssue:
        issue = super().__new__(cls, why)
        issue.kind = kind
        return issue


@dataclass(frozen=True, slots=True)
class View:
    """The part of an output that an agent sees: the first and last characters around a marked cut.
    `head=None`: all of it."""

    head: int | None = 6000
    tail: int = 2000

    def shorten(self, text: str) -> tuple[str, bool]:
        """Return the visible text, and whether it was cut."""
        if self.head is None or len(text) <= self.head + self.tail:
            return text, False
        cut = len(text) - self.head - self.tail
        return (
            f"{text[: self.head]}\n[… {cut} characters cut …]\n{text[len(text) - self.tail :]}",
            True,
        )

    def fit(self, text: str) -> str:
        """Return the visible part of a text that may contain names and messages from the agent,
        encodable in UTF-8."""
        return self.shorten(text.encode("utf-8", "backslashreplace").decode())[0]


_OUTCOME_TEXT = View(1400, 500)


def shorten_text(text: str) -> str:
    """Return a text for an outcome: encodable in UTF-8, at most 2,000 characters, any cut
    marked."""
    return _OUTCOME_TEXT.fit(text)


@dataclass(frozen=True, slots=True)
class GoldRun:
    """An execution of a gold: `evidence` equals that of another execution, `summary` is for people,
    `faults` are defects."""

    evidence: object
    summary: str
    faults: tuple[str, ...] = ()
    task: Task | None = None
    """The task with the gold that was executed, if any of several will do."""
    stays_behind: str = ""
    """Changes that do not reach the tests of this task: those of the gold's, or a rule for all."""
    forgery: str = ""
    """A hack in which the gold's code forged the verdict, and was paid."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The values that the environments of a factory share besides the data.

    Args:
        arguments: of the class's `__init__`, besides the tasks and those of `InterCodeEnv`.
        facts: returns what influences results beyond the options, for run.json: digests of
            templates, the userland. The run itself uses the names `hardness`, `data_set` and
            `excluded`.
        tasks: the tasks that can be played; None: all of the data's.
        left_out: the tasks that cannot be played as they are, and why.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    facts: Callable[[], dict[str, Any]] = dict
    tasks: Sequence[Task] | None = None
    left_out: Sequence[tuple[Task, TaskIssue]] = ()
