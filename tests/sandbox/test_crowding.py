"""No process can be started for a new cell: it is waited for, then said, and what lives in the wall lives on.

The daemon lowers the bound of a container's processes here; an agent's fork bomb comes as close to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from intercode.errors import SandboxUnavailable
from intercode.sandbox.docker.daemon import docker
from intercode.sandbox.docker.images import DockerImage
from intercode.sandbox.docker.sandbox import DockerSandbox

pytestmark = pytest.mark.slow

ENOUGH = 500


@pytest.fixture(scope="module")
def sandbox(image: DockerImage) -> Iterator[DockerSandbox]:
    with DockerSandbox(image) as made:
        yield made


def processes(sandbox: DockerSandbox) -> int:
    """How many there are in the container, once what is dying is gone: a cell that is ended is not waited for."""
    listed: list[str] = []
    while len(listed) < 5 or len(set(listed[-5:])) > 1:
        assert len(listed) < 100, "processes come and go"
        listed.append(docker("top", sandbox._wall.wall.name, "-o", "pid"))
    return len(listed[-1].splitlines()) - 1


@contextmanager
def crowded(sandbox: DockerSandbox, room: int = 0) -> Iterator[Callable[[], object]]:
    """So many processes can be started in the container until the block ends, or until what it is given is called."""
    name, alive = sandbox._wall.wall.name, processes(sandbox)

    def make_room() -> object:
        return docker("update", "--pids-limit", str(ENOUGH), name)

    docker("update", "--pids-limit", str(alive + room), name)
    try:
        yield make_room
    finally:
        make_room()


def test_a_reset_waits_for_room(sandbox: DockerSandbox) -> None:
    sandbox.exec("touch /tmp/old")
    with crowded(sandbox, room=-3) as make_room:
        later = threading.Timer(0.1, make_room)
        later.start()
        sandbox.reset()
        later.join()
    assert sandbox.exec("ls /tmp; echo new").output == "new\n"


def test_a_reset_without_room_says_so_and_the_next_one_works(sandbox: DockerSandbox) -> None:
    with crowded(sandbox, room=-3), pytest.raises(SandboxUnavailable, match="too many processes"):
        sandbox.reset()
    sandbox.reset()
    assert sandbox.exec("echo again").output == "again\n"


@pytest.mark.parametrize("room", [0, 1, 2], ids=["the-cell", "its-anchor", "its-shell"])
def test_a_sandbox_beside_has_no_room_for(sandbox: DockerSandbox, room: int) -> None:
    sandbox.exec("x=still")
    with crowded(sandbox, room), pytest.raises(SandboxUnavailable, match="too many processes"):
        sandbox.beside()
    living = processes(sandbox)
    assert docker("stats", "--no-stream", "--format", "{{.PIDs}}", sandbox._wall.wall.name).strip() == str(living), (
        "none is dead"
    )
    assert sandbox.exec("echo $x").output == "still\n"
