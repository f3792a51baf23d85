"""A branch of an interpreter: a forked copy that serves one test and is killed after it.

    host ══ line ══ branch     first message: {"role": "far"}       calls what the agent defined           this file
                                              {"role": "script"}    runs a text against it, tells what it printed
                                              {"role": "program"}   the same with a standard input
                                              {"role": "about"}     says what the agent defined
                                              {"role": "referee"}  executes a test        only in the grader's cell: referee.py

Nothing that a branch of the agent's says is trusted, and it is told nothing but arguments, or a script to run.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import inspect
import os
import socket
import sys
import tempfile
import threading
import types
from typing import Any

from . import plain, referee
from .interpreter import Interpreter

_PRINTED = 8 << 20
_FOLDER = "/dev/shm"


def serve(interpreter: Interpreter, line: socket.socket) -> None:
    request, space = plain.receive(line), interpreter.space
    role = request["role"]
    if role == "referee":
        referee.serve(request, line)
    elif role == "far":
        Far(space, request["bind"], request["method"]).serve(line)
    elif role == "about":
        plain.send(line, about(interpreter, request["name"], request["method"]))
    else:
        plain.send(line, printed(space, request))


class Far:
    """The agent's side of a test: makes the calls that it is asked for."""

    def __init__(self, space: dict[str, Any], bind: dict[str, str], method: str) -> None:
        space.update({name: _called(space[given], method) for name, given in bind.items() if given in space})
        self._space = space
        self._held: list[Any] = []

    def serve(self, line: socket.socket) -> None:
        while True:
            request = plain.receive(line)
            try:
                reply = self._answer(request)
            except BaseException as error:
                reply = {"raised": _raised(error)}
            try:
                plain.send(line, reply)
            except plain.NotPlain as error:
                plain.send(line, {"raised": ["NotPlain", str(error)]})

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        target = self._target(request["on"])
        given, named = request["args"], request["named"]
        args = [plain.decode(each, self._held.__getitem__) for each in given]
        options = {name: plain.decode(each, self._held.__getitem__) for name, each in named.items()}
        if request["op"] == "set":
            setattr(target, *args)
            return {"value": None}
        value = getattr(target, *args) if request["op"] == "get" else target(*args, **options)
        return {"value": plain.encode(value, self._hold), **self._changed(given, args)}

    def _changed(self, given: list[Any], args: list[Any]) -> dict[str, Any]:
        """Arguments that the call changed in place go back, so that a test can look at them."""
        after = {}
        for number, argument in enumerate(args):
            if isinstance(argument, (list, dict, set)):
                now = plain.encode(argument, self._hold)
                if now != given[number] or isinstance(argument, set):
                    after[str(number)] = now
        return {"changed": after} if after else {}

    def _target(self, named: Any) -> Any:
        if isinstance(named, int):
            return self._held[named]
        if named not in self._space:
            raise NameError(f"name {named!r} is not defined")
        return self._space[named]

    def _hold(self, value: Any) -> int:
        self._held.append(value)
        return len(self._held) - 1


def _raised(error: BaseException) -> list[Any]:
    """Its nearest builtin class, its own name, its words, and its arguments if they are plain."""
    base = next((each for each in type(error).__mro__ if getattr(builtins, each.__name__, None) is each), Exception)
    try:
        args = plain.encode(error.__reduce__()[1])
    except BaseException:
        args = None
    try:
        words = str(error)[:2000]
    except BaseException:
        words = ""
    return [base.__name__, type(error).__name__, words, args]


def _called(made: Any, method: str) -> Any:
    """What a test calls: of a class that has the `method`, this one of a fresh instance."""
    if method and isinstance(made, type) and callable(getattr(made, method, None)):
        return lambda *args, **named: getattr(made(), method)(*args, **named)
    return made


def about(interpreter: Interpreter, name: str, method: str) -> dict[str, Any]:
    """Which functions and classes the agent defined, which of them last, and what the named one accepts."""
    space = interpreter.space
    made = [
        name
        for name, value in space.items()
        if isinstance(value, (types.FunctionType, type)) and getattr(value, "__module__", "") == "__main__"
    ]
    named = _called(space.get(name), method)
    last = interpreter.defined if interpreter.defined in space else ""
    return {"defined": made, "last": last, "callable": callable(named), "takes": _takes(named)}


def _takes(value: Any) -> list[int] | None:
    """The fewest and the most positional arguments (−1: any number); None where that cannot be told."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    placed = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    least = sum(each.default is each.empty for each in placed)
    return [least, -1 if any(each.kind is each.VAR_POSITIONAL for each in parameters) else len(placed)]


# -- scripts and programs -------------------------------------------------------------------------------------------------


def printed(space: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """What a text prints to its standard output, and whether it ended well. It runs in a process of its own."""
    with tempfile.TemporaryFile(dir=_FOLDER) as out, tempfile.TemporaryFile(dir=_FOLDER) as source:
        source.write(request.get("stdin", "").encode("utf-8", "surrogateescape"))
        source.seek(0)
        pid = os.fork()
        if pid == 0:
            _run(space, request, source.fileno(), out.fileno())
        _, status = os.waitpid(pid, 0)
        out.seek(0)
        return {"printed": out.read(_PRINTED).decode("utf-8", "replace"), "status": os.waitstatus_to_exitcode(status)}


def _run(space: dict[str, Any], request: dict[str, Any], source: int, out: int) -> None:
    """In the child: never returns."""
    status = 1
    try:
        os.dup2(source, 0)
        os.dup2(out, 1)
        sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[misc]
        sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[misc]
        atexit._clear()
        if request["role"] == "program":
            builtins.input = _read_line
        _execute(space, request)
        status = 0
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    finally:
        try:  # as an interpreter ends: it waits for threads, runs what was registered, and lets go of the program's module
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.modules.pop("__main__", None)
            gc.collect()
            sys.stdout.flush()
        finally:
            os._exit(status & 0xFF)


def _read_line(prompt: object = "", /) -> str:
    if not (line := sys.stdin.readline()):
        raise EOFError("the standard input has ended")
    return line.removesuffix("\n")


def _execute(space: dict[str, Any], request: dict[str, Any]) -> None:
    """A function by its name, a program in a module of its own, or a script that sees what the agent defined."""
    text = request.get("text")
    if text is None:
        space[request["name"]]()
    elif request["role"] == "program":
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        exec(compile(text, "<program>", "exec", dont_inherit=True), main.__dict__)
    else:
        bound = {name: space[given] for name, given in request.get("bind", {}).items() if given in space}
        space.update(bound)
        exec(compile(text, "<test>", "exec", dont_inherit=True), space)
