"""Images: root file systems with a listed package set, made by mmdebstrap and kept in the cache.

    mmdebstrap ── tar ──► pipe ──► unpacked as the sandboxes' user ──► ROOT/images/NAME

An image is complete or absent: it is built in a hidden folder beside its place and renamed. apt's mirror is the one
that mmdebstrap takes by itself. Left out: other distributions' package managers (give a root file
system or its tar to `--image` instead), and updating an image in place (build it again with `force`).
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Sequence
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
_WORD = re.compile(r"[a-z0-9][a-z0-9._+-]*")
_WRITTEN = {
    "machine-id": "",
    "resolv.conf": "",
    "hostname": "intercode\n",
    "hosts": "127.0.0.1 localhost intercode\n::1 localhost\n",
}


def build_image(
    name: str,
    packages: Sequence[str] = (),
    *,
    suite: str = "bookworm",
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
    for word in (suite, *packages):
        if not _WORD.fullmatch(word):
            raise UsageError(f"{word!r} is no package name, nor a suite of Debian; give one at a time, as apt-get install does")

    def fill(made: Path) -> None:
        root = template.new_tree(made)
        made.parent.chmod(0o755)
        with tar_stream(packages, suite, made.parent, progress) as archive:
            template.untar(Path(f"mmdebstrap's {suite}"), root, archive)
        name_machine(root)
        os.utime(made)  # a template's digest holds this time, so that setup layers of a replaced image are not used again

    return keep_image(name, fill, force=force)


def keep_image(name: str, fill: Callable[[Path], None], *, force: bool) -> Path:
    """The folder of an image whose files `fill` puts into the folder that it is given. `UsageError` for a bad or taken name."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name an image; use up to 64 lower-case letters, digits, '-' and '_'")
    final = image_path(name)
    taken = UsageError(f"there is an image named {name!r} already; choose another name, or replace it with --force")
    if final.exists() and not force:
        raise taken
    fresh = cache.folder("images", f".{name}-{secrets.token_hex(4)}", fill)
    old = fresh.with_name(f"{fresh.name}-old")
    try:
        if force and final.exists():
            final.rename(old)
        fresh.rename(final)
    except OSError:  # another process has made it meanwhile
        raise taken from None
    finally:
        cache.remove(fresh)
        cache.remove(old)
    return final


def image_path(name: str) -> Path:
    """The folder of an image, whether it is there or not."""
    return cache.root() / "images" / name


def name_machine(root: Path) -> None:
    """What whoever starts a system writes into its root; nothing where /etc is a link, which may lead out of it."""
    etc = root / "etc"
    for name, text in _WRITTEN.items() if etc.is_dir() and not etc.is_symlink() else ():
        path = etc / name
        path.unlink(missing_ok=True)  # a link there (to a folder of the machine that builds) is replaced, never followed
        path.write_text(text)
        identity().own(path)
        for changed in (path, etc):
            os.utime(changed, (EPOCH, EPOCH))
    template.mount_points(root)
