"""Refusals: what a model server means that does not answer, by its status and its words.

    Refusal(status, text, body) ──► kind: the first of `KINDS` that fits, or "refused"
                                ──► advice: the first of `_ADVICE` that fits

Servers share no vocabulary; the patterns are from what they really sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

FIXED = ("model", "messages", "tools", "stream", "n")
"""Parameters of a request that `request` cannot change."""
_BY_STATUS = {
    400: (
        "the server refuses the request: --request leaves a parameter out or changes it, and if "
        "the messages are too long for the server, --context N sends at most N tokens"
    ),
    401: "the key is missing or wrong: set OPENAI_API_KEY",
    403: "this key may not use this model: check OPENAI_API_KEY, its account and the model's name",
    404: (
        "no such model or address: "
        "check the model's name and INTERCODE_BASE_URL, which usually ends in /v1"
    ),
    407: "a proxy asks for a password: write it into the proxy's address",
}
_MEANT = {
    401: re.compile(r"\bapi[ _-]?key\b|\bunauthori[sz]ed\b", re.IGNORECASE),
    404: re.compile(r"\bmodel\b.{0,99}\b(?:not (?:found|exist)|unknown|invalid)", re.IGNORECASE),
}
"""Words of servers that answer 400 where others answer 401 or 404."""
_CONTEXT = re.compile(
    r"context ?[_-]?(?:length|size|window|limit)|model length"
    r"|(?:prompt|input|sequence) (?:length|size)|length of (?:the )?(?:input|prompt|messages)"
    r"|max_(?:seq|input|prompt|model)_?len",
    re.IGNORECASE,
)
_INPUT = re.compile(
    r"\b(?:prompt|inputs?|messages?|request|conversation|tokens?)(?:\b|_)(?![\"']\s*:)",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"too[ _](?:long|large|many)|exceed|(?:longer|greater|larger|more|less) than|<=|\d ?> ?\w"
    r"|at most|maximum|\bmax\b|limit|shorten",
    re.IGNORECASE,
)
_OF_ANOTHER_LIMIT = re.compile(
    r"rate[ _]?limit|per (?:min|day|sec|hour)|\bmax_(?:completion_|output_)?tokens\b"
    r"|completion tokens|images?\b|tools\b|quota",
    re.IGNORECASE,
)
"""Words of a refusal for another limit than that of the context."""

_FILTERED = re.compile(
    r"content[ _]?(?:policy|filter|management)|responsible ?ai|moderation|inappropriate|unsafe"
    r"|safety (?:sys|filter|poli)|\brisk\b|violat\w+ .{0,60}(?:polic|guideline)|block_?reason"
    r"|\b(?:prompt|input|output|response|content|messages?) (?:\w+ ){0,2}"
    r"(?:flagged|blocked|rejected)",
    re.IGNORECASE,
)
_ACCOUNT = re.compile(
    r"\baccount|\borgani[sz]ation|\b(?:suspend|terminat|deactivat|disabled|banned)|\bverify\b"
    r"|\b(?:requests from )?your (?:access|ip|key|project)\b|no content filter",
    re.IGNORECASE,
)
"""Words of a refusal that concerns the user of the server, whatever the question was."""
_UNREAD = re.compile(
    r"tool_use_failed|failed to call a function|failed to parse input at"
    r"|remaining in message header|output that could not be parsed"
    r"|pars\w+ (?:tool|function) call|tool call validation",
    re.IGNORECASE,
)
"""Words of a server that could not parse what the model wrote."""

_UNPAID = re.compile(
    r"(?:insufficient|more|out of|available)[ _](?:quota|credits?|balance|funds)|billing|recharge"
    r"|exceeded your current quota|credit balance|payment required|good standing|spending limit"
    r"|free tier .{0,40}exhausted|trial key",
    re.IGNORECASE,
)
_LATER = re.compile(r"retry|try again|rate limit", re.IGNORECASE)
"""Words of a server that will answer later."""

_NO_SYSTEM = re.compile(
    r"system (?:role|message|prompt)|\brole\b[^.]{0,40}\bsystem\b|developer instruction"
    r"|only user and assistant|roles must alternate",
    re.IGNORECASE,
)
_NO_TOOLS = re.compile(r"\btools?\b.*(?:requir|support)|support.*\btools?\b", re.IGNORECASE)
_ECHO = re.compile(r"""['"]input['"]: ?[{\[].*""", re.DOTALL)
"""The request, repeated by a server that says what is wrong with it."""


@dataclass(frozen=True)
class Refusal:
    """A refusal of the request `body`. `wait` is the pause in seconds that the server asked for;
    `no_system`: no message of the system was sent."""

    status: int
    text: str
    body: Mapping[str, Any]
    wait: float | None = None
    no_system: bool = False

    @property
    def kind(self) -> str:
        """Return a kind of `KINDS`, or "refused"."""
        for kind, fits in KINDS.items():
            if fits(self):
                return kind
        return "refused"

    def advice(self) -> str:
        """Return what the user can do about it."""
        if self.named and not self.is_unpaid():
            if self.named == ["max_tokens"] and "max_completion_tokens" in self.text:
                renamed = {"max_tokens": None, "max_completion_tokens": self.body["max_tokens"]}
                return f"the server uses a different name: --request '{json.dumps(renamed)}'"
            without = json.dumps(dict.fromkeys(self.named))
            return f"leave out what the server does not accept: --request '{without}'"
        for fits, words in _ADVICE:
            if fits(self):
                return words
        return _BY_STATUS.get(self.meant, _BY_STATUS[400])

    @cached_property
    def named(self) -> list[str]:
        """The parameters that the server names."""
        text = _ECHO.sub("", self.text)
        names = [name for name in self.body if name not in FIXED]
        return [name for name in names if re.search(rf"\b{re.escape(name)}\b", text)]

    @property
    def meant(self) -> int:
        """The status of other servers for what this one answers with 400."""
        for status, words in _MEANT.items():
            if self.status == 400 and words.search(self.text):
                return status
        return self.status

    def is_unread(self) -> bool:
        return bool(_UNREAD.search(self.text))

    def is_filtered(self) -> bool:
        if self.status in (401, 402, 404, 429) or self.status >= 500:
            return False
        return bool(_FILTERED.search(self.text)) and not _ACCOUNT.search(self.text)

    def is_overflow(self) -> bool:
        """Return whether the question is too long for the context."""
        if _CONTEXT.search(self.text):
            return self.status != 429
        if self.status == 413 or re.search(r"request too large", self.text, re.IGNORECASE):
            return True
        if self.named or _OF_ANOTHER_LIMIT.search(self.text):
            return False
        may_be = self.status in (200, 400, 422) or self.status >= 500
        return may_be and bool(_INPUT.search(self.text) and _TOO_LONG.search(self.text))

    def is_unpaid(self) -> bool:
        if self.status == 402:
            return True
        if self.wait is not None or _LATER.search(self.text):
            return False
        return bool(_UNPAID.search(self.text))

    def lacks_tools(self) -> bool:
        return "tools" in self.body and bool(_NO_TOOLS.search(self.text))

    def lacks_system(self) -> bool:
        return not self.no_system and bool(_NO_SYSTEM.search(self.text))

    def is_passing(self) -> bool:
        """Return whether another try may succeed."""
        if self.lacks_tools():
            return False
        if self.status in (200, 408, 409, 425, 429):
            return True
        return self.status >= 500 and self.status != 501


KINDS: Mapping[str, Callable[[Refusal], bool]] = {
    "unread": Refusal.is_unread,
    "filtered": Refusal.is_filtered,
    "overflow": Refusal.is_overflow,
    "unpaid": Refusal.is_unpaid,
    "passing": Refusal.is_passing,
}
"""In this order: the server could not parse what the model wrote; a filter stopped it; the question
is too long; the account has no credit; another try may succeed."""
_ADVICE = (
    (Refusal.is_unpaid, "the account has no credit or quota left: check its plan and billing"),
    (Refusal.lacks_system, "if the server does not accept system messages, give --no-system"),
    (
        Refusal.lacks_tools,
        "if the server does not support tools, choose another agent, such as try_again",
    ),
)
