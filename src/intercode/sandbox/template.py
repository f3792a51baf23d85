"""What a sandbox starts from: read-only layers, each cached by its content.

    base    a root file system (folder, tar, or a built image), or a skeleton that borrows the host's /usr
    tree    a folder or tar placed at `/`
    setup   what a script changed when it ran once, inside the wall (added by `build.py`)

Layers are unpacked by tar as the sandboxes' user, so that every file belongs to the agent's root. Device nodes are left out.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from intercode.errors import DataError, UsageError
from intercode.sandbox import cache
from intercode.sandbox.guest.layers import OPAQUE, WHITEOUT, Digests, describe_entry
from intercode.sandbox.identity import identity
from intercode.types import Change

TREE = "tree"
LEFT_OUT = "__pycache__"
"""Folders that are not taken along with a folder: they name the places where their sources were compiled."""
_SETTINGS = "settings.json"
"""Beside the files of an image's layer: `environment` and `cwd`, for the sessions that start from it."""
_FOLDERS = (
    *("dev", "etc", "home", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "usr"),
    *("var/log", "tmp", "var/tmp"),
)
_BORROWED = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "os-release", "debian_version", "magic")
_WRITTEN = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost intercode\n::1 localhost\n",
    "hostname": "intercode\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}

_COMPRESSED = {b"\x1f\x8b": "--gzip", b"BZh": "--bzip2", b"\xfd7zXZ": "--xz", b"\x28\xb5\x2f\xfd": "--zstd"}
_FULL = re.compile(r": (No space left on device|Disk quota exceeded|Wrote only \d+ of \d+ bytes)$", re.MULTILINE)
"""How tar says so; the last of a file that ends where the disk does."""


@dataclass(frozen=True)
class Template:
    """`layers` bottom first, each with its files in a folder `tree`; `digest` names the content.

    `lent` are host folders shown read-only at their own path, less what lies in the `covered` folders below them.
    """

    layers: tuple[Path, ...]
    lent: tuple[str, ...]
    digest: str
    covered: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the image sets."""
        return dict(_settings(self.layers[0]).get("environment", {}))

    @property
    def cwd(self) -> str:
        """Where sessions begin."""
        return str(_settings(self.layers[0]).get("cwd", "/"))

    def over(self, layer: Path) -> Template:
        """This template with one more layer on top."""
        return Template((*self.layers, layer), self.lent, _hash(self.digest, layer.name), self.covered)

    def files(self, skip: Collection[str] = ()) -> dict[str, Change]:
        """The state of all files and links by absolute path, but for what is called, or lies below, a name in `skip`."""
        found: dict[str, Change] = {}
        for layer in self.layers:
            if (layer / TREE).is_dir():  # a script may have changed nothing
                _list(layer / TREE, "", frozenset(skip), found)
        return {path: state for path, state in found.items() if state.type != "dir"}


def _settings(layer: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((layer / _SETTINGS).read_text())
    except FileNotFoundError:
        return {}
    return found


def keep_settings(made: Path, environment: Mapping[str, str], cwd: str) -> None:
    (made / _SETTINGS).write_text(json.dumps({"environment": dict(environment), "cwd": cwd}))


def _list(folder: Path, path: str, skip: frozenset[str], found: dict[str, Change]) -> None:
    """Add a layer's entries over those below, as overlay would: a whiteout or an opaque folder hides."""
    for entry in os.scandir(folder):
        if entry.name in skip:
            continue
        name, info = f"{path}/{entry.name}", entry.stat(follow_symlinks=False)
        hidden = (stat.S_ISCHR(info.st_mode) and info.st_rdev == 0) or _mark(entry.path, WHITEOUT)
        if hidden or not stat.S_ISDIR(info.st_mode) or _mark(entry.path, OPAQUE):
            for below in [below for below in found if below == name or below.startswith(name + "/")]:
                del found[below]
        if not hidden:
            found[name] = Change("added", **describe_entry(None, entry.path, info, Digests()))
        if stat.S_ISDIR(info.st_mode):
            _list(Path(entry.path), name, skip, found)


def _mark(path: str, name: str) -> bool:
    """Whether overlay's mark `name` is set."""
    try:
        return os.getxattr(path, name, follow_symlinks=False) == b"y"
    except OSError:
        return False


def base(image: str | None) -> Template:
    """The bottom layer: the host's userland by default, else an image's name, a root file system, or a tar of one."""
    if image is None:
        return _host()
    built = cache.root() / "images" / image
    by_name = "/" not in image and built.is_dir()
    path = built if by_name else Path(image)
    if not path.exists():
        raise UsageError(
            f"no image named {image!r} and no such path; make one with `intercode image build {image}`, "
            "or give the path of a root file system"
        )
    if path.name.startswith("Dockerfile"):
        raise UsageError(f"{path}: a Dockerfile needs --sandbox docker")
    if not by_name and path.is_dir() and not any(os.path.lexists(path / shell) for shell in ("bin/bash", "usr/bin/bash")):
        raise UsageError(f"{path} is no root file system: it has no bash in bin or usr/bin")
    layer = path if by_name else unpack(path)
    return Template((layer,), (), _hash("root", layer.name, str(layer.stat().st_mtime_ns)))


def with_tree(template: Template, tree: Path) -> Template:
    """`tree` (folder or tar) placed at `/`."""
    layer = unpack(tree)
    for lent in template.lent:
        if (layer / TREE / lent.lstrip("/")).is_dir():
            raise UsageError(
                f"{tree} has files under {lent}, which is borrowed from this machine; give a root file system with --image"
            )
    return template.over(layer)


def unpack(source: Path) -> Path:
    """The layer that holds `source`, a folder or a tar; made when it is not in the cache."""
    if not source.exists():
        raise UsageError(f"{source}: no such file or folder")
    try:
        digest = folder_digest(source) if source.is_dir() else _file_digest(source)
    except OSError as error:
        raise UsageError(f"{error.filename or source} cannot be read: {error.strerror}") from error
    return cache.folder("layers", digest, lambda made: _extract(source, new_tree(made)))


def _host() -> Template:
    borrowed = [Path("/etc") / name for name in _BORROWED if (Path("/etc") / name).exists()]
    key = _hash("host", repr(_WRITTEN), *(folder_digest(path) if path.is_dir() else _file_digest(path) for path in borrowed))
    layer = cache.folder("layers", key, lambda made: _skeleton(new_tree(made), borrowed))
    lent = ["/usr", *(f"/{name}" for name in _roots() if not Path("/", name).is_symlink())]
    return Template((layer,), tuple(lent), key, tuple(_covered(lent)))


def _covered(lent: list[str]) -> Iterator[str]:
    """What an agent must not find in a lent folder: what this machine's owner put there, this package with its golds, and the
    folders of the run. Where Python itself is in /usr/local, as in an image for it, that is lent too."""
    own = [Path("/usr/local")] if os.access("/usr/bin/python3", os.X_OK) else []
    candidates = [*own, Path("/usr/src"), Path(__file__).parents[1], cache.root()]
    with contextlib.suppress(FileNotFoundError):  # it has been removed
        candidates.append(Path.cwd())
    for path in candidates:
        if any(path.is_relative_to(folder) and str(path) != folder for folder in lent) and path.is_dir():
            yield str(path)


def new_tree(made: Path) -> Path:
    """The folder for a layer's files; owned by the sandboxes' user like all that is put there."""
    made.chmod(0o755)
    tree = made / TREE
    tree.mkdir()
    tree.chmod(0o755)
    identity().own(tree)
    return tree


def _skeleton(made: Path, borrowed: list[Path]) -> None:
    for name in _FOLDERS:
        (made / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp"):
        (made / name).chmod(0o1777)
    for name in _roots():
        path = Path("/", name)
        (made / name).symlink_to(os.readlink(path)) if path.is_symlink() else (made / name).mkdir()
    for name, text in _WRITTEN.items():
        (made / "etc" / name).write_text(text)
    for path in borrowed:
        target = made / "etc" / path.name
        shutil.copytree(path, target, symlinks=True) if path.is_dir() else shutil.copy(path, target)
    if identity().other:
        for folder, names, files in os.walk(made):
            for name in [".", *names, *files]:
                os.chown(os.path.join(folder, name), identity().uid, identity().gid, follow_symlinks=False)


def _roots() -> list[str]:
    """The folders that stand beside /usr for old programs' sake."""
    return [name for name in ("bin", "sbin", "lib", "lib32", "lib64") if Path("/", name).exists()]


def _extract(source: Path, made: Path) -> None:
    if source.is_dir():
        command = ["tar", "-C", str(source), "--one-file-system", f"--exclude={LEFT_OUT}", "-cf", "-", "."]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as pack:
            untar(source, made, pack.stdout)
        if pack.returncode:
            raise DataError(f"{source}: not all of it can be read; see the lines of tar above")
    else:
        with open(source, "rb") as archive:
            untar(source, made, archive)
    if (made / "usr").exists() or (made / "bin").exists():
        mount_points(made)


def mount_points(root: Path) -> None:
    for name in ("proc", "dev"):
        path = root / name
        if path.is_symlink():  # which may lead out of the tree
            path.unlink()
        path.mkdir(exist_ok=True)
        identity().own(path)


def untar(source: Path, made: Path, archive: IO[bytes] | None, skip: Collection[str] = ()) -> None:
    """Unpack all but what is called, or lies below, a name in `skip`.

    Raises `OSError` if the disk of `made` is full, `DataError` for all else that tar complains of.
    """
    options = ["--no-same-owner", "-p", "--exclude=./dev/*", "--exclude=dev/*", "--delay-directory-restore"]
    options += [f"--exclude={name}" for name in skip]
    if archive is not None and archive.seekable():  # tar finds it out by itself only for a path, which may be closed
        start = os.pread(archive.fileno(), 6, 0)
        options += [option for mark, option in _COMPRESSED.items() if start.startswith(mark)]
    done = subprocess.run(
        ["tar", "-C", str(made), "-x", *options, "-f", "-"],
        stdin=archive,
        capture_output=True,
        env={**os.environ, "LC_ALL": "C"},
        **identity().popen(),
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        if _FULL.search(said):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(made))
        words = [line for line in said.splitlines() if not line.startswith("tar: Removing leading ")]  # a remark, not a fault
        raise DataError(f"{source}: cannot be unpacked: {words[0] if words else done.returncode}; is it a folder or a tar?")


def _hash(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:32]


def _file_digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def folder_digest(folder: Path) -> str:
    """Names, kinds, modes, times, links and contents, in sorted order; without what Python keeps of imports (`LEFT_OUT`)."""
    state = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if LEFT_OUT not in path.relative_to(folder).parts):
        info = path.lstat()
        state.update(f"{path.relative_to(folder)}\0{info.st_mode:o}\0{info.st_mtime_ns}\0".encode(errors="surrogateescape"))
        if stat.S_ISREG(info.st_mode):
            state.update(_file_digest(path).encode())
        elif stat.S_ISLNK(info.st_mode):
            state.update(os.fsencode(os.readlink(path)))
    return state.hexdigest()[:32]
