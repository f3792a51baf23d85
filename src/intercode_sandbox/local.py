"""The local provider: bubblewrap, without a daemon; one host process per worker, one episode server
per episode.

    LocalSandbox ──► Bubblewrap ── spawner thread ──► bwrap, as an unprivileged user, all namespaces
                                                      new ──► supervisor

bwrap dies with the *thread* that started it (prctl PR_SET_PDEATHSIG), so one thread that lives as
long as the process starts every bwrap. If the caller is root, bwrap runs as a dedicated user
(`identity.py`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import queue
import resource
import shutil
import signal
import socket
import subprocess
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from intercode_sandbox import cache, template
from intercode_sandbox.base import (
    SCRIPT,
    SETUP_LIMITS,
    Limits,
    Network,
    Program,
    Provider,
    Session,
    script_command,
)
from intercode_sandbox.client import GuestSandbox
from intercode_sandbox.dockerfile import build_dockerfile, find_dockerfile
from intercode_sandbox.errors import DataError, SandboxDied, SandboxUnavailable, room_left
from intercode_sandbox.host import (
    ENVIRONMENT,
    PYTHON_VARIABLES,
    DisabledProtections,
    Host,
    guest_python,
    shared_limits,
    start_clean,
)
from intercode_sandbox.identity import identity, map_users
from intercode_sandbox.template import Template, with_network_files

ALLOWING = (
    "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined, "
    "or in Kubernetes securityContext: "
    "{seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}}"
)
"""The options that let a container make namespaces."""
_MAIN = "import sys; sys.path.insert(0, '/'); from guest.supervisor import main; main()"


class LocalProvider(Provider[Template]):
    """Opens bubblewrap sandboxes. An image is a built one, a root file system, a Dockerfile, or
    None for this machine's /usr."""

    _layers = "layers"
    """The cache's folder for the changes that scripts make."""

    def open_image(self, image: str | None, tree: Path | None) -> Template:
        below = self._base(image)
        return template.with_tree(below, tree) if tree else below

    def _base(self, image: str | None) -> Template:
        if file := find_dockerfile(image):
            stand_in = template.base(self.stand_in) if self.stand_in else None
            return build_dockerfile(file, stand_in)
        return template.base(image)

    def add_script(self, start: Template, text: str, *, name: str) -> Template:
        def run(layer: Path) -> None:
            layer.chmod(0o755)
            with self._open(
                start, limits=SETUP_LIMITS, session="stateless", export=layer
            ) as sandbox:
                sandbox.write(SCRIPT, text.encode())
                result = sandbox.exec("", argv=script_command(text, SCRIPT), cwd="/")
                if result.exit_code != 0:
                    how = (
                        "ran out of time"
                        if result.timed_out
                        else f"ended with status {result.exit_code}"
                    )
                    raise DataError(
                        f"the setup script {name} {how}; it printed:\n"
                        f"{result.output[-2000:] or '(nothing)'}"
                    )
                sandbox.export(layer)

        key = hashlib.sha256(f"{start.digest}\0{text}".encode()).hexdigest()[:32]
        return start.over(cache.folder(self._layers, key, run), text)

    def sandbox(self, start: Template, **options: Any) -> LocalSandbox:
        return self._open(start, **options)

    def _open(self, start: Template, **options: Any) -> LocalSandbox:
        """Open a sandbox of our own, whatever a subclass makes of `sandbox`."""
        return LocalSandbox(start, **options)


class TemplateHost(Host):
    """A host whose sandboxes start from a template."""

    wall = identity = ""

    def __init__(
        self,
        template: Template,
        limits: Limits,
        session: Session,
        env: Mapping[str, str],
        program: Program,
        export: Path | None,
        disabled: DisabledProtections | None,
        network: Network,
        root: bool,
    ) -> None:
        _require_limits(limits)
        self.network, self.root = network, root
        if network == "host":
            template = with_network_files(template)
        with room_left():
            settings, self.cwd = self._prepare(template, limits), template.cwd
        super().__init__(program, session)
        fds = (os.open(export, os.O_RDONLY | os.O_DIRECTORY),) if export else ()
        try:
            self._configure(
                limits=limits, env=env, disabled=disabled, fds=fds, network=network, **settings
            )
        finally:
            for fd in fds:
                os.close(fd)

    @abstractmethod
    def _prepare(self, template: Template, limits: Limits) -> dict[str, Any]:
        """Prepare the files that the host starts from; return the arguments of `_configure` that
        depend on the kind of host."""


class Bubblewrap(TemplateHost):
    """A host in namespaces made by bwrap."""

    def _prepare(self, template: Template, limits: Limits) -> dict[str, Any]:
        if self.root and shares_proc():
            raise SandboxUnavailable(
                "root=True needs a /proc of its own, which this container masks"
            )
        self._command = _command(template, self.network)
        if shares_proc():
            self.wall = "shared-proc"
            self.spares = False  # the agent would see its processes
        shape = len(template.layers), template.host_folders, template.hidden
        return {"mounts": (*shape, limits.disk, False, shares_proc(), self.force_copy, self.root)}

    def _start(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        control, inside = socket.socketpair()
        command, fds = self._command, tuple[int, ...]()
        if self.root and identity().other:
            (info, info_end), (wait, waiter) = os.pipe(), os.pipe()
            fds = info_end, wait
            command = [command[0], "--info-fd", str(info_end), "--userns-block-fd", str(wait)]
            command += self._command[1:]

        def start() -> subprocess.Popen[bytes]:
            return start_clean(
                command,
                stdin=inside.fileno(),
                stderr=self._errors,
                env={"PATH": ENVIRONMENT["PATH"]},
                pass_fds=fds,
                **identity().popen(),
            )

        with inside, contextlib.ExitStack() as begun:
            begun.enter_context(control)
            process = _spawner(os.getpid()).call(start)
            begun.pop_all()
        if fds:
            for fd in fds:
                os.close(fd)
            with open(info, encoding="utf-8") as file, open(waiter, "wb"):
                if text := file.read():  # else bwrap failed
                    map_users(json.loads(text)["child-pid"])
        return control, process

    def _death(self) -> SandboxUnavailable | SandboxDied:
        error = super()._death()
        if isinstance(error, SandboxUnavailable) and not allows_namespaces():
            return SandboxUnavailable(
                "no namespaces can be made here, which --sandbox local needs (root can use pod). "
                f"This allows them: {ALLOWING}"
            )
        return error


class LocalSandbox(GuestSandbox):
    """See `Sandbox` for the contract, and `Provider.sandbox` for the parameters.

    `export` is the folder that the method `export` may copy the changes to. `disabled` is for tests
    of protections only.
    """

    kind: type[TemplateHost] = Bubblewrap

    def __init__(
        self,
        template: Template,
        *,
        limits: Limits | None = None,
        session: Session = "persistent",
        environment: Mapping[str, str] | None = None,
        program: Program = "bash",
        export: Path | None = None,
        disabled: DisabledProtections | None = None,
        cwd: str | None = None,
        network: Network = "none",
        root: bool = False,
    ) -> None:
        limits = limits or Limits()
        variables = {**ENVIRONMENT, **template.environment} if environment is None else environment
        host = self.kind(
            template, limits, session, variables, program, export, disabled, network, root
        )
        self.wall, self.identity, self.root = host.wall, host.identity, root
        host.cwd = cwd or host.cwd
        super().__init__(host, limits, session)


@functools.cache
def allows_namespaces() -> bool:
    """Return whether the sandboxes' user may make namespaces here."""
    try:
        done = subprocess.run(
            ["unshare", "--user", "true"],
            capture_output=True,
            timeout=20,
            cwd="/",
            **identity().popen(),
        )
    except (OSError, subprocess.SubprocessError):
        return True
    return done.returncode == 0


def _require_limits(limits: Limits) -> None:
    """Raise `SandboxUnavailable` if this process may use less than a sandbox needs: results would
    differ."""
    needed, usual = shared_limits(limits), shared_limits(Limits())
    for name, unit, spare in (
        ("NPROC", "processes (`ulimit -u`)", 0),
        # more than agents can send over sockets
        ("NOFILE", "open files (`ulimit -n`)", usual["NOFILE"]),
        ("FSIZE", "bytes in a file (`ulimit -f`)", 0),
        ("DATA", "bytes of data (`ulimit -d`)", 0),
        ("AS", "bytes of memory (`ulimit -v`)", 0),
        ("STACK", "bytes of stack (`ulimit -s`)", 0),
    ):
        least = min(needed.get(name, limits.memory), usual.get(name, Limits().memory)) + spare
        _, most = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
        if most != resource.RLIM_INFINITY and most < least:
            raise SandboxUnavailable(
                f"a sandbox needs {least} {unit}, and {most} is the limit here; raise it"
            )


def _command(template: Template, network: Network) -> list[str]:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxUnavailable("bubblewrap is not installed; run: apt-get install bubblewrap")
    namespaces, proc = ["--unshare-all", "--unshare-user", "--as-pid-1"], ["--proc", "/proc"]
    if shares_proc():
        namespaces = [f"--unshare-{kind}" for kind in ("user", "ipc", "net", "uts")]
        proc = ["--bind", "/proc", "/proc"]
    if network == "host":
        namespaces = [word for word in (*namespaces, "--share-net") if word != "--unshare-net"]
    argv = [bwrap, *namespaces, "--uid", "0", "--gid", "0", "--cap-add", "ALL"]
    argv += ["--die-with-parent", "--new-session", "--hostname", "intercode"]
    argv += ["--ro-bind", "/usr", "/usr", *usr_links(), *proc, "--dev", "/dev", "--dir", "/layers"]
    python, folders = guest_python()
    for folder in folders:
        argv += ["--ro-bind", folder, folder]
    argv += ["--ro-bind", str(cache.guest_folder(python, cache.root())), "/guest"]
    for number, layer in enumerate(template.layers):
        argv += ["--ro-bind", str(layer), f"/layers/{number}"]
    argv += [part for name, value in PYTHON_VARIABLES.items() for part in ("--setenv", name, value)]
    return [*argv, "--", python, "-s", "-S", "-B", "-c", _MAIN]


@functools.cache
def shares_proc() -> bool:
    """Return whether namespaces can be made here but no /proc can be mounted, since parts of this
    container's /proc are masked.

    The supervisor then lives in the pid namespace of the container, whose /proc its episodes see,
    read-only. Each episode has its own pid namespace and user namespace, so it can signal and
    inspect only its own processes.
    """
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        if not any(line.split()[4].startswith("/proc/") for line in mounts):
            return False
    bwrap = shutil.which("bwrap") or "bwrap"
    words = [bwrap, "--unshare-all", "--unshare-user", "--ro-bind", "/", "/"]
    try:
        tries = [
            subprocess.run(
                [*words, *more, "--", "/bin/true"],
                capture_output=True,
                cwd="/",
                timeout=20,
                **identity().popen(),
            )
            for more in (["--proc", "/proc"], [])
        ]
    except (OSError, subprocess.SubprocessError):
        return False
    return [done.returncode for done in tries] == [1, 0]


def usr_links() -> list[str]:
    """Return bwrap's options for /bin, /lib and the like: links into /usr where this machine has
    merged them, else folders."""
    argv: list[str] = []
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/") / name
        if path.is_symlink():
            argv += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            argv += ["--ro-bind", str(path), str(path)]
    return argv


class _Spawner(threading.Thread):
    """The thread that starts every bwrap process."""

    def __init__(self) -> None:
        super().__init__(name="intercode-spawner", daemon=True)
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self.start()

    def call(self, job: Callable[[], Any]) -> Any:
        future: Future[Any] = Future()
        self._jobs.put((job, future))
        return future.result()

    def run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        while True:
            job, future = self._jobs.get()
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)


@functools.cache
def _spawner(pid: int) -> _Spawner:
    """Return the spawner of this process: a forked child has none of its parent's threads."""
    return _Spawner()
