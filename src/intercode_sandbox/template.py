"""Read-only layers from which a local sandbox starts, each cached by its content.

    base    a root file system (folder, tar, or a built image), or a skeleton that borrows this
            machine's /usr
    tree    a folder or tar placed at `/`
    setup   the changes of a script that ran once, inside a sandbox (added by `local.py`)

tar unpacks layers as the sandboxes' user, so that every file belongs to the agent's root. Device
nodes are left out.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from intercode_sandbox import cache
from intercode_sandbox.errors import DataError, UsageError, did_you_mean_file
from intercode_sandbox.guest.layers import OPAQUE, WHITEOUT, Digests, describe_entry
from intercode_sandbox.identity import identity
from intercode_sandbox.results import Change

TREE = "tree"
PYTHON_CACHE = "__pycache__"
"""Folders that are not copied: their files contain the paths where the sources were compiled."""
# A layer's file with `environment` and `cwd`, for the sessions that start from its image, and the
# `command` that the image is made to run.
_SETTINGS = "settings.json"
_FOLDERS = (
    *("dev", "etc", "home", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "usr"),
    *("var/log", "tmp", "var/tmp"),
)
# Settings in /etc of programs in /usr, which do not start without them.
_BORROWED = (
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "os-release",
    "debian_version",
    "magic",
    "java-*",
    "ssl/certs/java",
)
_NAME_SERVICES = "passwd: files\ngroup: files\nhosts: files\n"
_ETC_FILES = {
    "passwd": (
        "root:x:0:0:root:/root:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    ),
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost intercode\n::1 localhost\n",
    "hostname": "intercode\n",
    "nsswitch.conf": _NAME_SERVICES,
}

_COMPRESSED = {
    b"\x1f\x8b": "--gzip",
    b"BZh": "--bzip2",
    b"\xfd7zXZ": "--xz",
    b"\x28\xb5\x2f\xfd": "--zstd",
}
# The messages of tar on a full disk; the last is for a file that was cut off.
_FULL = re.compile(
    r": (No space left on device|Disk quota exceeded|Wrote only \d+ of \d+ bytes)$", re.MULTILINE
)
# The messages of tar for an archive that lacks its end, and those of gzip, bzip2, xz and zstd.
_CUT_SHORT = re.compile(
    r"^tar: (?:Unexpected EOF in archive|A lone zero block at \d+)$"
    r"|^(?!tar: ).*(?:unexpected end|ends unexpectedly|premature end)",
    re.MULTILINE | re.IGNORECASE,
)
# A line of tar's `--block-number`. Otherwise tar is silent if the end of an archive is missing.
_END_OF_ARCHIVE = b"** Block of NULs **"


@dataclass(frozen=True)
class Template:
    """The start of local sandboxes: `layers`, bottom first, each with its files in a folder `tree`.

    `digest` covers the content and the files' times; `content` leaves out the times of a tree's
    files, which differ from clone to clone. `host_folders` of this machine are mounted read-only at
    their own path, without the `hidden` folders below them.
    """

    layers: tuple[Path, ...]
    host_folders: tuple[str, ...]
    digest: str
    hidden: tuple[str, ...] = ()
    content: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that the image sets."""
        return dict(_settings(self.layers[0]).get("environment", {}))

    @property
    def cwd(self) -> str:
        """Return the folder in which sessions begin."""
        return str(_settings(self.layers[0]).get("cwd", "/"))

    @property
    def command(self) -> list[str]:
        """Return what the image is made to run."""
        return list(_settings(self.layers[0]).get("command", ()))

    def over(self, layer: Path, content: str = "") -> Template:
        """Return this template with one more layer on top; `content` names what is in it if the
        folder's name does not."""
        digest = hash_of(self.digest, layer.name)
        content = hash_of(self.content, content or layer.name)
        return replace(self, layers=(*self.layers, layer), digest=digest, content=content)

    def files(self, skip: Collection[str] = ()) -> dict[str, Change]:
        """Return the state of all files and links by absolute path, leaving out names in `skip` and
        everything below them."""
        entries: dict[str, Change] = {}
        for layer in self.layers:
            if (layer / TREE).is_dir():  # a script may have changed nothing
                _list(layer / TREE, "", frozenset(skip), entries)
        return {path: state for path, state in entries.items() if state.type != "dir"}


def _settings(layer: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((layer / _SETTINGS).read_text("utf-8")))
    except FileNotFoundError:
        return {}


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an image from its config at Docker."""
    return {
        "environment": dict(line.split("=", 1) for line in config.get("Env") or ()),
        "cwd": config.get("WorkingDir") or "/",
        "command": (config.get("Entrypoint") or []) + (config.get("Cmd") or []),
    }


def write_settings(layer: Path, settings: Mapping[str, object]) -> None:
    (layer / _SETTINGS).write_text(json.dumps(settings), "utf-8")


def _list(folder: Path, path: str, skip: frozenset[str], entries: dict[str, Change]) -> None:
    """Add a layer's entries to `entries`, as overlay does: a whiteout or an opaque folder hides
    entries of lower layers."""
    for entry in os.scandir(folder):
        if entry.name in skip:
            continue
        name = f"{path}/{entry.name}"
        info = entry.stat(follow_symlinks=False)
        is_folder = stat.S_ISDIR(info.st_mode)
        removed = stat.S_ISCHR(info.st_mode) and info.st_rdev == 0
        removed = removed or is_marked(entry.path, WHITEOUT)
        if removed or not is_folder or is_marked(entry.path, OPAQUE):
            for lower in list(entries):
                if lower == name or lower.startswith(f"{name}/"):
                    del entries[lower]
        if not removed:
            entries[name] = Change("added", **describe_entry(None, entry.path, info, Digests()))
        if is_folder:
            _list(Path(entry.path), name, skip, entries)


def is_marked(path: str, name: str) -> bool:
    """Return whether overlay's mark `name` is set."""
    try:
        return os.getxattr(path, name, follow_symlinks=False) == b"y"
    except OSError:
        return False


def base(image: str | None) -> Template:
    """Return the bottom layer: this machine's userland by default, else a built image, a root file
    system, or a tar of one."""
    if image is None:
        return _host()
    built = cache.root() / "images" / image
    if "/" not in image and built.is_dir():
        return of_layer(built)
    path = Path(image)
    if not path.exists():
        raise UsageError(
            f"no image named {image!r} and no such path; "
            f"make one with `intercode image build {image}`, or name another, "
            "or the path of a root file system: --image NAME"
        )
    if path.is_dir() and not has_bash(path):
        raise UsageError(f"{path} is not a root file system: it has no bash in bin or usr/bin")
    return of_layer(unpack(path))


def is_folder(path: Path) -> bool:
    """Return whether there is a folder, not a link to one."""
    return path.is_dir() and not path.is_symlink()


def has_bash(root: Path) -> bool:
    return os.path.lexists(root / "bin/bash") or os.path.lexists(root / "usr/bin/bash")


def of_layer(layer: Path) -> Template:
    """Return the template whose only layer is a root file system."""
    digest = hash_of("root", layer.name, str(layer.stat().st_mtime_ns))
    return Template((layer,), (), digest, content=hash_of("root", layer.name))


def with_network_files(template: Template) -> Template:
    """Return `template` with the files of this machine by which programs find hosts, and, where
    /usr is borrowed, the certificates that they trust."""
    names = ["resolv.conf", "hosts"]
    contents = {}
    if template.host_folders:
        names.append("ssl/certs/ca-certificates.crt")
        services = _NAME_SERVICES.replace("hosts: files", "hosts: files dns")
        contents["nsswitch.conf"] = services.encode()
    for name in names:
        path = Path("/etc", name)
        if path.is_file():
            contents[name] = path.read_bytes()

    def build(layer: Path) -> None:
        layer.chmod(0o755)
        for name, content in contents.items():
            path = layer / TREE / "etc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for path in layer.rglob("*"):
            identity().own(path)

    return template.over(cache.folder("layers", hash_of(repr(sorted(contents.items()))), build))


def with_tree(template: Template, tree: Path) -> Template:
    """Return `template` with `tree`, a folder or tar, at `/`."""
    layer = unpack(tree)
    for folder in template.host_folders:
        if (layer / TREE / folder.lstrip("/")).is_dir():
            raise UsageError(
                f"{tree} has files under {folder}, which is borrowed from this machine; "
                "give a root file system: --image DIR"
            )
    for path in sorted((layer / TREE).rglob("*")):
        place = path.relative_to(layer / TREE)
        for below in template.layers:
            link = below / TREE / place
            if link.is_symlink() and is_folder(path):  # overlay would hide the link
                raise UsageError(
                    f"{tree} has a folder {place}, which is a link to {os.readlink(link)}"
                    " in the image below; put its files there"
                )
    if tree.is_dir():
        return template.over(layer, folder_digest(tree, times=False))
    return template.over(layer)


def with_folder(template: Template, folder: Path) -> Template:
    """Return `template` with a copy of a folder of this machine at the same absolute path, in which
    the agent can change nothing; folders above it, such as /tmp, stay the agent's. Raises
    `UsageError` if there is no such folder."""
    folder = folder.resolve()
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    digest = folder_digest(folder)
    above = {}
    for layer in template.layers:
        for parent in folder.parents[:-1]:
            name = str(parent)[1:]
            path = layer / TREE / name
            if is_folder(path):
                above[name] = path
    modes = []
    for name, path in above.items():
        info = path.stat()
        modes.append((name, info.st_mode, info.st_uid, info.st_gid))

    def build(layer: Path) -> None:
        tree = new_tree(layer)
        shutil.copytree(folder, tree / str(folder)[1:], symlinks=True)
        for name, _, user, group in modes:
            shutil.copystat(above[name], tree / name)
            os.chown(tree / name, user, group)

    layer = cache.folder("layers", hash_of("tree", str(folder), repr(modes), digest), build)
    return template.over(layer, digest)


def unpack(source: Path) -> Path:
    """Return the layer that contains `source`, a folder or a tar; it is made if it is not in the
    cache."""
    if not source.exists():
        raise UsageError(f"{source}: no such file or folder{did_you_mean_file(source)}")
    try:
        digest = _digest(source)
    except OSError as error:
        raise UsageError(f"{error.filename or source} cannot be read: {error.strerror}") from error
    return cache.folder("layers", digest, lambda work: _extract(source, new_tree(work)))


def _host() -> Template:
    borrowed = [path for name in _BORROWED for path in sorted(Path("/etc").glob(name))]
    key = hash_of("host", repr(_ETC_FILES), *map(_digest, borrowed))
    layer = cache.folder("layers", key, lambda work: _skeleton(new_tree(work), borrowed))
    folders = ["/usr", *(f"/{name}" for name in _usr_names() if not Path("/", name).is_symlink())]
    # the content is just "host", since a run records the versions of its tools
    return Template((layer,), tuple(folders), key, tuple(_hidden(folders)), "host")


def _hidden(host_folders: list[str]) -> Iterator[str]:
    """Yield the folders below `host_folders` that an agent must not find: this machine's own
    programs, this package with its golds, and the folders of the run. /usr/local stays visible
    where Python itself is there, as in Python's images.
    """
    local = [Path("/usr/local")] if os.access("/usr/bin/python3", os.X_OK) else []
    packages = Path(__file__).parents[1].glob("intercode*")
    candidates = [*local, Path("/usr/src"), *packages, cache.root()]
    with suppress(FileNotFoundError):  # it has been removed
        candidates.append(Path.cwd())
    for path in candidates:
        if path.is_dir() and not set(map(str, path.parents)).isdisjoint(host_folders):
            yield str(path)


def new_tree(layer: Path) -> Path:
    """Make the folder for a layer's files. The sandboxes' user owns it, and will own the files in
    it."""
    layer.chmod(0o755)
    tree = layer / TREE
    tree.mkdir()
    tree.chmod(0o755)
    identity().own(tree)
    return tree


def _skeleton(root: Path, borrowed: list[Path]) -> None:
    for name in _FOLDERS:
        (root / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    for name in _usr_names():
        path = Path("/", name)
        if path.is_symlink():
            (root / name).symlink_to(os.readlink(path))
        else:
            (root / name).mkdir()
    for name, text in _ETC_FILES.items():
        (root / "etc" / name).write_text(text, "utf-8")
    for path in borrowed:
        target = root / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, target, symlinks=True)
        else:
            shutil.copy(path, target)
    user = identity()
    if user.other:
        for path in (root, *root.rglob("*")):
            os.chown(path, user.uid, user.gid, follow_symlinks=False)


def _usr_names() -> list[str]:
    """Return the names of the folders in `/` that are also in /usr."""
    return [name for name in ("bin", "sbin", "lib", "lib32", "lib64") if Path("/", name).exists()]


def _extract(source: Path, root: Path) -> None:
    if source.is_dir():
        command = ["tar", "-C", str(source), "--sparse", "--one-file-system"]
        command += [f"--exclude={PYTHON_CACHE}", "-cf", "-", "."]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as pack:
            untar(source, root, pack.stdout)
        if pack.returncode:
            raise DataError(f"{source}: not all of it can be read; see tar's messages above")
    else:
        with open(source, "rb") as archive:
            untar(source, root, archive)
    if (root / "usr").exists() or (root / "bin").exists():
        mount_points(root)


def mount_points(root: Path) -> None:
    for name in ("proc", "dev"):
        path = root / name
        if path.is_symlink():  # which may lead out of the tree
            path.unlink()
        path.mkdir(exist_ok=True)
        identity().own(path)


def untar(source: Path, root: Path, archive: IO[bytes] | None, skip: Collection[str] = ()) -> None:
    """Unpack `archive` into `root`, leaving out names in `skip` and everything below them; errors
    name `source`.

    Raises `OSError` if the disk of `root` is full, and `DataError` for other errors of tar, and for
    an archive without the two blocks of zeros at its end.
    """
    options = ["--no-same-owner", "-p", "--anchored"]
    options += ["--exclude=dev/*", "--exclude=./dev/*", "--exclude=/dev/*"]
    options += ["--delay-directory-restore", "--block-number"]
    options += [f"--exclude={name}" for name in skip]
    # tar detects compression only for a path, which its user may not read
    if archive is not None and archive.seekable():
        start = os.pread(archive.fileno(), 6, 0)
        for mark, option in _COMPRESSED.items():
            if start.startswith(mark):
                options.append(option)
    unpacking = subprocess.run(
        ["tar", "-C", str(root), "-x", *options, "-f", "-"],
        stdin=archive,
        capture_output=True,
        env={**os.environ, "LC_ALL": "C"},
        **identity().popen(),
    )
    message = unpacking.stderr.decode(errors="replace").strip()
    status = unpacking.returncode
    if status and _FULL.search(message):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(root))
    lacks_end = not status and _END_OF_ARCHIVE not in unpacking.stdout
    if lacks_end or _CUT_SHORT.search(message):
        raise DataError(f"{source}: the archive is cut short; make or download it again")
    if status:
        harmless = "tar: Removing leading "
        lines = [line for line in message.splitlines() if not line.startswith(harmless)]
        lines.append(str(status))
        raise DataError(
            f"{source}: cannot be unpacked: {lines[0]}; is it a folder or a tar, and not cut short?"
        )


def hash_of(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:32]


def _digest(path: Path) -> str:
    return folder_digest(path) if path.is_dir() else _file_digest(path)


def _file_digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def folder_digest(folder: Path, *, times: bool = True) -> str:
    """Return a digest of names, kinds, modes, times, links and contents, in sorted order, without
    `PYTHON_CACHE`."""
    state = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if PYTHON_CACHE in name.parts:
            continue
        info = path.lstat()
        time = info.st_mtime_ns if times else ""
        state.update(f"{name}\0{info.st_mode:o}\0{time}\0".encode(errors="surrogateescape"))
        if stat.S_ISREG(info.st_mode):
            state.update(_file_digest(path).encode())
        elif stat.S_ISLNK(info.st_mode):
            state.update(os.fsencode(os.readlink(path)))
    return state.hexdigest()[:32]
