"""TestsJudge: the task's own tests decide, run after the agent's end where it cannot reach them
(`intercode.envs.verify`).

    before   the tests run once after the gold, or without a gold on untouched files: the reference
    rule     the tests run on the agent's files, and need what passed after the gold
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self

from intercode.doors import part
from intercode.envs.gold import NO_GOLD, GoldCache, Key, blame_gold
from intercode.envs.judges import Attempt, Ruling, World
from intercode.envs.separate import OF_TASK
from intercode.envs.travel import Work
from intercode.envs.verdict import Verdict, gold_fault, missing_verdict
from intercode.envs.verdict import score as score_of
from intercode.envs.verify import Verifier, run_tests
from intercode.envs.warmed import FETCHING, fetch
from intercode.envs.workspace import Workspace, WorkspaceSpec
from intercode.errors import DataError
from intercode.types import ExecResult, GoldRun, Score, Task, TaskIssue, shorten_text
from intercode.user import golds_of
from intercode_sandbox import cache
from intercode_sandbox.base import Sandbox

_TESTS = 20
_IN_PROCESS = "in-process: code of the agent runs inside the tests' process and can forge results"
_BESIDE = "in-process: code of the agent runs while the tests do, and can read and mislead them"
_WRITABLE = "the gold passes only where programs of the agent can change the tests' files"


class FilesWorld(World, Work, Protocol):
    """A world with files, which tests can examine."""

    @property
    def sandbox(self) -> Sandbox: ...

    def spec_of(self, task: Task) -> WorkspaceSpec:
        """Return the spec of the task's sandboxes."""
        ...

    def as_bash(self, action: str) -> str:
        """Return Bash that does what an action does."""
        ...

    def from_bash(self, command: str) -> str:
        """Return an action that does what Bash does."""
        ...

    def fork(self, *, live: bool) -> Self: ...


@dataclass(frozen=True, slots=True)
class Tests:
    """The tests of tasks by task id, and the cached verdicts on the golds' work."""

    verifiers: Mapping[str, Verifier] = field(default_factory=dict)
    references: GoldCache[Verdict] = field(default_factory=GoldCache)
    forgeries: GoldCache[tuple[str, str]] = field(default_factory=GoldCache)
    """The forgery that pays, and what the forgeries show; "" for nothing."""
    layers: Mapping[str, Path | None] = field(default_factory=dict)
    """Where lies what tests have fetched (`warmed.py`), by task id."""
    warms: bool = False
    """Let tests that download do so when golds are examined."""


class HiddenTests:
    """The part of a judge about the value of a task that hidden tests decide."""

    def value(self, world: World, attempt: Attempt) -> float:
        raise NotImplementedError

    def no_value(self, world: World, task: Task) -> str:
        return "tests decide, which must stay hidden from the agent"


class TestsJudge(HiddenTests):
    """A judge by the tests in the field `verify`."""

    __test__ = False

    def __init__(self, tests: Tests) -> None:
        self.tests = tests
        self._spare: FilesWorld | None = None
        self._box: Workspace | None = None

    def before(self, world: FilesWorld, task: Task) -> None:
        self.reference(world, task)

    def rule(self, world: FilesWorld, attempt: Attempt) -> Ruling:
        task = self._posed(world, attempt.task)
        reference = self.reference(world, task)
        verifier = self._verifier_for(task, reference)
        lost = world.session_lost()
        box = self._box_for(world, task, verifier)
        verdict = run_tests(verifier, box, world, task=task, reference=reference)
        score = self._score(task, verdict, reference)
        return Ruling(score, lambda: self._show(world, task, verdict, score), session_lost=lost)

    def examine(self, world: FilesWorld, task: Task) -> GoldRun:
        """Run the tests after the gold."""
        if self.tests.warms:
            self._warm(world, task)
        try:
            task = self._posed(world, task)
            if not task.gold:
                return GoldRun(None, "", (NO_GOLD,), stays_behind=self._stays_behind(task))
            verdict, last = self._make_reference(world, task)
        except DataError as error:
            return GoldRun(None, "", (str(error),))
        faults = []
        if last.timed_out:
            faults.append("gold runs out of time")
        if why := self._gold_fault(task, verdict):
            faults.append(f"the gold does not pass its tests: {why}")
        forgery, shows = ("", "") if faults else self._find_forgery(world, task, verdict)
        if verdict.in_process and not forgery:
            shows = _IN_PROCESS
        if shows:
            faults.append(TaskIssue(shows, "unsafe_test"))
        if verdict.writable:
            faults.append(TaskIssue(_WRITABLE, "unsafe_test"))
        evidence = sorted(verdict.passed), sorted(verdict.failed), verdict.rewards
        stays = self._stays_behind(task, verdict.left_behind)
        summary = "\n".join(verdict.passed)
        return GoldRun(evidence, summary, tuple(faults), stays_behind=stays, forgery=forgery)

    def _stays_behind(self, task: Task, of_gold: Sequence[str] = ()) -> str:
        separate = self.tests.verifiers[task.id].separate
        if separate:
            return separate.described
        return ", ".join(map(shorten_text, of_gold[:_TESTS]))

    def close(self) -> None:
        if self._spare:
            self._spare.close()
        if self._box:
            self._box.close()
        self._spare = self._box = None

    def _box_for(self, world: FilesWorld, task: Task, verifier: Verifier) -> Workspace:
        """Return the workspace in which the tests run."""
        layer = self.tests.layers.get(task.id)
        if layer and not layer.is_dir():
            layer = None
        spec = self._spec_for(world, task, verifier, layer)
        self._box = self._box or Workspace(spec)
        self._box.switch_to(spec)
        return self._box

    def _spec_for(
        self, world: FilesWorld, task: Task, verifier: Verifier, layer: Path | None
    ) -> WorkspaceSpec:
        spec = world.spec_of(task)
        if not verifier.separate:
            return spec.for_tests(task, verifier.memory, cwd=spec.cwd, layer=layer)
        image: str | None = verifier.separate.image
        if image == OF_TASK:
            image = None
        return spec.for_tests(task, verifier.memory, image, verifier.cwd, layer)

    def _warm(self, world: FilesWorld, task: Task) -> None:
        """Let tests that download do so once, with this machine's network, and keep what they fetch
        if the gold then passes without one."""
        layer, verifier = self.tests.layers.get(task.id), self.tests.verifiers[task.id]
        if not layer or layer.is_dir():
            return
        if verifier.files and not any(map(FETCHING.search, verifier.scripts)):
            return
        fetch(self._spec_for(world, task, verifier, None), verifier, task, layer)
        try:
            self.before(world, task)
        except BaseException as error:
            cache.remove(layer)
            if not isinstance(error, DataError):
                raise

    def reference(self, world: FilesWorld, task: Task) -> Verdict:
        """Return the verdict on the gold's work, or without a gold on the untouched files; the
        tests run once. Raises `DataError` if it is not a sound reference."""
        task = self._posed(world, task)
        verdict = self._verdict_on(world, task)
        if task.gold and (why := self._gold_fault(task, verdict)):
            raise DataError(f"task {task.id}: the gold does not pass its tests: {why}")
        rewards_only = self.tests.verifiers[task.id].rewards_only
        if why := missing_verdict(verdict, rewards_only=rewards_only):
            raise DataError(f"task {task.id}: on untouched files, {why}")
        return verdict

    def _gold_fault(self, task: Task, verdict: Verdict) -> str:
        return gold_fault(verdict, rewards_only=self.tests.verifiers[task.id].rewards_only)

    def _verdict_on(self, world: FilesWorld, task: Task) -> Verdict:
        return self.tests.references.get(
            _key(world, task), lambda: self._make_reference(world, task)[0]
        )

    def _posed(self, world: FilesWorld, task: Task) -> Task:
        """Return the task, without its gold if that is a stub."""
        if task.gold and self._verdict_on(world, task).of_stub:
            return replace(task, gold="", golds=())
        return task

    def _make_reference(self, world: FilesWorld, task: Task) -> tuple[Verdict, ExecResult]:
        """Run the tests after the gold, or without a gold on the untouched files. A gold that fails
        is tested again where it may write into the tests' folder, and with `keep_processes` "auto"
        with its processes alive."""
        verifier = self.tests.verifiers[task.id]
        ways = [verifier]
        if task.gold and not verifier.keep_processes:
            ways.append(replace(verifier, writable=True))
        if task.gold and verifier.keep_processes is None:
            ways.append(replace(verifier, keep_processes=True))
        attempts = []
        for way in ways:
            verdict, last = self._test_work(world, task, task.gold, way)
            if not self._gold_fault(task, verdict):
                return self._with_alternatives(world, task, verdict), last
            attempts.append((verdict, last))
        verdict, last = attempts[0]
        acted = verdict.changes or verdict.left_behind or last.exit_code
        acted = acted or task.extra.get("services")  # which a gold may change
        of_stub = bool(task.gold) and not acted and last.output.strip() in task.gold
        return replace(verdict, of_stub=of_stub), last

    def _work(self, world: FilesWorld, task: Task, action: str) -> tuple[FilesWorld, ExecResult]:
        """Execute an action, if it is not empty, in a spare world."""
        self._spare = spare = self._spare or world.fork(live=False)
        spare.start(task)
        for earlier in task.earlier:
            if earlier.gold:
                spare.act(earlier.gold)
        if task.earlier and (files := spare.files()):
            files.require_health(task)
        return spare, spare.act(action) if action else ExecResult("", 0)

    def _test_work(
        self,
        world: FilesWorld,
        task: Task,
        action: str,
        verifier: Verifier,
        reference: Verdict | None = None,
    ) -> tuple[Verdict, ExecResult]:
        """Run the tests, with a probe, after an action in a spare world."""

        def execute() -> tuple[Verdict, ExecResult]:
            spare, last = self._work(world, task, action)
            box = self._box_for(world, task, verifier)
            verdict = run_tests(verifier, box, spare, task=task, reference=reference, probe=True)
            return verdict, last

        return blame_gold(execute, task.gold)

    def _with_alternatives(self, world: FilesWorld, task: Task, verdict: Verdict) -> Verdict:
        """Return the reference with the changes of the other golds too."""
        changes = dict(verdict.changes)
        if len(task.golds) > 1:
            for gold in task.golds:
                with suppress(DataError):
                    spare, _ = blame_gold(lambda: self._work(world, task, gold), gold)  # noqa: B023
                    changed = spare.sandbox.diff()
                    changes |= {path: change.target for path, change in changed.items()}
        return replace(verdict, changes=changes)

    def _score(self, task: Task, verdict: Verdict, reference: Verdict) -> Score:
        rewards_only = self.tests.verifiers[task.id].rewards_only
        return score_of(verdict, reference, of_gold=bool(task.gold), rewards_only=rewards_only)

    def _find_forgery(self, world: FilesWorld, task: Task, reference: Verdict) -> tuple[str, str]:
        """Try the forgeries, once. Return the name of one that was executed and paid, and what the
        forgeries show about the task; "" for nothing.

        One that is executed but not paid may read the tests, write what they read later, or win the
        race for a verdict that is a file.
        """
        if reference.alive or not task.gold:
            return "", ""
        verifier = self._verifier_for(task, reference)

        def find() -> tuple[str, str]:
            shows = ""
            for name, forgery in part("forgeries").items():
                action = world.from_bash(forgery.replace("@GOLD@", world.as_bash(task.gold)))
                with suppress(DataError):
                    verdict, _ = self._test_work(world, task, action, verifier, reference)
                    if verdict.forged and self._score(task, verdict, reference).success:
                        return name, f"{_IN_PROCESS} ({name})"
                    if verdict.forged:
                        shows = _BESIDE
            return "", shows

        return self.tests.forgeries.get(_key(world, task), find)

    def _show(
        self, world: FilesWorld, task: Task, verdict: Verdict, score: Score
    ) -> dict[str, Any]:
        """Return the results and the output of the tests, and what makes the verdict weaker."""
        reference = self.reference(world, task)
        passed = verdict.passed
        verifier = self._verifier_for(task, reference)
        exceptions = verifier.exceptions
        if reference.in_process:
            exceptions.append(_IN_PROCESS)
        elif score.success and (shows := self._find_forgery(world, task, reference)[1]):
            exceptions.append(shows)
        shown: dict[str, Any] = {"failed": [] if score.success else ["tests"]}
        if score.rule:
            shown["rule"] = score.rule
        shown["tests"] = [
            {
                "test": shorten_text(test.name),
                "passed": test.name in passed,
                "agent": shorten_text(test.message or test.outcome),
            }
            for test in sorted(verdict.tests, key=lambda test: test.name in passed)[:_TESTS]
        ]
        shown["output"] = shorten_text(verdict.output)
        if verdict.left_behind:
            shown["left_behind"] = list(map(shorten_text, verdict.left_behind[:_TESTS]))
        exceptions += verdict.notes
        if verifier.separate:
            shown["artifacts"] = list(map(shorten_text, list(verdict.changes)[:_TESTS]))
        if exceptions:
            shown["verified"] = exceptions
        return shown

    def _verifier_for(self, task: Task, reference: Verdict) -> Verifier:
        """Return the verifier as the reference was made."""
        return replace(
            self.tests.verifiers[task.id],
            keep_processes=reference.alive,
            writable=reference.writable,
        )


def _key(world: FilesWorld, task: Task) -> Key:
    return task.id, *golds_of(task), world.spec_of(task).template.digest
