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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from intercode.envs.parts import parts_of
from intercode.envs.travel import Work, is_within
from intercode.errors import SandboxDied, SandboxError, is_inside
from intercode_sandbox.base import Sandbox
from intercode_sandbox.transfer import TooLarge

ARTIFACTS, MAIN = "/logs/artifacts", "main"
"""The folder that is always an artifact, and the agent's own container."""
OF_TASK = "task"
"""As `verify_image`: a fresh copy of the task's own image."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file or folder of a container. `exclude` are patterns as for `tar --exclude`; `destination`
    is not used. Raises `ValueError` for `/`, and for a path with `..`."""

    source: str
    destination: object = None
    exclude: Sequence[str] = ()
    service: str = MAIN

    def __post_init__(self) -> None:
        if not self.source.strip("/.") or ".." in self.source.split("/"):
            raise ValueError

    def excludes(self, name: str) -> bool:
        """Return whether a pattern matches the end of a path below the artifact."""
        while name:
            if any(fnmatchcase(name, pattern) for pattern in self.exclude):
                return True
            name = name.partition("/")[2]
        return False


@dataclass(frozen=True, slots=True)
class Hook:
    """A command that runs after the agent, for at most `timeout_sec`; `user` is not used."""

    command: str
    service: str = MAIN
    timeout_sec: float = 60.0
    user: object = None

    def run(self, box: Sandbox) -> str:
        """Run the command; return what went wrong, or ""."""
        try:
            result = box.run(["bash", "-c", self.command], timeout=self.timeout_sec)
        except OSError as error:  # the agent has removed the folder in which it would start
            if not is_inside(error):
                raise
            return f"the hook {self.command!r:.80} did not start: {error.strerror}"
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
        """A phrase for the changes of an agent that do not reach the tests."""
        sources = ", ".join(artifact.source for artifact in self.artifacts)
        return f"anything but {sources} (the tests' image: {self.image})"


def read_separate(record: Mapping[str, Any]) -> Separate | None:
    """Return what a valid record says of an image of its tests; None if it names none."""
    if record.get("verify_image") is None:
        return None
    artifacts = parts_of(Artifact, [ARTIFACTS, *(record.get("artifacts") or ())])
    hooks = parts_of(Hook, record.get("collect") or ())
    return Separate(record["verify_image"], tuple(artifacts), tuple(hooks))


def collect(
    separate: Separate, work: Work, source: Sandbox, box: Sandbox, ours: Collection[str]
) -> tuple[list[str], list[str]]:
    """Run the hooks, end the processes of the agent's sandbox `source`, and bring the artifacts
    into `box`, but for the tests' folders `ours`; return the paths of the files, and notes.
    Raises `TooLarge`."""
    arrived, notes, room = list[str](), list[str](), source.limits.disk
    services = [MAIN, *(hook.service for hook in separate.hooks)]
    services += [artifact.service for artifact in separate.artifacts]
    of_services = [artifact.source for artifact in separate.artifacts if artifact.service != MAIN]
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
                    # the agent cannot stand in for a service
                    others = of_services if service == MAIN else ()
                    sizes = _bring(artifact, place, box, (*ours, *others), room)
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
        if error.errno == errno.ENOSPC:
            raise SandboxError("the tests' sandbox has no room for the artifacts") from error
        if not is_inside(error):
            raise
        return {}  # there is none
