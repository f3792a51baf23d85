"""From a data set and the options of the command line to the grounds that episodes start from."""

from __future__ import annotations

from pathlib import Path

from intercode.envs.bash import Ground
from intercode.sandbox.base import Limits, Session
from intercode.rewards.git_status import IGNORED
from intercode.sandbox.build import make_template, with_script
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template
from intercode.tasks import DataSet

_NAMES = " -o ".join(f"-name {name}" for name in sorted(IGNORED))
_PRUNE = f"""
while empty=$(find / -mindepth 1 \\( {_NAMES} \\) -prune -o -type d -empty -print) && [ -n "$empty" ]; do
    printf '%s\\n' "$empty" | xargs -d '\\n' rmdir
done
"""
"""What the first system's `git clean -fd` removed at each reset: folders without a tracked file, /tmp and /mnt among them."""


def grounds(
    data: DataSet,
    *,
    image: str | None,
    tree: str | Path | None,
    setup: str | Path | None,
    session: Session,
    limits: Limits | None,
    paper: bool,
) -> tuple[Ground, Ground | None]:
    """The ground, and the one with second contents where the data has them. Options named by the caller win."""
    first_tree = Path(tree) if tree else data.tree
    first_setup = Path(setup) if setup else data.setup
    first = make_template(image=image, tree=first_tree, setup=first_setup)
    if paper:
        first = with_script(first, _PRUNE, name="paper reset")
    if data.second_tree is None or tree is not None:
        return _ground(first, session, limits), None
    second = make_template(image=image, tree=data.second_tree, setup=data.second_setup)
    return _ground(first, session, limits), _ground(second, session, limits)


def _ground(template: Template, session: Session, limits: Limits | None) -> Ground:
    return Ground(lambda: LocalSandbox(template, session=session, limits=limits), template.files(skip=IGNORED), template.digest)
