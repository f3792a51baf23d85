"""The container and the shell of InterCode v1, for the reward `paper` and stateless sessions
(InterCode, appendix).

    container             the tree without the files that v1's `git clean -fd` removed at each
                          reset, and v1's environment variables
    execute_stateless     one action in a new shell, quoted as in v1; only `cd` affects the next
                          action
    execute_gold_again    a gold's second execution, from the second scored turn on

`intercode.envs.workspace` names the first two, and the reward in `bash.py` calls the third.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from functools import lru_cache

from intercode.envs.workspace import GoldOutcome, Workspace, WorkspaceSpec, execute_gold
from intercode.errors import DataError
from intercode.interop.v1.git_status import IGNORED, UNSEEN, ignored
from intercode.types import Change, ExecResult
from intercode_sandbox.base import Start
from intercode_sandbox.host import ENVIRONMENT

_NAMES = " -o ".join(f"-name {name}" for name in sorted(UNSEEN))
_RESET = f"""
touch -r / /dev/shm/root
touch /.dockerenv
while empty=$(find / -mindepth 1 \\( {_NAMES} \\) -prune -o -type d -empty -print) \
&& [ -n "$empty" ]; do
    printf '%s\\n' "$empty" | xargs -d '\\n' rmdir
done
[ -e /.git ] || {{
    printf '%s\\n' {" ".join(sorted(IGNORED))} > /.gitignore
    git config --global user.name intercode && git config --global user.email intercode@example.org
    git init -q && git add -A && git commit -q -m 'initial commit' || mkdir -p /.git
    find /.git /.gitignore -exec touch -hr /dev/shm/root {{}} +
}}
touch -r /dev/shm/root /
"""
"""Make `/.dockerenv`, remove folders without tracked files (including /tmp and /mnt), and make the
repository at `/`, or an empty folder if the userland lacks git. `/` keeps its modification time."""
_STARTS_JOBS = re.compile(r"(?<![&>])&(?![&>\d])|>\(")
_WAIT_FOR_JOBS = (
    "for i in {1..100}; do set -- /proc/[0-9]*; [ $# -le 2 ] && break; sleep 0.02; done"
)
"""Docker forwarded output that jobs printed up to 2 s after their shell had ended. The two
processes are init and this bash."""
_UNDECODABLE = re.compile(r"\\x[89a-f][0-9a-f]")
"""An escaped byte in an output that was not UTF-8 (or the same four characters printed by a
program)."""
_ARCHIVE, _NAMES_FILE = "/dev/shm/left.tar", "/dev/shm/left.names"


def container(spec: WorkspaceSpec, data: str) -> WorkspaceSpec:
    """Return `spec` with v1's container for the data set `data`: the tree after a reset, and the
    environment variables of `docker exec`."""

    def reset(template: Start) -> Start:
        start: Start = spec.provider.add_script(template, _RESET, name="the paper's reset")
        return start

    # other data sets count as the first file system
    match = re.search(r"fs_(\d+)$", data)
    number = "1"
    if match:
        number = match[1]
    environment = {"PATH": ENVIRONMENT["PATH"], "HOME": "/root", "HOSTNAME": "intercode"}
    environment |= {"file_system_version": number, "script": f"setup_nl2b_fs_{number}.sh"}
    spec = replace(spec, template=reset(spec.template), environment=environment)
    if build := spec.build:
        return replace(spec, build=lambda image: reset(build(image)))
    return spec


@lru_cache(maxsize=64)
def tracked_files(template: Start) -> dict[str, Change]:
    """Return the state of the template's files and links that git tracks, by absolute path."""
    return template.files(skip=UNSEEN)


def execute_stateless(workspace: Workspace, action: str) -> ExecResult:
    """Execute the appendix's "Bash action": in double quotes after `/bin/bash -c`, split by shlex.

    An action that starts with `cd` changes to the folder that the rest of its text names. As in v1,
    wait for the output of background jobs, and treat an output that is not UTF-8 as malformed.
    """
    cwd = workspace.last.cwd
    target = ""
    command = action.strip()
    if action.startswith("cd "):
        target = folder_after_cd(cwd, action[3:].strip())
        command = f"cd {target}"
    try:
        argv = shlex.split(f'/bin/bash -c "{command}"')
    except ValueError:
        return ExecResult("Malformed command", None, cwd=cwd)
    result = workspace.sandbox.exec("", argv=argv, cwd=cwd)
    if result.timed_out:
        return ExecResult("Command timed out", None, timed_out=True, cwd=cwd)
    if _STARTS_JOBS.search(action):
        later = workspace.sandbox.exec("", argv=["bash", "-c", _WAIT_FOR_JOBS])
        result = replace(result, output=result.output + later.output)
    if _UNDECODABLE.search(result.output):
        return ExecResult("Malformed command", None, cwd=cwd)
    if target and result.exit_code == 0:
        cwd = target
    return replace(result, cwd=cwd)


def folder_after_cd(cwd: str, path: str) -> str:
    """Return where `cd PATH` leads, by its text alone."""
    parts = list[str]()
    if not path.startswith("/"):
        path = f"{cwd}/{path}"
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def execute_gold_again(workspace: Workspace, gold: str) -> GoldOutcome:
    """Return the outcome of a gold's second execution.

    V1 executed the gold again at each scoring, in a separate container, after `git reset --hard;
    git clean -fd`: files that the gold had left in ignored folders (such as a link in /root) were
    still there when it ran again, and tracked files that it had changed or removed were restored.
    Raises `DataError` if the gold kills its sandbox, or if its files cannot be carried over.
    """
    first = execute_gold(workspace, gold)
    changes = first.outcome.changes
    left = []
    restored = []
    for path, change in changes.items():
        if ignored(path) and change.kind != "removed":
            left.append(path)
        if path in tracked_files(workspace.spec.template):
            restored.append(path)
    if not left and not restored:
        return first
    archive = b""
    if left:
        workspace.sandbox.write(_NAMES_FILE, "\0".join(left).encode("utf-8", "surrogateescape"))
        _tar(workspace, "--no-recursion", "--null", "-T", _NAMES_FILE, "-Pcf", _ARCHIVE)
        archive = workspace.sandbox.read(_ARCHIVE, limit=1 << 28)
    workspace.start_episode()
    workspace.execute("")
    if restored:
        workspace.sandbox.exec("", argv=["touch", "-c", "-h", "--", *restored], cwd="/")
    if archive:
        workspace.sandbox.write(_ARCHIVE, archive)
        _tar(workspace, "-Pxf", _ARCHIVE)
    workspace.execute(gold)
    return workspace.gold_outcome(gold)


def _tar(workspace: Workspace, *options: str) -> None:
    result = workspace.sandbox.exec("", argv=["tar", *options], cwd="/")
    if result.exit_code != 0:
        raise DataError(
            "what the gold left in ignored folders cannot be carried over to its next "
            f"execution: {result.output.strip()[-200:]}"
        )
