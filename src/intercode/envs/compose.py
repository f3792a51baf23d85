"""Compose files: read a container as a service of a task (`services.py`); what a service cannot be
is refused with the reason."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intercode.errors import DataError, UsageError

NAMES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
_READ = {
    "image", "build", "command", "entrypoint", "environment", "expose", "ports", "healthcheck",
}  # fmt: skip
_OF_THE_HOST = {
    "container_name", "depends_on", "hostname", "init", "labels", "logging", "networks", "platform",
    "pull_policy", "restart", "stdin_open", "stop_grace_period", "stop_signal", "tty",
}  # fmt: skip
"""Keys that say nothing about what a service does beside one agent."""
_OF_ENVIRONMENT = re.compile(r"(?<!\$)(?:\$\$)*\$(?:\{\w[^}]*\}|[A-Za-z_]\w*)")
"""A variable of the host; `$$` stands for a dollar sign."""
_STAGE = re.compile(r"^[ \t]*FROM[ \t]", re.MULTILINE | re.I)
_INSTRUCTION = re.compile(r"^[ \t]*(CMD|ENTRYPOINT|EXPOSE)[ \t]+(.*)$", re.MULTILINE | re.I)


def find_compose(folder: Path) -> Path | None:
    return next((folder / name for name in NAMES if (folder / name).is_file()), None)


def containers_of(file: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the containers of a compose file. Raises `DataError` for another file."""
    containers = read_yaml(file).get("services") or {}
    if isinstance(containers, dict) and all(isinstance(one, dict) for one in containers.values()):
        return containers
    raise DataError(f"{file}: its services are not objects")


def service_of(file: Path, container: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return a container of a compose file as an entry of the field `services`; paths begin with
    `prefix`. Raises `ValueError` that says why it cannot be one."""
    if unread := sorted(container.keys() - _READ - _OF_THE_HOST):
        raise ValueError(f"has {', '.join(unread)}")
    parts = [container.get(key) for key in ("image", "command", "entrypoint", "environment")]
    if asked := _OF_ENVIRONMENT.search(json.dumps(parts)):
        raise ValueError(f"needs {asked[0]} of the host")
    dockerfile = _dockerfile(file.parent, container)
    said = dict[str, str]()
    if dockerfile:
        text = (file.parent / dockerfile).read_text("utf-8", "replace").replace("\\\n", " ")
        last = _STAGE.split(text)[-1]
        said = {name.upper(): value for name, value in _INSTRUCTION.findall(last)}
    entrypoint, command = container.get("entrypoint"), container.get("command")
    if not entrypoint:
        entrypoint, command = _words(said.get("ENTRYPOINT")), command or _words(said.get("CMD"))
    elif isinstance(entrypoint, str):
        entrypoint = shlex.split(entrypoint)
    if isinstance(container.get("command"), str):
        command = shlex.split(container["command"])
    command = _command(entrypoint, command).replace("$$", "$")
    ports = container.get("expose") or container.get("ports") or said.get("EXPOSE", "").split()
    if not command or not ports:
        raise ValueError("does not say its command" if ports else "does not say its port")
    if len(ports) > 1:
        raise ValueError(f"has {len(ports)} ports")
    entry = {
        "image": f"{prefix}{dockerfile}" if dockerfile else container.get("image"),
        "command": command,
        "port": _port(ports[0]),
        "env": _variables(container.get("environment") or {}),
        "ready": _ready(container.get("healthcheck") or {}),
    }
    return {key: value for key, value in entry.items() if value}


def _dockerfile(folder: Path, container: Mapping[str, Any]) -> str | None:
    """Return the path of a container's Dockerfile, also one beside the file for a published image;
    None if there is only the image."""
    build = container.get("build") or {}
    if isinstance(build, dict) and (more := sorted(build.keys() - {"context", "dockerfile"})):
        raise ValueError(f"is built with {', '.join(more)}")
    context, name = (
        (build, "Dockerfile")
        if isinstance(build, str)
        else (build.get("context", "."), build.get("dockerfile", "Dockerfile"))
    )
    path = (folder / context / name).resolve()
    if path.parent != (folder / context).resolve():
        raise ValueError("has its Dockerfile outside the folder in which it is built")
    if path.is_file() and path.is_relative_to(folder.resolve()):
        return path.relative_to(folder.resolve()).as_posix()
    if build or not container.get("image"):
        raise ValueError("has no Dockerfile")
    return None


def _words(instruction: str | None) -> list[str] | str | None:
    """Return an instruction of a Dockerfile: a list of words, or a line for a shell."""
    if instruction and instruction.lstrip().startswith("["):
        try:
            return [str(word) for word in json.loads(instruction)]
        except ValueError:
            pass
    return instruction


def _command(entrypoint: Any, command: Any) -> str:
    """Return the Bash command of both, each a list of words or a line for a shell."""
    if not entrypoint:
        return shlex.join(map(str, command)) if isinstance(command, list) else str(command or "")
    if isinstance(entrypoint, str):
        return entrypoint
    words = command if isinstance(command, list) else ["/bin/sh", "-c", command] if command else []
    return shlex.join(map(str, [*entrypoint, *words]))


def _port(port: Any) -> int:
    """Return the container's side of a port: 80, `8080:80/tcp`, {target: 80}."""
    text = str(port.get("target") if isinstance(port, dict) else port)
    number = text.rpartition(":")[2].partition("/")[0]
    if text.endswith("/udp") or not number.isdecimal():
        raise ValueError(f"has the port {text}")
    return int(number)


def _variables(environment: Any) -> dict[str, str]:
    if isinstance(environment, list):
        environment = dict(str(line).partition("=")[::2] for line in environment)
    variables = {
        str(name): "" if value is None else str(value) for name, value in environment.items()
    }
    return {name: value.replace("$$", "$") for name, value in variables.items()}


def _ready(healthcheck: Mapping[str, Any]) -> str:
    test = None if healthcheck.get("disable") else healthcheck.get("test")
    if isinstance(test, list):
        kind, *words = map(str, test)
        return "" if kind == "NONE" else words[0] if kind == "CMD-SHELL" else shlex.join(words)
    return str(test or "")


def read_yaml(file: Path) -> Mapping[str, Any]:
    """Return the object in a file. Raises `DataError` for another content."""
    try:
        import yaml
    except ImportError as error:
        raise UsageError(f"{file}: reading YAML needs pyyaml: pip install pyyaml") from error
    try:
        content = yaml.safe_load(file.read_text("utf-8"))
    except yaml.YAMLError as error:
        raise DataError(f"{file}: is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{file}: holds no object")
    return content
