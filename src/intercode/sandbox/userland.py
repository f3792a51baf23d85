"""The userland's fingerprint: which tools, in which versions, an action finds. It is part of every score.

One program is run inside, by one `exec`. What is left out: kernel, locale and file contents; two userlands whose tools have
the same names and versions count as one, whatever their patch level.
"""

from __future__ import annotations

import hashlib
import re

from intercode.errors import SandboxError
from intercode.sandbox.base import Sandbox

_SCRIPT = r"""
first() { "$@" 2>&1 </dev/null | { IFS= read -r line; printf '%s\n' "$line"; }; }
( [ -r /etc/os-release ] && . /etc/os-release; printf '%s %s\n' "${ID:-unknown}" "$VERSION_ID" )
printf '%s\n' "$BASH_VERSION"
first ls --version
first find --version
first awk -W version
IFS=:
for folder in $PATH; do
    cd -- "$folder" 2>/dev/null || continue
    for name in * .[!.]*; do [[ -f $name && -x $name ]] && printf '%s\n' "$name"; done
done
:
"""
_KEYS = ("distribution", "bash", "coreutils", "findutils", "awk")
_VERSION = re.compile(r"\d+(\.\d+)+\S*")


def fingerprint(sandbox: Sandbox) -> dict[str, str]:
    """`distribution`, versions of `bash`, `coreutils`, `findutils` and `awk` (with its maker), `tools` (SHA-256 over the sorted
    names of executables on PATH), and `id`, a short hash over them all. Take it from a fresh sandbox.

    A tool that is missing has the version "". Raises `SandboxError` if the sandbox cannot tell.
    """
    result = sandbox.exec("", argv=["bash", "--norc", "--noprofile", "-c", _SCRIPT], timeout=30)
    lines = result.output.splitlines()
    if result.exit_code != 0 or len(lines) < len(_KEYS):
        raise SandboxError(f"the sandbox cannot tell its userland; it printed:\n{result.output[-500:] or '(nothing)'}")
    found = dict(zip(_KEYS, (line.strip() for line in lines), strict=False))
    for key in ("coreutils", "findutils"):
        found[key] = _version(found[key])
    version = _version(found["awk"])
    found["awk"] = f"{found['awk'].partition(version)[0].strip()} {version}" if version else ""
    found["tools"] = hashlib.sha256("\n".join(sorted(set(lines[len(_KEYS) :]))).encode()).hexdigest()
    return {**found, "id": hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()[:12]}


def _version(line: str) -> str:
    found = _VERSION.search(line)
    return found[0].rstrip(",") if found and "not found" not in line else ""
