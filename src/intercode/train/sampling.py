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
from dataclasses import dataclass, replace
from operator import index
from typing import Any, Literal

from intercode.errors import ContextOverflow, UsageError
from intercode.models import Model
from intercode.runner.budget import BudgetTracker, RunLimits
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
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value <= 0):
                raise UsageError(
                    f"the limit {name} is {value!r}; it must be a whole number of 1 or more"
                )


Conversation = tuple[list[Message], tuple[int, ...]]
"""Messages that end with a reply, and their ids."""


class EpisodeSampler:
    """A `Model` for one episode and one thread. `cut` names the limit that ended the episode, if
    one did."""

    cut: Cut | None = None
    first: int | None = None
    """The number of tokens of the first prompt."""

    def __init__(self, source: Source, draw: int = 0, replayed: Sequence[Reply] = ()) -> None:
        """`replayed` are replies of the episode from which this one was forked, which come before
        any new one."""
        self.source, self.draw, self.replayed = source, draw, replayed
        self.name, self.limits = source.name, source.limits
        # the model behind the source, for a command-line agent, which asks it by itself
        self.inner: object = getattr(source, "model", None)
        self.replies, self.conversations = list[Reply](), list[Conversation]()

    def fork(self, draw: int) -> EpisodeSampler:
        """Return a sampler that first repeats the replies so far."""
        return EpisodeSampler(self.source, draw, list(self.replies))

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        if replay := self.replayed[len(self.replies) :]:
            reply = replay[0]
        else:
            reply = self._ask(messages, tools, draw)
        self.replies.append(reply)
        sample = reply.sample
        if sample and sample.prompt_ids:
            if self.first is None:
                self.first = len(sample.prompt_ids)
            self.conversations.append(
                ([*messages, reply.message], sample.prompt_ids + sample.token_ids)
            )
        return reply

    def is_full(self, turns: Sequence[Turn]) -> str | None:
        """Return why a command-line agent gets no reply after these turns, or None."""
        self.replies = [Reply("", turn.usage, sample=turn.sample) for turn in turns]
        if not turns:
            return None
        last = self.replies[-1]
        self.first = _prompt_length(self.replies[0])
        room, limit = self._room(_prompt_length(last) + _length(last))
        if room > 0:
            self.cut = None
            return None
        self.cut = limit
        return f"the limit {limit} of the rollout is reached"

    def _ask(self, messages: Sequence[Message], tools: Sequence[Tool], draw: int) -> Reply:
        options: dict[str, Any] = {}
        if tools:
            options["tools"] = tools
        if number := self.draw * EPOCH + draw:
            options["draw"] = number
        prompt = self.source.encode(messages, self.conversations, tools)
        if prompt is not None:
            room, limit = self._room(len(prompt))
            if room <= 0:
                self.cut = limit
                sample = Sample(prompt_ids=prompt[: self.limits.context])
                return Reply("", sample=sample, final=True)
        try:
            reply = require_reply(self.source.ask(messages, prompt, options), self.name, messages)
        except ContextOverflow:
            self.cut = "context"
            return Reply("", final=True)
        sample = reply.sample or Sample()
        room, limit = self._room(_prompt_length(reply))
        if room < _length(reply):
            self.cut, fitting = limit, max(0, int(room))
            shorter = replace(
                sample,
                token_ids=sample.token_ids[:fitting],
                logprobs=sample.logprobs[:fitting],
                prompt_ids=sample.prompt_ids[: self.limits.context],
            )
            return replace(reply, sample=reply.sample and shorter, final=True)
        is_cut = "length" in (reply.finish_reason, sample.finish_reason)
        self.cut = "reply" if is_cut else None
        return replace(reply, final=is_cut)

    def _room(self, prompt: int) -> tuple[float, Cut]:
        """Return how many tokens may follow a prompt of that length, and the limit that decides
        it."""
        rooms: list[tuple[float, Cut]] = [(float("inf"), "tokens")]
        limits, observed = self.limits, 0
        if limits.reply_tokens is not None:
            rooms.append((limits.reply_tokens, "reply"))
        if limits.tokens is not None:
            if self.first is not None:
                observed = prompt - self.first
            # a template that drops earlier reasoning makes the prompt shorter
            sampled = sum(map(_length, self.replies))
            rooms.append((limits.tokens - max(observed, sampled), "tokens"))
        if limits.context is not None:
            rooms.append((limits.context - prompt, "context"))
        return min(rooms)


def _length(reply: Reply) -> int:
    """Return the number of sampled tokens."""
    return len((reply.sample or Sample()).token_ids) or reply.usage.completion_tokens


def _prompt_length(reply: Reply) -> int:
    """Return the number of tokens of a reply's prompt."""
    return len((reply.sample or Sample()).prompt_ids) or reply.usage.prompt_tokens


class Served:
    """A model that is asked with messages, from many threads at once."""

    def __init__(self, model: Model, limits: RolloutLimits) -> None:
        self.model, self.limits, self.name = model, limits, model.name
        self.tracker = BudgetTracker(RunLimits(limits.turns))

    def encode(self, *question: Any) -> None:
        """Only the server knows the ids of a question."""

    def ask(self, messages: Sequence[Message], prompt: object, options: dict[str, Any]) -> Reply:
        return self.model.complete(messages, **options)

    def note_end(self) -> None:
        pass


class Asked:
    """A trainer that is asked with the ids of a prompt, and answers with sampled ids: each question
    goes to `put`, and None when an episode has ended."""

    name = "policy"

    def __init__(
        self, put: Callable[[Question | None], None], chat: Chat, limits: RolloutLimits
    ) -> None:
        self.put, self.chat, self.limits = put, chat, limits
        self.tracker = BudgetTracker(RunLimits(limits.turns))

    def encode(
        self,
        messages: Sequence[Message],
        conversations: Sequence[Conversation],
        tools: Sequence[Tool],
    ) -> tuple[int, ...]:
        """Return the ids of a question."""
        asked, chat = list(messages), self._chat(tools)
        longest, ids = 0, tuple[int, ...]()
        for earlier, earlier_ids in conversations:
            if len(earlier) > longest and earlier == asked[: len(earlier)]:
                longest, ids = len(earlier), earlier_ids
        if not longest:
            return tuple(chat.encode(asked))
        return tuple(chat.append(list(ids), asked, longest))

    def ask(
        self, messages: Sequence[Message], prompt: tuple[int, ...] | None, options: dict[str, Any]
    ) -> Reply:
        chat = self._chat(options.get("tools", ()))
        answer = Future[Sampled]()
        self.put((list(prompt or ()), answer))
        ids, logprobs, *version = answer.result()
        text, calls = chat.decode(ids), tuple[ToolCall, ...]()
        if isinstance(chat, ToolChat):
            text, calls = chat.split(text)
        finish_reason = None
        if len(ids) == self.limits.reply_tokens and ids[-1] not in getattr(chat, "end_ids", ()):
            finish_reason = "length"
        policy_version = version[0] if version else None
        sample = Sample(tuple(ids), tuple(logprobs), finish_reason, policy_version, prompt or ())
        return Reply(
            text,
            Usage(len(sample.prompt_ids), len(ids)),
            calls,
            sample=sample,
        )

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
        """Note that an episode has ended."""
        self.put(None)


Source = Served | Asked
"""Where the replies of one call of the pool come from, the limits of each rollout, and the tracker
that stops them all."""


def require_sampled(answer: Any, count: int) -> list[Sampled]:
    """Return what `generate` returned as lists of numbers; `UsageError` for anything else."""
    replies = []
    try:
        for ids, logprobs, *version in answer:
            policy_version = version[0] if version else None
            replies.append(([*map(index, ids)], [*map(float, logprobs)], policy_version))
    except (TypeError, ValueError) as error:
        raise UsageError(
            "a reply is a pair of token ids and log-probabilities, or these and the version of the "
            f"policy ({error})"
        ) from error
    if len(replies) != count:
        raise UsageError(f"generate returned {len(replies)} replies to {count} prompts")
    for ids, logprobs, policy_version in replies:
        if policy_version is not None and type(policy_version) not in (str, int):
            raise UsageError(
                f"the version of a policy is a text or whole number, not {policy_version!r}"
            )
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
