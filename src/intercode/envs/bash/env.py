"""BashEnv: actions are Bash, the world is a sandbox, the answer is what the last action printed.

The gold acts on the same starting tree before the agent does, in a cell of its own; its outcome is kept for all environments
that share a `GoldCache`. A task marked `general` is played again on second contents when it looks solved, and must hold there;
under `exact`, `submit ANSWER` gives the answer itself on all other tasks.

An environment of your own in Bash is a subclass with class attributes and a `reward`: `docs/own-environment.md`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, Literal, Self

from intercode.env import EnvFactory, GoldRun, InterCodeEnv, Protocol, View
from intercode.envs.bash.attributes import bash_record, own_path, require_attributes
from intercode.envs.bash.compare import bash_exact
from intercode.envs.bash.gold_status import ends_in_failure
from intercode.envs.gold import GoldCache, each_gold
from intercode.envs.rewards import best, judged, require_reward, reward_name
from intercode.envs.workspace import (
    Workspace,
    WorkspaceSpec,
    execute_gold,
    execute_gold_again,
    missing_paths,
    prepare_workspaces,
)
from intercode.errors import DataError
from intercode.paper.bash_reward import bash_paper
from intercode.sandbox.base import Limits, Session
from intercode.sandbox.build import Backend
from intercode.submission import ALONE, ANSWER, answer_in
from intercode.tasks import Preprocess, open_data
from intercode.tasks.issues import TaskIssue
from intercode.types import ExecResult, Outcome, Score, Task

Reward = Literal["exact", "paper"] | Callable[[Outcome, Outcome, Task], Score | float]
_NOT_FOUND = 127
_KILLED = (-9, 128 + 9)
"""Statuses by which SIGKILL ended the gold's shell or its last program: the machine may have done it."""
_NO_ANSWER = (
    "`submit ANSWER` is not taken for this task, whose solution must also work on other files. Let the last action print the "
    "answer, then act with `submit` alone."
)
_NOT_LITERAL = (
    "Nothing in the answer of `submit ANSWER` is executed or expanded. Write one line in single quotes; write several lines "
    "as a here-document that begins with `submit <<'END'`."
)
_MISSING = re.compile(r"^\S*bash: line \d+: (.+): command not found$", re.MULTILINE)
_PATH = re.compile(r"(?<![^\s=<>&|;(])(/[\w.+-]+(?:/[\w.+-]+)+)/?(?![\w.+/*?\[{$-])")
"""An absolute path of two names or more that is a word of its own, without quotes and patterns."""
_COMPLAINT = re.compile(
    r"^(?:\S*bash: line \d+: (?!(?:\S+: )?warning: |.+: command not found$)"
    r"|([\w.+-]+): .*(?:(?:missing|extra) operand|No such file|cannot |failed to |invalid |unrecognized |denied)).*$",
    re.MULTILINE,
)
"""What Bash says on its standard error, or a tool under its name."""
_GIVES_AWAY = re.compile(r"^ch(?:own|grp): changing .*(?:not permitted|Invalid argument)")
_TEXT = re.compile(r"(?:^|[|;&(`\n]|\bxargs|-exec|\bdo|\bthen)\s*(?:basename|dirname|echo|printf)\b[^|;&<>()`\n]*")
"""A command that handles its arguments as text: a path among them need not be there."""
_QUOTE = re.compile(r"""["'`,;:()]|\.(?=\s|$)""")
"""What stands around a path in a sentence."""


class BashEnv(InterCodeEnv):
    """`second` has the second contents; `golds` may be shared. Other arguments are those of `InterCodeEnv`.

    The class attributes are what a subclass is played with unless the caller says otherwise. A path starts at the folder of
    the subclass's file.
    """

    data: str | None = None
    """A task file, a data folder, or the name of a data set."""
    image: str | None = None
    """As `--image` takes it: a name, or the path of a root file system or a Dockerfile."""
    tree: str | None = None
    """A folder or tar that is placed at `/`."""
    setup: str | None = None
    """The path of a Bash script that runs once, inside; what it leaves in files is there in each episode."""
    start: str | None = None
    """Bash that begins each episode, such as what starts a service and waits until it answers."""
    probe: str | None = None
    """Bash that prints what else a reward should see, `Outcome.probe`; it runs after the agent, and after the gold."""
    sandbox: Backend = "local"

    def __init__(
        self,
        tasks: Sequence[Task],
        spec: WorkspaceSpec,
        *,
        reward: Reward | None = None,
        second: WorkspaceSpec | None = None,
        golds: GoldCache[Outcome] | None = None,
        **how: Any,
    ) -> None:
        super().__init__(tasks, **how)
        if reward is not None:
            require_reward(reward, ("exact", "paper"), "outcome, gold's outcome, task")
        self._asked, self._spec, self._second, self._gold_cache = reward, spec, second, golds or GoldCache[Outcome]()
        self._by_exact = reward == "exact" or (reward is None and type(self).reward is BashEnv.reward)
        self.submission = self.submission_under("exact" if self._by_exact else reward)
        self._workspace = Workspace(spec)
        self._elsewhere: Workspace | None = None
        self._aside: Workspace | None = None

    @classmethod
    def prepare(  # type: ignore[override]
        cls,
        *,
        data: str | None = None,
        limit: int | None = None,
        image: str | None = None,
        tree: str | Path | None = None,
        setup: str | Path | None = None,
        sandbox: Backend | None = None,
        protocol: Protocol = "submit",
        reward: Reward | None = None,
        session: Session | None = None,
        limits: Limits | None = None,
        max_turns: int | None = 10,
        view: View | None = None,
        keep_going: bool = False,
        preprocess: Preprocess | None = None,
        gold_fields: Sequence[str] | None = None,
    ) -> EnvFactory:
        """Load data and build templates once. `protocol="paper"` implies the paper's reward and stateless session.

        These two together give the first system's container, whatever the protocol: ReAct was recorded with `submit`.
        """
        require_attributes(cls)
        session = session or ("stateless" if protocol == "paper" else "persistent")
        reward, judge = cls._judged_by(reward, protocol)
        records = bash_record(preprocess or cls.preprocess)
        source = data or own_path(cls, "data")
        found = open_data(source, env="bash", limit=limit, preprocess=records, gold_fields=gold_fields)
        spec, second = prepare_workspaces(
            found, session,
            image=image or own_path(cls, "image"), tree=tree or own_path(cls, "tree"), setup=setup or own_path(cls, "setup"),
            limits=limits, paper=reward == "paper" and session == "stateless", sandbox=sandbox or cls.sandbox,
            start=cls.start, probe=cls.probe,
        )  # fmt: skip
        how = {"protocol": protocol, "max_turns": max_turns, "view": view, "keep_going": keep_going}
        golds = GoldCache[Outcome]()
        facts = {"data": found.name, "data_digest": found.digest, "reward": judge, "sandbox": sandbox or cls.sandbox}
        return EnvFactory(
            found.tasks,
            lambda: cls(found.tasks, spec, reward=reward, second=second, golds=golds, **how),
            lambda: {**facts, **spec.facts(), **spec.images(found.tasks)},
        )

    @classmethod
    def _judged_by(cls, asked: Reward | None, protocol: Protocol) -> tuple[Reward | None, str]:
        """What to ask, None for the method `reward`; and the name of it, by which a recording may ask again."""
        own = cls.reward is not BashEnv.reward
        name = reward_name(cls.reward) if own else "exact"
        if asked is None and protocol == "paper" and not own:
            asked = "paper"
        return (None, name) if asked in (None, name) else (asked, reward_name(asked))

    @classmethod
    def submission_under(cls, reward: object) -> re.Pattern[str]:
        return ANSWER if reward == "exact" and cls.submission is ALONE else cls.submission

    @property
    def takes_answer(self) -> bool:
        return self.protocol == "submit" and self.submission is ANSWER and not self.task.general

    def reward(self, agent: Outcome, gold: Outcome, task: Task) -> Score | float:
        """What the agent's outcome is worth beside the gold's, from 0 to 1; to be overridden by a subclass."""
        return bash_exact(agent, gold, task)

    def run_gold(self, task: Task) -> GoldRun:
        used, asked = _TEXT.sub(" ", task.gold), _PATH.findall(_QUOTE.sub(" ", task.query))
        named = [*_PATH.findall(used), *(path for path in asked if path in used or path not in task.gold)]
        try:
            self._workspace.move(self._spec.of(task))
            missing = missing_paths(self._workspace, named, fresh=True)
            outcomes = [execute_gold(self._workspace, task.gold)]
            last = self._workspace.last
            faults = list(_faults(last, task.gold))
            # a tool in a pipe or a substitution may fail without that the status tells it
            said = next((each[0] for each in _COMPLAINT.finditer(last.output) if not each[1] or each[1] in task.gold), "")
            if said and last.exit_code is not None and not ends_in_failure(last.exit_code, task.gold, last.output):
                faults.append(TaskIssue(f"gold ends well, but prints an error: {said:.150}", "gold_complains"))
            if outcomes[0].output.strip() == "0" and not outcomes[0].changes:
                faults.append(TaskIssue("gold finds nothing: it prints 0 and changes nothing", "by_luck"))
            for path in missing_paths(self._workspace, missing):  # a query may speak of what should not be there
                who, kind = ("gold", "missing") if path in task.gold else ("query", "disagrees")
                faults.append(TaskIssue(f"{who} names {path}, which is there neither before nor after it", kind))
            if task.general and self._second:
                outcomes.append(execute_gold(self._elsewhere_on(self._second.of(task)), task.gold))
        except DataError as error:
            return GoldRun(None, "", (str(error),))
        if task.general and len(outcomes) < 2:
            faults.append(TaskIssue("is marked general, but the data have no second contents", "not_general"))
        elif task.general:
            passing = (bash_exact(*pair, task).success for pair in permutations(outcomes, 2))
            if outcomes[0] == outcomes[1] or (self._by_exact and any(passing)):
                why = "is marked general, but the gold has the same outcome on both contents: a constant answer passes"
                faults.append(TaskIssue(why, "not_general"))
        return GoldRun(outcomes, "\n".join(outcome.output for outcome in outcomes), tuple(faults))

    def start_episode(self, task: Task) -> None:
        self._workspace.move(self._spec.of(task))
        self._gold(self._workspace, task)
        self._workspace.begin()

    def execute(self, action: str) -> ExecResult:
        return self._workspace.act(action)

    def reject_submission(self, word: str) -> str | None:
        if word and self.task.general:
            return _NO_ANSWER
        return _NOT_LITERAL if word and answer_in(word) is None else None

    def score(self) -> Score:
        score = self._compare(self._workspace)
        if not (score.success and self.task.general and self._second):
            return score
        again = self._compare(self._play_elsewhere(self._second.of(self.task)))
        return Score(
            min(score.reward, again.reward), again.success, {**score.parts, "robust": float(again.success)}, again.ambiguous
        )

    def copy_world(self, twin: Self, live: bool) -> None:
        twin._workspace, twin._elsewhere, twin._aside = self._workspace.twin(live=live), None, None

    def close_world(self) -> None:
        for workspace in (self._workspace, self._elsewhere, self._aside):
            if workspace is not None:
                workspace.sandbox.close()

    def _compare(self, workspace: Workspace) -> Score:
        """The paper's reward knows one gold."""
        agent = workspace.outcome()
        if answer := answer_in(self._word):
            agent = replace(agent, output=answer, overflow=None)
        if self._asked == "paper":
            return bash_paper(agent, self._gold_aside(workspace.spec, self.task), workspace.spec.tracked)
        reward = bash_exact if self._asked == "exact" else partial(judged, self._asked or self.reward)
        return best(reward(agent, gold, task) for task, gold in self._outcomes(workspace.spec))

    def _outcomes(self, spec: WorkspaceSpec) -> Iterator[tuple[Task, Outcome]]:
        """Each gold and its outcome, executed when it is asked for. An alternative that cannot run or fails is left out: to
        raise here would only ever discard answers that the first gold refuses."""
        first, *others = each_gold(self.task)
        yield first, self._gold_aside(spec, first)
        for task in others:
            with suppress(DataError):
                yield task, self._gold_aside(spec, task)

    def _gold(self, workspace: Workspace, task: Task) -> Outcome:
        """The gold's outcome; executing it uses the place, so ask before the episode begins there."""
        key = (task.id, task.gold, workspace.spec.template.digest)
        return self._gold_cache.get(key, lambda: self._execute_gold(workspace, task))

    def _execute_gold(self, workspace: Workspace, task: Task) -> Outcome:
        """Under `exact`, a gold that cannot run is no yardstick; the paper's reward compares with whatever it printed."""
        outcome = execute_gold(workspace, task.gold)
        last = workspace.last
        unfinished = last.timed_out or last.exit_code in (_NOT_FOUND, *_KILLED)
        if task.gold != self.task.gold:
            unfinished |= ends_in_failure(last.exit_code, task.gold, last.output)
        if self._asked in ("exact", None) and unfinished:
            raise DataError(f"task {task.id}: {'; '.join(_faults(last, task.gold))}; see `intercode check`")
        return outcome

    def _gold_aside(self, spec: WorkspaceSpec, task: Task) -> Outcome:
        """The gold's outcome, also while an episode goes on; from the paper's second turn on that of its second execution."""
        key = (task.id, task.gold, spec.template.digest)
        if self.protocol == "paper" and self.turn > 1:
            return self._gold_cache.get((*key, "again"), lambda: execute_gold_again(self._aside_on(spec), task.gold))
        return self._gold_cache.get(key, lambda: self._execute_gold(self._aside_on(spec), task))

    def _aside_on(self, spec: WorkspaceSpec) -> Workspace:
        """A place for executing golds while an episode goes on elsewhere."""
        self._aside = self._aside or Workspace(spec)
        self._aside.move(spec)
        return self._aside

    def _elsewhere_on(self, spec: WorkspaceSpec) -> Workspace:
        self._elsewhere = self._elsewhere or Workspace(spec)
        self._elsewhere.move(spec)
        return self._elsewhere

    def _play_elsewhere(self, spec: WorkspaceSpec) -> Workspace:
        """The whole episode again, on the second contents."""
        workspace = self._elsewhere_on(spec)
        self._gold(workspace, self.task)
        workspace.play(*(action for action in self._actions if not self._submits(action)))
        return workspace


def _faults(result: ExecResult, gold: str) -> Iterator[str]:
    """What is wrong with a gold by the look of its execution alone."""
    if result.timed_out:
        yield "gold runs out of time"
    elif result.exit_code is None:
        yield f"gold does not run to an end: {result.output[:200]}"
    for tool in sorted(set(_MISSING.findall(result.output))):
        yield f"gold calls {tool}, which is not installed here"
    if ends_in_failure(result.exit_code, gold, result.output) and not _MISSING.search(result.output):
        last = result.output.strip().rpartition("\n")[2][:200]
        alone = "; the sandbox has one user, so no file can be given to another" if _GIVES_AWAY.search(last) else ""
        yield f"gold ends with status {result.exit_code}" + (f": {last}" if last else "") + alone
