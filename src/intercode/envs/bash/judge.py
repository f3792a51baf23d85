"""BashJudge: the changes of all files and the answer, compared with those of a gold."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from difflib import unified_diff
from io import StringIO
from typing import Any

from intercode.env import GoldRun, shorten_text
from intercode.envs.bash.compare import bash_exact, different_paths
from intercode.envs.bash.golds import find_faults, run_checked
from intercode.envs.bash.world import BashWorld
from intercode.envs.gold import GoldCache, Key, blame_gold
from intercode.envs.judges import Attempt
from intercode.envs.judges.outcome import Comparison, OutcomeJudge, not_general
from intercode.envs.rewards import call_reward
from intercode.envs.workspace import (
    GoldOutcome,
    Workspace,
    ends_in_failure,
    execute_gold,
)
from intercode.errors import DataError
from intercode.submission import answer_in
from intercode.types import Change, Outcome, Score, Task, TaskIssue

GoldExecutor = Callable[[Workspace, str], GoldOutcome]
BashComparison = Comparison[BashWorld, Outcome, GoldOutcome]
_NOT_FOUND = 127
_KILLED = (-9, 128 + 9)
"""The exit statuses of a gold whose shell or last program was ended by SIGKILL, which the machine
may have sent."""
_PATHS = 20
_KINDS = {"added": "added", "changed": "modified", "removed": "removed"}
_FILES = {"effects": "files", "contents": "files"}


class BashJudge(OutcomeJudge[BashWorld, Outcome, GoldOutcome]):
    """A judge by files and answer. `reward` is a function of the agent's outcome, a gold's and the
    task; None is the reward `exact`. One with a function `compare(judge, world, attempt, agent)`
    chooses a gold itself, and returns the score and the gold's outcome.

    `as_it_is`: the reward takes a gold that does not finish, too.
    """

    def __init__(
        self,
        golds: GoldCache[GoldOutcome | None],
        make_variant: Callable[[], BashWorld] | None,
        *,
        reward: Any = None,
        as_it_is: bool = False,
        papers: bool = False,
        scores_steps: bool = False,
    ) -> None:
        super().__init__(golds, make_variant, papers=papers)
        self._reward, self._as_it_is, self.scores_steps = reward, as_it_is, scores_steps

    def before(self, world: BashWorld, task: Task) -> None:
        world.prepare(task)
        super().before(world, task)
        # there the agent could see the processes of a gold that runs on variant data later
        hidden = world.sandbox.wall != "shared-proc"
        if not hidden and task.general and (variant := self.variant()):
            with suppress(DataError):  # raised again when the answer is compared
                variant.prepare(task)
                super().before(variant, task)

    def key(self, world: BashWorld, task: Task) -> Key:
        return (task.id, task.gold, world.spec_of(task).template.digest, world.sandbox.identity)

    def run(self, world: BashWorld, task: Task, *, first: bool) -> GoldOutcome:
        """Execute a gold. Raises `DataError` if a gold that must finish does not, or if it only
        fails, since any failing command would match. The paper's reward accepts any gold output."""
        world.prepare(task)
        command, workspace = world.command(task.gold), world.workspace
        gold = execute_gold(workspace, command)
        last = workspace.last
        unfinished = last.timed_out or last.exit_code in (_NOT_FOUND, *_KILLED)
        if not first:
            unfinished |= ends_in_failure(last.exit_code, command, last.output)
        if unfinished and not self._as_it_is:
            why = "; ".join(find_faults(last, command))
            raise DataError(f"task {task.id}: {why}; see `intercode check`")
        if self._reward is None and blame_gold(
            lambda: workspace.only_fails(command, gold.outcome), command
        ):
            why = "; ".join(find_faults(last, command))
            raise DataError(
                f"task {task.id}: the gold only fails, so it has no answer ({why}); "
                "see `intercode check`"
            )
        return gold

    def run_otherwise(self, world: BashWorld, task: Task, execute: GoldExecutor) -> GoldOutcome:
        """Return a gold's outcome as another function executes it, cached separately."""

        def run() -> GoldOutcome:
            spare = self.spare(world)
            spare.prepare(task)
            return execute(spare.workspace, spare.command(task.gold))

        outcome = self.golds.get((*self.key(world, task), execute.__name__), run)
        assert outcome
        return outcome

    def look(self, world: BashWorld, attempt: Attempt) -> Outcome:
        agent = world.workspace.outcome(peek=attempt.peek)
        answer = answer_in(attempt.word)
        if own_files := world.workspace.own_files:
            meant = set[str]()
            for posed in self.tasks_of(attempt.task):
                if gold := self.find(world, posed, attempt.task):
                    meant.update(map(own_files.entry, gold.outcome.changes))
            changes = dict(agent.changes)
            for path in agent.changes:
                if own_files.left_out(path, attempt.task, meant):
                    del changes[path]
            agent = replace(agent, changes=changes)
        return replace(agent, output=answer, overflow=None) if answer else agent

    def compare(self, world: BashWorld, agent: Outcome, gold: GoldOutcome, task: Task) -> Score:
        if self._reward is None:
            as_bash = replace(task, gold=world.command(task.gold))
            return bash_exact(agent, gold.outcome, as_bash)
        return call_reward(self._reward, agent, gold.outcome, task)

    def compare_all(self, world: BashWorld, attempt: Attempt) -> BashComparison:
        if compare := getattr(self._reward, "compare", None):
            agent = self.look(world, attempt)
            score, gold = compare(self, world, attempt, agent)
            return Comparison(world, agent, attempt.task, gold, score)
        return super().compare_all(world, attempt)

    def no_value(self, world: BashWorld, task: Task) -> str:
        if world.spec.probe is not None:
            return "the environment's probe runs where the agent works"
        return super().no_value(world, task)

    def show(
        self, score: Score, first: BashComparison, again: BashComparison | None = None
    ) -> dict[str, Any]:
        """Return the parts that failed, the rule that accepted or refused the answer, both answers,
        and the paths whose final states differ.

            {"failed": ["answer", "files"], "rule": "another order", "agent": {"answer": text},
             "gold": {"answer": text},
             "paths": [{"path", "agent": "added|modified|removed|untouched|missing", "gold": …,
                        "diff": text}, …],
             "paths_total": their number, if there are more than 20}

        `diff` is a diff from the gold's file to the agent's. It is empty for files other than UTF-8
        text of at most 4 KiB, for a file that only the agent modified, and after the gold's first
        20 files. With `"failed": ["robust"]` everything else describes the variant data. There are
        at most 20 paths, and 2,000 characters of each text.
        """
        on_variant = again is not None and not again.score.success
        shown = again if again and on_variant else first
        full = getattr(self._reward, "full", {})
        failed = [
            _FILES.get(name, name)
            for name, part in shown.score.parts.items()
            if part < full.get(name, 1)
        ]
        agent, gold = shown.agent.changes, shown.gold.outcome.changes
        every = different_paths(agent, gold, shown.task)
        paths = every[:_PATHS]
        texts = shown.world.workspace.read_texts(
            [path for path in paths if path not in agent or agent[path].type == "file"]
        )
        return {
            "failed": ["robust"] if on_variant else list(dict.fromkeys(failed)),
            **({"rule": score.rule} if score.rule else {}),
            "agent": {"answer": shorten_text(shown.agent.output)},
            "gold": {"answer": shorten_text(shown.gold.outcome.output)},
            "paths": [
                {
                    "path": shorten_text(path),
                    "agent": _word(agent.get(path), gold.get(path)),
                    "gold": _word(gold.get(path), agent.get(path)),
                    "diff": _diff(
                        agent.get(path), gold.get(path), texts.get(path), shown.gold.texts.get(path)
                    ),
                }
                for path in paths
            ],
            **({"paths_total": len(every)} if len(every) > len(paths) else {}),
        }

    def examine(self, world: BashWorld, task: Task) -> GoldRun:
        try:
            world.prepare(task)
            outcome, faults = run_checked(world.workspace, world.command(task.gold), task)
            outcomes = [outcome]
            if task.general and (variant := self.variant()):
                variant.prepare(task)
                command = variant.command(task.gold)
                outcomes.append(execute_gold(variant.workspace, command).outcome)
                if variant.workspace.only_fails(command, outcomes[1]):
                    faults.append("on the variant data, the gold only fails")
        except DataError as error:
            return GoldRun(None, "", (str(error),))
        if task.general and len(outcomes) < 2:
            why = "is marked general, but the data set has no variant data"
            faults.append(TaskIssue(why, "not_general"))
        elif task.general:
            posed = replace(task, gold=world.command(task.gold))

            def passes(agent: Outcome, gold: Outcome) -> bool:
                return self._reward is None and bash_exact(agent, gold, posed).success

            faults += not_general(outcomes, outcomes[0] == outcomes[1], passes)
        return GoldRun(outcomes, "\n".join(outcome.output for outcome in outcomes), tuple(faults))


def _word(change: Change | None, other: Change | None) -> str:
    """Return what a side did to a path that differs: without a change, a file that the other side
    added is missing."""
    if change is None:
        return "missing" if other and other.kind == "added" else "untouched"
    return _KINDS[change.kind]


def _diff(
    agent: Change | None, gold: Change | None, agent_text: str | None, gold_text: str | None
) -> str:
    """Return how one path differs: type, mode and target if they differ, or if only one side
    modified the path; and a unified diff of the texts."""
    lines: list[str] = []
    sides = {"gold": gold, "agent": agent}
    states = {(c.type, c.mode, c.target) for c in sides.values() if c}
    modified = any(change and change.kind == "changed" for change in sides.values())
    for side, change in sides.items():
        if change and (len(states) > 1 or (modified and None in sides.values())):
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
