"""Start a child that first does something in Python and then becomes another program, without a copy of the parent's memory.

`os.fork` copies the interpreter's page tables, and later every page that either side writes to: that would be the largest part
of a reset. Here the child works in the parent's memory while the parent sleeps (vfork), on a stack of its own. Python must have
returned when the program begins, since the parent goes on with the same interpreter; so a chain of contexts (makecontext(3))
leads from one step to the next:

    clone ──► prepare() ──► execve ──► the program; the parent wakes up
                              └─ failed ──► write ──► _exit

So `prepare` may change what belongs to a process (descriptors, rights, folders) but must leave nothing behind in memory. An
interpreter that watches the bounds of its stack (3.14 and later) is forked instead.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from . import kernel

_VM, _VFORK, _SIGCHLD = 0x100, 0x4000, 17
_STEPS, _SHARE, _HEADROOM = 4, 1 << 17, 6144
"""Bytes for a stack, its context above. Untouched pages cost nothing, and the two meet in the middle of a page."""
_FAILED, _LONGEST_PATH = 127, 4096
_libc = kernel.library("makecontext", "getcontext", "setcontext", "clone", "execve", "write", "_exit")
_libc.makecontext.restype = None
_Callback = ctypes.PYFUNCTYPE(None)


class _Context(ctypes.Structure):
    """The beginning of glibc's `ucontext_t`, its `stack_t` included, and room for the rest."""

    _fields_ = (
        *(("flags", ctypes.c_ulong), ("next", ctypes.c_void_p)),
        *(("stack_start", ctypes.c_void_p), ("stack_flags", ctypes.c_int), ("stack_size", ctypes.c_size_t)),
        ("rest", ctypes.c_char * 5000),
    )


def spawn(prepare: Callable[[], object], program: str, name: str) -> int:
    """Return the child's pid, as soon as the child is `program` (called `name`, without environment).

    Raises OSError with what went wrong in the child. Only for a process with one thread.
    """
    errors, write_end = os.pipe2(os.O_CLOEXEC)
    start = _vfork if sys.version_info < (3, 14) else _fork
    try:
        pid = start(lambda: _attempt(prepare, write_end), program, name, write_end)
    finally:
        os.close(write_end)
    message = kernel.read_all(errors)
    os.close(errors)
    if message:
        os.waitpid(pid, 0)
        raise OSError(message.decode())
    return pid


def _attempt(step: Callable[[], object], errors: int) -> bool:
    try:
        step()
    except BaseException as error:
        os.write(errors, f"{type(error).__name__}: {error}; ".encode())
        return False
    return True


def _fork(prepare: Callable[[], bool], program: str, name: str, errors: int) -> int:
    pid = os.fork()
    if pid == 0:
        if prepare():
            _attempt(lambda: os.execve(program, [name], {}), errors)
        os._exit(_FAILED)
    return pid


def _vfork(prepare: Callable[[], bool], program: str, name: str, errors: int) -> int:
    chain = prepare_stacks()
    chain.set_up(prepare, program, name, errors)
    pid: int = _libc.clone(_libc.setcontext, chain.stack, _VM | _VFORK | _SIGCHLD, ctypes.byref(chain.first))
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "clone")
    return pid


@cache
def prepare_stacks() -> _Chain:
    """Make the stacks. Called ahead, they serve this process and every process that is cloned from it."""
    return _Chain()


class _Chain:
    """A context for each call, on a stack of its own; when the call returns, the next context goes on."""

    def __init__(self) -> None:
        self._prepare: Callable[[], bool] = lambda: False
        self._callback = _Callback(self._run)
        self._path = ctypes.create_string_buffer(_LONGEST_PATH)
        self._argv, self._environment = (ctypes.c_char_p * 2)(), (ctypes.c_char_p * 1)()
        memory = mmap.mmap(-1, (_STEPS + 1) * _SHARE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._contexts = [_Context.from_buffer(memory, _SHARE * number - _HEADROOM) for number in range(1, _STEPS + 1)]
        self.first = self._contexts[0]
        self.stack = ctypes.c_void_p(ctypes.addressof(self._contexts[-1]) + _HEADROOM + _SHARE)
        for context, following in zip(self._contexts, [*self._contexts[1:], None], strict=True):
            _libc.getcontext(ctypes.byref(context))
            context.next = ctypes.addressof(following) if following is not None else None
            context.stack_start = ctypes.addressof(context) + _HEADROOM - _SHARE
            context.stack_size = _SHARE - _HEADROOM

    def set_up(self, prepare: Callable[[], bool], program: str, name: str, errors: int) -> None:
        """Write the steps onto the stacks. Needed before each spawn, since the last one used the stacks."""
        self._prepare, self._path.value, self._argv[0] = prepare, program.encode(), name.encode()
        self._message = message = f"{program} was not executed".encode()  # kept, since a step points there
        steps: tuple[tuple[Any, ...], ...] = (
            (self._callback,),
            (_libc.execve, self._path, self._argv, self._environment),
            (_libc.write, errors, message, len(message)),
            (_libc._exit, _FAILED),
        )
        for context, (function, *arguments) in zip(self._contexts, steps, strict=True):
            _libc.makecontext(ctypes.byref(context), function, len(arguments), *arguments)

    def _run(self) -> None:
        if not self._prepare():
            self._path.value = b""  # a name that execve refuses
