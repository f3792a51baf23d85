"""What works on this machine, found by trying it, and the line that mends what does not.

    wall.py        the local wall, layer by layer
    around.py      cache, leftovers, image tools, Docker, MariaDB
    model.py       the model endpoint that the environment names
    sandboxes.py   the real thing, timed, and which backends can be used

`clean` removes what processes that are gone have left.
"""

from __future__ import annotations

import os
import platform

from intercode.doctor import around, model, sandboxes, wall
from intercode.doctor.around import clean
from intercode.doctor.finding import Finding

__all__ = ["Finding", "clean", "examine"]


def examine() -> list[Finding]:
    """Try everything, in the order in which it should be mended. Takes a second or two; writes to nothing but the cache."""
    if (system := platform.system()) != "Linux":
        mend = f"run intercode in a Linux VM, in WSL 2, or in a container: docker run -it {wall.CONTAINER_OPTIONS} IMAGE"
        kernel = Finding("kernel", False, f"{system} has no namespaces", mend)
        return [kernel, around.docker_daemon(), model.endpoint(os.environ)]
    found = [Finding("kernel", True, f"Linux {platform.release()}", "")]
    found += [*wall.layers(), *around.findings(), model.endpoint(os.environ), *sandboxes.findings()]
    return [*found, sandboxes.backends(found)]
