"""Where episodes start: templates from a data set and the command line's options, and a place to act in each.

DataSet + options ──► Ground (template, session, limits) ──► Place (one sandbox; begin, act, outcome)
                          └─ of(task) ──► Ground with the image and the setup script that the task's record names
"""

from __future__ import annotations

import copy
import re
import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from intercode.envs.archives import NAMED, ROOM, digests_of
from intercode.envs.bash.gold_status import only_fails
from intercode.envs.gold import run_gold
from intercode.errors import DataError, SandboxDied, UsageError
from intercode.paper.git_status import IGNORED, UNSEEN, ignored
from intercode.sandbox.base import Limits, Sandbox, Session
from intercode.sandbox.build import Backend, Start, make_start, open_sandbox, with_script
from intercode.sandbox.userland import fingerprint
from intercode.sandbox.wall import ENVIRONMENT
from intercode.tasks import DataSet
from intercode.types import Change, ExecResult, Outcome, Task

_NAMES = " -o ".join(f"-name {name}" for name in sorted(UNSEEN))
_RESET = f"""
touch -r / /dev/shm/root
touch /.dockerenv
while empty=$(find / -mindepth 1 \\( {_NAMES} \\) -prune -o -type d -empty -print) && [ -n "$empty" ]; do
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
"""A container's mark at `/`; what the first system's `git clean -fd` removed at each reset: folders without a tracked file,
/tmp and /mnt among them; and the repository at `/`, in a root without git an empty folder. `/` keeps its age."""
_LEAVES_JOBS = re.compile(r"(?<![&>])&(?![&>\d])|>\(")
_SETTLE = "for i in {1..100}; do set -- /proc/[0-9]*; [ $# -le 2 ] && break; sleep 0.02; done"
"""Docker passed on what jobs printed after their shell had ended, for up to 2 s. Here are the init process and this bash."""
_UNDECODABLE = re.compile(r"\\x[89a-f][0-9a-f]")
"""How a byte that is not UTF-8 stands in an output (and the same four characters, were they printed so)."""

_ABSENT = """
for path; do
    IFS=/ read -r _ top _ <<<"$path"
    [[ ! -e /$top ]] || compgen -G "$path*" >/dev/null || printf '%s\\n' "$path"
done
"""
_ARCHIVE, _NAMES_LEFT = "/dev/shm/left.tar", "/dev/shm/left.names"
_NOTHING = ExecResult("", 0)
_SCRIPT_SECONDS = 60.0
_ARCHIVES = 1000
_making = threading.Lock()


@dataclass(frozen=True)
class WorkspaceSpec:
    """A starting point that many sandboxes share.

    `start` is Bash that begins each episode (for services: no process outlives the building of an image), `probe` Bash
    that shows after it what else the reward should see. `build` makes the start with another image.
    """

    template: Start
    session: Session
    limits: Limits | None = None
    environment: Mapping[str, str] | None = None
    start: str | None = None
    probe: str | None = None
    build: Callable[[str], Start] | None = None
    _own: dict[tuple[str | None, str | None], WorkspaceSpec] = field(default_factory=dict, compare=False, repr=False)

    def make(self) -> Sandbox:
        return open_sandbox(self.template, session=self.session, limits=self.limits, environment=self.environment)

    @cached_property
    def tracked(self) -> dict[str, Change]:
        """The files and links that the paper's reward takes for known to git."""
        return self.template.files(skip=UNSEEN)

    def of(self, task: Task) -> WorkspaceSpec:
        """This ground, or for a record with an `image` or a `setup` one with these, made when it is first asked for."""
        own = task.extra.get("image"), task.extra.get("setup")
        if own == (None, None):
            return self
        with _making:
            if own not in self._own:
                self._own[own] = replace(self, template=self._furnished(task.id, *own), _own={})
            return self._own[own]

    def _furnished(self, task: str, image: str | None, setup: str | None) -> Start:
        made = self.template
        if image and self.build:
            try:
                made = self.build(image)
            except UsageError as error:
                raise DataError(f"task {task}: field 'image': {error}") from error
        return with_script(made, setup, name=f"of task {task} (field 'setup')") if setup else made

    def images(self, tasks: Iterable[Task]) -> dict[str, dict[str, str]]:
        """The content of each image that a record names, which the data's digest does not tell; nothing where none does."""
        first = {str(task.extra["image"]): task for task in reversed(list(tasks)) if task.extra.get("image")}
        found = {image: self._furnished(task.id, image, None).digest for image, task in sorted(first.items())}
        return {"images": found} if found else {}

    def facts(self) -> dict[str, Any]:
        """What decides results: the template's content and the programs in it."""
        scripts = {name: text for name, text in (("start", self.start), ("probe", self.probe)) if text}
        with self.make() as sandbox:
            return {
                "template": self.template.digest,
                "userland": fingerprint(sandbox),
                "session": self.session,
                **scripts,
            }


def prepare_workspaces(
    data: DataSet,
    session: Session,
    *,
    image: str | None,
    tree: str | Path | None,
    setup: str | Path | None,
    limits: Limits | None,
    paper: bool,
    sandbox: Backend | None = None,
    start: str | None = None,
    probe: str | None = None,
) -> tuple[WorkspaceSpec, WorkspaceSpec | None]:
    """The ground, and the one with second contents if the data has them. A tree or setup of the caller's own goes first."""

    def spec(tree: Path | None, setup: Path | None, paper: bool) -> WorkspaceSpec:
        def make(chosen: str | None) -> Start:
            made = make_start(sandbox or "local", image=chosen, tree=tree, setup=setup)
            return with_script(made, _RESET, name="the paper's reset") if paper else made

        environment = None
        if paper:  # as `docker exec` gave them; data that is not `nl2bash_fs_N` counts as the first
            number = match[1] if (match := re.search(r"fs_(\d+)$", data.name)) else "1"
            environment = {"PATH": ENVIRONMENT["PATH"], "HOME": "/root", "HOSTNAME": "intercode"}
            environment |= {"file_system_version": number, "script": f"setup_nl2b_fs_{number}.sh"}
        return WorkspaceSpec(
            make(image), session, limits, environment, start, probe, lambda chosen: make(_beside(data.file, chosen))
        )

    own_tree, own_setup = (Path(each) if each else None for each in (tree, setup))
    first = spec(own_tree or data.tree, own_setup or (None if tree else data.setup), paper)
    if data.second_tree is None or tree is not None:
        return first, None
    return first, spec(data.second_tree, data.second_setup, False)


def _beside(file: Path | None, image: str) -> str:
    """An image that a record names: a path from the task file's folder, if there is one of that name, else a name.

    Raises `UsageError` for a path that leads out of that folder: records may be a stranger's.
    """
    folder = file.parent if file else Path()
    path = folder / image
    try:
        inside, exists = path.resolve().is_relative_to(folder.resolve()), path.exists()
    except (OSError, RuntimeError) as error:  # too long, or links in a circle
        raise UsageError(f"{image!r:.100} can be neither an image nor a path beside the task file ({error!s:.100})") from error
    if not inside:
        raise UsageError(f"{image!r} leads out of the task file's folder; name an image, or put it there")
    return str(path) if exists else image


class Workspace:
    """One sandbox, and what was done in it last."""

    def __init__(self, spec: WorkspaceSpec) -> None:
        self.spec = spec
        self.sandbox = spec.make()
        self.last = _NOTHING
        self._clean = True

    def move(self, spec: WorkspaceSpec) -> None:
        """To another ground, in a sandbox of it; nothing happens if it is the same."""
        if spec is not self.spec:
            self._rebuild(spec)

    def begin(self) -> None:
        """Nothing has been done, but for the start script. A sandbox that does not live any more is replaced."""
        if not self._clean:
            try:
                self.sandbox.reset()
            except SandboxDied:
                self._rebuild(self.spec)
        self._clean, self.last = True, _NOTHING
        if self.spec.start:
            self._clean = False
            done = self._aside(self.spec.start)
            if done.exit_code != 0:
                raise _failed("the start script", done)

    def _aside(self, script: str) -> ExecResult:
        """Bash beside the agent's shell, which does not see it."""
        return self.sandbox.exec("", argv=["bash", "-c", script], cwd="/", timeout=_SCRIPT_SECONDS)

    def act(self, action: str) -> ExecResult:
        self._clean = False
        stateless = self.spec.session == "stateless"
        self.last = self._as_the_paper_did(action) if stateless else self.sandbox.exec(action)
        return self.last

    def play(self, *actions: str) -> None:
        """Begin, and act."""
        self.begin()
        for action in actions:
            self.act(action)

    def outcome(self, gold: str | None = None) -> Outcome:
        """The answer (what the last action printed), the effect of all actions, what the probe shows, and whether it failed.

        `gold` is what was executed, if it was a gold. Raises `DataError` if the probe fails after it: broken, the probe would
        show the same after anything.
        """
        status, said = self.last.exit_code, self.last.output
        failed = bool(status) if gold is None else only_fails(status, gold, said)
        return Outcome(said, self._changes(), self.last.overflow, self._probed(gold is not None), failed)

    def _changes(self) -> dict[str, Change]:
        """What differs from the template, and of the first archives among it what they hold."""
        changes = self.sandbox.diff()
        archives = [path for path, change in changes.items() if change.digest and NAMED.search(path)][:_ARCHIVES]
        found = digests_of(map(self._content, archives)) if archives else []
        return changes | {
            path: replace(changes[path], held=digests[0], attributes=digests[1:])
            for path, digests in zip(archives, found, strict=True)
            if digests
        }

    def _content(self, path: str) -> bytes:
        try:
            return self.sandbox.read(path, limit=ROOM)
        except OSError:
            return b""

    def _probed(self, of_gold: bool) -> str:
        if self.spec.probe is None:
            return ""
        self._clean = False
        shown = self._aside(self.spec.probe)
        if of_gold and shown.exit_code != 0:
            raise _failed("after the gold, the probe", shown)
        return shown.output if shown.exit_code == 0 else f"{shown.output}[status {shown.exit_code}]"

    def _rebuild(self, spec: WorkspaceSpec) -> None:
        """Close the old sandbox last: where there is no new one, the place stays as it was."""
        fresh = spec.make()
        self.sandbox.close()
        self.sandbox, self.spec, self._clean = fresh, spec, True

    def twin(self, *, live: bool) -> Self:
        """The same place again: a live copy, or an untouched one."""
        other = copy.copy(self)
        other.sandbox = self.sandbox.fork() if live else self.spec.make()
        other._clean = not live
        return other

    def _as_the_paper_did(self, action: str) -> ExecResult:
        """The appendix's "Bash action": in double quotes after `/bin/bash -c`, split by shlex; only `cd` carries over.

        The first system waited for what background jobs print, and called an output that is not UTF-8 malformed.
        """
        cwd = self.last.cwd
        target = _cd_target(cwd, action)
        try:
            argv = shlex.split(f'/bin/bash -c "{f"cd {target}" if target else action.strip()}"')
        except ValueError:
            return ExecResult("Malformed command", None, cwd=cwd)
        result = self.sandbox.exec("", argv=argv, cwd=cwd)
        if result.timed_out:
            return ExecResult("Command timed out", None, timed_out=True, cwd=cwd)
        if _LEAVES_JOBS.search(action):
            result = replace(result, output=result.output + self.sandbox.exec("", argv=["bash", "-c", _SETTLE]).output)
        if _UNDECODABLE.search(result.output):
            return ExecResult("Malformed command", None, cwd=cwd)
        return replace(result, cwd=target if target and result.exit_code == 0 else cwd)


def _failed(script: str, done: ExecResult) -> DataError:
    how = "ran out of time" if done.timed_out else f"ended with status {done.exit_code}"
    return DataError(f"{script} {how}; it printed:\n{done.output[-2000:] or '(nothing)'}")


def _cd_target(cwd: str, action: str) -> str | None:
    """Where the first system believed that an action starting with `cd` leads: by its text, not by looking."""
    if not action.startswith("cd "):
        return None
    path, parts = action[3:].strip(), list[str]()
    for part in (path if path.startswith("/") else f"{cwd}/{path}").split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def execute_gold(workspace: Workspace, gold: str) -> Outcome:
    """Return the outcome of a gold on the untouched tree. Raises `DataError` if the gold ends its sandbox."""
    return run_gold(lambda: _execute(workspace, gold), gold)


def _execute(workspace: Workspace, gold: str) -> Outcome:
    workspace.play(gold)
    return workspace.outcome(gold)


def execute_gold_again(workspace: Workspace, gold: str) -> Outcome:
    """The outcome at later turns under the paper's protocol.

    The first system executed the gold anew at each scoring, in a container of its own, after `git reset --hard; git clean
    -fd`: what it had left in folders that git ignores (a link in /root, say) was there when it ran again,
    and the tracked files that it had changed or removed were new.
    """
    first = execute_gold(workspace, gold)
    left = [path for path, change in first.changes.items() if ignored(path) and change.kind != "removed"]
    restored = [path for path in first.changes if path in workspace.spec.tracked]
    if not left and not restored:
        return first
    archive = b""
    if left:
        workspace.sandbox.write(_NAMES_LEFT, "\0".join(left).encode("utf-8", "surrogateescape"))
        _tar(workspace, "--no-recursion", "--null", "-T", _NAMES_LEFT, "-Pcf", _ARCHIVE)
        archive = workspace.sandbox.read(_ARCHIVE, limit=1 << 28)
    workspace.begin()
    workspace.act("")
    if restored:
        workspace.sandbox.exec("", argv=["touch", "-c", "-h", "--", *restored], cwd="/")
    if archive:
        workspace.sandbox.write(_ARCHIVE, archive)
        _tar(workspace, "-Pxf", _ARCHIVE)
    workspace.act(gold)
    return workspace.outcome(gold)


def _tar(workspace: Workspace, *options: str) -> None:
    result = workspace.sandbox.exec("", argv=["tar", *options], cwd="/")
    if result.exit_code != 0:
        said = result.output.strip()[-200:]
        raise DataError(f"what the gold left in ignored folders cannot be carried over to its next execution: {said}")


def missing_paths(workspace: Workspace, paths: Sequence[str], *, fresh: bool = False) -> list[str]:
    """Those of `paths` below an existing folder of `/` with which no path begins now (`fresh`: on the untouched tree)."""
    if not paths:
        return []
    if fresh:
        workspace.begin()
    found = workspace.sandbox.exec("", argv=["bash", "-c", _ABSENT, "bash", *sorted(set(paths))], cwd="/")
    return found.output.splitlines()
