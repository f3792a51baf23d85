"""Images: root file systems with a listed package set, made by mmdebstrap and kept in the cache.

    mmdebstrap ── tar ──► pipe ──► unpacked as the sandboxes' user ──► ROOT/images/NAME
                                                                   └─► ROOT/images/NAME.json   what is in it

An image is complete or absent: it is built in a hidden folder beside its place and renamed. apt's mirror is the one
that mmdebstrap takes by itself, unless one is given. Left out: other distributions' package managers (give a root file
system or its tar to `--image` instead), and updating an image in place (build it again with `force`).
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from intercode.errors import UsageError
from intercode.sandbox import cache, template
from intercode.sandbox.bootstrap import EPOCH, Progress, tar_stream
from intercode.sandbox.identity import identity

DEFAULT_PACKAGES = (
    *("tree", "rename", "cpio", "bind9-dnsutils", "iputils-ping", "ncal", "jq", "curl", "ncompress", "hashdeep", "git"),
    *("netbase", "psmisc", "procps", "net-tools", "bsdextrautils", "file", "bzip2", "xz-utils", "zip", "unzip", "less"),
)
"""What shell tasks call: the golds of NL2Bash, and a few that every shell user reaches for. gawk, xxd, bc and rsync are absent
on purpose: the first system had none of them (its awk was mawk), and an agent that finds them there earns other rewards."""
V1_BASH = "v1-bash"
PACKAGES: dict[str, tuple[str, ...]] = {
    V1_BASH: (
        *("bash", "python3", "psmisc", "bsdmainutils", "cron", "imagemagick", "dnsutils", "git", "tree", "net-tools"),
        *("iputils-ping", "coreutils", "curl", "cpio", "jq"),
        *("procps", "bzip2", "e2fsprogs", "less", "patch", "openssh-client", "netbase"),
    )
}
"""The packages of images with a name of their own. `v1-bash` is the root of the first system's recorded runs: the packages
that its Dockerfile asks for, then those that Ubuntu adds, from its base image and because git and perl recommend them."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_WORD = re.compile(r"[a-z0-9][a-z0-9._-]*")
_WRITTEN = {
    "machine-id": "",
    "resolv.conf": "",
    "hostname": "intercode\n",
    "hosts": "127.0.0.1 localhost intercode\n::1 localhost\n",
}


@dataclass(frozen=True)
class Image:
    """The record of an image: the `suite` of Debian, or the image of docker's, that it was made of; `packages` asked for,
    `versions` of all that are installed, `size` in bytes on disk."""

    name: str
    suite: str
    packages: tuple[str, ...]
    versions: dict[str, str]
    size: int

    @property
    def path(self) -> Path:
        return _shelf() / self.name


def build_image(
    name: str,
    packages: Sequence[str] = (),
    *,
    suite: str = "bookworm",
    mirror: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Make the image `name` and return its folder. Without `packages`, it gets those that `PACKAGES` has for that name, else
    `DEFAULT_PACKAGES`. `progress` gets mmdebstrap's lines, from another thread.

    `force` replaces an image of that name once the new one stands; sandboxes that live on the old one lose its files.
    Raises `UsageError` for a bad or taken name and unknown packages, `SandboxUnavailable` where no image can be made,
    and `SandboxError` if the mirror or the disk fails.
    """
    packages = packages or PACKAGES.get(name, DEFAULT_PACKAGES)
    _check(packages, suite)
    return keep_image(name, lambda made: _fill(made, packages, suite, mirror, progress), suite, packages, force=force)


def keep_image(name: str, fill: Callable[[Path], None], suite: str, packages: Sequence[str] = (), *, force: bool) -> Path:
    """The folder of an image whose files `fill` puts into the folder that it is given. `UsageError` for a bad or taken name."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name an image; use up to 64 lower-case letters, digits, '-' and '_'")
    final = _shelf() / name
    if final.exists() and not force:
        raise UsageError(f"there is an image named {name!r} already; choose another name, or replace it with --force")
    fresh = cache.folder("images", f".{name}-{secrets.token_hex(4)}", fill)
    try:
        record = Image(name, suite, tuple(packages), _versions(fresh / template.TREE), _size(fresh))
        _settle(fresh, final, force)
    finally:
        cache.remove(fresh)
    _record(name).write_text(json.dumps(asdict(record), indent=1) + "\n")
    return final


def list_images() -> list[Image]:
    """The images of the cache by name. A folder without a record (put there by hand) has none of its packages known."""
    return [_load(path) for path in sorted(_shelf().iterdir()) if path.is_dir() and _NAME.fullmatch(path.name)]


def _shelf() -> Path:
    shelf = cache.root() / "images"
    shelf.mkdir(exist_ok=True)
    return shelf


def _record(name: str) -> Path:
    return _shelf() / f"{name}.json"


def _load(path: Path) -> Image:
    try:
        fields = json.loads(_record(path.name).read_text())
        return Image(**{**fields, "packages": tuple(fields["packages"])})
    except (OSError, ValueError, TypeError, KeyError):
        return Image(path.name, "", (), {}, 0)


def _check(packages: Sequence[str], suite: str) -> None:
    if not _WORD.fullmatch(suite):
        raise UsageError(f"{suite!r} is no Debian suite; bookworm is one")
    for package in packages:
        if not _PACKAGE.fullmatch(package):
            raise UsageError(f"{package!r} is no package name; give one name at a time, as apt-get install takes them")


def _fill(made: Path, packages: Sequence[str], suite: str, mirror: str | None, progress: Progress | None) -> None:
    root = template.new_tree(made)
    made.parent.chmod(0o755)
    with tar_stream(packages, suite, mirror, made.parent, progress) as archive:
        template.untar(Path(f"mmdebstrap's {suite}"), root, archive)
    name_machine(root)
    os.utime(made)  # a template's digest holds this time, so that setup layers of a replaced image are not used again


def name_machine(root: Path) -> None:
    """What whoever starts a system writes into its root; nothing where /etc is a link, which may lead out of it."""
    etc = root / "etc"
    for name, text in _WRITTEN.items() if etc.is_dir() and not etc.is_symlink() else ():
        _write(etc / name, text)
    template.mount_points(root)


def _write(path: Path, text: str) -> None:
    """A link there (to a folder of the machine that builds) is replaced, never followed."""
    path.unlink(missing_ok=True)
    path.write_text(text)
    identity().own(path)
    for changed in (path, path.parent):
        os.utime(changed, (EPOCH, EPOCH))


def _settle(fresh: Path, final: Path, force: bool) -> None:
    old = fresh.with_name(f"{fresh.name}-old")
    try:
        if force and final.exists():
            final.rename(old)
        fresh.rename(final)
    except OSError:
        raise UsageError(f"another process made an image named {final.name!r} meanwhile; that one stays") from None
    finally:
        cache.remove(old)


def _versions(root: Path) -> dict[str, str]:
    """The installed packages, as dpkg's own list has them."""
    status = root / "var/lib/dpkg/status"
    listed = status.read_text(errors="replace").split("\n\n") if status.is_file() else []
    fields = [dict(re.findall(r"^(Package|Version|Status): (.+)$", entry, re.MULTILINE)) for entry in listed]
    return {each["Package"]: each["Version"] for each in fields if each.get("Status", "").endswith(" installed")}


def _size(root: Path) -> int:
    """Bytes on disk."""
    return sum(os.lstat(os.path.join(folder, name)).st_blocks * 512 for folder, _, files in os.walk(root) for name in files)
