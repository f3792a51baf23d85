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

from . import kernel, layers, namespaces, processes, wire
from .light import Message, signal, socket
from .limit import Limit
from .shell import CAPTURE_STATE, Command, Program, Shell, ShellJob, stateless_command

_WAITING = 64  # connections that wait to be accepted
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

_OF_ENTRY = 100  # bytes that an entry of a list takes, besides its path
_CAREFUL = os.O_NONBLOCK | os.O_NOCTTY  # never wait on a FIFO or a device where a file is expected


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
                self.add(os.read(fd, _CHUNK))
            except BlockingIOError:
                return

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
        return bytes(self._kept), self._hash and self._hash.hexdigest()


class EpisodeServer:
    _got_request = _jobs_alive = _shell_lost = _stoppable = False
    _killed = _disk_was_full = _dismissed = False
    spoiled = False
    """A limit or a time-out has ended processes: a player does not play on."""
    _status = 0
    _next_tick = _next_count = 0.0
    _pieces: Iterator[bytes] = iter(())
    _shell: Shell | None = None
    _program: Program | None = None

    def __init__(
        self, sock: socket.socket, config: Message, world: namespaces.EpisodeWorld
    ) -> None:
        self._sock, self._config, self._world = sock, config, world
        self._init, self._table = world.init, world.table
        ShellJob.become_agent = staticmethod(world.become_agent)
        self._root = kernel.open_folder("/")
        self._out, self._out_write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._out, False)
        # readable whenever a child has ended
        self._child_ended, wakeup = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._cwd: str = config["cwd"]
        self._output = Output(config["output"])
        self._limits_hit = set[str]()
        self._mark = self._table.mark()
        self._commands = dict[int, Command]()
        self._background = set[int]()
        """Descriptors of the output that processes of ended commands still write; it is dropped."""
        if config["persistent"]:
            self._shell = self._start_shell()

    @property
    def session(self) -> list[int]:
        """The pid of the session's process, if it lives."""
        return [self._shell.pid] if self._shell and not self._shell.dead else []

    def serve(self) -> None:
        """Wait for requests and answer them, until the host goes away, or until the supervisor
        writes on the `line` of a player."""
        while self._watch_until_request():
            try:
                request, payload = wire.receive(self._sock, self._config["payload"], stops=True)
            except (EOFError, OSError):
                return
            if not request:
                continue
            request["payload"] = payload
            self._got_request = True
            self._note(-time.monotonic())
            try:
                reply = getattr(self, "_op_" + request["op"])(request)
                if reply is not None:  # else the handler has sent one with a payload or descriptors
                    wire.send(self._sock, reply)
            except OSError as error:
                wire.send(self._sock, {"errno": error.errno, "error": error.strerror or str(error)})
            self._note(time.monotonic())

    def _note(self, moment: float) -> None:
        """Write to the supervisor's file of times, see there."""
        fd, offset = self._config["times"]
        os.pwrite(fd, TIME.pack(moment), offset)

    def _watch_until_request(self) -> bool:
        line = self._config.get("line")
        while True:
            tick = _IDLE_TICK if self._got_request else -1.0
            if not all(command.dead for command in self._commands.values()):
                tick = _TICK
            poll = self._poll()
            if line is not None:
                poll.register(line, select.POLLIN)
            ready = dict(poll.poll(tick * 1000))
            if line in ready:
                return False
            self._attend(ready)
            if self._sock.fileno() in ready:
                return True
            self._enforce_limits()

    def _attend(self, ready: dict[int, int]) -> None:
        """Read what processes have printed, and note which children have ended."""
        if self._out in ready:
            self._output.read_available(self._out)
        if self._child_ended in ready:
            self._reap()
        if self._background & ready.keys():
            self._drop_output()

    def _poll(self) -> select.poll:
        poll = select.poll()
        for fd in (self._sock.fileno(), self._child_ended, self._out, *self._background):
            poll.register(fd, select.POLLIN)
        return poll

    # -- exec --------------------------------------------------------------------------------------

    def _op_exec(self, request: Message) -> None:
        # otherwise no process was alive that could have started another since the last mark
        if self._jobs_alive:
            self._mark = self._table.mark()
        self._next_tick = time.monotonic() + _TICK
        job: Shell | Program
        if "argv" in request or self._shell is None:
            argv = request.get("argv") or stateless_command(request["payload"])
            cwd = request.get("cwd") or self._current_cwd()
            job = self._program = Program(self._out_write, self._config["env"], cwd, argv)
        else:
            job = self._live_shell()
            action = request["payload"] or _EMPTY_ACTION
            job.traced = job.traced or request["traces"]
            job.begin(action, by_agent=True, breaks=request["breaks"])
        mark = self._mark
        if job.dead:
            self._reap()  # perhaps it could not start because init had been killed
        self._stoppable = True
        timed_out = not self._wait(job, _STOPPING if "stop" in request else request["seconds"])
        self._stoppable = False
        if timed_out:
            self.spoiled = True
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
            if reports_open:
                poll.register(job.done_fd, select.POLLIN)
            if isinstance(job, Shell) and job.pending:
                poll.register(job.actions, select.POLLOUT)
            ready = dict(poll.poll(min(rest, _TICK) * 1000))
            if job.done_fd in ready:
                reports_open = job.read_reports()
            self._attend(ready)
            if isinstance(job, Shell) and job.actions in ready:
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
        started = self._table.started_since(mark)
        commands = [command.pid for command in self._commands.values() if not command.dead]
        if not commands:
            return started
        of_commands = processes.with_descendants(self._table.all(), commands)
        return [process for process in started if process.pid not in of_commands]

    def _finish(self, job: Shell | Program, timed_out: bool) -> tuple[Message, bytes]:
        """Return the reply to `exec`, and have a session ready for the next action."""
        exit_code = None if timed_out else job.exit_code
        if isinstance(job, Shell):
            self._cwd = self._current_cwd()
            self._status = _INTERRUPTED if exit_code is None else exit_code
            self._live_shell()
        else:
            if not timed_out:
                _doubt(job)
            self._cwd = job.last_cwd() or self._cwd
            job.close()
            self._program = None
        disk_was_full, self._disk_was_full = self._disk_was_full, self._world.disk_is_full()
        if self._disk_was_full and not disk_was_full:
            self._limits_hit.add("disk")
            self.spoiled = True
        output, overflow = self._output.result()
        reply = {
            "exit_code": exit_code,
            "timed_out": timed_out,
            "lost": self._shell_lost,
            "cwd": self._cwd,
            "overflow": overflow,
            "limits": sorted(self._limits_hit),
            "killed": self._killed,
        }
        self._output, self._limits_hit = Output(self._config["output"]), set()
        self._killed = self._shell_lost = False
        return reply, output

    def _current_cwd(self) -> str:
        """Return the shell's folder; the last one, if the shell died."""
        for pid in self.session:
            if path := self._table.cwd(pid):
                return path.removesuffix(" (deleted)")
        return self._cwd

    # -- commands ----------------------------------------------------------------------------------

    def _op_run(self, request: Message) -> None:
        """Start a command, and send the host its ends. Later, `report` says how it ended."""
        for number in request["ended"]:
            self._end_command(number)
        folder = kernel.open_inside(self._root, request["path"], os.O_PATH | os.O_DIRECTORY)
        try:
            os.fchdir(folder)
        finally:
            os.close(folder)
        env = {**self._config["env"], **request["env"]}
        command = Command(request["argv"], env, reads=request["reads"], user=request["user"])
        self._commands[request["number"]], self._jobs_alive = command, True
        wire.send(self._sock, {}, b"", command.ends)
        command.close_host_ends()
        if command.dead:
            command.report()

    def _op_end_run(self, request: Message) -> Message:
        self._end_command(request["number"])
        return {}

    def _end_command(self, number: int) -> None:
        """End a command with all processes below it, unless it has ended. From now on, drop what
        its remaining processes print.

        A stopped program starts no more processes, and orphans come to it, so it ends last.
        """
        if (command := self._commands.get(number)) is None:
            return
        if not command.dead:
            self.spoiled = True
            processes.kill(command.pid, signal.SIGSTOP)
            for _ in range(_KILLS):
                below = processes.with_descendants(self._table.all(), [command.pid])
                if len(below) == 1:
                    break
                for pid in below - {command.pid}:
                    processes.kill(pid)
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
        shell = self._shell
        assert shell
        if not shell.dead:
            return shell
        _doubt(shell)
        self._shell = self._start_shell()
        shell.close()
        self._shell_lost, self._status = True, 0
        return self._shell

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._child_ended, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, 0 if self._table.init_is_ending() else os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                return
            if pid == self._init.pid:
                self._report_end_of_init(by_agent=_is_from_inside(status))
            for job in (self._shell, self._program, *self._commands.values()):
                if job is not None and job.pid == pid and not job.dead:
                    job.set_ended(status)
                    if isinstance(job, Command):
                        if self._world.disk_is_full():
                            job.limits.add("disk")
                        job.report()
        if self._init.ended >= 0 and self._table.init_is_ending():
            select.select([self._init.ended], [], [], _LAST_DEATH)
            self._report_end_of_init(by_agent=_is_from_inside(self._table.init_status()))

    def _enforce_limits(self) -> None:
        """End all processes when together they exceed a limit, and say so in the output."""
        alive, hit = self._table.all(), ""
        self._jobs_alive = any(process.pid not in self.session for process in alive)
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
        self._killed = self.spoiled = True
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
        started = time.monotonic()
        if started < self._next_count or "attached" in self._config["disabled"]:
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
        """Tell the host that init is gone, and everything inside with it."""
        try:
            wire.send(self._sock, {"perished": True, "by_agent": by_agent})
        finally:
            os._exit(0)

    # -- files -------------------------------------------------------------------------------------

    def _op_read(self, request: Message) -> None:
        """Send the first piece of a regular file, or the next one of the same file; a piece that is
        not full is the last."""
        if "limit" in request:
            self._pieces = self._read_pieces(request["path"], request["limit"])
        piece = next(self._pieces, b"")
        if len(piece) < wire.PIECE:
            self._pieces = iter(())  # closes the file: the agent may delete it
        wire.send(self._sock, {}, piece)

    def _op_read_many(self, request: Message) -> None:
        """Send the first files, as many of them as can be read and fit into one piece together."""
        sizes, content = list[int](), bytearray()
        with contextlib.suppress(OSError):
            for path in request["paths"]:
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

    def _op_write(self, request: Message) -> Message:
        """Make or replace a regular file, and the folders above it (like `os.makedirs`, but as
        safely as `open_inside`).

        A large file comes in pieces, the last with the mode. Only the host can write sealed paths:
        mounts prevent the agent, or in a pod the files' owner.
        """
        if request["path"].startswith(tuple(self._config["sealed"])):
            self._write(self._world.below_seals, request)
        else:
            with self._world.as_agent():
                self._write(self._root, request)
        return {}

    def _write(self, root: int, request: Message) -> None:
        path = request["path"]
        _make_folder(root, os.path.dirname(path))
        if request.get("anew"):
            with _folder(root, os.path.dirname(path)) as folder:
                _unlink(folder, os.path.basename(path))
        flags = os.O_WRONLY | os.O_CREAT | _CAREFUL
        if not request["at"]:
            flags |= os.O_TRUNC
        with open(kernel.open_inside(root, path, flags, 0o600), "wb") as file:
            _require_file(file.fileno())
            file.seek(request["at"])
            file.write(request["payload"])
            if request["mode"] is not None:
                os.fchmod(file.fileno(), request["mode"])

    def _op_list(self, request: Message) -> Message:
        """List what is at a path and below it. Raises OSError if the list is longer than `limit`
        bytes, or folders are nested too deep."""
        above, name = os.path.split(request["path"])
        entries, room = dict[str, Message](), request["limit"]
        with _folder(self._root, above, os.O_RDONLY) as folder:
            for path, entry in layers.walk(folder, name, request["path"]):
                entries[path] = {"kind": "added", **entry}
                room -= _OF_ENTRY + len(path) + len(entry.get("target", ""))
                if room < 0 or path.count("/") > layers.DEPTH:
                    raise OSError(errno.EFBIG, "too many files, or folders nested too deep")
        return {"entries": entries}

    def _op_clear(self, request: Message) -> Message:
        """Remove all that is in a folder, if it is there."""
        with (
            contextlib.suppress(FileNotFoundError),
            _folder(self._root, request["path"], os.O_RDONLY) as folder,
        ):
            _clear(folder)
        return {}

    def _op_make(self, request: Message) -> Message:
        """Make folders with their modes, and links in place of other files. Return the paths of
        those that could not be made."""
        refused = []
        with self._world.as_agent():
            for path, mode, target in request["entries"]:
                try:
                    self._make(path, mode, target)
                except OSError:
                    refused.append(path)
        return {"refused": refused}

    def _make(self, path: str, mode: int, target: str | None) -> None:
        above, name = os.path.split(path)
        _make_folder(self._root, above if target else path)
        if target:
            with _folder(self._root, above) as folder:
                _unlink(folder, name)
                os.symlink(target, name, dir_fd=folder)
            return
        with _folder(self._root, path, os.O_RDONLY) as folder:
            os.fchmod(folder, mode)

    def _op_connect(self, request: Message) -> None:
        """Send a stream to an agent's program that listens on a Unix socket, or on a port of the
        loopback. A full queue raises EAGAIN.

        The path is opened like all of the agent's paths, checked, and connected to through the
        supervisor's /proc: so the socket that was checked is the one connected to. Sockets without
        a path ("abstract" ones) are not supported.
        """
        if "port" in request:
            family = socket.AF_INET6 if ":" in request["address"] else socket.AF_INET
            self._send_stream(family, (request["address"], request["port"]))
            return
        target = kernel.open_inside(self._root, request["path"], os.O_PATH)
        try:
            if not stat.S_ISSOCK(os.fstat(target).st_mode):
                raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
            os.fchdir(self._table.proc)
            self._send_stream(socket.AF_UNIX, f"self/fd/{target}")
        finally:
            os.fchdir(self._root)
            os.close(target)

    def _send_stream(self, family: int, address: str | tuple[str, int]) -> None:
        with contextlib.closing(socket.socket(family)) as stream:
            stream.setblocking(False)
            failure = stream.connect_ex(address)
            # a port's full queue may become shorter
            if failure not in (0, errno.EINPROGRESS):
                raise OSError(failure, os.strerror(failure))
            wire.send(self._sock, {}, b"", (stream.fileno(),))

    def _op_listen(self, request: Message) -> None:
        """Send a listener on a port of the loopback, on which the host accepts what the agent's
        programs connect to it."""
        with contextlib.closing(socket.socket(socket.AF_INET)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((request["address"], request["port"]))
            listener.listen(_WAITING)
            wire.send(self._sock, {}, b"", (listener.fileno(),))

    def _op_session(self, request: Message) -> Message:
        """Say whether the session has ended since the last action, unless by `end_processes`."""
        self._reap()
        if self._shell is None or not self._shell.dead:
            return {"lost": self._shell_lost}
        _doubt(self._shell)
        return {"lost": self._shell_lost or not self._dismissed}

    def _op_end_processes(self, request: Message) -> Message:
        self._reap()
        self._dismissed = bool(self.session)
        self._kill_all()
        return {}

    def _op_diff(self, request: Message) -> Message:
        if not self._jobs_alive:
            changes = self._world.diff()
        elif request["pause"]:
            with self._table.pause_all(partial(self._init.signal_all, signal.SIGSTOP)):
                changes = self._world.diff()
        else:
            with self._enforcing():
                changes = self._world.diff()
        return {"changes": changes, **self._op_session(request)}

    @contextlib.contextmanager
    def _enforcing(self) -> Iterator[None]:
        """Enforce the limits of the processes that go on during the block."""
        signal.signal(signal.SIGALRM, lambda *_: self._enforce_limits())
        signal.setitimer(signal.ITIMER_REAL, _TICK, _TICK)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _op_export(self, request: Message) -> Message:
        """Copy this episode's changes as a layer into the folder that the host lent for it."""
        self._world.export(self._config["export"])
        return {}

    def _op_untouched(self, request: Message) -> Message:
        """Say whether no file, shared memory or process was added or changed since the start."""
        alive = [process.pid for process in self._table.all()]
        untouched = alive == self.session and not (
            self._table.ipc_objects() or os.listdir("/dev/shm") or self._world.diff()
        )
        return {"untouched": untouched}

    # -- fork --------------------------------------------------------------------------------------

    def _op_files(self, request: Message) -> None:
        """Send a descriptor of the changed files."""
        wire.send(self._sock, {"cwd": self._current_cwd()}, b"", (self._world.files,))

    def _op_snapshot(self, request: Message) -> Message | None:
        """Send the shell's state as a script, and a descriptor of the changed files, from which
        another episode can start."""
        self._reap()
        blockers = [
            f"process {self._table.inner_pid(p.pid)} ({p.name})"
            for p in self._table.all()
            if p.pid not in self.session
        ]
        shell, state = self._shell, b""
        if shell and not shell.dead:
            pipes = (self._out_write, shell.done_fd, shell.actions)
            blockers += self._table.foreign_descriptors(shell.pid, pipes)
        if blockers:
            return {"blockers": blockers}
        if shell:
            saved, self._output = self._output, Output(self._config["payload"])
            shell.begin(CAPTURE_STATE)
            self._wait(shell, _CAPTURING)
            self._output.read_available(self._out)
            parts = self._output.result()[0].split(b"\0")
            self._output = saved
            if len(parts) != 3:  # the agent shadows or disables the builtins that print the state
                return {"blockers": ["the shell's state, which needs the builtin commands"]}
            state = parts[1]
        reply = {"cwd": self._current_cwd(), "status": self._status}
        wire.send(self._sock, reply, state, (self._world.files,))
        return None

    def _op_restore(self, request: Message) -> Message:
        shell = self._live_shell()
        shell.traced = request["traces"]
        shell.begin(shell.restore_action(request["payload"], request["status"]))
        self._wait(shell, _CAPTURING)
        self._output = Output(self._config["output"])
        return {"ok": not shell.dead}


def _is_from_inside(status: int) -> bool:
    """Return whether the agent has made init end: SIGKILL from inside cannot kill init, any other
    end is the agent's doing."""
    return os.waitstatus_to_exitcode(status) != -signal.SIGKILL


def _doubt(job: ShellJob) -> None:
    """Wait a moment if the job was killed: whoever kills a sandbox from outside, one process after
    the other, kills this server next, and the death of a sandbox is no outcome."""
    if job.exit_code == -signal.SIGKILL:
        time.sleep(_DOUBT)


@contextlib.contextmanager
def _folder(root: int, path: str, flags: int = os.O_PATH) -> Iterator[int]:
    """Open a folder."""
    folder = kernel.open_inside(root, path or "/", flags | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        os.close(folder)


def _make_folder(root: int, path: str) -> None:
    """Make a folder, and those above it, unless it is there."""
    with contextlib.suppress(FileNotFoundError), _folder(root, path):
        return
    parent = ""
    for name in filter(None, path.split("/")):
        with _folder(root, parent) as folder, contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
        parent = f"{parent}/{name}"


def _clear(folder: int) -> None:
    for name in os.listdir(folder):
        inside = layers.open_folder(folder, name)
        if inside < 0:
            os.unlink(name, dir_fd=folder)
            continue
        try:
            _clear(inside)
        finally:
            os.close(inside)
        os.rmdir(name, dir_fd=folder)


def _unlink(folder: int, name: str) -> None:
    """Remove a file or a link, if there is one."""
    with contextlib.suppress(FileNotFoundError, IsADirectoryError):
        os.unlink(name, dir_fd=folder)


def _require_file(fd: int) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
