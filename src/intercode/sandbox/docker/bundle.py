"""The interpreter that runs the guest in any image, made of this machine's own (`bundling.py`) and cached by content."""

from __future__ import annotations

import hashlib
import subprocess
from functools import cache as remembered
from pathlib import Path

from intercode.errors import SandboxUnavailable
from intercode.sandbox import anchor, cache
from intercode.sandbox.guest import wire
from intercode.sandbox.wall import guest_python

ARGUMENTS = [
    *("--library-path", f"{wire.BUNDLE}/lib", "--argv0", f"{wire.BUNDLE}/guest", f"{wire.BUNDLE}/guest"),
    *("-I", "-S", "-B", "-X", "utf8", "-c", "from guest.supervisor import main_in_container; main_in_container()"),
]
"""Of the loader, so that the keeper is run."""
_MAKER = Path(__file__).with_name("bundling.py")


def bundle() -> Path:
    """The folder to be mounted at `wire.BUNDLE`."""
    return _bundle(cache.root())


@remembered
def _bundle(home: Path) -> Path:
    python, _ = guest_python()
    state = hashlib.sha256(python.encode() + _MAKER.read_bytes() + Path(anchor.__file__).read_bytes())
    for path in (Path(python).resolve(), *sorted(cache.GUEST.glob("*.py"))):
        state.update(path.read_bytes())

    def build(made: Path) -> None:
        command = [python, "-I", "-S", "-B", str(_MAKER), str(made), str(cache.GUEST)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SandboxUnavailable(f"{python} cannot be bundled for containers: {done.stderr.strip()[-300:]}")
        anchor.write(made)
        made.chmod(0o755)

    return cache.folder("bundles", state.hexdigest()[:24], build)
