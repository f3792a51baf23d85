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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Self

from intercode.doors import part
from intercode.envs.bash.compare import bash_exact
from intercode.envs.bash.judge import BashJudge, ChoosingJudge
from intercode.envs.bash.language import LANGUAGE
from intercode.envs.bash.layouts import LAYOUTS
from intercode.envs.bash.lint import lint
from intercode.envs.bash.options import BashOptions
from intercode.envs.bash.world import BashWorld
from intercode.envs.gold import GoldCache
from intercode.envs.health import Healthcheck
from intercode.envs.judged import JudgedEnv
from intercode.envs.judges import Judge
from intercode.envs.judges.tests import Tests, TestsJudge
from intercode.envs.parts import are_parts, is_text
from intercode.envs.rewards import is_papers, require_reward, reward_name
from intercode.envs.services import read_services
from intercode.envs.verify import FIELD_NAMES, check_fields, read_verifiers
from intercode.envs.verify import facts as verify_facts
from intercode.envs.workspace import GoldOutcome, WorkspaceSpec, prepare_workspaces, split_refused
from intercode.errors import DataError, UsageError
from intercode.factory import none_playable
from intercode.options import EnvOptions
from intercode.plugins import attribute_path, defining_class
from intercode.submission import ALONE, ANSWER, NOT_LITERAL, answer_in
from intercode.tasks import DataSet, Preprocess, Record
from intercode.types import Outcome, Prepared, Score, Task, TaskIssue
from intercode_sandbox.base import Limits
from intercode_sandbox.pod import usual_provider_name

Reward = str | Callable[[Outcome, Outcome, Task], Score | float]
_NO_ANSWER = (
    "`submit ANSWER` is not accepted for this task, whose solution must also work on other files. "
    "Let the last action print the answer, then act with `submit` alone."
)
_FIELDS = {
    "image": "the name of an image, or a path next to the task file",
    "setup": "a Bash script",
    "session_start": "Bash code",
}


_ATTRIBUTES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(
        ("data", "image", "tree", "setup"),
        (lambda value: value is None or isinstance(value, Path) or is_text(value), "a path"),
    ),
    **dict.fromkeys(
        ("start", "probe"), (lambda value: value is None or is_text(value), "Bash, as text")
    ),
    **dict.fromkeys(("reward", "preprocess"), (callable, "a method")),
    "sandbox": (
        lambda value: value is None or is_text(value),
        "'local', 'docker', 'pod' or 'module:Class'",
    ),
}


class BashEnv(JudgedEnv[BashWorld]):
    """An environment for Bash tasks. `variant` is the spec with variant data; `golds` may be
    shared. The other arguments are those of `InterCodeEnv`.

    The class attributes are a subclass's defaults for the options of the same name. Paths are
    relative to the folder of the subclass's file. A reward in `rewards` is called with the agent's
    outcome, a gold's outcome and the task, or has a function `compare(…)` (`ChoosingJudge`).
    """

    Options: ClassVar[type[BashOptions]] = BashOptions
    language = LANGUAGE
    layouts = LAYOUTS
    decided_by = ("verify",)
    fields = (
        *("setup", "session_start", "image", "action_seconds", "memory", "processes", "disk"),
        *(
            "order_counts",
            "answer_form",
            "files_count",
            "cwd",
            "env",
            "services",
            "healthchecks",
            *FIELD_NAMES,
        ),
    )
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
        golds: GoldCache[GoldOutcome | None] | None = None,
        tests: Tests | None = None,
        **how: Any,
    ) -> None:
        super().__init__(tasks, **how)
        self._reward_method = reward is None and type(self).reward is not BashEnv.reward
        if reward is None and not self._reward_method:
            reward = "exact"
        if reward is not None:
            require_reward(reward, self.rewards, "outcome, gold's outcome, task")
        self._named = reward
        self._golds, self._tests = golds or GoldCache[GoldOutcome | None](), tests or Tests()
        self._variant = variant
        self.submission = self.submission_under(reward)
        self.world, self.judges = self._make_world(spec), self.make_judges()

    def _make_world(self, spec: WorkspaceSpec) -> BashWorld:
        # `exact` reads answers as an agent's
        skips = self._named == "exact" and not self.rules.scores_steps
        return BashWorld(spec, self.command, skips_missing=skips)

    def make_judges(self) -> Mapping[str, Judge[BashWorld]]:
        reward, variant = self._named, self._variant
        scorer: Any = reward or self.reward
        if isinstance(reward, str):
            scorer = resolve_name(self.rewards[reward]) if reward != "exact" else None
        judge = ChoosingJudge if hasattr(scorer, "compare") else BashJudge
        outcomes = judge(
            self._golds,
            (lambda: self._make_world(variant)) if variant else None,
            reward=scorer,
            as_it_is=reward not in ("exact", None),
            papers=is_papers(reward, self.rewards),
            scores_steps=self.rules.scores_steps,
        )
        return {"outcome": outcomes, "tests": TestsJudge(self._tests)}

    def kind_of(self, task: Task) -> str:
        return "tests" if task.id in self._tests.verifiers else "outcome"

    @classmethod
    def lint(cls, task: Task) -> Iterator[TaskIssue]:
        if cls.language.is_shell and task.gold and "verify" not in task.extra:
            yield from lint(task)

    @classmethod
    def hacks(cls, task: Task, *, in_process: bool) -> Mapping[str, str]:
        if "verify" not in task.extra or not cls.language.is_shell:
            return {}
        known: Mapping[str, str] = part("forgeries" if in_process else "hacks")
        return known if task.gold or not in_process else {}

    @classmethod
    def prepare_world(cls, data: DataSet, options: BashOptions) -> Prepared:
        """Build templates. The paper's reward and a stateless session together imply InterCode v1's
        container under any protocol, since the ReAct runs were recorded with `submit`."""
        reward, name = cls._named_reward(options)
        sandbox = options.sandbox or cls.sandbox or usual_provider_name()
        places: dict[str, Any] = {
            name: getattr(options, name) or attribute_path(cls, name)
            for name in ("image", "tree", "setup")
        }
        spec, variant = prepare_workspaces(
            data,
            replace(options, sandbox=sandbox, **places),
            options.chosen_session,
            paper=is_papers(reward, cls.rewards),
            start=cls.start,
            probe=cls.probe,
        )
        tasks, left_out = split_refused(data.tasks, spec.provider)
        if not tasks:
            raise UsageError(none_playable(left_out))
        tasks, verifiers, unread = read_verifiers(tasks, data.folder)
        left_out, tests = [*left_out, *unread], Tests(verifiers)
        facts: dict[str, Any] = {"reward": name, "sandbox": sandbox}
        golds = GoldCache[GoldOutcome | None]()
        return Prepared(
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
    def image_facts(cls, spec: WorkspaceSpec, tasks: Sequence[Task]) -> Mapping[str, Any]:
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
        return takes and not self.task.general and self.kind_of(self.task) == "outcome"

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

    def reject_submission(self, word: str) -> str | None:
        if word and self.task.general:
            return _NO_ANSWER
        return NOT_LITERAL if word and answer_in(word) is None else None

    def copy_world(self, other: Self, live: bool) -> None:
        super().copy_world(other, live)
        other.world.command = other.command


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
            if value is not None and not is_text(value):
                raise DataError(
                    f"field {name!r} is {value!r:.60}; write {expected} as text, or leave it out"
                )
        if isinstance(record, dict):
            try:
                Limits().changed_by(record)
            except ValueError as error:
                raise DataError(f"field {error}, or leave it out") from None
            check_fields(record)
            checks = record.get("healthchecks")
            if checks is not None and not are_parts(Healthcheck, checks):
                raise DataError(f"field 'healthchecks' is {checks!r:.60}; write a list of commands")
            if record.get("services") is not None:
                read_services(record["services"])
        return record

    return check
