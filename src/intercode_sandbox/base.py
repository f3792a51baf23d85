"""The sandbox contract: an isolated machine that knows nothing about tasks or rewards, and the
providers that open sandboxes.

    Provider ── prepare ──► start (read-only) ── sandbox ──► exec, read, write, diff, fork
                                                                   ▲                │
                      all past state is discarded ── reset ◄── … ──┴────────────────┴─► close

`--sandbox NAME` names a provider: `local`, `docker`, `pod`, or a class of your own. `check_sandbox`
in `intercode.testing` tests the sandboxes of any provider.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

from intercode_sandbox.arguments import Word, text
from intercode_sandbox.errors import SandboxError, UsageError, did_you_mean
from intercode_sandbox.limits import MIB as MIB
from intercode_sandbox.limits import Limits as Limits
from intercode_sandbox.results import Change, Completed, ExecResult

Session = Literal["persistent", "stateless"]
Program = Literal["bash", "python"]
"""The program that keeps running between the actions of a persistent session."""
Network = Literal["none", "host"]
"""No network, or this machine's: only the caller may choose `host`, never a file or a run."""

SETUP_LIMITS = Limits(
    seconds=600, memory=4096 * MIB, disk=2048 * MIB, file_size=1024 * MIB, processes=512
)
SCRIPT = "/dev/shm/setup.sh"
"""The path of a setup script while it runs; not part of the resulting layer."""


def script_command(text: str, path: str) -> list[str]:
    """Return the command that executes the script at `path`, whose first line decides, as for the
    kernel. A text without `#!` is Bash; bash and sh are looked up on PATH."""
    first = text.partition("\n")[0].strip()
    words = first[2:].split(None, 1)
    if not first.startswith("#!") or not words:
        return ["bash", path]
    name = words[0].rpartition("/")[2]
    if name in ("bash", "sh"):
        words[0] = name
    return [*words, path]


class Sandbox(ABC):
    """An isolated machine. Several threads may call `run`, `read` and `write` at once, and one at a
    time the other methods."""

    limits: Limits
    session: Session
    wall: str = ""
    """The name of an isolation weaker than the provider's usual one, recorded in the run; "" for
    the usual one."""

    files: str = ""
    """`copied` if episodes begin with a copy of the start's files, since this kernel's overlays
    lack a feature; else ""."""

    identity: str = ""
    """A name for what else results in this sandbox may depend on, such as a user's number; "" if
    they depend on its start alone.

    If it is set, a gold is executed in the same sandbox in which the agent's outcome is compared
    with it.
    """

    def machine_facts(self) -> dict[str, str]:
        """Return `wall` and `files` if they are unusual on this machine; the run records them."""
        facts = {"wall": self.wall, "files": self.files}
        return {name: value for name, value in facts.items() if value}

    @abstractmethod
    def exec(
        self,
        action: str,
        *,
        argv: list[str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> ExecResult:
        """Run `action` in the session's shell, or `argv` as a separate program in `cwd` (the
        session's by default).

        `timeout` is in seconds, the limit's by default; at the timeout, the processes that the
        action started are interrupted, then killed. Raises `SandboxDied` if the sandbox was lost,
        and `UsageError` for text with a NUL character.
        """

    def stop(self) -> bool:
        """End the action that `exec` executes now, as its timeout would; to be called from another
        thread or a signal handler. Return whether there is one that can be stopped."""
        return False

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        user: str = "agent",
        timeout: float | None = None,
        output: int | None = None,
        ends: Callable[[], bool] | None = None,
    ) -> Completed:
        """Run a program outside the session, as `docker exec` does; several threads may do so at
        once.

        The program begins in the folder where sessions begin, to which `cwd` may be relative, with
        the sandbox's variables and those of `env`. It has ended when its first process has; after
        `timeout` seconds (the limit's by default) all processes below it are killed. Background
        processes that it leaves go on, and their output is lost.

        `user` is the agent, who is called root, or, where the agent has root's rights
        (`intercode.sandbox(root=True)` and Docker), a name or number in /etc/passwd. At most
        `output` bytes of each stream are kept, by default those of the limit. `ends` is called
        several times a second; once it returns True, the program is ended as at its timeout.

        Raises OSError if `cwd` cannot be entered, and `SandboxDied`. Providers need not support
        this.
        """
        raise UsageError(f"{type(self).__name__} does not run programs outside the session")

    def copy_in(self, source: Word, path: Word) -> None:
        """Copy a file or a folder of this machine to `path`. If there is a folder, its other files
        stay. Raises OSError. Needs `run` and, for folders, tar inside."""
        from intercode_sandbox import copying

        source = Path(text("source", source))
        path = text("path", path)
        if not source.is_dir():
            self.write(path, source.read_bytes(), mode=source.stat().st_mode & 0o777)
            return
        command = ["sh", "-c", 'mkdir -p -- "$1" && tar -xopf - -C "$1"', "sh", path]
        result = self.run(command, stdin=copying.pack(source), timeout=copying.SECONDS)
        copying.require_success(result, path)

    def copy_out(self, path: Word, target: Word) -> None:
        """Copy a file or a folder to `target` on this machine. Links that lead out of the folder or
        have `..` after a name, and all but files and folders, stay behind. Raises OSError, also if
        a link in `target` is in the way. Needs what `copy_in` needs."""
        from intercode_sandbox import copying

        target = Path(text("target", target))
        path = text("path", path)
        if self.run(["test", "-d", path]).exit_code != 0:
            target.write_bytes(self.read(path, limit=copying.LARGEST))
            return
        command = ["tar", "-cf", "-", "-C", path, "."]
        result = self.run(command, timeout=copying.SECONDS, output=copying.LARGEST)
        copying.require_success(result, path)
        copying.unpack(result.stdout, path, target)

    def copy_to(
        self, path: str, target: Sandbox, is_left_out: Callable[[str, str], bool], *, limit: int
    ) -> dict[str, int]:
        """Copy a file or a folder to the same path in another sandbox, where it replaces what is
        there, without any program inside; return the size of each file by its path, 0 for links and
        folders.

        `is_left_out` gets a path, and the part below the folder. What it names, and all below that,
        stays behind; so do links that lead out of the folder, all but files and folders, and setuid
        and setgid bits. Providers need not support this.

        Raises OSError: with EFBIG for more than `limit` bytes or too many files, with ENOSPC if the
        target is full, `FileNotFoundError` without the folder above.
        """
        raise UsageError(f"{type(self).__name__} does not copy files to another sandbox")

    @abstractmethod
    def read(self, path: str, *, limit: int = 8 * MIB) -> bytes:
        """Return the content of a regular file as the agent would see it. Raises
        `FileNotFoundError` or `OSError`; for a file above the limit, OSError says its size."""

    def read_many(self, paths: Sequence[str], *, limit: int = 8 * MIB) -> Iterator[bytes | None]:
        """Yield the contents of regular files, None for one that cannot be read."""
        for path in paths:
            try:
                yield self.read(path, limit=limit)
            except OSError:
                yield None

    @abstractmethod
    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a regular file, creating its folders."""

    def connect(self, path: str | int) -> socket.socket:
        """Return a stream to the program inside that listens on the Unix socket `path`, or on that
        port of the loopback (127.0.0.1, else ::1); it lasts until the episode ends.

        Raises `OSError` if `path` is missing or not a socket, nobody listens, or the queue is full.
        Providers need not support this.
        """
        raise UsageError(f"{type(self).__name__} does not connect to programs inside")

    def listen(self, port: int, address: str = "127.0.0.1") -> socket.socket:
        """Return a listener on a port of the sandbox's loopback (0: any that is free): the caller
        accepts the connections that programs inside make to `address` there, one of 127.0.0.0/8.
        Close it, and what it accepted, when the episode ends; a fork or a new episode has no such
        port.

        Raises `OSError` if the port is in use inside. Providers need not support this.
        """
        raise UsageError(f"{type(self).__name__} does not give programs inside a port")

    @abstractmethod
    def diff(self) -> dict[str, Change]:
        """Return every path that differs from the start, sorted by path."""

    def glance(self) -> dict[str, Change]:
        """Return what `diff` does, in the middle of an episode: no process inside may notice it.
        By default `diff` is taken to be such."""
        return self.diff()

    def session_lost(self) -> bool:
        """Return whether the session has ended since the last action; a provider may not know."""
        return False

    def end_processes(self) -> None:
        """End every process inside, the session's too; the next action begins a new session.

        This default trusts the sandbox's own bash. A provider whose agents may replace it should
        end the processes from outside.
        """
        self.exec("", argv=["bash", "-c", "kill -9 -1"], cwd="/")

    def seal(self, *paths: str) -> bool:
        """From the next reset on, keep programs inside from changing these paths, which `write`
        makes and changes. A path that ends with / is a folder, any other a file.

        Return whether this sandbox can do that. Providers need not support this.
        """
        return not paths

    @abstractmethod
    def reset(self) -> None:
        """Return to the start: no earlier file, process, variable or socket remains."""

    @abstractmethod
    def fork(self) -> Sandbox:
        """Return a second sandbox in the same state. Raises `ForkError` for a state that cannot be
        copied."""

    @abstractmethod
    def close(self) -> None:
        """End everything inside. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


class Start(Protocol):
    """The files from which all sandboxes of an environment start. Never changed by a sandbox."""

    @property
    def digest(self) -> str:
        """A digest of the content, recorded in the run: equal digests mean equal files."""

    def files(self, skip: Collection[str] = ()) -> dict[str, Change]:
        """Return the state of all files and links by absolute path, leaving out names in `skip` and
        everything below them.

        Only the paper's reward uses it.
        """

    def __hash__(self) -> int: ...


S = TypeVar("S", bound=Start)


class Provider(ABC, Generic[S]):
    """Prepares the start of sandboxes, and opens sandboxes. Each run, or each `make`, creates one
    provider, without arguments.

    A provider that logs every action of the local one, for `--sandbox logged.py:LoggedProvider`:

        import sys

        from intercode_sandbox.local import LocalProvider, LocalSandbox

        class LoggedSandbox(LocalSandbox):
            def exec(self, action, **options):
                print(action, file=sys.stderr)
                return super().exec(action, **options)

        class LoggedProvider(LocalProvider):
            def sandbox(self, start, **options):
                return LoggedSandbox(start, **options)
    """

    stand_in: str | None = None
    """The image, as for `--image`, that replaces a FROM of a Dockerfile that is not available."""

    def prepare(
        self, *, image: str | None = None, tree: Path | None = None, setup: Path | None = None
    ) -> S:
        """Return the start made from `image`, the files of `tree` (a folder or tar) at `/`, and the
        changes of the Bash script `setup`."""
        start = self.open_image(image, tree)
        if setup is None:
            return start
        try:
            text = setup.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the setup script {setup} cannot be read: {error}") from error
        return self.add_script(start, text, name=str(setup))

    def refuses(self, gold: str) -> str | None:
        """Return why a Bash gold cannot run in this provider's sandboxes, or None if it can. A task
        with such a gold is left out."""
        return None

    @abstractmethod
    def open_image(self, image: str | None, tree: Path | None) -> S:
        """Return the start for `image` (a value of `--image`) with `tree` at `/`. Raises
        `UsageError` if either cannot be used."""

    @abstractmethod
    def add_script(self, start: S, text: str, *, name: str) -> S:
        """Return `start` with the changes of the Bash script `text`. Raises `DataError` with `name`
        if the script fails."""

    @abstractmethod
    def sandbox(
        self,
        start: S,
        *,
        session: Session = "persistent",
        limits: Limits | None = None,
        environment: Mapping[str, str] | None = None,
        program: Program = "bash",
        cwd: str | None = None,
        network: Network = "none",
        root: bool = False,
    ) -> Sandbox:
        """Open a sandbox at `start`. By default the limits are `Limits()` and the variables in
        `environment` are the image's.

        `cwd`, which is given only for a task that names a folder, is where sessions begin.

        `network` and `root` are given only if they are "host" and True. With `root`, programs
        inside have root's rights over files and users there (docs/security.md).

        With `program="python"`, the session is a Python interpreter whose copies run tests
        (`GuestSandbox.branch`). The Python environment needs this; a provider without it raises
        `UsageError`.
        """


PROVIDERS = {
    "local": "intercode_sandbox.local:LocalProvider",
    "docker": "intercode_sandbox.docker.container:DockerProvider",
    "pod": "intercode_sandbox.pod:PodProvider",
}


def _import(name: str) -> object:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def provider(name: str, load: Callable[[str], object] = _import) -> Provider[Any]:
    """Return the provider called `name`: `local`, `docker`, `pod`, or a class of your own as
    `module:Class`.

    `load` imports the class; `intercode.plugins.load_plugin` takes `path.py:Class` as well. Raises
    `UsageError` for an unknown name, or a class that is not a provider.
    """
    path = PROVIDERS.get(name, name)
    if not all(path.partition(":")):
        raise UsageError(
            f"no sandbox named {name!r}; "
            f"there are {', '.join(PROVIDERS)}, module:Class or path.py:Class"
            f"{did_you_mean(name, PROVIDERS)}"
        )
    loaded = load(path)
    if not (isinstance(loaded, type) and issubclass(loaded, Provider)):
        raise UsageError(
            f"{name} provides no sandboxes; "
            "name a class derived from intercode_sandbox.base.Provider"
        )
    if inspect.isabstract(loaded):
        raise UsageError(
            f"{name} lacks {', '.join(sorted(loaded.__abstractmethods__))}; "
            "see intercode_sandbox.base.Provider"
        )
    try:
        instance: Provider[Any] = loaded()
    except TypeError as error:
        if error.__traceback__ and error.__traceback__.tb_next:
            raise
        raise UsageError(f"{name} is called without arguments: {error}") from error
    return instance


_USERLAND = r"""
first() { "$@" 2>&1 </dev/null | { IFS= read -r line; printf '%s\n' "$line"; }; }
( [ -r /etc/os-release ] && . /etc/os-release; printf '%s %s\n' "${ID:-unknown}" "$VERSION_ID" )
printf '%s\n' "$BASH_VERSION"
first ls --version
first find --version
first awk -W version
IFS=:
for folder in $PATH; do
    cd -- "$folder" 2>/dev/null || continue
    for name in * .[!.]*; do [[ -f $name && -x $name ]] && printf '%s\n' "$name"; done
done
now() { printf '%s' "${EPOCHREALTIME//[.,]/}"; }
end=$(($(now) + 120000)) # until the limits have been looked at
while [[ ${EPOCHREALTIME-} ]] && (($(now) < end)); do :; done
:
"""
_KEYS = ("distribution", "bash", "coreutils", "findutils", "awk")
_VERSION = re.compile(r"\d+(\.\d+)+\S*")


def fingerprint(sandbox: Sandbox) -> dict[str, str]:
    """Return the versions of the tools that actions find in a fresh sandbox. Every score depends on
    them.

    The keys are `distribution`, `bash`, `coreutils`, `findutils` and `awk` (with its
    implementation; "" for a missing tool), `tools` (SHA-256 of the sorted names of executables on
    PATH), and `id`, a short hash of them all. Kernel, locale, file contents and patch levels are
    left out. Raises `UsageError` if a limit is too small for the inspecting script, `SandboxError`
    if it fails otherwise.
    """
    result = sandbox.exec("", argv=["bash", "--norc", "--noprofile", "-c", _USERLAND], timeout=30)
    lines = result.output.splitlines()
    if result.limits:
        names = " and ".join(result.limits)
        raise UsageError(f"the limit of {names} is too small for an episode; allow more")
    if result.exit_code != 0 or len(lines) < len(_KEYS):
        raise SandboxError(
            f"the sandbox cannot list its tools; it printed:\n{result.output[-500:] or '(nothing)'}"
        )
    facts = dict(zip(_KEYS, map(str.strip, lines), strict=False))
    for key in ("coreutils", "findutils"):
        facts[key] = _version(facts[key])
    awk = facts["awk"]
    version = _version(awk)
    facts["awk"] = ""
    if version:
        facts["awk"] = f"{awk.partition(version)[0].strip()} {version}"
    tools = "\n".join(sorted(set(lines[len(_KEYS) :])))
    facts["tools"] = hashlib.sha256(tools.encode()).hexdigest()
    return {**facts, "id": hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:12]}


def _version(line: str) -> str:
    match = _VERSION.search(line)
    return match[0].rstrip(",") if match and "not found" not in line else ""
