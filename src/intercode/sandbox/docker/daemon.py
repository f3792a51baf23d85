"""The docker command, and whose fault it is when it complains."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import IO

from intercode.errors import IntercodeError, SandboxError, SandboxUnavailable, UsageError

_DOWN = re.compile(
    r"Cannot connect to the Docker daemon|error during connect|dial unix|daemon is not running|invalid bind address", re.I
)
_FORBIDDEN = re.compile(r"permission denied.*(docker|podman).*sock|connect: permission denied", re.I)
_NO_IMAGE = re.compile(r"No such image|Unable to find image|pull access denied|invalid reference format|no such object", re.I)
_FULL = re.compile(r"no space left on device", re.I)
_RUNTIME = re.compile(r"unknown or invalid runtime name: (\S+)|Unknown runtime specified (\S+)", re.I)
_NETWORK = re.compile(r"network (\S+) not found", re.I)
_CPUS = re.compile(r"Range of CPUs is from .*", re.I)


def docker(*words: str, stdin: IO[bytes] | None = None, seconds: float = 120) -> str:
    """What the docker command printed. Raises what `fault` makes of its complaint."""
    try:
        done = subprocess.run(
            [program(), *words], stdin=stdin or subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise SandboxUnavailable(f"the docker daemon did not answer `{words[0]}` in {seconds:.0f} s; is it well?") from None
    if done.returncode:
        raise fault(done.stderr.decode(errors="replace"), words[-1])
    return done.stdout.decode(errors="replace").strip()


def program() -> str:
    found = shutil.which("docker")
    if found is None:
        raise SandboxUnavailable(
            "the docker command is not installed; mend it with: apt-get install docker.io (for podman: also "
            "systemctl --user start podman.socket and DOCKER_HOST=unix://$XDG_RUNTIME_DIR/podman/podman.sock)"
        )
    return found


def fault(said: str, image: str) -> IntercodeError:
    """The error for a complaint of docker's about `image`."""
    if broken := machine_fault(said):
        return broken
    if unknown := _RUNTIME.search(said):
        return UsageError(f"docker knows no runtime {(unknown[1] or unknown[2]).rstrip('.')!r}; see: docker info")
    if missing := _NETWORK.search(said):
        return UsageError(f"docker knows no network {missing[1]!r}; see: docker network ls")
    if wrong := _CPUS.search(said):
        return UsageError(f"this machine has fewer CPUs: {wrong[0]}")
    if _NO_IMAGE.search(said):
        return UsageError(
            f"docker has no image {image!r}; get it with: docker pull {image}, or give the path of a Dockerfile to --image"
        )
    return SandboxError(f"docker failed:\n{_end(said)}")


def machine_fault(said: str) -> SandboxError | None:
    """The error, if it is neither the image's nor the caller's doing."""
    if _FORBIDDEN.search(said):
        return SandboxUnavailable("this user may not use the docker daemon; mend it with: sudo usermod -aG docker $USER")
    if _DOWN.search(said):
        what = "the docker daemon is down; start it with: systemctl start docker (or dockerd &)"
        if host := os.environ.get("DOCKER_HOST"):
            what = f"the docker daemon is down, or not at DOCKER_HOST={host}; correct or unset that, or start it there"
        return SandboxUnavailable(f"{what}\n{_end(said)}")
    if _FULL.search(said):
        return SandboxError(f"docker's disk is full; free some space with: docker system prune\n{_end(said)}")
    return None


def _end(said: str) -> str:
    return said.strip()[-600:]
