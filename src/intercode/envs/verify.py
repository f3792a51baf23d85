"""Verify an episode by tests that the agent cannot reach.

    agent's sandbox ── ends its processes ──► changed files, without system folders ─┐
    record ── test.sh and the files next to it ──► /tests ───────────────────────────┤
                                       verdict ◄── tests run ◄── an untouched sandbox ┘

The second sandbox has its own limits and a folder for the verdict, /logs/verifier, that the agent
never saw. Programs, libraries, settings and whatever steers test runners come from the image there,
unless the record names paths of them as the task's subject (`verify_system`). With `keep_processes`
the tests run in the agent's own sandbox instead, since they ask services that the agent started;
with "auto", they do so if the gold's work only passes there.

What this cannot hold: code of the agent that runs inside the tests' process can forge that
process's results; such tasks are called in-process. And a program of the agent that the tests start
runs as the same user as they do, so while it runs it can write the verdict.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intercode.envs.verdict import (
    REWARD_FILES,
    MalformedVerdict,
    Verdict,
    read_rewards,
    read_tests,
)
from intercode.envs.workspace import Workspace
from intercode.errors import DataError
from intercode.sandbox.base import Sandbox
from intercode.sandbox.transfer import TooLarge, carry_over
from intercode.types import Task, is_number

SECONDS, MEMORY = 600.0, 2048
"""The usual limits of the tests: seconds, and MiB."""
TESTS, SOLUTION, VERDICT = "/tests", "/solution", "/logs/verifier"
SCRIPT = "test.sh"
FIELDS = {
    "verify": "a path next to the task file, or a Bash script",
    "verify_seconds": "a positive number",
    "verify_memory": "a whole number of MiB",
    "verify_env": "an object with text values",
    "env": "an object with text values",
    "verify_system": "a list of absolute paths without '..', or 'agent'",
    "keep_processes": "true, false or 'auto'",
    "verdict": "'reward'",
    "cwd": "an absolute path",
}
_PROBE = "/.intercode"
_NOT_CHANGES = (TESTS, SOLUTION, VERDICT, _PROBE)
"""Folders that belong to the tests, not to the agent's work."""
_LARGEST = 8 << 20
_SYSTEM = ("/usr", "/bin", "/sbin", "/opt", "/etc", "/boot", "/dev", "/proc", "/sys")
_LIBRARIES = re.compile(r"/lib\w*(?:/|$)")
_STEERING = re.compile(
    r"""/(?:
        (?:site-packages|dist-packages|node_modules)(?:/|$)   # installed packages
        | (?:conftest|sitecustomize|usercustomize|pytest)\.py$
        | \.?pytest\.(?:ini|toml)$ | [^/]*\.pth$ | (?:_?pytest|pluggy|unittest)/
    )""",
    re.VERBOSE,
)
"""Paths that change what a test runner does: `/app/conftest.py`, but not `/app/conftest.txt`."""
_LOOK = r"""
say() { [[ -d $2 ]] && printf '%s\t%s\n' "$1" "$(realpath -- "$2")"; }
for home in "$HOME" /root /home/*; do say home "$home"; done
IFS=:; for folder in $PATH; do say path "$folder"; done
find / -xdev -name pyvenv.cfg -printf 'path\t%h\n' 2>/dev/null
for place; do printf 'subject\t%s\n' "$(realpath -m -- "$place")"; done
:
"""
"""Print the homes, the folders of programs and the virtual environments of a sandbox, and where the
arguments lead, such as /bin to /usr/bin."""
_NOTES_IMPORTS = f"""
import atexit, os, sys
def note():
    if {{"pytest", "unittest"}} & set(sys.modules):
        with open("{_PROBE}/changed", encoding="utf-8", errors="surrogateescape") as file:
            changed = set(file.read().split("\\0"))
        files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        imported = {{os.path.realpath(path) for path in files if path}}
        folders = {{os.path.realpath(path or ".") + "/" for path in sys.path}}
        safe = ("/usr/", "/lib", "/opt/", "{TESTS}/", "{_PROBE}/")
        unsafe = [folder for folder in folders if not folder.startswith(safe)
                  and "/lib/python" not in folder and "/." not in folder]
        if unsafe or changed & imported:
            open("{_PROBE}/in-process", "w").close()
atexit.register(note)
"""
"""A sitecustomize.py that notes whether a process that ran tests has imported a changed file, or
would import files from a folder that the agent may write."""


_WITH_PROBE = f'PYTHONPATH={_PROBE}${{PYTHONPATH:+:$PYTHONPATH}} exec bash "$1"'


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

    @property
    def digest(self) -> str:
        """The hex SHA-256 of the files and settings."""
        return hashlib.sha256(repr(sorted(vars(self).items())).encode()).hexdigest()

    @property
    def exceptions(self) -> list[str]:
        """Sentences on what makes a verdict weaker than usual."""
        said = []
        if self.keep_processes:
            said.append("processes of the agent were alive during scoring")
        if self.system is None:
            said.append("all system folders were the agent's")
        elif self.system:
            said.append(f"from the agent also: {', '.join(self.system)}")
        return said


def read_verifier(task: Task, folder: Path) -> Verifier | None:
    """Return the tests that a task's record names; paths are relative to `folder`. None if it
    names none. Raises `DataError`."""
    given = task.extra
    if given.get("verify") is None:
        return None
    system, keep = given.get("verify_system", ()), given.get("keep_processes")
    return Verifier(
        files=_read_files(str(given["verify"]), folder, task),
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


def _read_files(verify: str, folder: Path, task: Task) -> dict[str, tuple[bytes, int]]:
    path = folder / verify if len(verify) < 4096 and "\n" not in verify else None
    try:
        if path is None or not path.exists():
            if path is not None and re.fullmatch(r"[\w./-]+", verify):
                raise DataError(
                    f"task {task.id}: field 'verify': there is no {path} "
                    "(a script of one word ends with a line end)"
                )
            return {SCRIPT: (verify.encode(), 0o755)}
        if not path.resolve().is_relative_to(folder.resolve()):
            raise DataError(
                f"task {task.id}: field 'verify': {verify!r} leads out of the task file's folder"
            )
        if path.is_file():
            return {SCRIPT: (path.read_bytes(), 0o755)}
        files = {}
        for file in sorted(path.rglob("*")):
            if not file.resolve().is_relative_to(folder.resolve()):
                raise DataError(f"task {task.id}: field 'verify': {file} leads out of {folder}")
            if file.is_file() and "__pycache__" not in file.parts:
                mode = file.stat().st_mode & 0o777
                files[str(file.relative_to(path))] = file.read_bytes(), mode
    except OSError as error:
        raise DataError(f"task {task.id}: field 'verify': {error}") from error
    if SCRIPT not in files:
        raise DataError(f"task {task.id}: field 'verify': {path} contains no {SCRIPT}")
    return files


def run_tests(
    verifier: Verifier,
    workspace: Workspace,
    source: Sandbox,
    *,
    probe: bool = False,
    reward_file: str | None = None,
) -> Verdict:
    """Run the tests on the files of `source`, whose processes end, in `workspace`, an unused one.

    `reward_file` is the only reward file that counts: the reference's; "" if it had none, and None
    if any counts. With `probe`, also note whether the tests' process imports changed files. With
    `keep_processes` the tests run in `source`.
    """
    probing, left_behind = False, list[str]()
    if verifier.keep_processes:
        box = source
        folders = [TESTS, VERDICT]
        box.exec("", argv=["rm", "-rf", "--", *folders], cwd="/", timeout=verifier.seconds)
    else:
        workspace.start_episode(services=False)
        box = workspace.sandbox
        is_left_out = _left_out(verifier, box)
        source.end_processes()
        try:
            changed, left_behind = carry_over(source, box, is_left_out)
        except TooLarge as error:
            return Verdict(None, (), None, False, "", f"the tests did not run: {error}")
        workspace.start_services()
        if probing := probe:
            names = "\0".join(changed).encode("utf-8", "surrogateescape")
            box.write(f"{_PROBE}/changed", names)
            box.write(f"{_PROBE}/sitecustomize.py", _NOTES_IMPORTS.encode())
    for name, (content, mode) in verifier.files.items():
        box.write(f"{TESTS}/{name}", content, mode=mode)
    box.exec("", argv=["mkdir", "-p", VERDICT], cwd="/")
    variables = [f"{name}={value}" for name, value in verifier.environment.items()]
    command = ["bash", f"{TESTS}/{SCRIPT}"]
    if probing:
        command = ["bash", "-c", _WITH_PROBE, *command]
    done = box.exec(
        "",
        argv=["env", *variables, *command],
        cwd=verifier.cwd,
        timeout=verifier.seconds,
    )
    if not verifier.keep_processes:
        box.end_processes()
    files = dict(_read_verdict(box))
    if reward_file is not None:
        for name in {*REWARD_FILES} - {reward_file}:
            files.pop(name, None)
    rewards, tests, unread = None, [], ""
    try:
        rewards = read_rewards(files)
        tests = [] if verifier.rewards_only and rewards is None else read_tests(files)
    except MalformedVerdict as error:
        unread = str(error)
    in_process = _reads(box, f"{_PROBE}/in-process") is not None if probing else None
    if verifier.keep_processes:  # the episode may go on after a wrong submission
        box.exec("", argv=["rm", "-rf", "--", TESTS, VERDICT], cwd="/")
    written = next((name for name in REWARD_FILES if name in files), "")
    left = [path for path in left_behind if not any(_is_within(path, at) for at in _NOT_CHANGES)]
    return Verdict(
        rewards,
        tests,
        done.exit_code,
        done.timed_out,
        done.output,
        unread,
        in_process,
        written,
        alive=bool(verifier.keep_processes),
        left_behind=left,
    )


def _read_verdict(box: Sandbox) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the verdict folder that can be a verdict, by name."""
    script = 'cd "$1" && printf "%s\\n" *.xml *.json *.txt'
    listed = box.exec("", argv=["bash", "-c", script, "bash", VERDICT], cwd="/")
    names = [
        name for name in listed.output.splitlines() if name == "reward.txt" or name[-4:] != ".txt"
    ]
    contents = box.read_many([f"{VERDICT}/{name}" for name in names], limit=_LARGEST)
    for name, content in zip(names, contents, strict=True):
        if content is not None:
            yield name, content


def _reads(box: Sandbox, path: str) -> bytes | None:
    try:
        return box.read(path, limit=_LARGEST)
    except OSError:
        return None


def _left_out(verifier: Verifier, box: Sandbox) -> Callable[[str, str], bool]:
    """Return whether a path, of that type, comes from the image and not from the agent."""
    homes, folders, subject = list[str](), [*_NOT_CHANGES], [*(verifier.system or ())]
    if verifier.system is not None:
        folders += _SYSTEM
        look = box.exec("", argv=["bash", "-c", _LOOK, "bash", *subject], cwd="/", timeout=60)
        lists = {"home": homes, "path": folders, "subject": subject}
        for line in look.output.splitlines():
            kind, _, path = line.partition("\t")
            if kind in lists and path not in ("", "/"):
                lists[kind].append(path)

    def is_left_out(path: str, type: str) -> bool:
        if any(_is_within(path, folder) for folder in subject):
            return False
        if any(_is_within(path, folder) for folder in folders):
            return True
        if type != "dir" and any(_is_within(place, path) for place in (*homes, *folders)):
            return True  # it would stand in the place of a folder that contains such a path
        return verifier.system is not None and bool(
            _LIBRARIES.match(path)
            or _STEERING.search(path)
            or any(path.startswith(f"{home}/.") for home in homes)
        )

    return is_left_out


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


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
