"""ChrootSandbox: the contract in a copied tree, under a user of its own.

exec, read, write, diff    the guest, over its socket         reset    everybody is ended, what changed is copied anew
fork                       another copy, with the same files and the shell's state
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, ClassVar, Self

from intercode.errors import ForkError, SandboxError, SandboxUnavailable
from intercode.sandbox import seccomp
from intercode.sandbox.base import Limits, Session
from intercode.sandbox.chroot.berth import Berth
from intercode.sandbox.chroot.tree import Tree, copy
from intercode.sandbox.guest import wire
from intercode.sandbox.line import GuestSandbox, changes, unhindered
from intercode.sandbox.wall import ENVIRONMENT, rlimits
from intercode.types import Change

_START, _WORK, _END = 60.0, 120.0, 10.0
"""Seconds that these may take."""
_sandboxes: weakref.WeakSet[ChrootSandbox] = weakref.WeakSet()


class ChrootSandbox(GuestSandbox):
    """See `Sandbox` for the contract, and docs/security.md for what does not hold. `environment` are the agent's variables.

    Raises `SandboxUnavailable` where this process is not root. Connections to programs inside are not offered.
    """

    about: ClassVar[Mapping[str, str]] = {"wall": "weak"}

    def __init__(
        self,
        tree: Tree,
        *,
        limits: Limits | None = None,
        session: Session = "persistent",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        variables = {**ENVIRONMENT, **tree.template.environment} if environment is None else dict(environment)
        self._enter(tree, limits or Limits(), session, variables)

    def diff(self) -> dict[str, Change]:
        reply, _ = self._ask({"op": "diff"}, wait=_WORK)
        return changes(reply)

    def reset(self) -> None:
        self._ask({"op": "reset"}, wait=_WORK)

    def fork(self) -> Self:
        fds: list[int] = []
        reply, state = self._ask({"op": "snapshot"}, wait=_WORK, fds=fds)
        try:
            unhindered(reply, "a live copy cannot take along")
            return self._twin(reply, state, fds[0])
        finally:
            for fd in fds:
                os.close(fd)

    def close(self) -> None:
        if self._closed or os.getpid() != self._pid:
            return
        untouched = self._left_untouched()
        self._gone = True
        self._sock.close()
        try:
            self._cell.wait(_END)
        except subprocess.TimeoutExpired:
            self._cell.kill()
            self._cell.wait()
        self._errors.close()
        self._berth.leave(untouched=untouched and self._cell.returncode == 0)

    def settled(self) -> Path:
        """Everybody inside has been ended; the folder of the files."""
        self._ask({"op": "settle"}, wait=_WORK)
        return self._berth.tree

    @property
    def uid(self) -> int:
        """Whose the processes and files inside are, and nobody else's."""
        return self._berth.uid

    # -- inside -----------------------------------------------------------------------------------------------------

    def _left_untouched(self) -> bool:
        try:
            self.reset()
        except SandboxError:
            return False
        return True

    @property
    def _closed(self) -> bool:
        return self._gone

    def _enter(
        self, tree: Tree, limits: Limits, session: Session, environment: dict[str, str], heritage: tuple[int, ...] = ()
    ) -> None:
        self._pid, self._gone, self._berth = os.getpid(), False, Berth(tree.digest)
        self._tree, self.limits, self.session, self._environment = tree, limits, session, environment
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        _sandboxes.add(self)
        try:
            if not self._berth.furnished:
                copy(tree, self._berth.tree, self.uid)
            self._speak(self._start(heritage))
        except BaseException:
            self._gone = True
            self._errors.close()
            self._berth.leave(untouched=False)
            raise

    def _start(self, heritage: tuple[int, ...]) -> socket.socket:
        ours, inside = socket.socketpair()
        with inside:
            self._cell = subprocess.Popen(
                self._berth.guest("main()"), stdin=inside.fileno(), stdout=subprocess.DEVNULL, stderr=self._errors,
                env={"PYTHONUTF8": "1"}, cwd="/", start_new_session=True,
            )  # fmt: skip
        folders = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (self._berth.tree, self._tree.root)]
        try:
            ours.settimeout(_START)
            wire.send(ours, self._config(), seccomp.program(own_namespaces=False), (*folders, *heritage))
            wire.receive(ours, 0)
        except (OSError, EOFError, wire.WireError):
            ours.close()
            raise self._stillborn() from None
        finally:
            for fd in folders:
                os.close(fd)
        return ours

    def _stillborn(self) -> SandboxUnavailable:
        self._cell.kill()
        self._cell.wait()
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip().splitlines()
        return SandboxUnavailable(f"the chroot sandbox could not start: {words[-1] if words else 'no reply'}")

    def _config(self) -> dict[str, Any]:
        limits = self.limits
        return {
            "uid": self.uid,
            "cwd": self._tree.template.cwd,
            "env": self._environment,
            "persistent": self.session == "persistent",
            "memory": limits.memory,
            "processes": limits.processes,
            "disk": limits.disk,
            "output": limits.output,
            "rlimits": rlimits(limits),
            "payload": 1 << 30,
        }

    def _twin(self, seen: dict[str, Any], state: bytes, root: int) -> Self:
        changed, _ = self._ask({"op": "changed"}, wait=_WORK)
        twin = object.__new__(type(self))
        twin._enter(self._tree, self.limits, self.session, self._environment, (root,))
        try:
            twin._ask({"op": "inherit", "paths": changed["paths"], "cwd": seen["cwd"]}, wait=_WORK)
            if self.session == "persistent":
                done, _ = twin._ask({"op": "restore", "status": seen["status"]}, state)
                if not done["ok"]:
                    raise ForkError("the copy could not take on the session's state: its shell ended")
        except BaseException:
            twin.close()
            raise
        return twin


def _after_fork() -> None:
    """In a forked child: let go of the parent's sandboxes, so that they end with the parent."""
    for sandbox in [each for each in _sandboxes if not each._gone]:
        with contextlib.suppress(AttributeError, OSError):
            sandbox._berth.forget()
            sandbox._sock.close()
    _sandboxes.clear()  # a child of this one must not close the numbers again, which may be others' by then


os.register_at_fork(after_in_child=_after_fork)
