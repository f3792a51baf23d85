"""BashJudge: the changes of all files and the answer, compared with those of a gold."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import replace
from difflib import unified_diff
from io import StringIO
from typing import Any

from intercode.envs.bash.compare import bash_exact, different_paths
from intercode.envs.bash.golds import ends_in_failure, find_faults, only_fails, run_checked
from intercode.envs.bash.world import BashWorld
from intercode.envs.gold import GoldCache, Key, blame_gold
from intercode.envs.judges import Attempt
from intercode.envs.judges.outcome import Comparison, Facts, OutcomeJudge, not_general
from intercode.envs.rewards import call_reward, checked_score, guarded_reward
from intercode.envs.workspace import GoldOutcome, Workspace, execute_gold
from intercode.errors import DataError, UsageError
from intercode.submission import answer_in
from intercode.types import Change, GoldRun, Outcome, Score, Task, TaskIssue, shorten_text
from intercode.user import golds_of

BashComparison = Comparison[BashWorld, Outcome, GoldOutcome]
_UNFINISHED = (127, -9, 128 + 9)
"""The exit statuses of a gold whose last program is missing, or whose shell or last program was
ended by SIGKILL, which the machine may have sent."""
_PATHS = 20
_KINDS = {"added": "added", "changed": "modified", "removed": "removed"}
_ABSENT = ("removed", "missing")
_FILES = {"effects": "files", "contents": "files"}


class BashJudge(OutcomeJudge[BashWorld, Outcome, GoldOutcome]):
    """A judge by files and answer. `reward` is a function of the agent's outcome, a gold's and the
    task; None is the reward `exact`.

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
        self._reward = reward
        self._as_it_is = as_it_is
        self.scores_steps = scores_steps

    def before(self, world: BashWorld, task: Task) -> None:
        world.prepare(task)
        super().before(world, task)
        # there the agent could see the processes of a gold that runs on variant data later
        shown = world.sandbox.wall == "shared-proc"
        if shown and task.general and (variant := self.variant()):
            with suppress(DataError):  # raised again when the answer is compared
                variant.prepare(task)
                super().before(variant, task)

    def key(self, world: BashWorld, task: Task) -> Key:
        return (
            task.id,
            *golds_of(task),
            world.spec_of(task).template.digest,
            world.workspace.sandbox.identity,
        )

    def run(self, world: BashWorld, task: Task, *, first: bool) -> GoldOutcome:
        """Execute a gold. Raises `DataError` if a gold that must finish does not, or if it only
        fails, since any failing command would match. The paper's reward accepts any gold output."""
        world.prepare(task)
        *earlier, command = map(world.command, golds_of(task))
        workspace = world.workspace
        gold = execute_gold(workspace, command, earlier)
        last = workspace.last
        unfinished = last.timed_out or last.exit_code in _UNFINISHED
        if not first:
            unfinished |= ends_in_failure(last.exit_code, command, last.output)
        if unfinished and not self._as_it_is:
            fault = "{}"
        elif self._reward is None and blame_gold(
            lambda: only_fails(workspace, command, gold.outcome, earlier), command
        ):
            fault = "the gold only fails, so it has no answer ({})"
        else:
            return gold
        why = fault.format("; ".join(find_faults(last, command)))
        raise DataError(f"task {task.id}: {why}; see `intercode check`")

    def run_otherwise(
        self, world: BashWorld, task: Task, execute: Callable[[Workspace, str], GoldOutcome]
    ) -> GoldOutcome:
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
        if own_files := world.workspace.own_files:
            meant = set[str]()
            for _, gold in self.golds_of(world, attempt.task):
                meant.update(map(own_files.entry, gold.outcome.changes))
            changes = dict(agent.changes)
            for path in agent.changes:
                if own_files.left_out(path, attempt.task, meant):
                    del changes[path]
            agent = replace(agent, changes=changes)
        if answer := answer_in(attempt.word):
            agent = replace(agent, output=answer, overflow=None)
        return agent

    def compare(self, world: BashWorld, agent: Outcome, gold: GoldOutcome, task: Task) -> Score:
        if self._reward is None:
            return bash_exact(agent, gold.outcome, replace(task, gold=gold.command))
        return call_reward(self._reward, agent, gold.outcome, task)

    def facts(self, gold: GoldOutcome) -> Facts:
        return _facts(gold.outcome, gold.texts)

    def wrong_facts(self, world: BashWorld, agent: Outcome, gold: GoldOutcome) -> Facts:
        texts = world.workspace.read_texts([*gold.texts])
        return _facts(agent, texts) ^ self.facts(gold)

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
        comparison = first
        failed = ["robust"]
        if again and not again.score.success:
            comparison = again
        else:
            full = getattr(self._reward, "full", {})
            parts = first.score.parts.items()
            lost = [name for name, part in parts if part < full.get(name, 1)]
            failed = list(dict.fromkeys(_FILES.get(name, name) for name in lost))
        agent, gold = comparison.agent, comparison.gold
        differing = different_paths(agent.changes, gold.outcome.changes, comparison.task)
        paths = differing[:_PATHS]
        shown: dict[str, Any] = {"failed": failed}
        if score.rule:
            shown["rule"] = score.rule
        shown["agent"] = {"answer": shorten_text(agent.output)}
        shown["gold"] = {"answer": shorten_text(gold.outcome.output)}
        changes = agent.changes
        texts = comparison.world.workspace.read_texts(
            [path for path in paths if path not in changes or changes[path].type == "file"]
        )
        shown["paths"] = [_difference(path, comparison, texts.get(path)) for path in paths]
        if len(differing) > _PATHS:
            shown["paths_total"] = len(differing)
        return shown

    def examine(self, world: BashWorld, task: Task) -> GoldRun:
        try:
            world.prepare(task)
            golds = map(world.command, golds_of(task))
            outcome, faults = run_checked(world.workspace, golds, task)
            outcomes = [outcome]
            if task.general and (variant := self.variant()):
                variant.prepare(task)
                command = variant.command(task.gold)
                outcomes.append(execute_gold(variant.workspace, command).outcome)
                if only_fails(variant.workspace, command, outcomes[1]):
                    faults.append("on the variant data, the gold only fails")
        except DataError as error:
            return GoldRun(None, "", (str(error),))
        if len(outcomes) > 1:
            posed = replace(task, gold=world.command(task.gold))

            def passes(agent: Outcome, gold: Outcome) -> bool:
                return self._reward is None and bash_exact(agent, gold, posed).success

            faults += not_general(outcomes, outcomes[0] == outcomes[1], passes)
        elif task.general:
            why = "is marked general, but the data set has no variant data"
            faults.append(TaskIssue(why, "not_general"))
        return GoldRun(outcomes, "\n".join(outcome.output for outcome in outcomes), tuple(faults))


class ChoosingJudge(BashJudge):
    """A judge whose reward has a function `compare(judge, world, attempt, agent)`. It chooses a
    gold itself, and returns the score, as other rewards do, and that gold's `GoldOutcome`."""

    def compare_all(self, world: BashWorld, attempt: Attempt) -> BashComparison:
        agent = self.look(world, attempt)
        compare, arguments = self._reward.compare, (self, world, attempt, agent)
        with guarded_reward(self._reward, attempt.task) as who:
            answer = compare(*arguments)
            match answer:
                case (score, GoldOutcome() as gold):
                    return Comparison(world, agent, attempt.task, gold, checked_score(score, who))
            raise UsageError(
                f"{who} returned {answer!r:.200}; compare(judge, world, attempt, agent) must "
                "return a score and a GoldOutcome, such as judge.gold(world, attempt.task)"
            )


def _facts(outcome: Outcome, texts: Mapping[str, str]) -> Facts:
    """Return the changed paths and their lines, or else their content."""
    facts = set[Hashable]()
    for path, change in outcome.changes.items():
        parts: list[Hashable] = [change.kind, change.type, change.mode]
        parts += texts[path].splitlines() if path in texts else [change.digest, change.target]
        facts.update((path, part) for part in parts)
    return frozenset(facts)


def _difference(path: str, comparison: BashComparison, agent_text: str | None) -> dict[str, str]:
    """Return what both sides did to a path that differs, and how its final states differ: type,
    mode and target if they differ, or if only one side modified the path; and a unified diff of
    the texts."""
    agent = comparison.agent.changes.get(path)
    gold = comparison.gold.outcome.changes.get(path)
    gold_text = comparison.gold.texts.get(path)
    row = {"path": shorten_text(path), "agent": _word(agent, gold), "gold": _word(gold, agent)}
    lines = []
    changes = {side: change for side, change in (("gold", gold), ("agent", agent)) if change}
    states = {(change.type, change.mode, change.target) for change in changes.values()}
    only_modified = [change.kind for change in changes.values()] == ["changed"]
    if len(states) > 1 or only_modified:
        for side, change in changes.items():
            target = f" -> {change.target}" if change.target else ""
            lines.append(f"{side}: {change.type} {change.mode:04o}{target}\n")
    if row["gold"] in _ABSENT:
        gold_text = ""
    if row["agent"] in _ABSENT:
        agent_text = ""
    if gold_text is not None and agent_text is not None:
        texts = list(StringIO(gold_text)), list(StringIO(agent_text))
        for line in unified_diff(*texts, "gold", "agent"):
            lines.append(line)
            if not line.endswith("\n"):
                lines.append("\n\\ No newline at end of file\n")
    return {**row, "diff": shorten_text("".join(lines))}


def _word(change: Change | None, other: Change | None) -> str:
    """Return what a side did to a path that differs: without a change, a file that the other side
    added is missing."""
    if change:
        return _KINDS[change.kind]
    return "missing" if other and other.kind == "added" else "untouched"
