"""Images: root file systems with a given set of packages, made by mmdebstrap and kept in the cache.

    mmdebstrap ── tar ──► unpacked as the sandboxes' user ──► ROOT/images/NAME

An image is complete or absent: it is built in a hidden folder and renamed. mmdebstrap chooses apt's
mirror. Root runs mmdebstrap in its own mount namespace, so that no mount is left over however it
ends; other users run it in whichever mode mmdebstrap finds (subordinate uids, else fakechroot).
Manuals, translations and package documents are left out, as container images do; times are clamped
to `EPOCH`, so that two builds of the same packages differ in nothing that a task could see. Not
supported: other distributions' package managers (give a root file system or its tar to `--image`
instead), and updating an image in place (build it again with `force`).
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from intercode_sandbox import cache, template
from intercode_sandbox.errors import SandboxError, SandboxUnavailable, UsageError
from intercode_sandbox.identity import identity

Progress = Callable[[str], None]
EPOCH = 1_650_240_000
"""The latest time that a file may have, in seconds since 1970: 2022-04-18, the date of the base
image of InterCode v1's containers."""

DEFAULT_PACKAGES = (
    "tree",
    "rename",
    "cpio",
    "bind9-dnsutils",
    "iputils-ping",
    "ncal",
    "jq",
    "curl",
    "ncompress",
    "hashdeep",
    "git",
    "netbase",
    "psmisc",
    "procps",
    "net-tools",
    "bsdextrautils",
    "file",
    "bzip2",
    "xz-utils",
    "zip",
    "unzip",
    "less",
)
"""The programs that shell tasks call: those in NL2Bash's golds, and a few that every shell user
knows. gawk, xxd, bc and rsync are absent on purpose: InterCode v1 had none of them (its awk was
mawk), and an agent that finds them would earn different rewards."""
V1_BASH = "v1-bash"
PACKAGES: dict[str, tuple[str, ...]] = {
    V1_BASH: (
        "bash",
        "python3",
        "psmisc",
        "bsdmainutils",
        "cron",
        "imagemagick",
        "dnsutils",
        "git",
        "tree",
        "net-tools",
        "iputils-ping",
        "coreutils",
        "curl",
        "cpio",
        "jq",
        "procps",
        "bzip2",
        "e2fsprogs",
        "less",
        "patch",
        "openssh-client",
        "netbase",
    )
}
"""The packages of predefined images. `v1-bash` is the root file system of InterCode v1's recorded
runs: the packages in its Dockerfile, then those that Ubuntu adds, from its base image and because
git and perl recommend them."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NO_NAME = re.compile(r"[^a-z0-9_-]+")
_WORD = re.compile(r"[a-z0-9][a-z0-9._+-]*")
_OMITTED = (
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
)
_UNKNOWN = re.compile(
    r"Unable to locate package|has no installation candidate|does not have a Release file"
)
_MACHINE_FILES = {
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
    """Make the image `name` and return its folder. By default its packages are those that
    `PACKAGES` lists for that name, else `DEFAULT_PACKAGES`. `progress` gets mmdebstrap's lines.

    `force` replaces an image of that name once the new one is complete; open sandboxes of the old
    one lose its files. Raises `UsageError` for a bad or taken name and unknown packages,
    `SandboxUnavailable` where no image can be made, and `SandboxError` if the mirror or the disk
    fails.
    """
    packages = packages or PACKAGES.get(name, DEFAULT_PACKAGES)
    for word in (suite, *packages):
        if not _WORD.fullmatch(word):
            raise UsageError(
                f"{word!r} is neither a package name nor a suite of Debian; "
                "give one at a time, as apt-get install does"
            )

    def fill(folder: Path) -> None:
        root = template.new_tree(folder)
        folder.parent.chmod(0o755)
        with tempfile.TemporaryFile(dir=folder.parent) as archive:
            _mmdebstrap(packages, suite, folder.parent, archive, progress)
            archive.seek(0)
            template.untar(Path(f"mmdebstrap's {suite}"), root, archive)
        write_machine_files(root)
        # a template's digest includes this time, so that setup layers of a replaced image are not
        # reused
        os.utime(folder)

    return keep_image(name, fill, force=force)


def keep_image(name: str, fill: Callable[[Path], None], *, force: bool) -> Path:
    """Keep the files that `fill` writes as image `name`; return its folder. Raises `UsageError` for
    a bad or taken name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name an image; use up to 64 lower-case letters, digits, '-' and '_'"
        )
    final = image_path(name)
    taken = UsageError(
        f"there is an image named {name!r} already; choose another name, or replace it with --force"
    )
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


def fill_layer(folder: Path, archive: IO[bytes], name: str, settings: Mapping[str, object]) -> None:
    """Unpack the root file system of the image `name` into `folder`, with its settings. Raises
    `UsageError` if it has no bash."""
    root = template.new_tree(folder)
    template.untar(Path(name), root, archive)
    if not template.has_bash(root):
        raise UsageError(
            f"the image {name!r} has no bash, which the local sandbox needs: "
            "use it with --sandbox docker"
        )
    write_machine_files(root)
    template.write_settings(folder, settings)
    os.utime(folder)


def own_name(reference: str) -> str:
    """Return the name under which an image of a registry is kept: its own without registry and
    forbidden characters."""
    return _NO_NAME.sub("-", reference.rpartition("/")[2].removesuffix(":latest").lower())


def image_path(name: str) -> Path:
    """Return the folder of an image, whether it exists or not."""
    return cache.root() / "images" / name


def write_machine_files(root: Path) -> None:
    """Write the files that a machine writes when it starts. Nothing is written if /etc is a link,
    which may lead out of the root."""
    template.mount_points(root)
    etc = root / "etc"
    if not etc.is_dir() or etc.is_symlink():
        return
    for name, text in _MACHINE_FILES.items():
        path = etc / name
        # a link there (to a folder of the machine that builds) is replaced, not followed
        path.unlink(missing_ok=True)
        path.write_text(text, "utf-8")
        identity().own(path)
        os.utime(path, (EPOCH, EPOCH))
    os.utime(etc, (EPOCH, EPOCH))


def _mmdebstrap(
    packages: Sequence[str], suite: str, work: Path, archive: IO[bytes], progress: Progress | None
) -> None:
    """Write the tar of a Debian root into `archive`. mmdebstrap may keep files in `work`, and
    removes them when interrupted."""
    program = shutil.which("mmdebstrap")
    if program is None:
        raise SandboxUnavailable(
            "building an image needs mmdebstrap, which is not installed; run: "
            "apt-get install mmdebstrap"
        )
    argv = [program, "--variant=minbase", "--format=tar", "--mode=auto"]
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "SOURCE_DATE_EPOCH": str(EPOCH)}
    if identity().other:
        argv[-1] = "--mode=unshare"
        environment["TMPDIR"] = str(work)
    argv += [f"--dpkgopt={line}" for line in _OMITTED]
    argv += [f"--include={name}" for name in packages]
    argv += [suite, "-"]
    lines = []
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=archive,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
        cwd="/",
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                lines.append(line.rstrip())
                if progress and line.startswith("I: "):
                    progress(lines[-1][3:])
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
    if process.returncode:
        last = "\n".join([line for line in lines if line and not line.startswith("I: ")][-8:])
        if _UNKNOWN.search(last):
            raise UsageError(
                "the mirror has no such package or suite; look packages up with: "
                f"apt-cache search WORD\n{last}"
            )
        raise SandboxError(
            "mmdebstrap could not make the image: it needs the network, room on the disk, and, "
            f"if you are not root, fakechroot and fakeroot, or uidmap\n{last}"
        )
