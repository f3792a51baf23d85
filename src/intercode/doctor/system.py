"""Which system this is, and what to do where it can hold no wall. Decided from what the system says of itself."""

from __future__ import annotations

from intercode.doctor.finding import Finding, in_container
from intercode.doctor.wall import CONTAINER_OPTIONS

_IN_DOCKER = f"run intercode in a Linux container (Docker Desktop): docker run -it {CONTAINER_OPTIONS} IMAGE; or in a Linux VM"
_ELSEWHERE = {
    "Darwin": ("macOS has no namespaces", _IN_DOCKER),
    "Windows": ("Windows has no namespaces", "wsl --install, and run intercode there; or " + _IN_DOCKER),
}


def system(name: str, release: str, version: str) -> Finding:
    """`name` and `release` as `platform` tells them, `version` the content of /proc/version."""
    if name != "Linux":
        why, mend = _ELSEWHERE.get(name, (f"{name} has no namespaces", "use a Linux machine, or a Linux VM"))
        return Finding("system", False, why, mend)
    generation = wsl(version)
    if generation == 1:
        return Finding("kernel", False, f"WSL 1 ({release}) has no namespaces", "wsl --set-version DISTRIBUTION 2")
    where = (", WSL 2" if generation == 2 else "") + (", in a container" if in_container() else "")
    return Finding("kernel", True, f"{name} {release}{where}", "")


def wsl(version: str) -> int | None:
    """The generation of Windows' subsystem for Linux, by what /proc/version says; None elsewhere."""
    if "microsoft-standard" in version or "WSL2" in version:
        return 2
    return 1 if "Microsoft" in version else None
