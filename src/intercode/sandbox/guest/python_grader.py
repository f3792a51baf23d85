"""The grader's side of a test: it holds the test's text and the expected values, and never a line of the agent's code.

    test ── calls NAME ──► Proxy ── plain arguments ──► host ──► the agent's branch
                             └───── plain result, or "raised TYPE: words" ◄─┘

The submitted name is a proxy. What comes back is decoded by type. An object that is not plain stays on the agent's side, and
the test gets a `Remote`, which has attributes and can be handed back in a call, but compares with nothing, is neither true nor
false and cannot be iterated: it cannot pass a test by pretending.

A process here executes one test and ends. A test may give up waiting for a call (an alarm, a thread or a process with a time
limit); the call's late answer then finds no reader. Only the process that received the request sends the verdict, with the
request's nonce, which the agent's side never sees.
"""

from __future__ import annotations

import builtins
import os
import socket
from typing import Any, NoReturn

from . import wire_values

_REFUSED = frozenset(("StopIteration", "StopAsyncIteration", "GeneratorExit"))
"""These would end a loop of the test's own."""
_LONGEST_NAME = 200


class Failed(BaseException):
    """The agent's side did something that no test can pass with, not even a test that expects an exception."""


class AgentLine:
    """The line to the agent's side. Threads and processes of one test take turns in using it."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._turn, self._next_turn = os.pipe()
        os.write(self._next_turn, b".")

    def ask(self, op: str, on: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Have the agent's side call, get or set; return the value.

        Raises the exception that the agent's side raised. The test sees no other exception, whatever the agent's side sends.
        """
        encoded = [wire_values.encode(each, _handle) for each in args]
        options = {name: wire_values.encode(each, _handle) for name, each in named.items()}
        reply = self._exchange({"ask": {"op": op, "on": on, "args": encoded, "named": options}})
        value = error = None
        try:
            if "raised" in reply:
                error = _make_exception(*reply["raised"])
            else:
                value = self._decode(reply["value"])
                for number, content in reply.get("changed", {}).items():
                    _update_in_place(args[int(number)], self._decode(content))
        except Exception as problem:
            raise Failed(f"the answer is not plain: {type(problem).__name__}") from None
        if error is not None:
            raise error
        return value

    def _exchange(self, question: dict[str, Any]) -> Any:
        """Send the question and return the answer. After a call that a test gave up there is no further turn."""
        os.read(self._turn, 1)
        try:
            wire_values.send(self._line, question)
        except wire_values.NotPlain:  # nothing was sent
            os.write(self._next_turn, b".")
            raise
        answer = wire_values.receive_raw(self._line)
        os.write(self._next_turn, b".")
        try:
            return wire_values.parse(answer)
        except wire_values.NotPlain as error:
            raise Failed(str(error)) from None

    def _decode(self, content: Any) -> Any:
        return wire_values.decode(content, lambda number: Remote(self, number))


class Proxy:
    """Stands for a function or class of the agent's."""

    def __init__(self, agent: AgentLine, name: str) -> None:
        self._intercode = (agent, name)

    def __call__(self, *args: Any, **named: Any) -> Any:
        agent, name = self._intercode
        return agent.ask("call", name, args, named)


class Remote:
    """An object that stays on the agent's side."""

    def __init__(self, agent: AgentLine, number: int) -> None:
        object.__setattr__(self, "_intercode", (agent, number))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        agent, number = self._intercode
        return agent.ask("get", number, (name,), {})

    def __setattr__(self, name: str, value: Any) -> None:
        agent, number = self._intercode
        agent.ask("set", number, (name, value), {})

    def __call__(self, *args: Any, **named: Any) -> Any:
        agent, number = self._intercode
        return agent.ask("call", number, args, named)

    def _refuse(self, *_: Any) -> NoReturn:
        raise Failed("the result is an object that is not plain")

    __eq__ = __ne__ = __bool__ = __iter__ = __len__ = __contains__ = __hash__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse


def serve(request: dict[str, Any], line: socket.socket) -> None:
    """Execute one test and send the verdict. The caller ends the process then."""
    own_pid, agent = os.getpid(), AgentLine(line)
    namespace: dict[str, Any] = {"__name__": "test", "__builtins__": builtins}
    namespace.update((name, Proxy(agent, name)) for name in request["names"])
    verdict: dict[str, Any] = {"passed": True}
    try:
        for text in request["texts"]:
            exec(compile(text, "<test>", "exec", dont_inherit=True), namespace)
    except BaseException as error:
        words = str(error)[:500]
        verdict = {"passed": False, "why": f"{type(error).__name__}: {words}" if words else type(error).__name__}
    if os.getpid() == own_pid:  # a test may fork, and both go on
        wire_values.send(line, {"nonce": request["nonce"], **verdict})


def _handle(value: Any) -> int:
    """Return the number of an object of the agent's, which goes back as what it was; nothing else that is not plain is sent."""
    if isinstance(value, Remote):
        number: int = value._intercode[1]
        return number
    raise wire_values.NotPlain(f"a test passes a value of type {type(value).__name__}, which is not plain")


def _make_exception(base: Any, name: Any, words: Any, args: Any) -> Exception:
    """Return the agent's exception. Raises `Failed` if its builtin base could harm the test's own flow, or cannot be made."""
    name, words = str(name)[:_LONGEST_NAME], str(words)
    kind = getattr(builtins, base, None) if isinstance(base, str) and base not in _REFUSED else None
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        raise Failed(f"raised {name}: {words}")
    kind = kind if name == base else type(name, (kind,), {})
    for encoded in (args, ["t", words]):
        try:
            error: Exception = kind(*wire_values.decode(encoded))
            if str(error) == words:
                return error
        except Exception:  # the class refuses these arguments, or cannot print them
            continue
    raise Failed(f"raised {kind.__name__}: {words}")


def _update_in_place(argument: Any, content: Any) -> None:
    if type(argument) is not type(content):
        return
    if isinstance(argument, list):
        argument[:] = content
    elif isinstance(argument, (dict, set)):
        argument.clear()
        argument.update(content)
