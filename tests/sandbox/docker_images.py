"""Images for the docker tests, made on the spot: no registry is asked. Each is made once and stays in docker.

debian     a small one by mmdebstrap, with Python, bubblewrap and a service in it
busybox    one static program and its links
bare       a file, and no program at all
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

SHELF = "intercode-test"


def require_docker() -> None:
    if shutil.which("docker") is None:
        pytest.skip("the docker command is not installed")
    if _ask("version").returncode:
        pytest.skip("the docker daemon does not answer")


def remove(shelf: str) -> None:
    """All images with a tag of that name."""
    if shutil.which("docker") and (names := _ask("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", shelf).stdout.split()):
        subprocess.run(["docker", "image", "rm", "--force", *names], check=True, stdout=subprocess.DEVNULL)


def debian() -> str:
    tag = f"{SHELF}:debian-slim-bubblewrap-procps-python3-redis"
    if _known(tag):
        return tag
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed, and the image is made by it")
    slim = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man", "zoneinfo")]  # half of all files
    packages = "bubblewrap,procps,python3,redis-server"
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={packages}", *slim, "bookworm"]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root.tar"
        subprocess.run([*command, str(root)], check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["docker", "import", "--change", 'CMD ["bash"]', str(root), tag], check=True)
    return tag


def busybox() -> str:
    tag, program = f"{SHELF}:busybox", shutil.which("busybox")
    if program is None or b"statically linked" not in subprocess.run(["file", "-L", program], stdout=subprocess.PIPE).stdout:
        pytest.skip("busybox-static is not installed")
    names = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    with _tar() as archive:
        for folder in ("tmp", "var/tmp", "etc"):
            _add(archive, folder, type=tarfile.DIRTYPE, mode=0o755)
        _add(archive, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        _add(archive, "bin/busybox", Path(program).read_bytes(), mode=0o755)
        for name in sorted({*names} - {"busybox"}):
            _add(archive, f"bin/{name}", type=tarfile.SYMTYPE, linkname="busybox")
    return _imported(tag, archive)


def bare() -> str:
    with _tar() as archive:
        _add(archive, "etc/motd", b"nothing runs here\n")
    return _imported(f"{SHELF}:bare", archive)


def _tar() -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(), mode="w")


def _add(archive: tarfile.TarFile, name: str, content: bytes = b"", **fields: Any) -> None:
    member = tarfile.TarInfo(name)
    for field, value in {"mode": 0o644, **fields, "size": len(content)}.items():
        setattr(member, field, value)
    archive.addfile(member, io.BytesIO(content))


def _imported(tag: str, archive: tarfile.TarFile) -> str:
    packed = archive.fileobj
    assert isinstance(packed, io.BytesIO)
    tag += f"-{hashlib.sha256(packed.getvalue()).hexdigest()[:12]}"
    if _known(tag):
        return tag
    subprocess.run(["docker", "import", "--change", 'CMD ["sh"]', "-", tag], input=packed.getvalue(), check=True)
    return tag


def _known(tag: str) -> bool:
    return _ask("image", "inspect", tag).returncode == 0


def _ask(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["docker", *words], capture_output=True, check=False)
