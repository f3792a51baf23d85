"""The keeper as the first process of a container, which it first makes into a wall with rooms, as bubblewrap does on the host.

    the image, less what is mounted on it ──► /layers/0/tree   ┐
    its hosts and hostname                ──► /layers/1/tree   │  the new root: the keeper's whole world,
    the bundle                            ──► /guest           │  and what its cells are made of
    devices that harm nobody, a new /proc ──► /dev, /proc      ┘

Mounting takes CAP_SYS_ADMIN in the container's user namespace. It stays behind there: the keeper leaves for a namespace of its
own, in which all users of the container exist, before it makes the first cell.
"""

from __future__ import annotations

import os
import signal
import socket
import stat

from . import keeper, kernel, places, rooms, wire
from .shell import Job

_ROOM = "/dev/.intercode-room"
_NODES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
_NETWORK_FILES = ("etc/hosts", "etc/hostname", "etc/resolv.conf")
_RESOLVER = "etc/resolv.conf"
_SPACES = kernel.NEWUSER | kernel.NEWNS | kernel.NEWIPC | kernel.NEWUTS


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = socket.socket(socket.AF_UNIX)
    line.connect(places.LINE)
    config, filter_program, _ = wire.receive_with_fds(line, 1 << 20)
    folders = config["env"].get("PATH", os.defpath).split(":")
    shells = [name for name in ("bash", "sh") if any(os.access(f"{folder}/{name}", os.X_OK) for folder in folders)]
    if not shells:
        wire.send(line, {"shell": False})
        return
    if "bash" not in shells:
        bundle = places.BUNDLE
        Job.bash = (f"{bundle}/loader", "--library-path", f"{bundle}/lib", "--argv0", "bash", f"{bundle}/shell")
    try:
        config, kind = keeper.equip(config)
        _build(_NETWORK_FILES[:2] if config["own_network"] else _NETWORK_FILES)
        _emigrate()
        made = keeper.Keeper(line, config, kind, filter_program)
    except OSError as error:
        wire.send(line, {"failed": str(error)})
        return
    wire.send(line, {"ready": True})
    made.serve()


def _build(network_files: tuple[str, ...]) -> None:
    """A new root, and nothing of the old one but what is in it."""
    os.mkdir(_ROOM)
    kernel.mount("tmpfs", _ROOM, "tmpfs", kernel.NOSUID, "mode=755")
    image = _folder(f"layers/0/{rooms.TREE}")
    kernel.mount("/", image, flags=kernel.BIND)
    kernel.mount("none", image, flags=kernel.BIND | kernel.REMOUNT | kernel.RDONLY)
    _take_network_files(_folder(f"layers/1/{rooms.TREE}"), network_files)
    kernel.bind(places.BUNDLE, _folder("guest"))
    kernel.mount("proc", _folder("proc"), "proc", kernel.NOSUID | kernel.NODEV | kernel.NOEXEC)
    _furnish(_folder("dev"))
    kernel.enter_root(_ROOM)


def _folder(name: str) -> str:
    path = f"{_ROOM}/{name}"
    os.makedirs(path)
    return path


def _take_network_files(layer: str, names: tuple[str, ...]) -> None:
    """The image's own are empty: the daemon mounts these over them."""
    os.mkdir(f"{layer}/etc")
    for name in names:
        if os.path.ismount(f"/{name}"):
            with open(f"/{name}", "rb") as source, open(f"{layer}/{name}", "wb") as copy:
                copy.write(source.read())
    for name in ("etc", ""):
        info = os.stat(f"/{name}")
        os.chmod(f"{layer}/{name}", stat.S_IMODE(info.st_mode))
        os.utime(f"{layer}/{name}", ns=(info.st_atime_ns, info.st_mtime_ns))


def _furnish(dev: str) -> None:
    """Devices can be written to, but their modes, owners and times, which all episodes share, cannot be changed."""
    kernel.mount("tmpfs", dev, "tmpfs", kernel.NOSUID, "mode=755")
    for name in _NODES:
        open(f"{dev}/{name}", "wb").close()
        kernel.mount(f"/dev/{name}", f"{dev}/{name}", flags=kernel.BIND)
        kernel.mount("none", f"{dev}/{name}", flags=kernel.BIND | kernel.REMOUNT | kernel.RDONLY | kernel.NOSUID)
    for name, target in _LINKS.items():
        os.symlink(target, f"{dev}/{name}")
    for name in ("pts", "shm"):
        os.mkdir(f"{dev}/{name}")
    if Job.bash != ("bash",):
        lent = f"{dev}/{os.path.basename(places.BUNDLE)}"
        os.mkdir(lent)
        kernel.bind(places.BUNDLE, lent)


def _emigrate() -> None:
    """To a user namespace with the same users. Who writes its map must be outside: a child that stays."""
    maps = {}  # of each user of this namespace to itself
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/self/{name}") as file:
            maps[name] = "".join(f"{inside} {inside} {count}\n" for inside, _, count in map(str.split, file))
    gone, here = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(here)
        os.read(gone, 1)
        for name, text in maps.items():
            with open(f"/proc/1/{name}", "w") as file:
                file.write(text)
        os._exit(0)
    kernel.unshare(_SPACES)
    os.close(here)
    os.close(gone)
    os.waitpid(child, 0)
