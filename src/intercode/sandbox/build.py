"""From the options of the command line to where sandboxes start: base, tree, and what a setup script makes of it.

local    a `Template` of layers    docker    a `DockerImage`

Docker's is imported when it is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from intercode.errors import DataError, UsageError
from intercode.sandbox import cache, template
from intercode.sandbox.base import SCRIPT, SETUP_LIMITS, Limits, Sandbox, Session
from intercode.sandbox.local import CellSandbox, LocalSandbox
from intercode.sandbox.template import Template
from intercode.sandbox.wall import Bubblewrap

if TYPE_CHECKING:
    from intercode.sandbox.docker.images import DockerImage

Start: TypeAlias = "Template | DockerImage"
"""What sandboxes start from; every kind has `digest` and `files`."""
Backend = Literal["local", "docker"]


def make_start(backend: Backend, *, image: str | None = None, tree: Path | None = None, setup: Path | None = None) -> Start:
    """`image`: for docker a name or a Dockerfile, else as `make_template` takes it."""
    if backend not in get_args(Backend):
        raise UsageError(f"sandbox {backend!r}: it is {', '.join(map(repr, get_args(Backend)))}")
    if backend == "local":
        return make_template(image=image, tree=tree, setup=setup)
    from intercode.sandbox.docker.images import make_image

    made = make_image(image, tree)
    return with_script(made, _text(setup), name=str(setup)) if setup else made


def open_sandbox(start: Start, *, session: Session, limits: Limits | None, environment: Mapping[str, str] | None) -> Sandbox:
    if isinstance(start, Template):
        return LocalSandbox(start, session=session, limits=limits, environment=environment)
    from intercode.sandbox.docker.sandbox import DockerSandbox

    return DockerSandbox(start, session=session, limits=limits, environment=environment)


def open_interpreter(start: Start, *, limits: Limits | None, environment: Mapping[str, str] | None) -> CellSandbox:
    """A sandbox whose session is a Python interpreter."""
    if isinstance(start, Template):
        return LocalSandbox(start, limits=limits, environment=environment, program="python")
    from intercode.sandbox.docker.sandbox import DockerSandbox

    return DockerSandbox(start, limits=limits, environment=environment, program="python")


def make_template(*, image: str | None = None, tree: Path | None = None, setup: Path | None = None) -> Template:
    """`image` is a built image's name, a root file system or None for the host's; `tree` goes to `/`; `setup` runs once."""
    made = template.base(image)
    if tree is not None:
        made = template.with_tree(made, tree)
    if setup is not None:
        made = made.over(_script_layer(made, _text(setup), str(setup)))
    return made


def with_script(below: Start, text: str, *, name: str) -> Start:
    """What the Bash script `text` changes, added; `name` stands in error messages."""
    if isinstance(below, Template):
        return below.over(_script_layer(below, text, name))
    from intercode.sandbox.docker import images

    return images.with_script(below, text, name=name)


def _script_layer(below: Template, text: str, name: str) -> Path:
    key = hashlib.sha256(f"{below.digest}\0{text}".encode()).hexdigest()[:32]
    return cache.folder("layers", key, lambda made: _run(below, text, name, made))


def _text(script: Path) -> str:
    try:
        return script.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the setup script {script} cannot be read: {error}") from error


def _run(below: Template, text: str, name: str, made: Path) -> None:
    made.chmod(0o755)
    wall = Bubblewrap(below, SETUP_LIMITS, "stateless", export=made)
    with LocalSandbox.inside(wall, SETUP_LIMITS) as sandbox:
        sandbox.write(SCRIPT, text.encode())
        result = sandbox.exec("", argv=["bash", SCRIPT], cwd="/")
        if result.exit_code != 0:
            how = "ran out of time" if result.timed_out else f"ended with status {result.exit_code}"
            raise DataError(f"the setup script {name} {how}; it printed:\n{result.output[-2000:] or '(nothing)'}")
        sandbox.export(made)
