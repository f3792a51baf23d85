"""The starting points of episodes: templates built from a data set and command-line options, and
sandboxes on these templates.

DataSet + options ──► WorkspaceSpec (template, session, limits) ──► Workspace (one sandbox:
                          │                                         start_episode, execute, outcome)
                          └─ for_task(task) ──► the spec with the image and the setup script from
                                                the task's record

Stateless sessions and the container for the paper's reward reproduce InterCode v1. They are in
`interop/v1/session.py`, which is imported when needed.
"""

from __future__ import annotations

import copy
import json
import re
import shlex
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from intercode.doors import part
from intercode.envs.archives import NAMED, ROOM, digests_of
from intercode.envs.gold import blame_gold
from intercode.envs.services import Service, Services, read_services
from intercode.errors import DataError, ForkError, SandboxDied, UsageError
from intercode.options import NetworkOptions
from intercode.plugins import call_plugin, load_plugin
from intercode.reading import root_of
from intercode.tasks import DataSet
from intercode.types import ExecResult, Outcome, Task, TaskIssue
from intercode_sandbox.base import (
    MIB,
    Limits,
    Network,
    Program,
    Provider,
    Sandbox,
    Session,
    Start,
    fingerprint,
    provider,
    script_command,
)
from intercode_sandbox.host import ENVIRONMENT
from intercode_sandbox.pod import usual_provider_name
from intercode_sandbox.template import Template, with_folder

_ABSENT = """
for path; do
    IFS=/ read -r _ top _ <<<"$path"
    [[ ! -e /$top ]] || compgen -G "$path*" >/dev/null || printf '%s\\n' "$path"
done
"""
"""Print each argument that no existing path begins with, if the argument's top-level folder
exists."""
_NOTHING = ExecResult("", 0)
_NOT_EXECUTED = (2, 126, 127)
"""The exit statuses of an action that is no Bash, of a folder as a command, and of a missing
one."""
_MISSING = re.compile(
    r"""^\S*bash:[ ](?:
        line[ ]\d+:[ ].+:[ ](?:
            command[ ]not[ ]found | No[ ]such[ ]file[ ]or[ ]directory | Is[ ]a[ ]directory
            | Permission[ ]denied )
        | eval:[ ]line[ ]\d+:[ ](?:syntax[ ]error|unexpected[ ]EOF|`).*
    )\n?""",
    re.MULTILINE | re.VERBOSE,
)
"""What bash says of it: `bash: line 1: Answer:: command not found`, but not `ls: cannot access`."""
_NO_SUBMIT = re.compile(r"^\S*bash: line \d+: submit: command not found\n?", re.MULTILINE | re.I)
_SCRIPT, _SCRIPT_SECONDS = "/dev/shm/.script", 60.0
_ROOM_FOR_TESTS, _TEST_PROCESSES = 256 << 20, 512
_ARCHIVES = 1000
_TEXTS, _TEXT_BYTES = 20, 4096
_template_lock = threading.Lock()
_ANSWERING = {
    "diff", "cmp", "zdiff", "zcmp", "grep", "egrep", "fgrep", "rgrep", "zgrep", "pgrep",
    "test", "[", "[[", "((", "!", "expr", "let",
}  # fmt: skip
_NOT_CODE = re.compile(
    r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?<![^\s;&|()])#[^\n]*"""
    r"""|\$\(\(?|[<>]\(|\d*&?[<>]+&?[ \t]*[^\s;&|()]*""",
    re.DOTALL,
)
"""Quoted text, comments, redirections, and the beginning of a substitution."""
_COMMAND = re.compile(
    r"(?:^|&&|[;\n|&({])[\s({]*?(?:\w+=\S*\s+)*(?:[^\s;|&]*/)?(!(?=\s)|\[\[?(?=\s)|\(\(|[\w.+-]+)"
)
_COMPLAINT = re.compile(
    r"\S*bash: line \d+: |Try '|([^\s:]+): (?=.*(operand|No such|[Cc]annot|[Ii]nvalid|unrecognized"
    r"|denied|\bnot\b|[Ff]ailed|omitting|[Ee]rror|exists|Is a|[Uu]sage))"
)


@dataclass(frozen=True)
class WorkspaceSpec:
    """A starting point that many sandboxes share.

    `start` is Bash code that runs at the start of each episode, for example to start services (no
    process survives the building of an image). `probe` is Bash code that runs after the episode and
    prints what else the reward should see. `build` makes the template with another image,
    `build_service` that of a service, from an image and a tree. `services` are started with each
    episode. `session_start` is executed in the agent's own shell, before its first action.
    """

    provider: Provider[Any]
    template: Start
    session: Session
    limits: Limits | None = None
    environment: Mapping[str, str] | None = None
    start: str | None = None
    probe: str | None = None
    build: Callable[[str], Start] | None = None
    cwd: str | None = None
    network: Network = "none"
    build_service: Callable[[str | None, str | None], Start] | None = None
    services: Sequence[Service] = ()
    session_start: str | None = None
    program: ClassVar[Program] = "bash"
    _task_specs: dict[tuple[object, ...], WorkspaceSpec] = field(
        default_factory=dict, compare=False, repr=False
    )

    def make(self) -> Sandbox:
        how: dict[str, Any] = {"session": self.session, "limits": self.limits}
        how |= {"environment": self.environment, "program": self.program}
        if self.cwd:
            how["cwd"] = self.cwd
        if self.network != "none":
            how["network"] = self.network
        make = self.provider.sandbox
        return call_plugin(make, Sandbox, self.template, **how)  # type: ignore[type-abstract]

    def for_task(self, task: Task) -> WorkspaceSpec:
        """Return this spec, or, if the task's record has an `image`, a `setup`, a `cwd`, an `env`,
        limits, a `session_start` or `services`, a spec with these, built at the first call."""
        fields = [task.extra.get(name) for name in ("image", "setup", "cwd", "session_start")]
        image, setup, cwd, session_start = fields
        variables: Mapping[str, str] = task.extra.get("env") or {}
        limits = self.limits and self.limits.changed_by(task.extra)
        if not (any(fields) or variables) and limits == self.limits:
            return self.with_services(task)
        key = *fields, tuple(variables.items()), limits
        with _template_lock:
            if key not in self._task_specs:
                template = self._build_template(task.id, image, setup)
                of_image = dict(getattr(template, "environment", ()))
                usual = self.environment or {**ENVIRONMENT, **of_image}
                self._task_specs[key] = replace(
                    self,
                    template=template,
                    limits=limits,
                    cwd=cwd,
                    session_start=session_start,
                    environment={**usual, **variables} if variables else self.environment,
                    _task_specs={},
                )
            spec = self._task_specs[key]
        return spec.with_services(task)

    def with_services(self, task: Task) -> WorkspaceSpec:
        """Return this spec, or one with the `services` of the task's record."""
        if not (entries := task.extra.get("services")):
            return self
        key = "services", json.dumps(entries)
        with _template_lock:
            if key not in self._task_specs:
                services = [self._service(task, *entry) for entry in read_services(entries).items()]
                self._task_specs[key] = replace(self, services=services, _task_specs={})
            return self._task_specs[key]

    def _service(self, task: Task, name: str, entry: Mapping[str, Any]) -> Service:
        template = self._service_template(task, name, entry)
        variables = {**ENVIRONMENT, **dict(getattr(template, "environment", ()))}
        spec = WorkspaceSpec(
            self.provider,
            template,
            "persistent",
            Limits().changed_by(entry),
            {**variables, **entry["env"]} if entry.get("env") else None,
        )
        command = entry.get("command") or shlex.join(getattr(template, "command", ()))
        if not command:
            raise DataError(
                f"task {task.id}: field 'services': {name} has no command, and its image names none"
            )
        names = ("files", "ready", "ready_seconds", "stdin_open", "aliases")
        how = {key: entry[key] for key in names if key in entry}
        return Service(name, command, entry["port"], spec.make, **how)

    def _service_template(self, task: Task, name: str, entry: Mapping[str, Any]) -> Start:
        if self.build_service is None:
            raise DataError(f"task {task.id}: this environment has no services")
        if self.network != "none":
            raise UsageError("services need sandboxes without this machine's network")
        try:
            return self.build_service(entry.get("image"), entry.get("tree"))
        except UsageError as error:
            raise DataError(f"task {task.id}: field 'services': {name}: {error}") from error

    def for_tests(self, memory: int) -> WorkspaceSpec:
        """Return the spec of sandboxes in which tests run on an agent's files: the same start, with
        `memory` MiB, twice the disk, and no session."""
        key = "tests", memory
        limits = self.limits or Limits()
        disk = 2 * limits.disk + _ROOM_FOR_TESTS
        with _template_lock:
            if key not in self._task_specs:
                self._task_specs[key] = WorkspaceSpec(  # of Bash, also where actions are Python
                    self.provider,
                    self.template,
                    "stateless",
                    replace(
                        limits,
                        memory=memory * MIB + disk,
                        processes=max(limits.processes, _TEST_PROCESSES),
                        disk=disk,
                        file_size=disk,
                    ),
                    self.environment,
                    self.start,
                    self.probe,
                    self.build,
                    self.cwd,
                    self.network,
                )
            return self._task_specs[key]

    def _build_template(self, task: str, image: str | None, setup: str | None) -> Start:
        template = self.template
        if image and self.build:
            try:
                template = self.build(image)
            except UsageError as error:
                raise DataError(f"task {task}: field 'image': {error}") from error
        return (
            self.provider.add_script(template, setup, name=f"of task {task} (field 'setup')")
            if setup
            else template
        )

    def images(self, tasks: Sequence[Task]) -> dict[str, dict[str, str]]:
        """Return the fact `images`, the digest of each image named in a record, and that of
        `service_files`; no fact if there is nothing to name."""
        digests = dict[str, str]()
        for task in tasks:
            image = task.extra.get("image")
            if image and image not in digests:
                digests[image] = self._build_template(task.id, image, None).digest
        facts = self.service_files(tasks)
        if digests:
            facts["images"] = dict(sorted(digests.items()))
        return facts

    def service_files(self, tasks: Iterable[Task]) -> dict[str, dict[str, str]]:
        """Return the fact `service_files`, the digest of each image and tree that the services of
        the tasks name. Of a task whose services cannot be made, which fails when it is played, it
        says so."""
        digests = dict[str, str]()
        for task in tasks:
            try:
                for name, entry in read_services(task.extra.get("services") or {}).items():
                    if place := " + ".join(filter(None, map(entry.get, ("image", "tree")))):
                        digests[place] = self._service_template(task, name, entry).digest
            except DataError:
                digests[f"of task {task.id}"] = "cannot be made"
        return {"service_files": digests} if digests else {}

    def facts(self) -> dict[str, Any]:
        """Return what determines results: the template's content and the programs in it."""
        with self.make() as sandbox:
            facts = {
                "template": getattr(self.template, "content", "") or self.template.digest,
                "userland": fingerprint(sandbox),
                **sandbox.machine_facts(),
                "session": self.session,
                "limits": (self.limits or Limits()).facts(),
            }
        if self.network != "none":
            facts["network"] = self.network
        for name, text in (("start", self.start), ("probe", self.probe)):
            if text:
                facts[name] = text
        return facts


def prepare_workspaces(
    data: DataSet,
    options: NetworkOptions,
    session: Session,
    *,
    paper: bool = False,
    start: str | None = None,
    probe: str | None = None,
) -> tuple[WorkspaceSpec, WorkspaceSpec | None]:
    """Return the spec, and a spec with variant data if the data set has them. The tree and setup of
    `options` override the data set's.

    `paper`: a stateless session is InterCode v1's container, in the first spec.
    """

    what = options.sandbox or usual_provider_name()
    source = provider(what, partial(load_plugin, what="sandbox"))
    limits, network = options.chosen_limits, options.chosen_network
    given = options.agent_files or ()
    folders = [given] if isinstance(given, str | Path) else given

    def make_spec(tree: Path | None, setup: Path | None) -> WorkspaceSpec:
        def make(image: str | None) -> Start:
            start: Start = source.prepare(image=image, tree=tree, setup=setup)
            for folder in folders:
                if not isinstance(start, Template):
                    why = "--agent-files needs the local sandbox; put them into the image"
                    raise UsageError(why)
                start = with_folder(start, Path(folder))
            return start

        def build(name: str) -> Start:
            return make(_find_image(data.folder, name))

        def build_service(image: str | None, tree: str | None) -> Start:
            earlier, source.stand_in = source.stand_in, source.stand_in or options.image
            try:
                start: Start = source.prepare(
                    image=_find_image(data.folder, image) if image else options.image,
                    tree=Path(_find_image(data.folder, tree)) if tree else None,
                )
            finally:
                source.stand_in = earlier
            return start

        template = make(options.image)
        return WorkspaceSpec(
            *(source, template, session, limits, None, start, probe, build, None, network),
            build_service,
        )

    tree = Path(options.tree) if options.tree else None
    setup = Path(options.setup) if options.setup else None
    if tree is None:
        setup = setup or data.setup
    spec = make_spec(tree or data.tree, setup)
    if paper and session == "stateless":
        spec = part("v1_container")(spec, data.name)
    variant = None
    if data.second_tree is not None and options.tree is None:
        variant = make_spec(data.second_tree, data.second_setup)
    return spec, variant


def split_refused(
    tasks: Sequence[Task], provider: Provider[Any]
) -> tuple[list[Task], list[tuple[Task, TaskIssue]]]:
    """Return the tasks whose golds can run in the provider's sandboxes, and the other tasks with
    the reasons."""
    playable, refused = list[Task](), list[tuple[Task, TaskIssue]]()
    for task in tasks:
        why = next(filter(None, map(provider.refuses, task.golds)), None)
        if why:
            refused.append((task, TaskIssue(why, "needs_files")))
        else:
            playable.append(task)
    return playable, refused


def _find_image(folder: Path, image: str) -> str:
    """Return the image that a record names: a path relative to the task file's folder if it exists,
    otherwise the name itself.

    Raises `UsageError` for a path outside that folder, since records may be untrusted.
    """
    path = folder / image
    try:
        inside, exists = path.resolve().is_relative_to(root_of(folder)), path.exists()
    except (OSError, RuntimeError) as error:  # too long, or a cycle of links
        raise UsageError(
            f"{image!r:.100} can be neither an image nor a path next to the task file "
            f"({error!s:.100})"
        ) from error
    if not inside:
        raise UsageError(
            f"{image!r} leads out of the task file's folder; name an image, or put it there"
        )
    return str(path) if exists else image


@dataclass(frozen=True, slots=True)
class GoldOutcome:
    """A gold's outcome, and by path the contents of small text files that the gold added or
    changed."""

    outcome: Outcome
    texts: Mapping[str, str]


@dataclass(frozen=True)
class OwnFiles:
    """The hidden entries of a home, in which programs keep settings, logs and histories. What is
    new there is not part of their work, unless the task is about that entry. `before` are the paths
    in them, and the home, that were there when the program began."""

    home: str
    before: frozenset[str]

    def entry(self, path: str) -> str:
        """Return the hidden entry that a path is in, or the home itself; "" for another path."""
        match = re.match(rf"{re.escape(self.home)}(/\.[^/]*|$)", path)
        return match[0] if match else ""

    def left_out(self, path: str, task: Task, meant: Collection[str]) -> bool:
        """Return whether a changed path is not part of the work. `meant` are the entries of paths
        that golds change."""
        entry = self.entry(path)
        name = re.escape(entry.rpartition("/")[2])
        is_named = entry != self.home and re.search(rf"(?<![\w.]){name}(?![\w-])", task.query)
        is_new = bool(entry) and path not in self.before
        return is_new and entry not in meant and not is_named


class Workspace:
    """A sandbox, and the result of its last action."""

    def __init__(self, spec: WorkspaceSpec) -> None:
        self.spec = spec
        self.sandbox = spec.make()
        self.last = self.answer = _NOTHING
        """The result of the last action, and the one whose output is the answer."""
        self.skips_missing = False
        """Messages of bash about an action that it cannot execute are not part of the answer."""
        self.own_files: OwnFiles | None = None
        """Where a program that plays this episode keeps files of its own."""
        self._clean, self._sealed = True, tuple[str, ...]()
        self._services = Services(spec.services)

    def switch_to(self, spec: WorkspaceSpec) -> None:
        """Replace the sandbox with one made from `spec`, unless it already is."""
        if spec is not self.spec:
            self._replace_sandbox(spec)

    def seal(self, *paths: str) -> bool:
        """Keep programs inside from changing these paths in the episodes that start from now on;
        return whether this sandbox can do that (`Sandbox.seal`)."""
        if paths != self._sealed:
            self._sealed, self._clean = paths, False
        return self.sandbox.seal(*paths)

    def start_episode(self, *, services: bool = True) -> None:
        """Reset the sandbox, then `start_services`. Replace a sandbox that has died. Raises
        `DataError` if the record's `cwd` does not exist."""
        if not self._clean:
            try:
                self.sandbox.reset()
            except SandboxDied:
                sealed = self._sealed
                self._replace_sandbox(self.spec)
                if sealed and self.seal(*sealed):
                    self.sandbox.reset()
        self._clean, self.last, self.answer, self.own_files = True, _NOTHING, _NOTHING, None
        if (cwd := self.spec.cwd) and self.sandbox.exec(
            "", argv=["bash", "-c", "[[ -d $1 ]]", "bash", cwd], cwd="/"
        ).exit_code == 1:
            raise DataError(
                f"field 'cwd': there is no folder {cwd} in the task's world; name one that exists, "
                "or make it in the field 'setup'"
            )
        if services:
            self.start_services()
        else:
            self._clean = False

    def share_services(self, other: Sandbox) -> None:
        """Give programs in another sandbox the ports of the running services; in the workspace's
        own, write their names anew."""
        (self._services.name if other is self.sandbox else self._services.connect)(other)

    def require_services(self) -> None:
        """Raise `SandboxDied` if the machine ended the sandbox of a service."""
        self._services.require()

    def service_logs(self) -> dict[str, str]:
        """Return the ends of the logs of the services, by their names."""
        return self._services.logs()

    def close(self) -> None:
        self._services.close()
        self.sandbox.close()

    def lend_sandbox(self) -> Sandbox:
        """Return the sandbox, in which the caller may change files outside the session."""
        self._clean = False
        return self.sandbox

    def end_processes(self) -> None:
        """End all processes inside, the session's too."""
        self._clean = False
        self.sandbox.end_processes()

    def start_services(self) -> None:
        """Start the services, and run the start script, if there are any."""
        if self.spec.services:
            self._clean = False
            self._services.start(self.sandbox)
        if self.spec.start:
            self._clean = False
            done = self._run_script(self.spec.start)
            if done.exit_code != 0:
                raise _script_error("the start script", done)
        if self.spec.session_start:
            self._clean = False
            done = self.sandbox.exec(self.spec.session_start)
            if done.exit_code != 0:
                raise _script_error("the field `session_start`", done)

    def execute(self, action: str) -> ExecResult:
        """Execute one action in the session. A stateless session behaves as in InterCode v1."""
        self._clean = False
        if self.spec.session == "stateless":
            self.last = part("v1_session")(self, action)
        else:
            self.last = call_plugin(self.sandbox.exec, ExecResult, action)
        self.answer = self._answer_after(self.last) if self.skips_missing else self.last
        return self.last

    def _answer_after(self, result: ExecResult) -> ExecResult:
        """Return the result without what bash says of commands that were not found or cannot be
        read, or the answer before it if there is nothing else: the agent wrote a sentence, or
        `submit`, as a command."""
        if result.overflow is not None:
            return result
        told = _MISSING if result.exit_code in _NOT_EXECUTED else _NO_SUBMIT
        output = told.sub("", result.output)
        if output == result.output:
            return result
        return replace(result, output=output) if output.strip() else self.answer

    def run(self, argv: Sequence[str], *, cwd: str) -> ExecResult:
        """Run a program outside the session."""
        self._clean = False
        return self.sandbox.exec("", argv=list(argv), cwd=cwd)

    def replay(self, actions: Iterable[str]) -> None:
        """Start an episode and execute all `actions`."""
        self.start_episode()
        for action in actions:
            self.execute(action)

    def outcome(self, gold: str | None = None, *, peek: bool = False) -> Outcome:
        """Return the answer (the output of the last action), all changes, the probe's output, and
        whether the last action failed.

        `gold` is the gold that was executed, if any. `peek`: the episode goes on, and nothing in it
        may notice. Raises `DataError` if the probe fails after a gold, since a broken probe prints
        the same after any episode.
        """
        changes = call_plugin(self.sandbox.glance if peek else self.sandbox.diff, dict)
        archives = [
            path for path, change in changes.items() if change.digest and NAMED.search(path)
        ][:_ARCHIVES]
        contents = digests_of(map(self._read_archive, archives)) if archives else []
        for path, digests in zip(archives, contents, strict=True):
            if digests:
                changes[path] = replace(changes[path], held=digests[0], attributes=digests[1:])
        probe_output = ""
        if self.spec.probe is not None:
            self._clean = False
            probe = self._run_script(self.spec.probe)
            if gold is not None and probe.exit_code != 0:
                raise _script_error("after the gold, the probe", probe)
            probe_output = (
                probe.output
                if probe.exit_code == 0
                else f"{probe.output}[status {probe.exit_code}]"
            )
        return Outcome(
            self.answer.output,
            changes,
            self.answer.overflow,
            probe_output,
            bool(self.answer.exit_code),
        )

    def only_fails(self, gold: str, outcome: Outcome) -> bool:
        """Return whether the gold failed, changed nothing, and printed nothing but error messages.

        `outcome` is the outcome of the gold, which must be the last action. If the gold printed
        something, it is executed again with standard error discarded. `2>&1` in a gold makes the
        error message its answer.
        """
        last = self.last
        if (
            outcome.changes
            or outcome.probe
            or not ends_in_failure(last.exit_code, gold, last.output)
        ):
            return False
        if not last.output.strip():
            return True
        self.start_episode()
        self._clean = False
        silent = ["bash", "-c", 'eval "$1" 2>/dev/null', "bash", gold]
        return not self.sandbox.exec("", argv=silent, cwd="/").output.strip()

    def gold_outcome(self, gold: str) -> GoldOutcome:
        """Return the outcome after a gold was executed, with the contents of the first files that
        the gold added or changed."""
        outcome = self.outcome(gold)
        files = [
            path
            for path, change in outcome.changes.items()
            if change.type == "file" and change.kind != "removed"
        ]
        return GoldOutcome(outcome, self.read_texts(files))

    def read_texts(self, paths: Sequence[str]) -> dict[str, str]:
        """Return the contents of the first 20 paths, without those that do not exist or are not
        UTF-8 text of at most 4 KiB."""
        texts = dict[str, str]()
        for path in paths[:_TEXTS]:
            with suppress(OSError, UnicodeDecodeError):
                texts[path] = self.sandbox.read(path, limit=_TEXT_BYTES).decode()
        return texts

    def _read_archive(self, path: str) -> bytes:
        try:
            return self.sandbox.read(path, limit=ROOM)
        except OSError:
            return b""

    def _run_script(self, script: str) -> ExecResult:
        """Run a script in a separate process, which does not affect the agent's shell."""
        command = ["bash", "-c", script]
        if script.startswith("#!"):
            self.sandbox.write(_SCRIPT, script.encode())
            command = script_command(script, _SCRIPT)
        return self.sandbox.exec("", argv=command, cwd="/", timeout=_SCRIPT_SECONDS)

    def _replace_sandbox(self, spec: WorkspaceSpec) -> None:
        """Make the new sandbox first: if that fails, the workspace is unchanged."""
        sandbox = spec.make()
        self.close()
        self.sandbox, self.spec, self._clean, self._sealed = sandbox, spec, True, ()
        self._services = Services(spec.services)

    def fork(self, *, live: bool) -> Self:
        """Return a second workspace with this spec, and a live copy of the sandbox or a new one.
        Raises `ForkError` for a live copy beside services."""
        if live and self.spec.services:
            raise ForkError("the services of a task cannot be copied; use fork(replay=True)")
        other = copy.copy(self)
        other._services = Services(self.spec.services)
        other.sandbox = self.sandbox.fork() if live else self.spec.make()
        other._clean = not live
        return other


def _script_error(script: str, done: ExecResult) -> DataError:
    how = "ran out of time" if done.timed_out else f"ended with status {done.exit_code}"
    return DataError(f"{script} {how}; it printed:\n{done.output[-2000:] or '(nothing)'}")


def execute_gold(workspace: Workspace, gold: str) -> GoldOutcome:
    """Return the outcome of a gold in a fresh episode. Raises `DataError` if the gold kills its
    sandbox."""

    def execute() -> GoldOutcome:
        workspace.replay([gold])
        return workspace.gold_outcome(gold)

    return blame_gold(execute, gold)


def missing_paths(workspace: Workspace, paths: Sequence[str]) -> list[str]:
    """Return the `paths` that no existing path begins with although their top-level folder
    exists."""
    if not paths:
        return []
    result = workspace.sandbox.exec(
        "", argv=["bash", "-c", _ABSENT, "bash", *sorted(set(paths))], cwd="/"
    )
    return result.output.splitlines()


def ends_in_failure(status: int | None, gold: str, output: str) -> bool:
    """Return whether the gold failed.

    Status 1 is an answer if the last command is one like `grep` or `diff`, unless the last line is
    an error message from that command or from Bash. Any other nonzero status is a failure. The gold
    is not parsed: in `[ -f x ] && cat x` only `cat` is considered, and status 1 from an earlier
    command (by `&&`, `set -e` or `pipefail`) is attributed to the last command.
    """
    if status != 1:
        return bool(status)
    commands = _COMMAND.findall(_NOT_CODE.sub("''", gold))
    if not commands or commands[-1] not in _ANSWERING:
        return True
    complaint = _COMPLAINT.match(output.rstrip("\n").rpartition("\n")[2])
    return complaint is not None and complaint[1] in (None, commands[-1])
