"""The files that a run's options name: packed on the driver, sent to each node once, and unpacked
there below the cache.

    driver   options ── pack ──► options with a `Shipped` in place of each path, and archives by
                                 digest in Ray's object store
    node     unpack ──► ROOT/shipped/DIGEST/…, made by the first process ──► options with paths on
                                                                             the node

Sent: the data, trees, scripts, dumps and images that options name, files of replies and of recorded
runs, and the caller's own modules with those that they import. Not sent: files that such code opens
by itself, images that records name, and Docker's images.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from intercode import __version__
from intercode.envs import all_options
from intercode.envs.rewards import NamedReward, load_reward
from intercode.errors import SandboxError, UsageError
from intercode.plugins import attribute_path, defining_class
from intercode.runner.provenance import caller_modules
from intercode.tasks.catalog import downloaded
from intercode_sandbox import cache
from intercode_sandbox.identity import identity

_NAMES = {name: option.names for name, option in all_options().items()}
TRAVELLING = frozenset(
    {"env", *(name for name, kind in _NAMES.items() if kind in ("code", "file"))}
)
"""Options whose value may name code or a file, which is sent to nodes."""
_FILES = ("static", "scripted", "replay")
_FILE_ATTRIBUTES = ("data", "tree", "setup", "image", "prompts")
"""Attributes of an environment's class that may name files next to it."""
_VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "INTERCODE_BASE_URL", "INTERCODE_LOGPROBS")


@dataclass(frozen=True, slots=True)
class Shipped:
    """A text with the path of a shipped file in it: `before` + the file `name` of the archive +
    `after`."""

    archive: str
    name: str
    before: str = ""
    after: str = ""


class Shipment:
    """The things that a host needs: options, archives that the options name, folders of modules,
    and variables such as the key."""

    def __init__(self) -> None:
        self.options, self.archives, self.modules = dict[str, Any](), dict[str, Any](), list[str]()
        self.image: tuple[str, str] | None = None
        """The name and the archive of a built image, for nodes that lack it."""
        self.version = __version__
        self.variables = {name: os.environ[name] for name in _VARIABLES if name in os.environ}


def pack(options: Mapping[str, Any], env_class: type) -> Shipment:
    """Return the shipment of an evaluation's options; `env_class` is its environment's class."""
    shipment = Shipment()
    for name, value in options.items():
        if isinstance(value, NamedReward):
            value = value.name
        elif isinstance(value, Path):
            value = str(value)
        if not isinstance(value, str):
            shipment.options[name] = value
        elif _NAMES.get(name) == "file":
            shipment.options[name] = _pack_file(shipment, name, value)
        elif ":" in value and name in TRAVELLING:
            shipment.options[name] = _pack_code(shipment, name, value, env_class)
        else:
            shipment.options[name] = value
    return shipment


def _pack_file(shipment: Shipment, name: str, text: str) -> str | Shipped:
    built = cache.root_path() / "images" / text
    if name == "image" and "/" not in text and built.is_dir():
        shipment.image = text, _add(shipment, built, ".")
        return text
    path: Path | None = None
    if os.path.exists(text):
        path = Path(text)
    elif name == "data":
        path = downloaded(text)
    if path is None:
        return text
    context = path = path.resolve()
    if path.name.startswith("Dockerfile"):  # Docker copies files from its folder
        context = path.parent
    name = str(path.relative_to(context.parent))
    return Shipped(_add(shipment, context.parent, context.name), name)


def _pack_code(shipment: Shipment, name: str, text: str, env_class: type) -> str | Shipped:
    """Pack a file of replies, or the caller's code with the modules that it imports."""
    kind, _, rest = text.partition(":")
    if kind in _FILES:
        path = Path(rest).resolve()
        return Shipped(_add(shipment, path.parent, path.name), path.name, f"{kind}:")
    with tempfile.TemporaryDirectory() as folder:
        for label, file in caller_modules(kind).items():
            place = label.replace(".", "/")
            if label.endswith(".py"):
                place = Path(label).stem
            suffix = "/__init__.py" if file.name == "__init__.py" else ".py"
            _copy(file, Path(folder), place + suffix)
        if not os.listdir(folder):
            return text  # a module that is installed, which every node has
        if name == "env":
            _copy_furniture(env_class, kind, Path(folder))
        archive = _add(shipment, Path(folder), ".")
    if kind.endswith(".py"):
        return Shipped(archive, Path(kind).name, after=f":{rest}")
    shipment.modules.append(archive)
    return text


def _copy(source: Path, folder: Path, name: str) -> None:
    """Copy with modification times; new folders get a fixed time, so that equal files make equal
    archives."""
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
    for parent in target.parents:
        if parent.is_relative_to(folder):
            os.utime(parent, (0, 0))


def _copy_furniture(env_class: type, module: str, folder: Path) -> None:
    """Copy what the attributes of a class name, if it is next to the file of the class."""
    below = ""
    if not module.endswith(".py"):
        below = module.replace(".", "/").rpartition("/")[0]
    for name in _FILE_ATTRIBUTES:
        if not hasattr(env_class, name):
            continue
        source, owner = attribute_path(env_class, name), defining_class(env_class, name)
        if not source or not os.path.exists(source) or owner.__module__ != module:
            continue
        place = os.path.normpath(os.path.join(below, str(vars(owner)[name])))
        if not place.startswith("..") and not (folder / place).exists():
            _copy(Path(source), folder, place)


def _add(shipment: Shipment, folder: Path, name: str) -> str:
    """Put `name` in `folder` into the object store as an archive, and return its digest. Equal
    files are stored once."""
    import ray

    argv = ["tar", "-C", str(folder), "--sparse", "--sort=name", "--owner=0", "--group=0"]
    argv += ["--exclude=__pycache__", "-cf", "-"]
    tar = subprocess.run([*argv, "--", name], capture_output=True, check=False)
    if tar.returncode:
        raise UsageError(
            f"{folder / name} cannot be sent to the nodes: "
            f"{tar.stderr.decode(errors='replace').strip()[:300]}"
        )
    digest = hashlib.sha256(tar.stdout).hexdigest()[:32]
    if digest not in shipment.archives:
        shipment.archives[digest] = ray.put(tar.stdout)
    return digest


def unpack(shipment: Shipment) -> dict[str, Any]:
    """Return the options with paths of this node; set the variables, and let the modules be
    imported."""
    if shipment.version != __version__:
        raise SandboxError(
            f"intercode {__version__} is installed here, but {shipment.version} on the driver"
        )
    os.environ.update(shipment.variables)
    sys.path += [str(_folder(shipment, archive)) for archive in shipment.modules]
    if shipment.image:
        name, archive = shipment.image
        cache.folder("images", name, partial(_fill, shipment, archive))
    options = {}
    for name, value in shipment.options.items():
        if isinstance(value, Shipped):
            value = f"{value.before}{_folder(shipment, value.archive) / value.name}{value.after}"
        if name == "reward" and isinstance(value, str) and ":" in value:
            value = load_reward(value)
        options[name] = value
    return options


def _folder(shipment: Shipment, archive: str) -> Path:
    return cache.folder("shipped", archive, partial(_fill, shipment, archive))


def _fill(shipment: Shipment, archive: str, folder: Path) -> None:
    """Unpack as the sandboxes' user, who must be able to read trees and images."""
    import ray

    argv = ["tar", "-C", str(folder), "-x", "-p", "--no-same-owner", "-f", "-"]
    tar = subprocess.run(
        argv,
        input=ray.get(shipment.archives[archive]),
        capture_output=True,
        check=False,
        **identity().popen(),
    )
    if tar.returncode:
        raise SandboxError(
            f"the shipped files cannot be unpacked in {folder}: "
            f"{tar.stderr.decode(errors='replace')[:300]}"
        )
