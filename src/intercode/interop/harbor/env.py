"""HarborEnv: a `BashEnv` whose tasks are directories of Harbor or Terminal-Bench (`directory.py`).

    reset ──► a sandbox of the task's image, built from its Dockerfile at its first use
    step  ──► Bash, or `submit`: the task's tests give the verdict, by Harbor's rule or, in the
              older form, by their exit status

Agent, tests and solution have no network, whatever the task's `network_mode`, unless the caller
gives them this machine's; they run as root. Tasks that need more than a sandbox offers are left out
with the reason. A Dockerfile that does not build is an error of its task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from intercode.envs.bash.env import BashEnv
from intercode.envs.bash.options import BashOptions
from intercode.envs.workspace import WorkspaceSpec
from intercode.errors import UsageError
from intercode.factory import none_playable
from intercode.interop.harbor.directory import DOWNLOADS, NO_IMAGE, read_directory
from intercode.interop.harbor.language import LANGUAGE
from intercode.interop.harbor.options import HarborOptions
from intercode.tasks import DataSet
from intercode.tasks.loader import Records
from intercode.types import Prepared, Task, TaskIssue
from intercode_sandbox import cache
from intercode_sandbox.pod import usual_provider_name
from intercode_sandbox.template import hash_of

NO_NETWORK = "none: agents, solutions and tests have no network, whatever the tasks allow"


class HarborEnv(BashEnv):
    """An environment for the tasks of Harbor and Terminal-Bench. For its arguments see
    `BashEnv`."""

    Options: ClassVar[type[BashOptions]] = HarborOptions
    language = LANGUAGE
    decided_by: ClassVar = ("verify",)

    @staticmethod
    def records(path: Path) -> Records:
        return read_directory(path)

    @classmethod
    def prepare_world(cls, data: DataSet, options: BashOptions) -> Prepared:
        """Leave out the tasks that cannot be played here, and let `--image` stand in for the images
        that cannot be pulled."""
        issues = cls.lint_files(data, options)
        left_out = []
        tasks = []
        layers = {}
        for task in data.tasks:
            layers[task.id] = cls._layer(task, options)
            left_out += [(task, issue) for issue in issues[task.id]]
            image = task.extra.get("image") or ""
            if options.image and image and not image.endswith("Dockerfile"):
                extra = dict(task.extra)
                del extra["image"]
                task = replace(task, extra=extra)
            if not issues[task.id]:
                tasks.append(task)
        if not tasks:
            raise UsageError(none_playable(left_out))
        world = super().prepare_world(replace(data, tasks=tuple(tasks)), options)
        world.arguments["spec"].provider.stand_in = options.image
        warms = getattr(options, "warm", False)
        tests = replace(world.arguments["tests"], layers=layers, warms=warms)
        return replace(
            world,
            arguments={**world.arguments, "tests": tests},
            facts=lambda: {"network": NO_NETWORK, **world.facts()},
            left_out=[*left_out, *world.left_out],
        )

    @staticmethod
    def _layer(task: Task, options: BashOptions) -> Path | None:
        """Return the layer with what the tests fetch, if it is there or to be made."""
        folder = task.extra.get("task_folder")
        if not folder or (options.sandbox or usual_provider_name()) != "local":
            return None
        layer = cache.root_path() / "warmed" / hash_of(folder, options.image or "")
        if getattr(options, "warm", False) or layer.is_dir():
            return layer
        return None

    @classmethod
    def lint_files(cls, data: DataSet, options: BashOptions) -> Mapping[str, Sequence[TaskIssue]]:
        """Return why the tasks cannot be played here."""
        everything = isinstance(options, HarborOptions) and options.everything
        issues = dict[str, list[TaskIssue]]()
        for task in data.tasks:
            issues[task.id] = []
            is_warm = cls._layer(task, options) is not None
            for why, kind in task.extra.get("unplayable", ()):
                with_network = everything and kind == "needs_network"
                with_network |= is_warm and why.startswith(DOWNLOADS)
                if not (with_network or (options.image and why == NO_IMAGE)):
                    issues[task.id].append(TaskIssue(why, kind))
        return issues

    @classmethod
    def image_facts(cls, spec: WorkspaceSpec, tasks: Iterable[Task]) -> Mapping[str, Any]:
        """Return nothing: the digest of the data covers all Dockerfiles, each of which is built
        when its task is played."""
        return {}
