"""The agent's Python: a namespace that persists between actions. It has the agent's rights, and the
agent may take it over.

    episode server ══ line (descriptor 200) ══ interpreter
              frames: token, kind, size, payload

    X run an action     → "status token" when it is done
    B fork a branch     → a child that serves the descriptor sent along; status 1 if it cannot be
                          forked

The interpreter is a clone of the episode server, or the python3 of an image that has its own:

    lent /usr        episode server ── fork ──► `interpret`
    own userland     episode server ── spawn ──► python3 -c BOOT
                                         ── the texts of MODULES come over the line ──► `interpret`

An action is compiled as a module; if its last statement is an expression, its value is echoed as in
an interactive session. Tracebacks show the agent's own lines, those of earlier actions too.
`exit()` ends the interpreter and all that was defined. An interrupt raises KeyboardInterrupt in an
action and nowhere else. If threads that the interrupted action started outlive it, the interpreter
ends: there is no other way to stop them.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import dis
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

from . import wire_values

GIVEN = "\f\f# given with the task\n"
"""An action that begins with this is the task's: what it leaves is not the agent's work. No agent
begins with form feeds."""
MODULES = ("limit", "wire_values", "python_interpreter", "python_branch")
"""The modules sent to an image's own python3, in the order in which they import each other."""
BOOT = """
import json, socket, sys, types
line = socket.socket(fileno=200)
def read(size):
    data = b""
    while len(data) < size:
        data += line.recv(size - len(data))
    return data
guest = sys.modules["guest"] = types.ModuleType("guest")
guest.__path__ = []
for name, text in json.loads(read(int.from_bytes(read(8), "big"))):
    module = sys.modules["guest." + name] = types.ModuleType("guest." + name)
    module.__package__, module.__file__ = "guest", "<guest>/" + name
    exec(compile(text, module.__file__, "exec"), module.__dict__)
    setattr(guest, name, module)
import os
path = [entry for entry in sys.path if entry]
guest.python_interpreter.interpret(
    line, guest.python_branch.serve, dict(os.environ), path, list(sys.meta_path))
"""
LINE_FD = 200
FRAME = struct.Struct("!12scI")
"""Token, kind, size of the payload that follows."""
_FILE_NAME = "<action {}>"
_FUTURE_FLAGS = 0x1FF0000
_INTERRUPTED = 130
_LAST_THREADS = 0.03
_FOREIGN_FILES = (
    __file__,
    "<frozen ",
    os.path.dirname(os.__file__) + "/",
    "/usr/lib/python",
    "/usr/local/lib/python",
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
ServeBranch = Callable[["Interpreter", socket.socket], None]


def is_action(file_name: str) -> bool:
    """Return whether this is the file name of an action's code."""
    return file_name.startswith(_FILE_NAME[:-3])


class Interpreter:
    last_definition = ""
    """The function or class that an action defined last, at its top level."""
    _texts = _flags = 0
    _running = False

    def __init__(self) -> None:
        main = types.ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = main
        self.namespace = main.__dict__
        self._given = dict[str, tuple[Any, dict[str, Any]]]()
        """The values that the task's preamble left, by name, with the attributes of classes."""
        self._bound = set[str]()
        """The names of the module that actions bound, by whatever value."""
        self._pid = os.getpid()
        self._branches = list[int]()

    def interrupt(self, *_: object) -> None:
        """Handle SIGINT."""
        if self._running:
            raise KeyboardInterrupt

    def run(self, source: str) -> int:
        """Execute an action and return its status."""
        threads = _thread_count()
        status = self._execute(source)
        if source.startswith(GIVEN):
            self._given = {
                name: (value, _attributes(value)) for name, value in self.namespace.items()
            }
        _flush()
        if os.getpid() != self._pid:  # the action forked, and this is the child
            os._exit(status)
        if status == _INTERRUPTED:
            until = time.monotonic() + _LAST_THREADS
            while _thread_count() > threads:
                if time.monotonic() > until:
                    os._exit(status)
                time.sleep(0.002)
        return status

    def is_agents(self, name: str) -> bool:
        """Return whether `name` is the agent's work: an action bound it, or changed what was given
        with the task."""
        if name not in self.namespace or name in self._bound or name not in self._given:
            return name in self.namespace
        value, (before, attributes) = self.namespace[name], self._given[name]
        return value is not before or _attributes(value) != attributes

    def _execute(self, source: str) -> int:
        try:
            self._running = True
            try:
                parts = self._compile(source)
                if self._given:
                    self._bound.update(*(_stored(code) for code, _ in parts))
                for code, echo in parts:
                    value = eval(code, self.namespace)
                    if echo:
                        sys.displayhook(value)
            finally:
                self._running = False
        except SystemExit as leaving:
            _flush()
            status = leaving.code
            if status is not None and not isinstance(status, int):
                _write_all(2, f"{status}\n".encode("utf-8", "backslashreplace"))
                status = 1
            status = (status or 0) & 0xFF
            if os.getpid() == self._pid:  # the definitions stay, as in `python -i`
                _write_all(2, b"[exit status %d]\n" % status)
            return status
        except KeyboardInterrupt as error:
            _print_traceback(error)
            return _INTERRUPTED
        except BaseException as error:
            _print_traceback(error)
            return 1
        return 0

    def _compile(self, source: str) -> list[tuple[types.CodeType, bool]]:
        """Return the code of the statements and, separately, of a last expression, which is echoed;
        let tracebacks show the text.

        Imports from __future__ hold for later actions too.
        """
        self._texts += 1
        name = _FILE_NAME.format(self._texts)
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        tree = compile(source, name, "exec", ast.PyCF_ONLY_AST | self._flags, dont_inherit=True)
        for node in tree.body:
            if isinstance(node, _DEFINITIONS):
                self.last_definition = node.name
        expression = None
        match tree.body:
            case [*_, ast.Expr(value)]:
                tree.body.pop()
                expression = ast.Expression(value)
        parts = []
        if tree.body:
            parts.append((compile(tree, name, "exec", self._flags, dont_inherit=True), False))
            self._flags |= parts[0][0].co_flags & _FUTURE_FLAGS
        if expression:
            parts.append((compile(expression, name, "eval", self._flags, dont_inherit=True), True))
        return parts

    def fork_branch(self, line: socket.socket, fd: int, serve_branch: ServeBranch) -> int:
        """Fork a branch that serves `fd`. Return the status, which is 1 if there is no room for
        another process."""
        try:
            pid = os.fork()
        except OSError:
            return 1
        if pid:
            self._branches.append(pid)
            return 0
        try:
            branch_line = socket.socket(fileno=fd)
            line.close()
            for number in (1, 2):
                os.dup2(0, number)
            serve_branch(self, branch_line)
        finally:
            os._exit(0)

    def reap(self) -> None:
        """Wait for the branches that have ended, so that an action's own `os.wait` finds none of
        them."""
        for pid in list(self._branches):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] != pid:
                    continue
            self._branches.remove(pid)


def _stored(code: types.CodeType) -> set[str]:
    """Return the names of the module that code stores, also in functions."""
    names, codes = set[str](), [code]
    for part in codes:
        codes += [const for const in part.co_consts if isinstance(const, types.CodeType)]
        for step in dis.get_instructions(part):
            if step.opname == "STORE_GLOBAL" or (step.opname == "STORE_NAME" and part is code):
                names.add(step.argval)
    return names


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of a class but those that reading it may add."""
    if not isinstance(value, type):
        return {}
    attributes = dict(vars(value))
    attributes.pop("__annotations__", None)
    return attributes


def interpret(
    line: socket.socket,
    serve_branch: ServeBranch,
    environment: dict[str, str],
    path: list[str],
    finders: list[Any],
) -> None:
    """Become an interpreter and serve the line; exit when the line ends.

    The agent finds what a program finds at its start: streams, environment, import path. Nothing of
    the guest is visible.
    """
    os.set_inheritable(LINE_FD, False)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = ["", *path]
    sys.meta_path[:] = finders
    sys.path_importer_cache.clear()
    sys.argv[:] = [""]
    for name in list(sys.modules):
        if name.partition(".")[0] == "guest":
            del sys.modules[name]
    stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")
    sys.stdin = sys.__stdin__ = stdin  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "surrogateescape")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "backslashreplace")  # type: ignore[misc]
    builtins.input = _raise_end_of_input
    interpreter = Interpreter()
    signal.signal(signal.SIGINT, interpreter.interrupt)
    with contextlib.suppress(EOFError):
        while True:
            head, fds, _, _ = socket.recv_fds(line, FRAME.size, 1)
            head += wire_values.read_exactly(line, FRAME.size - len(head))
            for fd in fds:
                os.set_inheritable(fd, False)
            token, kind, size = FRAME.unpack(head)
            payload = wire_values.read_exactly(line, size)
            interpreter.reap()
            if kind == b"X":
                status = interpreter.run(payload.decode("utf-8", "surrogateescape"))
            else:
                status = interpreter.fork_branch(line, fds[0], serve_branch)
            for fd in fds:
                os.close(fd)
            line.sendall(b"%d %s\n" % (status, token))
    os._exit(0)


def _stream(fd: int, errors: str) -> io.TextIOWrapper:
    raw = io.FileIO(fd, "wb", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", errors, line_buffering=True)


def _raise_end_of_input(prompt: object = "", /) -> str:
    raise EOFError(
        "input() cannot be used: there is no standard input here; write the values into the code"
    )


def _thread_count() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


def _print_traceback(error: BaseException) -> None:
    """Print the traceback with only the agent's own lines."""
    _flush()
    try:
        printed = traceback.TracebackException(type(error), error, error.__traceback__)
        _keep_own_lines(printed)
        text = "".join(printed.format())
    except BaseException as trouble:
        text = (
            f"{type(error).__name__} (and its traceback cannot be printed: "
            f"{type(trouble).__name__})\n"
        )
    error.__traceback__ = None
    with contextlib.suppress(OSError):
        _write_all(2, text.encode("utf-8", "backslashreplace"))


def _keep_own_lines(printed: traceback.TracebackException | None) -> None:
    while printed is not None:
        printed.stack[:] = [
            frame for frame in printed.stack if not frame.filename.startswith(_FOREIGN_FILES)
        ]
        _keep_own_lines(printed.__context__)
        printed = printed.__cause__


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):  # the agent may have put anything there
            stream.flush()


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
