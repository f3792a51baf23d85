"""Compose files: read a container as a service of a task (`services.py`), as Docker Compose reads
it. What a service cannot be is refused with the reason.

Plain scalars are those of YAML 1.2: `yes`, `22:22` and dates are texts. `$$` is a dollar sign. The
host has no variables: `${NAME:-word}` is the word, and a container's variable without a value is
not set. The Docker socket is ignored as a volume, and a terminal (`tty`) is only an open standard
input. A service that names no command runs what its image is made to run.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intercode.envs.services import is_host_name
from intercode.errors import DataError, UsageError
from intercode.reading import DEEPEST, present, read_bytes, read_text
from intercode_sandbox.image import image_path, own_name
from intercode_sandbox.template import TREE

NAMES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
_READ = {
    "build", "command", "entrypoint", "environment", "expose", "healthcheck", "image", "ports",
    "stdin_open", "tty",
}  # fmt: skip
_OF_THE_HOST = {
    "container_name", "depends_on", "hostname", "init", "labels", "logging", "networks", "platform",
    "pull_policy", "restart", "stop_grace_period", "stop_signal",
}  # fmt: skip
"""Keys that do not change what a service does for one agent, except for its names."""
_WORD = r"""(?: [^${}"\\] | \\. | \$(?!\{) | \{[^${}"]*\} )*"""
"""A word in JSON that has no reference with a word in it; it may have other braces."""
_WITH_WORD = re.compile(rf"\$\{{\w+:?(?: -(?P<word>{_WORD}) | \+{_WORD} )\}}", re.VERBOSE)
"""A reference with a word: `${NAME:-word}`, which is the word if the variable is not set, or
`${NAME+word}`, which then is nothing."""
_LARGEST, _MOST_NODES = 1 << 20, 20_000
"""Bytes of a file, and nodes of one level of its content."""
_LONGEST_NUMBER = 10_000
_OF_ENVIRONMENT = re.compile(r"\$(?:\{[^}\"]*\}?|[A-Za-z_]\w*)", re.ASCII)
"""A variable of the host; not `$1`."""
_WORDS = re.compile(
    r"""(?: (?!(?<!\S)\d+>)[^\\'";&|<>] | \\. | '[^']*' | "(?:\\.|[^"\\])*" )*
    (?= [;&|<>] | \d+> | \Z ) | .*""",
    re.VERBOSE | re.DOTALL,
)
"""The part of a command that Compose reads: all up to an operator of a shell (`;`, `2>`)."""
_SCALARS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|[1-9][0-9_]*|0)",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
    "merge": "<<",
}
"""Plain scalars that are no texts, by tag."""
_PORT = re.compile(r"(?:^|:)(\d{1,5})(?:/tcp)?\Z", re.I)
_STAGE = re.compile(r"^[ \t]*FROM[ \t]", re.MULTILINE | re.I)
_INSTRUCTION = re.compile(r"^[ \t]*(CMD|ENTRYPOINT|EXPOSE)[ \t]+(.*)$", re.MULTILINE | re.I)


def find_compose(folder: Path) -> Path | None:
    return next((folder / name for name in NAMES if present(folder / name)), None)


def containers_of(file: Path, root: Path | None = None) -> Mapping[str, Mapping[str, Any]]:
    """Return the containers of a compose file. Raises `DataError` for another file."""
    containers = read_yaml(file, root or file.parent, is_compose=True).get("services") or {}
    if isinstance(containers, dict) and {dict}.issuperset(map(type, containers.values())):
        return containers
    raise DataError(f"{file}: its services are not objects")


def service_of(file: Path, container: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return a container of a compose file as an entry of the field `services`; paths begin with
    `prefix`. Raises `ValueError` that says why it cannot be one."""
    unread = container.keys() - _READ - _OF_THE_HOST
    if all("docker.sock" in str(volume) for volume in container.get("volumes") or ()):
        unread -= {"volumes"}
    if unread:
        raise ValueError(f"has {', '.join(sorted(unread))}")
    text = json.dumps({key: container.get(key) for key in sorted(_READ)})
    read: Mapping[str, Any] = json.loads(_replace(text))
    dockerfile = _dockerfile(file.parent, read["build"] or {}, read["image"])
    instructions = {}
    image = read["image"]
    name = own_name(str(image))
    is_kept = present(image_path(name) / TREE) == "folder"
    if dockerfile:
        image = f"{prefix}{dockerfile}"
        content = read_bytes(file.parent / dockerfile, file.parent)
        text = content.decode("utf-8", "replace").replace("\\\n", " ")
        for word, value in _INSTRUCTION.findall(_STAGE.split(text)[-1]):
            instructions[word.upper()] = value
    elif is_kept:
        image = name
    port = _port(read["ports"] or read["expose"] or instructions.get("EXPOSE", "").split())
    entrypoint, words = _argv(read["entrypoint"]), _argv(read["command"])
    if not entrypoint and words is None:
        words = _words(instructions.get("CMD"))
    if entrypoint is None:
        entrypoint = _words(instructions.get("ENTRYPOINT"))
    command = _command(entrypoint, words)
    if not (command or dockerfile or is_kept):
        raise ValueError("does not say its command")
    # the names, besides its own, by which others reach it
    names = [container.get("hostname")]
    networks = container.get("networks")
    if isinstance(networks, dict):
        for network in filter(None, networks.values()):
            names += network.get("aliases", ())
    entry = {
        "image": image,
        "command": command,
        "port": port,
        "aliases": list(filter(is_host_name, names)),
        "env": _variables(read["environment"] or {}),
        "ready": _ready(read["healthcheck"] or {}),
        "stdin_open": bool(read["stdin_open"] or read["tty"]),
    }
    return {key: value for key, value in entry.items() if value}


def _replace(text: str) -> str:
    """Return a text with its references replaced. Raises `ValueError` for one to a variable that
    the host must have."""
    text = text.replace("$$", "\0")
    for _ in range(20):  # references in the words of others
        text = _WITH_WORD.sub(r"\g<word>", text)
    if asked := _OF_ENVIRONMENT.search(text):
        raise ValueError(f"needs {asked[0]:.40} of the host")
    return text.replace("\0", "$")


def _dockerfile(folder: Path, build: Any, image: object) -> str | None:
    """Return the path of a container's Dockerfile, even if the image is published; None if there is
    only the image."""
    fields = {"context": build} if isinstance(build, str) else build
    context: Path = (folder / fields.get("context", ".")).resolve()
    if unread := sorted(fields.keys() - {"context", "dockerfile"}):
        raise ValueError(f"is built with {', '.join(unread)}")
    path: Path = (context / fields.get("dockerfile", "Dockerfile")).resolve()
    if path.parent != context:
        raise ValueError("has its Dockerfile outside the folder in which it is built")
    folder = folder.resolve()
    if present(path) == "file" and path.is_relative_to(folder):
        return path.relative_to(folder).as_posix()
    if build or not image:
        raise ValueError("has no Dockerfile")
    return None


def _words(instruction: str | None) -> list[str] | str | None:
    """Return an instruction of a Dockerfile: a list of words, or a line for a shell."""
    if instruction and instruction.lstrip().startswith("["):
        with contextlib.suppress(ValueError):
            return list(map(str, json.loads(instruction)))
    return instruction


def _argv(command: Any) -> list[str] | str | None:
    """Return the words of a command of a compose file, which no shell reads; None if the image's
    stands."""
    if command is None:
        return None
    if isinstance(command, str):
        return shlex.split(_WORDS.findall(command)[0])
    return list(map(str, command))


def _command(entrypoint: Any, command: Any) -> str:
    """Return the Bash command of both, each a list of words or a line for a shell."""
    if isinstance(entrypoint, str) and entrypoint:
        return entrypoint
    words = command or []
    if isinstance(words, str):
        if not entrypoint:
            return words
        words = ["/bin/sh", "-c", words]
    return shlex.join([*(entrypoint or ()), *words])


def _port(ports: list[Any]) -> int:
    """Return the container's side of its only TCP port: 80, `8080:80/tcp`, {target: 80}. Raises
    `ValueError` for none and for several."""
    texts = [str(port["target"] if isinstance(port, dict) else port) for port in ports]
    numbers = {match[1] for match in map(_PORT.search, texts) if match}
    if not ports:
        raise ValueError("does not say its port")
    if not numbers:
        raise ValueError(f"has the port {', '.join(texts)}")
    if len(numbers) > 1:
        raise ValueError(f"has {len(numbers)} ports")
    return int(numbers.pop())


def _variables(environment: Any) -> dict[str, str]:
    """Return the variables that have a value. The host sets none of the others."""
    variables = {}
    if isinstance(environment, list):
        for line in environment:
            name, sign, value = str(line).partition("=")
            if sign:
                variables[name] = value
        return variables
    for name, value in environment.items():
        if value is not None:
            variables[str(name)] = _text(value)
    return variables


def _text(value: object) -> str:
    """Return a scalar as Compose writes it: `true`, 1 for 1.0."""
    text = str(value)
    if isinstance(value, bool):
        return text.lower()
    if isinstance(value, float):
        return text.removesuffix(".0")
    return text


def _ready(healthcheck: Mapping[str, Any]) -> str:
    test = healthcheck.get("test") or ""
    if healthcheck.get("disable"):
        return ""
    if not isinstance(test, list):
        return str(test)
    kind, *words = map(str, test)
    if kind == "CMD-SHELL":
        return " ".join(words)
    return shlex.join(words)


@functools.cache
def _compose_loader() -> Any:
    import yaml

    loader: Any = type("ComposeLoader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": {}})
    for tag, pattern in _SCALARS.items():
        whole = re.compile(rf"(?:{pattern})\Z")
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", whole, None)
    return loader


def _require_small(node: Any, file: Path) -> None:
    """Raise `DataError` for a document with too many nodes, each counted where an alias repeats it,
    or with too many levels."""
    level = [node]
    for _ in range(DEEPEST):
        inner = list[Any]()
        for node in level:
            if isinstance(node.value, str):
                # 1:1:1… is a number in base 60, which takes its time
                if len(node.value) > _LONGEST_NUMBER and not node.tag.endswith(":str"):
                    raise DataError(f"{file}: has a scalar that is too long")
                continue
            for part in node.value:
                inner += part if isinstance(part, tuple) else [part]
            if len(inner) > _MOST_NODES:
                raise DataError(f"{file}: has more than {_MOST_NODES} nodes, with its aliases")
        level = inner
    if level:
        raise DataError(f"{file}: is nested more than {DEEPEST} levels deep")


def read_yaml(file: Path, root: Path, *, is_compose: bool = False) -> Mapping[str, Any]:
    """Return the object in a file. Raises `DataError` for another content, and for one that is too
    large with what its aliases stand for."""
    try:
        import yaml
    except ImportError as error:
        raise UsageError(f"{file}: reading YAML needs pyyaml: pip install pyyaml") from error
    text = read_text(file, root, most=_LARGEST)
    loader = (_compose_loader() if is_compose else yaml.SafeLoader)(text)
    try:
        content = None
        if node := loader.get_single_node():
            _require_small(node, file)
            content = loader.construct_document(node)
    except (yaml.YAMLError, ValueError, ArithmeticError, RecursionError) as error:
        raise DataError(f"{file}: is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{file}: holds no object")
    return content
