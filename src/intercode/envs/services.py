"""Services of a task: programs in sandboxes of their own, of which the agent reaches one port each.

    agent's sandbox                       here                     service's sandbox
    127.0.0.2:8000, called `shop` ──► listener ── Relay ──► connection ──► 127.0.0.1:8000

    services: {"shop": {"image": "shop/Dockerfile", "command": "python3 /shop.py", "port": 8000}}

Each episode begins with fresh services. They count as started once the kernel's tables show that
somebody listens on their ports, or the command `ready` succeeds; nothing connects to them, so a
server that takes one connection still waits for it. A service that ends later, even if the agent
ended it, refuses connections: that is an outcome. One that does not start is a fault of the data.
Services do not reach each other, and a task that has some cannot be forked. If the machine ended
the sandbox of a service, that is a fault of the machine; it is looked for before the verdict.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from intercode.errors import DataError, SandboxDied, SandboxError
from intercode_sandbox.base import Limits, Sandbox

LOG, PIPE = "/dev/shm/service.log", "/dev/shm/service.stdin"
_LOG_BYTES = 1 << 16
_PAUSE = 0.01
_CONNECTIONS = 64
"""The most open connections to a service; further ones wait."""
_PATIENCE = 60.0
"""Seconds that a service may go on after the client has sent all."""
_START = """
exec 3< /dev/null
if [[ $3 ]]; then mkfifo -m 600 "$3" && exec 3<> "$3" && rm "$3"; fi
setsid bash -c "$1" > "$2" 2>&1 <&3 3<&- & echo $!
"""
"""Starts a command with its log, and, where a third word names a pipe, with an open stdin."""
_LOOK = """
kill -0 "$1" 2> /dev/null && echo alive || echo ended
for table in /proc/net/tcp{,6}; do
    [[ -r $table ]] && while read -r _ address _ state _; do
        [[ $state != 0A ]] || echo "$address"
    done < "$table"
done
"""
"""Prints whether a process is alive, and the address of each listener: `0100007F:1F90`."""
_REACHED = re.compile(r"(?:0{8}|0100007F|0{32}|0{24}01000000|0{16}FFFF00000100007F):")
"""Where a connection to 127.0.0.1 or ::1 gets, as the kernel's tables of little-endian machines
write it."""
_NAME = re.compile(r"(?!localhost$)[\w.-]{1,253}", re.ASCII | re.I)
_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "image": str, "tree": str, "command": str, "port": int, "env": dict, "files": dict,
    "ready": str, "ready_seconds": (int, float), "stdin_open": bool, "aliases": list,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Service:
    """A service of a task, as an entry of its field `services` describes it."""

    name: str
    port: int
    limits: Limits
    command: str = ""
    image: str | None = None
    tree: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    ready: str | None = None
    ready_seconds: float = 60.0
    stdin_open: bool = False
    aliases: Sequence[str] = ()


def is_host_name(name: object) -> bool:
    """Return whether a service can have this name: all that Compose allows, but `localhost`."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def read_services(value: object) -> list[Service]:
    """Return the services in a record's field `services`. Raises `DataError` for a wrong one."""
    if not isinstance(value, dict):
        raise DataError(f"field 'services' is {value!r:.60}; write an object: name to service")
    services = []
    for name, entry in value.items():
        where = f"field 'services': {name!r:.60}"
        if not isinstance(entry, dict):
            raise DataError(f"{where} is {entry!r:.60}; write an object with command and port")
        for key, part in entry.items():
            if key in Limits.settings():
                continue
            if key not in _FIELDS:
                raise DataError(f"{where} has a field {key!r:.60}; it takes {', '.join(_FIELDS)}")
            kind = _FIELDS[key]
            texts = [*part, *part.values()] if isinstance(part, dict) else []
            if (
                isinstance(part, bool) != (kind is bool)
                or not isinstance(part, kind)
                or not all(map(_is_text, texts))
            ):
                raise DataError(f"{where}: {key} is {part!r:.60}, which is not what it takes")
        if not all(map(is_host_name, [name, *entry.get("aliases", ())])):
            raise DataError(f"{where}: its names are letters, digits, dots, hyphens, underscores")
        # an image may name the command
        has_command = entry.get("command") or entry.get("image")
        if not has_command or not 0 < entry.get("port", 0) < 1 << 16:
            raise DataError(f"{where} needs a command, and a port from 1 to 65535")
        try:
            limits = Limits().changed_by(entry)
        except ValueError as error:
            raise DataError(f"{where}: {error}") from None
        fields = {key: entry[key] for key in _FIELDS if key in entry}
        services.append(Service(name, limits=limits, **fields))
    return services


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


class Services:
    """The services of one workspace, while it is open. `services` has for each the function that
    opens its sandbox."""

    def __init__(self, services: Mapping[Service, Callable[[], Sandbox]]) -> None:
        self._services = services
        self._addresses = {}
        for number, service in enumerate(services, 2):
            self._addresses[service] = f"127.0.0.{number}"
        self._hosts = b""
        """/etc/hosts of the task's world."""
        self._boxes: dict[str, Sandbox] = {}
        self._relays: list[Relay] = []

    def start(self, sandbox: Sandbox) -> None:
        """Start all services anew, and give programs in `sandbox` their ports. Raises `DataError`
        for a service that does not start."""
        self.disconnect()
        for service in self._services:
            _start(service, self._fresh_box(service))
        with suppress(FileNotFoundError):
            self._hosts = sandbox.read("/etc/hosts")
        self.connect(sandbox)

    def connect(self, sandbox: Sandbox) -> None:
        """Give programs in `sandbox` the ports of the running services."""
        self.name(sandbox)
        for service, address in self._addresses.items():
            listener = sandbox.listen(service.port, address)
            self._relays.append(Relay(listener, self._boxes[service.name], service.port))

    def name(self, sandbox: Sandbox) -> None:
        """Write the names of the services into the sandbox, in place of what programs wrote."""
        lines = ""
        for service, address in self._addresses.items():
            lines += f"{address} {' '.join([service.name, *service.aliases])}\n"
        if lines:
            sandbox.write("/etc/hosts", self._hosts + lines.encode())

    def _fresh_box(self, service: Service) -> Sandbox:
        if box := self._boxes.get(service.name):
            try:
                box.reset()
                return box
            except SandboxDied:
                box.close()
        self._boxes[service.name] = box = self._services[service]()
        return box

    def box(self, name: str) -> Sandbox:
        """Return the sandbox of a service. Raises `DataError` if there is none."""
        if name not in self._boxes:
            raise DataError(f"the task has no service {name!r}")
        return self._boxes[name]

    def require(self) -> None:
        """Raise `SandboxDied` if the sandbox of a service died, unless code in it was the cause."""
        for box in self._boxes.values():
            try:
                box.exec("", argv=["true"], cwd="/")
            except SandboxDied as death:
                if not death.by_agent:
                    raise

    def logs(self) -> dict[str, str]:
        """Return the end of what each service has printed in this episode."""
        return {name: _log(box) for name, box in self._boxes.items()}

    def disconnect(self) -> None:
        for relay in self._relays:
            relay.close()
        self._relays = []

    def close(self) -> None:
        self.disconnect()
        for box in self._boxes.values():
            box.close()
        self._boxes = {}


def _start(service: Service, box: Sandbox) -> None:
    for path, text in service.files.items():
        box.write(path, text.encode())
    pipe = PIPE if service.stdin_open else ""
    start = box.exec("", argv=["bash", "-c", _START, "bash", service.command, LOG, pipe])
    look = ["bash", "-c", _LOOK, "bash", start.output.strip()]
    deadline = time.monotonic() + service.ready_seconds
    while True:
        seconds = deadline - time.monotonic()
        # nothing is printed where the machine is too slow
        state, *lines = box.exec("", argv=look, cwd="/").output.split() or ["alive"]
        ports = sorted(int(line.partition(":")[2], 16) for line in lines if _REACHED.match(line))
        is_ready = service.port in ports
        if service.ready:
            test = ["bash", "-c", service.ready]
            is_ready = box.exec("", argv=test, timeout=max(seconds, _PAUSE)).exit_code == 0
        if is_ready:
            return
        if state != "alive" or seconds < 0:
            break
        time.sleep(_PAUSE)
    why = f"was not ready within {service.ready_seconds:g} s" if state == "alive" else "ended"
    if ports and service.port not in ports:
        why += f": nothing listens on {service.port}; it listens on {', '.join(map(str, ports))}"
    log = _log(box)[-2000:] or "(nothing)"
    raise DataError(f"field 'services': {service.name} {why}; its output ends:\n{log}")


def _log(box: Sandbox) -> str:
    # a program in the service may have put a FIFO there
    show = ["bash", "-c", f"[[ -f {LOG} ]] && tail -c {_LOG_BYTES} {LOG}"]
    with suppress(SandboxError):
        return str(box.exec("", argv=show, cwd="/").output)
    return ""


class Relay:
    """Joins each connection that comes to `listener` with one to a port of `box`."""

    def __init__(self, listener: socket.socket, box: Sandbox, port: int) -> None:
        self._listener, self._box, self._port = listener, box, port
        self._open: set[socket.socket] = set()
        self._free, self._lock = threading.Semaphore(_CONNECTIONS), threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            self._closed = True
            for end in (self._listener, *self._open):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            if not self._free.acquire(timeout=1.0):
                continue
            try:
                near, _ = self._listener.accept()
            except OSError:  # closed, or no descriptor is left
                self._free.release()
                time.sleep(_PAUSE)
                continue
            threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        try:
            with near, self._box.connect(self._port) as far:
                with self._lock:
                    if self._closed:
                        return
                    self._open |= {near, far}
                back = threading.Thread(target=_pump, args=(far, near), daemon=True)
                back.start()
                _pump(near, far)
                back.join(_PATIENCE)
                for end in (near, far):
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                with self._lock:
                    self._open -= {near, far}
        except (OSError, SandboxError):
            pass  # nobody listens there any more
        finally:
            self._free.release()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Copy what comes from one end to the other, to its end."""
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        with suppress(OSError):
            source.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
