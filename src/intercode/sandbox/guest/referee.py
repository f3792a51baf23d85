"""The grader's side of a test: it holds the test's text and the expected values, and never a line of the agent's code.

    test ── calls NAME ──► Proxy ── plain arguments ──► host ──► the agent's branch
                             └───── plain result, or "raised TYPE: words" ◄─┘

The submitted name is a proxy. What comes back is decoded by type; an object that is not plain stays on the agent's side, as a
`Remote` that has attributes and can be handed back in a call, but compares with nothing, is neither true nor false and cannot
be iterated: it cannot pass a test by pretending.

A process here executes one test and ends. A test may give up waiting for a call (an alarm, a thread or a process with a time
limit); the call's late answer then finds nobody. Only the process that received the request sends the verdict, with the
request's nonce, which the agent's side never sees.
"""

from __future__ import annotations

import builtins
import os
import socket
from typing import Any, NoReturn

from . import plain

_REPLACED = frozenset(("StopIteration", "StopAsyncIteration", "GeneratorExit"))
"""These would end a loop of the test's own."""
_NAME = 200


class Failed(BaseException):
    """The agent's side did something that no test can pass with, not even one that expects an exception."""


class Side:
    """The agent's side, as this one sees it. Threads and processes of one test take turns in asking it."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._turn, self._next = os.pipe()
        os.write(self._next, b".")

    def ask(self, op: str, on: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given = [plain.encode(each, _number) for each in args]
        options = {name: plain.encode(each, _number) for name, each in named.items()}
        value, error = self._taken_in(self._exchange({"ask": {"op": op, "on": on, "args": given, "named": options}}), args)
        if error is not None:
            raise error
        return value

    def _exchange(self, question: dict[str, Any]) -> Any:
        """Send the question and return the answer. After a call that a test gave up there is no further turn."""
        os.read(self._turn, 1)
        try:
            plain.send(self._line, question)
        except plain.NotPlain:  # nothing was sent
            os.write(self._next, b".")
            raise
        answer = plain.receive_raw(self._line)
        os.write(self._next, b".")
        try:
            return plain.parse(answer)
        except plain.NotPlain as error:
            raise Failed(str(error)) from None

    def _taken_in(self, reply: Any, args: tuple[Any, ...]) -> tuple[Any, Exception | None]:
        """What was returned, or raised. The test sees no other exception than that one, whatever the other side made up."""
        try:
            if "raised" in reply:
                return None, _made(*reply["raised"])
            value = self._decoded(reply["value"])
            for number, content in reply.get("changed", {}).items():
                _refill(args[int(number)], self._decoded(content))
        except Exception as error:
            raise Failed(f"the answer is not plain: {type(error).__name__}") from None
        return value, None

    def _decoded(self, content: Any) -> Any:
        return plain.decode(content, lambda number: Remote(self, number))


class Proxy:
    """Stands for one of the agent's functions or classes."""

    def __init__(self, side: Side, name: str) -> None:
        self._intercode = (side, name)

    def __call__(self, *args: Any, **named: Any) -> Any:
        side, name = self._intercode
        return side.ask("call", name, args, named)


class Remote:
    """An object that stays on the agent's side."""

    def __init__(self, side: Side, number: int) -> None:
        object.__setattr__(self, "_intercode", (side, number))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        side, number = self._intercode
        return side.ask("get", number, (name,), {})

    def __setattr__(self, name: str, value: Any) -> None:
        side, number = self._intercode
        side.ask("set", number, (name, value), {})

    def __call__(self, *args: Any, **named: Any) -> Any:
        side, number = self._intercode
        return side.ask("call", number, args, named)

    def _refuse(self, *_: Any) -> NoReturn:
        raise Failed("the result is an object that is not plain")

    __eq__ = __ne__ = __bool__ = __iter__ = __len__ = __contains__ = __hash__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse


def serve(request: dict[str, Any], line: socket.socket) -> None:
    """Execute one test and send the verdict. The caller ends the process then."""
    own = os.getpid()
    verdict = _test(request, Side(line))
    if os.getpid() == own:  # a test may fork, and both go on
        plain.send(line, {"nonce": request["nonce"], **verdict})


def _test(request: dict[str, Any], side: Side) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "test", "__builtins__": builtins}
    space.update((name, Proxy(side, name)) for name in request["names"])
    try:
        for text in request["texts"]:
            exec(compile(text, "<test>", "exec", dont_inherit=True), space)
    except BaseException as error:
        words = str(error)[:500]
        return {"passed": False, "why": f"{type(error).__name__}: {words}" if words else type(error).__name__}
    return {"passed": True}


def _number(value: Any) -> int:
    """The agent's own objects go back as what they were; nothing else that is not plain crosses."""
    if isinstance(value, Remote):
        number: int = value._intercode[1]
        return number
    raise plain.NotPlain(f"a test passes a value of type {type(value).__name__}, which is not plain")


def _made(base: Any, name: Any, words: Any, args: Any) -> Exception:
    """The agent's exception, if its builtin base is one that can do no harm to the test's own flow."""
    name, words = str(name)[:_NAME], str(words)
    kind = getattr(builtins, base, None) if isinstance(base, str) and base not in _REPLACED else None
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        raise Failed(f"raised {name}: {words}")
    return _filled(kind if name == base else type(name, (kind,), {}), words, args)


def _filled(kind: type[Exception], words: str, args: Any) -> Exception:
    for given in (args, ["t", words]):
        try:
            error = kind(*plain.decode(given))
            if str(error) == words:
                return error
        except Exception:  # arguments that it does not take, or that cannot be shown
            continue
    raise Failed(f"raised {kind.__name__}: {words}")


def _refill(argument: Any, content: Any) -> None:
    if type(argument) is not type(content):
        return
    if isinstance(argument, list):
        argument[:] = content
    elif isinstance(argument, (dict, set)):
        argument.clear()
        argument.update(content)
