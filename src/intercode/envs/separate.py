"""Tests in a sandbox of their own image, to which only artifacts come from the agent.

    agent's sandbox ── hooks ── its processes end ── artifacts ──┐
    services ── hooks ── artifacts ──────────────────────────────┤ each to its own path
                          verdict ◄── tests run ◄── a sandbox of the tests' image

/logs/artifacts is always an artifact. A hook is a command that may still write artifacts; one that
fails is a note in the verdict. An artifact that is missing is skipped. No program of an image takes
part in copying (`Sandbox.copy_to`), and all artifacts together are limited as the agent's disk is.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol

from intercode.envs.travel import is_within
from intercode.errors import SandboxDied, is_inside
from intercode.types import is_number
from intercode_sandbox.base import Sandbox
from intercode_sandbox.transfer import TooLarge

ARTIFACTS, MAIN = "/logs/artifacts", "main"
"""The folder that is always an artifact, and the agent's own container."""
OF_TASK = "task"
"""As `verify_image`: a fresh copy of the task's own image."""


class Machines(Protocol):
    """An agent's sandbox, and those of its services."""

    def end_processes(self) -> None: ...

    def service_box(self, name: str) -> Sandbox: ...


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file or folder of a container. `exclude` are patterns as for `tar --exclude`."""

    source: str
    exclude: tuple[str, ...] = ()
    service: str = MAIN

    def excludes(self, name: str) -> bool:
        """Return whether a pattern matches the end of a path below the artifact."""
        while name:
            if any(fnmatchcase(name, pattern) for pattern in self.exclude):
                return True
            name = name.partition("/")[2]
        return False


@dataclass(frozen=True, slots=True)
class Hook:
    """A command that runs after the agent, for at most `seconds`."""

    command: str
    service: str = MAIN
    seconds: float = 60.0

    def run(self, box: Sandbox) -> str:
        """Run the command; return what went wrong, or ""."""
        result = box.run(["bash", "-c", self.command], timeout=self.seconds)
        if result.exit_code == 0:
            return ""
        how = "ran out of time" if result.timed_out else f"ended with status {result.exit_code}"
        return f"the hook {self.command!r:.80} {how}"


@dataclass(frozen=True, slots=True)
class Separate:
    """The image of the tests (`OF_TASK`, a name, or the path of a Dockerfile), and what comes from
    the agent."""

    image: str
    artifacts: tuple[Artifact, ...]
    hooks: tuple[Hook, ...]

    @property
    def described(self) -> str:
        """What of an agent's changes the tests do not get."""
        sources = ", ".join(artifact.source for artifact in self.artifacts)
        return f"anything but {sources} (the tests' image: {self.image})"


def read_separate(record: Mapping[str, Any]) -> Separate | None:
    """Return what a valid record says of an image of its tests; None if it names none."""
    if record.get("verify_image") is None:
        return None
    artifacts = [Artifact(ARTIFACTS)]
    for entry in record.get("artifacts") or ():
        fields = {"source": entry} if isinstance(entry, str) else dict(entry)
        fields["exclude"] = tuple(fields.get("exclude", ()))
        artifacts.append(Artifact(**fields))
    hooks = tuple(Hook(**entry) for entry in record.get("collect") or ())
    return Separate(record["verify_image"], tuple(artifacts), hooks)


def is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def is_positive(value: object) -> bool:
    return is_number(value) and not isinstance(value, bool) and value > 0


def _is_source(value: object) -> bool:
    return is_text(value) and bool(str(value).strip("/.")) and ".." not in str(value).split("/")


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def has_fields(entry: object, kinds: Mapping[str, Callable[[Any], bool]], needed: str) -> bool:
    """Return whether an entry is an object with the needed field and only fields of these kinds."""
    if not isinstance(entry, dict) or needed not in entry:
        return False
    return all(name in kinds and kinds[name](value) for name, value in entry.items())


def are_artifacts(value: object) -> bool:
    kinds = {"source": _is_source, "exclude": _are_texts, "service": is_text}
    if not isinstance(value, list):
        return False
    entries = [{"source": entry} if isinstance(entry, str) else entry for entry in value]
    return all(has_fields(entry, kinds, "source") for entry in entries)


def are_hooks(value: object) -> bool:
    kinds = {"command": is_text, "service": is_text, "seconds": is_positive}
    return isinstance(value, list) and all(has_fields(entry, kinds, "command") for entry in value)


def collect(
    separate: Separate, work: Machines, source: Sandbox, box: Sandbox, ours: Collection[str]
) -> tuple[list[str], list[str]]:
    """Run the hooks, end the processes of the agent's sandbox `source`, and bring the artifacts
    into `box`, but for the tests' folders `ours`; return the paths of the files, and notes.
    Raises `TooLarge`."""
    arrived, notes, room = list[str](), list[str](), source.limits.disk
    services = [MAIN, *(hook.service for hook in separate.hooks)]
    services += [artifact.service for artifact in separate.artifacts]
    for service in dict.fromkeys(services):
        place = source if service == MAIN else work.service_box(service)
        try:
            for hook in separate.hooks:
                if hook.service == service and (note := hook.run(place)):
                    notes.append(note)
            if service == MAIN:
                work.end_processes()
            for artifact in separate.artifacts:
                if artifact.service == service:
                    sizes = _bring(artifact, place, box, ours, room)
                    room -= sum(sizes.values())
                    arrived += sizes
        except SandboxDied as death:
            if service == MAIN or not death.by_agent:
                raise
            notes.append(f"the service {service} was gone")
    return arrived, notes


def _bring(
    artifact: Artifact, place: Sandbox, box: Sandbox, ours: Collection[str], room: int
) -> dict[str, int]:
    def stays(path: str, name: str) -> bool:
        return is_within(path, ours) or artifact.excludes(name)

    try:
        return place.copy_to(artifact.source, box, stays, limit=room)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise TooLarge(f"the artifact {artifact.source}: {error.strerror}") from error
        if not is_inside(error):
            raise
        return {}  # there is none
