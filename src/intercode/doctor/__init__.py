"""What works on this machine, found by trying it, and the line that mends what does not.

    system.py      which system it is: on some there is no wall to be had
    wall.py        the local wall, layer by layer
    around.py      cache, leftovers, memory, image tools, Docker, podman, MariaDB
    model.py       the model endpoint that the environment names
    sandboxes.py   the real thing, timed, and which backends can be used

`clean` removes what processes that are gone have left.
"""

from __future__ import annotations

import os
import platform

from intercode.doctor import around, model, sandboxes, system, wall
from intercode.doctor.around import clean
from intercode.doctor.finding import Finding, read

__all__ = ["Finding", "clean", "examine"]


def examine() -> list[Finding]:
    """Try everything, in the order in which it should be mended. Takes a second or two; writes to nothing but the cache."""
    found = [system.system(platform.system(), platform.release(), read("/proc/version"))]
    if platform.system() != "Linux":
        return [*found, around.docker_daemon(), model.endpoint(os.environ)]
    found += [*wall.layers(), *around.findings(), model.endpoint(os.environ), *sandboxes.findings()]
    return [*found, sandboxes.backends(found)]
