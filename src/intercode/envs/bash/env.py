"""BashEnv: actions are Bash, the world is a sandbox, the answer is the output of the last action.

The gold is executed on the same initial tree before the agent's episode; the outcome is cached for
all environments that share a `GoldCache`. When a task marked `general` looks solved, the episode is
repeated on variant data and must succeed there too. On all other tasks, under the reward `exact`,
`submit ANSWER` submits the given answer.

For your own environment in Bash, or in a language that Bash can call (`command`), write a subclass
with class attributes and a `reward`: `docs/own-environment.md`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from functools import partial
from io import StringIO
from itertools import permutations
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Literal, Self

from intercode.doors import part
from intercode.env import GoldRun, InterCodeEnv, World, none_playable, shorten_text
from intercode.envs.bash.compare import bash_exact, different_paths
from intercode.envs.bash.language import LANGUAGE
from intercode.envs.bash.lint import lint
from intercode.envs.bash.options import BashOptions
from intercode.envs.gold import NO_GOLD, GoldCache, blame_gold, split_golds
from intercode.envs.rewards import call_reward, is_papers, rank, require_reward, reward_name
from intercode.envs.travel import stays_behind
from intercode.envs.verdict import Verdict, gold_fault, missing_verdict
from intercode.envs.verdict import score as score_of
from intercode.envs.verify import Verifier, check_fields, read_verifier, run_tests
from intercode.envs.verify import facts as verify_facts
from intercode.envs.workspace import (
    GoldOutcome,
    Workspace,
    WorkspaceSpec,
    ends_in_failure,
    execute_gold,
    missing_paths,
    prepare_workspaces,
    split_refused,
)
from intercode.errors import DataError, UsageError
from intercode.options import EnvOptions
from intercode.plugins import attribute_path, defining_class
from intercode.submission import ALONE, ANSWER, NOT_LITERAL, answer_in
from intercode.tasks import DataSet, Preprocess, Record
from intercode.types import Change, ExecResult, Outcome, Score, Task, TaskIssue
from intercode_sandbox.base import Limits
from intercode_sandbox.pod import usual_provider_name

Role = Literal["variant", "gold", "tests"]
GoldExecutor = Callable[[Workspace, str], GoldOutcome]
Reward = str | Callable[[Outcome, Outcome, Task], Score | float]
_NOT_FOUND = 127
_KILLED = (-9, 128 + 9)
"""The exit statuses of a gold whose shell or last program was ended by SIGKILL, which the machine
may have sent."""
_NO_ANSWER = (
    "`submit ANSWER` is not taken for this task, whose solution must also work on other files. "
    "Let the last action print the answer, then act with `submit` alone."
)
_MISSING = re.compile(r"^\S*bash: line \d+: (.+): command not found$", re.MULTILINE)
_PATH = re.compile(r"(?<![^\s=<>&|;(])(/[\w.+-]+(?:/[\w.+-]+)+)/?(?![\w.+/*?\[{$-])")
"""An absolute path of two or more names that is a separate word, without quotes and wildcards."""
_WRITTEN = re.compile(r">\s*(/[\w./+-]+)")
"""A path that output is written to."""
_COMPLAINT = re.compile(
    r"^(?:\S*bash: line \d+: (?!(?:\S+: )?warning: |.+: command not found$)"
    r"|([\w.+-]+): .*(?:(?:missing|extra) operand|No such file|cannot |failed to |invalid "
    r"|unrecognized |denied)).*$",
    re.MULTILINE,
)
"""An error message from Bash, or from a tool whose messages begin with its name."""
_CHANGES_OWNER = re.compile(r"^ch(?:own|grp): changing .*(?:not permitted|Invalid argument)")
_TEXT = re.compile(
    r"(?:^|[|;&(`\n]|\bxargs|-exec|\bdo|\bthen)\s*(?:basename|dirname|echo|printf)\b[^|;&<>()`\n]*"
)
"""A command that handles its arguments as text: a path among them need not exist."""
_QUOTE = re.compile(r"""["'`,;:()]|\.(?=\s|$)""")
"""Punctuation around a path in a sentence."""
_PATHS = 20
_IN_PROCESS = "in-process: code of the agent runs inside the tests' process and can forge results"
_BESIDE = "in-process: code of the agent runs while the tests do, and can read and mislead them"
_WRITABLE = "the gold passes only where programs of the agent can change the tests' files"
_KINDS = {"added": "added", "changed": "modified", "removed": "removed"}
_FIELDS = {
    "image": "the name of an image, or a path next to the task file",
    "setup": "a Bash script",
}


def _forgeries() -> Mapping[str, str]:
    forgeries: Mapping[str, str] = part("forgeries")
    return forgeries


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


_ATTRIBUTES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(
        ("data", "image", "tree", "setup"),
        (lambda value: value is None or isinstance(value, Path) or _is_text(value), "a path"),
    ),
    **dict.fromkeys(
        ("start", "probe"), (lambda value: value is None or _is_text(value), "Bash, as text")
    ),
    **dict.fromkeys(("reward", "preprocess"), (callable, "a method")),
    "sandbox": (
        lambda value: value is None or _is_text(value),
        "'local', 'docker', 'pod' or 'module:Class'",
    ),
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The agent's outcome in `workspace`, and the gold with the best score. `task.gold` is the text
    of that gold."""

    workspace: Workspace
    agent: Outcome
    task: Task
    gold: GoldOutcome
    score: Score


@dataclass(frozen=True, slots=True)
class Tests:
    """The tests of tasks by task id, and the cached verdicts on the golds' work."""

    verifiers: Mapping[str, Verifier] = field(default_factory=dict)
    references: GoldCache[Verdict] = field(default_factory=GoldCache)
    forgeries: GoldCache[tuple[str, str]] = field(default_factory=GoldCache)
    """The forgery that pays, and what the forgeries show; "" for nothing."""


class BashEnv(InterCodeEnv):
    """An environment for Bash tasks. `variant` is the spec with variant data; `golds` may be
    shared. The other arguments are those of `InterCodeEnv`.

    The class attributes are a subclass's defaults for the options of the same name. Paths are
    relative to the folder of the subclass's file. A reward in `rewards` is called with the agent's
    outcome, a gold's outcome and the task, or has a function `compare(env, spec, agent)` that
    chooses a gold and returns the score and the gold's outcome.
    """

    Options: ClassVar[type[BashOptions]] = BashOptions
    language = LANGUAGE
    decided_by = ("verify",)
    judged_by = ("order_counts", "answer_form")
    rewards: ClassVar = {
        "exact": "intercode.envs.bash.compare:bash_exact",
        "paper": "intercode.interop.v1.bash:PaperReward",
    }
    image: str | None = None
    """As for `--image`: a name, or the path of a root file system or a Dockerfile."""
    tree: str | None = None
    """A folder or tar file that is placed at `/`."""
    setup: str | None = None
    """The path of a Bash script that runs once inside the sandbox. Each episode starts with the
    files that the script leaves."""
    start: str | None = None
    """Bash code that runs at the start of each episode, for example to start a service and wait
    until it answers."""
    probe: str | None = None
    """Bash code that prints what else a reward should see (`Outcome.probe`). It runs after the
    agent, and after the gold."""
    sandbox: str | None = None
    """The name of the sandbox provider; by default this machine's usual one."""

    def __init__(
        self,
        tasks: Sequence[Task],
        spec: WorkspaceSpec,
        *,
        reward: Reward | None = None,
        variant: WorkspaceSpec | None = None,
        golds: GoldCache[GoldOutcome] | None = None,
        tests: Tests | None = None,
        **how: Any,
    ) -> None:
        super().__init__(tasks, **how)
        self._reward_method = reward is None and type(self).reward is not BashEnv.reward
        if reward is None and not self._reward_method:
            reward = "exact"
        if reward is not None:
            require_reward(reward, self.rewards, "outcome, gold's outcome, task")
        self._scorer = resolve_name(self.rewards[reward]) if isinstance(reward, str) else reward
        self._exact, self._needs_finished_gold = reward == "exact", reward in ("exact", None)
        self._spec = spec
        self._variant = variant
        self._gold_cache = golds or GoldCache[GoldOutcome]()
        self._tests = tests or Tests()
        self._verified: tuple[Verdict, Score] | None = None
        self._lost = False
        self.submission = self.submission_under(reward)
        self._workspace = self._played(Workspace(spec))
        self._side_workspaces: dict[Role, Workspace] = {}
        self._comparison: Comparison | None = None

    @classmethod
    def lint(cls, task: Task) -> Iterator[TaskIssue]:
        if cls.language.is_shell and "verify" not in task.extra:
            yield from lint(task)

    @classmethod
    def hacks(cls, task: Task, *, in_process: bool) -> Mapping[str, str]:
        if "verify" not in task.extra or not cls.language.is_shell:
            return {}
        if in_process:
            return _forgeries() if task.gold else {}
        hacks: Mapping[str, str] = part("hacks")
        return hacks

    @classmethod
    def prepare_world(cls, data: DataSet, options: BashOptions) -> World:
        """Build templates. The paper's reward and a stateless session together imply InterCode v1's
        container under any protocol, since the ReAct runs were recorded with `submit`."""
        session = options.chosen_session
        reward, name = cls._named_reward(options)
        sandbox = options.sandbox or cls.sandbox or usual_provider_name()
        spec, variant = prepare_workspaces(
            data,
            session,
            image=options.image or attribute_path(cls, "image"),
            tree=options.tree or attribute_path(cls, "tree"),
            setup=options.setup or attribute_path(cls, "setup"),
            limits=options.chosen_limits,
            network=options.chosen_network,
            paper=is_papers(reward, cls.rewards) and session == "stateless",
            sandbox=sandbox,
            start=cls.start,
            probe=cls.probe,
        )
        tasks, left_out = split_refused(data.tasks, spec.provider)
        if not tasks:
            raise UsageError(none_playable(left_out))
        facts: dict[str, Any] = {"reward": name, "sandbox": sandbox}
        if left_out:
            facts["left_out"] = {task.id: str(why) for task, why in left_out}
        golds = GoldCache[GoldOutcome]()
        folder = data.file.parent if data.file and data.file.is_file() else data.file or Path()
        read = {task.id: read_verifier(task, folder) for task in tasks}
        tests = Tests({name: verifier for name, verifier in read.items() if verifier})
        return World(
            {"spec": spec, "variant": variant, "reward": reward, "golds": golds, "tests": tests},
            lambda: {
                **facts,
                **spec.facts(),
                **cls.image_facts(spec, tasks),
                **verify_facts(tests.verifiers),
            },
            tasks,
            left_out,
        )

    @classmethod
    def image_facts(cls, spec: WorkspaceSpec, tasks: Iterable[Task]) -> Mapping[str, Any]:
        """Return what a run records of the images that tasks name."""
        return spec.images(tasks)

    @classmethod
    def read_data(cls, options: EnvOptions) -> DataSet:
        _require_attributes(cls)
        records = _checked(options.chosen_preprocess or cls.preprocess)
        return super().read_data(replace(options, preprocess=records))

    @classmethod
    def _named_reward(cls, options: EnvOptions) -> tuple[Reward | None, str]:
        """Return the reward (None for the class's method `reward`) and the reward's name in a run's
        record."""
        overridden = cls.reward is not BashEnv.reward
        name = reward_name(cls.reward) if overridden else "exact"
        reward = options.reward if overridden else options.chosen_reward
        return (None, name) if reward in (None, name) else (reward, reward_name(reward))

    @classmethod
    def submission_under(cls, reward: object) -> re.Pattern[str]:
        submission = cls.language.submission
        return ANSWER if reward == "exact" and submission is ALONE else submission

    @property
    def takes_answer(self) -> bool:
        takes = not self.rules.scores_steps and self.submission is ANSWER
        return takes and not self.task.general and self._verifier is None

    def reward(self, agent: Outcome, gold: Outcome, task: Task) -> Score | float:
        """Return a score from 0 to 1 for how well the agent's outcome matches the gold's. A
        subclass may override this method."""
        return bash_exact(agent, gold, task)

    def command(self, action: str) -> str:
        """Return the Bash command that executes an agent's action or a gold. It is not called for
        submissions.

        A subclass for another language wraps the action: `f"awk {shlex.quote(action)} /srv/log"`.
        """
        return action

    @property
    def _verifier(self) -> Verifier | None:
        return self._tests.verifiers.get(self.task.id)

    def run_gold(self, task: Task) -> GoldRun:
        if task.id in self._tests.verifiers:
            return self._run_verified_gold(task)
        gold = self.command(task.gold)
        used, asked = _TEXT.sub(" ", gold), _PATH.findall(_QUOTE.sub(" ", task.query))
        named = [
            *_PATH.findall(used),
            *(path for path in asked if path in used or path not in gold),
        ]
        try:
            self._workspace.switch_to(self._spec.for_task(task))
            if named:
                self._workspace.start_episode()
            missing = missing_paths(self._workspace, named)
            outcomes = [execute_gold(self._workspace, gold).outcome]
            last = self._workspace.last
            faults = list(_find_faults(last, gold))
            # in a pipe or a substitution, the status does not show that a tool failed
            complaint = next(
                (
                    match[0]
                    for match in _COMPLAINT.finditer(last.output)
                    if not match[1] or match[1] in gold
                ),
                "",
            )
            if (
                complaint
                and last.exit_code is not None
                and not ends_in_failure(last.exit_code, gold, last.output)
            ):
                faults.append(
                    TaskIssue(
                        f"gold ends well, but prints an error: {complaint:.150}", "gold_complains"
                    )
                )
            if outcomes[0].output.strip() == "0" and not outcomes[0].changes:
                faults.append(
                    TaskIssue("gold finds nothing: it prints 0 and changes nothing", "by_luck")
                )
            # a query may mention a path that should not exist; a gold may remove a file it wrote
            unwritten = [path for path in missing if path not in _WRITTEN.findall(gold)]
            for path in missing_paths(self._workspace, unwritten):
                who, kind = ("gold", "missing") if path in gold else ("query", "disagrees")
                faults.append(
                    TaskIssue(
                        f"{who} names {path}, which is there neither before nor after it", kind
                    )
                )
            if task.general and self._variant:
                variant = self._use("variant", self._variant.for_task(task))
                outcomes.append(execute_gold(variant, gold).outcome)
                if variant.only_fails(gold, outcomes[1]):
                    faults.append("on the variant data, the gold only fails")
        except DataError as error:
            return GoldRun(None, "", (str(error),))
        if task.general and len(outcomes) < 2:
            faults.append(
                TaskIssue("is marked general, but the data set has no variant data", "not_general")
            )
        elif task.general:
            passing = (
                self._score_exactly(*pair, task).success for pair in permutations(outcomes, 2)
            )
            if outcomes[0] == outcomes[1] or (self._exact and any(passing)):
                why = (
                    "is marked general, but the gold has the same outcome on the variant data: "
                    "a constant answer passes"
                )
                faults.append(TaskIssue(why, "not_general"))
        return GoldRun(outcomes, "\n".join(outcome.output for outcome in outcomes), tuple(faults))

    def start_episode(self, task: Task) -> None:
        self._comparison = self._verified = None
        self._workspace.switch_to(self._spec.for_task(task))
        if task.id in self._tests.verifiers:
            self._find_reference(task)
            self._workspace.start_episode()
            return
        self._find_golds(self._workspace, task)
        if self._workspace.sandbox.wall == "shared-proc":
            self._find_all_golds(task)
        self._workspace.start_episode()

    def execute(self, action: str) -> ExecResult:
        return self._workspace.execute(self.command(action))

    def _played(self, workspace: Workspace) -> Workspace:
        """Have the workspace read answers as an agent's: `exact` compares them."""
        workspace.skips_missing = self._exact and not self.rules.scores_steps
        return workspace

    def reject_submission(self, word: str) -> str | None:
        if word and self.task.general:
            return _NO_ANSWER
        return NOT_LITERAL if word and answer_in(word) is None else None

    def score(self) -> Score:
        if verifier := self._verifier:
            tests = self._use("tests", self._workspace.spec.for_tests(verifier.memory))
            reference = self._find_reference(self.task)
            verifier = _as_for(verifier, reference)
            self._lost = self._workspace.sandbox.session_lost()
            verdict = run_tests(
                verifier, tests, self._workspace, task=self.task, reference=reference
            )
            score = self._score_tests(self.task, verdict, reference)
            self._verified = verdict, score
            return score
        self._comparison = first = self._compare(self._workspace)
        score = first.score
        if not (score.success and self.task.general and self._variant):
            return score
        workspace = self._played(self._use("variant", self._variant.for_task(self.task)))
        self._find_golds(workspace, self.task)
        actions = (action for action in self._actions if not self._submits(action))
        workspace.replay(map(self.command, actions))
        again = self._compare(workspace)
        if not again.score.success:
            self._comparison = again
        parts = {**score.parts, "robust": float(again.score.success)}
        return replace(again.score, reward=min(score.reward, again.score.reward), parts=parts)

    def session_lost(self) -> bool:
        # scoring by tests ends the session
        return self._lost if self._verified else self._workspace.sandbox.session_lost()

    def outcomes(self) -> dict[str, Any]:
        """Return the parts that failed, the rule that accepted or refused the answer, both answers,
        and the paths whose final states differ.

            {"failed": ["answer", "files"], "rule": "another order", "agent": {"answer": text},
             "gold": {"answer": text},
             "paths": [{"path", "agent": "added|modified|removed|same", "gold": …, "diff": text},
             …]}

        `diff` is a diff from the gold's file to the agent's. It is empty for files other than UTF-8
        text of at most 4 KiB, for a file that only the agent modified, and after the gold's first
        20 files. With `"failed": ["robust"]` everything else describes the variant data. There are
        at most 20 paths, and 2,000 characters of each text.
        """
        if self._verified is not None:
            return self._tests_outcomes(*self._verified)
        if (comparison := self._comparison) is None:
            return {}
        full, names = getattr(self._scorer, "full", {}), {"effects": "files", "contents": "files"}
        failed = [
            names.get(name, name)
            for name, part in comparison.score.parts.items()
            if part < full.get(name, 1)
        ]
        agent, gold = comparison.agent.changes, comparison.gold.outcome.changes
        gold_texts = comparison.gold.texts
        paths = different_paths(agent, gold, comparison.task)[:_PATHS]
        texts = comparison.workspace.read_texts(
            [path for path in paths if path not in agent or agent[path].type == "file"]
        )
        return {
            "failed": (
                ["robust"]
                if comparison.workspace is self._side_workspaces.get("variant")
                else list(dict.fromkeys(failed))
            ),
            **({"rule": comparison.score.rule} if comparison.score.rule else {}),
            "agent": {"answer": shorten_text(comparison.agent.output)},
            "gold": {"answer": shorten_text(comparison.gold.outcome.output)},
            "paths": [
                {
                    "path": shorten_text(path),
                    **{
                        side: _KINDS[changes[path].kind] if path in changes else "same"
                        for side, changes in (("agent", agent), ("gold", gold))
                    },
                    "diff": _diff(
                        agent.get(path), gold.get(path), texts.get(path), gold_texts.get(path)
                    ),
                }
                for path in paths
            ],
        }

    def _find_reference(self, task: Task) -> Verdict:
        """Return the verdict on the gold's work, or without a gold on the untouched files; the
        tests run once. Raises `DataError` if it is not a sound reference."""
        spec = self._spec.for_task(task)
        key = (task.id, task.gold, spec.template.digest)
        verdict = self._tests.references.get(key, lambda: self._make_reference(task)[0])
        verifier = self._tests.verifiers[task.id]
        rewards_only = verifier.rewards_only
        if task.gold and (why := gold_fault(verdict, rewards_only=rewards_only)):
            raise DataError(f"task {task.id}: the gold does not pass its tests: {why}")
        if why := missing_verdict(verdict, rewards_only=rewards_only):
            raise DataError(f"task {task.id}: on untouched files, {why}")
        return verdict

    def _make_reference(self, task: Task) -> tuple[Verdict, ExecResult]:
        """Run the tests after the gold, or without a gold on the untouched files. A gold that fails
        is tested again where it may write into the tests' folder, and with `keep_processes` "auto"
        with its processes alive."""
        verifier = self._tests.verifiers[task.id]
        variants = [verifier]
        if task.gold and not verifier.keep_processes:
            variants.append(replace(verifier, writable=True))
        if task.gold and verifier.keep_processes is None:
            variants.append(replace(verifier, keep_processes=True))
        tried: list[tuple[Verdict, ExecResult]] = []
        for variant in variants:
            tried.append(self._test_work(task, self.command(task.gold), variant))
            if not gold_fault(tried[-1][0], rewards_only=verifier.rewards_only):
                return self._with_alternatives(task, tried[-1][0]), tried[-1][1]
        return tried[0]

    def _test_work(
        self, task: Task, action: str, verifier: Verifier, reference: Verdict | None = None
    ) -> tuple[Verdict, ExecResult]:
        """Run the tests, with a probe, after an action in a separate sandbox."""
        spec = self._spec.for_task(task)

        def execute() -> tuple[Verdict, ExecResult]:
            workspace = self._use("gold", spec)
            workspace.replay([action] if action else [])
            last = workspace.last
            tests = self._use("tests", spec.for_tests(verifier.memory))
            verdict = run_tests(
                verifier, tests, workspace, task=task, reference=reference, probe=True
            )
            return verdict, last

        return blame_gold(execute, task.gold)

    def _with_alternatives(self, task: Task, verdict: Verdict) -> Verdict:
        """Return the reference with the changes of the other golds too."""
        changes = dict(verdict.changes)
        for gold in task.golds if len(task.golds) > 1 else ():
            with suppress(DataError):
                workspace = self._use("gold", self._spec.for_task(task))
                blame_gold(partial(workspace.replay, [self.command(gold)]), gold)
                changed = workspace.sandbox.diff()
                changes |= {path: change.target for path, change in changed.items()}
        return replace(verdict, changes=changes)

    def _score_tests(self, task: Task, verdict: Verdict, reference: Verdict) -> Score:
        rewards_only = self._tests.verifiers[task.id].rewards_only
        return score_of(verdict, reference, of_gold=bool(task.gold), rewards_only=rewards_only)

    def _find_forgery(self, task: Task, reference: Verdict) -> tuple[str, str]:
        """Try the forgeries, once. Return the name of one that was executed and paid, and what the
        forgeries show about the task; "" for nothing.

        One that is executed but not paid may read the tests, write what they read later, or win the
        race for a verdict that is a file.
        """
        verifier = _as_for(self._tests.verifiers[task.id], reference)

        def find() -> tuple[str, str]:
            shows = ""
            for name, forgery in _forgeries().items():
                action = forgery.replace("@GOLD@", self.command(task.gold))
                with suppress(DataError):
                    verdict, _ = self._test_work(task, action, verifier, reference)
                    if verdict.forged and self._score_tests(task, verdict, reference).success:
                        return name, f"{_IN_PROCESS} ({name})"
                    if verdict.forged:
                        shows = _BESIDE
            return "", shows

        if reference.alive or not task.gold:
            return "", ""
        key = (task.id, task.gold, self._spec.for_task(task).template.digest)
        return self._tests.forgeries.get(key, find)

    def _run_verified_gold(self, task: Task) -> GoldRun:
        """Run the tests after the gold."""
        try:
            if not task.gold:
                stays = stays_behind(self._find_reference(task).starts)
                return GoldRun(None, "", (NO_GOLD,), stays_behind=stays)
            verdict, last = self._make_reference(task)
        except DataError as error:
            return GoldRun(None, "", (str(error),))
        faults = [f"gold {why}" for why in ("runs out of time",) if last.timed_out]
        if why := gold_fault(verdict, rewards_only=self._tests.verifiers[task.id].rewards_only):
            faults.append(f"the gold does not pass its tests: {why}")
        forgery, shows = ("", "") if faults else self._find_forgery(task, verdict)
        if verdict.in_process or shows:
            is_proved = verdict.in_process and not forgery
            faults.append(TaskIssue(_IN_PROCESS if is_proved else shows, "unsafe_test"))
        if verdict.writable:
            faults.append(TaskIssue(_WRITABLE, "unsafe_test"))
        evidence = sorted(verdict.passed), sorted(verdict.failed), verdict.rewards
        stays = "" if verdict.alive else stays_behind(verdict.starts)
        return GoldRun(
            evidence, "\n".join(verdict.passed), tuple(faults), stays_behind=stays, forgery=forgery
        )

    def _tests_outcomes(self, verdict: Verdict, score: Score) -> dict[str, Any]:
        """Return the results and the output of the tests, and what makes the verdict weaker."""
        reference, passed = self._find_reference(self.task), verdict.passed
        shown = sorted(verdict.tests, key=lambda test: test.name in passed)
        weaker = _as_for(self._tests.verifiers[self.task.id], reference).exceptions
        if reference.in_process:
            weaker = [*weaker, _IN_PROCESS]
        elif score.success and (shows := self._find_forgery(self.task, reference)[1]):
            weaker = [*weaker, shows]
        left = [shorten_text(path) for path in verdict.left_behind[:_PATHS]]
        return {
            "failed": [] if score.success else ["tests"],
            **({"rule": score.rule} if score.rule else {}),
            "tests": [
                {
                    "test": shorten_text(test.name),
                    "passed": test.name in passed,
                    "agent": shorten_text(test.message or test.outcome),
                }
                for test in shown[:_PATHS]
            ],
            "output": shorten_text(verdict.output),
            **({"left_behind": left} if left else {}),
            **({"verified": weaker} if weaker else {}),
        }

    def copy_world(self, other: Self, live: bool) -> None:
        other._workspace, other._side_workspaces = self._workspace.fork(live=live), {}
        other._comparison = other._verified = None

    def close_world(self) -> None:
        for workspace in (self._workspace, *self._side_workspaces.values()):
            workspace.sandbox.close()

    def _compare(self, workspace: Workspace) -> Comparison:
        agent = workspace.outcome()
        if answer := answer_in(self._word):
            agent = replace(agent, output=answer, overflow=None)
        if compare := getattr(self._scorer, "compare", None):
            score, gold = compare(self, workspace.spec, agent)
            return Comparison(workspace, agent, self.task, gold, score)
        reward = (
            self._score_exactly
            if self._exact
            else partial(call_reward, self._scorer or self.reward)
        )
        comparisons: list[Comparison] = []
        for task in split_golds(self.task):
            try:
                gold = self.gold_outcome(workspace.spec, task)
            except DataError:  # an alternative gold that fails is skipped
                if not comparisons:
                    raise
                continue
            comparisons.append(
                Comparison(workspace, agent, task, gold, reward(agent, gold.outcome, task))
            )
            if comparisons[-1].score.success:
                break
        return max(comparisons, key=lambda comparison: rank(comparison.score))

    def _score_exactly(self, agent: Outcome, gold: Outcome, task: Task) -> Score:
        """Return the exact reward, which reads the gold's text as Bash."""
        return bash_exact(agent, gold, replace(task, gold=self.command(task.gold)))

    def gold_outcome(
        self, spec: WorkspaceSpec, task: Task, execute: GoldExecutor | None = None
    ) -> GoldOutcome:
        """Return the gold's outcome from the cache, or execute the gold in a separate workspace.

        `execute` replaces the usual function that executes a gold; its outcomes are cached
        separately. Raises `DataError` for a gold that cannot run.
        """
        key = self._gold_key(spec, task)
        if execute is not None:
            return self._gold_cache.get(
                (*key, execute.__name__),
                lambda: execute(self._use("gold", spec), self.command(task.gold)),
            )
        return self._gold_cache.get(key, lambda: self._execute_gold(self._use("gold", spec), task))

    def _gold_key(self, spec: WorkspaceSpec, task: Task) -> tuple[str, ...]:
        variant = self._side_workspaces.get("variant")
        workspace = variant if variant and variant.spec is spec else self._workspace
        return (task.id, task.gold, spec.template.digest, workspace.sandbox.identity)

    def _find_golds(self, workspace: Workspace, task: Task) -> None:
        """Cache the gold's outcome, and the outcomes of alternative golds if they depend on the
        sandbox.

        Golds may be executed in `workspace`, so no episode may be in progress there.
        """
        first, *alternatives = split_golds(task) if workspace.sandbox.identity else [task]
        self._gold_cache.get(
            self._gold_key(workspace.spec, first), lambda: self._execute_gold(workspace, first)
        )
        for alternative in alternatives:
            with suppress(DataError):  # raised again when the answer is compared
                self._gold_cache.get(
                    self._gold_key(workspace.spec, alternative),
                    partial(self._execute_gold, workspace, alternative),
                )

    def _find_all_golds(self, task: Task) -> None:
        """Execute all golds of the task, also on the variant data, before the agent could see their
        processes."""
        variant = [self._variant.for_task(task)] if task.general and self._variant else []
        for spec in (self._spec.for_task(task), *variant):
            for gold_task in split_golds(task):
                with suppress(DataError):  # raised again when the answer is compared
                    self.gold_outcome(spec, gold_task)

    def _execute_gold(self, workspace: Workspace, task: Task) -> GoldOutcome:
        """Execute a gold. Raises `DataError` if a gold that must finish does not, or if it only
        fails, since any failing command would match. The paper's reward accepts any gold output."""
        command = self.command(task.gold)
        gold = execute_gold(workspace, command)
        last = workspace.last
        unfinished = last.timed_out or last.exit_code in (_NOT_FOUND, *_KILLED)
        if task.gold != self.task.gold:
            unfinished |= ends_in_failure(last.exit_code, command, last.output)
        if self._needs_finished_gold and unfinished:
            raise DataError(
                f"task {task.id}: {'; '.join(_find_faults(last, command))}; see `intercode check`"
            )
        if self._exact and blame_gold(lambda: workspace.only_fails(command, gold.outcome), command):
            why = "; ".join(_find_faults(last, command))
            raise DataError(
                f"task {task.id}: the gold only fails, so it has no answer ({why}); "
                "see `intercode check`"
            )
        return gold

    def _use(self, role: Role, spec: WorkspaceSpec) -> Workspace:
        """Return the workspace for variant data, golds or tests, made on first use and set to
        `spec`."""
        if role not in self._side_workspaces:
            self._side_workspaces[role] = Workspace(spec)
        self._side_workspaces[role].switch_to(spec)
        return self._side_workspaces[role]


def _as_for(verifier: Verifier, reference: Verdict) -> Verifier:
    """Return the verifier as the reference was made."""
    return replace(verifier, keep_processes=reference.alive, writable=reference.writable)


def _diff(
    agent: Change | None, gold: Change | None, agent_text: str | None, gold_text: str | None
) -> str:
    """Return how one path differs: type, mode and target if both sides changed the path, and a
    unified diff of the texts."""
    lines: list[str] = []
    if (
        agent
        and gold
        and (agent.type, agent.mode, agent.target) != (gold.type, gold.mode, gold.target)
    ):
        for side, change in (("gold", gold), ("agent", agent)):
            target = f" -> {change.target}" if change.target else ""
            lines.append(f"{side}: {change.type} {change.mode:04o}{target}\n")
    if gold.kind == "removed" if gold else agent and agent.kind == "added":
        gold_text = ""
    if agent.kind == "removed" if agent else gold and gold.kind == "added":
        agent_text = ""
    if gold_text is not None and agent_text is not None:
        for line in unified_diff(
            list(StringIO(gold_text)), list(StringIO(agent_text)), "gold", "agent"
        ):
            lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return shorten_text("".join(lines))


def _find_faults(result: ExecResult, gold: str) -> Iterator[str]:
    """Yield the faults of a gold that one execution shows."""
    if result.timed_out:
        yield "gold runs out of time"
    elif result.exit_code is None:
        yield f"gold does not run to an end: {result.output[:200]}"
    for tool in sorted(set(_MISSING.findall(result.output))):
        yield f"gold calls {tool}, which is not installed here"
    if ends_in_failure(result.exit_code, gold, result.output) and not _MISSING.search(
        result.output
    ):
        last = result.output.strip().rpartition("\n")[2][:200]
        owner = (
            "; the sandbox has one user, so no file can be given to another"
            if _CHANGES_OWNER.search(last)
            else ""
        )
        yield f"gold ends with status {result.exit_code}" + (f": {last}" if last else "") + owner


def _require_attributes(owner: type) -> None:
    """Raise `UsageError` for the first class attribute with an invalid value."""
    for name, (is_valid, expected) in _ATTRIBUTES.items():
        if not is_valid(getattr(owner, name)):
            base = defining_class(owner, name)
            raise UsageError(
                f"{base.__qualname__} says {name} = {vars(base)[name]!r:.60}, "
                f"but {name} is {expected}"
            )


def _checked(preprocess: Preprocess) -> Preprocess:
    """Return `preprocess` followed by a check of the record's `image`, `setup` and limits, which
    raises `DataError`."""

    def check(record: Record) -> Record:
        record = preprocess(record)
        for name, expected in _FIELDS.items() if isinstance(record, dict) else ():
            value = record.get(name)
            if value is not None and not _is_text(value):
                raise DataError(
                    f"field {name!r} is {value!r:.60}; write {expected} as text, or leave it out"
                )
        if isinstance(record, dict):
            try:
                Limits().changed_by(record)
            except ValueError as error:
                raise DataError(f"field {error}, or leave it out") from None
            check_fields(record)
        return record

    return check
