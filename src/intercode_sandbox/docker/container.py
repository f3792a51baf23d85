"""The docker provider: any image, a container as the host, and the same guest as the local
provider's.

    DockerSandbox ──► DockerHost ── docker run, attached ── daemon ── container of any image
                          └── Unix socket, mounted into it ═════════ supervisor, pid 1 in there
                                          an episode server for each episode, ─┘
                                          on an overlay on the image

The container lives as long as the socket: when it closes, however this process ends, the supervisor
exits, and the daemon removes the container (`--rm`). No port is published. The container has
CAP_SYS_ADMIN while the supervisor builds its mounts; the agent's processes are never in the user
namespace where that capability counts.

Everything goes through the `docker` command, so that anything the command can reach works:
DOCKER_HOST, contexts, podman's socket. The daemon must run on this machine, or see its files at the
same paths: the guest's interpreter is mounted from the cache.
"""

from __future__ import annotations

import functools
import os
import queue
import secrets
import select
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from intercode_sandbox import cache, init
from intercode_sandbox.base import MIB, Limits, Network, Provider
from intercode_sandbox.client import GuestSandbox
from intercode_sandbox.docker import images
from intercode_sandbox.docker.daemon import (
    docker,
    error_of,
    machine_error,
    owner_label,
    program_path,
    remove_leftovers_once,
)
from intercode_sandbox.docker.images import DockerImage
from intercode_sandbox.errors import (
    IntercodeError,
    SandboxDied,
    SandboxError,
    SandboxUnavailable,
    UsageError,
)
from intercode_sandbox.guest import wire
from intercode_sandbox.host import ENVIRONMENT, Host, HostOptions, Process, Server, guest_python

# Seconds allowed for a container to start, to end, and for a pool to have one ready.
_START_SECONDS, _END_SECONDS, _POOL_SECONDS = 60.0, 10.0, 180.0
# The number of sandboxes of one host, forks included, that may use all of their limits at once.
_SANDBOXES = 4
_CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SYS_ADMIN", "SETFCAP",
)  # fmt: skip
_GUEST_MEMORY = 128 * MIB
_GUEST_PROCESSES = 8
_BUNDLE_SCRIPT = Path(__file__).with_name("bundle_script.py")
_GUEST = f"{wire.BUNDLE}/guest"
# Arguments of the bundle's loader, which run the supervisor.
_MAIN = [
    "--library-path", f"{wire.BUNDLE}/lib", "--argv0", _GUEST, _GUEST,
    "-I", "-S", "-B", "-X", "utf8", "-c",
    "from guest.supervisor import main_in_container; main_in_container()",
]  # fmt: skip


class DockerProvider(Provider[DockerImage]):
    """Opens sandboxes in containers. An image is the name of one of docker's images, or a
    Dockerfile."""

    def open_image(self, image: str | None, tree: Path | None) -> DockerImage:
        return images.make_image(image, tree, stand_in=self.stand_in)

    def add_script(self, start: DockerImage, text: str, *, name: str) -> DockerImage:
        return images.with_script(start, text, name=name)

    def sandbox(self, start: DockerImage, **options: Any) -> DockerSandbox:
        return DockerSandbox(start, **options)


class DockerSandbox(GuestSandbox):
    """See `Sandbox` for the contract, and `Provider.sandbox` for the parameters. `program="python"`
    runs the image's python3."""

    host: DockerHost
    root = True

    def __init__(
        self,
        image: DockerImage,
        *,
        limits: Limits | None = None,
        environment: Mapping[str, str] | None = None,
        network: Network = "none",
        **options: Any,
    ) -> None:
        if network != "none":
            image = replace(image, network=network)
        if environment is None:
            environment = {**ENVIRONMENT, **dict(image.environment)}
        variables = tuple(sorted(environment.items()))
        how = HostOptions(limits or Limits(), variables, network=image.network, **options)
        pool = join_pool(ContainerSpec(image, how))
        try:
            host = pool.take()
        except BaseException:
            pool.leave()
            raise
        host.on_close = pool.leave
        super().__init__(host)

    @property
    def container(self) -> str:
        """The container's name."""
        return self.host.name


class ContainerSpec(NamedTuple):
    """Everything that defines a container; equal specs share a pool."""

    image: DockerImage
    options: HostOptions


class Pool:
    """Containers started before they are needed: one for each open sandbox, and one for the sandbox
    that takes one now.

    Thread-safe. There is one pool for each spec and process, for as long as a sandbox uses it.
    """

    def __init__(self, spec: ContainerSpec) -> None:
        self.spec = spec
        self.users = 0
        self._fresh: queue.SimpleQueue[DockerHost | Exception] = queue.SimpleQueue()

    def start_one(self) -> None:
        def start() -> None:
            try:
                self._fresh.put(DockerHost(self.spec).await_ready())
            except Exception as error:
                self._fresh.put(error)

        threading.Thread(target=start, name="intercode-container", daemon=True).start()

    def take(self) -> DockerHost:
        """Return the oldest unused container, and start another. Raises the error of one that could
        not start."""
        self.start_one()
        while True:
            try:
                host = self._fresh.get(timeout=_POOL_SECONDS)
            except queue.Empty:
                why = f"no container of {self.spec.image.name!r} was ready in {_POOL_SECONDS:.0f} s"
                raise SandboxUnavailable(why) from None
            if isinstance(host, Exception):
                raise host
            if host.alive:
                return host
            threading.Thread(target=host.close, name="intercode-container", daemon=True).start()
            self.start_one()

    def leave(self) -> None:
        with _pools_lock:
            self.users -= 1
            if self.users == 0:
                _pools.pop((os.getpid(), self.spec), None)

        def drop_one() -> None:
            host = self._fresh.get()
            if not isinstance(host, Exception):
                host.close()

        threading.Thread(target=drop_one, name="intercode-container", daemon=True).start()


_pools: dict[tuple[int, ContainerSpec], Pool] = {}
_pools_lock = threading.Lock()


def join_pool(spec: ContainerSpec) -> Pool:
    """Return the pool for `spec`; call its `leave` when done."""
    remove_leftovers_once()
    with _pools_lock:
        pool = _pools.setdefault((os.getpid(), spec), Pool(spec))
        pool.users += 1
    pool.start_one()
    return pool


class DockerHost(Host):
    """A container as host; `await_ready` waits until it runs, with a first episode server. When
    closed, it calls `on_close`."""

    on_close: Callable[[], None] | None = None
    _first: Server | None = None

    def __init__(self, spec: ContainerSpec) -> None:
        self.spec = spec
        self._started = False
        self.name = f"intercode-{secrets.token_hex(6)}"
        super().__init__(spec.options, spec.image.cwd)

    def await_ready(self) -> Self:
        """Wait until the container runs. Raises `UsageError` for an image without a shell, else
        `SandboxUnavailable`; the container is then gone."""
        try:
            disk = self.options.limits.disk
            self._configure((2, (), (), disk, True, False, self.force_copy))
            self._control.settimeout(_START_SECONDS)
            head, _ = wire.receive(self._control, 0)
            self._control.settimeout(None)
        except (OSError, EOFError, wire.WireError):
            raise self._death() from None
        if not head.get("ready"):
            self.close()
            if "failed" in head:
                raise _no_namespaces(head["failed"])
            raise UsageError(
                f"the image {self.spec.image.name!r} has no shell: install bash (or sh) in it"
            )
        self._started = True
        try:
            self._first = super().start_episode()
        except SandboxUnavailable as error:
            self.close()
            raise _no_namespaces(str(error)) from None
        return self

    def start_episode(self, **start: Any) -> Server:
        """Return the episode server that was started ahead, or start one."""
        first = self._first
        self._first = None
        return first or super().start_episode(**start)

    @property
    def alive(self) -> bool:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        # without a request, the only thing to read is the end of the socket
        return not poll.poll(0)

    def close(self) -> None:
        if self._first:
            self._first[1].close()
        super().close()
        on_close = self.on_close
        self.on_close = None
        if on_close and os.getpid() == self._pid:
            on_close()

    def _start(self) -> tuple[socket.socket, Process]:
        with (
            tempfile.TemporaryDirectory(prefix="intercode-line-") as folder,
            socket.socket(socket.AF_UNIX) as listener,
        ):
            path = Path(folder) / "line"
            listener.bind(str(path))
            path.chmod(0o666)  # the folder is closed to others
            listener.listen(1)
            process = subprocess.Popen(
                self._command(path),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                cwd="/",
                start_new_session=True,
            )
            return self._accept(listener, process), process

    def _command(self, line: Path) -> list[str]:
        """Return the `docker run` with the supervisor as first process."""
        image = self.spec.image
        limits = self.options.limits
        memory = str(_SANDBOXES * limits.memory + _GUEST_MEMORY)
        processes = str(_SANDBOXES * (limits.processes + _GUEST_PROCESSES))
        bundle = f"type=bind,source={_bundle(cache.root())},target={wire.BUNDLE},readonly"
        argv = [program_path(), "run", "--rm", "--sig-proxy=false", "--pull", "never"]
        argv += ["--log-driver", "none"]
        argv += ["--mount", f"type=bind,source={line},target={wire.LINE}", "--mount", bundle]
        argv += ["--name", self.name, "--label", owner_label(), "--hostname", "intercode"]
        argv += ["--network", image.network, "--cap-drop", "ALL"]
        argv += [f"--cap-add={capability}" for capability in _CAPABILITIES]
        argv += ["--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"]
        argv += ["--security-opt=no-new-privileges", "--user", "0", "--workdir", "/"]
        # otherwise root may write to the control groups, and no reset restores them
        argv += ["--no-healthcheck", "--tmpfs", "/sys/fs/cgroup:ro"]
        argv += ["--memory", memory, "--memory-swap", memory, "--pids-limit", processes]
        if image.cpus:
            argv += ["--cpus", str(image.cpus)]
        if image.runtime:
            argv += ["--runtime", image.runtime]
        return [*argv, "--entrypoint", f"{wire.BUNDLE}/loader", image.id, *_MAIN]

    def _accept(self, listener: socket.socket, process: Process) -> socket.socket:
        end = os.pidfd_open(process.pid)
        poll = select.poll()
        try:
            for fd in (end, listener.fileno()):
                poll.register(fd, select.POLLIN)
            events = dict(poll.poll(_START_SECONDS * 1000))
        finally:
            os.close(end)
        if listener.fileno() in events:
            return listener.accept()[0]
        self._process = process
        if not events:
            self._kill()
        process.wait()
        raise self._start_error()

    def _kill(self) -> None:
        with suppress(SandboxError):
            docker("rm", "--force", self.name)
        self._process.kill()

    def _death(self) -> SandboxUnavailable | SandboxDied:
        self._control.close()
        try:
            self._process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
        if not self._started:
            raise self._start_error()
        return SandboxDied(f"the container {self.name} ended")

    def _start_error(self) -> IntercodeError:
        text = self.error_text()
        self._errors.close()
        error = error_of(text, self.spec.image.name)
        if type(error) is SandboxError and not machine_error(text):
            return _no_namespaces(str(error))
        return error


def _no_namespaces(why: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"no namespaces can be made in containers here: {why}; let the daemon and its runtime "
        "grant --cap-add SYS_ADMIN --security-opt seccomp=unconfined, or use --sandbox local"
    )


@functools.cache
def _bundle(root: Path) -> Path:
    """Return the folder with a copy of this machine's Python that runs the guest in any image.
    `root` is the cache's folder."""
    python, _ = guest_python()
    modules = sorted(cache.GUEST.glob("*.py"))
    files = _BUNDLE_SCRIPT, Path(init.__file__), Path(python).resolve(), *modules

    def build(target: Path) -> None:
        command = [python, "-I", "-S", "-B", str(_BUNDLE_SCRIPT), str(target), str(cache.GUEST)]
        bundling = subprocess.run(command, capture_output=True, text=True, check=False)
        if bundling.returncode:
            raise SandboxUnavailable(
                f"{python} cannot be bundled for containers: {bundling.stderr.strip()[-300:]}"
            )
        init.write(target)
        target.chmod(0o755)

    return cache.folder("bundles", cache.code_key(python, *files), build)
