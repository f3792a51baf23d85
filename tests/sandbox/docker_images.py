"""Images for the docker tests, made on the spot: no registry is asked. Each is made once and stays
in docker.

debian     a small one by mmdebstrap, with Python, bubblewrap and a service in it
busybox    one static program and its links
bare       a file, and no program at all
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

SHELF = "intercode-test"


def require_docker() -> None:
    if shutil.which("docker") is None:
        pytest.skip("the docker command is not installed")
    if _ask("version").returncode:
        pytest.skip("the docker daemon does not answer")


def remove(shelf: str) -> None:
    """All images with a tag of that name."""
    if shutil.which("docker") and (
        names := _ask("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", shelf).stdout.split()
    ):
        subprocess.run(
            ["docker", "image", "rm", "--force", *names], check=True, stdout=subprocess.DEVNULL
        )


def debian() -> str:
    tag = f"{SHELF}:debian-slim-bubblewrap-procps-python3-redis"
    if _known(tag):
        return tag
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed, and the image is made by it")
    # half of all files
    slim = [
        f"--dpkgopt=path-exclude=/usr/share/{name}/*"
        for name in ("doc", "locale", "man", "zoneinfo")
    ]
    packages = "bubblewrap,procps,python3,redis-server"
    command = [
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        f"--include={packages}",
        *slim,
        "bookworm",
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root.tar"
        subprocess.run([*command, str(root)], check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["docker", "import", "--change", 'CMD ["bash"]', str(root), tag], check=True)
    return tag


def busybox() -> str:
    program = shutil.which("busybox")
    if (
        program is None
        or b"statically linked"
        not in subprocess.run(["file", "-L", program], stdout=subprocess.PIPE).stdout
    ):
        pytest.skip("busybox-static is not installed")
    names = subprocess.run(
        [program, "--list"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split()
    files = {
        "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n",
        "bin/busybox": Path(program).read_bytes(),
    }
    return _imported(
        "busybox",
        files,
        ("tmp", "var/tmp"),
        {f"bin/{name}": "busybox" for name in names if name != "busybox"},
    )


def bare() -> str:
    return _imported("bare", {"etc/motd": b"nothing runs here\n"})


def _imported(
    name: str,
    files: dict[str, bytes],
    folders: Sequence[str] = (),
    links: Mapping[str, str] | None = None,
) -> str:
    """An image with these files, which anyone may run, named by what is in it."""
    tag = (
        f"{SHELF}:{name}-{hashlib.sha256(repr((files, folders, links)).encode()).hexdigest()[:12]}"
    )
    if _known(tag):
        return tag
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        for each in (*folders, *(str(Path(path).parent) for path in files)):
            Path(root, each).mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            Path(root, path).write_bytes(content)
            Path(root, path).chmod(0o755)
        for path, target in (links or {}).items():
            Path(root, path).symlink_to(target)
        pack = ["tar", "-C", root, "--owner=0", "--group=0", "-c", "."]
        with subprocess.Popen(pack, stdout=subprocess.PIPE) as packed:
            subprocess.run(
                ["docker", "import", "--change", 'CMD ["sh"]', "-", tag],
                stdin=packed.stdout,
                check=True,
            )
    return tag


def _known(tag: str) -> bool:
    return _ask("image", "inspect", tag).returncode == 0


def _ask(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["docker", *words], capture_output=True, check=False)
