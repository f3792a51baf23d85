"""Ask the policy within one episode: token limits, and conversations whose tokens are known.

    strategy ── messages ──► EpisodeSampler
      ├─ Served: the server encodes, and returns the ids ──────────┬─► Reply with a Sample
      ├─ Asked: `chat` appends, and the trainer answers with ids ──┘
      └─ a limit is reached ──► Reply(final=True): the episode ends and is scored

A reply that a limit cuts off is not executed: half a command may do harm that the policy did not
choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from operator import index
from typing import Any, Literal, Protocol

from intercode.errors import ContextOverflow, UsageError
from intercode.models import Model
from intercode.runner.episode_model import EPOCH, require_reply
from intercode.train.chat import Chat, ToolChat
from intercode.types import Message, Reply, Sample, Tool, ToolCall, Turn, Usage, is_number

Cut = Literal["turns", "reply", "tokens", "context"]
"""The limit that ended an episode before the policy did."""

Sampled = (
    tuple[Sequence[int], Sequence[float]] | tuple[Sequence[int], Sequence[float], str | int | None]
)
"""The ids of one reply, their log-probabilities, which may be empty, and perhaps the version of the
policy that sampled it."""

Question = tuple[list[int], Future[Sampled]]
"""The ids of a prompt, and where its reply goes."""


@dataclass(frozen=True, slots=True)
class RolloutLimits:
    """Limits of one rollout; an episode that reaches one ends and is scored. None: no limit.

    `turns`: actions. `reply_tokens`: of one reply; set the server's own limit (`max_tokens`) as
    well. `tokens`: sampled and observed tokens after the first prompt. `context`: tokens of the
    whole sequence. There is no time limit, since time depends on the machine: actions have the
    sandbox's limit, replies the model's.
    """

    turns: int = 10
    reply_tokens: int | None = None
    tokens: int | None = None
    context: int | None = None

    def __post_init__(self) -> None:
        for name in ("turns", "reply_tokens", "tokens", "context"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value <= 0):
                raise UsageError(
                    f"the limit {name} is {value!r}; it must be a whole number of 1 or more"
                )


class Source(Protocol):
    """Where replies come from."""

    @property
    def name(self) -> str: ...

    def encode(
        self, messages: Sequence[Message], known: Sequence[Conversation], tools: Sequence[Tool]
    ) -> tuple[int, ...] | None:
        """Return the ids of a question; None if only the server knows them."""
        ...

    def ask(
        self, messages: Sequence[Message], prompt: tuple[int, ...] | None, options: dict[str, Any]
    ) -> Reply: ...

    def note_end(self) -> None:
        """Note that an episode has ended."""
        ...


Conversation = tuple[list[Message], tuple[int, ...]]
"""Messages that end with a reply, and their ids."""


@dataclass
class EpisodeSampler:
    """A `Model` for one episode and one thread. `cut` names the limit that ended the episode, if
    one did."""

    source: Source
    limits: RolloutLimits
    draw: int = 0
    cut: Cut | None = None
    replies: list[Reply] = field(default_factory=list)
    replayed: list[Reply] = field(default_factory=list)
    """Replies of the episode from which this one was forked, which come before any new one."""
    known: list[Conversation] = field(default_factory=list)
    first: int | None = None
    """The number of tokens of the first prompt."""
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.source.name

    def fork(self, draw: int) -> EpisodeSampler:
        """Return a sampler that first repeats the replies so far."""
        return EpisodeSampler(self.source, self.limits, draw, replayed=list(self.replies))

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        replay = len(self.replies) < len(self.replayed)
        reply = self.replayed[len(self.replies)] if replay else self._ask(messages, tools, draw)
        self.replies.append(reply)
        if (sample := reply.sample) and sample.prompt_ids:
            self.first = len(sample.prompt_ids) if self.first is None else self.first
            self.known.append(([*messages, reply.message], sample.prompt_ids + sample.token_ids))
        return reply

    @property
    def inner(self) -> object:
        """The model behind the source, for a command-line agent, which asks it by itself."""
        return getattr(self.source, "model", None)

    def is_full(self, turns: Sequence[Turn]) -> str | None:
        """Return why a command-line agent gets no reply after these turns, or None."""
        self.replies = [Reply("", turn.usage, sample=turn.sample) for turn in turns]
        prompts = [
            len((reply.sample or Sample()).prompt_ids) or reply.usage.prompt_tokens
            for reply in self.replies
        ]
        if not prompts:
            return None
        self.first = prompts[0]
        room, limit = self._room(prompts[-1] + _length(self.replies[-1]))
        self.cut = limit if room <= 0 else None
        return f"the limit {limit} of the rollout is reached" if self.cut else None

    def _ask(self, messages: Sequence[Message], tools: Sequence[Tool], draw: int) -> Reply:
        options: dict[str, Any] = {"tools": tools} if tools else {}
        number = self.draw * EPOCH + draw
        options |= {"draw": number} if number else {}
        prompt = self.source.encode(messages, self.known, tools)
        if prompt is not None and self._room(len(prompt))[0] <= 0:
            self.cut = self._room(len(prompt))[1]
            return Reply("", sample=Sample(prompt_ids=prompt[: self.limits.context]), final=True)
        try:
            reply = require_reply(self.source.ask(messages, prompt, options), self.name)
        except ContextOverflow:
            self.cut = "context"
            return Reply("", final=True)
        sample = reply.sample or Sample()
        room, limit = self._room(len(sample.prompt_ids) or reply.usage.prompt_tokens)
        if room < _length(reply):
            self.cut, fitting = limit, max(0, int(room))
            shorter = replace(
                sample,
                token_ids=sample.token_ids[:fitting],
                logprobs=sample.logprobs[:fitting],
                prompt_ids=sample.prompt_ids[: self.limits.context],
            )
            return replace(reply, sample=reply.sample and shorter, final=True)
        self.cut = "reply" if "length" in (reply.finish_reason, sample.finish_reason) else None
        return replace(reply, final=self.cut is not None)

    def _room(self, prompt: int) -> tuple[float, Cut]:
        """Return how many tokens may follow a prompt of that length, and the limit that decides
        it."""
        first = prompt if self.first is None else self.first
        left: list[tuple[float, Cut]] = [(float("inf"), "tokens")]
        if self.limits.reply_tokens is not None:
            left.append((self.limits.reply_tokens, "reply"))
        if self.limits.tokens is not None:
            # a template that drops earlier reasoning makes the prompt shorter
            sampled = sum(map(_length, self.replies))
            left.append((self.limits.tokens - max(prompt - first, sampled), "tokens"))
        if self.limits.context is not None:
            left.append((self.limits.context - prompt, "context"))
        return min(left)


def _length(reply: Reply) -> int:
    """Return the number of sampled tokens."""
    return len((reply.sample or Sample()).token_ids) or reply.usage.completion_tokens


@dataclass
class Served:
    """A model that is asked with messages, from many threads at once."""

    model: Model

    @property
    def name(self) -> str:
        return self.model.name

    def encode(
        self, messages: Sequence[Message], known: Sequence[Conversation], tools: Sequence[Tool]
    ) -> None:
        return None

    def ask(
        self, messages: Sequence[Message], prompt: tuple[int, ...] | None, options: dict[str, Any]
    ) -> Reply:
        return self.model.complete(messages, **options)

    def note_end(self) -> None:
        pass


@dataclass
class Asked:
    """A trainer that is asked with the ids of a prompt, and answers with sampled ids: each question
    goes to `put`, and None when an episode has ended."""

    put: Callable[[Question | None], None]
    chat: Chat
    limits: RolloutLimits
    name: str = "policy"

    def encode(
        self, messages: Sequence[Message], known: Sequence[Conversation], tools: Sequence[Tool]
    ) -> tuple[int, ...]:
        asked, chat = list(messages), self._chat(tools)
        prefixes = [(earlier, ids) for earlier, ids in known if earlier == asked[: len(earlier)]]
        if not prefixes:
            return tuple(chat.encode(asked))
        earlier, ids = max(prefixes, key=lambda prefix: len(prefix[0]))
        return tuple(chat.append(list(ids), asked, len(earlier)))

    def ask(
        self, messages: Sequence[Message], prompt: tuple[int, ...] | None, options: dict[str, Any]
    ) -> Reply:
        chat = self._chat(options.get("tools", ()))
        answer: Future[Sampled] = Future()
        self.put((list(prompt or ()), answer))
        ids, logprobs, *version = answer.result()
        text, calls = chat.decode(ids), tuple[ToolCall, ...]()
        if isinstance(chat, ToolChat):
            text, calls = chat.split(text)
        ended = ids[-1:] and ids[-1] in getattr(chat, "end_ids", ())
        full = (
            self.limits.reply_tokens is not None
            and len(ids) == self.limits.reply_tokens
            and not ended
        )
        sample = Sample(
            tuple(ids),
            tuple(logprobs),
            "length" if full else None,
            version[0] if version else None,
            prompt or (),
        )
        usage = Usage(len(sample.prompt_ids), len(ids))
        return Reply(text, usage, _with_new_ids(calls, messages), sample=sample)

    def _chat(self, tools: Sequence[Tool]) -> Chat:
        if not tools:
            return self.chat
        with_tools = getattr(self.chat, "with_tools", None)
        if with_tools is None:
            raise UsageError(
                "this agent calls tools, which the chat cannot encode; "
                "use hf_chat, or choose an agent that writes code as text"
            )
        chat: Chat = with_tools(tools)
        return chat

    def note_end(self) -> None:
        self.put(None)


def _with_new_ids(calls: Sequence[ToolCall], messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return calls with ids that are new in the conversation, those of the policy if they are. An
    agent need not replace them, so that it continues the conversation with this reply."""
    ids = {call["id"] for message in messages for call in message.get("tool_calls") or ()}
    named = list[ToolCall]()
    for number, call in enumerate(calls):
        is_new = call.id and call.id not in ids
        named.append(call if is_new else replace(call, id=f"call{len(messages):03}{number:02}"))
        ids.add(named[-1].id)
    return tuple(named)


def require_sampled(answer: Any, count: int) -> list[Sampled]:
    """Return what `generate` returned as lists of numbers; `UsageError` for anything else."""
    try:
        replies = [
            ([*map(index, ids)], [*map(float, logprobs)], version[0] if version else None)
            for ids, logprobs, *version in answer
        ]
    except (TypeError, ValueError) as error:
        raise UsageError(
            "a reply is a pair of token ids and log-probabilities, or these and the version of the "
            f"policy ({error})"
        ) from error
    if len(replies) != count:
        raise UsageError(f"generate returned {len(replies)} replies to {count} prompts")
    for ids, logprobs, version in replies:
        if not (version is None or type(version) in (str, int)):
            raise UsageError(f"the version of a policy is a text or whole number, not {version!r}")
        if (
            len(logprobs) not in (0, len(ids))
            or not all(map(is_number, (*ids, *logprobs)))
            or min(ids, default=0) < 0
        ):
            raise UsageError(
                f"a reply has {len(ids)} ids with {len(logprobs)} log-probabilities; "
                "these are finite, one for each id or none, and no id is negative"
            )
    return list(replies)
