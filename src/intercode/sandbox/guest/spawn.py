"""A child that does something in Python and then becomes another program, without a copy of this process's memory.

`os.fork` copies the interpreter's page tables, and later every page that either side writes to: the dearest part of a reset.
Here the child works in the parent's memory while the parent sleeps (vfork), on a stack of its own. The way from one step to
the next is a chain of contexts (makecontext(3)), for Python must have returned when the program begins: the parent goes on
with the same interpreter.

    clone ──► prepare() ──► execve ──► the program; the parent wakes up
                              └─ failed ──► write ──► _exit

So `prepare` may change what belongs to a process (descriptors, rights, folders) but leaves nothing behind in memory. An
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
_STEPS, _SHARE, _ROOM = 4, 1 << 17, 6144
"""Bytes for a stack with its context above; what is not touched costs nothing, and they meet in the middle of a page."""
_FAILED, _LONGEST = 127, 4096
_libc = kernel.library("makecontext", "getcontext", "setcontext", "clone", "execve", "write", "_exit")
_libc.makecontext.restype = None
_Act = ctypes.PYFUNCTYPE(None)


class _Stack(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


class _Context(ctypes.Structure):
    """The beginning of glibc's `ucontext_t`, and room for the rest."""

    _fields_ = (("flags", ctypes.c_ulong), ("next", ctypes.c_void_p), ("stack", _Stack), ("rest", ctypes.c_char * 5000))


def spawn(prepare: Callable[[], object], program: str, name: str) -> int:
    """The child's pid, once it is `program` (called `name`, without environment). OSError with what went wrong in the child.

    Only for a process with one thread.
    """
    trouble, failed = os.pipe2(os.O_CLOEXEC)
    start = sharing if sys.version_info < (3, 14) else forking
    try:
        pid = start(lambda: _attempt(prepare, failed), program, name, failed)
    finally:
        os.close(failed)
    said = kernel.rest(trouble)
    os.close(trouble)
    if said:
        os.waitpid(pid, 0)
        raise OSError(said.decode())
    return pid


def _attempt(act: Callable[[], object], failed: int) -> bool:
    try:
        act()
    except BaseException as error:
        os.write(failed, f"{type(error).__name__}: {error}; ".encode())
        return False
    return True


def forking(prepare: Callable[[], bool], program: str, name: str, failed: int) -> int:
    pid = os.fork()
    if pid == 0:
        if prepare():
            _attempt(lambda: os.execve(program, [name], {}), failed)
        os._exit(_FAILED)
    return pid


def sharing(prepare: Callable[[], bool], program: str, name: str, failed: int) -> int:
    chain = _chain()
    chain.aim(prepare, program, name, failed)
    pid: int = _libc.clone(_libc.setcontext, chain.stack, _VM | _VFORK | _SIGCHLD, ctypes.byref(chain.first))
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "clone")
    return pid


def get_ready() -> None:
    """Make ahead what this process spawns with, and every one that is cloned from it."""
    _chain()


@cache
def _chain() -> _Chain:
    return _Chain()


class _Chain:
    """One context for each call, on a stack of its own; when the call returns, the next one goes on."""

    def __init__(self) -> None:
        self._prepare: Callable[[], bool] = lambda: False
        self._act = _Act(self._run)
        self._path = ctypes.create_string_buffer(_LONGEST)
        self._argv, self._environment = (ctypes.c_char_p * 2)(), (ctypes.c_char_p * 1)()
        memory = mmap.mmap(-1, (_STEPS + 1) * _SHARE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._contexts = [_Context.from_buffer(memory, _SHARE * number - _ROOM) for number in range(1, _STEPS + 1)]
        self.first = self._contexts[0]
        self.stack = ctypes.c_void_p(ctypes.addressof(self._contexts[-1]) + _ROOM + _SHARE)
        for context, following in zip(self._contexts, [*self._contexts[1:], None], strict=True):
            _libc.getcontext(ctypes.byref(context))
            context.next = ctypes.addressof(following) if following is not None else None
            context.stack.start = ctypes.addressof(context) + _ROOM - _SHARE
            context.stack.size = _SHARE - _ROOM

    def aim(self, prepare: Callable[[], bool], program: str, name: str, failed: int) -> None:
        """A step is set up anew each time: its stack was used."""
        self._prepare, self._path.value, self._argv[0] = prepare, program.encode(), name.encode()
        self._words = words = f"{program} was not executed".encode()  # kept: a step points there
        steps: tuple[tuple[Any, ...], ...] = (
            (self._act,),
            (_libc.execve, self._path, self._argv, self._environment),
            (_libc.write, failed, words, len(words)),
            (_libc._exit, _FAILED),
        )
        for context, (function, *arguments) in zip(self._contexts, steps, strict=True):
            _libc.makecontext(ctypes.byref(context), function, len(arguments), *arguments)

    def _run(self) -> None:
        if not self._prepare():
            self._path.value = b""  # a name that execve refuses
