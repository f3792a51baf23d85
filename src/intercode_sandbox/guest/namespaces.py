"""From a fresh clone to the episode's namespaces: what an episode server does before it serves, and
the agent's init.

    supervisor
      └─ clone (user, mount, ipc, uts) ──► episode server ── builds the file system, enters it
           │ unshare(pid)
           ├─ spawn ─► init: the agent's pid 1; mounts /proc, then only sends signals
           └─ spawn ─► the agent's shell and programs (parent: 0, as in docker exec)

The episode server itself stays outside the agent's pid namespace: the agent cannot see, signal or
trace the server. Init has no more rights than the agent; if the agent makes init exit, the kernel
ends all processes of the agent, and the server exits too.

`disabled` in the configuration names protections that a test turns off to see an attack succeed
(`DisabledProtections`): user_namespaces, settings, capabilities, limits, network (a network
namespace that the agent's root owns), buffers (of TCP sockets), attached (watches and locks).
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
from collections.abc import Callable, Collection
from functools import partial

from . import kernel, layers, mounts, processes, spawn
from .light import Message, NamedTuple, signal, socket

SERVER_RIGHTS = (
    kernel.DAC_OVERRIDE,
    kernel.DAC_READ_SEARCH,
    kernel.FOWNER,
    kernel.KILL,
    kernel.SYS_PTRACE,
)
USER_RIGHTS = (
    kernel.CHOWN,
    kernel.DAC_OVERRIDE,
    kernel.FOWNER,
    kernel.FSETID,
    kernel.KILL,
    kernel.SETGID,
    kernel.SETUID,
)
"""The rights to give files to other users, to read theirs, and to become them."""
_ROOT_RIGHTS = (*USER_RIGHTS, kernel.NET_BIND_SERVICE)
"""The agent's rights in a container, or as root."""
_NAMESPACES = kernel.NEWNS | kernel.NEWIPC | kernel.NEWUTS
_OWN_PROCESSES = 2
_USERS_SHARE = 4
"""The kernel's limit on the processes of all users of an episode, as a multiple of the agent's own
limit, which the episode server enforces."""
_MOST = (("user_namespaces", "0"), ("inotify_instances", "16"), ("inotify_watches", "8192"))
"""Limits per episode on resources that the kernel otherwise counts for all programs of one user
(/proc/sys/user/max_NAME)."""
_ACKNOWLEDGE_SECONDS = 2.0
INIT, INIT_NAME = "/guest/bash", "/bin/bash"
_OF_NETWORK = {
    "tcp_rmem": "4096 131072 131072",
    "tcp_wmem": "4096 16384 81920",
    "ip_unprivileged_port_start": "0",
}
"""Minimum, initial and maximum bytes of a TCP socket's buffers, together about the bytes counted
for a socket (`SOCKET_BUFFER`); and every port may be bound, as by root elsewhere."""


class Init(NamedTuple):
    """Pid 1 of the agent's processes. Init obeys its socket, which the agent cannot open."""

    pid: int
    line: int
    ended: int = -1
    """A pidfd, if init is not a child of this process."""

    def signal_all(self, number: int) -> None:
        """Have init send a signal to all other processes of the agent, in one system call. Return
        when the signal was sent.

        A late signal would hit the next action's process, or the episode server's while it spawns.
        """
        with contextlib.suppress(OSError):
            os.write(self.line, bytes([number]))
            if select.select([self.line], [], [], _ACKNOWLEDGE_SECONDS)[0]:
                os.read(self.line, 1)


class EpisodeWorld:
    """Gives an episode server the agent's processes and files, and the agent's rights. `files` is a
    descriptor of the folder from which a fork begins, `below_seals` of the agent's / in which
    sealed paths can be written."""

    copied = False
    """The episode began with a copy of files that are usually below an overlay."""
    _first_bytes = 0

    def __init__(
        self, table: processes.ProcessTable, folders: mounts.Folders, init: Init, config: Message
    ) -> None:
        self.table, self.init, self.files = table, init, folders.upper
        self.below_seals = folders.below_seals
        self._folders, self._disabled = folders, config["disabled"]
        self._limits = {**config["rlimits"], "NPROC": config["rlimits"]["NPROC"] + _OWN_PROCESSES}
        if copies := folders.copies:
            self.copied = True
            self._first_bytes = copies.bytes + len(copies) * mounts.INODE_SHARE

    def diff(self) -> layers.Changes:
        upper, lower, tree, copies, _ = self._folders
        if copies:
            return layers.diff(upper, lower, tree, copies.is_same, copies.names)
        return layers.diff(upper, lower, tree)

    def export(self, target: int) -> None:
        """Copy this episode's changes into a folder, as a layer."""
        layers.copy(self.files, target)
        _, _, name, copies, _ = self._folders
        if copies:
            tree = kernel.open_folder(name, target)
            layers.cover(tree, copies.names)
            os.close(tree)

    def memory_used(self) -> int:
        """Return the bytes of memory that files take, without those copied for the episode."""
        return mounts.bytes_used("/") + mounts.bytes_used("/dev/shm") - self._first_bytes

    def disk_is_full(self) -> bool:
        """Return whether the disk that the agent writes to has no room for more bytes or files."""
        return mounts.is_full("/")

    def disk_exceeded(self) -> bool:
        """Return whether the agent has written more than it may, which a tmpfs prevents."""
        return False

    def as_agent(self) -> contextlib.AbstractContextManager[None]:
        """Use the agent's rights to files within the block. A namespace's root has no others."""
        return contextlib.nullcontext()

    def become_agent(self, *, executes: bool) -> None:
        """In a child of the episode server: take over the agent's limits, and give up the server's
        rights.

        The server has no such limits itself, so that whatever the agent holds, the server can still
        answer. A child that `executes` a program keeps its rights until then
        (`limit_capabilities`): the program cannot have more.
        """
        if "limits" not in self._disabled:
            set_limits(self._limits)
        if not executes and "capabilities" not in self._disabled:
            kernel.drop_capabilities(())


def clone_flags(config: Message) -> int:
    """Return the namespaces that an episode server is cloned into. The supervisor makes the network
    namespace, `enter` the pid namespace, and all others if the agent is root."""
    if config["mounts"].root:
        return 0
    flags = _NAMESPACES
    if "network" in config["disabled"]:
        flags |= kernel.NEWNET
    if not config["mounts"].in_container:
        flags |= kernel.NEWUSER
    return flags


def make_network(config: Message) -> None:
    """Make a network with only a loopback interface. The supervisor does this, so that the agent's
    root does not own the network; for each episode, since copies and spares run side by side, and
    a closed connection keeps its port for a minute."""
    kernel.unshare(kernel.NEWNET)
    kernel.raise_loopback()
    # a shared /proc is read-only
    if not (config["mounts"].shared_proc or "buffers" in config["disabled"]):
        for name, value in _OF_NETWORK.items():
            write(f"/proc/sys/net/ipv4/{name}", value)


def enter(config: Message, seccomp: bytes, inherited: int | None) -> EpisodeWorld:
    """Build and enter the episode's file system, start init, and give up every right that is not
    needed any more."""
    mount_config: mounts.MountConfig = config["mounts"]
    agent_rights = _ROOT_RIGHTS if mount_config.in_container or mount_config.root else ()
    if mount_config.root:
        # the kernel counts each user's processes, and those of a namespace up to the limit that it
        # was made under
        _set_limit("NPROC", _USERS_SHARE * config["rlimits"]["NPROC"], for_good=False)
        leave_user_namespace()
        raise_limits(["NPROC"])
    elif not mount_config.in_container:
        map_user()
    settle(config)
    proc = kernel.open_folder("/proc")
    folders = mounts.build(mount_config, inherited, config["sealed"])
    if "capabilities" not in config["disabled"]:
        kernel.limit_capabilities(agent_rights)
    if not config["own_network"]:  # before init, which the server could not inspect otherwise
        kernel.confine_abstract_sockets()
    kernel.unshare(kernel.NEWPID)
    server_end, init_end = socket.socketpair()
    prepare = partial(set_up_init, config, seccomp, init_end.fileno(), agent_rights)
    try:
        pid = spawn.spawn(prepare, INIT, [INIT_NAME], {})
    finally:
        init_end.close()
    kernel.enter_root(mounts.ROOT)
    lock(config, seccomp, {*SERVER_RIGHTS, *agent_rights})
    kind = processes.Tree if mount_config.shared_proc else processes.ProcessTable
    return EpisodeWorld(kind(proc, pid), folders, Init(pid, server_end.detach()), config)


def map_user() -> None:
    """Give the new user namespace of this process one user, root."""
    for name, line in (("setgroups", "deny"), ("uid_map", "0 0 1"), ("gid_map", "0 0 1")):
        write(f"/proc/self/{name}", line)


def settle(config: Message) -> None:
    """Limit what the agent's user namespace may take of the kernel; when memory runs out, let these
    processes be killed first."""
    for name, value in _MOST:
        if not (config["mounts"].shared_proc or name in config["disabled"]):
            write(f"/proc/sys/user/max_{name}", value)
    write("/proc/self/oom_score_adj", "1000")


def set_limits(limits: dict[str, int]) -> None:
    """Set resource limits, capped at those that the machine or the container allows. Programs may
    raise the size of their stack, as solutions of contests do: it counts as memory."""
    for name, value in limits.items():
        _set_limit(name, value, for_good=name != "STACK")


def _set_limit(name: str, value: int, *, for_good: bool) -> None:
    number = getattr(resource, "RLIMIT_" + name)
    _, most = resource.getrlimit(number)
    if most != resource.RLIM_INFINITY:
        value = min(value, most)
    if for_good:
        most = value
    resource.setrlimit(number, (value, most))


def raise_limits(names: Collection[str]) -> None:
    """Raise the soft limits that this process has inherited: those set for agents, and those that
    no process here should have."""
    for name in {*names, "AS", "CPU"} - {"CORE"}:
        number = getattr(resource, "RLIMIT_" + name)
        _, most = resource.getrlimit(number)
        resource.setrlimit(number, (most, most))
    set_limits({"CORE": 0})


def set_up_init(
    config: Message,
    seccomp: bytes,
    line: int,
    rights: Collection[int],
    finish: Callable[[], object] = lambda: None,
) -> None:
    """Runs in the new pid namespace before init is executed. The episode server sees the mounts
    made here as well. `finish` is called before the rights are given up."""
    kernel.die_with_parent()
    # the scheduler groups processes by session, and the agent may slow the session that it sees
    # here
    os.setsid()
    mount_config = config["mounts"]
    mounts.mount_proc(mount_config, sealed=bool(config["sealed"]))
    if (
        not (mount_config.in_container or mount_config.shared_proc)
        and "settings" not in config["disabled"]
    ):
        # the agent's root owns the settings of its namespaces; the agent could also rewrite init
        # and make it die as if from outside
        for path in ("/proc/sys", "/proc/1/mem", "/proc/1/task/1/mem"):
            mounts.bind_read_only(mounts.ROOT + path, path)
    finish()
    os.dup2(line, 0)
    os.closerange(1, 3)
    kernel.ignore_signal(signal.SIGCHLD)  # then nobody needs to wait for orphans
    lock(config, seccomp, rights)


def lock(config: Message, seccomp: bytes, rights: Collection[int]) -> None:
    """Mounting is over: keep these capabilities alone, and filter system calls."""
    if "capabilities" not in config["disabled"]:
        kernel.drop_capabilities(rights)
    kernel.install_filter(seccomp)


def write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, text.encode())
    os.close(fd)


def leave_user_namespace() -> None:
    """Move this process from its user namespace to a new one with the same users.

    A process outside the new namespace must write the map of its users: a child that stays behind.
    """
    moved, here = os.pipe()
    pid = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(here)
        os.read(moved, 1)
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/self/{name}", encoding="utf-8") as file:
                lines = [f"{inside} {inside} {count}" for inside, _, count in map(str.split, file)]
            write(f"/proc/{pid}/{name}", "\n".join(lines))
        os._exit(0)
    kernel.unshare(_NAMESPACES | kernel.NEWUSER)
    os.close(here)
    os.close(moved)
    os.waitpid(child, 0)
