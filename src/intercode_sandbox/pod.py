"""The pod provider: for root in an ordinary container, where no namespaces can be made, as with
Docker's default options.

    PodSandbox ──► PodHost ── guest/pod.py, as root ──► slots: a root folder and a user for each
                                                        episode

    ROOT/userland/KEY    a copy of this container's /usr, whose files are hard-linked into the roots
                         of slots
    ROOT/own/KEY         the files that an agent may change, as they are at the start
    ROOT/slots/N         a slot: its root, its lock

The isolation is weaker than with namespaces (docs/security.md), so the run records `wall: pod`.
"""

from __future__ import annotations

import functools
import itertools
import mmap
import os
import re
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from intercode_sandbox import cache
from intercode_sandbox.errors import SandboxUnavailable, UsageError
from intercode_sandbox.guest import wire
from intercode_sandbox.guest.layers import OPAQUE, WHITEOUT
from intercode_sandbox.guest.mounts import PLAYERS_SUBMIT
from intercode_sandbox.host import Process, guest_python, start_clean
from intercode_sandbox.local import (
    ALLOWING,
    LocalProvider,
    LocalSandbox,
    TemplateHost,
    allows_namespaces,
)
from intercode_sandbox.template import TREE, Template, hash_of, is_folder, is_marked

# The capabilities that the supervisor needs, with their numbers; Docker gives them by default.
_CAPABILITIES = {
    "CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7,
    "SYS_CHROOT": 18, "MKNOD": 27,
}  # fmt: skip
# The user ids of slots and wardens: in every container's map of users, and small enough for old
# archive formats.
_FIRST_USER = 61_002
_LAST_USER = 65_500
_USERLAND = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_NEEDS_PROC = re.compile(
    r"[<>]\(|/proc\b|/dev/(?:fd|std\w+)|(?:^|[|;&(`\n]|\b(?:do|then|xargs|sudo)\b|-exec)\s*"
    r"(?:df|findmnt|free|lsof|mount|pgrep|pidof|pkill|ps|pstree|top|uptime|vmstat)\b(?![-./=])"
)
_numbers = itertools.count(1)
_MAIN = (
    "import sys, importlib.util as u; s = u.spec_from_file_location('guest', "
    "sys.argv[1] + '/__init__.py', submodule_search_locations=sys.argv[1:]); "
    "sys.modules['guest'] = u.module_from_spec(s); from guest.pod import main; main()"
)


class PodProvider(LocalProvider):
    """Opens sandboxes that need no namespaces. Images are those of the local provider, but agents
    cannot write to /usr."""

    _layers = "pod-layers"

    def refuses(self, gold: str) -> str | None:
        match = _NEEDS_PROC.search(gold)
        if match:
            return f"its gold contains {match[0]!r}, which needs /proc, and --sandbox pod has none"
        return None

    def _open(self, start: Template, **options: Any) -> LocalSandbox:
        return PodSandbox(start, **options)


class PodHost(TemplateHost):
    """A supervisor of slots. The next episode uses the slot of the last one, so there are no
    spares."""

    wall = "pod"
    spares = False

    def _prepare(self, template: Template) -> dict[str, Any]:
        if self.options.root:
            raise UsageError(
                "pods have no root inside: open the sandbox with root=False, use docker, "
                f"or allow namespaces, which local needs: {ALLOWING}"
            )
        why = unfit()
        if why:
            raise SandboxUnavailable(why)
        self.identity = str(next(_numbers))
        slots = str(cache.root() / "slots")
        users = (_LAST_USER - _FIRST_USER) // 2
        files = (str(_own_files(template)), _userland(template))
        disk = self.options.limits.disk
        return {
            "mounts": (0, template.host_folders, (), disk, False),
            "pod": (slots, *files, _FIRST_USER, users, disk),
        }

    def _spawn(self, **how: Any) -> Process:
        python, _ = guest_python()
        guest = str(cache.guest_folder(python, cache.root()))
        return start_clean([python, "-s", "-S", "-B", "-c", _MAIN, guest], **how)


class PodSandbox(LocalSandbox):
    """See `LocalSandbox`."""

    kind = PodHost

    def listen(self, port: int, address: str = "127.0.0.1") -> socket.socket:
        raise UsageError(
            "a pod sandbox shares its container's network, so it has no ports of its own"
        )


@functools.cache
def unfit() -> str:
    """Return why no pod can be made here, with advice, or "" if one can."""
    if os.getuid() != 0:
        return f"--sandbox pod needs root; an ordinary user needs namespaces: {ALLOWING}"
    status = Path("/proc/self/status").read_text("utf-8")
    rights = int(status.partition("CapEff:")[2].split()[0], 16)
    missing = [name for name, number in _CAPABILITIES.items() if not rights >> number & 1]
    if missing:
        return (
            f"--sandbox pod needs the capabilities {', '.join(missing)}: "
            f"add them, or allow namespaces: {ALLOWING}"
        )
    try:
        with tempfile.TemporaryDirectory(dir=cache.root()) as folder:
            os.mknod(f"{folder}/null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
            os.close(os.open(f"{folder}/null", os.O_RDWR))
            if not _notes_changes(f"{folder}/file"):
                return (
                    "--sandbox pod needs a cache on a disk, "
                    f"and {cache.root()} is not on one (tmpfs): set INTERCODE_CACHE"
                )
    except OSError as error:
        return (
            f"--sandbox pod cannot make devices in {cache.root()} ({error.strerror}): "
            "set INTERCODE_CACHE to another folder"
        )
    return ""


def _notes_changes(path: str) -> bool:
    """Return whether the file system changes a file's ctime when a program writes to the file
    through mapped memory."""
    with open(path, "wb+") as file:
        file.write(b"first")
        file.flush()
        with mmap.mmap(file.fileno(), 5) as memory:
            # read first: some file systems do not see a change to such a page
            memory[0]
            before = os.fstat(file.fileno()).st_ctime_ns
            time.sleep(0.02)
            memory[:] = b"other"
        return os.fstat(file.fileno()).st_ctime_ns != before


def usual_provider_name() -> str:
    """Return the name of the default provider: `pod` if only a pod can be made here, else
    `local`."""
    return "local" if os.getuid() != 0 or allows_namespaces() or unfit() else "pod"


def usual_provider() -> LocalProvider:
    """Return the default provider."""
    return PodProvider() if usual_provider_name() == "pod" else LocalProvider()


def _userland(template: Template) -> list[tuple[str, str]]:
    """Return the folders that agents can only read, as (name in the agent's /, folder)."""
    userland = []
    if template.host_folders:
        copy = _copy_host_folders(template.host_folders, template.hidden)
        for folder in template.host_folders:
            userland.append((folder.lstrip("/"), f"{copy}{folder}"))
        return userland
    for layer in template.layers:
        for name in _USERLAND:
            path = layer / TREE / name
            if is_folder(path):
                userland.append((name, str(path)))
    return userland


def _copy_host_folders(folders: tuple[str, ...], hidden: tuple[str, ...]) -> Path:
    """Return the copy of this container's folders without the hidden ones; it is made again when a
    package was added."""
    state = [
        (path, os.stat(path).st_mtime_ns)
        for path in (*folders, "/usr/bin", "/usr/lib", "/var/lib/dpkg/status")
        if os.path.exists(path)
    ]

    def build(target: Path) -> None:
        target.chmod(0o755)
        excluded = [f"--exclude=.{path}/*" for path in hidden]
        names = [f".{folder}" for folder in folders]
        pack = subprocess.Popen(
            ["tar", "-C", "/", "--one-file-system", "--anchored", *excluded, "-cf", "-", *names],
            stdout=subprocess.PIPE,
        )
        with pack:
            subprocess.run(["tar", "-C", str(target), "-xpf", "-"], stdin=pack.stdout, check=True)
        if pack.returncode:
            raise OSError(f"{', '.join(folders)} cannot be copied; see tar's messages above")
        if "/usr/local" in hidden:
            (target / "usr/local/bin").mkdir()
            (target / "usr/local/bin/submit").symlink_to(PLAYERS_SUBMIT)

    return cache.folder("userland", hash_of(repr((state, hidden, PLAYERS_SUBMIT))), build)


def _own_files(template: Template) -> Path:
    """Return the folder with the merged layers of a template, without the userland."""
    left_out = {*wire.POD_FOLDERS, *(name for name, _ in _userland(template))}

    def build(folder: Path) -> None:
        folder.chmod(0o755)
        for layer in template.layers:
            for source in layer.glob(f"{TREE}/*"):
                target = folder / source.name
                if source.name in left_out:
                    continue
                whiteout = is_marked(str(source), WHITEOUT)
                merged = is_folder(source) and is_folder(target)
                if whiteout or not merged or is_marked(str(source), OPAQUE):
                    if is_folder(target):
                        shutil.rmtree(target)
                    else:
                        target.unlink(missing_ok=True)
                if not whiteout:
                    copy = ["cp", "-aT", "--remove-destination", "--", str(source), str(target)]
                    subprocess.run(copy, check=True)

    return cache.folder("own", template.digest, build)
