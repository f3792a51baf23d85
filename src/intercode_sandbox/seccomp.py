"""The system-call filter of the agent's processes, as the array of `struct sock_filter` that the
kernel takes.

The filter lists refused calls, not allowed ones: agents run arbitrary programs. It refuses calls
that make, enter or change namespaces and mounts, look into other processes, or reach parts of the
kernel that a shell session never needs (docs/security-rules.md gives the reason for each group).
Calls that programs probe for return ENOSYS, so that programs fall back. So do calls that are newer
than this list (`_LAST_REVIEWED`). Format: Documentation/userspace-api/seccomp_filter.rst; numbers:
the UAPI tables of x86_64 and aarch64.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Collection
from errno import EAFNOSUPPORT, ENOSYS, EPERM
from typing import Any

from intercode_sandbox.errors import SandboxUnavailable

_LOAD, _JEQ, _JSET, _JGE, _RET = 0x20, 0x15, 0x45, 0x35, 0x06
_NR, _ARCH, _ARG0, _ARG1, _ARG2 = 0, 4, 16, 24, 32
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
# The last system call of Linux 6.18: on both architectures all calls from 424 on have the same
# numbers. Calls above it, and those of the ABI x32, return ENOSYS. Of the calls since Linux 6.5
# (451), four are refused below; the others change memory, futexes, attributes and modes that the
# agent controls anyway (`mseal`, `futex_wait`, `setxattrat`, `fchmodat2`, …).
_LAST_REVIEWED = 469

_NEW_NAMESPACES = (
    0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
)
_FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink
_TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_SOL_SOCKET = 1
_BUFFERS = (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF, and their forms for root: ignored

# name: (x86_64, aarch64); None where the architecture lacks it
_Numbers = dict[str, tuple[int | None, int | None]]
_REFUSED: _Numbers = {
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467), "unshare": (272, 97), "setns": (308, 268),
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    # keys, programs in the kernel, measurement
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "lookup_dcookie": (212, 18),
    "syslog": (103, 116),
    # the machine itself
    "reboot": (169, 142), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "iopl": (172, None), "ioperm": (173, None), "vhangup": (153, 58),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "modify_ldt": (154, None),
    "fanotify_init": (300, 262), "uselib": (134, None), "_sysctl": (156, None),
    "nfsservctl": (180, 42),
}  # fmt: skip
_ABSENT: _Numbers = {
    "clone3": (435, 435), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "vmsplice": (278, 75), "io_setup": (206, 0),
    # rules take kernel memory without bound
    "landlock_create_ruleset": (444, 444), "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
    # they reveal which pages of shared files were read, and mounts even without /proc
    "cachestat": (451, 451), "statmount": (457, 457), "listmount": (458, 458),
}  # fmt: skip
_SHARED: _Numbers = {
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
}
_UNIX = 1
_CLONE = (56, 220)
_SOCKET = (41, 198)
_IOCTL = (16, 29)
_PRLIMIT = (302, 261)
_SETSOCKOPT = (54, 208)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def programs(*, leave_out: Collection[str] = (), **options: Any) -> tuple[bytes, ...]:
    """Return the filters of agents, of players (`guest/players.py`), and the one that makes a
    player's filter an agent's."""
    everything = program(leave_out=leave_out, **options)
    of_players = program(leave_out=[*leave_out, "setns"], **options)
    return everything, of_players, program(only="setns", leave_out=leave_out)


def program(
    *,
    machine: str | None = None,
    leave_out: Collection[str] = (),
    shared: bool = False,
    sockets: bool = False,
    only: str = "",
) -> bytes:
    """Return the filter for this machine. `leave_out` names calls that a test lets through,
    including calls filtered by argument.

    `shared`: the agent has no namespaces of its own for networks, System V objects and message
    queues, so it gets none of these; with `sockets`, it gets the network.
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise SandboxUnavailable(
            f"the local sandbox supports x86_64 and aarch64, not {machine}; use --sandbox docker"
        )
    column, audit = _ARCHITECTURES[machine]
    code = [(_LOAD, 0, 0, _ARCH), (_JEQ, 1, 0, audit), _return_error(ENOSYS), (_LOAD, 0, 0, _NR)]
    code += [(_JGE, 0, 1, _LAST_REVIEWED + 1), _return_error(ENOSYS)]
    answers = _by_argument()
    if shared and not sockets:
        answers["socket"] = (
            _SOCKET,
            [(_LOAD, 0, 0, _ARG0), (_JEQ, 1, 0, _UNIX), _return_error(EAFNOSUPPORT), _PASS],
        )
    absent = dict(_ABSENT)
    if shared:
        absent |= _SHARED
    for table, errno in ((_REFUSED, EPERM), (absent, ENOSYS)):
        for name, numbers in table.items():
            answers[name] = numbers, [_return_error(errno)]
    blocks = []
    for name, (numbers, block) in answers.items():
        number = numbers[column]
        if number is not None and name not in leave_out and only in ("", name):
            blocks.append((number, block))
    code += _search(sorted(blocks))
    return b"".join(struct.pack("HBBI", *step) for step in code)


_Step = tuple[int, int, int, int]
_PASS: _Step = (_RET, 0, 0, _ALLOW)
# Up to this length, a list of numbers is searched one by one: halving it further would gain
# nothing.
_LINEAR = 8


def _return_error(errno: int) -> _Step:
    return (_RET, 0, 0, _ERRNO | errno)


def _when(number: int, then: list[_Step]) -> list[_Step]:
    return [(_JEQ, 0, len(then), number), *then]


def _search(answers: list[tuple[int, list[_Step]]]) -> list[_Step]:
    """Return a binary search for the block of a number: the kernel tries each new filter with all
    numbers, which is slow with a long list."""
    if len(answers) <= _LINEAR:
        code = []
        for number, block in answers:
            code += _when(number, block)
        return [*code, _PASS]
    middle = len(answers) // 2
    below = _search(answers[:middle])
    above = _search(answers[middle:])
    return [(_JGE, len(below), 0, answers[middle][0]), *below, *above]


def _by_argument() -> dict[str, tuple[tuple[int | None, int | None], list[_Step]]]:
    """Return the blocks for calls that depend on an argument; each block ends the program."""
    clone = [(_LOAD, 0, 0, _ARG0), (_JSET, 0, 1, _NEW_NAMESPACES), _return_error(EPERM), _PASS]
    families = [(_JEQ, len(_FAMILIES) - index, 0, family) for index, family in enumerate(_FAMILIES)]
    socket = [(_LOAD, 0, 0, _ARG0), *families, _return_error(EAFNOSUPPORT), _PASS]
    ioctl = [(_LOAD, 0, 0, _ARG1)]
    for request in _TERMINAL_INJECTION:
        ioctl += _when(request, [_return_error(EPERM)])
    ioctl.append(_PASS)
    # a process may change only its own limits
    prlimit = [(_LOAD, 0, 0, _ARG0), (_JEQ, 1, 0, 0), _return_error(EPERM), _PASS]
    setsockopt = [(_LOAD, 0, 0, _ARG1), (_JEQ, 1, 0, _SOL_SOCKET), _PASS, (_LOAD, 0, 0, _ARG2)]
    for option in _BUFFERS:
        setsockopt += _when(option, [_return_error(0)])
    setsockopt.append(_PASS)
    return {
        "clone": (_CLONE, clone), "socket": (_SOCKET, socket), "ioctl": (_IOCTL, ioctl),
        "prlimit64": (_PRLIMIT, prlimit), "setsockopt": (_SETSOCKOPT, setsockopt),
    }  # fmt: skip
