"""Verify an episode by tests that the agent cannot reach.

    agent's sandbox ── ends its processes ──► changed files, without system folders ─┐
    record ── test.sh and the files next to it ──► /tests (read-only) ────────────────┤
                                       verdict ◄── tests run ◄── an untouched sandbox ┘

The second sandbox has its own limits and a folder for the verdict, /logs/verifier, that the agent
never saw. Programs, libraries, settings and whatever steers test runners come from the image there,
unless the record names them as the task's subject (`verify_system`) or a gold changed them
(`travel.py`). The tests' folder is read-only, unless the gold only passes where it is writable.
With `keep_processes` the tests run in the agent's own sandbox instead, since they ask services that
the agent started; with "auto", they do so if the gold's work only passes there. With `verify_image`
the second sandbox has another image, and only artifacts travel (`separate.py`).

What this cannot hold: code of the agent that runs inside the tests' process can forge that
process's results, and a program of the agent that the tests start runs as the same user as they
do, so while it runs it can write a verdict of the kind that the gold left. A task is called
in-process if a forgery proved that, or if a Python process of the tests held changed files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from intercode.envs.parts import are_parts, is_amount, is_text
from intercode.envs.separate import OF_TASK, Artifact, Hook, Separate, collect, read_separate
from intercode.envs.travel import Route, Work, is_within
from intercode.envs.verdict import (
    MalformedVerdict,
    Verdict,
    parse_tests,
    read_folder,
    read_rewards,
    reward_file,
)
from intercode.envs.workspace import Workspace
from intercode.errors import DataError, IntercodeError
from intercode.reading import present, read_entries, read_files
from intercode.types import Task, TaskIssue
from intercode_sandbox.base import Sandbox, script_command
from intercode_sandbox.transfer import TooLarge

SECONDS, MEMORY = 600.0, 2048
"""The usual limits of the tests: seconds, and MiB."""
TESTS, SOLUTION, VERDICT = "/tests", "/solution", "/logs/verifier"
SCRIPT = "test.sh"
_IN_IMAGE = f"{TESTS}/{SCRIPT}"
"""As `verify`: the script is in the tests' image."""
_PROBE = "/.intercode"
FORGED = f"{_PROBE}/forged"
"""A file that a forgery leaves to show that it was executed."""
_NOT_CHANGES = (TESTS, SOLUTION, VERDICT, _PROBE)
"""Folders that belong to the tests, not to the agent's work."""
_REMOVE_FOLDERS = ["rm", "-rf", "--", TESTS, VERDICT]
_SEALS = {False: (f"{TESTS}/",), True: (f"{TESTS}/{SCRIPT}",)}
"""The paths that are read-only while the tests run: all of the tests' folder or, where it must be
writable (True), the script alone."""
_LARGEST = 8 << 20
_NOTES_IMPORTS = f"""
import atexit, os, sys
opened, inline, mains = set(), set(), set()
def hook(event, words):
    if event == "open" and isinstance(words[0], str) and words[0].endswith(".py"):
        opened.add(words[0])
    elif event in ("cpython.run_command", "cpython.run_stdin", "cpython.run_module"):
        inline.add(event)
    elif event == "cpython.run_file":
        main = os.path.realpath(words[0])
        (mains if os.path.isfile(main) else inline).add(main)
def note():
    with open("{_PROBE}/changed", encoding="utf-8", errors="surrogateescape") as file:
        changed = set(file.read().split("\\0"))
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    loaded = {{os.path.realpath(path) for path in [*files, *opened] if isinstance(path, str)}}
    is_of_tests = {{"pytest", "unittest"}} & set(sys.modules) or any(
        path.startswith("{TESTS}/") for path in loaded | mains)
    if not inline and (not is_of_tests or mains & changed):
        return
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if inline == {{"cpython.run_module"}} and os.path.realpath(main or "/") in changed:
        return
    folders = {{os.path.realpath(path or ".").rstrip("/") + "/" for path in sys.path}}
    safe = ("/usr/", "/lib", "/opt/", "{TESTS}/", "{_PROBE}/")
    unsafe = [folder for folder in folders if not folder.startswith(safe)
              and "/lib/python" not in folder and "/." not in folder]
    held = changed & loaded
    if is_of_tests and (unsafe or held) or unsafe and not held:
        open("{_PROBE}/in-process", "w").close()
    elif held:
        with open("{_PROBE}/inline", "a") as file:
            file.write(".")
if not hasattr(sys, "intercode_notes"):
    sys.intercode_notes = True
    sys.addaudithook(hook)
    atexit.register(note)
"""
"""A sitecustomize.py, and usercustomize.py for tests that set PYTHONPATH: it notes a Python process
of the tests that holds a changed file, or would import files from a folder that the agent may
write. Such a process has loaded a file of the tests, pytest or unittest, or its program is an
argument or on standard input; of several with such an inline program, each may be one case."""

_PLACE_PROBE = f"""
for version in 3.{{8..16}}; do
    folder=~/.local/lib/python$version/site-packages
    mkdir -p "$folder" && cp {_PROBE}/sitecustomize.py "$folder/usercustomize.py"
done
"""
_WITH_PROBE = f'PYTHONPATH={_PROBE}${{PYTHONPATH:+:$PYTHONPATH}} exec "$@"'


@dataclass(frozen=True)
class Verifier:
    """The tests of one task. `files` are contents and modes by path below /tests.

    `system` are the paths of system folders that come from the agent; None: all of them.
    `keep_processes` is None for "auto".
    """

    files: Mapping[str, tuple[bytes, int]]
    seconds: float = SECONDS
    memory: int = MEMORY
    environment: Mapping[str, str] = field(default_factory=dict)
    system: tuple[str, ...] | None = ()
    keep_processes: bool | None = False
    rewards_only: bool = False
    cwd: str | None = None
    writable: bool = False
    """Programs of the agent may write into the tests' folder, but for the script."""
    separate: Separate | None = None
    """The tests' own image, which contains the tests if there are no `files`."""

    @property
    def digest(self) -> str:
        """The hex SHA-256 of the files and settings."""
        return hashlib.sha256(repr(sorted(vars(self).items())).encode()).hexdigest()

    @property
    def scripts(self) -> list[str]:
        """The texts of the shell scripts."""
        files = self.files.items()
        return [text.decode("utf-8", "replace") for name, (text, _) in files if name[-3:] == ".sh"]

    @property
    def exceptions(self) -> list[str]:
        """Sentences on what makes a verdict weaker than usual."""
        sentences = []
        if self.keep_processes:
            sentences.append(
                "processes of the agent were alive during scoring, among all its files"
            )
        elif self.writable:
            sentences.append("programs of the agent could change the tests' files")
        if self.system is None:
            sentences.append("all system folders came from the agent")
        elif self.system:
            sentences.append(f"also taken from the agent: {', '.join(self.system)}")
        return sentences


def read_verifier(task: Task, folder: Path) -> Verifier | None:
    """Return the tests that a task's record names; paths are relative to `folder`. None if it
    names none. Raises `DataError`."""
    record = task.extra
    if record.get("verify") is None:
        return None
    with _field(task, "verify"):
        check_fields(record)
    files = dict[str, tuple[bytes, int]]()
    with _field(task, "verify_files"):
        for path in record.get("verify_files") or ():
            files |= read_files(folder / path, folder)
            if Path(path).name == SCRIPT:
                raise DataError(
                    f"{SCRIPT} is the name of the script in 'verify'; give that file another name"
                )
    separate = read_separate(record)
    if not (separate and record["verify"] == _IN_IMAGE):
        with _field(task, "verify"):
            files |= _read_script(str(record["verify"]), folder)
        script, mode = files[SCRIPT]
        if script.count(b"\r\n") == script.count(b"\n"):  # written on Windows
            files[SCRIPT] = script.replace(b"\r\n", b"\n"), mode
    system, keep = record.get("verify_system") or (), record.get("keep_processes")
    return Verifier(
        files,
        float(record.get("verify_seconds") or SECONDS),
        int(record.get("verify_memory") or MEMORY),
        dict(record.get("verify_env") or {}),
        None if system == "agent" else tuple(path.rstrip("/") for path in system),
        None if keep == "auto" else bool(keep and not separate),
        rewards_only=record.get("verdict") == "reward",
        cwd=record.get("verify_cwd" if separate else "cwd"),
        separate=separate,
    )


@contextmanager
def _field(task: Task, name: str) -> Iterator[None]:
    """Raise `DataError`, which names the field, in place of other errors."""
    try:
        yield
    except IntercodeError as error:
        raise DataError(f"task {task.id}: field {name!r}: {error}") from error


def _read_script(verify: str, folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the content and mode of the script, and of the files next to it, by their paths."""
    path = folder / verify
    # a name has at most 255 bytes
    is_script = "\n" in verify or any(len(part.encode()) > 255 for part in verify.split("/"))
    if is_script or len(verify) >= 4096 or not present(path):
        if re.fullmatch(r"[\w./-]+", verify):
            raise DataError(
                f"there is no {path} (to give a script of one word, end it with a newline)"
            )
        return {SCRIPT: (verify.encode(), 0o755)}
    files = read_files(path, folder)
    if present(path) == "file":
        return {SCRIPT: (files[path.name][0], 0o755)}
    if SCRIPT not in files:
        raise DataError(f"{path} contains no {SCRIPT}")
    return files


def _is_path(value: object) -> bool:
    return isinstance(value, str) and value.startswith("/") and "\0" not in value


def _are_variables(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(text, str) and "\0" not in text for text in value.values()
    )


def _is_positive(value: object) -> bool:
    return is_amount(value) and value != 0


_FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "verify": (
        f"a path next to the task file, a Bash script, or {_IN_IMAGE} of `verify_image`",
        is_text,
    ),
    "verify_files": (
        "a list of paths next to the task file",
        lambda value: (
            isinstance(value, list) and all(isinstance(path, str) and path for path in value)
        ),
    ),
    "verify_seconds": ("a positive number", _is_positive),
    "verify_memory": (
        "a whole number of MiB",
        lambda value: isinstance(value, int) and _is_positive(value),
    ),
    "verify_env": ("an object with text values", _are_variables),
    "env": ("an object with text values", _are_variables),
    "verify_system": (
        "a list of absolute paths without '..', or 'agent'",
        lambda value: (
            value == "agent"
            or (
                isinstance(value, list)
                and all(_is_path(path) and ".." not in path.split("/") for path in value)
            )
        ),
    ),
    "keep_processes": (
        "true, false or 'auto'",
        lambda value: isinstance(value, bool) or value == "auto",
    ),
    "verdict": ("'reward'", lambda value: value == "reward"),
    "cwd": ("an absolute path", _is_path),
    "verify_cwd": ("an absolute path", _is_path),
    "verify_image": (
        f"the name of an image, a path next to the task file, or {OF_TASK!r}",
        is_text,
    ),
    "artifacts": (
        "a list of paths without '..', or objects with source",
        partial(are_parts, Artifact),
    ),
    "collect": (
        "a list of objects with command, service and timeout_sec",
        partial(are_parts, Hook),
    ),
}
"""The allowed values of each field, in words and as a check."""
FIELD_NAMES = tuple(_FIELDS)


def check_fields(record: Mapping[str, Any]) -> None:
    """Raise `DataError` for a field of `FIELD_NAMES` with another value than it may have."""
    for name, (expected, is_valid) in _FIELDS.items():
        value = record.get(name)
        if value is not None and not is_valid(value):
            raise DataError(f"field {name!r} is {value!r:.60}; write {expected}, or leave it out")


def read_verifiers(
    tasks: Sequence[Task], folder: Path
) -> tuple[list[Task], dict[str, Verifier], list[tuple[Task, TaskIssue]]]:
    """Return the tasks whose tests can be read, their verifiers by id, and the other tasks, which
    are named in warnings. Raises `DataError` if there are only such tasks."""
    verifiers = dict[str, Verifier | None]()

    def read(task: Task) -> str:
        for posed in (task, *task.rounds):
            verifiers[posed.id] = read_verifier(posed, folder)
        return task.id

    readable = set(read_entries(tasks, read))
    issue = TaskIssue("its tests cannot be read", "no_tests")
    return (
        [task for task in tasks if task.id in readable],
        {id: verifier for id, verifier in verifiers.items() if verifier},
        [(task, issue) for task in tasks if task.id not in readable],
    )


def run_tests(
    verifier: Verifier,
    workspace: Workspace,
    work: Work,
    *,
    task: Task,
    reference: Verdict | None = None,
    probe: bool = False,
) -> Verdict:
    """Run the tests on the files of `work`, whose processes end, in `workspace`, an unused one.

    `reference` is the verdict whose kinds of files are believed; None for the reference itself.
    With `probe`, also note whether the tests' process imports changed files, and whether a forgery
    was executed. With `keep_processes` the tests run in `work`.
    """
    source = work.lend_sandbox()
    if verifier.keep_processes:
        source.exec("", argv=_REMOVE_FOLDERS, cwd="/", timeout=verifier.seconds)
        work.share_services(source)
        verdict = run_script(verifier, source, task, reference, writable=True)
        # the episode may go on after a wrong submission
        source.exec("", argv=_REMOVE_FOLDERS, cwd="/")
        return replace(verdict, alive=True)
    is_sealed = workspace.seal(*_SEALS[verifier.writable])
    workspace.start_episode(services=False)
    box = workspace.sandbox
    route = Route(
        box,
        verifier.environment,
        verifier.cwd,
        verifier.system,
        None if reference is None else reference.changes,
        "" if task.gold else task.query,
        _NOT_CHANGES,
        verifier.scripts,
    )
    notes, left_behind = list[str](), list[str]()
    try:
        if verifier.separate:
            arrived, notes = collect(verifier.separate, work, source, box, _NOT_CHANGES)
            changes: dict[str, str | None] = dict.fromkeys(arrived)
            if reference is None:
                left_behind = [
                    path
                    for path in source.diff()
                    if path not in changes and not is_within(path, ["/logs"])
                ]
        else:
            work.end_processes()
            brought, left_behind = route.travel(source)
            changes = {path: change.target for path, change in brought.items()}
    except TooLarge as error:
        return Verdict(None, (), None, False, "", f"the tests did not run: {error}")
    workspace.start_services()
    if not verifier.separate:
        work.share_services(box)
    if probe:
        names = "\0".join(changes).encode("utf-8", "surrogateescape")
        box.write(f"{_PROBE}/changed", names)
        box.write(f"{_PROBE}/sitecustomize.py", _NOTES_IMPORTS.encode())
        box.exec("", argv=["bash", "-c", _PLACE_PROBE], cwd="/")
    writable = verifier.writable or not is_sealed
    verdict = run_script(verifier, box, task, reference, writable=writable, probe=probe)
    return replace(
        verdict,
        writable=writable,
        changes=changes,
        left_behind=[path for path in left_behind if not is_within(path, _NOT_CHANGES)],
        notes=notes,
    )


def run_script(
    verifier: Verifier,
    box: Sandbox,
    task: Task,
    reference: Verdict | None,
    *,
    writable: bool,
    probe: bool = False,
) -> Verdict:
    """Write the tests into `box`, run their script, and read what it left."""
    folders = [VERDICT, TESTS] if writable else [VERDICT]
    box.exec("", argv=["mkdir", "-p", *folders], cwd="/")
    for name, (content, mode) in verifier.files.items():
        box.write(f"{TESTS}/{name}", content, mode=mode)
    variables = [f"{name}={value}" for name, value in verifier.environment.items()]
    text, _ = verifier.files.get(SCRIPT) or (_read(box, _IN_IMAGE), 0)
    if text is None:
        raise DataError(f"task {task.id}: field 'verify_image': the image has no {_IN_IMAGE}")
    command = script_command(text.decode("utf-8", "replace"), _IN_IMAGE)
    if probe:
        command = ["sh", "-c", _WITH_PROBE, "sh", *command]
    command = ["env", *variables, *command]
    result = box.exec("", argv=command, cwd=verifier.cwd, timeout=verifier.seconds)
    if not verifier.keep_processes:
        box.end_processes()
    folder, files, unread = read_folder(
        box, VERDICT, reference.folder if reference else None, kinds=_believed(reference, task)
    )
    rewards = None
    tests = []
    try:
        rewards = read_rewards(files)
        if rewards is not None or not verifier.rewards_only:
            tests = parse_tests(files)
    except MalformedVerdict as error:
        unread = str(error)
    in_process = None
    if probe:
        inline = _read(box, f"{_PROBE}/inline") or b""
        in_process = len(inline) == 1 or _read(box, f"{_PROBE}/in-process") is not None
    return Verdict(
        rewards,
        tests,
        result.exit_code,
        result.timed_out,
        result.output,
        unread,
        in_process,
        forged=probe and _read(box, FORGED) is not None,
        reward_file=reward_file(files),
        folder=folder,
    )


def _believed(reference: Verdict | None, task: Task) -> set[str] | None:
    """Return the kinds of files that can be a verdict if the reference is this one; None: all.

    Only the reward file of the reference counts. Results count if the gold's run left some.
    """
    if reference is None:
        return None
    kinds = {".xml", ".json"}
    if task.gold:
        marks = reference.folder.marks if reference.tests and reference.folder else {}
        kinds.intersection_update(marks)
    return {*kinds, reference.reward_file} - {""}


def _read(box: Sandbox, path: str) -> bytes | None:
    with suppress(OSError):
        return box.read(path, limit=_LARGEST)
    return None


def facts(verifiers: Mapping[str, Verifier]) -> dict[str, Any]:
    """Return the fact `verify`: how many tasks have tests, a digest, and the weaker verdicts."""
    if not verifiers:
        return {}
    digests = "".join(f"{name}{verifiers[name].digest}" for name in sorted(verifiers))
    fact: dict[str, Any] = {
        "tasks": len(verifiers),
        "digest": hashlib.sha256(digests.encode()).hexdigest(),
    }
    if weaker := {name: tests.exceptions for name, tests in verifiers.items() if tests.exceptions}:
        fact["weaker"] = weaker
    separate = {name: tests.separate.image for name, tests in verifiers.items() if tests.separate}
    if separate:
        fact["separate"] = separate
    return {"verify": fact}
