"""How an action is started and how one learns that it ended. Two kinds of job, one face: `begin`, `finished`, `status`.

Persistent: one bash lives on between actions. It reads "token, how, NUL, action" from descriptor 201, evaluates the action with
200 and 201 closed, and reports "status token" on 200. The token is random, so a report that an agent forged, or one that an
interrupt repeated, matches no later action. If bash dies, or is replaced by `exec`, the end of the process ends the action.

    cell ── token-N9\\0action ──► 201  bash  200 ── "0 9f3c…\\n" ──► cell
                                     └── stdout, stderr ── one pipe ──► cell (bytes, never read as anything)

`how` is an option of bash's `read`: -N with the number of characters, which lets it read in blocks; or -r, if that number
depends on the agent's locale: then the action ends with a NUL, and bash reads it byte by byte; or -t0, if there is no action.

Both lie above 63, from where bash gives descriptors to coprocesses and process substitutions.

An interrupt makes bash abandon the action and wait for the next (`trap … INT`), as a terminal would.
Stateless: one program an action; bash tells its last directory on 200 when it exits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from typing import Any

DONE_FD, ACTION_FD = 200, 201
_FIONREAD = 0x541B
_LOOP = "; ".join(
    [
        'shopt -s expand_aliases; unset __intercode; __intercode() { return "${__intercode[1]}"; }',
        "trap '{ return 130; } 2>/dev/null; [[ -z ${__intercode[2]} ]] || { __intercode[3]=130; continue 99; }' INT",
        "while { __intercode[3]=${__intercode[3]:-$?}; } 2>&200",
        "do while { __intercode[1]=${__intercode[3]:-$?} __intercode[2]= __intercode[3]=",
        r"""[[ -z ${__intercode[0]} ]] || printf ' %d %s\n' "${__intercode[1]}" "${__intercode[0]::12}" || exit""",
        "IFS= read -r -N 24 -u 201 '__intercode[0]'",
        """IFS= read -r -d '' "${__intercode[0]:12}" -u 201 '__intercode[2]'""",
        "(( ! __intercode[1] )); } >&200 2>&200",
        'do eval "${__intercode[2]}" 200>&- 201<&-; done',
        "if { __intercode; } >/dev/null 2>&1",
        'then :; else eval "${__intercode[2]:-__intercode[3]=${__intercode[1]}}" 200>&- 201<&-; fi; done',
    ]
)
"""Two loops: an action that follows a success is evaluated in the inner one, whose condition reads it. `$?` must be the last
status when an action begins, so after a failure the inner loop ends and the outer one sets it first. `[1]` is that status,
`[2]` the action, `[3]` a status that the outer loop hands to the inner. While `[2]` is empty bash waits, and an interrupt is
nothing to it; where there was no action `$?` stays. Before the first one it reports nothing, which would wake the cell. `$_`
is not carried over. An agent that puts functions in the way of `printf`, `read` or `eval` loses its session, which is said;
what it defined goes with it."""
_LINE, _NOTHING = b"-rrrrrrrrrrr", b"-t0000000000"
_FIRST = 'IFS= read -r -d "" -u 201 __intercode; eval "$__intercode"'
"""All that `ps` shows of the loop, which comes as the first message."""
_ONCE = """trap 'pwd -P >&200' EXIT; printf -v __intercode %s "$@"; set --; eval "$__intercode\""""
_ARGUMENT = 1 << 16
CAPTURE = (
    b"{ builtin printf '\\0'; builtin shopt -p; builtin declare -f; builtin declare -F; builtin declare -p; builtin alias -p; "
    b"builtin umask -p; builtin printf 'set -- '; builtin printf '%q ' \"$@\"; builtin echo; builtin set +o; builtin trap -p; "
    b"builtin printf '\\0'; } 2>/dev/null"
)


class Job:
    """A child process whose end is known by `exited`; the cell's reaper calls it."""

    pid = 0
    done_fd: int | None = None
    bash: tuple[str, ...] = ("bash",)
    """How bash is started: by its name, or as one that is lent to an image without it."""

    def __init__(self, out: int, env: dict[str, str]) -> None:
        self._out = out
        self._env = env
        self.exit_code: int | None = None
        self.dead = False
        self.refused: BlockingIOError | None = None
        """Why it never started, where there were too many processes."""

    def exited(self, status: int) -> None:
        self.dead = True
        self.exit_code = os.waitstatus_to_exitcode(status)

    def _spawn(self, argv: list[str], cwd: str, done: int, actions: int | None = None) -> None:
        _enter(cwd)
        command = [*self.bash, *argv[1:]] if argv[0] == "bash" else argv
        moves: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
        moves += [(os.POSIX_SPAWN_DUP2, self._out, 1), (os.POSIX_SPAWN_DUP2, self._out, 2)]
        moves += [(os.POSIX_SPAWN_DUP2, done, DONE_FD)]
        if actions is not None:
            moves += [(os.POSIX_SPAWN_DUP2, actions, ACTION_FD)]
        default = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT]
        try:
            self.pid = os.posix_spawnp(
                command[0], command, self._env, file_actions=moves, setsid=True, setsigdef=default, setsigmask=[]
            )
        except OSError as error:  # said as a shell would put it; the agent may have removed the program, bash itself even
            self.dead, self.exit_code = True, 127 if isinstance(error, FileNotFoundError) else 126
            self.refused = error if isinstance(error, BlockingIOError) else None
            with contextlib.suppress(BlockingIOError):
                os.write(self._out, f"{argv[0]}: {error.strerror}\n".encode(errors="replace"))


class Shell(Job):
    """The persistent bash."""

    def __init__(self, out: int, env: dict[str, str], cwd: str) -> None:
        super().__init__(out, env)
        self.done_fd, done = _pipe()
        actions, self._actions = _pipe()
        try:
            self._spawn(["bash", "--norc", "--noprofile", "-c", _FIRST, "bash"], cwd, done, actions)
        finally:
            os.close(done)
            os.close(actions)
        os.set_blocking(self.done_fd, False)
        os.set_blocking(self._actions, False)
        self._token = self._next = new_token()
        self._said = b""
        self._pending = memoryview(_LOOP.encode() + b"\0")
        self.feed()

    @property
    def pending_fd(self) -> int | None:
        """Where the rest of a long action is still to be written."""
        return self._actions if self._pending else None

    @property
    def unread(self) -> bool:
        """Whether bash has not taken in the whole action yet."""
        return bool(self._pending) or any(fcntl.ioctl(self._actions, _FIONREAD, bytes(4)))

    @property
    def lines(self) -> tuple[int, int]:
        """The cell's ends of the pipes for reports and actions."""
        return self.done_fd or 0, self._actions

    def begin(self, action: bytes) -> None:
        """Without an action bash only reports, and `$?` stays."""
        self._token, self._next = self._next, new_token()
        self._said, self.exit_code = b"", None
        read = _NOTHING if not action else b"-N%010d" % len(action) + action if action.isascii() else _LINE + action + b"\0"
        self._pending = memoryview(self._token + read)
        self.feed()

    def feed(self) -> None:
        try:
            self._pending = self._pending[os.write(self._actions, self._pending) :]
        except BlockingIOError:
            pass
        except OSError:
            self._pending = memoryview(b"")

    def hear(self) -> bool:
        """Read reports, "status token": others are of an earlier action, or of none. False when nobody can send any more."""
        try:
            said = os.read(self.done_fd or 0, 4096)
        except BlockingIOError:
            return True
        *lines, rest = (self._said + said).split(b"\n")
        self._said = rest[-64:]
        for words in map(bytes.split, lines):
            if len(words) > 1 and words[-2].isdigit() and words[-1] == self._token:
                self.exit_code = int(words[-2][:4])
        return bool(said)

    @property
    def finished(self) -> bool:
        return self.dead or self.exit_code is not None

    def close(self) -> None:
        os.close(self.done_fd or 0)
        os.close(self._actions)

    def restore(self, state: bytes, status: int) -> bytes:
        """The action that gives this shell another's captured state."""
        head = b"exec 9>&1 >/dev/null 2>&1\nunset %b\n" % " ".join(self._env).encode()
        tail = b"\nexec >&9 2>&9 9>&-; __intercode[0]=%b; (exit %d)" % (self._next, status)
        return head + state + tail


class Program(Job):
    """One program for one action. A bash of the stateless session also tells where it was at its end."""

    pending_fd = None

    def __init__(self, out: int, env: dict[str, str], cwd: str, argv: list[str]) -> None:
        super().__init__(out, env)
        self.done_fd, done = _pipe()
        try:
            self._spawn(argv, cwd, done)
        finally:
            os.close(done)
        os.set_blocking(self.done_fd, False)
        self._said = b""

    def hear(self) -> bool:
        try:
            said = os.read(self.done_fd or 0, 1 << 13)
        except BlockingIOError:
            return True
        self._said = (self._said + said)[-(1 << 13) :]
        return bool(said)

    @property
    def finished(self) -> bool:
        return self.dead

    @property
    def last_cwd(self) -> str | None:
        self.hear()
        return os.fsdecode(self._said.removesuffix(b"\n")) if self._said.startswith(b"/") else None

    def close(self) -> None:
        os.close(self.done_fd or 0)


def once(action: bytes) -> list[str]:
    """A fresh shell for one action, which comes in pieces: the kernel takes no argument above 128 KiB."""
    pieces = [action[start : start + _ARGUMENT] for start in range(0, len(action), _ARGUMENT)]
    return ["bash", "--norc", "--noprofile", "-c", _ONCE, "bash", *map(os.fsdecode, pieces)]


def child_signals() -> int:
    """A descriptor that becomes readable whenever a child ends."""
    read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return read


def new_token() -> bytes:
    """A name for one action that no earlier action can know: 12 letters, which the loop counts off."""
    return os.urandom(6).hex().encode()


def _pipe() -> tuple[int, int]:
    return os.pipe2(os.O_CLOEXEC)


def _enter(cwd: str) -> None:
    """Be in `cwd`, or in the nearest folder above that is left."""
    while True:
        try:
            return os.chdir(cwd or "/")
        except OSError:
            if cwd in ("", "/"):
                raise
            cwd = os.path.dirname(cwd)
