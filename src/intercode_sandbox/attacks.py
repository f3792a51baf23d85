"""Attacks on the sandbox in Bash, grouped by mechanism, each with the protections that its control
disables.

An action that reaches its aim prints BREACH. The actions' texts split this word in two, since Bash
repeats a killed command. Destructive actions stop by themselves a little beyond `LIMITS`. The
controls in the tests execute this module in an outer sandbox, where each attack must succeed, so it
imports only the standard library and this package.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from intercode_sandbox.base import MIB, Limits

LIMITS = Limits(
    seconds=8,
    memory=96 * MIB,
    processes=64,
    file_size=24 * MIB,
    disk=32 * MIB,
    output=1 * MIB,
    open_files=512,
)


@dataclass(frozen=True)
class SandboxAttack:
    """`after` checks for an effect of `action` in the next episode or, in `NEIGHBOURS`, in another
    sandbox at the same time.

    The control disables `limits` (fields of `Limits`), the filters for the system calls `calls`,
    and `protections`, named as in `guest/namespaces.py`; spaces separate several names.
    """

    name: str
    action: str
    limits: str = ""
    calls: str = ""
    protections: str = ""
    after: str = ""
    every_kernel: bool = True
    """Whether every kernel has the feature, so that the control must succeed."""

    def control_limits(self) -> Limits:
        """Return the limits for the control: those in `limits` are twenty times as high."""
        limits = replace(LIMITS, seconds=20)
        for name in self.limits.split():
            limits = replace(limits, **{name: 20 * getattr(LIMITS, name)})
        return limits


def _table(columns: str, *rows: tuple[Any, ...]) -> list[SandboxAttack]:
    """Return the attacks of a table whose columns are these fields; rows may lack the last ones."""
    names = columns.split()
    return [SandboxAttack(**dict(zip(names, row, strict=False))) for row in rows]


@dataclass(frozen=True)
class HostTargets:
    """Targets on this machine: a process, and the values for the placeholders that stand for a file
    and two sockets in actions."""

    process: subprocess.Popen[bytes]
    values: dict[str, str]

    def fill(self, action: str) -> str:
        """Return the action with each placeholder replaced by its value."""
        for word, value in self.values.items():
            action = action.replace(word, value)
        return action

    def killed(self) -> bool:
        """Return whether the process has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(0.2)
        return self.process.returncode is not None


@contextmanager
def host_targets(**user: Any) -> Iterator[HostTargets]:
    """Make the targets for the attacks in `OUTSIDE`. `user` are arguments for `Popen` that select
    the process's user."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen(
            ["sleep", "54321"], env={**os.environ, "PLANTED": "outside"}, **user
        ) as process,
    ):
        port = server.getsockname()[1]
        abstract.bind(f"\0intercode-test-{port}")
        abstract.listen()
        file = Path(folder) / "planted"
        file.write_text("BREACH\n", "utf-8")
        Path(folder).chmod(0o755)
        try:
            yield HostTargets(process, {"@FILE@": str(file), "@PORT@": str(port)})
        finally:
            process.kill()


def _python(code: str) -> str:
    return f"/usr/bin/python3 -I - <<'PYTHON'\n{_TOOLS}{code}\nPYTHON"


NO_PYTHON = "/usr/bin/python3: No such file or directory"
"""The message of an attack that could not be tried."""
_TOOLS = """
import ctypes, fcntl, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
L = ctypes.c_long
def call(x86, arm, *arguments):
    number = x86 if os.uname().machine == 'x86_64' else arm
    return libc.syscall(L(number), *[L(a) if isinstance(a, int) else a for a in arguments])
def breach(done):
    print('BREA''CH' if done else 'held', flush=True)
"""

# -- resources: processes, memory of every kind, disk, inodes --------------------------------------

_SEGMENTS = _python("""
for small in range(60):
    libc.shmget(0, L(4096), 0o1600)
libc.shmat.restype = ctypes.c_void_p
for large in range(4):
    number = libc.shmget(0, L(40 << 20), 0o1600)
    ctypes.memset(libc.shmat(number, None, 0), 1, 40 << 20)
""")
_SEMAPHORES = _python("""
for each in range(150):
    if libc.semget(0, 32000, 0o1600) < 0: sys.exit('held')
""")
_QUEUES = _python("""
message = ctypes.create_string_buffer(b'\\1' + b'\\0' * 7 + b'x' * 8192)
for each in range(10000):
    number = libc.msgget(0, 0o1600)
    if number < 0: sys.exit('held')
    for half in range(2): libc.msgsnd(number, message, L(8192), 0o4000)
""")
_WATCHES = """
import select
hold = [select.epoll() for _ in range(100)]
for file in [os.pipe()[0] for _ in range(8)]:
    for number in range(150, 500):  # a closed descriptor leaves its watch as long as the file lives
        os.dup2(file, number)
        for epoll in hold: epoll.register(number)
        os.close(number)
time.sleep(6); breach(True)"""
_LOCKS = """
for name in range(400):
    fd = os.open(f'/tmp/{name}', os.O_CREAT | os.O_RDWR)
    for at in range(700): fcntl.lockf(fd, fcntl.LOCK_EX, 1, 2 * at)
time.sleep(6); breach(True)"""
_AFTER = " && sleep 0.3 && echo BREA''CH"

EXHAUSTION = _table(
    "name action limits calls protections",
    (
        "a fork bomb",
        _python("""
for count in range(200):
    if os.fork() == 0:
        time.sleep(30); os._exit(0)
time.sleep(1)
breach(True)
"""),
        "processes memory",
    ),
    (
        "a memory bomb of one process",
        _python("""
hold = b'x' * (200 << 20)
breach(True)
"""),
        "memory",
    ),
    (
        "a memory bomb of many processes",
        _python("""
read, write = os.pipe()
for child in range(8):
    if os.fork() == 0:
        hold = b'x' * (40 << 20)
        os.write(write, b'.'); time.sleep(30); os._exit(0)
os.close(write)
for child in range(8):
    if not os.read(read, 1):
        sys.exit('held')
time.sleep(1)
breach(True)
"""),
        "memory",
    ),
    (
        "a memory bomb of processes without first threads",
        _python("""
import threading
def fill():
    time.sleep(0.3); held = bytearray(40 << 20); time.sleep(30)
for child in range(4):
    if os.fork() == 0:
        threading.Thread(target=fill).start()
        libc.pthread_exit(None)
time.sleep(2)
breach(True)
"""),
        "memory",
    ),
    (
        "memory in page tables",
        _python("""
import mmap
size = 128 << 30
libc.mmap.restype = L
start = libc.mmap(None, ctypes.c_size_t(size), 1, 0x4022, -1, L(0))  \
# private, anonymous, no reserve; readable
for at in range(start, start + size, 2 << 20):
    ctypes.c_char.from_address(at).value
time.sleep(1)
breach(start > 0)
"""),
        "memory",
    ),
    ("memory in shared segments", f"{{ {_SEGMENTS}\n}}{_AFTER}", "memory"),
    ("memory in semaphores", f"{{ {_SEMAPHORES}\n}}{_AFTER}", "memory"),
    ("memory in message queues", f"{{ {_QUEUES}\n}}{_AFTER}", "memory"),
    (
        "memory in socket buffers",
        _python("""
def fill(sock):
    sock.setblocking(False)
    try:
        while True: sock.send(b'x' * 65536)
    except BlockingIOError: pass
for child in range(4):
    if os.fork() == 0:
        hold = [end for pair in range(240) for end in socket.socketpair()]
        for end in hold: fill(end)
        time.sleep(30); os._exit(0)
time.sleep(2)
breach(True)
"""),
        "memory",
    ),
    (
        "memory in TCP buffers",
        _python("""
server = socket.create_server(('127.0.0.1', 0), backlog=64)
hold, sent = [], 0
for number in range(8):
    hold += [socket.create_connection(server.getsockname()), server.accept()[0]]
for end in hold: end.setblocking(False)
for round in range(8):
    for end in hold:
        try:
            while True: sent += end.send(b'x' * 65536)
        except BlockingIOError: pass
    time.sleep(0.05)
breach(sent > 3 * len(hold) * 212_992)
"""),
        "",
        "",
        "buffers",
    ),
    ("memory in epoll watches", _python(_WATCHES), "", "", "attached"),
    ("memory in record locks", _python(_LOCKS), "", "", "attached"),
    (
        "memory in an anonymous file",
        _python("""
file = open(os.memfd_create('x'), 'wb')
for part in range(20): file.write(b'x' * (10 << 20))
breach(True)
"""),
        "file_size",
        "memfd_create",
    ),
    (
        "memory in /dev/shm",
        "for i in 1 2 3; do head -c 20M /dev/zero > /dev/shm/$i; done; "
        "x=$(head -c 40M /dev/zero | tr '\\0' x); sleep 0.3; echo BREA''CH",
        "memory",
    ),
    (
        "a disk filler",
        "for i in 1 2 3; do head -c 20M /dev/zero > /tmp/$i || exit; done; echo BREA''CH",
        "disk",
    ),
    ("one huge file", "head -c 30M /dev/zero > /tmp/x && echo BREA''CH", "file_size"),
    (
        "an inode filler",
        _python("""
os.mkdir('/tmp/many')
for number in range(40000): os.close(os.open(f'/tmp/many/{number}', os.O_CREAT | os.O_WRONLY))
breach(True)
"""),
        "disk memory",
    ),
)

# -- features of the kernel ------------------------------------------------------------------------


_REWRITING = (
    "for memory in /proc/1/mem /proc/1/task/1/mem; "
    "do true 2> /dev/null 1<> $memory && echo BREA''CH; done"
)


KERNEL = _table(
    "name action calls protections every_kernel",
    (
        "ptrace",
        _python("""
child = os.fork()
if child == 0:
    time.sleep(30); os._exit(0)
breach(libc.ptrace(16, child, None, None) == 0)
os.kill(child, 9)
"""),
        "ptrace",
    ),
    (
        "reading another process's memory",
        _python("""
word = ctypes.create_string_buffer(b'secret')
child = os.fork()
if child == 0:
    time.sleep(30); os._exit(0)
got = ctypes.create_string_buffer(6)
here, there = (L * 2)(ctypes.addressof(got), 6), (L * 2)(ctypes.addressof(word), 6)
breach(call(310, 270, child, here, 1, there, 1, 0) == 6 and got.raw == b'secret')
os.kill(child, 9)
"""),
        "process_vm_readv",
    ),
    (
        "limits of pid 1",
        _python("breach(call(302, 261, 1, 7, (L * 2)(64, 64), None) == 0)"),
        "prlimit64",
    ),
    (
        "mounting",
        _python("breach(libc.mount(b'x', b'/mnt', b'tmpfs', L(0), b'') == 0)"),
        "mount",
        "capabilities",
    ),
    ("chroot", _python("breach(libc.chroot(b'/tmp') == 0)"), "chroot", "capabilities"),
    (
        "unshare of a user namespace",
        _python("breach(libc.unshare(0x10000000) == 0)"),
        "unshare",
        "user_namespaces",
    ),
    (
        "clone into a user namespace",
        _python("""
child = call(56, 220, 0x10000011, 0, 0, 0, 0)
if child == 0: os._exit(0)
breach(child > 0)"""),
        "clone",
        "user_namespaces",
    ),
    (
        "writing a kernel setting",
        "echo 4096 > /proc/sys/kernel/msgmax && echo BREA''CH",
        "",
        "settings",
    ),
    (
        "adding a key",
        _python("breach(call(248, 217, b'user', b'name', b'key', 3, -2) > 0)"),
        "add_key",
    ),
    ("joining a keyring", _python("breach(call(250, 219, 0, -2, 1) > 0)"), "keyctl"),
    (
        "io_uring",
        _python("breach(call(425, 425, 8, ctypes.create_string_buffer(120)) >= 0)"),
        "io_uring_setup",
        "",
        False,
    ),
    (
        "asynchronous input and output",
        _python("breach(call(206, 0, 64, ctypes.byref(ctypes.c_ulong())) == 0)"),
        "io_setup",
    ),
    (
        "rules of Landlock",
        _python("breach(call(444, 444, (ctypes.c_ulong * 2)(4, 0), 8, 0) >= 0)"),
        "landlock_create_ruleset",
        "",
        False,
    ),
    (
        "a tree of mounts by a new call",
        _python("breach(call(467, 467, -100, b'/', 0, None, 0) >= 0)"),
        "open_tree_attr",
        "",
        False,
    ),
    (
        "the list of mounts by a new call",
        _python("""
request = (ctypes.c_ulong * 3)(24, 0xFFFFFFFFFFFFFFFF, 0)
breach(call(458, 458, request, (ctypes.c_ulong * 64)(), 64, 0) >= 0)
"""),
        "listmount",
        "",
        False,
    ),
    (
        "pages of a file that were read",
        _python("""
range_, found = (ctypes.c_ulong * 2)(0, 0), (ctypes.c_ulong * 5)()
with open('/tmp/x', 'wb+') as file:
    file.write(b'x'); file.flush()
    breach(call(451, 451, file.fileno(), range_, found, 0) == 0)
"""),
        "cachestat",
        "",
        False,
    ),
    (
        "pages held by a pipe",
        _python("""
page = ctypes.create_string_buffer(4096)
breach(call(278, 75, os.pipe()[1], (ctypes.c_size_t * 2)(ctypes.addressof(page), 4096), 1, 0) > 0)
"""),
        "vmsplice",
    ),
    ("rewriting pid 1", _REWRITING, "", "settings"),
    ("userfaultfd", _python("breach(call(323, 282, 1) >= 0)"), "userfaultfd", "", False),
    (
        "a vsock to the hypervisor",
        _python("socket.socket(40, socket.SOCK_STREAM); breach(True)"),
        "socket",
        "",
        False,
    ),
    (
        "a packet socket",
        _python("socket.socket(17, socket.SOCK_RAW); breach(True)"),
        "socket",
        "capabilities network",
    ),
    (
        "larger buffers than the limit counts",
        _python("""
sock = socket.socket(socket.AF_UNIX)
for option in (socket.SO_SNDBUF, socket.SO_RCVBUF): \
sock.setsockopt(socket.SOL_SOCKET, option, 1 << 22)
breach(max(sock.getsockopt(socket.SOL_SOCKET, option) \
for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)) > 212_992)
"""),
        "setsockopt",
    ),
    (
        "typing into a terminal",
        _python("""
import fcntl
control, terminal = os.openpty()
if os.fork() == 0:
    os.setsid()
    fcntl.ioctl(terminal, 0x540E, 0)
    try:
        fcntl.ioctl(terminal, 0x5412, b'x')
        breach(True)
    except OSError as error:
        breach(False)
    os._exit(0)
os.wait()
"""),
        "ioctl",
        "",
        False,
    ),
    (
        "renaming the machine",
        _python("breach(libc.sethostname(b'x', 1) == 0)"),
        "sethostname",
        "capabilities",
    ),
)

# -- resources that the kernel counts per user, over all sandboxes: `after` runs in a neighbour ----


def _holding(take: str) -> str:
    """Return an action that takes as much as it can get, and holds it for a minute."""
    program = _python(
        f"keep = []\ntry:\n    while True:\n        {take}\nexcept OSError: pass\n"
        "print('held', flush=True); time.sleep(60)"
    )
    return (
        program.replace("<<'PYTHON'", "<<'PYTHON' > /dev/shm/held &")
        + "\nuntil grep -q held /dev/shm/held; do sleep 0.02; done"
    )


NEIGHBOURS = _table(
    "name action after protections every_kernel",
    (
        "descriptors in flight",
        _holding(
            "keep.append(socket.socketpair()); socket.send_fds(keep[-1][0], [b'x'], [0] * 200)"
        ),
        "",
        "limits",
    ),
    (
        "timers",
        _holding(
            "keep.append(libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())))\n"
            "        if keep[-1]: break"
        ),
        _python(  # several: one that was pending while all were taken may have come free
            "timers = [libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())) "
            "for _ in range(50)]\nbreach(any(timers))"
        ),
        "limits",
    ),
    (
        "inotify instances",
        _holding("keep.append(libc.inotify_init1(0))\n        if keep[-1] < 0: break"),
        _python("breach(libc.inotify_init1(0) < 0)"),
        "inotify_instances",
    ),
    (
        "pipes as large as can be",
        _holding("keep.append(os.pipe()); fcntl.fcntl(keep[-1][1], 1031, 1 << 20)"),
        "",
        "",
        False,
    ),
    ("many processes", "for n in {1..50}; do sleep 60 & done 2> /dev/null", "", "", False),
)

# -- the host: without a sandbox, the control succeeds ---------------------------------------------

OUTSIDE = _table(
    "name action",
    *{
        "reading environments": "cat /proc/[0-9]*/environ 2> /dev/null | tr '\\0' '\\n' | "
        "grep -q '^PLANTED=outside' && echo BREA''CH",
        "seeing processes": "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q '[s]leep 54321' && "
        "echo BREA''CH",
        "reading files": "cat @FILE@ 2> /dev/null",
        "an abstract socket": _python(
            "socket.socket(socket.AF_UNIX).connect('\\0intercode-test-@PORT@'); breach(True)"
        ),
        "the network of the host": _python(
            "socket.create_connection(('127.0.0.1', @PORT@), 3); breach(True)"
        ),
        "killing all": "kill -9 -1",
    }.items(),
)

# -- effects on the next episode: without a reset, the control finds them --------------------------

LEFT = _table(
    "name action after",
    (
        "a survivor in a session of its own",
        "setsid sleep 4242 > /dev/null 2>&1 & sleep 0.5",
        "pgrep -f 'sleep 424[2]' && echo BREA''CH",
    ),
    ("a background job", "sleep 4243 & sleep 0.5", "pgrep -f 'sleep 424[3]' && echo BREA''CH"),
    (
        "a survivor without its first thread",
        _python("""
import threading
if os.fork() == 0:
    os.setsid(); os.close(1); os.close(2)
    open('/proc/self/comm', 'w').write('lone4244')
    threading.Thread(target=time.sleep, args=(300,)).start()
    libc.pthread_exit(None)
"""),
        "grep -q lone4244 /proc/[0-9]*/comm && echo BREA''CH",
    ),
    (
        "an orphan that forks on",
        "(while :; do sleep 1.4245; done; ) & disown; until pgrep -f 'sleep 1.424[5]'; do :; done",
        "pgrep -f 'sleep 1.424[5]' && echo BREA''CH",
    ),
    ("files", "echo x > /tmp/left; echo x > /var/tmp/left", "ls /tmp/left && echo BREA''CH"),
    (
        "removing everything",
        "rm -rf --no-preserve-root /* 2> /dev/null",
        "[ -e /etc/passwd ] || echo BREA''CH",
    ),
    ("a file in /dev/shm", "echo x > /dev/shm/left", "[ -e /dev/shm/left ] && echo BREA''CH"),
    (
        "a System V segment",
        _python("libc.shmget(4242, L(4096), 0o1600)"),
        "grep -qw 4242 /proc/sysvipc/shm && echo BREA''CH",
    ),
    (
        "a POSIX message queue",
        _python("call(240, 180, b'left', 0o102, 0o600, 0)"),
        _python("breach(call(240, 180, b'left', 0, 0, 0) >= 0)"),
    ),
    (
        "a listening socket",
        _python("""
sock = socket.socket(); sock.bind(('127.0.0.1', 4242)); sock.listen()
if os.fork() == 0:
    os.setsid(); os.close(1); os.close(2); time.sleep(300)
"""),
        _python("breach(socket.socket().connect_ex(('127.0.0.1', 4242)) == 0)"),
    ),
    (
        "a socket in TIME_WAIT",
        _python("""
server = socket.socket(); server.bind(('127.0.0.1', 4242)); server.listen()
client = socket.create_connection(('127.0.0.1', 4242)); there, _ = server.accept()
there.close(); client.close()
"""),
        "grep -q ':1092 .* 06 ' /proc/net/tcp && echo BREA''CH",
    ),
    (
        "a lowered resource limit",
        "ulimit -f 1; ulimit -n 333",
        "[ $(ulimit -n) = 333 ] && echo BREA''CH",
    ),
    ("a file mode mask", "umask 0777", "[ $(umask) = 0777 ] && echo BREA''CH"),
    ("a changed PATH", "PATH=/tmp; export BASH_ENV=/tmp/x", "[ $PATH = /tmp ] && echo BREA''CH"),
    (
        "a lower priority of the process group",
        "echo 15 > /proc/1/autogroup",
        "grep -q 'nice 15' /proc/1/autogroup && echo BREA''CH",
    ),
    (
        "a file in /dev",
        "mknod /dev/left p || mkdir /dev/left || touch /dev/left || touch /dev/pts/left; "
        "touch /tmp/left",
        "for f in /tmp/left /dev/left /dev/pts/left; do [ -e $f ] && echo BREA''CH; done",
    ),
    (
        "a file among the control groups",
        "touch /tmp/left /sys/fs/cgroup/left",
        "for f in /tmp/left /sys/fs/cgroup/left; do [ -e $f ] && echo BREA''CH; done",
    ),
    (
        "the mode and the owner of a device",
        "touch /tmp/left; chmod 600 /tmp/left /dev/null; chown 33 /dev/full",
        "for f in /tmp/left /dev/null; do [ $(stat -c %a $f) = 600 ] && echo BREA''CH; done; "
        "[ $(stat -c %u /dev/full) = 33 ] && echo BREA''CH",
    ),
    (
        "a job that writes after the submission",
        "setsid bash -c 'while :; do echo x > /srv/late; sleep 0.05; done' > /dev/null 2>&1 &",
        "mkdir -p /srv; sleep 0.3; [ -e /srv/late ] && echo BREA''CH",
    ),
    (
        "a start script of the shell",
        "echo 'echo BREA''CH' | "
        "tee /root/.bashrc /root/.bash_profile /etc/profile.d/left.sh > /dev/null",
        "cat /root/.bashrc /etc/profile.d/left.sh 2> /dev/null",
    ),
    (
        "a time zone",
        "ln -sf /usr/share/zoneinfo/Asia/Tokyo /etc/localtime; export TZ=UTC-9",
        "[ $(date +%z) = +0900 ] && echo BREA''CH",
    ),
    (
        "very deep folders",
        _python("""
for depth in range(4000):
    os.mkdir('d'); os.chdir('d')
open('left', 'w').close()
"""),
        "[ -d d/d/d/d/d/d/d/d ] && echo BREA''CH",
    ),
)

SHELL_STATE = {
    "a lowered resource limit",
    "a file mode mask",
    "a changed PATH",
    "very deep folders",
}
"""The attacks in `LEFT` that change the state of a shell."""

# -- the session: if the shell reads commands from its standard input, the next command is lost ----

SHELL = _table(
    "name action",
    *{
        "exit": "exit 3",
        "exec of a program": "exec true",
        "exec of a program that stays": "exec sleep 60",
        "reading standard input": "cat > /dev/null; read -r line",
        "an open quote": "echo 'open",
        "an open double quote": 'echo "open $(',
        "an open here-document": "cat <<END",
        "an open brace": "{ echo",
        "killing the shell": "kill -9 $$",
        "stopping the shell": "kill -STOP $$",
        "a shell that executes nothing": "set -n",
        "exit on error": "set -e; false",
        "a trap at every command": "set -T; trap 'exit 1' DEBUG",
        "a loop": "while :; do :; done",
        "a loop that ignores signals": "trap '' INT TERM HUP; while :; do :; done",
        "a program that ignores signals": "trap '' INT TERM HUP; sleep 60",
        "a trap with a loop": "trap 'while :; do :; done' INT; sleep 60",
        "functions that replace builtins": "printf() { :; }; eval() { :; }; read() { :; }; "
        "return() { :; }; "
        "continue() { :; }; sleep 60",
        "builtins switched off": "enable -n printf eval read echo; exit",
        "POSIX mode": "set -o posix; unset -f echo; exec < /dev/null; exit",
    }.items(),
)

# -- the sandbox's own processes and files ---------------------------------------------------------

GUEST = _table(
    "name action",
    *{
        "killing pid 1": "kill -9 1; kill -SEGV 1; kill -TERM 1; kill -STOP 1",
        "finding the guest": "cat /proc/[0-9]*/cmdline /proc/[0-9]*/comm | "
        "grep -a -e '[g]uest' -e '[s]upervisor' -e '[b]wrap' -e '[p]ython' && echo BREA''CH",
        "closing descriptors": 'for fd in {3..255}; do eval "exec $fd>&-"; done 2> /dev/null',
        "writing to descriptors": "for fd in {3..255}; do echo 0 0 >&$fd; echo garbage >&$fd; "
        "done 2> /dev/null",
        "flooding descriptors": "for fd in {3..70}; do timeout 0.2 yes >&$fd & done 2> /dev/null; "
        "wait",
        "forged completions": "for fd in {3..70}; do printf '0 %d\\n' {0..3000} >&$fd; "
        "done 2> /dev/null; echo more",
        "forged completions later": "(sleep 0.3; for fd in {3..70}; "
        "do printf '0 %d\\n' {0..3000} >&$fd; done) 2> /dev/null &",
        "reading the next action": "for fd in {3..70}; "
        "do timeout 0.2 cat <&$fd & done 2> /dev/null; wait",
        "emptying the guest's variables": "unset __intercode; __intercode() { exit; }; "
        "readonly __intercode",
        "signals to all": "for n in 1 2 3 6 10 12 13 14 15 17 28; do kill -$n -1; done",
        "killing all": "kill -9 -1",
        "limits of all processes": "for p in /proc/[0-9]*; "
        "do prlimit --pid ${p#/proc/} --nofile=0 --data=0 --cpu=0 --nproc=0; done 2> /dev/null",
        "a file in place of the working folder": "mkdir /tmp/a; cd /tmp/a; rmdir /tmp/a; "
        "touch /tmp/a; exit",
        "an argument too long": "x=$(head -c 400k /dev/zero | tr '\\0' x); export x; ls",
        "a classic fork bomb": ":() { : | : & }; :",
        "a fork bomb of short-lived processes": "while :; do (setsid true &); done",
        "endless output": "yes",
        "a line of 10 MB": "head -c 10M /dev/zero | tr '\\0' x",
        "bytes that are no UTF-8": "head -c 3M /dev/urandom; printf '\\xff\\xfe\\0\\xc3('",
    }.items(),
)

# -- no shell can start after these: every action reports that until the reset ---------------------

FATAL = _table(
    "name action",
    *{
        "removing everything, then the shell": "rm -rf --no-preserve-root /* 2> /dev/null; exit",
        "forbidding the root folder": "cd /tmp; chmod 0 / /tmp; exit",
    }.items(),
)

GROUPS = (
    (EXHAUSTION, "exceed a limit"),
    (KERNEL, "use a forbidden feature of the kernel"),
    (OUTSIDE, "reach the host"),
    (NEIGHBOURS, "take what other sandboxes need"),
    (LEFT, "affect the next episode"),
    (SHELL, "lose the next action"),
    (GUEST, "break the sandbox's own processes"),
    (FATAL, "leave the next episode without a shell"),
)
"""The groups of attacks, each with its aim."""
