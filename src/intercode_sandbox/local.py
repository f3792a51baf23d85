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
    Provider,
    script_command,
)
from intercode_sandbox.client import GuestSandbox
from intercode_sandbox.dockerfile import build_dockerfile, find_dockerfile
from intercode_sandbox.errors import DataError, SandboxDied, SandboxUnavailable, room_left
from intercode_sandbox.host import (
    ENVIRONMENT,
    PYTHON_VARIABLES,
    Host,
    HostOptions,
    guest_python,
    shared_limits,
    start_clean,
)
from intercode_sandbox.identity import identity, map_users, run_as_user
from intercode_sandbox.template import Template, with_network_files

ALLOWING = (
    "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined, "
    "or in Kubernetes securityContext: "
    "{seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}}"
)
"""The options that let a container make namespaces."""
_OVERWRITING = {
    "PYTHONMALLOC": "malloc",
    "GLIBC_TUNABLES": "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0",
}
"""Makes glibc overwrite the memory that Python frees, so that a player holds nothing of its last
episodes. Blocks in its caches of threads it would leave as they are."""
_MAIN = "import sys; sys.path.insert(0, '/'); from guest.players import main; main()"


class LocalProvider(Provider[Template]):
    """Opens bubblewrap sandboxes. An image is a built one, a root file system, a Dockerfile, or
    None for this machine's /usr."""

    _layers = "layers"
    """The cache's folder for the changes that scripts make."""

    def open_image(self, image: str | None, tree: Path | None) -> Template:
        file = find_dockerfile(image)
        if file:
            stand_in = template.base(self.stand_in) if self.stand_in else None
            start = build_dockerfile(file, stand_in)
        else:
            start = template.base(image)
        return template.with_tree(start, tree) if tree else start

    def add_script(self, start: Template, text: str, *, name: str) -> Template:
        def run(layer: Path) -> None:
            layer.chmod(0o755)
            options = {"limits": SETUP_LIMITS, "session": "stateless", "export": layer}
            with self._open(start, **options) as sandbox:
                sandbox.write(SCRIPT, text.encode())
                result = sandbox.exec("", argv=script_command(text, SCRIPT), cwd="/")
                if result.exit_code != 0:
                    how = f"ended with status {result.exit_code}"
                    if result.timed_out:
                        how = "ran out of time"
                    raise DataError(
                        f"the setup script {name} {how}; it printed:\n"
                        f"{result.output[-2000:] or '(nothing)'}"
                    )
                sandbox.export(layer)

        key = template.hash_of(start.digest, text)
        return start.over(cache.folder(self._layers, key, run), text)

    def sandbox(self, start: Template, **options: Any) -> LocalSandbox:
        return self._open(start, **options)

    def _open(self, start: Template, **options: Any) -> LocalSandbox:
        """Open a sandbox of our own, whatever a subclass makes of `sandbox`."""
        return LocalSandbox(start, **options)


class TemplateHost(Host):
    """A host whose sandboxes start from a template."""

    wall = identity = ""

    def __init__(self, template: Template, options: HostOptions) -> None:
        _require_limits(options.limits)
        if options.network == "host":
            template = with_network_files(template)
        self.options = options
        with room_left():
            settings = self._prepare(template)
        super().__init__(options, template.cwd)
        with contextlib.ExitStack() as opened:
            if options.export:
                fd = os.open(options.export, os.O_RDONLY | os.O_DIRECTORY)
                opened.callback(os.close, fd)
                settings["fds"] = (fd,)
            self._configure(**settings)

    @abstractmethod
    def _prepare(self, template: Template) -> dict[str, Any]:
        """Prepare the files that the host starts from; return arguments of `_configure`."""

    @abstractmethod
    def _spawn(self, **how: Any) -> subprocess.Popen[bytes]:
        """Start the supervisor by `start_clean` with these options."""

    def _start(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        control, inside = socket.socketpair()
        with inside, contextlib.ExitStack() as begun:
            begun.enter_context(control)
            variables = {"PATH": ENVIRONMENT["PATH"], **PYTHON_VARIABLES, **_OVERWRITING}
            process = self._spawn(stdin=inside.fileno(), stderr=self._errors, env=variables)
            begun.pop_all()
        return control, process


class Bubblewrap(TemplateHost):
    """A host in namespaces made by bwrap."""

    def _prepare(self, template: Template) -> dict[str, Any]:
        shared, root = shares_proc(), self.options.root
        if root and shared:
            raise SandboxUnavailable(
                "root=True needs a /proc of its own, which this container masks"
            )
        self._command = _command(template, self.options.network)
        if shared:
            self.wall = "shared-proc"
            self.spares = False  # the agent would see its processes
        shape = len(template.layers), template.host_folders, template.hidden
        disk = self.options.limits.disk
        return {"mounts": (*shape, disk, False, shared, self.force_copy, root)}

    def _spawn(self, **how: Any) -> subprocess.Popen[bytes]:
        start = functools.partial(start_clean, **how, **identity().popen())
        if not (self.options.root and identity().other):
            return _start_in_spawner(functools.partial(start, self._command))
        (info, info_end), (wait, waiter) = os.pipe(), os.pipe()
        bwrap, *words = self._command
        command = [bwrap, "--info-fd", str(info_end), "--userns-block-fd", str(wait), *words]
        fds = info_end, wait
        with open(info, encoding="utf-8") as file, open(waiter, "wb"):
            try:
                process = _start_in_spawner(functools.partial(start, command, pass_fds=fds))
            finally:
                for fd in fds:
                    os.close(fd)
            text = file.read()
            if text:  # else bwrap failed
                map_users(json.loads(text)["child-pid"])
        return process

    def _death(self) -> SandboxUnavailable | SandboxDied:
        error = super()._death()
        if isinstance(error, SandboxUnavailable) and not allows_namespaces():
            return SandboxUnavailable(
                "no namespaces can be made here, which --sandbox local needs (root can use pod). "
                f"This allows them: {ALLOWING}"
            )
        return error


class LocalSandbox(GuestSandbox):
    """See `Sandbox` for the contract, and `Provider.sandbox` and `HostOptions` for the
    parameters."""

    host: TemplateHost
    kind: type[TemplateHost] = Bubblewrap

    def __init__(
        self,
        template: Template,
        *,
        limits: Limits | None = None,
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        if environment is None:
            environment = {**ENVIRONMENT, **template.environment}
        how = HostOptions(limits or Limits(), environment, **options)
        super().__init__(self.kind(template, how))
        self.wall, self.identity, self.root = self.host.wall, self.host.identity, how.root


@functools.cache
def allows_namespaces() -> bool:
    """Return whether the sandboxes' user may make namespaces here."""
    try:
        return run_as_user(["unshare", "--user", "true"]).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return True


def _require_limits(limits: Limits) -> None:
    """Raise `SandboxUnavailable` if this process may use less than a sandbox needs: results would
    differ."""
    needed, usual = shared_limits(limits), shared_limits(Limits())
    units = {
        "NPROC": "processes (`ulimit -u`)",
        "NOFILE": "open files (`ulimit -n`)",
        "FSIZE": "bytes in a file (`ulimit -f`)",
        "DATA": "bytes of data (`ulimit -d`)",
        "AS": "bytes of memory (`ulimit -v`)",
        "STACK": "bytes of stack (`ulimit -s`)",
    }
    for name, unit in units.items():
        least = min(needed.get(name, limits.memory), usual.get(name, Limits().memory))
        if name == "NOFILE":
            least += usual[name]  # more than agents can send over sockets
        _, most = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
        if most != resource.RLIM_INFINITY and most < least:
            raise SandboxUnavailable(
                f"a sandbox needs {least} {unit}, and {most} is the limit here; raise it"
            )


def _command(template: Template, network: str) -> list[str]:
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
        with_proc = run_as_user([*words, "--proc", "/proc", "--", "/bin/true"])
        without = run_as_user([*words, "--", "/bin/true"])
    except (OSError, subprocess.SubprocessError):
        return False
    return with_proc.returncode == 1 and without.returncode == 0


def usr_links() -> list[str]:
    """Return bwrap's options for /bin, /lib and the like: links into /usr where this machine has
    merged them, else folders."""
    argv = []
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/") / name
        if path.is_symlink():
            argv += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            argv += ["--ro-bind", str(path), str(path)]
    return argv


def _start_in_spawner(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Call `start` in the thread that starts every bwrap process."""
    future: Future[subprocess.Popen[bytes]] = Future()
    _spawner(os.getpid()).put((start, future))
    return future.result()


@functools.cache
def _spawner(pid: int) -> queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]]:
    """Return the queue of this process's spawner: a forked child has none of its parent's
    threads."""
    jobs = queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]]()

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        while True:
            job, future = jobs.get()
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)

    threading.Thread(target=run, name="intercode-spawner", daemon=True).start()
    return jobs
