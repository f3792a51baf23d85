"""Warmed layers: what a task's tests fetch, kept once for runs without a network.

    check --warm   the untouched image, with this machine's network ──► the tests run
                   their changes to system folders, /var/lib, /var/cache and the hidden entries
                   of homes ──► a layer in the cache, unless the gold then fails without a network
    later          the tests' sandbox, without a network: the image, and this layer over it

Agents never see the layer. Their own changes do not reach these places for the tests
(`travel.py`), and changes elsewhere are not in it: no verdict, nothing of the work folder.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from intercode.envs.travel import is_within
from intercode.envs.verify import Verifier, run_script
from intercode.envs.workspace import WorkspaceSpec
from intercode.types import Task
from intercode_sandbox import cache
from intercode_sandbox.template import TREE

FETCHING = re.compile(
    r"^[^#\n]*\b(?:curl|wget|uvx?|git clone|(?:pip3?|apt|apt-get|npm) (?:-\S+ )*install)\b", re.M
)
"""A command of a script that may download."""
_FETCHED = re.compile(r"/(?:usr|bin|sbin|opt|etc|lib(?:32|64|x32|exec)?|var/(?:lib|cache))(?:/|$)")
_HIDDEN = re.compile(r"/(?:root|home/[^/]+)/\.")


def fetch(spec: WorkspaceSpec, verifier: Verifier, task: Task, place: Path) -> None:
    """Run the tests in a sandbox of `spec` that has this machine's network, and keep what they
    fetch as the layer `place`."""
    template: Any = spec.template
    provider: Any = spec.provider
    how = {"session": "stateless", "limits": spec.limits, "environment": spec.environment}
    work = verifier.cwd or template.cwd

    def build(layer: Path) -> None:
        layer.chmod(0o755)
        with provider.sandbox(template, network="host", export=layer, cwd=work, **how) as box:
            # a sandbox has no user but root
            box.write("/etc/apt/apt.conf.d/zz-warmed", b'APT::Sandbox::User "root";\n')
            run_script(verifier, box, task, None, writable=True)
            # later, it asks no index for what is there
            box.write("/etc/uv/uv.toml", b"offline = true\n")
            box.export(layer)
        _prune(layer / TREE, [work, *(verifier.system or ())])

    cache.folder(place.parent.name, place.name, build)


def _prune(tree: Path, places: list[str]) -> None:
    """Remove from a layer what was not fetched, and all in these places but the hidden entries of
    homes. Links are not followed."""
    for folder, folders, files in os.walk(tree, topdown=False):
        for name in (*files, *folders):
            entry = Path(folder, name)
            path = f"/{entry.relative_to(tree)}"
            if _HIDDEN.match(path) or (_FETCHED.match(path) and not is_within(path, places)):
                continue
            if entry.is_symlink() or name in files:
                entry.unlink()
            else:
                with suppress(OSError):  # something in it is kept
                    entry.rmdir()
