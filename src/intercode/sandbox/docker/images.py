"""From what the user names to an image: a name or a Dockerfile, then the tree and what the setup script changed.

    NAME | Dockerfile ──► image ──► + tree at / ──► + setup, run by the guest ──► committed

A Dockerfile is built with its folder as context, from docker's cache where nothing has changed; what docker says meanwhile
goes to `progress`, and its end into the error. The other steps are kept as `intercode/made:KEY`, where KEY names all that went
in, and found again by it.
"""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from intercode.errors import IntercodeError, UsageError
from intercode.sandbox import template
from intercode.sandbox.build import SETUP_LIMITS, run_setup
from intercode.sandbox.docker import leftovers
from intercode.sandbox.docker.daemon import docker, fault, machine_fault, program
from intercode.types import Change

Progress = Callable[[str], None]
_SHELF = "intercode/made"
_NO_BASE = re.compile(r"(Get|Head) \"?http|pull access denied|manifest unknown|failed to resolve source|not found: manifest")
_REFERENCE = re.compile(r"(?!-)([\w.-]+(:\d+)?/)?[a-z0-9._/-]+(:[\w.-]+)?(@\w+:[0-9a-f]+)?", re.ASCII)
"""Enough of docker's grammar that no word for an image is read as an option."""
_FROM = re.compile(rb"^\s*FROM\s", re.I | re.M)
_PATIENCE = 7200.0
"""Seconds that a build may take."""
_WITH_PARENT = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"
"""What becomes a program that is killed when its parent ends (PR_SET_PDEATHSIG); `preexec_fn` is not safe with threads."""
_LOG = 15
"""Lines of a failed build that are shown."""


@dataclass(frozen=True)
class DockerImage:
    """`id` is docker's, `name` the user's, `digest` names the content that went in, `environment` are the image's own
    variables, `cwd` is where sessions begin; the rest is how its containers run."""

    id: str
    name: str
    digest: str
    environment: tuple[tuple[str, str], ...]
    cwd: str = "/"
    network: str = "none"
    runtime: str | None = None
    cpus: float | None = 1.0

    def files(self, skip: Collection[str] = ()) -> dict[str, Change]:
        from intercode.sandbox.docker.lone import LoneSandbox

        with LoneSandbox(self, session="stateless") as sandbox:
            return sandbox.files(sorted(skip))


def make_image(image: str | None, tree: Path | None = None, progress: Progress | None = None) -> DockerImage:
    """`image` is a name or a Dockerfile (or its folder); `tree` (a folder or tar) goes to `/`."""
    if not image:
        raise UsageError("--sandbox docker needs an image: give --image NAME, or --image with the path of a Dockerfile")
    recipe = _recipe(image)
    made = inspect(_build(recipe, progress or _say), str(recipe)) if recipe else inspect(image, image)
    return with_tree(made, tree) if tree else made


def with_tree(below: DockerImage, tree: Path) -> DockerImage:
    layer = template.unpack(tree)
    return _over(below, layer.name, lambda name: _place(name, layer / template.TREE))


def with_script(below: DockerImage, text: str, *, name: str) -> DockerImage:
    """What the Bash script `text` changes, added; `name` stands in error messages."""
    return _over(below, text, lambda container: None, script=(text, name))


def _recipe(image: str) -> Path | None:
    path = Path(image)
    path = path / "Dockerfile" if path.is_dir() else path
    if path.is_file():
        _check_recipe(path)
        return path
    if Path(image).is_dir() or image.startswith((".", "/")) or path.name.startswith("Dockerfile"):
        raise UsageError(f"{path}: there is no such Dockerfile; a root file system needs --sandbox local")
    return None


def _check_recipe(path: Path) -> None:
    """Before its whole folder goes to the daemon."""
    with path.open("rb") as file:
        text = file.read(1 << 16)
    if b"\0" in text or not _FROM.search(text):
        raise UsageError(f"{path} is no Dockerfile: no line begins with FROM; a root file system needs --sandbox local")


def _build(recipe: Path, progress: Progress) -> str:
    """Asks docker each time: its own cache knows what has changed, the FROM image among it."""
    tag = f"{_SHELF}:{_hash('dockerfile', str(recipe.name), template.folder_digest(recipe.parent))}"
    status, log = _run(
        [program(), "build", "--force-rm", "--tag", tag, "--file", str(recipe), "--", str(recipe.parent)], progress
    )
    if status == -signal.SIGKILL:
        raise UsageError(f"{recipe}: its build was ended, since it took more than {_PATIENCE / 3600:g} hours")
    if status:
        raise _failed(recipe, log)
    return tag


def _run(command: list[str], progress: Progress) -> tuple[int, str]:
    """The status and what was printed. It ends with this process, and with our patience."""
    lines = []
    command = [sys.executable, "-I", "-S", "-c", _WITH_PARENT, *command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as build:
        assert build.stdout is not None
        late = threading.Timer(_PATIENCE, build.kill)
        late.start()
        try:
            for line in build.stdout:
                lines.append(line.rstrip())
                progress(lines[-1])
        except BaseException:
            build.kill()
            raise
        finally:
            late.cancel()
    return build.returncode, "\n".join(filter(None, lines))


def _failed(recipe: Path, log: str) -> IntercodeError:
    end = "\n".join(log.splitlines()[-_LOG:])
    what = "its FROM image is not here, and docker cannot fetch it" if _NO_BASE.search(log) else "it does not build"
    return machine_fault(log) or UsageError(f"{recipe}: {what}; docker's last lines:\n{end}")


def _over(below: DockerImage, content: str, fill: Callable[[str], None], script: tuple[str, str] | None = None) -> DockerImage:
    """An image with one more layer: what `fill` puts into a running container, and the script changes there."""
    from intercode.sandbox.docker.lone import LoneSandbox

    _refuse_volumes(below)
    digest = _hash(below.digest, content)
    tag = f"{_SHELF}:{digest}"
    if not _known(tag):
        with LoneSandbox(below, limits=SETUP_LIMITS, session="stateless") as sandbox:
            fill(sandbox.container)
            if script:
                run_setup(sandbox, *script)
            changes = [word for change in ("ENTRYPOINT []", leftovers.NOBODYS) for word in ("--change", change)]
            docker("commit", *changes, sandbox.container, tag, seconds=600)
    made = inspect(tag, below.name)
    return replace(below, id=made.id, digest=digest, environment=made.environment)


def _refuse_volumes(below: DockerImage) -> None:
    volumes = json.loads(docker("image", "inspect", "--format", "{{json .Config.Volumes}}", below.id))
    if volumes:
        raise UsageError(
            f"{below.name} declares VOLUME {' '.join(volumes)}, where docker does not keep what a tree or a script puts; "
            "make an image without it: docker export CONTAINER | docker import - NAME"
        )


def _place(container: str, tree: Path) -> None:
    """All of it belongs to root inside."""
    names = sorted(path.name for path in tree.iterdir())
    with tempfile.TemporaryFile() as archive:
        command = ["tar", "-C", str(tree), "--owner=0", "--group=0", "--numeric-owner", "-cf", "-", "--", *names]
        subprocess.run(command, stdout=archive, check=True)
        archive.seek(0)
        docker("cp", "-", f"{container}:/", stdin=archive, seconds=600)


def _known(tag: str) -> bool:
    return bool(docker("image", "ls", "--quiet", tag))


def inspect(reference: str, name: str) -> DockerImage:
    """The image that docker knows by `reference`. `UsageError` names it as `name`."""
    if not _REFERENCE.fullmatch(reference):
        raise UsageError(f"{name!r} is no name of an image: docker's are as in docker.io/library/debian:bookworm")
    try:
        found = json.loads(docker("image", "inspect", "--format", "{{json .}}", reference))
    except UsageError:
        raise fault("No such image", name) from None
    variables = tuple((line.partition("=")[0], line.partition("=")[2]) for line in found["Config"].get("Env") or ())
    return DockerImage(found["Id"], name, _hash(found["Id"]), variables, found["Config"].get("WorkingDir") or "/")


def _hash(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:32]


def _say(line: str) -> None:
    print(line, file=sys.stderr)
