"""What is around the sandboxes, each tried on its own: cache, leftovers, image tools, containers, MariaDB."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from intercode.doctor.finding import Finding
from intercode.envs.sql.engines import mariadb_server
from intercode.errors import IntercodeError, SandboxUnavailable
from intercode.sandbox import cache
from intercode.sandbox.docker import leftovers
from intercode.sandbox.docker.daemon import docker

_GIB = 1 << 30
_STALE = 3600
"""Seconds after which a build's work folder counts as left over."""


def findings() -> Iterator[Finding]:
    yield _cache()
    if old := _cut_short():
        yield Finding("leftovers", None, f"{len(old)} builds were cut short", "intercode doctor --clean")
    if shutil.which("mmdebstrap"):
        yield Finding("mmdebstrap", True, "images can be built", "")
    else:
        yield Finding("mmdebstrap", None, "no images can be built (intercode image build)", "apt-get install mmdebstrap")
    yield docker_daemon()
    if (said := mariadb_server.missing()) is None:
        yield Finding("mariadb", True, "can be started (--engine mariadb)", "")
    else:
        what, _, mend = said.partition("; mend it with: ")
        yield Finding("mariadb", None, f"{what} (--engine mariadb)", mend)


def _cache() -> Finding:
    mend = "set INTERCODE_CACHE to a folder on a disk with space, which you may write and everyone may enter"
    try:
        root = cache.root()
    except (IntercodeError, OSError) as error:
        return Finding("cache", False, str(error), mend)
    if not os.access(root, os.W_OK | os.X_OK):
        return Finding("cache", False, f"{root} cannot be written", mend)
    free = shutil.disk_usage(root).free / _GIB
    return Finding("cache", True if free >= 2 else None, f"{root}, {free:.1f} GiB free", "" if free >= 2 else mend)


def _cut_short() -> list[Path]:
    """Work folders of builds that did not end; young ones may be at work."""
    found = []
    for path in cache.place().glob("*/.*"):
        with contextlib.suppress(FileNotFoundError):  # its build has just ended
            if path.is_dir() and time.time() - path.lstat().st_mtime > _STALE:
                found.append(path)
    return found


def docker_daemon() -> Finding:
    try:
        version = docker("version", "--format", "{{.Server.Version}}", seconds=10)
        old = leftovers.find()
    except IntercodeError as error:
        what, _, mend = str(error).partition("; ")
        return Finding("docker", None, f"{what} (--sandbox docker)", mend.removeprefix("mend it with: ").partition("\n")[0])
    if old:
        return Finding("docker", None, f"{len(old)} containers of processes that are gone", "intercode doctor --clean")
    return Finding("docker", True, f"the daemon answers, version {version}", "")


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
