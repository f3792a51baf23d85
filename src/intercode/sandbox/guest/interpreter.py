"""The agent's Python: a namespace that lives on between actions. It runs with the agent's rights and may be taken over by it.

    cell ══ line (descriptor 200) ══ interpreter          X run an action      → "status token" when it is done
              frames: token, kind, size, payload          B fork a branch      → a child that serves the descriptor sent along

An action is compiled as a module; if its last statement is an expression, its value is echoed as an interactive session would.
Errors show the agent's own lines, those of earlier actions too. `exit()` ends the interpreter and all that was defined.
An interrupt raises KeyboardInterrupt in an action and nowhere else. If threads that the interrupted action started outlive it,
the interpreter ends: they could not be stopped otherwise.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import linecache
import os
import signal
import socket
import struct
import sys
import time
import traceback
import types
from collections.abc import Callable
from typing import Any

LINE_FD = 200
FRAME = struct.Struct("!12scI")
"""Token, kind, size of the payload that follows."""
NAME = "<action {}>"
_FUTURE = 0x1FF0000
_INTERRUPTED = 130
_LAST_THREADS = 0.03
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Branch = Callable[["Interpreter", socket.socket], None]


class Interpreter:
    def __init__(self) -> None:
        main = types.ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = main
        self.space: dict[str, Any] = main.__dict__
        self._texts = 0
        self.defined = ""
        """The function or class that an action defined last, at its top level."""
        self.flags = 0
        self._running = False
        self._pid = os.getpid()
        self._branches: list[int] = []

    def listen_to_interrupts(self) -> None:
        signal.signal(signal.SIGINT, self._interrupt)

    def run(self, source: str) -> int:
        """Execute one action; the status that it ends with."""
        threads = _threads()
        status = self._execute(source)
        _flush()
        if os.getpid() != self._pid:
            os._exit(status)
        if status == _INTERRUPTED and _still_more_than(threads):
            os._exit(status)
        return status

    def fork(self) -> int:
        pid = os.fork()
        if pid:
            self._branches.append(pid)
        return pid

    def reap(self) -> None:
        """Wait for the branches that have been ended, so that an action's own `os.wait` finds none of them."""
        self._branches = [pid for pid in self._branches if not _ended(pid)]

    def remember(self, source: str) -> str:
        """Keep the text for tracebacks; the name that it goes by."""
        self._texts += 1
        name = NAME.format(self._texts)
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        return name

    def _execute(self, source: str) -> int:
        try:
            self._running = True
            try:
                for code, shown in self._compiled(source):
                    value = eval(code, self.space)
                    if shown:
                        sys.displayhook(value)
            finally:
                self._running = False
        except SystemExit as leaving:
            _leave(leaving)
        except KeyboardInterrupt as error:
            _show(error)
            return _INTERRUPTED
        except BaseException as error:
            _show(error)
            return 1
        return 0

    def _compiled(self, source: str) -> list[tuple[types.CodeType, bool]]:
        """The statements, and apart from them a last expression. Imports from __future__ hold for later actions too."""
        name = self.remember(source)
        tree = compile(source, name, "exec", ast.PyCF_ONLY_AST | self.flags, dont_inherit=True)
        named = [node.name for node in tree.body if isinstance(node, _DEFINITIONS)]
        self.defined = named[-1] if named else self.defined
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        found = []
        if tree.body:
            found.append((compile(tree, name, "exec", self.flags, dont_inherit=True), False))
            self.flags |= found[0][0].co_flags & _FUTURE
        if isinstance(last, ast.Expr):
            shown = ast.Expression(last.value)
            found.append((compile(shown, name, "eval", self.flags, dont_inherit=True), True))
        return found

    def _interrupt(self, *_: object) -> None:
        if self._running:
            raise KeyboardInterrupt


def serve(line: socket.socket, interpreter: Interpreter, branch: Branch) -> None:
    """Until the line ends."""
    while True:
        head, *fds = _receive(line)
        token, kind, size = FRAME.unpack(head)
        payload = _payload(line, size)
        status = 0
        interpreter.reap()
        if kind == b"X":
            status = interpreter.run(payload.decode("utf-8", "surrogateescape"))
        elif kind == b"B":
            _fork(line, fds[0], branch, interpreter)
        for fd in fds:
            os.close(fd)
        line.sendall(b"%d %s\n" % (status, token))


def _receive(line: socket.socket) -> tuple[Any, ...]:
    data, fds, _, _ = socket.recv_fds(line, FRAME.size, 1)
    if len(data) < FRAME.size:
        data += _payload(line, FRAME.size - len(data))
    for fd in fds:
        os.set_inheritable(fd, False)
    return (data, *fds)


def _payload(line: socket.socket, size: int) -> bytes:
    pieces = bytearray()
    while len(pieces) < size:
        piece = line.recv(min(size - len(pieces), 1 << 20))
        if not piece:
            os._exit(0)
        pieces += piece
    return bytes(pieces)


def _fork(line: socket.socket, fd: int, branch: Branch, interpreter: Interpreter) -> None:
    try:
        if interpreter.fork():
            return
    except OSError:  # too many processes: who waits for the branch sees its line end
        return
    try:
        own = socket.socket(fileno=fd)
        line.close()
        for number in (1, 2):
            os.dup2(0, number)
        branch(interpreter, own)
    finally:
        os._exit(0)


def _ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


# -- what an action shows -------------------------------------------------------------------------------------------------


def _show(error: BaseException) -> None:
    """The traceback, with the agent's own lines alone."""
    _flush()
    try:
        shown = traceback.TracebackException(type(error), error, error.__traceback__)
        _own_lines(shown)
        text = "".join(shown.format())
    except BaseException as trouble:
        text = f"{type(error).__name__} (and its traceback cannot be shown: {type(trouble).__name__})\n"
    error.__traceback__ = None
    with contextlib.suppress(OSError):
        _write_all(2, text.encode("utf-8", "backslashreplace"))


def _own_lines(shown: traceback.TracebackException | None) -> None:
    while shown is not None:
        stack = shown.stack
        stack[:] = [each for each in stack if not (each.filename == __file__ or each.filename.startswith(_FOREIGN))]
        _own_lines(shown.__context__)
        shown = shown.__cause__


_FOREIGN = ("<frozen ", os.path.dirname(os.__file__) + "/", "/usr/lib/python", "/usr/local/lib/python")


def _leave(leaving: SystemExit) -> None:
    _flush()
    status = leaving.code
    if status is not None and not isinstance(status, int):
        _write_all(2, f"{status}\n".encode("utf-8", "backslashreplace"))
        status = 1
    os._exit((status or 0) & 0xFF)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):  # the agent may have put anything there
            stream.flush()


def _still_more_than(threads: int) -> bool:
    until = time.monotonic() + _LAST_THREADS
    while _threads() > threads:
        if time.monotonic() > until:
            return True
        time.sleep(0.002)
    return False


def _threads() -> int:
    """How many this process has."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


# -- from a fresh process to an interpreter -------------------------------------------------------------------------------


def furnish(environment: dict[str, str], path: list[str], finders: list[Any]) -> None:
    """What a program finds at its start: streams, environment, import path. Nothing of the guest is in sight."""
    os.set_inheritable(LINE_FD, False)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = ["", *path]
    sys.meta_path[:] = finders
    sys.path_importer_cache.clear()
    sys.argv[:] = [""]
    for name in [name for name in sys.modules if name.partition(".")[0] == "guest"]:
        del sys.modules[name]
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "surrogateescape")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "backslashreplace")  # type: ignore[misc]
    builtins.input = _no_input


def _stream(fd: int, errors: str) -> io.TextIOWrapper:
    raw = io.FileIO(fd, "wb", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", errors, line_buffering=True)


def _no_input(prompt: object = "", /) -> str:
    raise EOFError("input() has nobody to ask: there is no standard input here; write the values into the code")
