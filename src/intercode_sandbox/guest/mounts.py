"""The file system of one episode, which the episode server builds before the agent's first process
starts.

    /layers/0 … n      read-only template, bottom first        ┐
    /episode (tmpfs)   up/ and work/, gone with the episode    ├─ overlay: tree/ is the agent's /
    /usr, /dev         lent by the host, read-only             ┘  + own /proc, /dev/pts, /dev/shm

The agent's / is a folder in the overlay, not the overlay itself: so the folder keeps the template's
size and times until it is changed. The supervisor calls `prepare` once; an episode server calls
`build` in its new namespaces and lives in the result.

Where an overlay on a tmpfs cannot mark folders (before Linux 6.6), up/ begins with a copy of the
template's files (`copies.py`), and one more layer, of whiteouts, hides those of the template.

In a container the supervisor first builds a new root, from which the episodes' file systems are
made:

    the image, less what is mounted on it ──► /layers/0/tree
    its hosts and hostname                ──► /layers/1/tree
    the bundle                            ──► /guest
    devices that harm nobody, a new /proc ──► /dev, /proc
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from . import kernel, layers, wire
from .copies import Copies
from .light import NamedTuple

MERGED = "/merged"
TREE = "tree"
"""The folder of a layer that contains its files."""
ROOT = f"/episode/all/{TREE}"
"""The agent's /, before the episode server enters it."""
_NEW_ROOT = "/dev/.intercode-root"
_MASKED = (
    "acpi",
    "asound",
    "interrupts",
    "kcore",
    "keys",
    "latency_stats",
    "sched_debug",
    "scsi",
    "timer_list",
    "timer_stats",
)
_HIDDEN = "/hidden"
"""A layer of whiteouts that hides the copied files."""
PLAYERS_SUBMIT = "/dev/shm/agent/bin/submit"
"""The command of programs that play in a sandbox, which have it only while they do. The link on the
usual PATH leads them to it if they hand their own PATH on to nothing."""
_NO_RIGHTS = kernel.NOSUID | kernel.NODEV
_LOCKED = _NO_RIGHTS | kernel.NOEXEC
_USERLAND = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders of programs, which are not copied: they are large, and agents seldom remove files
there."""
INODE_SHARE = 2048
"""Bytes of disk for each file that may be made."""
_TERMINALS = 32
"""Pseudo-terminals of an episode; the kernel has some thousands for all programs together."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "ptmx": "pts/ptmx",
    "fd": "/proc/self/fd",
    "stdin": "fd/0",
    "stdout": "fd/1",
    "stderr": "fd/2",
}


class MountConfig(NamedTuple):
    """The host's settings: the number of layers, the host's folders that are lent and covered
    again, the size in bytes."""

    layers: int
    lent: list[str]
    covered: list[str]
    disk: int
    in_container: bool
    """In a container the image's tree is a mount, and root owns files of the machine."""
    shared_proc: bool = False
    """No /proc can be mounted here: the episodes see the supervisor's, read-only."""
    force_copy: bool = False
    """Copy the template's files for each episode, even if an overlay would suffice."""
    root: bool = False
    """The agent has root's rights over files and users."""
    copies: Copies | None = None
    """The files to copy for each episode, set by `prepare`; None: the overlay needs no copy."""

    @property
    def top(self) -> str:
        """An overlay is made of the layers, or in a container of their trees, since it does not
        show mounts inside the layers."""
        return f"/{TREE}" if self.in_container else ""

    @property
    def lower(self) -> str:
        """The option `lowerdir` of an overlay: the layers, top first."""
        layers = [f"/layers/{number}{self.top}" for number in reversed(range(self.layers))]
        return ":".join([_HIDDEN + self.top, *layers] if self.copies else layers)


class Folders(NamedTuple):
    """Descriptors that the agent cannot name: the agent's changes, and the template below them;
    both with a folder `tree`."""

    upper: int
    lower: int
    tree: str = TREE
    copies: Copies | None = None
    """The names in `tree` for which the first folder has all files, not only the changes."""
    below_seals: int = -1
    """The agent's / below the mounts that seal parts of it, if any do: here they can be written."""


def prepare(config: MountConfig) -> MountConfig:
    """Make /dev read-only, and show the layers as one tree for comparing. Called once for all
    episodes.

    Return the configuration with the files that each episode copies.
    """
    _forbid_writing("/dev", kernel.NOSUID)
    os.mkdir("/episode")
    os.makedirs(MERGED + config.top)
    if config.layers == 1:
        kernel.mount("/layers/0", MERGED, flags=kernel.BIND)
    else:
        kernel.mount(
            "overlay",
            MERGED + config.top,
            "overlay",
            kernel.RDONLY,
            f"lowerdir={config.lower},userxattr",
        )
    if _can_mark() and not config.force_copy:
        return config
    return config._replace(copies=_hide_what_is_copied(config.disk))


def _can_mark() -> bool:
    """Return whether an overlay can mark folders where episodes write. On a tmpfs it can since
    Linux 6.6."""
    try:
        os.setxattr("/episode", layers.OPAQUE, b"y")
    except OSError:
        return False
    return True


def _hide_what_is_copied(limit: int) -> Copies:
    """Make the layer that hides the files that episodes copy: all but programs, and names that
    exceed `limit` bytes."""
    os.makedirs(f"{_HIDDEN}/{TREE}")
    hidden = kernel.open_folder(f"{_HIDDEN}/{TREE}")
    copies = Copies(kernel.open_folder(f"{MERGED}/{TREE}"))
    for name in sorted(set(os.listdir(f"{MERGED}/{TREE}")).difference(_USERLAND)):
        if copies.add(name, limit):
            layers.hide(hidden, name)
    os.close(hidden)
    return copies


def build(config: MountConfig, inherited: int | None, sealed: Sequence[str]) -> Folders:
    """Mount everything but /proc. `inherited` is another episode's upper folder, which is copied
    first. `sealed` are paths that are read-only for the agent; folders end with /."""
    copies, disk, inodes = config.copies, config.disk, config.disk // INODE_SHARE
    upper, tree = "/episode/up" + config.top, f"/episode/up/{TREE}"
    overlay = f"lowerdir={config.lower},upperdir={upper},workdir=/episode/work,userxattr"
    if copies:
        disk, inodes = disk + copies.bytes, inodes + len(copies)
        overlay += ",xino=on"  # else a copied file could have the inode number of a folder
    size = f"size={disk},nr_inodes={inodes},mode=755"
    # an overlay has times of access of its own: only what the server reads here leaves none
    kernel.mount("tmpfs", "/episode", "tmpfs", _NO_RIGHTS | kernel.NOATIME, size)
    for name in ("up", "work", "all"):
        os.mkdir("/episode/" + name)
    if config.in_container:
        os.mkdir(ROOT)
    if config.in_container or (copies and inherited is None):
        os.mkdir(tree)
        layers.copy_stat(tree, os.stat(f"{MERGED}/{TREE}"))
    below = kernel.open_folder(MERGED + config.top)
    folders = Folders(kernel.open_folder(upper), below, "." if config.top else TREE, copies)
    owner = layers.SAME if config.in_container or config.root else None
    if inherited is not None:
        layers.copy(inherited, folders.upper, owner=owner)
    elif copies:
        copied = kernel.open_folder(tree)
        copies.make(copied, owner)
        os.close(copied)
    kernel.mount("overlay", "/episode/all" + config.top, "overlay", _NO_RIGHTS, overlay)
    if sealed:
        folders = folders._replace(below_seals=kernel.open_folder(ROOT))
    kernel.bind(ROOT, ROOT)
    for path in config.lent:
        kernel.bind(path, ROOT + path)
    for path in config.covered:
        place = ROOT + path
        if os.path.isdir(place):  # what is below such a folder is gone already
            kernel.mount("tmpfs", place, "tmpfs", 0, "size=64k,mode=755")
            if path == "/usr/local":
                os.mkdir(f"{place}/bin")
                os.symlink(PLAYERS_SUBMIT, f"{place}/bin/submit")
            kernel.mount("none", place, flags=kernel.REMOUNT | kernel.RDONLY)
    kernel.bind("/dev", ROOT + "/dev")
    terminals = f"newinstance,ptmxmode=0666,max={_TERMINALS}"
    kernel.mount("devpts", ROOT + "/dev/pts", "devpts", kernel.NOSUID | kernel.NOEXEC, terminals)
    kernel.mount("tmpfs", ROOT + "/dev/shm", "tmpfs", _NO_RIGHTS, "size=64m,mode=1777")
    for path in sealed:
        *above, place = make_places(ROOT, path)
        for folder in above:
            if not os.path.ismount(folder):
                kernel.bind(folder, folder)  # nobody inside can rename a mount
        kernel.bind(place, place)
        _forbid_writing(place, kernel.NOSUID)
    return folders


def make_places(root: str, path: str) -> list[str]:
    """Make a file, or a folder whose path ends with /, and the folders above it below `root`, in
    place of links; return the paths of all."""
    places, place, names = list[str](), root, path.strip("/").split("/")
    for name in names:
        place += f"/{name}"
        if os.path.islink(place):
            os.unlink(place)
        if len(places) < len(names) - 1 or path.endswith("/"):
            os.makedirs(place, exist_ok=True)
        else:
            open(place, "ab").close()
        places.append(place)
    return places


def _forbid_writing(path: str, flags: int) -> None:
    """Make a mount read-only."""
    kernel.mount("none", path, flags=kernel.BIND | kernel.REMOUNT | kernel.RDONLY | flags)


def mount_proc(config: MountConfig, *, sealed: bool) -> None:
    """Mount the agent's /proc from the agent's pid namespace, without a folder that nobody may
    read. Where paths are `sealed` it is read-only: else a program could write into the memory of
    the program that reads them.

    The kernel allows it only while the supervisor's own /proc is visible, so before `ROOT` is
    entered. In a container, whose root may write the machine's settings in /proc, it is read-only,
    and the files that containers hide are hidden.
    """
    if config.shared_proc:
        bind_read_only("/proc", "/proc")
        return
    flags = _LOCKED
    if config.in_container or sealed:
        flags |= kernel.RDONLY
    kernel.mount("proc", ROOT + "/proc", "proc", flags)
    masked = ["tty/driver"]
    if config.in_container:
        masked += _MASKED
    for name in masked:
        path = f"{ROOT}/proc/{name}"
        if os.path.isdir(path):
            kernel.mount("tmpfs", path, "tmpfs", kernel.RDONLY, "size=0,mode=555")
        elif os.path.exists(path):
            kernel.bind("/dev/null", path)


def bind_read_only(source: str, path: str) -> None:
    """Show `source` read-only in the agent's /proc."""
    kernel.bind(source, ROOT + path)
    _forbid_writing(ROOT + path, _LOCKED)


def bytes_used(path: str) -> int:
    """Return about how many bytes a tmpfs holds, including what the kernel keeps for each file
    below an overlay."""
    info = os.statvfs(path)
    files = info.f_files - info.f_ffree
    return (info.f_blocks - info.f_bfree) * info.f_frsize + files * INODE_SHARE


def is_full(path: str) -> bool:
    """Return whether a tmpfs has no room for another page or file."""
    info = os.statvfs(path)
    return not info.f_bfree or not info.f_ffree


# -- in a container --------------------------------------------------------------------------------


def build_container_root(network_files: Sequence[str], lend_bash: bool) -> None:
    """Build and enter a new root, which keeps nothing of the old one but its files. With
    `lend_bash`, it also shows the bundle with a bash."""
    os.mkdir(_NEW_ROOT)
    kernel.mount("tmpfs", _NEW_ROOT, "tmpfs", kernel.NOSUID, "mode=755")
    image = _make_folder(f"layers/0/{TREE}")
    kernel.mount("/", image, flags=kernel.BIND)
    _forbid_writing(image, 0)
    layer = _make_folder(f"layers/1/{TREE}")
    os.mkdir(f"{layer}/etc")
    for name in network_files:  # the image's own files are empty: the daemon mounts these over them
        if os.path.ismount(f"/{name}"):
            with open(f"/{name}", "rb") as source, open(f"{layer}/{name}", "wb") as copy:
                copy.write(source.read())
    for name in ("etc", ""):
        layers.copy_stat(f"{layer}/{name}", os.stat(f"/{name}"))
    kernel.bind(wire.BUNDLE, _make_folder("guest"))
    kernel.mount("proc", _make_folder("proc"), "proc", _LOCKED)
    dev = _make_folder("dev")
    kernel.mount("tmpfs", dev, "tmpfs", kernel.NOSUID, "mode=755")
    # they can be written to; their modes, owners and times, which all episodes share, cannot be
    # changed
    for name in _DEVICES:
        device = f"{dev}/{name}"
        open(device, "wb").close()
        kernel.bind(f"/dev/{name}", device)
        _forbid_writing(device, kernel.NOSUID)
    for name, target in _DEVICE_LINKS.items():
        os.symlink(target, f"{dev}/{name}")
    for name in ("pts", "shm"):
        os.mkdir(f"{dev}/{name}")
    if lend_bash:
        lent = f"{dev}/{os.path.basename(wire.BUNDLE)}"
        os.mkdir(lent)
        kernel.bind(wire.BUNDLE, lent)
    kernel.enter_root(_NEW_ROOT)


def _make_folder(name: str) -> str:
    path = f"{_NEW_ROOT}/{name}"
    os.makedirs(path)
    return path
