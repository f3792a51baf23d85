"""InterCode v1, as `intercode-bench` installs it, on containers of its own; and the same root
for ours.

    built root ── import ──► base ── tree, .gitignore, git commit ──► image
      ├─► two containers ◄── driver ◄── actions
      └─► exported: a root of the local backend

The image is made as InterCode v1's Dockerfile makes it, on our built root (its own base would
come from a registry). Its environment finds containers by their names. So they are started before
it, as it would start them but for the network: there is none, as there is none in ours.

InterCode v1's database server is MySQL, whose image would come from a registry. This machine's
MariaDB takes its place: a container on our built root, with this machine's /usr.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fidelity import data
from intercode.errors import IntercodeError, SandboxError, SandboxUnavailable
from intercode_sandbox import template
from intercode_sandbox.docker import daemon
from intercode_sandbox.docker.daemon import docker
from intercode_sandbox.docker.images import export_image
from intercode_sandbox.image import image_path

INTERPRETER = "INTERCODE_BENCH_PYTHON"
_NAME, _TRIES = "intercode-first", 20
_DRIVER = Path(__file__).with_name("v1_driver.py")
_WHERE = (
    "import intercode.assets as a, os; print(os.path.join(os.path.dirname(a.__file__), 'docker'))"
)
_SERVE = """
options="--no-defaults --user=root --datadir=/var/lib/mysql --lower-case-table-names=1"
mariadb-install-db $options && exec mariadbd $options --socket=/tmp/mariadb.sock
"""
_LOAD = """
options="--no-defaults --user=root --socket=/tmp/mariadb.sock"
for try in {1..300}; do mariadb-admin $options --silent ping && break; sleep .1; done
mariadb $options
"""
_DOCKERFILE = """
FROM {base}
ADD tree.tar /
COPY gitignore /.gitignore
RUN git config --global user.email first@example.org && git config --global user.name first
RUN cd / && git init -q && git add -A && git commit -q -m 'initial commit'
WORKDIR /
"""


@dataclass(frozen=True)
class Turn:
    """What InterCode v1 answered. Nothing was executed where `observation` is None."""

    observation: str | None
    reward: float


@contextmanager
def containers(image: str) -> Iterator[str]:
    """A name of its own for the image, with the two containers that the environment looks for by
    it."""
    name = f"{_NAME}-{secrets.token_hex(6)}"
    pair = [f"{name}_ic_ctr", f"{name}_ic_ctr_eval"]
    docker("tag", image, name)
    try:
        for container in pair:
            mine = ["--label", daemon.owner_label(), "--name", container]
            docker("run", "--detach", "--tty", "--network", "none", *mine, image)
        yield name
    finally:
        for words in (("rm", "--force", *pair), ("image", "rm", name)):
            with suppress(IntercodeError):
                docker(*words)


@contextmanager
def playing(python: str, image: str, tasks: str) -> Iterator[First]:
    with containers(image) as name, closing(_started(python, name, tasks)) as side:
        yield side


@contextmanager
def playing_sql(python: str) -> Iterator[First]:
    """Its SQL environment on its own queries, with a server that has loaded its own dump."""
    name = f"{_NAME}-{secrets.token_hex(6)}"
    server, tasks = f"{name}_ic_ctr", own_data(python, "sql_queries.csv")
    options = ["--label", daemon.owner_label(), "--name", server, "--publish", "127.0.0.1::3306"]
    options += ["--volume", "/usr:/usr:ro", "--volume", "/var/lib/mysql"]
    try:
        docker("run", "--detach", *options, base(), "bash", "-c", _SERVE)
        with open(own_data(python, "spider_dev.sql"), "rb") as dump:
            docker("exec", "--interactive", server, "bash", "-c", _LOAD, stdin=dump)
        port = docker("port", server, "3306").rpartition(":")[2]
        with closing(_started(python, name, tasks, port)) as side:
            yield side
    finally:
        with suppress(IntercodeError):
            docker("rm", "--force", "--volumes", server)


def _started(*words: str) -> First:
    """It looks at every container that docker lists, and ends if one of them is gone meanwhile:
    then once more."""
    for _ in range(_TRIES):
        with suppress(_Gone):
            return First(*words)
    raise SandboxError(
        f"InterCode v1 did not start: other containers came and went {_TRIES} times while it did"
    )


class _Gone(SandboxError):
    """A container of somebody else's."""


class First:
    """Its environment on one image and task file, for SQL also the port of a server. Raises
    `SandboxError` with its last words."""

    def __init__(self, python: str, *words: str) -> None:
        self._errors = tempfile.TemporaryFile("w+")
        command = [python, "-I", str(_DRIVER), *words]
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": self._errors,
            "text": True,
        }
        self._driver = subprocess.Popen(command, **pipes)
        self._hear()

    def play(self, task: int, actions: Sequence[str | None]) -> list[Turn]:
        return [Turn(**turn) for turn in self._ask(task=task, actions=actions)["turns"]]

    def speed(self, seconds: float) -> float:
        """Return episodes per second: the golds in turn, each with a reset and a submission."""
        return float(self._ask(seconds=seconds))

    def close(self) -> None:
        self._driver.communicate()
        self._errors.close()

    def _ask(self, **question: Any) -> Any:
        assert self._driver.stdin is not None
        self._driver.stdin.write(json.dumps(question) + "\n")
        self._driver.stdin.flush()
        return self._hear()

    def _hear(self) -> Any:
        assert self._driver.stdout is not None
        line = self._driver.stdout.readline()
        if line:
            return json.loads(line)
        self._errors.seek(0)
        words = self._errors.read().strip().rpartition("\n")[2]
        raise (_Gone if "No such container" in words else SandboxError)(
            f"InterCode v1 ended: {words}"
        )


def interpreter(named: str | None) -> tuple[str, str | None]:
    """InterCode v1's interpreter, or why it cannot be played."""
    python = named or os.environ.get(INTERPRETER) or ""
    if not python:
        return (
            "",
            (
                f"no interpreter with intercode-bench is named: --first or ${INTERPRETER}"
                " (benchmarks/peers.sh makes one)"
            ),
        )
    found = subprocess.run(
        [python, "-I", "-c", _WHERE], capture_output=True, text=True, check=False
    )
    return python, f"{python} has no intercode-bench" if found.returncode else None


def no_docker() -> str | None:
    """Why there is no Docker here."""
    try:
        docker("version")
    except SandboxUnavailable as error:
        return str(error)
    return None


def image(python: str, number: int) -> str:
    """The image of one of NL2Bash's file systems."""
    tree = data.nl2bash(number)["tree"]
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        shutil.copy(_shipped(python, "docker.gitignore"), context / "gitignore")
        shutil.copy(tree, context / "tree.tar") if tree else _empty_tar(context / "tree.tar")
        return _build(f"{_NAME}-fs-{number}", _DOCKERFILE.format(base=base()), context)


def own_image(python: str) -> tuple[str, str]:
    """The image of InterCode v1's own queries, by its own Dockerfile on our root; and the file
    of the queries."""
    with tempfile.TemporaryDirectory() as folder:
        context = Path(shutil.copytree(_shipped(python), folder, dirs_exist_ok=True))
        recipe = (context / "bash.Dockerfile").read_text()
        recipe = recipe.replace("FROM alpine:latest", f"FROM {base()}").replace(
            "RUN apk add git", ""
        )
        return _build(f"{_NAME}-own", recipe, context), own_data(python, "bash_queries.json")


def own_data(python: str, name: str) -> str:
    """A file of the package's data sets."""
    return str(_shipped(python).parent / "datasets" / name)


def _shipped(python: str, *names: str) -> Path:
    """A file of the package's docker folder."""
    said = subprocess.run(
        [python, "-I", "-c", _WHERE], capture_output=True, text=True, check=True
    ).stdout
    return Path(said.strip(), *names)


def _build(name: str, recipe: str, context: Path) -> str:
    """Docker's own cache knows what is made already."""
    (context / "Dockerfile").write_text(recipe)
    docker("build", "--quiet", "--force-rm", "--tag", name, str(context), seconds=600)
    return name


def _empty_tar(path: Path) -> None:
    subprocess.run(["tar", "-cf", str(path), "-T", "/dev/null"], check=True)


def base() -> str:
    """The built root as an image. It is the layer's own name that says whether it is there
    already."""
    root = template.base(data.IMAGE)
    name = f"{_NAME}-base:{root.digest[:12]}"
    if not docker("image", "ls", "--quiet", name):
        files = root.layers[0] / template.TREE
        command = [
            "tar",
            "-C",
            str(files),
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "-cf",
            "-",
            ".",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as archive:
            docker(
                "import", "--change", 'CMD ["bash"]', "-", name, stdin=archive.stdout, seconds=600
            )
    return name


def export(image: str) -> str:
    """The name of a local image with the same files."""
    name = (
        f"first-{docker('image', 'inspect', '--format', '{{.Id}}', image).partition(':')[2][:16]}"
    )
    if not image_path(name).is_dir():
        export_image(image, name)
    return name


def as_in_container(image: str) -> str:
    """A script that gives a sandbox the name servers that docker gives its containers."""
    servers = docker("run", "--rm", "--network", "none", image, "cat", "/etc/resolv.conf")
    return f"cat > /etc/resolv.conf <<'END'\n{servers}\nEND\n"
