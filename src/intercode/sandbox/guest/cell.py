"""One episode: serves the host's requests over its socket, one at a time, and watches the agent.

    exec ── begin ──► wait ──(deadline)──► interrupt ──► kill what was born since ──► kill the shell
                        │ finished            │                    │                      │
                        └─────────────────────┴────────────────────┴──────────► reply with all that was printed

The agent's processes live in a pid namespace below this one (`entry.py`). When the host's end of the socket closes, or the
anchor of that namespace dies, the cell exits and the kernel ends everything inside.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from typing import Any

from . import door, entry, files, kernel, layers, processes, rooms, wire
from .limit import Limit
from .output import Output
from .shell import CAPTURE, Program, Shell, child_signals, once

_TICK = 0.05
_IDLE_TICK = 0.2
_INTERRUPTS, _INTERRUPT_EVERY = 5, 0.01
_KILLS, _PATIENCE, _KILL_EVERY = 40, 8, 0.005
_LAST_DEATH, _SETTLING = 2.0, 1.0
_BLANK = b"\n"
_DEATH = 0.001  # nothing tells when another's children are gone
_SPARE_PROCESSES = 4
_INTERRUPTED = 130

Config = dict[str, Any]


class Cell:
    def __init__(self, sock: socket.socket, config: Config, room: entry.Room) -> None:
        self._sock, self._config, self._room, self._files, self._anchor = sock, config, room, room.files, room.anchor
        self._root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._table = processes.Table(room.proc, room.anchor.pid)
        self._out, self._out_in = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._out, False)
        self._wake = child_signals()
        self._cwd: str = config["cwd"]
        self._output = Output(config["output"])
        self._acted, self._watching, self._lost, self._status = False, False, False, 0
        self._next_tick = 0.0
        self._mark = self._table.mark()
        self._job: Shell | Program | None = None
        self._keep_shell: Shell | Program | None = None
        if config["persistent"]:
            self._job = self._shell()
            if self._job.refused:  # else the agent's first action would be to blame
                raise self._job.refused

    @property
    def session(self) -> list[int]:
        """The pid of the session's process, if one lives."""
        return [self._job.pid] if self._job and not self._job.dead else []

    def serve(self) -> None:
        """Wait for requests and answer them, until the host goes away."""
        while True:
            self._idle()
            try:
                head, payload = wire.receive(self._sock, self._config["payload"])
            except (EOFError, OSError):
                return
            self._acted = True
            try:
                getattr(self, "_op_" + head["op"])(head, payload)
            except OSError as error:
                wire.send(self._sock, {"errno": error.errno, "error": error.strerror or str(error)})

    def _idle(self) -> None:
        """Wait for a request and watch what lives."""
        poll = _poll(self._sock.fileno(), self._wake, self._out)
        while True:
            ready = dict(poll.poll(_IDLE_TICK * 1000 if self._acted else None))
            if self._wake in ready:
                self._reap()
            if self._out in ready:
                self._output.drain(self._out)
            if self._sock.fileno() in ready:
                return
            self._police()

    # -- exec -------------------------------------------------------------------------------------------------------

    def _op_exec(self, head: dict[str, Any], payload: bytes) -> None:
        if self._watching:  # else nothing was alive that could have started another since the last mark
            self._mark = self._table.mark()
        job = self._begin(head, payload)
        mark = self._mark
        timed_out = not self._wait(job, head["seconds"])
        if timed_out:
            self._stop(job, mark)
            if isinstance(job, Shell) and not job.dead:
                self._settle(job)
        self._output.drain(self._out)
        self._mark = self._table.mark()
        if self._mark.pid != mark.pid:
            self._police()
        wire.send(self._sock, *self._result(job, timed_out))

    def _begin(self, head: dict[str, Any], payload: bytes) -> Shell | Program:
        self._next_tick = time.monotonic() + _TICK
        if "argv" in head or not self._config["persistent"]:
            argv = head.get("argv") or once(payload)
            self._keep_shell = self._job
            self._job = Program(self._out_in, self._config["env"], head.get("cwd") or self._here(), argv)
        else:
            self._living_shell().begin(payload or _BLANK)
        assert self._job is not None
        if self._job.dead:
            self._reap()  # perhaps it could not start since the anchor had been killed
        return self._job

    def _living_shell(self) -> Shell:
        assert isinstance(self._job, Shell)
        if self._job.dead:
            self._replace_shell()
        return self._job

    def _wait(self, job: Shell | Program, seconds: float) -> bool:
        """Until the job is finished (True) or the time is up (False)."""
        hearing, limit = True, Limit(seconds)
        while not job.finished:
            if (rest := limit.left()) <= 0:
                return False
            poll = _poll(self._sock.fileno(), self._wake, self._out)
            if hearing and job.done_fd is not None:
                poll.register(job.done_fd, select.POLLIN)
            if job.pending_fd is not None:
                poll.register(job.pending_fd, select.POLLOUT)
            hearing = self._progress(job, dict(poll.poll(min(rest, _TICK) * 1000)), hearing)
        return True

    def _progress(self, job: Shell | Program, ready: dict[int, int], hearing: bool) -> bool:
        if self._out in ready:
            self._output.drain(self._out)
        if job.done_fd in ready:
            hearing = job.hear()
        if self._wake in ready:
            self._reap()
        if job.pending_fd in ready and isinstance(job, Shell):
            job.feed()
        if self._sock.fileno() in ready:
            os._exit(0)  # the host went away, or broke the order of request and reply
        if over := (now := time.monotonic()) >= self._next_tick:
            self._next_tick = now + _TICK
        if not ready or over:
            self._police()
        return hearing

    def _settle(self, shell: Shell) -> None:
        """An interrupt that came too late must not hit the next action: so it hits this one, which is none."""
        self._output.drain(self._out)
        kept, self._output = self._output, Output(self._config["output"])
        shell.begin(b"")
        if not self._wait(shell, _SETTLING):
            processes.kill(shell.pid)
            self._wait(shell, _LAST_DEATH)
        self._output.drain(self._out)
        self._output = kept

    def _stop(self, job: Shell | Program, mark: processes.Mark) -> None:
        """Interrupt; kill what the action started; then the shell, if it does not come back; at last, everything."""
        if isinstance(job, Shell) and job.unread:  # it would take the rest for its next action
            processes.kill(job.pid)
        for _ in range(_INTERRUPTS):
            processes.kill(job.pid, signal.SIGINT)
            processes.send(self._table.born_since(mark), signal.SIGINT)
            if self._wait(job, _INTERRUPT_EVERY):
                break
        for attempt in range(_KILLS):
            born = self._table.born_since(mark)
            if not born and job.finished:
                return
            processes.send(born, signal.SIGKILL)
            if attempt >= _PATIENCE and not job.finished:
                processes.kill(job.pid)
            if self._wait(job, _KILL_EVERY):
                time.sleep(_DEATH)
        self._kill_all()

    def _result(self, job: Shell | Program, timed_out: bool) -> tuple[dict[str, Any], bytes]:
        self._cwd = self._here()
        exit_code = None if timed_out else job.exit_code
        if isinstance(job, Program):
            self._cwd = job.last_cwd or self._cwd
            job.close()
            self._job = self._keep_shell
        else:
            self._status = _INTERRUPTED if exit_code is None else exit_code
        if isinstance(job, Shell) and job.dead:
            self._replace_shell()
        kept, overflow = self._output.take()
        self._output = Output(self._config["output"])
        lost, self._lost = self._lost, False
        return {"exit_code": exit_code, "timed_out": timed_out, "lost": lost, "cwd": self._cwd, "overflow": overflow}, kept

    def _here(self) -> str:
        """Where the shell is; where it was last, if it died."""
        if isinstance(self._job, Shell) and not self._job.dead:
            path = self._table.cwd(self._job.pid)
            return path.removesuffix(" (deleted)") if path else self._cwd
        return self._cwd

    # -- the agent's processes --------------------------------------------------------------------------------------

    def _shell(self) -> Shell:
        shell = Shell(self._out_in, self._config["env"], self._cwd)
        self._mark = self._table.mark()
        return shell

    def _replace_shell(self) -> None:
        assert isinstance(self._job, Shell)
        self._job.close()
        self._job = self._shell()
        self._lost, self._status = True, 0

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, 0 if self._table.anchor_ends() else os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._anchor.pid:
                self._perish(by_agent=not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL))
            for job in (self._job, self._keep_shell):
                if job is not None and job.pid == pid:
                    job.exited(status)

    def _police(self) -> None:
        """End all processes when together they pass a limit, and say so in the output."""
        alive = self._table.all()
        self._watching = any(self._job is None or process.pid != self._job.pid for process in alive)
        used = self._table.memory(alive) + rooms.used("/") + rooms.used("/dev/shm")
        if used > self._config["memory"]:
            self._evict(f"memory limit of {self._config['memory'] >> 20} MiB")
        elif len(alive) + _SPARE_PROCESSES >= self._config["processes"]:
            self._evict(f"limit of {self._config['processes']} processes")

    def _evict(self, what: str) -> None:
        self._kill_all()
        for kind, number in self._table.objects():
            kernel.remove_object(kind, number)
        self._output.drain(self._out)
        self._output.add(f"\n[{what} exceeded: all processes were killed]\n".encode())

    def _kill_all(self) -> None:
        """Returns when they are gone, so that the next action's processes are not among them."""
        self._anchor.kill_all()
        until = time.monotonic() + _LAST_DEATH
        while self._table.all():
            if time.monotonic() > until:  # the agent has rewritten the anchor
                processes.kill(self._anchor.pid)
                self._perish(by_agent=True)
            time.sleep(_DEATH)
        self._reap()

    def _perish(self, *, by_agent: bool) -> None:
        """The anchor is gone, and everything inside with it. From inside it cannot be killed with SIGKILL: any other end of it
        is the agent's doing."""
        try:
            wire.send(self._sock, {"perished": True, "by_agent": by_agent})
        finally:
            os._exit(0)

    # -- files ------------------------------------------------------------------------------------------------------

    def _op_read(self, head: dict[str, Any], payload: bytes) -> None:
        wire.send(self._sock, {}, files.read(self._root, head["path"], head["limit"]))

    def _op_write(self, head: dict[str, Any], payload: bytes) -> None:
        files.write(self._root, head["path"], payload, head["mode"])
        wire.send(self._sock, {})

    def _op_connect(self, head: dict[str, Any], payload: bytes) -> None:
        with door.connect(self._root, self._room.proc, head["path"]) as line:
            wire.send(self._sock, {}, b"", (line.fileno(),))

    def _op_diff(self, head: dict[str, Any], payload: bytes) -> None:
        with self._table.still(self._anchor.stop_all) if self._watching else contextlib.nullcontext():
            wire.send(self._sock, {"changes": layers.diff(*self._files)})

    def _op_export(self, head: dict[str, Any], payload: bytes) -> None:
        """Copy this episode's changes out as a layer, into the folder that the host lent for it."""
        layers.copy(self._files.upper, self._config["export"])
        wire.send(self._sock, {})

    # -- fork -------------------------------------------------------------------------------------------------------

    def _op_snapshot(self, head: dict[str, Any], payload: bytes) -> None:
        """The shell's state as a script, and a descriptor of the changed files, for another cell to start from."""
        self._reap()
        mine = self._job.pid if self._job else 0
        blockers = [f"process {self._table.inner_pid(p.pid)} ({p.name})" for p in self._table.all() if p.pid != mine]
        if isinstance(self._job, Shell) and not self._job.dead:
            own = {self._table.name(fd) for fd in (self._out_in, *self._job.lines)} | {"/dev/null"}
            blockers += self._table.opened(self._job.pid, own)
        if blockers:
            wire.send(self._sock, {"blockers": blockers})
            return
        state = self._capture(self._job) if isinstance(self._job, Shell) else b""
        if state is None:
            wire.send(self._sock, {"blockers": ["the shell's state, which needs the builtin commands"]})
            return
        wire.send(self._sock, {"cwd": self._here(), "status": self._status}, state, (self._files.upper,))

    def _capture(self, shell: Shell) -> bytes | None:
        """None if the agent shadows or disables what tells of the state."""
        kept, self._output = self._output, Output(self._config["payload"])
        shell.begin(CAPTURE)
        self._wait(shell, 5.0)
        self._output.drain(self._out)
        text, _ = self._output.take()
        self._output = kept
        parts = text.split(b"\0")
        return parts[1] if len(parts) == 3 else None

    def _op_restore(self, head: dict[str, Any], payload: bytes) -> None:
        shell = self._living_shell()
        shell.begin(shell.restore(payload, head["status"]))
        self._wait(shell, 5.0)
        self._output = Output(self._config["output"])
        wire.send(self._sock, {"ok": not shell.dead})


def _poll(*fds: int) -> select.poll:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return poll
