"""What is around the sandboxes, each tried on its own: cache, memory, image tools, containers, MariaDB."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from intercode.doctor.finding import Finding, read
from intercode.engines import mariadbd
from intercode.errors import IntercodeError, SandboxUnavailable
from intercode.sandbox import cache
from intercode.sandbox.docker import leftovers
from intercode.sandbox.docker.daemon import docker

GIB = 1 << 30
_SPACE, _MEMORY = 2 * GIB, GIB
_STALE = 3600
"""Seconds after which a build's work folder counts as left over."""


def findings() -> Iterator[Finding]:
    yield _cache()
    yield from _leftovers()
    yield from (_memory(), _mmdebstrap(), docker_daemon(), podman(podman_socket()), _mariadb())


def _cache() -> Finding:
    mend = "set INTERCODE_CACHE to a folder on a disk with space, which you may write and everyone may enter"
    try:
        root = cache.root()
    except (IntercodeError, OSError) as error:
        return Finding("cache", False, str(error), mend)
    free = shutil.disk_usage(root).free
    detail = f"{root}, {free / GIB:.1f} GiB free"
    if not os.access(root, os.W_OK | os.X_OK):
        return Finding("cache", False, f"{root} cannot be written", mend)
    return Finding("cache", True if free >= _SPACE else None, detail, "" if free >= _SPACE else mend)


def _leftovers() -> Iterator[Finding]:
    if old := _cut_short():
        yield Finding("leftovers", None, f"{len(old)} builds were cut short", "intercode doctor --clean")


def _cut_short() -> list[Path]:
    """Work folders of builds that did not end; young ones may be at work."""
    return [path for path in cache.place().glob("*/.*") if _stale(path)]


def _stale(path: Path) -> bool:
    try:
        info = path.lstat()
    except FileNotFoundError:  # its build has just ended
        return False
    return stat.S_ISDIR(info.st_mode) and time.time() - info.st_mtime > _STALE


def _memory() -> Finding:
    words = read("/proc/meminfo").split()
    free = int(words[words.index("MemAvailable:") + 1]) * 1024
    detail = f"{free / GIB:.1f} GiB available, {len(os.sched_getaffinity(0))} cores"
    return Finding("memory", True if free >= _MEMORY else None, detail, "" if free >= _MEMORY else "use --workers 1")


def _mmdebstrap() -> Finding:
    if shutil.which("mmdebstrap"):
        return Finding("mmdebstrap", True, "images can be built", "")
    return Finding("mmdebstrap", None, "no images can be built (intercode image build)", "apt-get install mmdebstrap")


def docker_daemon() -> Finding:
    if shutil.which("docker") is None:
        return Finding("docker", None, "no docker command (--sandbox docker)", "apt-get install docker.io")
    try:
        version = docker("version", "--format", "{{.Server.Version}}", seconds=10)
        old = leftovers.find()
    except IntercodeError as error:
        what, _, mend = str(error).partition("; ")
        return Finding("docker", None, f"{what} (--sandbox docker)", mend.partition("\n")[0])
    if old:
        return Finding("docker", None, f"{len(old)} containers of processes that are gone", "intercode doctor --clean")
    return Finding("docker", True, f"the daemon answers, version {version}", "")


def podman_socket() -> Path:
    """Where podman's service listens for this user."""
    own = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    return Path(own if os.getuid() else "/run", "podman", "podman.sock")


def podman(socket: Path) -> Finding:
    """Another way to `--sandbox docker`."""
    if shutil.which("podman") is None:
        return Finding("podman", None, "not installed; it can serve --sandbox docker as well", "apt-get install podman")
    if shutil.which("docker") is None:
        return Finding("podman", None, "installed, but not the docker command that speaks to it", "apt-get install docker.io")
    host = f"unix://{socket}"
    start = f"podman system service --time=0 {host} &" if os.getuid() == 0 else "systemctl --user start podman.socket;"
    try:
        version = docker("--host", host, "version", "--format", "{{.Server.Version}}", seconds=10)
    except IntercodeError:
        return Finding("podman", None, f"installed, but nothing answers at {socket}", f"{start} export DOCKER_HOST={host}")
    return Finding("podman", True, f"version {version} serves --sandbox docker with DOCKER_HOST={host}", "")


def _mariadb() -> Finding:
    said = mariadbd.missing()
    if said is None:
        return Finding("mariadb", True, "can be started (--engine mariadb)", "")
    what, _, mend = said.partition("; mend it with: ")
    return Finding("mariadb", None, f"{what} (--engine mariadb)", mend)


def clean() -> list[str]:
    """Remove what processes that are gone have left: work folders of builds, containers. Says what it removed."""
    folders = _cut_short()
    for folder in folders:
        cache.remove(folder)
    try:
        containers = leftovers.clear() if shutil.which("docker") else []
    except SandboxUnavailable:  # a daemon that is down runs no containers
        containers = []
    return [*(f"folder {folder}" for folder in folders), *(f"container {name[:12]}" for name in containers)]
