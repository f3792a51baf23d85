"""Players: episode servers that play many episodes, each in a new cell with namespaces of its own.

    supervisor ── clone, once ──► player: alone in its user namespace, with few rights and a filter
      │ at the start of an episode                │
      ├─ child: joins the player's users          │
      │    └─ init of the cell: builds the file   │
      │       system, enters it, ──── line ─────► joins the cell, plays
      │       and locks itself up                 │
      └─ at its end: kills init, ──── line ─────► leaves the cell, forgets the episode, says so

The children work in the supervisor's memory: to clone a server for each episode, and to copy the
pages that it writes to, was most of an episode's start. Only the supervisor has the rights to make
namespaces and mounts. The cell's user namespace is a child of the player's, so the player can join
this cell, watch its processes and change its files. It can do none of that to the cells of other
players.

What an episode opened in the player is closed after it, and memory that it freed is overwritten
(`local.py`). A player that met a limit, a time-out or an exception ends, as does one after
`_EPISODES` episodes.

Forks, whose files must be copied first, and sandboxes of other kinds have an episode server that
plays once (`supervisor.py`). So have Python sessions: the agent's interpreter is a copy of its
server's memory.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import time
from collections.abc import Container, Sequence

from . import kernel, mounts, namespaces, processes, spawn, supervisor, wire
from .episode import EpisodeServer
from .light import Any, Message, NoReturn, signal, socket
from .shell import ShellJob

_HOME = kernel.NEWUSER | kernel.NEWNS | kernel.NEWIPC | kernel.NEWUTS | kernel.NEWNET
_HOMES = ("mnt", "ipc", "uts", "net")
_JOINED = (*_HOMES, "pid")
_RIGHTS = (*namespaces.SERVER_RIGHTS, kernel.SYS_CHROOT, kernel.SYS_ADMIN)
"""With the last two a player may join namespaces below its own; its filter refuses the rest of what
they allow."""
_EPISODES = 50
_PATIENCE, _END, _REPLY = 10.0, 1.0, 0.1
"""Seconds that a player has to leave its cell; in which the end of an episode comes after the host
has closed its socket; and that a player has to note that it has replied."""


class Player:
    """The supervisor's record of a player. `users` is a descriptor of its user namespace."""

    init = 0
    """Pid 1 of the cell that was made for it last."""
    network = -1
    """The network of its next cell."""
    episodes = 0
    _is_idle = False

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid, self.line = pid, line
        self.users = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)

    def await_idle(self) -> None:
        """Wait until the player is in no cell. Raises ConnectionError if it has ended instead, and
        TimeoutError."""
        if self._is_idle:
            return
        if not _has_message(self.line, _PATIENCE):
            raise TimeoutError
        if not self.line.recv(1):
            raise BrokenPipeError
        self._is_idle = True

    def has_ended(self) -> bool:
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return not self.pid or os.waitid(os.P_PID, self.pid, options) is not None

    def begin(self) -> None:
        self._is_idle = False
        self.episodes += 1

    def close_network(self) -> None:
        if self.network >= 0:
            os.close(self.network)
            self.network = -1

    def close(self) -> None:
        self.line.close()
        os.close(self.users)
        self.close_network()


class PlayersSupervisor(supervisor.Supervisor):
    """See `Supervisor` for the requests."""

    def _prepare(self) -> None:
        super()._prepare()
        # else a player could write into this memory while children with rights below it use it
        kernel.let_be_seen(seen=False)
        self._playing = dict[int, Player]()
        self._idle = list[Player]()
        self._guest = os.open(os.path.dirname(namespaces.INIT), os.O_PATH | os.O_CLOEXEC)
        config: mounts.MountConfig = self._config["mounts"]
        self._may_play = (
            spawn.SHARES_MEMORY
            and self._server is EpisodeServer
            and self._config["own_network"]
            and not (config.root or config.shared_proc or config.copies)
        )

    # -- in the supervisor -------------------------------------------------------------------------

    def _start(self, head: Message, fds: list[int]) -> None:
        if not self._may_play or len(fds) > 1:
            super()._start(head, fds)
            return
        sock = socket.socket(fileno=fds[0])
        try:
            if not self._idle or not self._play_on(self._idle.pop(0), head, sock):
                self._play(self._new_player(sock), head, sock)
        except (ConnectionError, TimeoutError):
            pass  # the host sees the end of the socket
        except Exception as error:
            supervisor.refuse(sock, error)
        sock.close()

    def _play_on(self, player: Player, head: Message, sock: socket.socket) -> bool:
        """Have a player play one more episode. Return False if it has ended before: another one
        must not answer on the same socket."""
        try:
            self._play(player, head, sock)
        except ConnectionError:
            return False
        return True

    def _play(self, player: Player, head: Message, sock: socket.socket) -> None:
        try:
            if not player.episodes:  # it must have its users first
                player.await_idle()
            self._make_cell(player, head, sock)
            player.await_idle()
        except Exception:
            self._discard(player)
            raise
        player.begin()
        self._playing[head["number"]] = player
        with contextlib.suppress(OSError):  # while the player starts the session
            self._make_network_for(player)

    def _make_network_for(self, player: Player) -> None:
        """Make the network of a player's next cell. It belongs to the player's users."""

        def prepare() -> None:
            kernel.join(player.users, kernel.NEWUSER)
            namespaces.make_network(self._config)
            player.network = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

        spawn.call(prepare)

    def _make_cell(self, player: Player, head: Message, sock: socket.socket) -> None:
        """Make a cell and send the player what it needs to play there."""
        if player.network < 0:
            self._make_network_for(player)
        config = self._config_of(head)
        server_end, init_end = socket.socketpair()

        def outside() -> None:
            kernel.join(player.users, kernel.NEWUSER)
            kernel.join(player.network, kernel.NEWNET)
            program = f"/proc/self/fd/{self._guest}/{os.path.basename(namespaces.INIT)}"
            flags = namespaces.clone_flags(config) | kernel.NEWPID | spawn.SIBLING
            player.init = spawn.spawn(inside, program, [namespaces.INIT_NAME], {}, flags)

        def inside() -> None:
            pid = int(os.readlink("/proc/self"))
            namespaces.map_user()
            namespaces.settle(config)
            folders = mounts.build(config["mounts"], None, config["sealed"])
            if "capabilities" not in config["disabled"]:
                kernel.limit_capabilities(())

            def enter() -> None:
                kernel.enter_root(mounts.ROOT)
                fds = [sock.fileno(), server_end.fileno(), folders.upper, folders.lower]
                if config["sealed"]:
                    fds.append(folders.below_seals)
                proc = kernel.open_folder("/proc")
                spaces = _namespaces(proc, ("user", *_JOINED))
                wire.send(player.line, {**head, "init": pid}, b"", (*spaces, *fds))

            namespaces.set_up_init(config, self._seccomp, init_end.fileno(), (), enter)

        try:
            spawn.call(outside)
        finally:
            server_end.close()
            init_end.close()
            player.close_network()

    def _new_player(self, sock: socket.socket) -> Player:
        line, end = socket.socketpair()
        pid = kernel.clone(_HOME)
        if pid == 0:
            line.close()
            sock.close()
            self._run_player(end)
        end.close()
        return Player(pid, line)

    def _make_way(self, number: int) -> None:
        player = self._playing.get(number)
        if not player or player.episodes == _EPISODES or self._is_answering(number):
            self._kill(number)
            return
        try:
            wire.send(player.line, {"end": True})
        except OSError:
            self._kill(number)
            return
        _kill(player.init)
        self._idle.append(self._playing.pop(number))

    def _is_answering(self, number: int) -> bool:
        until = time.monotonic() + _REPLY
        while self._last_reply(number) < 0:
            if time.monotonic() > until:
                return True
            time.sleep(_REPLY / 100)
        return False

    def _kill(self, number: int) -> None:
        if number in self._playing:
            self._discard(self._playing.pop(number))
        else:
            super()._kill(number)

    def _discard(self, player: Player) -> None:
        _kill(player.pid)
        _kill(player.init)
        player.close()

    def _reap(self) -> None:
        for number, player in list(self._playing.items()):
            if player.has_ended():
                self._kill(number)
        for player in list(self._idle):
            try:
                player.await_idle()
            except OSError:
                self._idle.remove(player)
                self._discard(player)
        super()._reap()

    def _servers(self) -> set[int]:
        pids = super()._servers()
        for player in self._playing.values():
            pids |= {player.pid, player.init}
        for player in self._idle:
            pids.add(player.pid)
        return pids

    def _forget(self, dead: Container[int]) -> None:
        super()._forget(dead)
        for player in (*self._playing.values(), *self._idle):
            if player.pid in dead:
                player.pid = 0
            if player.init in dead:
                player.init = 0

    def _enter(self, config: Message, inherited: int | None = None) -> namespaces.EpisodeWorld:
        kernel.let_be_seen()
        return super()._enter(config, inherited)

    def _leave_supervisor(self) -> None:
        super()._leave_supervisor()
        for player in (*self._playing.values(), *self._idle):
            player.close()

    # -- in a player -------------------------------------------------------------------------------

    def _run_player(self, line: socket.socket) -> NoReturn:
        """Play episodes until the supervisor wants no more. Between two episodes, the player is
        where there is nothing but its descriptors."""
        try:
            self._leave_supervisor()
            namespaces.map_user()
            namespaces.write("/proc/self/oom_score_adj", "1000")
            proc = kernel.open_folder("/proc")
            kernel.mount("tmpfs", "/episode", "tmpfs", kernel.RDONLY)
            kernel.enter_root("/episode")
            homes = _namespaces(proc, _HOMES)
            if "capabilities" not in self._config["disabled"]:
                kernel.limit_capabilities(())
            namespaces.lock(self._config, self._filters[1], _RIGHTS)
            own = _descriptors(proc)
            line.send(b"i")
            while self._play_here(line, proc):
                for home in homes:
                    kernel.join(home, 0)
                _forget_episode()
                for fd in _descriptors(proc) - own:
                    os.close(fd)
                if not _has_message(line, _END):  # the host has gone without an end of the episode
                    break
                wire.receive_with_fds(line, 0)
                line.send(b"i")
        finally:
            os._exit(0)

    def _play_here(self, line: socket.socket, proc: int) -> bool:
        """Join the next cell and play an episode. Return whether the player may play another."""
        head, _, fds = wire.receive_with_fds(line, 0)
        users, *spaces = fds[: 1 + len(_JOINED)]
        sock_fd, init_line, upper, lower, *below_seals = fds[1 + len(_JOINED) :]
        sock, init = socket.socket(fileno=sock_fd), head["init"]
        folders = mounts.Folders(upper, lower)
        if below_seals:
            folders = folders._replace(below_seals=below_seals[0])
        config = {**self._config_of(head), "line": line.fileno()}
        try:
            ended = os.pidfd_open(init)
            for space in spaces:
                kernel.join(space, 0)
            # init may still have the supervisor's memory, and is hidden as that is
            table = processes.ProcessTable(proc, init, f"self/fd/{spaces[-1]}")
            about = namespaces.Init(init, init_line, ended)
            world = _Cell(users, self._filters[2], table, folders, about, config)
            episode = self._begin(sock, config, world)
        except OSError as error:
            supervisor.refuse(sock, error)
            raise
        episode.serve()
        signal.pidfd_send_signal(ended, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        sock.close()
        return not episode.spoiled


class _Cell(namespaces.EpisodeWorld):
    """A cell that the player has joined."""

    def __init__(self, users: int, seccomp: bytes, *about: Any) -> None:
        super().__init__(*about)
        self._users, self._filter = users, seccomp

    def become_agent(self, *, executes: bool) -> None:
        if "limits" not in self._disabled:
            namespaces.set_limits(self._limits)
        kernel.join(self._users, kernel.NEWUSER)
        if "capabilities" not in self._disabled:
            kernel.limit_capabilities(())
        kernel.install_filter(self._filter)


def _has_message(line: socket.socket, seconds: float) -> bool:
    """Wait for a message, or for the end of the line."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _kill(pid: int) -> None:
    """Kill a process unless it was reaped, which makes its pid 0."""
    if pid:
        processes.kill(pid)


def _namespaces(proc: int, names: Sequence[str]) -> list[int]:
    """Open namespaces of this process."""
    return [os.open(f"self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc) for name in names]


def _descriptors(proc: int) -> set[int]:
    """Return this process's descriptors."""
    folder = os.open("self/fd", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        listed = set(map(int, os.listdir(folder)))
    finally:
        os.close(folder)
    return {fd for fd in listed if _is_open(fd)}


def _is_open(fd: int) -> bool:
    """Return False for a descriptor that only listed the others."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _forget_episode() -> None:
    """Drop what an episode has left in this process's memory."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    del ShellJob.become_agent
    spawn.forget()
    gc.collect()


def main() -> None:
    """Run as pid 1 under bubblewrap, see `supervisor.main`."""
    supervisor.main(PlayersSupervisor)
