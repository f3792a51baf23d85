"""LoneSandbox: the contract in a container that cannot erase by itself, so that a fresh one takes its place.

exec, read, write    the guest, over its line           reset    a new session where all is untouched, else a fresh container
diff                 the guest names what may have changed; an untouched container says what it was before
fork                 the episode's actions again in a fresh container; outputs must be the same
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

from intercode.errors import ForkError, SandboxDied
from intercode.sandbox.base import Limits, Session
from intercode.sandbox.docker import pool
from intercode.sandbox.docker.container import Container, make_spec
from intercode.sandbox.docker.images import DockerImage
from intercode.sandbox.line import GuestSandbox, unhindered
from intercode.types import Change, ExecResult


class _Deed(NamedTuple):
    """One call of `exec` or `write`, and the digest of what came of it."""

    call: str
    words: tuple[Any, ...]
    how: dict[str, Any]
    result: bytes


class LoneSandbox(GuestSandbox):
    """See `Sandbox` for the contract. `environment` are the agent's variables, the image's own and ours by default.

    Connections to programs inside (`connect`) are not offered.
    """

    about: ClassVar[Mapping[str, str]] = {"containers": "replaced, not erased"}
    _box: Container
    _gone: bool
    _deeds: list[_Deed]
    _changed: bool
    """Whether a diff has found any trace: then there is no use in asking the guest to renew the session."""
    _number: int
    """The last process number that was used when the episode began, 0 for a fresh container."""

    def __init__(
        self,
        image: DockerImage,
        *,
        limits: Limits | None = None,
        session: Session = "persistent",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        spec = make_spec(image, limits, session, environment)
        self._enter(pool.join(Container, spec), spec.limits, session)

    def exec(
        self, action: str, *, argv: list[str] | None = None, cwd: str | None = None, timeout: float | None = None
    ) -> ExecResult:
        result = super().exec(action, argv=argv, cwd=cwd, timeout=timeout)
        self._deeds.append(_Deed("exec", (action,), {"argv": argv, "cwd": cwd, "timeout": timeout}, _digest(result)))
        return result

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        super().write(path, data, mode=mode)
        self._deeds.append(_Deed("write", (path, data), {"mode": mode}, _digest(None)))

    def diff(self) -> dict[str, Change]:
        now: dict[str, dict[str, Any] | None] = self._ask({"op": "diff"}, wait=120)[0]["now"]
        self._changed = bool(now)
        if not now:
            return {}
        with self._pool.borrowed() as untouched:
            before = untouched.ask({"op": "describe", "paths": list(now)})["states"]
        return {path: _change(before[path], now[path]) for path in sorted(now) if before[path] != now[path]}

    def reset(self) -> None:
        self._open()
        if self._changed or not self._box.alive or not self._renewed():
            fresh = self._pool.take()
            pool.bury(self._box)
            self._move_in(fresh)

    def fork(self) -> Self:
        reply, _ = self._ask({"op": "snapshot"}, wait=60)
        unhindered(reply, "a copy cannot take along")
        twin = object.__new__(type(self))
        twin._enter(pool.join(Container, self._pool.spec), self.limits, self.session)
        try:
            twin._renewed(self._number)
            for number, deed in enumerate(self._deeds, 1):
                twin._do_again(number, deed)
        except BaseException:
            twin.close()
            raise
        return twin

    def close(self) -> None:
        if self._gone or os.getpid() != self._pid:
            return
        self._gone = True
        self._box.close()
        self._pool.leave()

    @property
    def container(self) -> str:
        """The container's name."""
        return self._box.name

    def files(self, skip: list[str]) -> dict[str, Change]:
        """The state of all files and links, but for what is called, or lies below, a name in `skip`."""
        found = self._ask({"op": "files", "skip": skip}, wait=300)[0]["files"]
        return {path: Change("added", **state) for path, state in found.items()}

    # -- inside -----------------------------------------------------------------------------------------------------

    @property
    def _closed(self) -> bool:
        return self._gone

    def _do_again(self, number: int, deed: _Deed) -> None:
        try:
            same = _digest(getattr(self, deed.call)(*deed.words, **deed.how)) == deed.result
        except OSError:
            same = False
        if not same:
            raise ForkError(f"a copy is made by doing everything again, and action {number} came out otherwise")

    def _renewed(self, number: int = 0) -> bool:
        """Whether the guest found everything untouched and began anew, with process numbers above `number`."""
        if not self._deeds and number <= self._number:
            return True
        try:
            reply, _ = self._ask({"op": "renew", "number": number}, wait=60)
        except SandboxDied:
            return False
        self._deeds, self._number = [], reply["last_number"]
        return bool(reply["renewed"])

    def _enter(self, joined: pool.Pool[Container], limits: Limits, session: Session) -> None:
        self._pid, self._pool, self._gone = os.getpid(), joined, False
        self.limits, self.session = limits, session
        try:
            self._move_in(joined.take())
        except BaseException:
            joined.leave()
            raise

    def _move_in(self, box: Container) -> None:
        self._box, self._changed, self._number, self._deeds = box, False, 0, []
        self._speak(box.sock)


def _change(before: dict[str, Any] | None, now: dict[str, Any] | None) -> Change:
    if now is None:
        return Change("removed", (before or {})["type"])
    return Change("changed" if before else "added", **now)


def _digest(result: ExecResult | None) -> bytes:
    return hashlib.blake2b(repr(result).encode(errors="surrogatepass"), digest_size=16).digest()
