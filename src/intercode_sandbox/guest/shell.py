"""How an action starts, and how the episode server learns that it ended. Two kinds of jobs have the
same interface.

Persistent: one bash lives on between actions. It reads "token, how, NUL, action" from descriptor
201, evaluates the action with 200 and 201 closed, and reports "status token" on 200. The token is
random: so a report that an agent forged, or one that an interrupt repeated, matches no later
action. If bash dies, or is replaced by `exec`, the end of the process ends the action.

    episode server ── token-N9\\0action ──► 201  bash  200 ── "0 9f3c…\\n" ──► episode server
                                              └── stdout, stderr ── one pipe ──► episode server
                                                                    (bytes, never interpreted)

`how` is an option of bash's `read`: -N with the number of characters, which lets it read in blocks;
or -r, if that number depends on the agent's locale: then the action ends with a NUL, and bash reads
byte by byte; or -t0, if there is no action.

Both descriptors lie above 63, from where bash gives descriptors to coprocesses and process
substitutions.

An interrupt makes bash abandon the action and wait for the next (`trap … INT`), as a terminal
would. Stateless: one program per action; bash reports its last directory on 200 when it exits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Mapping

from . import kernel, spawn
from .room import NO_ROOM

DONE_FD, ACTION_FD = 200, 201
_FIONREAD = 0x541B
_MOST_READ, _LONGEST_REPORT = 1 << 13, 64
_LOOP = "; ".join(
    [
        "[[ ${__intercode[8]-} ]] || { while { __intercode[3]=${__intercode[3]:-$?}; } 2>&200",
        "do while { __intercode[1]=${__intercode[3]:-$?} __intercode[2]= __intercode[3]=",
        (
            r"[[ -z ${__intercode[0]} ]] || "
            r"""printf ' %d %s\n' "${__intercode[1]}" "${__intercode[0]::12}" || exit"""
        ),
        "IFS= read -r -N 24 -u 201 '__intercode[0]'",
        """IFS= read -r -d '' "${__intercode[0]:12}" -u 201 '__intercode[2]'""",
        "(( ! __intercode[1] )); } >&200 2>&200",
        'do eval -- "${__intercode[2]}" 200>&- 201<&-; done',
        "if { __intercode; } >/dev/null 2>&1",
        (
            'then :; else eval -- "${__intercode[2]:-__intercode[3]=${__intercode[1]}}" 200>&- '
            "201<&-; fi; done"
        ),
        "if [[ ${__intercode[9]-} ]]; then { __intercode && :; } >/dev/null 2>&1",
        'eval -- "${__intercode[9]}" 200>&- 201<&-',
        "__intercode[3]=${__intercode[3]:-$?} __intercode[2]=",
        "if [[ ${__intercode[10]-} ]]; then trap - DEBUG ${__intercode[10]::0}",
        "shopt -u extdebug; [[ ${__intercode[10]} != *E* ]] || set -E",
        "[[ ${__intercode[10]} != *T* ]] || set -T; fi",
        'unset "__intercode[8]" "__intercode[9]" "__intercode[10]"; fi; }',
    ]
)
"""Two loops: an action that follows a success is evaluated in the inner loop, whose condition reads
it. `$?` must be the last status when an action begins, so after a failure the inner loop ends and
the outer one sets `$?` first. `[0]` holds token and `how`, `[1]` the last status, `[2]` the action,
`[3]` a status that the outer loop hands to the inner; those above serve actions outside the loops:
`_TRACED` and `_BREAKING`. While `[2]` is empty, bash waits and ignores interrupts. Where there was
no action, `$?` stays. Before the first action bash reports nothing, since a report would wake the
episode server. `$_` is not carried over. An agent that replaces `printf`, `read` or `eval` by
functions loses its session, with what it defined; the observation says so."""
_ROUNDS = (
    'eval "${__intercode[5]}"; ' * 16 + '[[ ${__intercode[8]-} ]] || eval "${__intercode[11]}"'
)
"""Starts the loops again whenever they were left, without a loop of its own. Only every sixteenth
time goes deeper into bash's stack, which ends after some thousand evaluations."""
_START = (
    'shopt -s expand_aliases; unset __intercode; __intercode() { return "${__intercode[1]}"; }; '
    "trap '{ return 130; } 2>/dev/null; { [[ -z ${__intercode[2]} ]] || "
    '{ __intercode[3]=130; eval "${__intercode[8]-continue} 99"; }; } 2>/dev/null\' INT; '
    f"IFS= read -r -N {len(_LOOP)} -u 201 '__intercode[5]'; "
    f"IFS= read -r -N {len(_ROUNDS)} -u 201 '__intercode[11]'; "
    'eval "${__intercode[5]}"; [[ ${__intercode[8]-} ]] || eval "${__intercode[11]}"'
)
"""Reads the loops, which bash would otherwise parse twice, and starts them."""
_TRACED_MOST = 25
_TRACED = r"""__intercode[6]=%b
if eval "__intercode_check() {
${__intercode[6]}
}" 2>/dev/null && unset -f __intercode_check
then __intercode[6]='{ eval "${__intercode[4]-}"; __intercode && :; } >/dev/null 2>&1
{ '"${__intercode[6]}"'
} 200>&- 201<&-
{ __intercode[3]=$? __intercode[2]=
until __intercode[4]=$(trap -p DEBUG ERR RETURN; echo "set -${-//[!xv]}"); do :; done
trap - DEBUG ERR RETURN; set +xv; unset "__intercode[8]"; } >/dev/null 2>&1'
if [[ ${__intercode[6]} != *'<<'* ]] && (( __intercode[7]++ < MOST ))
then shopt -s expand_aliases
alias __l='eval "${__intercode[5]}"; [[ ${__intercode[8]-} ]] || exit' __x="${__intercode[6]}"
__intercode[8]=break; break 99
fi; fi; eval -- "${__intercode[6]}"
""".replace("MOST", str(_TRACED_MOST)).encode()
"""Bash counts the pluses of a trace by its evaluations, so a traced action is not evaluated: if it
can be parsed, the loop is left, and the next line of `_READ_LOOP` names an alias for the action.
Before the action its trace and its traps are turned on, and after it off, by a process that a late
interrupt may end; a DEBUG trap runs a few times more, unseen. After so many actions, and if one has
a here-document, which bash would not read from an alias, it is evaluated. An action whose syntax is
wrong shows neither."""
_BREAKING = rb"""__intercode[9]=%b
__intercode[8]='__intercode[10]=${__intercode[10]-$-}
shopt -s extdebug
trap "{ case \$BASH_COMMAND in *__intercode*) ;; for*|select*|\(\(*) ! :;; *) ! break 99; esac
} 2>/dev/null" DEBUG
break'; break 99
"""
"""`break 2` would also leave loops of ours, so such an action is evaluated after both were left. An
interrupt cannot abandon it by `continue`: it breaks the action's loops, and from then on a DEBUG
trap makes bash skip commands, but not after a function or a sourced file. (A `break` in the head of
a skipped `for` would wait for the next loop, and bash would skip our commands too.) `[10]` is `$-`
with the options that extdebug changes; `$(shopt …)` would be a process, which an interrupt ends."""
_READ_BYTES, _READ_NOTHING = b"-rrrrrrrrrrr", b"-t0000000000"
_READ_LOOP = (
    f"IFS= read -r -N {len(_START)} -u 201 __intercode; "
    'eval "$__intercode"; [[ ${__intercode[8]-} ]] || exit' + "\n__x\n__l" * _TRACED_MOST
)
"""The argument of `bash -c`, which `ps` shows; the loop itself is sent as the first message."""
_SESSION = ["bash", "--norc", "--noprofile", "-c", _READ_LOOP, "bash"]
_STATELESS = (
    """trap 'pwd -P >&200' EXIT; printf -v __intercode %s "$@"; set --; eval -- "$__intercode\""""
)
_PIECE_SIZE = 1 << 16
CAPTURE_STATE = (
    b"{ builtin printf '\\0'; builtin shopt -p; builtin declare -f; builtin declare -F; builtin "
    b"declare -p; builtin alias -p; builtin umask -p; builtin printf 'set -- '; builtin printf '%q "
    b"' \"$@\"; builtin echo; builtin set +o; builtin trap -p; builtin printf '\\0'; } 2>/dev/null"
)


class ShellJob:
    """A child process. The episode server calls `set_ended` when the process has ended."""

    pid = 0
    done_fd: int
    become_agent: Callable[..., None]
    """`become_agent` of the episode's world."""
    bash: tuple[str, ...] = ("bash",)
    """The command that starts bash: its name, or the path of a bash that is lent to an image
    without one."""

    exit_code: int | None = None
    dead = False
    _partial = b""
    """What the program reported last."""

    def __init__(self, out: int, env: Mapping[str, str]) -> None:
        self._out, self._env = out, env

    def set_ended(self, status: int) -> None:
        self.dead, self.exit_code = True, os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        os.close(self.done_fd)

    def _spawn(self, argv: list[str], cwd: str, ends: Mapping[int, int]) -> None:
        """Start a program of the session, which reports on a pipe, in a folder."""
        self.done_fd, done = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.done_fd, False)
        change_folder(cwd)
        try:
            self._execute(argv[0], argv, {1: self._out, 2: self._out, DONE_FD: done, **ends})
        finally:
            os.close(done)

    def read_reports(self) -> bool:
        """Read what the program reports. Return False when nobody can send more."""
        try:
            text = os.read(self.done_fd, _MOST_READ)
        except BlockingIOError:
            return True
        self._partial = (self._partial + text)[-_MOST_READ - _LONGEST_REPORT :]
        return bool(text)

    def _execute(
        self,
        program: str,
        argv: list[str],
        ends: Mapping[int, int],
        prepare_more: Callable[[], object] = lambda: None,
    ) -> None:
        """Start a program as the agent, with this process's descriptors `ends` as its own. Raises
        OSError where this machine has no room for it.

        If a program cannot be executed, print the error as a shell would: the agent may have
        removed it, even bash itself.
        """
        command = argv
        if program == "bash":
            command = [*self.bash, *argv[1:]]
            program = command[0]

        def prepare() -> None:
            os.setsid()
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            for fd, end in ends.items():
                os.dup2(end, fd)
            kernel.reset_signals()
            self.become_agent(executes=True)
            prepare_more()

        try:
            self.pid = spawn.spawn(prepare, program, command, self._env)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            self.dead, self.exit_code = True, 126
            if isinstance(error, FileNotFoundError):
                self.exit_code = 127
            with contextlib.suppress(BlockingIOError):
                os.write(self._out, f"{argv[0]:.1000}: {error.strerror}\n".encode(errors="replace"))


class Shell(ShellJob):
    """The persistent bash."""

    @classmethod
    def prepare(cls, env: dict[str, str]) -> None:
        """Make, ahead of the first, what all sessions are started with."""
        spawn.prepare_arrays([*cls.bash, *_SESSION[1:]], env)

    pending = memoryview(b"")
    """The rest of a long action, which is still to be written to `actions`."""
    traced = False
    """The agent's actions run as `_TRACED`."""

    def __init__(self, out: int, env: Mapping[str, str], cwd: str) -> None:
        super().__init__(out, env)
        actions, self.actions = os.pipe2(os.O_CLOEXEC)
        try:
            self._spawn(_SESSION, cwd, {ACTION_FD: actions})
        finally:
            os.close(actions)
        os.set_blocking(self.actions, False)
        self._queue = self.actions
        self._token = self._next_token = new_token()
        self.pending = memoryview((_START + _LOOP + _ROUNDS).encode())
        self.write_pending()

    @property
    def unread(self) -> bool:
        """True until the session has read the whole action."""
        return bool(self.pending) or any(fcntl.ioctl(self._queue, _FIONREAD, bytes(4)))

    def begin(self, action: bytes, *, by_agent: bool = False, breaks: bool = False) -> None:
        """Send an action. Without an action bash only reports, and `$?` stays. `breaks`: run it as
        `_BREAKING`."""
        self._token, self._next_token = self._next_token, new_token()
        self._partial, self.exit_code = b"", None
        wrapper = b""
        if by_agent and self.traced:
            wrapper = _TRACED
        elif breaks:
            wrapper = _BREAKING
        if wrapper:
            action = wrapper % (b"'%b'" % action.replace(b"'", b"'\"'\"'"))
        if not action:
            message = _READ_NOTHING
        elif action.isascii():
            message = b"-N%010d" % len(action) + action
        else:
            message = _READ_BYTES + action + b"\0"
        self.pending = memoryview(self._token + message)
        self.write_pending()

    def write_pending(self) -> None:
        try:
            self.pending = self.pending[os.write(self.actions, self.pending) :]
        except BlockingIOError:
            pass
        except OSError:
            self.pending = memoryview(b"")

    def read_reports(self) -> bool:
        """Read reports, "status token"; ignore those of other actions or of none. Return False when
        nobody can send more."""
        is_open = super().read_reports()
        *lines, rest = self._partial.split(b"\n")
        self._partial = rest[-_LONGEST_REPORT:]
        for words in map(bytes.split, lines):
            if len(words) > 1 and words[-2].isdigit() and words[-1] == self._token:
                self.exit_code = int(words[-2][:4])
        return is_open

    @property
    def finished(self) -> bool:
        return self.dead or self.exit_code is not None

    def close(self) -> None:
        super().close()
        os.close(self.actions)

    def restore_action(self, state: bytes, status: int) -> bytes:
        """Return the action that gives this shell the captured state of another."""
        head = b"exec 9>&1 >/dev/null 2>&1\nunset %b\n" % " ".join(self._env).encode()
        tail = b"\nexec >&9 2>&9 9>&-; __intercode[0]=%b; (exit %d)" % (self._next_token, status)
        return head + state + tail


class Program(ShellJob):
    """A program for one action. A bash of the stateless session also reports its folder when it
    ends."""

    def __init__(self, out: int, env: Mapping[str, str], cwd: str, argv: list[str]) -> None:
        super().__init__(out, env)
        self._spawn(argv, cwd, {})

    @property
    def finished(self) -> bool:
        return self.dead

    def last_cwd(self) -> str:
        """Return the folder that bash reported, or nothing."""
        self.read_reports()
        if not self._partial.startswith(b"/"):
            return ""
        return os.fsdecode(self._partial.removesuffix(b"\n"))


class Command(ShellJob):
    """A program outside the session, whose input and output the host holds.

    Orphans of its processes become children of the program itself, so `Table.below` lists all that
    a call has started, for as long as the program runs. `ends` are for the host: what the program
    prints (stdout, stderr), its end (`report`), and what it reads, if it `reads`.
    """

    def __init__(
        self, argv: list[str], env: dict[str, str], *, reads: bool, user: list[int] | None
    ) -> None:
        self.stdout, out = os.pipe2(os.O_CLOEXEC)
        self.stderr, err = os.pipe2(os.O_CLOEXEC)
        reports, self._report = os.pipe2(os.O_CLOEXEC)
        super().__init__(err, env)
        self.limits = set[str]()
        ends, self._host_ends = {1: out, 2: err}, [reports]
        if reads:
            ends[0], feeder = os.pipe2(os.O_CLOEXEC)
            self._host_ends.append(feeder)
        ours = [*ends.values()]
        self.ends = (self.stdout, self.stderr, *self._host_ends)
        os.set_blocking(self.stdout, False)
        os.set_blocking(self.stderr, False)

        def prepare_more() -> None:
            kernel.adopt_orphans()
            if user:
                kernel.become(*user)

        try:
            self._execute(find_program(argv[0], env), argv, ends, prepare_more)
        except OSError:
            ours += [*self.ends, self._report]
            raise
        finally:
            for end in ours:
                os.close(end)

    def close_host_ends(self) -> None:
        """Close this process's copies of what only the host uses."""
        for end in self._host_ends:
            os.close(end)

    def report(self) -> None:
        """Tell the host how the program ended: its status, 128 + N after the signal N, and the
        limits hit."""
        code = self.exit_code or 0
        if code < 0:
            code = 128 - code
        words = [str(code), *sorted(self.limits)]
        with contextlib.suppress(BrokenPipeError):  # the host has given up
            os.write(self._report, " ".join(words).encode())
        os.close(self._report)


def find_program(name: str, env: Mapping[str, str]) -> str:
    """Return the path of a program on the PATH of `env`; the name itself if there is none, or if it
    is a path."""
    if "/" not in name:
        for folder in env.get("PATH", os.defpath).split(":"):
            path = f"{folder or '.'}/{name}"
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                return path
    return name


def stateless_command(action: bytes) -> list[str]:
    """Return the command of a fresh shell for one action, in pieces: the kernel takes no argument
    above 128 KiB."""
    pieces = [action[start : start + _PIECE_SIZE] for start in range(0, len(action), _PIECE_SIZE)]
    return ["bash", "--norc", "--noprofile", "-c", _STATELESS, "bash", *map(os.fsdecode, pieces)]


def new_token() -> bytes:
    """Return a random name for one action, which no earlier action can know: 12 letters, which the
    loop counts off."""
    return os.urandom(6).hex().encode()


def change_folder(cwd: str) -> None:
    """Enter `cwd`, or the nearest folder above it that is left."""
    while True:
        try:
            return os.chdir(cwd or "/")
        except OSError:
            if cwd in ("", "/"):
                raise
            cwd = os.path.dirname(cwd)
