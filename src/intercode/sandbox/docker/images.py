"""From what the user names to an image: a name or a Dockerfile, then the tree and what the setup script changed.

    NAME | Dockerfile ──► image ──► + tree at / ──► + setup, each by a `docker build` without network

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
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from intercode.errors import DataError, SandboxError, UsageError
from intercode.sandbox import template
from intercode.sandbox.base import SCRIPT, SETUP_LIMITS
from intercode.sandbox.docker import leftovers
from intercode.sandbox.docker.daemon import docker, fault, machine_fault, program
from intercode.sandbox.wall import ENVIRONMENT
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
        """The state of all files and links by absolute path, but for what is called, or lies below, a name in `skip`."""
        with tempfile.TemporaryDirectory() as folder, exported(self) as archive:
            made = Path(folder)
            template.untar(Path(self.name), template.new_tree(made), archive, skip)
            return template.Template((made,), (), self.digest).files(skip)


def make_image(image: str | None, tree: Path | None = None, progress: Progress | None = None) -> DockerImage:
    """`image` is a name or a Dockerfile (or its folder); `tree` (a folder or tar) goes to `/`."""
    if not image:
        raise UsageError("--sandbox docker needs an image: give --image NAME, or --image with the path of a Dockerfile")
    if recipe := _recipe(image):
        made = inspect(_build(recipe, progress or partial(print, file=sys.stderr)), str(recipe))
    else:
        made = inspect(image, image)
    return with_tree(made, tree) if tree else made


def with_tree(below: DockerImage, tree: Path) -> DockerImage:
    layer = template.unpack(tree)

    def pack(archive: Path) -> None:
        """All of it belongs to root inside."""
        files = layer / template.TREE
        command = ["tar", "-C", str(files), "--owner=0", "--group=0", "--numeric-owner", "-cf", str(archive), "--"]
        subprocess.run([*command, *sorted(path.name for path in files.iterdir())], check=True)

    return _with_step(below, layer.name, "ADD content /", pack, f"the tree {tree}")


def with_script(below: DockerImage, text: str, *, name: str) -> DockerImage:
    """Add what the script `text` changes; `name` stands in error messages. An image without bash runs the script by its sh."""
    variables = [f"{key}={value}" for key, value in ENVIRONMENT.items() if key not in dict(below.environment)]
    command = ["env", *variables, "sh", "-c", f"mv /.setup.sh {SCRIPT} && exec $(command -v bash || echo sh) {SCRIPT}"]
    step = f"COPY content /.setup.sh\nRUN {json.dumps(command)}"
    return _with_step(below, text, step, lambda file: file.write_text(text), f"the setup script {name}")


def _recipe(image: str) -> Path | None:
    path = Path(image)
    path = path / "Dockerfile" if path.is_dir() else path
    if path.is_file():
        with path.open("rb") as file:
            text = file.read(1 << 16)
        if b"\0" in text or not _FROM.search(text):  # looked at before its whole folder goes to the daemon
            raise UsageError(f"{path} is no Dockerfile: no line begins with FROM; a root file system needs --sandbox local")
        return path
    if Path(image).is_dir() or image.startswith((".", "/")) or path.name.startswith("Dockerfile"):
        raise UsageError(f"{path}: there is no such Dockerfile; a root file system needs --sandbox local")
    return None


def _build(recipe: Path, progress: Progress) -> str:
    """Asks docker each time: its own cache knows what has changed, the FROM image among it."""
    tag = f"{_SHELF}:{_hash('dockerfile', str(recipe.name), template.folder_digest(recipe.parent))}"
    status, log = _run(["--tag", tag, "--file", str(recipe), "--", str(recipe.parent)], progress, _PATIENCE)
    if status == -signal.SIGKILL:
        raise UsageError(f"{recipe}: its build was ended, since it took more than {_PATIENCE / 3600:g} hours")
    if status:
        what = "its FROM image is not here, and docker cannot fetch it" if _NO_BASE.search(log) else "it does not build"
        raise machine_fault(log) or UsageError(f"{recipe}: {what}; docker's last lines:\n{_end(log)}")
    return tag


def _run(words: list[str], progress: Progress, seconds: float) -> tuple[int, str]:
    """Return the status of `docker build` and what it printed. It is killed when this process ends, and after `seconds`."""
    lines = []
    command = [sys.executable, "-I", "-S", "-c", _WITH_PARENT, program(), "build", "--force-rm", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as build:
        assert build.stdout is not None
        late = threading.Timer(seconds, build.kill)
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


def _end(log: str) -> str:
    return "\n".join(log.splitlines()[-_LOG:])


def _with_step(below: DockerImage, content: str, step: str, fill: Callable[[Path], object], what: str) -> DockerImage:
    """An image with one more `step`, whose file `fill` writes. `DataError` names it as `what`, with docker's last lines."""
    if volumes := json.loads(docker("image", "inspect", "--format", "{{json .Config.Volumes}}", below.id)):
        raise UsageError(
            f"{below.name} declares VOLUME {' '.join(volumes)}, where docker does not keep what a tree or a script puts; "
            "make an image without it: docker export CONTAINER | docker import - NAME"
        )
    digest = _hash(below.digest, content)
    tag, base = f"{_SHELF}:{digest}", f"{_SHELF}:{below.digest}"
    if not docker("image", "ls", "--quiet", tag):
        docker("tag", below.id, base)  # not every builder takes the id of an image
        with tempfile.TemporaryDirectory() as folder:
            fill(Path(folder, "content"))
            Path(folder, "Dockerfile").write_text(f"FROM {base}\nUSER 0\nWORKDIR /\n{step}\n")
            seconds = SETUP_LIMITS.seconds
            status, log = _run(["--network", "none", "--tag", tag, folder], lambda line: None, seconds)
        if status == -signal.SIGKILL:
            raise DataError(f"{what} ran out of time ({seconds:.0f} s)")
        if status:
            raise machine_fault(log) or DataError(f"{what} cannot be added to {below.name}; docker's last lines:\n{_end(log)}")
    return replace(below, id=inspect(tag, below.name).id, digest=digest)


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


@contextmanager
def exported(found: DockerImage) -> Iterator[IO[bytes]]:
    """Its tar, from a container that never runs."""
    container = docker("create", "--pull", "never", "--network", "none", "--label", leftovers.label(), found.id, "true")
    try:
        with subprocess.Popen([program(), "export", container], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as export:
            assert export.stdout is not None
            assert export.stderr is not None
            yield export.stdout
            said = export.stderr.read().decode(errors="replace")
        if export.returncode:
            raise fault(said, found.name)
    finally:
        with suppress(SandboxError):
            docker("rm", "--force", container)


def _hash(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:32]
