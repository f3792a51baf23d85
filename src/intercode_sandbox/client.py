"""The client of an episode server: frames on a socket that leads straight into the sandbox; one
request, one reply.

    GuestSandbox ──► Host (one supervisor)      reset = a new episode server in place of the old one
         └── socket ──► episode server ──► bash     exec, read, write, connect, diff

A fork is a second episode server of the same host, started from a copy of the first one's files and
shell state. Providers define how a host starts: `local.py` with bubblewrap, `docker/container.py`
as a container.
"""

from __future__ import annotations

import copy
import errno
import itertools
import os
import posixpath
import select
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import NoneType
from typing import Any, Self, overload

from intercode_sandbox.arguments import Content, Word, content, number, text, variables, words
from intercode_sandbox.base import Limits, Sandbox
from intercode_sandbox.copying import leads_below
from intercode_sandbox.errors import ForkError, SandboxDied, UsageError, inside, room_left
from intercode_sandbox.guest import wire
from intercode_sandbox.guest.limit import Limit
from intercode_sandbox.guest.room import NO_ROOM
from intercode_sandbox.host import Host, Server, require_open
from intercode_sandbox.results import Change, Completed, ExecResult
from intercode_sandbox.room import LEAST, require_processes
from intercode_sandbox.streams import Streams
from intercode_sandbox.wrapping import was_traced, wrapping

_SPIN_SECONDS = 150e-6
_QUICK_SECONDS = 500e-6
_PAYLOAD = 1 << 30
_CONNECT_SECONDS = 10.0
# The most files that are read by one request.
_FILES = 200
# The limits whose hits an episode server reports by name.
_ENFORCED = sorted(Limits().hits())
_CHANGE = {
    "kind": (str,),
    "type": (str,),
    "mode": (int,),
    "digest": (str, NoneType),
    "target": (str, NoneType),
}
# The bytes of a list of files to copy, and the bits of a mode that are copied.
_LISTED, _MODE = 12 << 20, 0o1777
_Made = tuple[str, int, str | None]
# The numbers of commands.
_numbers = itertools.count(1)
# Seconds that the episode server may take beyond the action's limit before it counts as dead.
_GRACE = 15.0


class _Action:
    """An action on its way. A signal or another thread may stop it at any moment: `stops` has an
    item from when all of the action was sent until a stop is."""

    __slots__ = ("stop_asked", "stops")

    def __init__(self) -> None:
        self.stop_asked = False
        self.stops = list[None]()


class GuestSandbox(Sandbox):
    """A sandbox on `host`, with its own episode server. Closing the last sandbox closes the
    host."""

    host: Host
    root = False
    """Programs inside have root's rights over files and users."""
    _number: int
    _sock: socket.socket
    # The commands that have ended since the last one began, for the episode server.
    _ended: list[int]
    # The episode server of the next episode, which starts while this one is played.
    _spare: Server | None
    _sealed: tuple[str, ...] = ()
    # The action that is being executed.
    _action: _Action | None = None
    # True if the session has ended; None if the last request did not say.
    _lost: bool | None = None

    def __init__(self, host: Host) -> None:
        self.host = host
        self._pid = os.getpid()
        self.limits = host.options.limits
        self.session = host.options.session
        self._open_episode()

    @overload
    def exec(self, action: str, **options: Any) -> ExecResult: ...

    @overload
    def exec(self, action: list[Word], **options: Any) -> Completed: ...

    def exec(
        self,
        action: str | list[Word],
        *,
        argv: Sequence[Word] | None = None,
        cwd: Word | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> ExecResult | Completed:
        """Run an action in the session, see `Sandbox`; or a list of words by `run`."""
        if not isinstance(action, str):
            return self.run(action, cwd=cwd or "", timeout=timeout, **options)
        unused = sorted(options)
        if cwd is not None and not argv:
            unused.append("cwd")
        if unused:
            raise UsageError(
                f"a text runs in the session, without {', '.join(unused)}; give a list of words"
            )
        seconds = number("timeout", timeout, self.limits.seconds)
        head: dict[str, Any] = {"seconds": seconds}
        if argv:
            head["argv"] = words("argv", argv)
            head["cwd"] = None
            if cwd is not None:
                head["cwd"] = text("cwd", cwd)
        payload = content("an action", action)
        if b"\0" in payload:
            raise UsageError("an action cannot contain a NUL character")
        head |= wrapping(payload)
        with self._lock:
            self._action = _Action()
            try:
                reply, output = self._request("exec", payload, wait=seconds, **head)
            finally:
                self._action = None
        hits = _field(reply, "limits", list)
        return ExecResult(
            output=output.decode("utf-8", "backslashreplace"),
            exit_code=_field(reply, "exit_code", int, NoneType),
            timed_out=_field(reply, "timed_out", bool),
            session_lost=_field(reply, "lost", bool),
            overflow=_field(reply, "overflow", str, NoneType),
            cwd=_field(reply, "cwd", str),
            limits=tuple(limit for limit in _ENFORCED if limit in hits),
            killed=_field(reply, "killed", bool),
        )

    def stop(self) -> bool:
        action = self._action
        if action is None:
            return False
        action.stop_asked = True
        self._send_stop(action)
        return True

    def _send_stop(self, action: _Action) -> None:
        if action.stop_asked:
            with suppress(IndexError, OSError):
                action.stops.pop()
                self._sock.send(wire.STOP)

    def run(
        self,
        command: Sequence[Word],
        *,
        stdin: Content = b"",
        env: Mapping[str, Word] | None = None,
        cwd: Word = "",
        user: str = "agent",
        timeout: float | None = None,
        output: int | None = None,
        ends: Callable[[], bool] | None = None,
    ) -> Completed:
        argv = words("the command", command)
        if not argv:
            raise UsageError("the command must have a word")
        stdin = content("stdin", stdin)
        seconds = number("timeout", timeout, self.limits.seconds)
        limit = int(number("output", output, self.limits.output))
        of_user, ids = self._user(text("user", user))
        head: dict[str, Any] = {
            "argv": argv,
            "env": {**of_user, **variables(env)},
            "path": self._absolute(cwd, "cwd"),
            "reads": bool(stdin),
            "user": ids,
        }
        command_number = next(_numbers)
        fds = list[int]()
        with self._lock:
            ended = self._ended
            self._ended = []
            self._request("run", fds=fds, number=command_number, ended=ended, **head)
        if len(fds) != 3 + bool(stdin):
            for fd in fds:
                os.close(fd)
            raise SandboxDied("the sandbox did not hand out the command's ends")
        try:
            with Streams(fds, stdin, limit) as streams:
                ended_itself = streams.pump(seconds, ends)
                if not ended_itself:
                    self._request("end_run", number=command_number)
        except BaseException:  # such as an interrupt by the user
            with suppress(SandboxDied):
                self._request("end_run", number=command_number)
            raise
        if ended_itself:
            with self._lock:
                self._ended.append(command_number)
        return streams.completed(timed_out=not ended_itself)

    def read(self, path: Word, *, limit: int = 8 << 20) -> bytes:
        return b"".join(self._pieces(self._absolute(path), int(number("limit", limit))))

    def _pieces(self, path: str, limit: int) -> Iterator[bytes]:
        """Yield a file's content; a piece that is not full is the last."""
        with self._lock:
            piece = self._request("read", path=path, limit=limit)[1]
            yield piece
            while len(piece) == wire.PIECE and limit >= wire.PIECE:
                limit -= wire.PIECE
                piece = self._request("read", path=path)[1]
                yield piece

    def read_many(self, paths: Sequence[Word], *, limit: int = 8 << 20) -> Iterator[bytes | None]:
        for pieces in self._contents(
            [self._absolute(path) for path in words("the paths", paths)], limit
        ):
            try:
                yield b"".join(pieces)
            except OSError:
                yield None

    def _contents(self, paths: Sequence[str], limit: int) -> Iterator[Iterable[bytes]]:
        """Yield the pieces of each file. Small files are read together, since each request takes
        longer than a small file."""
        place = 0
        while place < len(paths):
            batch = paths[place : place + _FILES]
            reply, content = self._request("read_many", paths=batch)
            sizes = _field(reply, "sizes", list)
            start = 0
            other_types = set(map(type, sizes)) - {int}
            if other_types or len(sizes) > len(batch) or sum(sizes) != len(content):
                raise SandboxDied(f"the sandbox's answer makes no sense: sizes {sizes!r:.50}")
            for size in sizes:
                yield content[start : start + size], b""
                start += size
            place += len(sizes)
            if place < len(paths):  # the next one is too large for that, or cannot be read
                yield self._pieces(paths[place], limit)
                place += 1

    def write(self, path: Word, data: Content, *, mode: int = 0o644) -> None:
        if not isinstance(mode, int) or not 0 <= mode <= 0o7777:
            raise UsageError(f"mode must be a number from 0 to 0o7777, not {mode!r:.60}")
        path = self._absolute(path)
        data = content("data", data)
        last = max(len(data) - 1, 0) // wire.PIECE * wire.PIECE
        for start in range(0, last, wire.PIECE):
            piece = data[start : start + wire.PIECE]
            self._request("write", piece, path=path, at=start, mode=None)
        self._request("write", data[last:], path=path, at=last, mode=mode)

    def copy_to(
        self, path: str, target: Sandbox, is_left_out: Callable[[str, str], bool], *, limit: int
    ) -> dict[str, int]:
        if not isinstance(target, GuestSandbox):
            return super().copy_to(path, target, is_left_out, limit=limit)
        top = posixpath.normpath(self._absolute(path))
        reply, _ = self._request("list", wait=120, path=top, limit=_LISTED)
        entries, left_out = _changes(reply, "entries"), set[str]()
        files, others = list[str](), list[_Made]()
        for path, entry in entries.items():
            inside = path[len(top) + 1 :]
            if posixpath.dirname(path) in left_out or is_left_out(path, inside):
                left_out.add(path)
            elif entry.type == "file":
                files.append(path)
            elif entry.type == "dir" or leads_below(top, path, entry.target or "/"):
                others.append((path, entry.mode & _MODE, entry.target))
        arrived, room = dict[str, int](), limit
        if top in entries and entries[top].type == "dir" and top not in left_out:
            target._request("clear", wait=120, path=top)
        for path, pieces in zip(files, self._contents(files, limit), strict=True):
            try:
                size = target._take(path, pieces, entries[path].mode & _MODE)
            except OSError as error:  # unreadable, or a folder of the target is in the way
                if error.errno in (errno.EFBIG, errno.ENOSPC):
                    raise
                continue
            arrived[path] = size
            room -= size
            if room < 0:
                raise OSError(errno.EFBIG, f"more than {limit} bytes", top)
        # what is in a folder comes first, since the folder may be read-only
        reply, _ = target._request("make", wait=120, entries=others[::-1])
        refused = set(_field(reply, "refused", list))
        for path, _, _ in others:
            if path not in refused:
                arrived[path] = 0
        return arrived

    def _take(self, path: str, pieces: Iterable[bytes], mode: int) -> int:
        """Write a file in place of another; return its size."""
        size = 0
        for piece in pieces:
            last = len(piece) < wire.PIECE
            self._request(
                "write", piece, path=path, at=size, mode=mode if last else None, anew=not size
            )
            size += len(piece)
            if last:
                break
        return size

    def connect(self, path: Word | int) -> socket.socket:
        if not isinstance(path, int):
            sock = self._receive_socket("connect", path=self._absolute(path))
            sock.setblocking(True)
            return sock
        try:
            return self._connect_to("127.0.0.1", path)
        except ConnectionRefusedError:
            with suppress(OSError, UsageError):  # closed meanwhile
                return self._connect_to("::1", path)
            raise

    def _connect_to(self, address: str, port: int) -> socket.socket:
        stream = self._receive_at_port("connect", address, port, 1)
        poll = select.poll()  # `select` refuses descriptors above 1023
        poll.register(stream, select.POLLOUT)
        connected = poll.poll(_CONNECT_SECONDS * 1000)
        failure = stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not (connected or failure):
            failure = errno.ETIMEDOUT
        if failure:
            stream.close()
            raise OSError(failure, os.strerror(failure))
        stream.setblocking(True)
        return stream

    def listen(self, port: int, address: str = "127.0.0.1") -> socket.socket:
        return self._receive_at_port("listen", address, port, 0)

    def _receive_at_port(self, op: str, address: str, port: object, least: int) -> socket.socket:
        if not (isinstance(port, int) and least <= port < 1 << 16):
            raise UsageError(f"port must be a number from {least} to 65535, not {port!r:.60}")
        # an error of the port is the caller's, as one of a path is
        return self._receive_socket(op, path=f"{address}:{port}", port=port, address=address)

    def branch(self) -> socket.socket:
        """Return a socket to a forked copy of the session's interpreter; the previous branch ends,
        with all that it started."""
        if self.host.options.program != "python":
            raise UsageError(
                "this sandbox's session is a shell, which cannot be copied; "
                "make it with program='python'"
            )
        require_processes(LEAST)
        return self._receive_socket("branch")

    def end_branch(self) -> None:
        self._request("branch", end=True)

    def restore(self) -> None:
        """Reset, unless all is as it was at the start."""
        self.end_branch()
        reply, _ = self._request("untouched")
        if not _field(reply, "untouched", bool):
            self.reset()

    def diff(self) -> dict[str, Change]:
        return self._diff(pause=True)

    def glance(self) -> dict[str, Change]:
        return self._diff(pause=False)

    def _diff(self, *, pause: bool) -> dict[str, Change]:
        """Return the changes. `pause`: stop processes while files are read, which they may notice
        when they continue; otherwise a file that changes meanwhile has the type `other`."""
        require_processes(LEAST)
        reply, _ = self._request("diff", wait=120, pause=pause)
        self._lost = _field(reply, "lost", bool)
        return _changes(reply, "changes")

    def session_lost(self) -> bool:
        if self._lost is None:
            reply, _ = self._request("session")
            return bool(_field(reply, "lost", bool))
        return self._lost

    def end_processes(self) -> None:
        self._request("end_processes")

    def export(self, folder: Path) -> None:
        """Copy the changes into `folder`, which must be the one given to the host. Raises `OSError`
        if its disk is full."""
        self._request("export", wait=600, path=text("folder", folder))

    def seal(self, *paths: Word) -> bool:
        sealed = tuple(words("the paths", paths))
        if sealed != self._sealed and self._spare:
            self._spare[1].close()
            self.host.end_episode(self._spare[0])
            self._spare = None
        self._sealed = sealed
        return True

    def reset(self) -> None:
        require_open(self._pid, closed=self.closed)
        spare = self._spare
        self._spare = None
        number = self._number
        with self._sock:
            self._open_episode(replaces=number, spare=spare)
        if self.host.spares:
            self._spare = self.host.request_spare(beside=self._number, sealed=self._sealed)

    def sibling(self) -> Self:
        """Open an untouched sandbox of the same host."""
        other = copy.copy(self)
        other._open_episode()
        return other

    def copy_files(self) -> Self:
        """Open a sandbox with a new session and a copy of this one's files."""
        fds: list[int] = []
        reply, _ = self._request("files", fds=fds)
        return self._open_copy(reply, fds)

    def _open_copy(self, reply: dict[str, Any], fds: list[int]) -> Self:
        """Open a sandbox that begins with the files of a descriptor, which is closed."""
        try:
            blockers = _field({"blockers": [], **reply}, "blockers", list)
            if blockers:
                raise ForkError(
                    "a live copy cannot take along: "
                    f"{', '.join(map(str, blockers))}; end or close them"
                )
            if len(fds) != 1:
                raise SandboxDied("the sandbox did not hand out its files")
            other = copy.copy(self)
            other._open_episode(cwd=_field(reply, "cwd", str), upper=fds[0])
            return other
        finally:
            for fd in fds:
                os.close(fd)

    def fork(self) -> Self:
        if self.host.options.program == "python":
            raise ForkError(
                "an interpreter cannot be copied live; "
                "fork its environment, which executes the episode again"
            )
        fds: list[int] = []
        reply, state = self._request("snapshot", wait=60, fds=fds)
        other = self._open_copy(reply, fds)
        if self.session == "persistent":
            try:
                head = {"status": _field(reply, "status", int), "traces": was_traced(state)}
                restored, _ = other._request("restore", state, **head)
                if not _field(restored, "ok", bool):
                    raise ForkError(
                        "the copy could not take on the session's state: its shell ended"
                    )
            except BaseException:
                other.close()
                raise
        return other

    def close(self) -> None:
        if self.closed or os.getpid() != self._pid:
            return
        self._sock.close()
        if self._spare:
            self._spare[1].close()
        number = self._number
        self._number = -1
        self.host.users -= 1
        if self.host.users == 0:
            self.host.close()
        elif not self.host.closed:
            with suppress(SandboxDied):  # the host ended, and the episode server with it
                self.host.end_episode(number)
                if self._spare:
                    self.host.end_episode(self._spare[0])

    @property
    def closed(self) -> bool:
        return self._number < 0

    # -- inside ------------------------------------------------------------------------------------

    def _open_episode(self, *, replaces: int | None = None, **start: Any) -> None:
        """Start an episode server and connect to it; a new sandbox counts as one more user of the
        host."""
        if replaces is None:
            self._number = -1
            self._spare = None
            self.host.users += 1
        try:
            require_processes(min(self.limits.processes, Limits().processes))
            self._number, sock = self.host.start_episode(
                replaces=replaces, sealed=self._sealed, **start
            )
        except BaseException:
            if replaces is None:
                self.host.users -= 1
                if self.host.users == 0:
                    self.host.close()
            raise
        self._sock, self._timeout, self._quick, self._lost = sock, 0.0, False, None
        self._lock = threading.RLock()
        self._ended = []
        self.files = "copied" if self.host.copies else ""
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def _user(self, user: str) -> tuple[dict[str, str], list[int] | None]:
        """Return the variables of a user, and the numbers of user and groups; None for the agent,
        who is root."""
        if user in ("agent", "root"):
            return {}, None
        if not self.root:
            raise UsageError(f"no user {user!r}: this sandbox has one user; open it with root=True")
        row, home, ids = [user, "", user, user], "/", list[int]()
        for entry in self._table("passwd"):
            if user in (entry[0], entry[2]):
                row = entry
                break
        if len(row) > 5:
            home = row[5]
        name = row[0]
        for digits in row[2:4]:
            if not digits.isdigit() or int(digits) >= 1 << 32:
                raise UsageError(f"no user {user!r} in /etc/passwd")
            ids.append(int(digits))
        for group in self._table("group"):
            if name in group[3].split(","):
                ids.append(int(group[2]))
        return {"HOME": home, "USER": name, "LOGNAME": name}, ids

    def _table(self, name: str) -> list[list[str]]:
        """Return the rows of /etc/passwd or /etc/group that have a number."""
        text = self.read(f"/etc/{name}").decode("utf-8", "replace")
        rows = [line.split(":") for line in text.splitlines()]
        return [row for row in rows if len(row) > 3 and row[2].isdigit()]

    def _absolute(self, path: Word, name: str = "path") -> str:
        """Return a path in the sandbox; relative paths begin where sessions begin."""
        return posixpath.join(self.host.cwd, text(name, path))

    def _request(
        self,
        op: str,
        payload: bytes = b"",
        wait: float = 0.0,
        fds: list[int] | None = None,
        **head: Any,
    ) -> tuple[dict[str, Any], bytes]:
        """Return the reply's head and payload. Descriptors that come with the reply are added to
        `fds`, or closed on an error."""
        with self._lock:
            require_open(self._pid, closed=self.closed)
            # what fails here has sent nothing, and the sandbox lives on
            frame = wire.frame({"op": op, **head}, payload)
            answered, self._lost, seconds = False, None, wait + _GRACE
            try:
                if seconds != self._timeout:
                    self._sock.settimeout(seconds)
                    self._timeout = seconds
                # the episode server has ended; its last frame says why
                with suppress(BrokenPipeError):
                    wire.transmit(self._sock, frame)
                if self._action is not None:
                    self._action.stops.append(None)
                    self._send_stop(self._action)
                limit = Limit(seconds)
                if op == "exec":
                    reply, content = self._prompt_reply(limit)
                else:
                    reply, content = self._reply(limit, fds)
                answered = True
            except TimeoutError:
                raise SandboxDied(f"the sandbox did not answer {op} in {seconds:.0f} s") from None
            except (OSError, EOFError, wire.WireError) as error:
                why = str(error) or "its end of the socket closed"
                raise SandboxDied(f"the sandbox died during {op} ({why})") from None
            finally:
                if not answered:  # such as by an interrupt: what comes now answers no other request
                    self._sock.close()
        failure = _error(op, head.get("path"), reply)
        if failure is None:
            return reply, content
        for fd in fds or ():
            os.close(fd)
        raise failure

    def _prompt_reply(self, limit: Limit) -> tuple[dict[str, Any], bytes]:
        """Poll for a moment before sleeping: most builtins answer in less time than it takes to
        wake a process.

        After an action that took longer, sleep at once until an action is quick again, so that
        other processes get the processor.
        """
        began = time.perf_counter()
        while (
            self._quick and not self._poll.poll(0) and time.perf_counter() - began < _SPIN_SECONDS
        ):
            os.sched_yield()
        reply = self._reply(limit)
        self._quick = time.perf_counter() - began < _QUICK_SECONDS
        return reply

    def _reply(self, limit: Limit, fds: list[int] | None = None) -> tuple[dict[str, Any], bytes]:
        while not self._poll.poll(max(limit.wait(), 0.0) * 1000):
            if limit.left() <= 0:
                raise TimeoutError
        if fds is None:
            return wire.receive(self._sock, _PAYLOAD)
        with room_left():
            reply, content, received = wire.receive_with_fds(self._sock, _PAYLOAD)
        fds += received
        return reply, content

    def _receive_socket(self, op: str, **head: Any) -> socket.socket:
        """Return the socket that the episode server sends as its reply."""
        fds: list[int] = []
        self._request(op, fds=fds, **head)
        with ExitStack() as unused:
            for fd in fds:
                unused.callback(os.close, fd)
            if len(fds) == 1 and stat.S_ISSOCK(os.fstat(fds[0]).st_mode):
                unused.pop_all()
                return socket.socket(fileno=fds[0])
        raise SandboxDied(f"the sandbox answered {op} without a socket")


def _field(reply: dict[str, Any], name: str, *kinds: type) -> Any:
    """Return a field of a reply. Raises `SandboxDied` if the field is missing or of another type,
    which no sound guest sends."""
    value = reply.get(name, ...)
    if not isinstance(value, kinds):
        raise SandboxDied(f"the sandbox's answer makes no sense: its {name} is {value!r:.50}")
    return value


def _changes(reply: dict[str, Any], name: str) -> dict[str, Change]:
    """Return the descriptions of paths in a reply, sorted by path."""
    reported, parsed = _field(reply, name, dict), {}
    for path in sorted(reported):
        fields = _field(reported, path, dict)
        if not {"kind", "type"} <= fields.keys() <= _CHANGE.keys():
            raise SandboxDied(
                f"the sandbox's answer makes no sense: the change of {path!r:.50} is {fields!r:.50}"
            )
        parsed[path] = Change(**{name: _field(fields, name, *_CHANGE[name]) for name in fields})
    return parsed


def _error(op: str, path: Any, reply: dict[str, Any]) -> SandboxDied | OSError | None:
    if "perished" in reply:
        by_agent = reply.get("by_agent") is True
        return SandboxDied(f"the sandbox's first process ended before {op} did", by_agent=by_agent)
    if "errno" not in reply:
        return None
    number = reply["errno"]
    message = reply.get("error")
    if not isinstance(number, int):
        return SandboxDied(f"the sandbox's answer makes no sense: its errno is {number!r:.50}")
    # EAGAIN comes from a full queue or from a lease that the agent holds, unless a program starts
    full = number in NO_ROOM and (op == "run" or number != errno.EAGAIN)
    if path is None or full:
        return SandboxDied(f"the sandbox broke during {op} ({message})")
    return inside(OSError(number, message, path))
