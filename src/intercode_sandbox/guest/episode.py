"""One episode: answers the host's requests over a socket, one at a time, and watches the agent's
processes.

    exec ── begin ─► wait ──(deadline)─► interrupt ─► kill what the action started ─► kill the shell
                       │ finished           │                     │                        │
    reply with all ◄───┴────────────────────┴─────────────────────┴────────────────────────┘
    that was printed

The agent's processes live in a pid namespace below this one (`namespaces.py`). When the host's end
of the socket closes, or init of that namespace dies, the episode server exits and the kernel ends
everything inside.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
import struct
import time
from _blake2 import blake2b
from collections.abc import Iterator
from functools import partial

from . import kernel, namespaces, processes, wire
from .light import Any, signal, socket
from .limit import Limit
from .shell import CAPTURE_STATE, Command, Program, Shell, ShellJob, stateless_command

_WAITING = 64
"""Connections that wait to be accepted."""
_TICK = 0.05
_IDLE_TICK = 0.2
_INTERRUPTS, _INTERRUPT_EVERY = 5, 0.01
_KILLS, _KILLS_BEFORE_SHELL, _KILL_EVERY = 40, 8, 0.005
_LAST_DEATH, _INTERRUPT_DELAY, _CAPTURING = 2.0, 1.0, 5.0
_EMPTY_ACTION = b"\n"
_DOUBT = 0.2
_STOPPING = 0.05
"""Seconds that an action has to end by itself when the host asks to stop it, so that the shell has
read all of it."""
_DEATH = 0.001  # no event reports that the children of another process are gone
_SPARE_PROCESSES = 4
_COUNT_ATTACHED_EVERY, _TIMES_ITS_COST = 0.5, 3
_INTERRUPTED = 130
_CHUNK = 1 << 16
TIME = struct.Struct("d")
_AS_AGENT = ("write",)
_CAREFUL = os.O_NONBLOCK | os.O_NOCTTY
"""Never wait on a FIFO or a device where a file is expected."""


class Output:
    """The output of an action: kept up to `limit` bytes, hashed beyond, never interpreted."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._hash: blake2b | None = None

    def read_available(self, fd: int) -> None:
        """Read everything that is available now; `fd` does not block."""
        for _ in range(256):
            try:
                chunk = os.read(fd, _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                return
            self.add(chunk)

    def add(self, chunk: bytes) -> None:
        if self._hash is not None:
            self._hash.update(chunk)
            return
        self._kept += chunk
        if len(self._kept) > self._limit:
            self._hash = blake2b(self._kept, digest_size=16)
            del self._kept[self._limit :]

    def result(self) -> tuple[bytes, str | None]:
        """Return the kept bytes, and the digest of everything if more was printed."""
        return bytes(self._kept), self._hash.hexdigest() if self._hash else None


class EpisodeServer:
    def __init__(
        self, sock: socket.socket, config: dict[str, Any], world: namespaces.EpisodeWorld
    ) -> None:
        self._sock = sock
        self._config = config
        self._world = world
        self._times: tuple[int, int] = config["times"]
        """A file of the supervisor's, see there, and an offset."""
        self._init = world.init
        self._table = world.table
        ShellJob.become_agent = staticmethod(world.become_agent)
        self._root = kernel.open_folder("/")
        self._sealed: tuple[str, ...] = tuple(config["sealed"])
        """Paths that only the host can write: by mounts, in a pod by their owner."""
        self._out, self._out_write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._out, False)
        # readable whenever a child has ended
        self._child_ended, wakeup = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._cwd: str = config["cwd"]
        self._output = Output(config["output"])
        self._got_request, self._jobs_alive, self._shell_lost, self._status = False, False, False, 0
        self._stoppable = False
        self._next_tick = self._next_count = 0.0
        self._pieces: Iterator[bytes] = iter(())
        self._limits_hit: set[str] = set()
        self._killed, self._disk_was_full, self._dismissed = False, False, False
        self._mark = self._table.mark()
        self._commands: dict[int, Command] = {}
        self._background: set[int] = set()
        """Descriptors of the output that processes of ended commands still write; it is dropped."""
        self._job: Shell | Program | None = None
        self._idle_job: Shell | Program | None = None
        if config["persistent"]:
            self._job = self._start_shell()

    @property
    def session(self) -> list[int]:
        """The pid of the session's process, if it lives."""
        return [self._job.pid] if self._job and not self._job.dead else []

    def serve(self) -> None:
        """Wait for requests and answer them, until the host goes away."""
        while True:
            self._watch_until_request()
            try:
                head, payload = wire.receive(self._sock, self._config["payload"], stops=True)
            except (EOFError, OSError):
                return
            if not head:
                continue
            self._got_request = True
            self._note(-time.monotonic())
            try:
                by_agent = head["op"] in _AS_AGENT and not self._is_sealed(head["path"])
                with self._world.as_agent() if by_agent else contextlib.nullcontext():
                    getattr(self, "_op_" + head["op"])(head, payload)
            except OSError as error:
                wire.send(self._sock, {"errno": error.errno, "error": error.strerror or str(error)})
            self._note(time.monotonic())

    def _note(self, moment: float) -> None:
        fd, offset = self._times
        os.pwrite(fd, TIME.pack(moment), offset)

    def _watch_until_request(self) -> None:
        poll = self._poll()
        while True:
            tick = _IDLE_TICK if all(job.dead for job in self._commands.values()) else _TICK
            ready = dict(poll.poll(tick * 1000 if self._got_request else None))
            if self._child_ended in ready:
                self._reap()
            if self._background & ready.keys():
                self._drop_output()
                poll = self._poll()
            if self._out in ready:
                self._output.read_available(self._out)
            if self._sock.fileno() in ready:
                return
            self._enforce_limits()

    def _poll(self) -> select.poll:
        poll = select.poll()
        for fd in (self._sock.fileno(), self._child_ended, self._out, *self._background):
            poll.register(fd, select.POLLIN)
        return poll

    # -- exec --------------------------------------------------------------------------------------

    def _op_exec(self, head: dict[str, Any], payload: bytes) -> None:
        # otherwise no process was alive that could have started another since the last mark
        if self._jobs_alive:
            self._mark = self._table.mark()
        self._next_tick = time.monotonic() + _TICK
        if "argv" in head or not self._config["persistent"]:
            argv = head.get("argv") or stateless_command(payload)
            self._idle_job = self._job
            self._job = Program(
                self._out_write, self._config["env"], head.get("cwd") or self._current_cwd(), argv
            )
        else:
            self._live_shell().begin(payload or _EMPTY_ACTION, by_agent=True)
        job, mark = self._job, self._mark
        assert job is not None
        if job.dead:
            self._reap()  # perhaps it could not start because init had been killed
        self._stoppable = True
        timed_out = not self._wait(job, _STOPPING if "stop" in head else head["seconds"])
        self._stoppable = False
        if timed_out:
            self._stop(job, mark)
            if isinstance(job, Shell) and not job.dead:
                self._absorb_interrupt(job)
        self._output.read_available(self._out)
        self._mark = self._table.mark()
        if self._mark.pid != mark.pid:
            self._enforce_limits()
        wire.send(self._sock, *self._finish(job, timed_out))

    def _wait(self, job: Shell | Program, seconds: float) -> bool:
        """Watch the job until it is finished (return True) or the time is up (return False),
        which is soon if the host asks to stop."""
        reports_open, limit = True, Limit(seconds)
        while not job.finished:
            if (rest := limit.left()) <= 0:
                return False
            poll = self._poll()
            if reports_open and job.done_fd is not None:
                poll.register(job.done_fd, select.POLLIN)
            if job.pending_fd is not None:
                poll.register(job.pending_fd, select.POLLOUT)
            ready = dict(poll.poll(min(rest, _TICK) * 1000))
            if self._out in ready:
                self._output.read_available(self._out)
            if job.done_fd in ready:
                reports_open = job.read_reports()
            if self._child_ended in ready:
                self._reap()
            if self._background & ready.keys():
                self._drop_output()
            if job.pending_fd in ready and isinstance(job, Shell):
                job.write_pending()
            if self._sock.fileno() in ready:
                if self._sock.recv(1) != wire.STOP:
                    os._exit(0)  # the host went away, or broke the order of request and reply
                if self._stoppable:
                    limit = Limit(min(limit.left(), _STOPPING))
            if tick := (now := time.monotonic()) >= self._next_tick:
                self._next_tick = now + _TICK
            if tick or not ready:
                self._enforce_limits()
        return True

    def _absorb_interrupt(self, shell: Shell) -> None:
        """Run an empty action, so that a late interrupt hits it instead of the agent's next
        action."""
        self._output.read_available(self._out)
        saved, self._output = self._output, Output(self._config["output"])
        shell.begin(b"")
        if not self._wait(shell, _INTERRUPT_DELAY):
            processes.kill(shell.pid)
            self._wait(shell, _LAST_DEATH)
        self._output.read_available(self._out)
        self._output = saved

    def _stop(self, job: Shell | Program, mark: processes.Mark) -> None:
        """Interrupt; kill the processes that the action started; then the shell, if it does not
        return; finally, everything."""
        # the shell would read the rest as its next action
        if isinstance(job, Shell) and job.unread:
            processes.kill(job.pid)
        for _ in range(_INTERRUPTS):
            processes.kill(job.pid, signal.SIGINT)
            processes.send(self._started_since(mark), signal.SIGINT)
            if self._wait(job, _INTERRUPT_EVERY):
                break
        for attempt in range(_KILLS):
            started = self._started_since(mark)
            if not started and job.finished:
                return
            processes.send(started, signal.SIGKILL)
            if attempt >= _KILLS_BEFORE_SHELL and not job.finished:
                processes.kill(job.pid)
            if self._wait(job, _KILL_EVERY):
                time.sleep(_DEATH)
        self._kill_all()

    def _started_since(self, mark: processes.Mark) -> list[processes.Process]:
        """Return the processes that the action has started, without those of commands."""
        commands = [command.pid for command in self._commands.values() if not command.dead]
        others = {p.pid for p in self._table.below(*commands)}.union(commands) if commands else ()
        return [p for p in self._table.started_since(mark) if p.pid not in others]

    def _finish(self, job: Shell | Program, timed_out: bool) -> tuple[dict[str, Any], bytes]:
        """Return the reply to `exec`, and have a session ready for the next action."""
        self._cwd = self._current_cwd()
        exit_code = None if timed_out else job.exit_code
        if isinstance(job, Program):
            _doubt(None if timed_out else job)
            self._cwd = job.last_cwd or self._cwd
            job.close()
            self._job = self._idle_job
        else:
            self._status = _INTERRUPTED if exit_code is None else exit_code
            self._live_shell()
        if (is_full := self._world.disk_is_full()) and not self._disk_was_full:
            self._limits_hit.add("disk")
        self._disk_was_full = is_full
        limits, self._limits_hit = sorted(self._limits_hit), set()
        killed, self._killed = self._killed, False
        output, overflow = self._output.result()
        self._output = Output(self._config["output"])
        lost, self._shell_lost = self._shell_lost, False
        return {
            "exit_code": exit_code,
            "timed_out": timed_out,
            "lost": lost,
            "cwd": self._cwd,
            "overflow": overflow,
            "limits": limits,
            "killed": killed,
        }, output

    def _current_cwd(self) -> str:
        """Return the shell's folder; the last one, if the shell died."""
        if isinstance(self._job, Shell) and not self._job.dead:
            path = self._table.cwd(self._job.pid)
            return path.removesuffix(" (deleted)") if path else self._cwd
        return self._cwd

    # -- commands ----------------------------------------------------------------------------------

    def _op_run(self, head: dict[str, Any], payload: bytes) -> None:
        """Start a command, and send the host its ends. Later, `report` says how it ended."""
        for number in head["ended"]:
            self._end_command(number)
        folder = kernel.open_inside(self._root, head["path"], os.O_PATH | os.O_DIRECTORY)
        try:
            os.fchdir(folder)
        finally:
            os.close(folder)
        env = {**self._config["env"], **head["env"]}
        command = Command(head["argv"], env, reads=head["reads"], user=head["user"])
        self._commands[head["number"]], self._jobs_alive = command, True
        wire.send(self._sock, {}, b"", command.ends)
        command.close_host_ends()
        if command.dead:
            command.report()

    def _op_end_run(self, head: dict[str, Any], payload: bytes) -> None:
        self._end_command(head["number"])
        wire.send(self._sock, {})

    def _end_command(self, number: int) -> None:
        """End a command with all processes below it, unless it has ended. From now on, drop what
        its remaining processes print.

        A stopped program starts no more processes, and orphans come to it, so it ends last.
        """
        if (command := self._commands.get(number)) is None:
            return
        if not command.dead:
            processes.kill(command.pid, signal.SIGSTOP)
            for _ in range(_KILLS):
                if not (below := self._table.below(command.pid)):
                    break
                processes.send(below, signal.SIGKILL)
                time.sleep(_DEATH)
            else:
                self._kill_all()
        if not command.dead:
            processes.kill(command.pid)
            command.set_ended(os.waitpid(command.pid, 0)[1])
            command.report()
        del self._commands[number]
        self._background |= {command.stdout, command.stderr}
        self._drop_output()

    def _drop_output(self) -> None:
        for fd in list(self._background):
            with contextlib.suppress(BlockingIOError):
                if not os.read(fd, _CHUNK):
                    os.close(fd)
                    self._background.remove(fd)

    # -- the agent's processes ---------------------------------------------------------------------

    def _start_shell(self) -> Shell:
        shell = Shell(self._out_write, self._config["env"], self._cwd)
        self._mark = self._table.mark()
        return shell

    def _live_shell(self) -> Shell:
        """Return the session's shell, a new one in place of one that died."""
        assert isinstance(self._job, Shell)
        if self._job.dead:
            _doubt(self._job)
            new = self._start_shell()
            self._job.close()
            self._job = new
            self._shell_lost, self._status = True, 0
        return self._job

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._child_ended, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, 0 if self._table.init_is_ending() else os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._init.pid:
                self._report_end_of_init(
                    by_agent=not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL)
                )
            for job in (self._job, self._idle_job, *self._commands.values()):
                if job is not None and job.pid == pid and not job.dead:
                    job.set_ended(status)
                    if isinstance(job, Command):
                        if self._world.disk_is_full():
                            job.limits.add("disk")
                        job.report()

    def _enforce_limits(self) -> None:
        """End all processes when together they exceed a limit, and say so in the output."""
        alive, hit = self._table.all(), ""
        self._jobs_alive = any(
            self._job is None or process.pid != self._job.pid for process in alive
        )
        if self._table.memory(alive) + self._world.memory_used() > self._config["memory"]:
            name = "memory"
        elif self._world.disk_exceeded():
            name = "disk"
        elif len(alive) + _SPARE_PROCESSES >= self._config["processes"]:
            name = "processes"
        elif self._too_much_attached(alive):
            name, hit = "memory", "limit of epoll watches and record locks"
        else:
            return
        self._limits_hit.add(name)
        self._killed = True
        for command in self._commands.values():
            command.limits.add(name)
        self._kill_all()
        for kind, number in self._table.ipc_objects():
            kernel.remove_ipc_object(kind, number)
        self._output.read_available(self._out)
        words = hit or self._config["hits"][name]
        self._output.add(f"\n[{words} exceeded: all processes were killed]\n".encode())

    def _too_much_attached(self, alive: list[processes.Process]) -> bool:
        """Return whether epoll watches and record locks exceed their limit, if it is time to count
        them: an agent may have many descriptors."""
        if (started := time.monotonic()) < self._next_count or "attached" in self._config[
            "disabled"
        ]:
            return False
        attached = self._table.attached(alive)
        cost = time.monotonic() - started
        self._next_count = started + max(_COUNT_ATTACHED_EVERY, _TIMES_ITS_COST * cost)
        return attached > self._table.most_attached

    def _kill_all(self) -> None:
        """Kill all processes, and return when they are gone, so that the next action's are not
        killed too."""
        self._init.signal_all(signal.SIGKILL)
        until = time.monotonic() + _LAST_DEATH
        while self._table.all():
            if time.monotonic() > until:  # the agent has rewritten init
                processes.kill(self._init.pid)
                self._report_end_of_init(by_agent=True)
            time.sleep(_DEATH)
        self._reap()

    def _report_end_of_init(self, *, by_agent: bool) -> None:
        """Tell the host that init is gone, and everything inside with it.

        SIGKILL from inside cannot kill init: any other end is the agent's doing.
        """
        try:
            wire.send(self._sock, {"perished": True, "by_agent": by_agent})
        finally:
            os._exit(0)

    # -- files -------------------------------------------------------------------------------------

    def _op_read(self, head: dict[str, Any], payload: bytes) -> None:
        """Send the first piece of a regular file, or the next one of the same file; a piece that is
        not full is the last."""
        if "limit" in head:
            self._pieces = self._read_pieces(head["path"], head["limit"])
        piece = next(self._pieces, b"")
        if len(piece) < wire.PIECE:
            self._pieces = iter(())  # closes the file: the agent may delete it
        wire.send(self._sock, {}, piece)

    def _op_read_many(self, head: dict[str, Any], payload: bytes) -> None:
        """Send the first files, as many of them as can be read and fit into one piece together."""
        sizes, content = list[int](), bytearray()
        with contextlib.suppress(OSError):
            for path in head["paths"]:
                pieces = b"".join(self._read_pieces(path, wire.PIECE - len(content)))
                sizes.append(len(pieces))
                content += pieces
        wire.send(self._sock, {"sizes": sizes}, bytes(content))

    def _read_pieces(self, path: str, limit: int) -> Iterator[bytes]:
        """Yield a regular file's content. Raises OSError for other types, and for more than `limit`
        bytes."""
        flags = os.O_RDONLY | _CAREFUL
        try:  # the time of access stays as it was
            fd = kernel.open_inside(self._root, path, flags | os.O_NOATIME)
        except PermissionError:
            fd = kernel.open_inside(self._root, path, flags)
        with open(fd, "rb") as file:
            _require_file(file.fileno())
            size = os.fstat(file.fileno()).st_size
            while size <= limit and (piece := file.read(wire.PIECE)):
                size = max(size, file.tell())
                if size <= limit:
                    yield piece
        if size > limit:
            raise OSError(errno.EFBIG, f"{size} bytes, which is more than {limit}")

    def _op_write(self, head: dict[str, Any], payload: bytes) -> None:
        """Make or replace a regular file, and the folders above it (like `os.makedirs`, but as
        safely as `open_inside`).

        A large file comes in pieces, the last with the mode.
        """
        is_below = self._is_sealed(head["path"]) and self._world.below_seals >= 0
        root, parent = self._world.below_seals if is_below else self._root, ""
        for name in filter(None, os.path.dirname(head["path"]).split("/")):
            folder = kernel.open_inside(root, parent or "/", os.O_PATH | os.O_DIRECTORY)
            parent = f"{parent}/{name}"
            try:
                os.mkdir(name, dir_fd=folder)
            except FileExistsError:
                pass
            finally:
                os.close(folder)
        flags = os.O_WRONLY | os.O_CREAT | _CAREFUL | (0 if head["at"] else os.O_TRUNC)
        with open(kernel.open_inside(root, head["path"], flags, 0o600), "wb") as file:
            _require_file(file.fileno())
            file.seek(head["at"])
            file.write(payload)
            if head["mode"] is not None:
                os.fchmod(file.fileno(), head["mode"])
        wire.send(self._sock, {})

    def _is_sealed(self, path: str) -> bool:
        return path.startswith(self._sealed)

    def _op_connect(self, head: dict[str, Any], payload: bytes) -> None:
        """Send a stream to an agent's program that listens on a Unix socket, or on a port of the
        loopback. A full queue raises EAGAIN.

        The path is opened like all of the agent's paths, checked, and connected to through the
        supervisor's /proc: so the socket that was checked is the one connected to. Sockets without
        a path ("abstract" ones) are not supported.
        """
        if head.get("port"):
            family = socket.AF_INET6 if ":" in head["address"] else socket.AF_INET
            with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as stream:
                stream.setblocking(False)
                with contextlib.suppress(BlockingIOError):  # a full queue: it may become shorter
                    stream.connect((head["address"], head["port"]))
                wire.send(self._sock, {}, b"", (stream.fileno(),))
            return
        target = kernel.open_inside(self._root, head["path"], os.O_PATH)
        try:
            if not stat.S_ISSOCK(os.fstat(target).st_mode):
                raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
            with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as stream:
                stream.setblocking(False)
                os.fchdir(self._world.proc)
                try:
                    stream.connect(f"self/fd/{target}")
                finally:
                    os.fchdir(self._root)
                wire.send(self._sock, {}, b"", (stream.fileno(),))
        finally:
            os.close(target)

    def _op_listen(self, head: dict[str, Any], payload: bytes) -> None:
        """Send a listener on a port of the loopback, on which the host accepts what the agent's
        programs connect to it."""
        with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((head["address"], head["port"]))
            listener.listen(_WAITING)
            wire.send(self._sock, {}, b"", (listener.fileno(),))

    def _op_session(self, head: dict[str, Any], payload: bytes) -> None:
        wire.send(self._sock, {"lost": self._lost()})

    def _lost(self) -> bool:
        """Return whether the session has ended since the last action, unless by `end_processes`."""
        self._reap()
        _doubt(self._job)
        ended = not (self._dismissed or self._job is None) and self._job.dead
        return self._shell_lost or ended

    def _op_end_processes(self, head: dict[str, Any], payload: bytes) -> None:
        self._reap()
        self._dismissed = not self._job or not self._job.dead
        self._kill_all()
        wire.send(self._sock, {})

    def _op_diff(self, head: dict[str, Any], payload: bytes) -> None:
        watch: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if self._jobs_alive:
            stop = partial(self._init.signal_all, signal.SIGSTOP)
            watch = self._table.pause_all(stop) if head["pause"] else self._enforcing()
        with watch:
            changes = self._world.diff()
        wire.send(self._sock, {"changes": changes, "lost": self._lost()})

    @contextlib.contextmanager
    def _enforcing(self) -> Iterator[None]:
        """Enforce the limits of the processes that go on during the block."""
        signal.signal(signal.SIGALRM, lambda *_: self._enforce_limits())
        signal.setitimer(signal.ITIMER_REAL, _TICK, _TICK)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _op_export(self, head: dict[str, Any], payload: bytes) -> None:
        """Copy this episode's changes as a layer into the folder that the host lent for it."""
        self._world.export(self._config["export"])
        wire.send(self._sock, {})

    def _op_untouched(self, head: dict[str, Any], payload: bytes) -> None:
        """Say whether no file, shared memory or process was added or changed since the start."""
        alive = [process.pid for process in self._table.all()]
        untouched = alive == self.session and not (
            self._table.ipc_objects() or os.listdir("/dev/shm") or self._world.diff()
        )
        wire.send(self._sock, {"untouched": untouched})

    # -- fork --------------------------------------------------------------------------------------

    def _op_files(self, head: dict[str, Any], payload: bytes) -> None:
        """Send a descriptor of the changed files."""
        wire.send(self._sock, {"cwd": self._current_cwd()}, b"", (self._world.files,))

    def _op_snapshot(self, head: dict[str, Any], payload: bytes) -> None:
        """Send the shell's state as a script, and a descriptor of the changed files, from which
        another episode can start."""
        self._reap()
        own_pid = self._job.pid if self._job else 0
        blockers = [
            f"process {self._table.inner_pid(p.pid)} ({p.name})"
            for p in self._table.all()
            if p.pid != own_pid
        ]
        shell = self._job if isinstance(self._job, Shell) else None
        if shell and not shell.dead:
            allowed = {
                self._table.descriptor_name(fd) for fd in (self._out_write, *shell.pipes)
            } | {"/dev/null"}
            blockers += self._table.foreign_descriptors(shell.pid, allowed)
        if blockers:
            wire.send(self._sock, {"blockers": blockers})
            return
        state = b""
        if shell:
            saved, self._output = self._output, Output(self._config["payload"])
            shell.begin(CAPTURE_STATE)
            self._wait(shell, _CAPTURING)
            self._output.read_available(self._out)
            parts = self._output.result()[0].split(b"\0")
            self._output = saved
            if len(parts) != 3:  # the agent shadows or disables the builtins that print the state
                wire.send(
                    self._sock,
                    {"blockers": ["the shell's state, which needs the builtin commands"]},
                )
                return
            state = parts[1]
        wire.send(
            self._sock,
            {"cwd": self._current_cwd(), "status": self._status},
            state,
            (self._world.files,),
        )

    def _op_restore(self, head: dict[str, Any], payload: bytes) -> None:
        shell = self._live_shell()
        shell.begin(shell.restore_action(payload, head["status"]))
        self._wait(shell, _CAPTURING)
        self._output = Output(self._config["output"])
        wire.send(self._sock, {"ok": not shell.dead})


def _doubt(job: ShellJob | None) -> None:
    """Wait a moment if the job was killed: whoever kills a sandbox from outside, one process after
    the other, kills this server next, and the death of a sandbox is no outcome."""
    if job and job.exit_code == -signal.SIGKILL:
        time.sleep(_DOUBT)


def _require_file(fd: int) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
