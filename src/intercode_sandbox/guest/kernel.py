"""System calls that Python's standard library lacks, through ctypes.

Numbers and flags are those of the Linux UAPI headers for x86_64 and aarch64 (`mount.h`, `sched.h`,
`prctl.h`). Every function raises OSError with the errno. `PyDLL` keeps the interpreter's lock, so
that `clone` returns in a child whose interpreter is usable; the caller must have a single thread.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Collection
from contextlib import closing
from functools import cache

from .light import signal, socket

NEWNS, NEWUTS, NEWIPC = 0x00020000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, NOATIME = 1, 2, 4, 8, 32, 1024
BIND, REC, PRIVATE = 4096, 16384, 1 << 18
DETACH = 2
CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, KILL, SETGID, SETUID = range(8)
NET_BIND_SERVICE, SYS_CHROOT, SYS_PTRACE, SYS_ADMIN = 10, 18, 19, 21

_SYS_CLONE = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}[os.uname().machine]
_SYS_OPENAT2, _SYS_LANDLOCK_CREATE, _SYS_LANDLOCK_ADD, _SYS_LANDLOCK_RESTRICT = 437, 444, 445, 446
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 24, 36, 38
_SIGCHLD = 17
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_NO_MAGICLINKS, _NO_SYMLINKS, _IN_ROOT = 0x02, 0x04, 0x10
_RENAMES = 100
"""Attempts to open a path while folders are being renamed."""
_IPC_RMID, _MSG_INFO, _SHM_INFO, _SEM_INFO = 0, 12, 14, 19
# bytes that the kernel keeps for each, besides the content
_OBJECT, _MESSAGE, _SEMAPHORE = 1024, 64, 64
_PAGE = os.sysconf("SC_PAGE_SIZE")

_CATCHABLE = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})

_LANDLOCK_SCOPES = 6
"""The first version of Landlock that confines signals (Linux 6.12)."""
_LANDLOCK_READ = 1 << 2 | 1 << 3

_long = ctypes.c_long
_Info = ctypes.c_char * 64


def library(*functions: str) -> ctypes.PyDLL:
    """Return the C library. Look up `functions` now: every episode server would look them up anew,
    for 10 to 100 µs each."""
    libc = ctypes.PyDLL(None, use_errno=True)
    for function in functions:
        getattr(libc, function)
    return libc


_libc = library(
    "mount",
    "umount2",
    "pivot_root",
    "unshare",
    "setns",
    "signal",
    "sched_getcpu",
    "prctl",
    "syscall",
    "shmctl",
    "msgctl",
    "semctl",
)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def _check_unless_missing(result: int, what: str) -> None:
    """Check the result of a call that this kernel may lack."""
    if result < 0 and ctypes.get_errno() != errno.ENOSYS:
        _check(result, what)


def read_all(fd: int) -> bytes:
    """Read to the end. Python's file objects would cost each new episode server pages to copy."""
    pieces = []
    while piece := os.read(fd, 1 << 12):
        pieces.append(piece)
    return b"".join(pieces)


def clone(flags: int) -> int:
    """Fork into new namespaces. Return the pid, and 0 in the child. Only for a process with one
    thread."""
    return _check(
        _libc.syscall(_long(_SYS_CLONE), ctypes.c_ulong(flags | _SIGCHLD), *[_long(0)] * 4), "clone"
    )


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    texts = (source.encode(), target.encode(), kind.encode())
    _check(_libc.mount(*texts, ctypes.c_ulong(flags), options.encode()), target)


def bind(source: str, target: str) -> None:
    mount(source, target, flags=BIND | REC)


def enter_root(path: str) -> None:
    """Make `path` the root and forget the old one."""
    os.chdir(path)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", DETACH), "umount")
    os.chdir("/")


def raise_loopback() -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sock:
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def join(fd: int, flags: int) -> None:
    """Enter these namespaces of a process, given its pidfd; or one namespace."""
    _check(_libc.setns(fd, flags), "setns")


def ignore_signal(number: int) -> None:
    """Ignore a signal, in a child that shares this process's memory: Python's own table of handlers
    must not change."""
    _libc.signal(number, ctypes.c_void_p(1))


def reset_signals() -> None:
    """Restore the default action of all ignored signals, and block none, in such a child too: a
    program inherits no other actions."""
    for number in _CATCHABLE:
        if signal.getsignal(number) == signal.SIG_IGN:
            _libc.signal(number, None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def current_processor() -> int:
    """Return the number of the processor that this process runs on."""
    return _check(_libc.sched_getcpu(), "sched_getcpu")


def die_with_parent() -> None:
    _check(_libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0), "prctl(PDEATHSIG)")


def adopt_orphans() -> None:
    """Become the parent of all processes below this one whose parents end, as pid 1 is."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(CHILD_SUBREAPER)")


def become(user: int, group: int, *groups: int) -> None:
    """Become another user, without any capability."""
    os.setgroups([group, *groups])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)


def limit_capabilities(keep: Collection[int]) -> None:
    """Allow programs that this process or a child executes at most these capabilities."""
    number = 0
    # until the kernel knows no such capability
    while number in keep or _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) == 0:
        number += 1


def drop_capabilities(keep: Collection[int]) -> None:
    """Keep only these capabilities until the next program is executed; `limit_capabilities` limits
    that program."""
    mask = sum(1 << number for number in keep)
    header = struct.pack("Ii", 0x20080522, 0)
    data = struct.pack("6I", mask, mask, 0, 0, 0, 0)
    _check(_libc.syscall(_long(_SYS_CAPSET), header, data), "capset")


def install_filter(program: bytes) -> None:
    """Install a seccomp filter (array of `struct sock_filter`) for this process and all that it
    starts."""
    header, _ = place_filter(program)
    _forbid_new_rights()
    _check(_libc.prctl(_PR_SET_SECCOMP, 2, header, 0, 0), "prctl(SECCOMP)")


@cache
def place_filter(program: bytes) -> tuple[bytes, object]:
    """Return the `struct sock_fprog` of a filter, and what it points to. Called ahead, this serves
    every process that is cloned from this one."""
    buffer = ctypes.create_string_buffer(program, len(program))
    return struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer)), buffer


def _forbid_new_rights() -> None:
    """Deny all programs executed from now on the rights that their files would give them, as a
    filter and Landlock require."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(NO_NEW_PRIVS)")


def let_be_seen(*, seen: bool = True) -> None:
    """Let /proc show this process to its user's other processes, or only to those that have rights
    over the user namespace in which this program was executed. The kernel forgets this when a
    process changes its user."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, int(seen), 0, 0, 0), "prctl(DUMPABLE)")


def confine(writable: Collection[int], readable: Collection[int], *, sockets: bool) -> None:
    """Confine this process and all that it starts to these folders, and their signals and abstract
    sockets to one another; without `sockets`, also refuse them TCP.

    This uses Landlock (Documentation/userspace-api/landlock.rst), if this kernel's version supports
    all that is needed here. Call this before `install_filter`, which refuses Landlock's system
    calls.
    """
    every = (1 << 16) - 1  # all rights on files of version 5
    folders = dict.fromkeys(readable, _LANDLOCK_READ) | dict.fromkeys(writable, every)
    _restrict(every, 0 if sockets else 0b11, 0b11, folders)


def confine_abstract_sockets() -> None:
    """Confine the abstract sockets of this process and all that it starts to one another, as
    `confine` does."""
    _restrict(0, 0, 0b01, {})


def landlock_version() -> int:
    """Return the version of Landlock in this kernel; 0 or less if there is none."""
    version: int = _libc.syscall(_long(_SYS_LANDLOCK_CREATE), None, _long(0), _long(1))
    return version


def _restrict(files: int, network: int, scopes: int, folders: dict[int, int]) -> None:
    """Refuse these rights, but those on files below the open `folders` that are given there. Do
    nothing if this kernel's Landlock has no scopes."""
    if landlock_version() < _LANDLOCK_SCOPES:
        return
    attributes = struct.pack("QQQ", files, network, scopes)
    ruleset = _libc.syscall(_long(_SYS_LANDLOCK_CREATE), attributes, _long(24), _long(0))
    _check(ruleset, "landlock_create_ruleset")
    for folder, rights in folders.items():
        rule = struct.pack("=Qi", rights, folder)
        _check(
            _libc.syscall(_long(_SYS_LANDLOCK_ADD), _long(ruleset), _long(1), rule, _long(0)),
            "landlock_add_rule",
        )
    _forbid_new_rights()
    _check(
        _libc.syscall(_long(_SYS_LANDLOCK_RESTRICT), _long(ruleset), _long(0)),
        "landlock_restrict_self",
    )
    os.close(ruleset)


def ipc_size() -> int:
    """Return the bytes held by all System V objects of this namespace; 0 if the kernel was built
    without them.

    The kernel sums them up, in one call for each kind. The fields are those of `struct shm_info`,
    `msginfo` and `seminfo` in the Linux UAPI headers.
    """
    shm, msg, sem = _Info(), _Info(), _Info()
    _check_unless_missing(_libc.shmctl(0, _SHM_INFO, shm), "shmctl(SHM_INFO)")
    _check_unless_missing(_libc.msgctl(0, _MSG_INFO, msg), "msgctl(MSG_INFO)")
    _check_unless_missing(_libc.semctl(0, 0, _SEM_INFO, sem), "semctl(SEM_INFO)")
    segments, resident, swapped = struct.unpack_from("i4x8xLL", shm)
    queues, messages, text = struct.unpack_from("2i16xi", msg)
    sets, semaphores = struct.unpack_from("28xi4xi", sem)
    size: int = (resident + swapped) * _PAGE + text + (segments + queues + sets) * _OBJECT
    size += messages * _MESSAGE + semaphores * _SEMAPHORE
    return size


def remove_ipc_object(kind: str, number: int) -> None:
    """Remove a System V object of the kind `shm`, `msg` or `sem`."""
    arguments = (number, 0, _IPC_RMID) if kind == "sem" else (number, _IPC_RMID, None)
    getattr(_libc, kind + "ctl")(*arguments)


def open_inside(root: int, path: str, flags: int, mode: int = 0, *, links: bool = True) -> int:
    """Open `path` as if `root` were `/`: links cannot lead out, and magic links in /proc are
    refused, or all links if not `links`.

    The kernel answers EAGAIN if a folder anywhere was renamed or mounted while it followed "..":
    the call is repeated.
    """
    resolve = _IN_ROOT | _NO_MAGICLINKS
    if not links:
        resolve |= _NO_SYMLINKS
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, mode, resolve)
    for _ in range(_RENAMES):
        result = _libc.syscall(
            _long(_SYS_OPENAT2), _long(root), os.fsencode(path), how, _long(len(how))
        )
        if result >= 0 or ctypes.get_errno() != errno.EAGAIN:
            break
    return _check(result, path)


def open_folder(path: str, above: int | None = None) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=above)
