"""Warmed layers: what a task's tests fetch, kept once for runs without a network.

    check --warm   the untouched image, with this machine's network ──► the tests run
                   their changes to system folders, /var/lib, /var/cache and a home's hidden
                   entries ──► ROOT/warmed/KEY
    later          the tests' sandbox, without a network: the image, and this layer over it

Agents never see the layer. Their own changes do not reach these places for the tests
(`travel.py`), and changes elsewhere are not in it: no verdict, nothing of the work folder. KEY
stands for the tests, the image and the kind of sandbox. A caller removes a layer with which the
gold does not pass. Left out: sandboxes of Docker.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from intercode.envs.travel import is_within
from intercode.envs.verify import Verifier, run_script
from intercode.envs.workspace import WorkspaceSpec
from intercode.errors import DataError, UsageError
from intercode.types import Task
from intercode_sandbox import cache
from intercode_sandbox.template import TREE, Template

_SHELF, _START = "warmed", "start"
"""The cache's folder, and the file of a layer with the digest of the template below it."""
_KEPT = re.compile(
    r"/(?: usr | bin | sbin | opt | etc | lib(?:32|64|x32|exec)? | var/(?:lib|cache) )(?:/|$)",
    re.VERBOSE,
)
_HIDDEN = re.compile(r"/(?:root|home/[^/]+)/\.")
_PROXIES = re.compile(r"(?:https?|ftp|no|all)_proxy", re.I)


def layer_path(key: str) -> Path:
    return cache.root_path() / _SHELF / key


def is_warm(key: str) -> bool:
    return layer_path(key).is_dir()


def forget(key: str) -> None:
    cache.remove(layer_path(key))


def fetch(spec: WorkspaceSpec, verifier: Verifier, task: Task, key: str) -> str:
    """Run the tests in a sandbox of `spec` that has this machine's network, and keep what they
    fetch as the layer `key`. Return what they printed; "" if the layer is there."""
    template = spec.template
    if not isinstance(template, Template):
        raise UsageError("--warm needs --sandbox local or pod")
    if is_warm(key) and not _is_on(template, key):
        forget(key)
    printed = ""
    work = verifier.cwd or template.cwd
    proxies = {name: value for name, value in os.environ.items() if _PROXIES.fullmatch(name)}

    def build(layer: Path) -> None:
        nonlocal printed
        layer.chmod(0o755)
        how: dict[str, Any] = {"limits": spec.limits, "environment": spec.environment}
        how |= {"session": "stateless", "network": "host", "export": layer}
        opened: Any = spec.provider.sandbox(template, cwd=work, **how)
        with opened as box:
            tests = replace(verifier, environment={**proxies, **verifier.environment})
            printed = run_script(tests, box, task, None, writable=True).output
            box.export(layer)
        _prune(layer / TREE, work, verifier.system or ())
        (layer / _START).write_text(template.digest)

    cache.folder(_SHELF, key, build)
    return printed


def with_layer(spec: WorkspaceSpec, task: Task, key: str) -> WorkspaceSpec:
    """Return the spec with the layer `key`. Raises `DataError` if its image has changed."""
    template = spec.template
    if isinstance(template, Template) and _is_on(template, key):
        return spec.on(template.over(layer_path(key)), {"UV_OFFLINE": "1"})
    raise DataError(
        f"task {task.id}: its image has changed since its tests were warmed; "
        "run `intercode check --warm` again"
    )


def _is_on(template: Template, key: str) -> bool:
    return (layer_path(key) / _START).read_text() == template.digest


def _prune(tree: Path, work: str, subjects: tuple[str, ...]) -> None:
    """Remove from a layer what is not to be kept; links are not followed."""
    for folder, folders, files in os.walk(tree, topdown=False):
        for name in (*files, *folders):
            entry = Path(folder, name)
            path = f"/{entry.relative_to(tree)}"
            is_fetched = _KEPT.match(path) and not is_within(path, [work])
            if (is_fetched or _HIDDEN.match(path)) and not is_within(path, subjects):
                continue
            if name in files or entry.is_symlink():
                entry.unlink()
            else:
                with suppress(OSError):  # it has something that is kept
                    entry.rmdir()
