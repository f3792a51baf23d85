"""Start a child that first does something in Python and then becomes another program, without a
copy of the parent's memory.

`os.fork` copies the interpreter's page tables, and later every page that either side writes to:
that would be the largest part of a reset. Here the child works in the parent's memory while the
parent sleeps (vfork), on a stack of its own. Python must have returned when the program begins,
since the parent goes on with the same interpreter; so a chain of contexts (makecontext(3)) leads
from one step to the next:

    clone ──► prepare() ──► execvpe ──► the program; the parent wakes up
                              └─ failed ──► memset: note the failure ──► _exit

`call` only does something; and it may start a program in turn, with the second chain.

So `prepare` may change what belongs to a process (descriptors, limits, rights) but must leave
nothing behind in memory. The child shares the thread's errno too: after a failure it says why. An
interpreter that checks the bounds of its stack (3.14 and later) is forked instead.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from . import kernel
from .light import Any

_VM, _VFORK, _SIGCHLD = 0x100, 0x4000, 17
SIBLING, _FILES = 0x8000, 0x400
"""`SIBLING` is the flag for a child whose parent is this process's parent."""
SHARES_MEMORY = sys.version_info < (3, 14)
_STEPS, _SHARE, _HEADROOM = 4, 1 << 17, 6144
"""Bytes for a stack, its context above. Untouched pages cost nothing, and the two meet in the
middle of a page."""
_FAILED, _LONGEST_PATH = 127, 4096
_libc = kernel.library(
    "makecontext", "getcontext", "setcontext", "clone", "execvpe", "memset", "_exit"
)
_libc.makecontext.restype = None
_Callback = ctypes.PYFUNCTYPE(None)
_Strings = ctypes.Array[ctypes.c_char_p]
_prepared = dict[tuple[bytes | None, ...], _Strings]()


class _Context(ctypes.Structure):
    """The beginning of glibc's `ucontext_t`, its `stack_t` included, and room for the rest."""

    _fields_ = (
        ("flags", ctypes.c_ulong),
        ("next", ctypes.c_void_p),
        ("stack_start", ctypes.c_void_p),
        ("stack_flags", ctypes.c_int),
        ("stack_size", ctypes.c_size_t),
        ("rest", ctypes.c_char * 5000),
    )


def spawn(
    prepare: Callable[[], object],
    program: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    flags: int = 0,
) -> int:
    """Return the child's pid as soon as the child has become `program`, which is looked up on this
    process's PATH. `flags` are of clone(2), such as new namespaces; only for `SHARES_MEMORY`.

    Raises OSError with the failure of the child. Only for a process with one thread.
    """
    if SHARES_MEMORY:
        outer, inner = prepare_stacks()
        chain = inner if outer.calls else outer
        return chain.spawn(prepare, program, argv, env, flags)
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            prepare()
            os.execvpe(program, list(argv), dict(env))
        except OSError as error:
            os.write(writer, b"%d" % (error.errno or errno.EINVAL))
        finally:
            os._exit(_FAILED)
    os.close(writer)
    failure = kernel.read_all(reader)
    os.close(reader)
    if failure:
        os.waitpid(pid, 0)
        raise OSError(int(failure), os.strerror(int(failure)), program)
    return pid


def call(prepare: Callable[[], object]) -> None:
    """Have a child do `prepare` and end; the descriptors that it opens are this process's. Raises
    what it raises. Only for `SHARES_MEMORY`."""
    prepare_stacks()[0].call(prepare)


@cache
def prepare_stacks() -> tuple[_Chain, _Chain]:
    """Make the stacks. Called ahead, they serve this process and every process that is cloned from
    it."""
    return _Chain(), _Chain()


class _Chain:
    """A context for each call, on a stack of its own; when the call returns, the next context goes
    on."""

    _error: BaseException | None
    """The exception that `prepare` raised in the child."""
    calls = False
    """True in a child that only does something."""

    def __init__(self) -> None:
        self._failed = ctypes.c_ubyte()
        self._program = ctypes.create_string_buffer(_LONGEST_PATH)
        self._callback = _Callback(self._run)
        memory = mmap.mmap(-1, (_STEPS + 1) * _SHARE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._contexts = [
            _Context.from_buffer(memory, _SHARE * number - _HEADROOM)
            for number in range(1, _STEPS + 1)
        ]
        self._stack = ctypes.c_void_p(ctypes.addressof(self._contexts[-1]) + _HEADROOM + _SHARE)
        following = None
        for context in reversed(self._contexts):
            address = ctypes.addressof(context)
            _libc.getcontext(ctypes.byref(context))
            context.next, following = following, address
            context.stack_start = address + _HEADROOM - _SHARE
            context.stack_size = _SHARE - _HEADROOM

    def spawn(
        self,
        prepare: Callable[[], object],
        program: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        flags: int,
    ) -> int:
        path = os.fsencode(program)
        if len(path) >= _LONGEST_PATH:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), program)
        self._prepare, self._error, self._failed.value = prepare, None, 0
        self._has_run = False
        self._program.value = path
        self._argv, self._env = as_arrays(argv, env)
        # needed before each spawn, since the last one used the stacks
        steps: tuple[tuple[Any, ...], ...] = (
            (self._callback,),
            (_libc.execvpe, self._program, self._argv, self._env),
            (_libc.memset, ctypes.byref(self._failed), 1, 1),
            (_libc._exit, _FAILED),
        )
        for context, (function, *arguments) in zip(self._contexts, steps, strict=True):
            _libc.makecontext(ctypes.byref(context), function, len(arguments), *arguments)
        first = ctypes.byref(self._contexts[0])
        flags |= _VM | _VFORK | _SIGCHLD
        pid: int = _libc.clone(_libc.setcontext, self._stack, flags, first)
        number = ctypes.get_errno()
        if pid < 0:
            raise OSError(number, os.strerror(number), "clone")
        if not self._has_run:  # killed in the middle: its frames are this interpreter's last
            os._exit(_FAILED)
        if self._failed.value:
            if not flags & SIBLING:
                os.waitpid(pid, 0)
            raise self._error or OSError(number, os.strerror(number), program)
        return pid

    def call(self, prepare: Callable[[], object]) -> None:
        self.calls = True
        try:
            self.spawn(prepare, "", (), {}, _FILES)
        except FileNotFoundError:  # the chain's end: there is no program
            if self._error:
                raise
        finally:
            self.calls = False

    def forget(self) -> None:
        self._prepare, self._error, self._program.value = forget, None, b""
        self._argv = self._env = _array()

    def _run(self) -> None:
        try:
            self._prepare()
        except BaseException as error:
            self._error = error
            self._program.value = b""  # a name that execvpe refuses
        self._has_run = True


def as_arrays(argv: Sequence[str], env: Mapping[str, str]) -> tuple[_Strings, _Strings]:
    """Return arguments and variables as C arrays."""
    return _array(*argv), _array(*(f"{name}={value}" for name, value in env.items()))


def prepare_arrays(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Make the arrays that this process, and every process that is cloned from it, will need often:
    ctypes makes a type for each length, which takes long."""
    for array in as_arrays(argv, env):
        _prepared[tuple(array)] = array


def _array(*texts: str) -> _Strings:
    """Return the texts as a C array `char *[]` that ends with NULL."""
    encoded = (*map(os.fsencode, texts), None)
    return _prepared.get(encoded) or (ctypes.c_char_p * len(encoded))(*encoded)


def forget() -> None:
    """Drop what the last calls have left in memory."""
    for chain in prepare_stacks():
        chain.forget()
