"""DockerSandbox: the contract in a cell of a container, as behind the local wall.

reset = a new cell        fork = a second cell from a copy of the first        diff = what lies in the cell's overlay
"""

from __future__ import annotations

from collections.abc import Mapping

from intercode.sandbox.base import Limits, Program, Session
from intercode.sandbox.docker import pool
from intercode.sandbox.docker.images import DockerImage
from intercode.sandbox.docker.wall import DockerWall, Spec
from intercode.sandbox.local import CellSandbox, Shared, check_program
from intercode.sandbox.wall import ENVIRONMENT


class DockerSandbox(CellSandbox):
    """See `Sandbox` for the contract. `environment` are the agent's variables, the image's own and ours by default.

    With `program="python"` the persistent session is the image's python3.
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
        variables = {**ENVIRONMENT, **dict(image.environment)} if environment is None else environment
        spec = Spec(image, limits or Limits(), session, tuple(sorted(variables.items())), program)
        joined = pool.join(spec)
        try:
            wall = joined.take()
        except BaseException:
            joined.leave()
            raise
        wall.leave = joined.leave
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
