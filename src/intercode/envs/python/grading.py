"""A test, executed: what it calls runs in a copy of the agent's interpreter, what it compares runs where the agent is not.

    agent's cell                    host                        grader's cell (another, in the same wall)
    interpreter ─ fork ─ branch ◄── arguments ── Grader ◄── arguments ── branch ─ fork ─ interpreter
                              └──── plain result ──►  ──── plain result ──►  │  holds the test and what it expects
                                                     ◄──── passed, or why not ┘

The host carries messages without opening the agent's; each test has a copy of either interpreter and a time limit of its own,
and what it started is killed after it. A verdict counts only from the grader's line and with the host's nonce. Scripts and
programs are compared here, by what they printed. A process of the agent's that ends, whoever ended it, has failed its test.
"""

from __future__ import annotations

import secrets
import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from intercode.envs.python.suite import Suite, Test
from intercode.errors import DataError, SandboxDied
from intercode.sandbox.guest import plain
from intercode.sandbox.guest.limit import Limit
from intercode.sandbox.local import CellSandbox

_NAMES = 10_000
PATIENCE = 3
"""Tests that run out of time: an answer that never ends must not cost its worker the limits of all of them."""
_LATE = "ran out of time"
_GONE = "the interpreter ended during the call"
_UNTAKEN = "the answer could not be taken in"
_PRIVATE = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)"
"""PR_SET_DUMPABLE: nothing in the grader's cell may read or write the memory of its interpreters. An image may lack ctypes."""


class _Ended(Exception):
    """The agent's branch ended before its test did, or the grader's since it could not take an answer in."""


class _Unjudged(Exception):
    """The grader's branch ended before the agent's side was asked anything."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a test ended; `why` says what went wrong, in one line."""

    test: Test
    passed: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class About:
    """What the agent's interpreter says of itself: a courtesy to the agent, nothing that a score depends on.

    `defined` are its functions and classes in order, `last` the one that was defined last; `callable` and `takes` are the asked
    name's.
    """

    defined: tuple[str, ...] = ()
    last: str = ""
    callable: bool = False
    takes: tuple[int, int] | None = None


class Grader:
    """`sandbox` is the grader's own; `seconds` each test's limit. When `patience` tests of a grading have run out of time, the
    rest of them are not executed, and have not passed; None: all are."""

    def __init__(self, sandbox: CellSandbox, *, seconds: float = 10.0, patience: int | None = None) -> None:
        self.sandbox, self._seconds, self._patience = sandbox, seconds, patience
        sandbox.exec(_PRIVATE)

    def about(self, agent: CellSandbox, name: str = "", method: str = "") -> About | None:
        """None where the interpreter does not answer, as one that cannot fork."""
        reply = None
        for _ in range(2):  # if a branch ended, its interpreter may have
            with suppress(_Ended):
                reply = self._asked(agent, {"role": "about", "name": name, "method": method})
                break
        agent.end_branch()
        if not reply:
            return None
        named, takes = reply.get("defined"), reply.get("takes")  # the agent may say anything
        defined = tuple(str(name) for name in named[:_NAMES]) if isinstance(named, list) else ()
        pair = isinstance(takes, list) and len(takes) == 2 and all(type(each) is int for each in takes)
        accepted = (takes[0], takes[1]) if pair and isinstance(takes, list) else None
        return About(defined, str(reply.get("last") or ""), reply.get("callable") is True, accepted)

    def grade(self, agent: CellSandbox, suite: Suite, *, name: str | None, text: str | None = None) -> list[Result]:
        """Each test of the suite in order, with the agent's `name` for the suite's; a program may be given as `text`."""
        try:
            return list(self._results(agent, suite, name, text))
        finally:
            agent.end_branch()
            self.sandbox.end_branch()

    def _results(self, agent: CellSandbox, suite: Suite, name: str | None, text: str | None) -> Iterator[Result]:
        late = 0
        for test in suite.tests:
            if late == self._patience:
                yield Result(test, False, f"not executed: {late} tests before it {_LATE}")
                continue
            try:
                result = self._test(agent, suite, test, name, text)
            except _Ended as ended:
                result = Result(test, False, str(ended))
            yield result
            late += result.why == _LATE

    def _test(self, agent: CellSandbox, suite: Suite, test: Test, name: str | None, text: str | None) -> Result:
        """Raises `_Ended`."""
        bind = {suite.name: name} if name and suite.name else {}
        if test.kind == "assert":
            return self._assert(agent, suite, test, {"role": "far", "bind": bind, "method": suite.method})
        request = {"role": test.kind, "bind": bind, "name": name, "stdin": test.stdin}
        request["text"] = test.text if test.kind == "script" else text
        return _compared(test, self._asked(agent, request))

    def _asked(self, agent: CellSandbox, request: dict[str, Any]) -> dict[str, Any] | None:
        """One question to a branch, one answer: empty if it is none, None if it does not come in time. Raises `_Ended`."""
        with agent.branch() as line:
            try:
                limit = Limit(self._seconds)
                plain.send(line, request, limit)
                reply = plain.parse(plain.receive_raw(line, limit))
            except TimeoutError:
                return None
            except plain.NotPlain:
                return {}
            except (OSError, EOFError):
                raise _Ended(_GONE) from None
        return reply if isinstance(reply, dict) else {}

    def _assert(self, agent: CellSandbox, suite: Suite, test: Test, request: dict[str, Any]) -> Result:
        """Raises `DataError` for a test that ends its own process, whoever answers: it does so twice."""
        asked = {"role": "referee", "names": suite.names, "texts": [*suite.before, test.text], "nonce": secrets.token_hex(16)}
        for _ in range(2):
            with agent.branch() as far, self.sandbox.branch() as referee, suppress(_Unjudged):
                limit = Limit(self._seconds)
                if (why := _told(far, request, limit)) is None:
                    return _verdict(test, referee, far, asked, limit)
                return Result(test, False, why)
        raise DataError(f"the test {test.text!r:.60} ends its own process before it calls the answer")


def _verdict(test: Test, referee: socket.socket, far: socket.socket, request: dict[str, Any], limit: Limit) -> Result:
    """How the test ended, by the word of the grader's side. Raises `_Ended` and `_Unjudged`."""
    try:
        plain.send(referee, request, limit)
    except plain.NotPlain as error:
        raise DataError(f"the test {request['texts'][-1]!r:.60} cannot be executed: {error}") from None
    except TimeoutError:
        raise SandboxDied("the grader does not take the test") from None
    except OSError as error:
        raise _Unjudged from error
    asked = waiting = False
    try:
        while True:
            if waiting and _first(referee, far, limit) is far:
                with suppress(OSError, plain.NotPlain):  # the next look at the grader's side tells
                    plain.send_raw(referee, _answer(far, limit), limit)
                waiting = False
                continue
            said = _heard(referee, limit, asked)
            if "ask" not in said or waiting:
                return Result(test, said.get("nonce") == request["nonce"] and said.get("passed") is True, said.get("why", ""))
            if (why := _told(far, said["ask"], limit)) is not None:
                return Result(test, False, why)
            asked = waiting = True
    except TimeoutError:
        return Result(test, False, _LATE)


def _first(referee: socket.socket, far: socket.socket, limit: Limit) -> socket.socket:
    """The side that says something first: a test may give up a call and end. Raises `TimeoutError`."""
    poll = select.poll()
    poll.register(referee, select.POLLIN)
    poll.register(far, select.POLLIN)
    while (wait := limit.wait()) > 0:
        if ready := dict(poll.poll(wait * 1000)):
            return referee if referee.fileno() in ready else far
    raise TimeoutError


def _heard(referee: socket.socket, limit: Limit, asked: bool) -> dict[str, Any]:
    """What the grader's side says. Its end after it has asked may be the answer's doing. Raises `TimeoutError`."""
    try:
        said: dict[str, Any] = plain.parse(plain.receive_raw(referee, limit))
        return said
    except TimeoutError:
        raise
    except (OSError, EOFError, plain.NotPlain) as error:
        raise (_Ended(_UNTAKEN) if asked else _Unjudged()) from error


def _answer(far: socket.socket, limit: Limit) -> bytes:
    """The agent's answer, unopened. Raises `TimeoutError`."""
    try:
        return plain.receive_raw(far, limit)
    except TimeoutError:
        raise
    except (OSError, EOFError):
        raise _Ended(_GONE) from None
    except plain.NotPlain as error:
        raise _Ended(str(error)) from None


def _told(far: socket.socket, what: dict[str, Any], limit: Limit) -> str | None:
    """None if the agent's side has it, or why not."""
    try:
        plain.send(far, what, limit)
    except TimeoutError:
        return _LATE
    except OSError:
        raise _Ended(_GONE) from None
    except plain.NotPlain as error:
        return str(error)
    return None


def _compared(test: Test, reply: dict[str, Any] | None) -> Result:
    if reply is None:
        return Result(test, False, _LATE)
    printed, status = reply.get("printed"), reply.get("status")
    if not isinstance(printed, str):
        return Result(test, False, "nothing was printed")
    if status != 0:
        return Result(test, False, f"ended with status {status}")
    passed = same_text(printed, test.expected)
    return Result(test, passed, "" if passed else f"printed {printed[:300]!r}")


def same_text(printed: str, expected: str) -> bool:
    """Equal line by line, but for blanks at the ends of lines and empty lines before the first and after the last.

    APPS forgives more: empty lines anywhere, blanks before a line, lines and words in any order, numbers that are nearly equal.
    """
    return _lines(printed) == _lines(expected)


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.rstrip().split("\n")]
    return lines[next((number for number, line in enumerate(lines) if line), len(lines)) :]
