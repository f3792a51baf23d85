"""Verify an episode by tests that the agent cannot reach.

    agent's sandbox ── ends its processes ──► changed files, without system folders ─┐
    record ── test.sh and the files next to it ──► /tests (read-only) ────────────────┤
                                       verdict ◄── tests run ◄── an untouched sandbox ┘

The second sandbox has its own limits and a folder for the verdict, /logs/verifier, that the agent
never saw. Programs, libraries, settings and whatever steers test runners come from the image there,
unless the record names them as the task's subject (`verify_system`) or a gold changed them
(`travel.py`). The tests' folder is read-only, unless the gold only passes where it is writable.
With `keep_processes` the tests run in the agent's own sandbox instead, since they ask services that
the agent started; with "auto", they do so if the gold's work only passes there.

What this cannot hold: code of the agent that runs inside the tests' process can forge that
process's results, and a program of the agent that the tests start runs as the same user as they
do, so while it runs it can write a verdict of the kind that the gold left. A task is called
in-process if a forgery proved that, or if a Python process of the tests held changed files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from intercode.envs.travel import Route, is_within
from intercode.envs.verdict import REWARD_FILES, CaseResult, MalformedVerdict, Verdict, read_rewards
from intercode.envs.verdict_folder import parse_tests, read_folder
from intercode.envs.workspace import Workspace
from intercode.errors import DataError, IntercodeError
from intercode.reading import present, read_entries, read_files
from intercode.types import Change, Task, TaskIssue, is_number
from intercode_sandbox.base import Sandbox, script_command
from intercode_sandbox.transfer import TooLarge

SECONDS, MEMORY = 600.0, 2048
"""The usual limits of the tests: seconds, and MiB."""
TESTS, SOLUTION, VERDICT = "/tests", "/solution", "/logs/verifier"
SCRIPT = "test.sh"
FIELDS = {
    "verify": "a path next to the task file, or a Bash script",
    "verify_files": "a list of paths next to the task file",
    "verify_seconds": "a positive number",
    "verify_memory": "a whole number of MiB",
    "verify_env": "an object with text values",
    "env": "an object with text values",
    "verify_system": "a list of absolute paths without '..', or 'agent'",
    "keep_processes": "true, false or 'auto'",
    "verdict": "'reward'",
    "cwd": "an absolute path",
}
FIELD_NAMES = tuple(FIELDS)
_PROBE = "/.intercode"
FORGED = f"{_PROBE}/forged"
"""A file that a forgery leaves to show that it was executed."""
_NOT_CHANGES = (TESTS, SOLUTION, VERDICT, _PROBE)
"""Folders that belong to the tests, not to the agent's work."""
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


class Work(Protocol):
    """Where an agent worked."""

    def lend_sandbox(self) -> Sandbox:
        """Return the sandbox, in which the caller may change files outside the session."""
        ...

    def share_services(self, other: Sandbox) -> None:
        """Give programs in another sandbox the ports of the task's services."""

    def end_processes(self) -> None:
        """End all processes inside, the session's too."""


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

    @property
    def digest(self) -> str:
        """The hex SHA-256 of the files and settings."""
        return hashlib.sha256(repr(sorted(vars(self).items())).encode()).hexdigest()

    @property
    def scripts(self) -> list[str]:
        """The texts of the shell scripts."""
        return [
            content.decode("utf-8", "replace")
            for name, (content, _) in self.files.items()
            if name.endswith(".sh")
        ]

    @property
    def exceptions(self) -> list[str]:
        """Sentences on what makes a verdict weaker than usual."""
        said = []
        if self.keep_processes:
            said.append("processes of the agent were alive during scoring, among all its files")
        elif self.writable:
            said.append("programs of the agent could change the tests' files")
        if self.system is None:
            said.append("all system folders came from the agent")
        elif self.system:
            said.append(f"also taken from the agent: {', '.join(self.system)}")
        return said


def read_verifier(task: Task, folder: Path) -> Verifier | None:
    """Return the tests that a task's record names; paths are relative to `folder`. None if it
    names none. Raises `DataError`."""
    given = task.extra
    if given.get("verify") is None:
        return None
    system, keep = given.get("verify_system", ()), given.get("keep_processes")
    files = dict[str, tuple[bytes, int]]()
    for path in given.get("verify_files") or ():
        files |= _files_at(folder / path, folder, task, "verify_files")
    if SCRIPT in files:
        what = f"task {task.id}: field 'verify_files': {SCRIPT} is the name of the script in"
        raise DataError(f"{what} 'verify'; give that file another name")
    files |= _read_files(str(given["verify"]), folder, task)
    script, mode = files[SCRIPT]
    if script.count(b"\r\n") == script.count(b"\n"):  # written on Windows
        files[SCRIPT] = script.replace(b"\r\n", b"\n"), mode
    return Verifier(
        files=files,
        seconds=float(given.get("verify_seconds") or SECONDS),
        memory=int(given.get("verify_memory") or MEMORY),
        environment=dict(given.get("verify_env") or {}),
        system=None if system == "agent" else tuple(path.rstrip("/") for path in system),
        keep_processes=None if keep == "auto" else bool(keep),
        rewards_only=given.get("verdict") == "reward",
        cwd=given.get("cwd"),
    )


def check_fields(record: Mapping[str, Any]) -> None:
    """Raise `DataError` for a field of `FIELDS` with another value than it may have."""

    def is_path(value: object) -> bool:
        return isinstance(value, str) and value.startswith("/") and "\0" not in value

    def is_plain(value: object) -> bool:
        return isinstance(value, str) and is_path(value) and ".." not in value.split("/")

    def are_variables(value: object) -> bool:
        return isinstance(value, dict) and all(
            isinstance(text, str) and "\0" not in text for text in value.values()
        )

    def is_positive(value: object) -> bool:
        return is_number(value) and not isinstance(value, bool) and value > 0

    valid: dict[str, Callable[[Any], bool]] = {
        "verify": lambda value: isinstance(value, str) and bool(value.strip()),
        "verify_files": lambda value: (
            isinstance(value, list) and all(isinstance(path, str) and path for path in value)
        ),
        "verify_seconds": is_positive,
        "verify_memory": lambda value: isinstance(value, int) and is_positive(value),
        "verify_env": are_variables,
        "env": are_variables,
        "verify_system": lambda value: (
            value == "agent" or (isinstance(value, list) and all(map(is_plain, value)))
        ),
        "keep_processes": lambda value: isinstance(value, bool) or value == "auto",
        "verdict": lambda value: value == "reward",
        "cwd": is_path,
    }
    for name, expected in FIELDS.items():
        value = record.get(name)
        if value is not None and not valid[name](value):
            raise DataError(f"field {name!r} is {value!r:.60}; write {expected}, or leave it out")


def read_verifiers(
    tasks: Sequence[Task], folder: Path
) -> tuple[list[Task], dict[str, Verifier], list[tuple[Task, TaskIssue]]]:
    """Return the tasks whose tests can be read, their verifiers by id, and the other tasks, which
    are named in warnings. Raises `DataError` if there are only such tasks."""
    read = dict(read_entries(tasks, lambda task: (task.id, read_verifier(task, folder))))
    issue = TaskIssue("its tests cannot be read", "no_tests")
    return (
        [task for task in tasks if task.id in read],
        {task: verifier for task, verifier in read.items() if verifier},
        [(task, issue) for task in tasks if task.id not in read],
    )


def _read_files(verify: str, folder: Path, task: Task) -> dict[str, tuple[bytes, int]]:
    # a name has at most 255 bytes
    is_script = "\n" in verify or any(len(part.encode()) > 255 for part in verify.split("/"))
    if is_script or len(verify) >= 4096 or not present(folder / verify):
        if re.fullmatch(r"[\w./-]+", verify):
            raise DataError(
                f"task {task.id}: field 'verify': there is no {folder / verify} "
                "(to give a script of one word, end it with a newline)"
            )
        return {SCRIPT: (verify.encode(), 0o755)}
    path = folder / verify
    files = _files_at(path, folder, task, "verify")
    if present(path) == "file":
        return {SCRIPT: (files[path.name][0], 0o755)}
    if SCRIPT not in files:
        raise DataError(f"task {task.id}: field 'verify': {path} contains no {SCRIPT}")
    return files


def _files_at(path: Path, folder: Path, task: Task, name: str) -> dict[str, tuple[bytes, int]]:
    """Return the content and mode of a file by its name, or of the files below a folder by their
    paths there. Raises `DataError`, which names the field."""
    try:
        return read_files(path, folder)
    except IntercodeError as error:
        raise DataError(f"task {task.id}: field {name!r}: {error}") from error


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
    alive, writable = bool(verifier.keep_processes), verifier.writable
    changed, left_behind, starts = dict[str, Change](), list[str](), list[str]()
    if alive:
        box = source
        folders = [TESTS, VERDICT]
        box.exec("", argv=["rm", "-rf", "--", *folders], cwd="/", timeout=verifier.seconds)
        work.share_services(box)
    else:
        writable |= not workspace.seal(*_SEALS[writable])
        workspace.start_episode(services=False)
        box = workspace.sandbox
        route = Route(
            box,
            verifier.environment,
            verifier.cwd,
            verifier.system,
            golds=None if reference is None else reference.changes,
            query="" if task.gold else task.query,
            ours=_NOT_CHANGES,
            scripts=verifier.scripts,
        )
        work.end_processes()
        try:
            changed, left_behind = route.travel(source)
        except TooLarge as error:
            return Verdict(None, (), None, False, "", f"the tests did not run: {error}")
        starts = route.starts
        workspace.start_services()
        work.share_services(box)
        if probe:
            names = "\0".join(changed).encode("utf-8", "surrogateescape")
            box.write(f"{_PROBE}/changed", names)
            box.write(f"{_PROBE}/sitecustomize.py", _NOTES_IMPORTS.encode())
            box.exec("", argv=["bash", "-c", _PLACE_PROBE], cwd="/")
    probing = probe and not alive
    box.exec("", argv=["mkdir", "-p", VERDICT, *([TESTS] if writable or alive else [])], cwd="/")
    for name, (content, mode) in verifier.files.items():
        box.write(f"{TESTS}/{name}", content, mode=mode)
    variables = [f"{name}={value}" for name, value in verifier.environment.items()]
    text = verifier.files[SCRIPT][0].decode("utf-8", "replace")
    command = script_command(text, f"{TESTS}/{SCRIPT}")
    if probing:
        command = ["bash", "-c", _WITH_PROBE, "bash", *command]
    done = box.exec(
        "", argv=["env", *variables, *command], cwd=verifier.cwd, timeout=verifier.seconds
    )
    if not alive:
        box.end_processes()
    folder, files, unread = read_folder(
        box, VERDICT, reference.folder if reference else None, kinds=_believed(reference, task)
    )
    rewards, tests = None, list[CaseResult]()
    try:
        rewards = read_rewards(files)
        tests = [] if verifier.rewards_only and rewards is None else parse_tests(files)
    except MalformedVerdict as error:
        unread = str(error)
    in_process = None
    if probing:
        inline = _reads(box, f"{_PROBE}/inline") or b""
        in_process = len(inline) == 1 or _reads(box, f"{_PROBE}/in-process") is not None
    if alive:  # the episode may go on after a wrong submission
        box.exec("", argv=["rm", "-rf", "--", TESTS, VERDICT], cwd="/")
    return Verdict(
        rewards,
        tests,
        done.exit_code,
        done.timed_out,
        done.output,
        unread,
        in_process,
        forged=probing and _reads(box, FORGED) is not None,
        reward_file=next((name for name in REWARD_FILES if name in files), ""),
        alive=alive,
        writable=writable and not alive,
        folder=folder,
        changes={path: change.target for path, change in changed.items()},
        left_behind=[
            path for path in left_behind if not any(is_within(path, at) for at in _NOT_CHANGES)
        ],
        starts=starts,
    )


def _believed(reference: Verdict | None, task: Task) -> frozenset[str] | None:
    """Return the kinds of files that can be a verdict if the reference is this one; None: all.

    Only the reward file of the reference counts. Results count if the gold's run left some.
    """
    if reference is None:
        return None
    kinds = {".xml", ".json"}
    if task.gold:
        kinds &= (
            set((reference.folder and reference.folder.marks) or ()) if reference.tests else set()
        )
    return frozenset({*kinds, reference.reward_file} - {""})


def _reads(box: Sandbox, path: str) -> bytes | None:
    try:
        return box.read(path, limit=_LARGEST)
    except OSError:
        return None


def facts(verifiers: Mapping[str, Verifier]) -> dict[str, Any]:
    """Return the fact `verify`: how many tasks have tests, a digest, and the weaker verdicts."""
    if not verifiers:
        return {}
    digests = "".join(f"{name}{verifiers[name].digest}" for name in sorted(verifiers))
    weaker = {name: said for name, tests in verifiers.items() if (said := tests.exceptions)}
    return {
        "verify": {
            "tasks": len(verifiers),
            "digest": hashlib.sha256(digests.encode()).hexdigest(),
            **({"weaker": weaker} if weaker else {}),
        }
    }
