"""A branch of an interpreter: a forked copy that serves one test and is killed after it.

    host ══ line ══ branch     first message: {"role": "agent"}     calls what the agent defined
                                              {"role": "script"}    runs a text against it and
                                                                    reports what the text printed
                                              {"role": "program"}   the same with a standard input
                                              {"role": "about"}     describes what the agent defined
                                              {"role": "grader"}    executes a test; only in the
                                                                    grader's sandbox

Nothing that an agent's branch reports is trusted, and it receives nothing but arguments, or a
script to run. A grader's branch holds the test's text and the expected values, and never a line of
the agent's code:

    test ── calls NAME ──► Proxy ── plain arguments ──► host ──► the agent's branch
                             └───── plain result, or "raised TYPE: words" ◄─┘

The submitted name is a proxy. What comes back is decoded by type. An object that is not plain stays
on the agent's side, and the test gets a `Remote`, which has attributes, items and a length, and can
be handed back in a call, but compares with nothing, contains nothing and is neither true nor false:
it cannot pass a test by pretending.

A grader's branch sends the host a head, which the host reads: {"ask": true} before a message that
the host carries to the agent's side unopened, or the verdict.

A test may give up waiting for a call (an alarm, a thread or a process with a time limit); the
call's late answer then finds no reader. Only the process that received the request sends the
verdict, with its nonce, which the agent's side never sees.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import gc
import inspect
import os
import socket
import sys
import tempfile
import threading
import time
import types
from collections import abc, deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from traceback import walk_tb
from typing import Any, NoReturn

from . import wire_values
from .python_interpreter import Interpreter, is_action
from .wire_values import Message

_FOLDER = "/dev/shm"
_LOOP_ENDS = frozenset(("StopIteration", "StopAsyncIteration", "GeneratorExit"))
"""These would end a loop in the test itself."""
_LONGEST_NAME, _LONGEST_WORDS = 200, 1 << 20
_LONGEST_REASON = 500
_MOST_NAMES = 50
_SIDES = {"got": "_intercode_got", "expected": "_intercode_expected"}
"""The sides of a comparison, and their names in the test that compares."""
_COMPARES = ("_agrees", "isclose")
"""Functions of tests that compare two values: that of APPS, and that of numbers."""
_ONE_BY_ONE, _MOST_AHEAD, _AHEAD = 100, 1000, 0.0002
"""Batches of a remote iterator: the first 100 items travel one by one, later ones up to 1000 at a
time or what 0.2 ms yield."""
_AT_ITS_END = b"\0"
"""A script's process writes this in place of a reason if the script came to its end."""
_ASK = wire_values.frame(wire_values.pack({"ask": True}))
Namespace = dict[str, Any]


def serve(interpreter: Interpreter, line: socket.socket) -> None:
    request = wire_values.receive(line)
    role = request["role"]
    if role == "grader":
        _run_test(request, line)
    elif role == "agent":
        AgentSide(interpreter, request).serve(line)
    elif role == "about":
        wire_values.send(line, _describe(interpreter, request["name"], request["method"]))
    else:
        _run_script(interpreter.namespace, request, line)


class AgentSide:
    """The agent's side of a test: makes the calls that the test asks for. The test finds the answer
    under the name in `bind`, and none of the names `asked` that came with the task; the answer
    itself finds what the agent had."""

    def __init__(self, interpreter: Interpreter, request: Message) -> None:
        self._namespace, self._answers = interpreter.namespace, Message()
        self._given = {name for name in request["asked"] if not interpreter.is_agents(name)}
        for name, defined in request["bind"].items():
            if defined in self._namespace:
                self._answers[name] = _to_call(self._namespace[defined], request["method"])
        self._held = list[Any]()
        self._batches = dict[int, Iterator[list[Any]]]()

    def serve(self, line: socket.socket) -> None:
        while True:
            request = wire_values.receive(line)
            try:
                body = wire_values.pack(self._answer(request))
            except wire_values.NotPlain as error:
                body = wire_values.pack({"failed": f"the result: {error}"})
            except BaseException as error:
                body = _pack_exception(error)
            wire_values.send_raw(line, body)

    def _answer(self, request: Message) -> Message:
        """Get, set, call, or take items. Arguments that a call changed in place go back, so that a
        test can inspect them."""
        op, on, encoded = request["op"], request["on"], request["args"]
        if isinstance(on, int):
            target = self._held[on]
        elif on in self._answers:
            target = self._answers[on]
        elif on in self._namespace and on not in self._given:
            target = self._namespace[on]
        else:
            raise NameError(f"name {on!r} is not defined")
        args = [wire_values.decode(tokens, self._open) for tokens in encoded]
        value: Any = None
        if op == "set":
            setattr(target, *args)
        elif op == "get":
            value = getattr(target, *args)
        elif op == "next":
            value = next(self._batches.setdefault(on, _in_batches(target)), None)
        else:
            named = request["named"].items()
            options = {name: wire_values.decode(tokens, self._open) for name, tokens in named}
            value = target(*args, **options)
        changed = Message()
        reply = {"value": wire_values.encode(value, self._hold), "changed": changed}
        for number, argument in enumerate(args):
            if isinstance(argument, (list, dict, set, bytearray, deque)):
                now = wire_values.encode(argument, self._hold)
                if now != encoded[number] or isinstance(argument, set):
                    changed[str(number)] = now
        return reply

    def _hold(self, value: Any) -> list[Any]:
        number, kind = len(self._held), type(value).__name__[:_LONGEST_NAME]
        self._held.append(value)
        return ["handle", 0, number, kind, isinstance(value, abc.Iterator)]

    def _open(self, token: list[Any]) -> Any:
        return self._held[token[2]]


def _in_batches(items: Iterator[Any]) -> Iterator[list[Any]]:
    """Yield the items, the first ones one by one, then as many at a time as come at once."""
    batch: list[Any] = []
    until = 0.0
    try:
        for number, item in enumerate(items):
            batch.append(item)
            if number < _ONE_BY_ONE or len(batch) == _MOST_AHEAD or time.monotonic() > until:
                yield batch
                batch, until = [], time.monotonic() + _AHEAD
    except Exception:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _pack_exception(error: BaseException) -> bytes:
    """Pack the nearest builtin class, the name, the words, and the arguments if they are plain and
    not too large."""
    base = next(
        (cls for cls in type(error).__mro__ if getattr(builtins, cls.__name__, None) is cls),
        Exception,
    )
    args, words = None, ""
    with suppress(BaseException):
        args = wire_values.encode(error.__reduce__()[1])
    with suppress(BaseException):
        words = str(error)[:_LONGEST_WORDS]
    raised = [base.__name__, type(error).__name__[:_LONGEST_NAME], words]
    try:
        return wire_values.pack({"raised": [*raised, args]})
    except wire_values.NotPlain:
        return wire_values.pack({"raised": [*raised, None]})


def _to_call(defined: Any, method: str) -> Any:
    """Return the callable for a test: of a class that has the `method`, that of a fresh
    instance."""
    if method and isinstance(defined, type) and callable(getattr(defined, method, None)):
        return lambda *args, **named: getattr(defined(), method)(*args, **named)
    return defined


def _describe(interpreter: Interpreter, name: str, method: str) -> Message:
    """Return the functions and classes that the agent defined, the last one, whether it defined or
    imported something callable called `name`, and the arguments that this accepts.

    `takes` holds the minimum and maximum number of positional arguments (−1: any number); it is
    empty if they are unknown.
    """
    namespace = interpreter.namespace
    defined = [
        name[:_LONGEST_NAME]
        for name, value in namespace.items()
        if isinstance(value, (types.FunctionType, type))
        and getattr(value, "__module__", "") == "__main__"
        and interpreter.is_agents(name)
    ]
    value = _to_call(namespace.get(name), method)
    takes = list[int]()
    with suppress(TypeError, ValueError):
        parameters = inspect.signature(value).parameters.values()
        takes = [0, 0]
        for parameter in parameters:
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                takes[0] += parameter.default is parameter.empty
                takes[1] += 1
            elif parameter.kind is parameter.VAR_POSITIONAL:
                takes[1] = -1
    last = interpreter.last_definition
    return {
        "defined": defined[:_MOST_NAMES],
        "last": last if interpreter.is_agents(last) else "",
        "given": name in namespace and not interpreter.is_agents(name),
        "imported": getattr(namespace.get(name), "__module__", "") != "__main__",
        "callable": callable(value),
        "takes": takes,
    }


# -- scripts and programs --------------------------------------------------------------------------


def _run_script(namespace: Namespace, request: Message, line: socket.socket) -> None:
    """Run a text in a separate process. Send its status, the exception that ended it, and up to
    `most` bytes of its standard output. A script that the answer ended early has the status -1."""
    with (
        tempfile.TemporaryFile(dir=_FOLDER) as out,
        tempfile.TemporaryFile(dir=_FOLDER) as source,
        tempfile.TemporaryFile(dir=_FOLDER) as fault,
    ):
        source.write(request["stdin"].encode("utf-8", "surrogateescape"))
        source.seek(0)
        file = request["file"] = f"{_FOLDER}/program-{os.getpid()}.py"
        if request["role"] == "program" and request["text"] is not None:
            with open(file, "w", encoding="utf-8", errors="surrogateescape") as program:
                program.write(request["text"])
        pid = os.fork()
        if pid == 0:
            _run_in_child(namespace, request, source.fileno(), out.fileno(), fault.fileno())
        _, status = os.waitpid(pid, 0)
        with suppress(FileNotFoundError):
            os.unlink(file)
        out.seek(0)
        fault.seek(0)
        code, why = os.waitstatus_to_exitcode(status), fault.read(_LONGEST_REASON)
        if code == 0 and request["role"] == "script" and why != _AT_ITS_END:
            code, why = -1, b"the answer ended the process before the end of the test"
        words = why.removesuffix(_AT_ITS_END).decode(errors="replace")
        wire_values.send(line, {"status": code, "why": words})
        wire_values.send_raw(line, out.read(request["most"]))


def _run_in_child(
    namespace: Namespace, request: Message, source: int, out: int, fault: int
) -> None:
    """Run the text and end as an interpreter ends; write the exception that ends it to `fault`.
    Never returns."""
    status, ended = 1, False
    # the end of a stream that the agent opened would close the descriptor
    _kept = sys.stdin, sys.stdout, sys.__stdin__, sys.__stdout__
    gc.freeze()  # the last collection need not look at what was inherited
    try:
        os.dup2(source, 0)
        os.dup2(out, 1)
        sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)
        sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
        sys.__stdin__ = sys.stdin  # type: ignore[misc]
        sys.__stdout__ = sys.stdout  # type: ignore[misc]
        atexit._clear()
        if request["role"] == "program":
            builtins.input = _read_line
        _execute(namespace, request)
        status, ended = 0, True
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        frames = walk_tb(leaving.__traceback__)
        ended = not any(is_action(frame.f_code.co_filename) for frame, _ in frames)
    except BaseException as error:
        os.write(fault, _last_line(error).encode(errors="replace"))
    finally:
        if ended:
            os.write(fault, _AT_ITS_END)
        # as an interpreter ends: it waits for threads, runs exit functions, and lets go of the
        # program's module
        try:
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.modules.pop("__main__", None)
            gc.collect()
            sys.stdout.flush()
        finally:
            os._exit(status & 0xFF)


def _read_line(prompt: object = "", /) -> str:
    """Print the prompt and read a line, as `input` does where no terminal is."""
    sys.stdout.write(str(prompt))
    sys.stdout.flush()
    if not (line := sys.stdin.readline()):
        raise EOFError("the standard input has ended")
    return line.removesuffix("\n")


def _execute(namespace: Namespace, request: Message) -> None:
    """Execute a function by its name, a program in its own module, or a script that sees what the
    agent defined."""
    text = request["text"]
    if text is None:
        namespace[request["name"]]()
    elif request["role"] == "program":
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        main.__file__ = sys.argv[0] = request["file"]
        exec(compile(text, main.__file__, "exec", dont_inherit=True), main.__dict__)
    else:
        for name, defined in request["bind"].items():
            if defined in namespace:
                namespace[name] = namespace[defined]
        exec(compile(text, "<test>", "exec", dont_inherit=True), namespace)


# -- the grader's side of a test -------------------------------------------------------------------


class Failed(BaseException):
    """The agent's side did something after which no test can pass, not even one that expects an
    exception."""


class AgentLine:
    """The line to the agent's side. Threads and processes of one test take turns using it."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._turn, self._next_turn = os.pipe()
        os.write(self._next_turn, b".")

    def ask(self, on: str | int, op: str, /, *args: Any, **named: Any) -> Any:
        """Have the agent's side call, get or set; return the value.

        Raises the exception that the agent's side raised. The test sees no other exception,
        whatever the agent's side sends.
        """
        try:
            encoded = [wire_values.encode(arg, _handle) for arg in args]
            options = {name: wire_values.encode(arg, _handle) for name, arg in named.items()}
            question = wire_values.pack({"op": op, "on": on, "args": encoded, "named": options})
        except wire_values.NotPlain as problem:
            raise Failed(f"the test's arguments: {problem}") from None
        reply = self._exchange(question)
        value = error = None
        try:
            if "failed" in reply:
                raise Failed(str(reply["failed"])[:_LONGEST_REASON])
            if "raised" in reply:
                error = _make_exception(*reply["raised"])
            else:
                value = wire_values.decode(reply["value"], self._open)
                for number, content in reply.get("changed", {}).items():
                    _update_in_place(args[int(number)], wire_values.decode(content, self._open))
        except Exception as problem:
            raise Failed(f"the answer is not plain: {type(problem).__name__}") from None
        if error is not None:
            raise error
        return value

    def _exchange(self, question: bytes) -> Any:
        """Send the question and return the answer. After a call that a test gave up on, there is no
        further turn."""
        os.read(self._turn, 1)
        # in one call, since an alarm that the test set may interrupt
        self._line.sendall(_ASK + wire_values.frame(question))
        answer = wire_values.receive_raw(self._line)
        os.write(self._next_turn, b".")
        try:
            return wire_values.parse(answer)
        except wire_values.NotPlain as error:
            raise Failed(str(error)) from None

    def _open(self, token: list[Any]) -> Remote:
        _, _, number, name, iterates = token
        kind = RemoteIterator if iterates is True else Remote
        return kind(self, int(number), str(name)[:_LONGEST_NAME])


class Proxy:
    """Represents a function or class that the agent defined."""

    _intercode_ask: abc.Callable[..., Any]

    def __init__(self, agent: AgentLine, on: str | int, kind: str = "") -> None:
        ask = partial(agent.ask, on)
        vars(self).update(_intercode_ask=ask, _intercode_number=on, _intercode_kind=kind)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._intercode_ask("call", *args, **named)


class Remote(Proxy):
    """An object that stays on the agent's side."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._intercode_ask("get", name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._intercode_ask("set", name, value)

    def _intercode_call(self, name: str, *args: Any) -> Any:
        try:
            method = self._intercode_ask("get", name)
        except AttributeError:
            raise TypeError(f"an object of type {self._intercode_kind} has no {name}") from None
        return method(*args)

    def __iter__(self) -> Any:
        return self._intercode_call("__iter__")

    def __len__(self) -> Any:
        return self._intercode_call("__len__")

    def __getitem__(self, key: Any) -> Any:
        return self._intercode_call("__getitem__", key)

    def _intercode_fail(self, *_: Any) -> NoReturn:
        raise Failed(
            f"an object of type {self._intercode_kind} is not plain, "
            "so nothing can be compared with it"
        )

    __eq__ = __ne__ = __bool__ = __contains__ = __hash__ = __lt__ = __le__ = __gt__ = __ge__ = (
        _intercode_fail
    )


class RemoteIterator(Remote):
    """An iterator that stays on the agent's side. Its items come in batches."""

    def __init__(self, agent: AgentLine, number: int, kind: str) -> None:
        super().__init__(agent, number, kind)
        batches = iter(partial(agent.ask, number, "next"), None)
        vars(self)["_intercode_items"] = chain.from_iterable(batches)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._intercode_items)


def _run_test(request: Message, line: socket.socket) -> None:
    """Execute one test and send the verdict. The caller then ends the process."""
    own_pid, agent = os.getpid(), AgentLine(line)
    proxies = {name: Proxy(agent, name) for name in request["names"]}
    namespace = {"__name__": "test", "__builtins__": builtins, **proxies}
    verdict: Message = {"passed": True}
    try:
        for number, text in enumerate(request["texts"], start=1):
            tree = _with_sides(ast.parse(text))
            file = "<test>" if number == len(request["texts"]) else "<setup>"
            exec(compile(tree, file, "exec", dont_inherit=True), namespace)
            namespace.update((name, proxies[name]) for name in request["asked"])
    except BaseException as error:
        verdict = {"passed": False, "why": _last_line(error) + _failed_line(error, text)}
        if isinstance(error, AssertionError):
            for side, name in _SIDES.items():
                with suppress(Exception):  # a value without a text
                    verdict[side] = repr(namespace[name])[:_LONGEST_REASON]
    if os.getpid() == own_pid:  # a test may fork, and both go on
        wire_values.send(line, {"nonce": request["nonce"], **verdict})


def _last_line(error: BaseException) -> str:
    """Return the last line of the error's traceback."""
    words = str(error)[:_LONGEST_REASON]
    if not words:
        return type(error).__name__
    return f"{type(error).__name__}: {words}"


def _failed_line(error: BaseException, test: str) -> str:
    """Return the line of a test of several lines whose assert failed without a message."""
    frames = walk_tb(error.__traceback__)
    numbers = [number for frame, number in frames if frame.f_code.co_filename == "<test>"]
    if str(error) or not numbers or "\n" not in test.strip():
        return ""
    return f": {test.splitlines()[numbers[-1] - 1].strip()[:_LONGEST_REASON]}"


def _with_sides(tree: ast.Module) -> ast.Module:
    """Name both sides of a comparison that a test ends with, so that a failed one can say what it
    got: `assert add(1, 2) == 3` becomes `assert (GOT := add(1, 2)) == (EXPECTED := 3)`."""
    got, expected = _SIDES.values()
    match tree.body[-1:]:
        case [ast.Assert(ast.Compare(left, [ast.Eq() | ast.Is()], [right]) as compared)]:
            if isinstance(left, ast.Constant):
                got, expected = expected, got
            compared.left, compared.comparators = _named(got, left), [_named(expected, right)]
        case [
            ast.Assert(ast.Call(ast.Name(name) | ast.Attribute(attr=name), [left, right]) as call)
        ] if name in _COMPARES:
            call.args = [_named(got, left), _named(expected, right)]
    return ast.fix_missing_locations(tree)


def _named(name: str, value: ast.expr) -> ast.expr:
    return ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), value), value)


def _handle(value: Any) -> list[Any]:
    """Return the token of an agent's object, which goes back as the object itself; nothing else
    that is not plain is sent."""
    if isinstance(value, Remote):
        return ["handle", 0, value._intercode_number]
    raise wire_values.NotPlain(f"a value of type {type(value).__name__} is not plain")


def _make_exception(base: Any, name: Any, words: Any, args: Any) -> Exception:
    """Return the agent's exception. Raises `Failed` if its builtin base could disturb the test's
    control flow, or if it cannot be made."""
    name, words = str(name)[:_LONGEST_NAME], str(words)
    kind = getattr(builtins, str(base), None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or base in _LOOP_ENDS:
        raise Failed(f"raised {name}: {words}")
    if name != base:
        kind = type(name, (kind,), {})
    for encoded in (args, [["tuple", 1], words]):
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
    if isinstance(argument, (dict, set)):
        argument.clear()
        argument.update(content)
    elif isinstance(argument, (list, bytearray, deque)):
        argument.clear()
        argument.extend(content)
