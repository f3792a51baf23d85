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
from intercode.envs.health import Healthcheck
from intercode.envs.parts import parts_of
from intercode.envs.separate import OF_TASK
from intercode.envs.services import Service, Services, read_services
from intercode.envs.shell import NO_COMMAND, NO_SUBMIT, NOT_EXECUTED
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

_NOTHING = ExecResult("", 0)
_SCRIPT, _SCRIPT_SECONDS = "/dev/shm/.script", 60.0
_ROOM_FOR_TESTS, _TEST_PROCESSES = 256 << 20, 512
_ARCHIVES = 1000
"""The most archives of an outcome whose members are compared."""
_template_lock = threading.Lock()


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
    services: Mapping[Service, Callable[[], Sandbox]] = field(default_factory=dict)
    session_start: str | None = None
    program: ClassVar[Program] = "bash"
    _task_specs: dict[tuple[object, ...], WorkspaceSpec] = field(
        default_factory=dict, compare=False, repr=False
    )

    def make(self) -> Sandbox:
        how: dict[str, Any] = {
            "session": self.session,
            "limits": self.limits,
            "environment": self.environment,
            "program": self.program,
        }
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
                environment = self.environment
                if variables:
                    of_image = dict(getattr(template, "environment", ()))
                    environment = {**(environment or {**ENVIRONMENT, **of_image}), **variables}
                self._task_specs[key] = replace(
                    self,
                    template=template,
                    limits=limits,
                    cwd=cwd,
                    session_start=session_start,
                    environment=environment,
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
                services = dict(
                    self._with_sandbox(task, service) for service in read_services(entries)
                )
                self._task_specs[key] = replace(self, services=services, _task_specs={})
            return self._task_specs[key]

    def _with_sandbox(self, task: Task, service: Service) -> tuple[Service, Callable[[], Sandbox]]:
        """Return a service with its command, and a function that opens its sandbox."""
        template = self._service_template(task, service)
        command = service.command or shlex.join(getattr(template, "command", ()))
        if not command:
            raise DataError(
                f"task {task.id}: field 'services': {service.name} has no command, "
                "and its image names none"
            )
        environment = None
        if service.env:
            of_image = dict(getattr(template, "environment", ()))
            environment = {**ENVIRONMENT, **of_image, **service.env}
        spec = WorkspaceSpec(self.provider, template, "persistent", service.limits, environment)
        return replace(service, command=command), spec.make

    def _service_template(self, task: Task, service: Service) -> Start:
        if self.build_service is None:
            raise DataError(f"task {task.id}: this environment has no services")
        if self.network != "none":
            raise UsageError("services need sandboxes without this machine's network")
        try:
            return self.build_service(service.image, service.tree)
        except UsageError as error:
            raise DataError(f"task {task.id}: field 'services': {service.name}: {error}") from error

    def for_tests(
        self,
        task: Task,
        memory: int,
        image: str | None = None,
        cwd: str | None = None,
        layer: Path | None = None,
    ) -> WorkspaceSpec:
        """Return the spec of sandboxes in which tests run on an agent's files: the same start, or
        that of the tests' `image`, with `memory` MiB, twice the disk, and no session. `layer` is
        what the tests have fetched."""
        key = "tests", memory, image, cwd, layer
        limits = self.limits or Limits()
        disk = 2 * limits.disk + _ROOM_FOR_TESTS
        with _template_lock:
            if key not in self._task_specs:
                template, environment, start = self.template, self.environment, self.start
                if image:
                    template = self._build_template(task.id, image, None, "verify_image")
                    environment = start = None
                if layer:
                    over: Any = template
                    template = over.over(layer)
                self._task_specs[key] = WorkspaceSpec(  # of Bash, also where actions are Python
                    self.provider,
                    template,
                    "stateless",
                    replace(
                        limits,
                        memory=memory * MIB + disk,
                        processes=max(limits.processes, _TEST_PROCESSES),
                        disk=disk,
                        file_size=disk,
                    ),
                    environment,
                    start,
                    cwd=cwd,
                    network=self.network,
                )
            return self._task_specs[key]

    def _build_template(
        self, task: str, image: str | None, setup: str | None, name: str = "image"
    ) -> Start:
        template = self.template
        if name != "image" and self.build is None:
            raise DataError(f"task {task}: field {name!r}: this environment builds no images")
        if image and self.build:
            try:
                template = self.build(image)
            except UsageError as error:
                raise DataError(f"task {task}: field {name!r}: {error}") from error
        if setup:
            name = f"of task {task} (field 'setup')"
            template = self.provider.add_script(template, setup, name=name)
        return template

    def images(self, tasks: Sequence[Task]) -> dict[str, dict[str, str]]:
        """Return the fact `images`, the digest of each image named in a record, and that of
        `service_files`; no fact if there is nothing to name."""
        digests = dict[str, str]()
        for task in tasks:
            for image in (task.extra.get("image"), task.extra.get("verify_image")):
                if image and image not in (*digests, OF_TASK):
                    digests[image] = self._build_template(task.id, image, None).digest
        facts = self.service_files(tasks)
        if digests:
            facts["images"] = dict(sorted(digests.items()))
        return facts

    def service_files(self, tasks: Iterable[Task]) -> dict[str, dict[str, str]]:
        """Return the fact `service_files`, the digest of each image and tree that the services of
        the tasks name. Of a task whose services cannot be made, which fails when it is played, it
        says so."""
        digests = {}
        for task in tasks:
            try:
                for service in read_services(task.extra.get("services") or {}):
                    if place := " + ".join(filter(None, (service.image, service.tree))):
                        digests[place] = self._service_template(task, service).digest
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
        if self.start:
            facts["start"] = self.start
        if self.probe:
            facts["probe"] = self.probe
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

    name = options.sandbox or usual_provider_name()
    source = provider(name, partial(load_plugin, what="sandbox"))

    def make_spec(tree: Path | None, setup: Path | None) -> WorkspaceSpec:
        def make(image: str | None) -> Start:
            start: Start = source.prepare(image=image, tree=tree, setup=setup)
            return _with_agent_files(start, options.agent_files or ())

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

        return WorkspaceSpec(
            source,
            make(options.image),
            session,
            options.chosen_limits,
            start=start,
            probe=probe,
            build=lambda image: make(_find_image(data.folder, image)),
            network=options.chosen_network,
            build_service=build_service,
        )

    setup = Path(options.setup) if options.setup else None
    if not options.tree:
        setup = setup or data.setup
    spec = make_spec(Path(options.tree) if options.tree else data.tree, setup)
    if paper and session == "stateless":
        spec = part("v1_container")(spec, data.name)
    variant = None
    if data.second_tree is not None and options.tree is None:
        variant = make_spec(data.second_tree, data.second_setup)
    return spec, variant


def _with_agent_files(start: Start, folders: str | Path | Sequence[str | Path]) -> Start:
    for folder in [folders] if isinstance(folders, str | Path) else folders:
        if not isinstance(start, Template):
            raise UsageError("--agent-files needs the local sandbox; put them into the image")
        start = with_folder(start, Path(folder))
    return start


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
        inside = path.resolve().is_relative_to(root_of(folder))
        exists = path.exists()
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
    """A gold's outcome, by path the contents of small text files that the gold added or changed,
    and the gold as Bash."""

    outcome: Outcome
    texts: Mapping[str, str]
    command: str


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
        if not entry or path in self.before or entry in meant:
            return False
        name = re.escape(entry.rpartition("/")[2])
        is_named = entry != self.home and re.search(rf"(?<![\w.]){name}(?![\w-])", task.query)
        return not is_named


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
        self._clean = True
        self._sealed: tuple[str, ...] = ()
        self.services = Services(spec.services)

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

    def forget_answer(self) -> None:
        """Have no answer yet, as before the first action."""
        self.last = self.answer = _NOTHING

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
        self._clean = False
        self.forget_answer()
        self.own_files = None
        if cwd := self.spec.cwd:
            test = ["bash", "-c", "[[ -d $1 ]]", "bash", cwd]
            if self.sandbox.exec("", argv=test, cwd="/").exit_code == 1:
                raise DataError(
                    f"field 'cwd': there is no folder {cwd} in the task's world; "
                    "name one that exists, or make it in the field 'setup'"
                )
        if services:
            self.start_services()

    def share_services(self, other: Sandbox) -> None:
        """Give programs in another sandbox the ports of the running services; in the workspace's
        own, write their names anew."""
        if other is self.sandbox:
            self.services.name(other)
        else:
            self.services.connect(other)

    def close(self) -> None:
        self.services.close()
        self.sandbox.close()

    def require_health(self, task: Task) -> None:
        """Wait until the health checks of a task succeed. Raises `DataError`."""
        for check in parts_of(Healthcheck, task.extra.get("healthchecks") or ()):
            check.require(self.sandbox)

    def lend_sandbox(self) -> Sandbox:
        """Return the sandbox, in which the caller may change files outside the session."""
        self._clean = False
        return self.sandbox

    def end_processes(self) -> None:
        """End all processes inside, the session's too."""
        self.sandbox.end_processes()

    def start_services(self) -> None:
        """Start the services, and run the start script, if there are any."""
        spec = self.spec
        if spec.services:
            self.services.start(self.sandbox)
        if spec.start:
            _require_success("the start script", self._run_script(spec.start))
        if spec.session_start:
            result = self.sandbox.exec(spec.session_start)
            _require_success("the field `session_start`", result)

    def execute(self, action: str) -> ExecResult:
        """Execute one action in the session. A stateless session behaves as in InterCode v1."""
        self._clean = False
        if self.spec.session == "stateless":
            self.last = part("v1_session")(self, action)
        else:
            self.last = call_plugin(self.sandbox.exec, ExecResult, action)
        self.answer = self._answer_after(self.last)
        return self.last

    def _answer_after(self, result: ExecResult) -> ExecResult:
        """Return the result or, with `skips_missing`, the result without what bash says of commands
        that were not found or cannot be read. If nothing else was printed, return the answer before
        it: the agent wrote a sentence, or `submit`, as a command."""
        if not self.skips_missing or result.overflow is not None:
            return result
        message = NO_SUBMIT
        if result.exit_code in NOT_EXECUTED:
            message = NO_COMMAND
        output = message.sub("", result.output)
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
        archives = [path for path in changes if changes[path].digest and NAMED.search(path)]
        del archives[_ARCHIVES:]
        if archives:
            contents = map(self._read_archive, archives)
            for path, digests in zip(archives, digests_of(contents), strict=True):
                if digests:
                    changes[path] = replace(changes[path], held=digests[0], attributes=digests[1:])
        probe_output = ""
        if self.spec.probe is not None:
            probe = self._run_script(self.spec.probe)
            if gold is not None:
                _require_success("after the gold, the probe", probe)
            probe_output = probe.output
            if probe.exit_code != 0:
                probe_output += f"[status {probe.exit_code}]"
        answer = self.answer
        return Outcome(
            answer.output, changes, answer.overflow, probe_output, bool(answer.exit_code)
        )

    def gold_outcome(self, gold: str) -> GoldOutcome:
        """Return the outcome after a gold was executed, with the contents of the first files that
        the gold added or changed."""
        outcome = self.outcome(gold)
        files = [
            path
            for path, change in outcome.changes.items()
            if change.type == "file" and change.kind != "removed"
        ]
        return GoldOutcome(outcome, self.read_texts(files), gold)

    def play_gold(self, gold: str, earlier: Sequence[str] = ()) -> GoldOutcome:
        """Execute a gold in a fresh episode, after those of earlier rounds, and return its
        outcome."""
        self.replay([*earlier, gold])
        return self.gold_outcome(gold)

    def read_texts(self, paths: Sequence[str]) -> dict[str, str]:
        """Return the contents of the first 20 paths, without those that do not exist or are not
        UTF-8 text of at most 4 KiB."""
        texts = {}
        for path in paths[:20]:
            with suppress(OSError, UnicodeDecodeError):
                texts[path] = self.sandbox.read(path, limit=4096).decode()
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
        self.sandbox = sandbox
        self.spec = spec
        self._clean = True
        self._sealed = ()
        self.services = Services(spec.services)

    def fork(self, *, live: bool) -> Self:
        """Return a second workspace with this spec, and a live copy of the sandbox or a new one.
        Raises `ForkError` for a live copy if the task has services."""
        if live and self.spec.services:
            raise ForkError("the services of a task cannot be copied; use fork(replay=True)")
        other = copy.copy(self)
        other.services = Services(self.spec.services)
        other.sandbox = self.sandbox.fork() if live else self.spec.make()
        other._clean = not live
        return other


def _require_success(script: str, result: ExecResult) -> None:
    """Raise `DataError` unless a script of the data ended with status 0."""
    if result.exit_code == 0:
        return
    how = "ran out of time" if result.timed_out else f"ended with status {result.exit_code}"
    raise DataError(f"{script} {how}; it printed:\n{result.output[-2000:] or '(nothing)'}")


def execute_gold(workspace: Workspace, gold: str, earlier: Sequence[str] = ()) -> GoldOutcome:
    """Return the outcome of a gold as `play_gold` does. Raises `DataError` if the gold kills its
    sandbox."""
    return blame_gold(lambda: workspace.play_gold(gold, earlier), gold)
