"""Docker's images: a name or a Dockerfile, then the tree and the changes of the setup script; and
their export to the cache.

    NAME | Dockerfile ──► image ──► + tree at / ──► + setup, each by a `docker build` without
                                                    network
    docker export ── tar ──► pipe ──► unpacked as the sandboxes' user ──► ROOT/images/NAME, with ENV
                                                                          and WORKDIR

A Dockerfile is built with its folder as context, from docker's cache where nothing has changed;
docker's output goes to `progress` if the build takes longer than 2 seconds, and its last lines into
the error. The results of the other steps are tagged `intercode/made:KEY`, where KEY is a digest of
their input, and reused. An exported image works without docker. Left out are file owners (inside,
root owns every file), devices, entry point and user.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from intercode_sandbox import image as local_images
from intercode_sandbox import template
from intercode_sandbox.base import SCRIPT, SETUP_LIMITS, script_command
from intercode_sandbox.docker.daemon import (
    docker,
    error_of,
    machine_error,
    owner_label,
    program_path,
)
from intercode_sandbox.errors import NO_BUILD, DataError, SandboxError, UsageError
from intercode_sandbox.host import ENVIRONMENT
from intercode_sandbox.results import Change

Progress = Callable[[str], None]
_REPOSITORY = "intercode/made"
# Enough of docker's grammar to keep an image's name from being read as an option.
_REFERENCE = re.compile(
    r"(?!-)([\w.-]+(:\d+)?/)?[a-z0-9._/-]+(:[\w.-]+)?(@\w+:[0-9a-f]+)?", re.ASCII
)
_FROM = re.compile(rb"^\s*FROM\s", re.I | re.M)
_FROM_LINE = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.I | re.M)
BUILD_SECONDS = 7200.0
_SOON = 2.0
# Executes a program that is killed when its parent ends (PR_SET_PDEATHSIG); `preexec_fn` is not
# safe with threads.
_WITH_PARENT = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"
)
# Options of tar: root owns every file.
_ROOTS = ("--owner=0", "--group=0", "--numeric-owner")


@dataclass(frozen=True)
class DockerImage:
    """An image, and how its containers run.

    `id` is docker's, `name` the user's, `digest` names the content, `environment` holds the image's
    own variables, `cwd` is the folder in which sessions begin, and `command` is what the image is
    made to run.
    """

    id: str
    name: str
    digest: str
    environment: tuple[tuple[str, str], ...]
    cwd: str = "/"
    network: str = "none"
    runtime: str | None = None
    cpus: float | None = 1.0
    command: tuple[str, ...] = ()

    def files(self, skip: Collection[str] = ()) -> dict[str, Change]:
        """Return the state of all files and links by absolute path, leaving out names in `skip` and
        everything below them."""
        with tempfile.TemporaryDirectory() as folder, exported(self) as archive:
            layer = Path(folder)
            template.untar(Path(self.name), template.new_tree(layer), archive, skip)
            return template.Template((layer,), (), self.digest).files(skip)


def make_image(
    image: str | None,
    tree: Path | None = None,
    progress: Progress | None = None,
    stand_in: str | None = None,
    bases: Mapping[str, str] | None = None,
) -> DockerImage:
    """Return the image with this name, or built from this Dockerfile (or its folder), with `tree`
    (a folder or tar) at `/`. For a FROM that docker lacks, the image in `bases` of that name is
    used, or else `stand_in`."""
    if not image:
        raise UsageError(
            "--sandbox docker needs an image: give --image NAME, or --image DIR/Dockerfile"
        )
    tag = image
    dockerfile = _dockerfile(image)
    if dockerfile:
        image = str(dockerfile)
        with _standing_in(dockerfile, bases or {}, stand_in):
            tag = _build(dockerfile, progress or partial(print, file=sys.stderr))
    base = inspect(tag, image)
    return with_tree(base, tree) if tree else base


def with_tree(below: DockerImage, tree: Path) -> DockerImage:
    layer = template.unpack(tree)

    def pack(archive: Path) -> None:
        files = layer / template.TREE
        names = sorted(path.name for path in files.iterdir())
        command = ["tar", "-C", str(files), *_ROOTS, "-cf", str(archive), "--", *names]
        subprocess.run(command, check=True)

    return _with_step(below, layer.name, "ADD content /", pack, f"the tree {tree}")


def with_script(below: DockerImage, text: str, *, name: str) -> DockerImage:
    """Return `below` with the changes of the script `text`, Bash run by sh where there is no bash;
    errors call the script `name`."""
    program, *words = map(shlex.quote, script_command(text, SCRIPT))
    if program == "bash":
        program = "$(command -v bash || echo sh)"
    command = ["env"]
    for key, value in ENVIRONMENT.items():
        if key not in dict(below.environment):
            command.append(f"{key}={value}")
    command += ["sh", "-c", f"mv /.setup.sh {SCRIPT} && exec {program} {' '.join(words)}"]
    step = f"COPY content /.setup.sh\nRUN {json.dumps(command)}"

    def fill(file: Path) -> None:
        file.write_text(text, "utf-8")

    return _with_step(below, text, step, fill, f"the setup script {name}")


def _dockerfile(image: str) -> Path | None:
    """Return the Dockerfile that `image` is or contains, or None for an image's name."""
    path = Path(image)
    if path.is_dir():
        path /= "Dockerfile"
    if path.is_file():
        with path.open("rb") as file:
            text = file.read(1 << 16)
        # tested before its whole folder goes to the daemon
        if b"\0" in text or not _FROM.search(text):
            raise UsageError(
                f"{path} is not a Dockerfile: no line begins with "
                "FROM; a root file system needs --sandbox local"
            )
        return path
    if Path(image).is_dir() or image.startswith((".", "/")) or path.name.startswith("Dockerfile"):
        raise UsageError(
            f"{path}: there is no such Dockerfile; a root file system needs --sandbox local"
        )
    return None


def from_names(dockerfile: Path) -> list[str]:
    """Return the images that a Dockerfile begins from, without its own stages. A line that begins
    with FROM in another instruction adds a name that no build asks for."""
    lines = _FROM_LINE.findall(dockerfile.read_text("utf-8", "replace"))
    stages = {stage.lower() for _, stage in lines} | {"scratch"}
    return sorted({name for name, _ in lines if name.lower() not in stages and "$" not in name})


@contextmanager
def _standing_in(
    dockerfile: Path, bases: Mapping[str, str], stand_in: str | None
) -> Iterator[None]:
    """Let the images in `bases`, or `stand_in`, have the names that the Dockerfile begins from and
    docker lacks."""
    lacking = []
    try:
        for name in from_names(dockerfile):
            image = bases.get(name, stand_in)
            if image and _REFERENCE.fullmatch(name) and not docker("image", "ls", "-q", name):
                docker("tag", image, name)
                lacking.append(name)
        yield
    finally:
        for name in lacking:
            with suppress(SandboxError, UsageError):
                docker("image", "rm", "--no-prune", name)


def _build(dockerfile: Path, progress: Progress) -> str:
    """Build the image and return its tag. Docker builds each time: its own cache detects changes,
    in FROM images too."""
    folder = template.folder_digest(dockerfile.parent)
    tag = f"{_REPOSITORY}:{template.hash_of('dockerfile', dockerfile.name, folder)}"
    words = ["--tag", tag, "--file", str(dockerfile), "--", str(dockerfile.parent)]
    status, log = _run(words, progress, BUILD_SECONDS)
    if status == -signal.SIGKILL:
        raise UsageError(
            f"{dockerfile}: its build was stopped after {BUILD_SECONDS / 3600:g} hours"
        )
    if status:
        raise machine_error(log) or UsageError(
            f"{dockerfile}: {NO_BUILD}; docker's last lines:\n{last_lines(log)}"
        )
    return tag


def _run(words: list[str], progress: Progress | None, seconds: float) -> tuple[int, str]:
    """Return the status of `docker build` and its output. The build is killed when this process
    ends, and after `seconds`."""
    docker_build = [program_path(), "build", "--force-rm", *words]
    command = [sys.executable, "-I", "-S", "-c", _WITH_PARENT, *docker_build]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as build:
        return follow(build, progress, seconds)


def follow(
    build: subprocess.Popen[str], progress: Progress | None, seconds: float
) -> tuple[int, str]:
    """Return the status and the output of a process, which is killed after `seconds`. One that ends
    soon, as a build from docker's cache does, makes no `progress`."""
    assert build.stdout is not None
    lines, waiting, start = list[str](), list[str](), time.monotonic()
    timer = threading.Timer(seconds, build.kill)
    timer.start()
    try:
        for line in build.stdout:
            lines.append(line.rstrip())
            waiting.append(line.rstrip())
            while progress and waiting and time.monotonic() - start > _SOON:
                progress(waiting.pop(0))
        status = build.wait()
    except BaseException:
        build.kill()
        raise
    finally:
        timer.cancel()
    return status, "\n".join(filter(None, lines))


def last_lines(log: str) -> str:
    return "\n".join(log.splitlines()[-15:])


def _with_step(
    below: DockerImage, content: str, step: str, fill: Callable[[Path], object], label: str
) -> DockerImage:
    """Return an image with one more `step`, whose file `fill` writes. Raises `DataError` that names
    `label`."""
    volumes = docker("image", "inspect", "--format", "{{json .Config.Volumes}}", below.id)
    if json.loads(volumes):
        raise UsageError(
            f"{below.name} declares VOLUME {' '.join(json.loads(volumes))}, "
            "where docker does not keep the files of a tree or a script; make an image without it: "
            "docker export CONTAINER | docker import - NAME"
        )
    digest = template.hash_of(below.digest, content)
    tag = f"{_REPOSITORY}:{digest}"
    base = f"{_REPOSITORY}:{below.digest}"
    if not docker("image", "ls", "--quiet", tag):
        docker("tag", below.id, base)  # not every builder takes the id of an image
        with tempfile.TemporaryDirectory() as folder:
            fill(Path(folder, "content"))
            text = f"FROM {base}\nUSER 0\nWORKDIR /\n{step}\n"
            Path(folder, "Dockerfile").write_text(text, "utf-8")
            seconds = SETUP_LIMITS.seconds
            status, log = _run(["--network", "none", "--tag", tag, folder], None, seconds)
        if status == -signal.SIGKILL:
            raise DataError(f"{label} ran out of time ({seconds:.0f} s)")
        if status:
            raise machine_error(log) or DataError(
                f"{label} cannot be added to {below.name}; docker's last lines:\n{last_lines(log)}"
            )
    return replace(below, id=inspect(tag, below.name).id, digest=digest)


def inspect(reference: str, name: str) -> DockerImage:
    """Return the image that docker knows by `reference`. Raises `UsageError` with `name`."""
    if not _REFERENCE.fullmatch(reference):
        raise UsageError(
            f"{name!r} is not the name of an image, such as docker.io/library/debian:bookworm"
        )
    try:
        facts = json.loads(docker("image", "inspect", "--format", "{{json .}}", reference))
    except UsageError:
        raise error_of("No such image", name) from None
    settings = template.settings_of(facts["Config"])
    digest = template.hash_of(facts["Id"])
    variables = tuple(settings["environment"].items())
    command = tuple(settings["command"])
    return DockerImage(facts["Id"], name, digest, variables, settings["cwd"], command=command)


@contextmanager
def exported(image: DockerImage) -> Iterator[IO[bytes]]:
    """Yield the image's files as a tar, from a container that never runs."""
    container = docker(
        "create", "--pull", "never", "--network", "none", "--label", owner_label(), image.id, "true"
    )
    try:
        with subprocess.Popen(
            [program_path(), "export", container], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as export:
            assert export.stdout is not None
            yield export.stdout
            _, message = export.communicate()
        if export.returncode:
            raise error_of(message.decode(errors="replace"), image.name)
    finally:
        with suppress(SandboxError):
            docker("rm", "--force", container)


def export_image(reference: str, name: str | None = None, *, force: bool = False) -> Path:
    """Keep docker's image `reference` in the cache as `name`, by default its own name without
    registry and forbidden characters.

    Raises `UsageError` if docker lacks the image, the image lacks bash, or the name is bad or
    taken; `SandboxUnavailable` if docker does not answer.
    """
    image = inspect(reference, reference)
    name = name or local_images.own_name(reference)
    return local_images.keep_image(name, partial(keep_files, image), force=force)


def keep_files(image: DockerImage, folder: Path) -> None:
    """Write the image's files, ENV, WORKDIR and command into `folder`, a layer for local
    sandboxes."""
    settings = {"environment": dict(image.environment), "cwd": image.cwd, "command": image.command}
    with exported(image) as archive:
        local_images.fill_layer(folder, archive, image.name, settings)


def import_tree(layer: template.Template) -> str:
    """Return docker's name for the files of a local template of one layer."""
    tag = f"{_REPOSITORY}:{layer.digest}"
    if not docker("image", "ls", "--quiet", tag):
        tree = str(layer.layers[0] / template.TREE)
        words = ["--change", f"CMD {json.dumps(layer.command)}"]
        words += ["--change", f"WORKDIR {layer.cwd}"]
        for name, value in layer.environment.items():
            words += ["--change", f"ENV {name}={json.dumps(value)}"]
        pack = ["tar", "-C", tree, *_ROOTS, "-c", "."]
        with subprocess.Popen(pack, stdout=subprocess.PIPE) as packed:
            docker("import", *words, "-", tag, stdin=packed.stdout, seconds=600)
    return tag


def export_tar(reference: str, target: Path) -> None:
    """Write the image's files as a tar, for `--image TAR` elsewhere, without ENV and WORKDIR. A
    failed export leaves no tar."""
    part = target.with_name(f"{target.name}.part")
    image = inspect(reference, reference)
    try:
        with open(part, "wb") as file, exported(image) as archive:
            shutil.copyfileobj(archive, file, 1 << 20)
        part.replace(target)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            part.unlink()
