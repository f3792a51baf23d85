"""What a chroot sandbox starts from: one folder with all files, and how it is copied.

    template's layers ──► one tree (cached; a template of one layer is that layer) ──► + what a setup script changes
                                 └── tar │ tar, as the sandbox's user ──► its copy, with devices of root's

Without an image that is this machine's own /usr, less what `template.base` covers; a large one is refused.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from intercode.errors import SandboxError, SandboxUnavailable, UsageError
from intercode.sandbox import cache, template
from intercode.sandbox.template import Template
from intercode.types import Change

_LARGEST = 2 << 30
_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
_OURS = ("dev", "proc", "sys")
"""Folders that the agent cannot write to, since what changes in them is not looked at."""


@dataclass(frozen=True)
class Tree:
    """A layer of the cache with all files; `digest` names the content."""

    layer: Path
    digest: str

    @property
    def root(self) -> Path:
        return self.layer / template.TREE

    @property
    def template(self) -> Template:
        return Template((self.layer,), (), self.digest)

    def files(self, skip: Collection[str] = ()) -> dict[str, Change]:
        return self.template.files(skip)


def make_tree(image: str | None = None, tree: Path | None = None) -> Tree:
    """`image` and `tree` as `make_template` takes them."""
    made = template.base(image)
    if tree is not None:
        made = template.with_tree(made, tree)
    if len(made.layers) == 1 and not made.lent:
        return Tree(made.layers[0], made.digest)
    return Tree(cache.folder("layers", _key(made.digest, "one tree"), lambda folder: _flatten(made, folder)), made.digest)


def with_script(below: Tree, text: str, *, name: str) -> Tree:
    """What the Bash script `text` changes, added; `name` stands in error messages."""
    key = _key(below.digest, "chroot", text)
    return Tree(cache.folder("layers", key, lambda folder: _run(below, text, name, folder)), key)


def _run(below: Tree, text: str, name: str, folder: Path) -> None:
    from intercode.sandbox.build import SETUP_LIMITS, run_setup
    from intercode.sandbox.chroot.sandbox import ChrootSandbox

    with ChrootSandbox(below, limits=SETUP_LIMITS, session="stateless") as sandbox:
        run_setup(sandbox, text, name)
        with _packed(sandbox.settled()) as archive:
            template.untar(Path(name), template.new_tree(folder), archive)
    template.keep_settings(folder, below.template.environment, below.template.cwd)


def _flatten(made: Template, folder: Path) -> None:
    root = template.new_tree(folder)
    template.keep_settings(folder, made.environment, made.cwd)
    for layer in made.layers:
        with _packed(layer / template.TREE) as archive:
            template.untar(layer, root, archive)
    if made.lent:
        _require_small(made.lent)
        covered = [f"--exclude={path[1:]}/*" for path in made.covered]
        with _packed(Path("/"), *[path[1:] for path in made.lent], options=["--anchored", *covered]) as archive:
            template.untar(Path("/usr"), root, archive)


def _require_small(folders: Collection[str]) -> None:
    size = sum(os.lstat(os.path.join(at, name)).st_size for top in folders for at, _, names in os.walk(top) for name in names)
    if size > _LARGEST:
        raise UsageError(
            f"the chroot sandbox copies its files, and this machine's {', '.join(folders)} have {size >> 30} GiB: "
            "give a smaller root file system with --image"
        )


def copy(tree: Tree, target: Path, uid: int) -> None:
    """The tree's files at `target`, which belong to `uid`."""
    target.mkdir()
    os.chown(target, uid, uid)
    with _packed(tree.root) as archive:
        done = subprocess.run(
            ["tar", "-x", "-p", "--no-same-owner", "--delay-directory-restore", "-f", "-"],
            stdin=archive, capture_output=True, text=True, cwd=target, user=uid, group=uid, extra_groups=[],
        )  # fmt: skip
    if done.returncode:
        raise SandboxError(f"the template cannot be copied to {target}: {done.stderr.strip()[-300:]}; is the disk full?")
    _own_folders(target)


@contextmanager
def _packed(root: Path, *names: str, options: Collection[str] = ()) -> Iterator[IO[bytes]]:
    command = ["tar", "-C", str(root), "--one-file-system", "-c", "-f", "-", *options, "--", *(names or ["."])]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as pack:
        assert pack.stdout is not None
        yield pack.stdout
    if pack.returncode > 1:  # of 1 tar says that a file has changed meanwhile
        raise SandboxError(f"not all files of {root} can be read; see the lines of tar above")


def _own_folders(root: Path) -> None:
    for name in _OURS:
        folder = root / name
        template.true_folder(folder)
        os.chown(folder, 0, 0)
        folder.chmod(0o755)
    (root / "dev/shm").mkdir(exist_ok=True)
    (root / "dev/shm").chmod(0o1777)
    try:
        _devices(root / "dev")
    except OSError as error:
        raise SandboxUnavailable(
            f"devices cannot be made or used in the cache ({error.strerror}): start the container with --cap-add MKNOD, "
            "or set INTERCODE_CACHE to a disk that is not mounted with nodev"
        ) from error


def _devices(folder: Path) -> None:
    for name, (major, minor) in _DEVICES.items():
        os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        (folder / name).chmod(0o666)
    (folder / "null").open("rb").close()


def _key(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:32]
