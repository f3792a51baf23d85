"""Pid 1 of the sandbox: starts an episode server for each episode and ends it. It knows nothing
about what happens in an episode.

    host ══ frames ══► supervisor ── clone ──► episode server: enter namespaces ─► start the session
                                               ─► {"ready"} ─► serve

The host sends three requests over the control socket: `start` starts an episode server (with the
server's end of a socket, and for a copy the upper folder of the other episode), `end` ends one.
`spare` comes with the same, before the host needs the episode: its server starts when the episode
beside it has had no request for 20 ms, or at the `start` of that number. The supervisor sends no
replies: a new episode server answers on its own socket, and one that fails closes it. Only if the
server cannot be cloned, since the machine has no room, does the supervisor answer there. When the
control socket closes, the supervisor exits and the kernel ends the whole sandbox.

bubblewrap starts `main`. A container starts `main_in_container`, which first builds what bubblewrap
builds on the host.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import sys
import time
from collections.abc import Container

from . import kernel, mounts, namespaces, spawn, wire
from .episode import TIME, EpisodeServer
from .light import Message, NamedTuple, NoReturn, signal, socket
from .room import NO_ROOM
from .shell import Shell, ShellJob, find_program

_EPISODES = 512
_QUIET = 0.02
"""Seconds without a request after which a spare starts: whoever plays without pause needs the
processors for the episode."""


class Spare(NamedTuple):
    """An episode server, requested at a time, that will start when the episode numbered `beside` is
    quiet."""

    head: Message
    fds: list[int]
    requested: float


class Supervisor:
    def __init__(
        self,
        control: socket.socket,
        config: Message,
        server: type[EpisodeServer],
        seccomp: bytes,
    ) -> None:
        self._control, self._server = control, server
        self._filters = list[bytes]()
        for size in config["filters"]:
            self._filters.append(seccomp[:size])
            seccomp = seccomp[size:]
        self._seccomp = self._filters[0]
        self._config = {**config, "mounts": mounts.MountConfig(*config["mounts"])}
        self._children = os.open(
            f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC
        )
        self._pids = dict[int, int]()
        self._has_network = False
        self._spares = dict[int, Spare]()
        self._times = os.memfd_create("times")
        """A file with a `TIME` for each episode: when it last replied, or, while it answers a
        request, the negative of when that came. Two with one offset delay each other's spares."""
        namespaces.raise_limits(config["rlimits"])
        self._prepare()

    def _prepare(self) -> None:
        self._config["mounts"] = mounts.prepare(self._config["mounts"])

    def serve(self) -> None:
        """Answer requests until the control socket closes."""
        spawn.prepare_stacks()
        spawn.prepare_arrays([namespaces.INIT_NAME], {})
        Shell.prepare(self._config["env"])
        kernel.place_filter(self._seccomp)
        # from now on nothing is imported: an episode server lives among the agent's files
        sys.path.clear()
        sys.meta_path.clear()
        gc.collect()
        gc.freeze()
        while True:
            rest = self._start_spares()
            if rest is not None and not select.select([self._control], [], [], rest)[0]:
                continue
            try:
                head, _, fds = wire.receive_with_fds(self._control, 0)
            except EOFError:
                return
            number = head["number"]
            spare = self._spares.pop(number, None)
            if head["op"] == "spare":
                self._spares[number] = Spare(head, fds, time.monotonic())
            elif head["op"] == "start":
                # killed first, waited for last: it dies while the new server is built
                self._make_way(head.get("replaces") or 0)
                if fds:
                    self._start(head, fds)
                elif spare:
                    self._start(spare.head, spare.fds)
                self._reap()
            elif spare:
                for fd in spare.fds:
                    os.close(fd)
            else:
                self._kill(number)
                self._reap()

    def _start_spares(self) -> float | None:
        """Start the spares whose episodes are quiet. Return the seconds until the next one may
        start, None if there are no more."""
        rests = []
        for number, spare in list(self._spares.items()):
            replied, now = self._last_reply(spare.head["beside"]), time.monotonic()
            if replied < 0:  # look more rarely the longer it takes
                rests.append(max(_QUIET, (now + replied) / 4))
            elif (quiet := now - max(spare.requested, replied)) < _QUIET:
                rests.append(_QUIET - quiet)
            else:
                del self._spares[number]
                self._start(spare.head, spare.fds)
        return min(rests, default=None)

    def _last_reply(self, number: int) -> float:
        """Return the time of an episode, see `_times`."""
        written = os.pread(self._times, TIME.size, _offset(number))
        return float(*TIME.unpack(written))

    def _start(self, head: Message, fds: list[int]) -> None:
        """Start an episode server with the server's end of a socket, and for a copy the upper
        folder of the other episode."""
        sock = socket.socket(fileno=fds[0])
        try:
            pid = self._clone(head, *fds[1:])
            if pid == 0:
                self._run_server(head, sock, *fds[1:])
            self._pids[head["number"]] = pid
        except OSError as error:
            refuse(sock, error)
        sock.close()
        for fd in fds[1:]:
            os.close(fd)

    def _clone(self, head: Message, inherited: int | None = None) -> int:
        """Fork the process that becomes an episode server; return its pid, and 0 in the child."""
        self._make_network()
        pid = kernel.clone(namespaces.clone_flags(self._config))
        if pid:
            self._has_network = False
            with contextlib.suppress(OSError):
                self._make_network()  # the next one's, while this one builds its files
        return pid

    def _make_network(self) -> None:
        if self._config["own_network"] and not self._has_network:
            namespaces.make_network(self._config)
            self._has_network = True

    def _run_server(self, head: Message, sock: socket.socket, *inherited: int) -> NoReturn:
        """In the clone: enter the agent's world, start the agent's session, and serve the episode
        until its end."""
        try:
            self._leave_supervisor()
            config = self._config_of(head)
            world = self._enter(config, *inherited)
            episode = self._begin(sock, config, world)
        except Exception as error:
            refuse(sock, error)
            os._exit(1)
        try:
            episode.serve()
        finally:
            os._exit(0)

    def _leave_supervisor(self) -> None:
        """In a clone: give up what only the supervisor holds."""
        kernel.die_with_parent()
        self._control.close()
        for spare in self._spares.values():
            for fd in spare.fds:
                os.close(fd)

    def _config_of(self, head: Message) -> Message:
        """Return the configuration of an episode, which has not replied yet."""
        offset = _offset(head["number"])
        os.pwrite(self._times, TIME.pack(0.0), offset)
        return {**self._config, **head, "times": (self._times, offset)}

    def _begin(
        self, sock: socket.socket, config: Message, world: namespaces.EpisodeWorld
    ) -> EpisodeServer:
        """In the agent's world: start the agent's session, and tell the host.

        The agent's shell is started on the server's processor. Otherwise the kernel would move the
        new program to the idlest processor, and two processes that wake each other across
        processors are slow until the kernel brings them together: the first steps of an episode
        took twice as long. Before and after, the server may run wherever the supervisor may, and
        the agent's processes anywhere: held to one processor for the whole start, two episode
        servers waited for each other.
        """
        everywhere = os.sched_getaffinity(0)
        _run_on({kernel.current_processor()}, 0)
        episode = self._server(sock, config, world)
        wire.send(sock, {"ready": True, "copied": world.copied})
        _run_on(everywhere, 0, *episode.session)
        with world.as_agent():  # if the session's process is the agent's already
            _run_on(everywhere, *episode.session)
        return episode

    def _enter(self, config: Message, inherited: int | None = None) -> namespaces.EpisodeWorld:
        return namespaces.enter(config, self._seccomp, inherited)

    def _make_way(self, number: int) -> None:
        """End an episode that another one replaces, 0 for none."""
        self._kill(number)

    def _kill(self, number: int) -> None:
        """Kill an episode server, if it is there."""
        if number in self._pids:
            os.kill(self._pids.pop(number), signal.SIGKILL)

    def _reap(self) -> None:
        """Wait until the servers that were killed, and the orphans that they left, are gone; forget
        servers that end meanwhile.

        An episode's init ends only when all processes below it are reaped.
        """
        while True:
            os.lseek(self._children, 0, os.SEEK_SET)
            orphans = set(map(int, kernel.read_all(self._children).split())) - self._servers()
            orphans.discard(0)  # one that is just being reaped
            if not orphans:
                return
            for orphan in orphans:
                os.kill(orphan, signal.SIGKILL)
            self._forget({os.waitpid(-1, 0)[0] for _ in orphans})

    def _servers(self) -> set[int]:
        """Return the pids of this process's children that live on."""
        return set(self._pids.values())

    def _forget(self, dead: Container[int]) -> None:
        self._pids = {number: pid for number, pid in self._pids.items() if pid not in dead}


def _offset(number: int) -> int:
    """Return the place of an episode in the file of times."""
    return number % _EPISODES * TIME.size


def refuse(sock: socket.socket, error: Exception) -> None:
    """Send the host the message that it gets in place of `ready`, if it still waits for one.

    `later`: the machine has no room now, since processes of the last episode are still dying, or
    other episodes have many.
    """
    key = "failed"
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        key = "later"
    with contextlib.suppress(OSError):
        wire.send(sock, {key: f"{type(error).__name__}: {error}"})


def _run_on(processors: set[int], *pids: int) -> None:
    for pid in pids:
        # processors may be taken from a machine or a container at any time
        with contextlib.suppress(OSError):
            os.sched_setaffinity(pid, processors)


def main(kind: type[Supervisor] = Supervisor) -> None:
    """Run as pid 1 under bubblewrap, with the control socket as descriptor 0."""
    os.closerange(3, 1 << 16)  # bubblewrap's own
    if os.getpid() != 1:  # in a container
        kernel.adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=0)
    config, seccomp, fds = wire.receive_with_fds(control, 1 << 20)
    config, server = _choose_server({**config, "export": fds[0] if fds else None})
    kind(control, config, server, seccomp).serve()


def main_in_container() -> None:
    """Run as pid 1 of a container, connected to the host's socket `wire.LINE`.

    Mounting takes CAP_SYS_ADMIN in the container's user namespace. The supervisor leaves that
    namespace for one of its own, in which all users of the container exist, before it starts the
    first episode server.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(socket.AF_UNIX)
    control.connect(wire.LINE)
    config, seccomp, _ = wire.receive_with_fds(control, 1 << 20)
    lend_bash = find_program("bash", config["env"]) == "bash"
    if lend_bash:
        if find_program("sh", config["env"]) == "sh":
            wire.send(control, {"shell": False})
            return
        bundle = wire.BUNDLE
        ShellJob.bash = (
            f"{bundle}/loader",
            "--library-path",
            f"{bundle}/lib",
            "--argv0",
            "bash",
            f"{bundle}/shell",
        )
    network_files = ["etc/hosts", "etc/hostname"]
    if not config["own_network"]:
        network_files.append("etc/resolv.conf")
    try:
        config, server = _choose_server(config)
        mounts.build_container_root(network_files, lend_bash)
        namespaces.leave_user_namespace()
        supervisor = Supervisor(control, config, server, seccomp)
    except OSError as error:
        wire.send(control, {"failed": str(error)})
        return
    wire.send(control, {"ready": True})
    supervisor.serve()


def _choose_server(config: Message) -> tuple[Message, type[EpisodeServer]]:
    """Return the configuration and the class of episode servers. Shells don't import the Python
    one, which takes memory."""
    if config["program"] == "bash":
        return config, EpisodeServer
    from . import python_episode

    return python_episode.prepare(config), python_episode.PythonEpisodeServer
