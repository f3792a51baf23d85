"""DockerSandbox: the contract in a cell of a container, as behind the local wall; `open_sandbox` also does without rooms.

reset = a new cell        fork = a second cell from a copy of the first        diff = what lies in the cell's overlay
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from intercode.sandbox.base import Limits, Program, Sandbox, Session
from intercode.sandbox.docker import pool
from intercode.sandbox.docker.container import make_spec
from intercode.sandbox.docker.images import DockerImage
from intercode.sandbox.docker.lone import LoneSandbox
from intercode.sandbox.docker.wall import DockerWall, NoRooms
from intercode.sandbox.local import CellSandbox, Shared, check_program

_roomless: set[tuple[str | None, str | None]] = set()
"""The daemons, by DOCKER_HOST, and their runtimes that were seen to make containers without rooms."""


class DockerSandbox(CellSandbox):
    """See `Sandbox` for the contract. `environment` are the agent's variables, the image's own and ours by default.

    With `program="python"` the persistent session is the image's python3. Raises `NoRooms` where only a `LoneSandbox` will do.
    """

    def __init__(
        self,
        image: DockerImage,
        *,
        limits: Limits | None = None,
        session: Session = "persistent",
        environment: Mapping[str, str] | None = None,
        program: Program = "bash",
    ) -> None:
        check_program(program, session)
        spec = make_spec(image, limits, session, environment, program)
        joined = pool.join(DockerWall, spec)
        try:
            wall = joined.take()
        except BaseException:
            joined.leave()
            raise
        wall.pool = joined
        self._enter(Shared(wall), spec.limits, session)

    @property
    def wall(self) -> DockerWall:
        wall = self._wall.wall
        assert isinstance(wall, DockerWall)
        return wall

    @property
    def container(self) -> str:
        """The container's name."""
        return self.wall.name


def open_sandbox(
    image: DockerImage, *, session: Session, limits: Limits | None, environment: Mapping[str, str] | None
) -> Sandbox:
    """A container with rooms; a lone one where there can be none, or where episodes are to have the container's network."""
    seen = os.environ.get("DOCKER_HOST"), image.runtime
    if image.network == "none" and seen not in _roomless:
        try:
            return DockerSandbox(image, session=session, limits=limits, environment=environment)
        except NoRooms:
            _roomless.add(seen)
    return LoneSandbox(image, session=session, limits=limits, environment=environment)
