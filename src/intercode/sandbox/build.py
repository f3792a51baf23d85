"""From the options of the command line to a template: base, tree, and the layer that a setup script makes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from intercode.errors import DataError, UsageError
from intercode.sandbox import cache, template
from intercode.sandbox.base import MIB, Limits
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template
from intercode.sandbox.wall import Wall

_SETUP_LIMITS = Limits(seconds=600, memory=4096 * MIB, disk=2048 * MIB, file_size=1024 * MIB, processes=512)

_SCRIPT = "/dev/shm/setup.sh"
"""Where the script lies while it runs: outside of what becomes the layer."""


def make_template(*, image: str | None = None, tree: Path | None = None, setup: Path | None = None) -> Template:
    """`image` is a built image's name, a root file system or None for the host's; `tree` goes to `/`; `setup` runs once."""
    made = template.base(image)
    if tree is not None:
        made = template.with_tree(made, tree)
    if setup is not None:
        made = with_script(made, _text(setup), name=str(setup))
    return made


def with_script(below: Template, text: str, *, name: str) -> Template:
    """One more layer: what the Bash script `text` changes; `name` stands in error messages."""
    key = hashlib.sha256(f"{below.digest}\0{text}".encode()).hexdigest()[:32]
    return below.over(cache.folder("layers", key, lambda made: _run(below, text, name, made)))


def _text(script: Path) -> str:
    try:
        return script.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the setup script {script} cannot be read: {error}") from error


def _run(below: Template, text: str, name: str, made: Path) -> None:
    made.chmod(0o755)
    wall = Wall(below, _SETUP_LIMITS, "stateless", export=made)
    with LocalSandbox.inside(wall, _SETUP_LIMITS) as sandbox:
        sandbox.write(_SCRIPT, text.encode())
        result = sandbox.exec("", argv=["bash", _SCRIPT], cwd="/")
        if result.exit_code != 0:
            how = "ran out of time" if result.timed_out else f"ended with status {result.exit_code}"
            raise DataError(f"the setup script {name} {how}; it printed:\n{result.output[-2000:]}")
        sandbox.export()
