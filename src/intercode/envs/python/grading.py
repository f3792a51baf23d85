"""Grade an answer: the calls in a test run in a copy of the agent's interpreter, the comparisons in
another sandbox.

    agent's sandbox                               host                             grader's sandbox
    interpreter ─ fork ─ branch ◄── arguments ── Grader ◄── arguments ── branch ─ fork ─ interpreter
                              └──── plain result ──►  ──── plain result ──►  │
                                                     ◄── passed, or reason ──┘

The grader's branch holds the test and the expected values; its sandbox is in the same container.
The host forwards calls and results in pieces without parsing them; the messages that it parses are
small. Each test gets a new copy of both interpreters and its own time limit; the processes that it
started are killed afterwards. A program runs in a copy of an interpreter that never executed it. A
verdict counts only if it comes from the grader's branch and contains the host's nonce. The outputs
of scripts and programs are compared here, on the host. If the agent's process ends for any reason,
its test has failed.
"""

from __future__ import annotations

import re
import secrets
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any

from intercode.envs.python.suite import ABSOLUTE, RELATIVE, Suite, Test
from intercode.errors import DataError, SandboxDied
from intercode_sandbox.client import GuestSandbox
from intercode_sandbox.guest import wire_values
from intercode_sandbox.guest.limit import Limit

PATIENCE = 3
"""Tests of an answer that may time out: an endless answer must not cost its worker the time of
all tests."""
_MOST_READ = 1 << 16
"""The most bytes in a message that the host parses: a verdict, a status, a list of definitions."""
_SPARE_OUTPUT = 1 << 20
"""A program may print this many bytes of extra whitespace."""
_NUMBER = re.compile(r"-?((0|[1-9]\d*)(\.\d*)?|\.\d+)(e[+-]?\d{1,6})?", re.ASCII | re.IGNORECASE)
"""A number as programs print it. `007` and `+7` are texts: bits, codes or signs that the task asks
for, where each character counts."""
_LATE, _ENDED, _DOUBT = "ran out of time", "the interpreter ended during the call", 0.2
Place = Callable[[], AbstractContextManager[GuestSandbox]]
"""Opens a sandbox for one test of a program."""
_NOT_DUMPABLE = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)"
"""PR_SET_DUMPABLE: no process in the grader's sandbox may read or write its interpreters' memory.
An image may lack ctypes."""


class _TestFailed(Exception):
    """The agent's process ended or sent unusable data; the message is the reason."""


class _GraderEnded(Exception):
    """The grader's process ended. `called`: it had already called the answer, a possible cause."""

    def __init__(self, called: bool = False) -> None:
        self.called = called


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a test; `why` is the reason for a failure, in one line. `got` and `expected`
    are the two sides of a comparison that failed. `called`: the test came as far as the answer."""

    test: Test
    passed: bool
    why: str = ""
    got: str | None = None
    expected: str | None = None
    called: bool = True


@dataclass(frozen=True, slots=True)
class Definitions:
    """The definitions that the agent's interpreter reports. They help the agent and never affect
    the score.

    `names` are its functions and classes in order, `last` is the one that was defined last.
    `callable`, `arity` (the least and greatest number of positional arguments, −1: any), `given`
    (it came with the task) and `imported` (it is not the agent's own code) describe the requested
    name.
    """

    names: tuple[str, ...] = ()
    last: str = ""
    callable: bool = False
    arity: tuple[int, int] | None = None
    given: bool = False
    imported: bool = False


class Grader:
    """Grade answers in `sandbox`, which only the grader uses.

    `seconds` is each test's time limit. After `patience` tests of an answer have timed out, the
    remaining tests fail without execution; None executes all.
    """

    def __init__(
        self, sandbox: GuestSandbox, *, seconds: float = 10.0, patience: int | None = None
    ) -> None:
        self.sandbox = sandbox
        self._seconds = seconds
        self._patience = patience
        sandbox.exec(_NOT_DUMPABLE)

    def describe(self, agent: GuestSandbox, name: str = "", method: str = "") -> Definitions | None:
        """Return the agent's definitions; None if its interpreter does not answer, for example
        because it cannot fork."""
        request = {"role": "about", "name": name, "method": method}
        reply = None
        for _ in range(2):  # a branch may have died with its interpreter, which was then replaced
            with suppress(_TestFailed):
                with suppress(TimeoutError):
                    reply = self._ask_agent(agent, request)
                break
        agent.end_branch()
        if not reply:
            return None
        # the agent may send anything
        names = reply.get("defined")
        arity: Any = reply.get("takes")
        is_pair = isinstance(arity, list) and list(map(type, arity)) == [int, int]
        return Definitions(
            tuple(map(str, names)) if isinstance(names, list) else (),
            str(reply.get("last") or ""),
            reply.get("callable") is True,
            (arity[0], arity[1]) if is_pair else None,
            reply.get("given") is True,
            reply.get("imported") is True,
        )

    def grade(
        self,
        agent: GuestSandbox,
        suite: Suite,
        *,
        name: str | None,
        text: str | None = None,
        places: Sequence[Place] = (),
    ) -> list[Result]:
        """Execute the suite's tests in order, with the agent's `name` in place of the suite's.

        If `text` is given, it is the program for tests of programs, each of which runs in a new
        interpreter in the first of `places`, by default the agent's. If a test fails there, it runs
        in the second one too, in case the program needs files that the agent prepared; the place
        where it passes serves the tests that follow.
        """
        bind = {suite.name: name} if name and suite.name else {}
        places = list(places) or [lambda: nullcontext(agent)]

        def execute(test: Test) -> Result:
            request: dict[str, Any] = {"role": "agent", "bind": bind}
            if test.kind == "assert":
                request |= {"method": suite.method, "asked": suite.asked}
                return self._assert(agent, suite, test, request)
            request |= {"role": test.kind, "name": name, "stdin": test.stdin}
            if test.kind == "script" or text is None:
                return self._run_text(agent, test, {**request, "text": test.text or None})
            request["text"] = text
            result = first = self._run_program(places[0], test, request)
            while places[1:] and not result.passed:
                result = self._run_program(places[1], test, request)
                del places[0 if result.passed else 1]
            return result if result.passed else first

        try:
            return self._results(suite, execute)
        finally:
            agent.end_branch()
            self.sandbox.end_branch()

    def _run_program(self, place: Place, test: Test, request: dict[str, Any]) -> Result:
        with place() as sandbox:
            try:
                return self._run_text(sandbox, test, request)
            except _TestFailed as failure:
                return Result(test, False, str(failure))

    def _results(self, suite: Suite, execute: Callable[[Test], Result]) -> list[Result]:
        results = []
        late = 0
        for test in suite.tests:
            why = f"not executed: {late} tests before it {_LATE}"
            if late != self._patience:
                try:
                    results.append(execute(test))
                    continue
                except _TestFailed as failure:
                    why = str(failure)
                except TimeoutError:
                    why = _LATE
                    late += 1
            results.append(Result(test, False, why))
        if any(result.why == _ENDED for result in results):
            time.sleep(_DOUBT)  # whoever kills a sandbox piece by piece kills the rest
        return results

    def _ask_agent(self, agent: GuestSandbox, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request to a new branch of the agent's interpreter and return the reply, or an
        empty dict if the reply is malformed.

        Raises `_TestFailed`, and `TimeoutError` after the test's time limit.
        """
        with agent.branch() as line:
            return _exchange(line, wire_values.pack(request), Limit(self._seconds))

    def _run_text(self, agent: GuestSandbox, test: Test, request: dict[str, Any]) -> Result:
        """Run a script or a program in a new branch of the agent's interpreter. Raises the same
        errors as `_ask_agent`."""
        most = 4 * len(test.expected) + _SPARE_OUTPUT
        try:
            body = wire_values.pack({**request, "most": most + 1})
        except wire_values.NotPlain as error:
            if test.kind == "program" and len(request["text"]) > len(test.stdin):
                raise _TestFailed(f"the program: {error}") from None
            raise _cannot_execute(test, error) from None
        with agent.branch() as line:
            limit = Limit(self._seconds)
            reply = _exchange(line, body, limit)
            with _agent_at_fault():
                printed = wire_values.receive_raw(line, limit, most + 1)
        status = reply.get("status")
        if status != 0:
            why = f": {reply['why']}" if reply.get("why") else ""
            why = f"ended with status {status!r:.50}{why:.500}"
            return Result(test, False, why, expected=test.expected)
        if len(printed) > most:
            why = f"printed more than {most} bytes, far more than what is expected"
            return Result(test, False, why)
        text = printed.decode("utf-8", "replace")
        is_same = same_words if test.tolerant else same_text
        if is_same(text, test.expected):
            return Result(test, True)
        return Result(test, False, f"printed {text[:300]!r}", text, test.expected)

    def _assert(
        self, agent: GuestSandbox, suite: Suite, test: Test, request: dict[str, Any]
    ) -> Result:
        """Execute an assert in a new grader process. Raises `_TestFailed`, `TimeoutError`, and
        `DataError` if the test ends its own process twice before it calls the answer, which no
        answer can cause. If the grader's process ends, the test runs once more, and neither the
        answer nor the test is blamed unless an empty test still runs."""
        order = {
            "role": "grader",
            "names": suite.names,
            "asked": suite.asked,
            "texts": [*suite.setup, test.text],
        }
        for _ in range(2):
            order["nonce"] = secrets.token_hex(16)
            with agent.branch() as agent_line, self.sandbox.branch() as grader_line:
                limit = Limit(self._seconds)
                with _agent_at_fault():
                    wire_values.send(agent_line, request, limit)
                try:
                    return _relay_calls(test, grader_line, agent_line, order, limit)
                except _GraderEnded as end:
                    called = end.called
            self._require_grader()
        if called:
            raise _TestFailed("the answer could not be taken in")
        raise DataError(
            f"the test {test.text!r:.60} ends its own process before it calls the answer"
        )

    def _require_grader(self) -> None:
        """Raise `SandboxDied` if the grader cannot execute an empty test."""
        order = {"role": "grader", "names": (), "asked": (), "texts": (), "nonce": ""}
        with self.sandbox.branch() as line, suppress(OSError, EOFError, wire_values.NotPlain):
            limit = Limit(self._seconds)
            wire_values.send(line, order, limit)
            if _receive(line, limit).get("passed") is True:
                return
        raise SandboxDied("the grader cannot execute an empty test")


def _exchange(line: socket.socket, request: bytes, limit: Limit) -> dict[str, Any]:
    with _agent_at_fault():
        wire_values.send_raw(line, request, limit)
        reply = _receive(line, limit)
    return reply if isinstance(reply, dict) else {}


def _receive(line: socket.socket, limit: Limit) -> Any:
    return wire_values.parse(wire_values.receive_raw(line, limit, _MOST_READ))


@contextmanager
def _agent_at_fault() -> Iterator[None]:
    """Raise `_TestFailed` if the agent's process has ended, or its message is not plain data.
    `TimeoutError` passes through."""
    try:
        yield
    except TimeoutError:
        raise
    except (OSError, EOFError):
        raise _TestFailed(_ENDED) from None
    except wire_values.NotPlain as error:
        raise _TestFailed(str(error)) from None


def _relay_calls(
    test: Test, grader: socket.socket, agent: socket.socket, order: dict[str, Any], limit: Limit
) -> Result:
    """Forward the test's calls to the agent, and the results back, until the grader's process sends
    its verdict.

    Raises `_TestFailed`, `_GraderEnded` and `TimeoutError`.
    """
    try:
        wire_values.send(grader, order, limit)
    except wire_values.NotPlain as error:
        raise _cannot_execute(test, error) from None
    except TimeoutError:
        raise SandboxDied("the grader does not take the test") from None
    except OSError as error:
        raise _GraderEnded from error
    called = waiting = False
    while True:
        if waiting and _first_ready(grader, agent, limit) is agent:
            with _agent_at_fault():
                for piece in wire_values.receive_pieces(agent, limit):
                    # if the grader's process has ended, reading its next message fails
                    with suppress(OSError):
                        wire_values.send_piece(grader, piece, limit)
            waiting = False
            continue
        try:
            message = _receive(grader, limit)
            if "ask" not in message or waiting:
                passed = message.get("nonce") == order["nonce"] and message.get("passed") is True
                sides = message.get("got"), message.get("expected")
                return Result(test, passed, message.get("why", ""), *sides, called)
            for piece in wire_values.receive_pieces(grader, limit):
                with _agent_at_fault():
                    wire_values.send_piece(agent, piece, limit)
        except TimeoutError:
            raise
        except (OSError, EOFError, wire_values.NotPlain) as error:
            raise _GraderEnded(called) from error
        called = waiting = True


def _first_ready(grader: socket.socket, agent: socket.socket, limit: Limit) -> socket.socket:
    """Return the socket that becomes readable first, since a test may abandon its call and end.
    Raises `TimeoutError`."""
    poll = select.poll()
    poll.register(grader, select.POLLIN)
    poll.register(agent, select.POLLIN)
    while (wait := limit.wait()) > 0:
        if ready := dict(poll.poll(wait * 1000)):
            return grader if grader.fileno() in ready else agent
    raise TimeoutError


def _cannot_execute(test: Test, error: Exception) -> DataError:
    return DataError(f"the test {test.description!r:.60} cannot be executed: {error}")


def same_text(printed: str, expected: str) -> bool:
    """Return whether two texts are equal line by line, ignoring whitespace at the ends of lines and
    empty lines around the text."""
    printed = _without_empty_ends(printed)
    expected = _without_empty_ends(expected)
    if printed.count("\n") != expected.count("\n"):  # an agent may print a million lines
        return False
    lines = zip(printed.split("\n"), expected.split("\n"), strict=True)
    return all(line.rstrip() == other.rstrip() for line, other in lines)


def same_words(printed: str, expected: str) -> bool:
    """Return whether two texts have the same words on their lines, ignoring other whitespace and
    empty lines. An expected whole number has one value, however it is printed (`7`, `7.0`, `7e0`);
    an expected decimal number has a tolerance.

    APPS accepts more: lines and words in any order, and whole numbers that are nearly equal.
    """
    lines = list(filter(None, map(str.split, printed.splitlines())))
    expected_lines = list(filter(None, map(str.split, expected.splitlines())))
    return list(map(len, lines)) == list(map(len, expected_lines)) and all(
        map(_same_word, chain(*lines), chain(*expected_lines))
    )


def _same_word(printed: str, expected: str) -> bool:
    if printed == expected:
        return True
    if not (_NUMBER.fullmatch(printed) and _NUMBER.fullmatch(expected)):
        return False
    if expected.removeprefix("-").isdecimal():
        return Decimal(printed) == Decimal(expected)
    return abs(float(printed) - float(expected)) <= ABSOLUTE + RELATIVE * abs(float(expected))


def _without_empty_ends(text: str) -> str:
    text = text.rstrip()
    blanks = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, blanks) + 1 :]
