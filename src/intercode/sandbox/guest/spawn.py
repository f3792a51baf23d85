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
from typing import Any

_VM, _VFORK, _SIGCHLD = 0x100, 0x4000, 17
_SHARE = 1 << 17
"""Bytes for a context and its stack; what is not touched costs nothing."""
_FAILED = 127
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.makecontext.restype = None
_Act = ctypes.PYFUNCTYPE(None)


class _Stack(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


class _Context(ctypes.Structure):
    """The beginning of glibc's `ucontext_t`, and room for the rest."""

    _fields_ = (("flags", ctypes.c_ulong), ("next", ctypes.c_void_p), ("stack", _Stack), ("rest", ctypes.c_char * 8000))


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
    with open(trouble, "rb") as words:
        said = words.read()
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
    path, words = ctypes.create_string_buffer(program.encode()), f"{program} was not executed".encode()
    argv, environment = (ctypes.c_char_p * 2)(name.encode()), (ctypes.c_char_p * 1)()

    def act() -> None:
        if not prepare():
            path[0] = b"\0"  # a name that execve refuses

    execute, complain = (_libc.execve, path, argv, environment), (_libc.write, failed, words, len(words))
    steps: tuple[tuple[Any, ...], ...] = ((_Act(act),), execute, complain, (_libc._exit, _FAILED))
    memory = mmap.mmap(-1, (len(steps) + 1) * _SHARE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    contexts = _chain(memory, steps)
    top = ctypes.c_void_p(ctypes.addressof(contexts[-1]) + 2 * _SHARE)
    pid: int = _libc.clone(_libc.setcontext, top, _VM | _VFORK | _SIGCHLD, ctypes.byref(contexts[0]))
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "clone")
    return pid


def _chain(memory: mmap.mmap, steps: tuple[tuple[Any, ...], ...]) -> list[_Context]:
    """One context for each call; when it returns, the next one goes on."""
    contexts = [_Context.from_buffer(memory, number * _SHARE) for number in range(len(steps))]
    for number, (function, *arguments) in enumerate(steps):
        context = contexts[number]
        _libc.getcontext(ctypes.byref(context))
        context.next = ctypes.addressof(contexts[number + 1]) if number + 1 < len(steps) else None
        context.stack.start = ctypes.addressof(context) + ctypes.sizeof(_Context)
        context.stack.size = _SHARE - ctypes.sizeof(_Context)
        _libc.makecontext(ctypes.byref(context), function, len(arguments), *arguments)
    return contexts
