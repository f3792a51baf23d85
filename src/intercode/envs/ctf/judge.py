"""FlagJudge: the submitted text is the flag, or it is not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any

from intercode.envs.ctf.challenges import gold_is
from intercode.envs.ctf.world import FOLDER, CtfWorld, last_line
from intercode.envs.gold import GoldCache, Key, blame_gold
from intercode.envs.judges import Attempt
from intercode.envs.judges.outcome import Comparison, OutcomeJudge
from intercode.envs.rewards import call_reward, is_papers
from intercode.errors import DataError
from intercode.types import ExecResult, GoldRun, Score, Task, shorten_text

Reward = str | Callable[[str, str, Task], Score]
FlagComparison = Comparison[CtfWorld, str, str]
_COMMENT = re.compile(r"\s+#.*$")


class FlagJudge(OutcomeJudge[CtfWorld, str, str]):
    """A judge by flags: the outcome is the submitted word. `reward` is a function, or one of the
    names that `rewards` explains."""

    def __init__(
        self, golds: GoldCache[str | None], *, reward: Reward, rewards: Mapping[str, str]
    ) -> None:
        super().__init__(golds, None, papers=is_papers(reward, rewards))
        self._reward = reward
        self._rewards = rewards

    def key(self, world: CtfWorld, task: Task) -> Key:
        return (task.id, task.gold, world.workspace.spec.template.digest)

    def look(self, world: CtfWorld, attempt: Attempt) -> str:
        return attempt.word

    def compare(self, world: CtfWorld, agent: str, gold: str, task: Task) -> Score:
        if callable(self._reward):
            return call_reward(self._reward, agent, gold, task)
        score: Score = resolve_name(self._rewards[self._reward])(agent, gold)
        return score

    def must_hold_twice(self, task: Task) -> bool:
        return False

    def value(self, world: CtfWorld, attempt: Attempt) -> float:
        """Return 1 if the last output, as far as the agent sees it, contains a flag, else 0."""
        for _, flag in self.golds_of(world, attempt.task):
            if flag.strip() and flag.strip() in attempt.seen:
                return 1.0
        return 0.0

    def no_value(self, world: CtfWorld, task: Task) -> str:
        if callable(self._reward):
            return "a reward of your own decides about the submitted text"
        return ""

    def show(
        self, score: Score, first: FlagComparison, again: FlagComparison | None = None
    ) -> dict[str, Any]:
        """Return the submission. The flag is left out, since runs are shared."""
        failed = [] if score.success else ["flag"]
        return {"failed": failed, "agent": {"submitted": shorten_text(first.agent)}}

    def examine(self, world: CtfWorld, task: Task) -> GoldRun:
        challenge = world.challenges[task.id]
        issues = challenge.issues
        try:
            flag = self.run(world, task)
        except DataError as error:
            return GoldRun(None, "", (*issues, str(error)))
        return GoldRun(flag, flag, (*issues, *challenge.hints(flag)))

    def run(self, world: CtfWorld, task: Task, *, first: bool = True) -> str:
        """Return the gold's flag; execute a gold that is a script. Raises `DataError` if it fails
        or prints nothing."""
        if gold_is(task) == "flag":
            return task.gold

        def execute() -> ExecResult:
            world.start(task)
            return world.sandbox.exec("", argv=["bash", "-c", task.gold], cwd=FOLDER)

        result = blame_gold(execute, task.gold)
        last = last_line(result.output)
        if result.exit_code != 0 or not last:
            how = "runs out of time" if result.timed_out else f"ends with status {result.exit_code}"
            raise DataError(
                f"task {task.id}: "
                f"the gold's script {how} and prints {last or 'nothing'!r}, where a flag should be"
            )
        return last


def flag_exact(submitted: str, flag: str) -> Score:
    """Score the exact reward: the flag, or a text that Bash or a reader of Markdown would take for
    the flag: in quotes or marks, with a comment or a final `.` or `;`."""
    word = submitted.strip()
    wanted = flag.strip()
    plain = _COMMENT.sub("", word)
    readings = [word, plain, plain.rstrip(".;"), word.strip("*`")]
    if word[:1] in ("'", '"') and word[0] == word[-1]:
        readings.append(word[1:-1].strip())
    return score_flag(wanted if wanted in readings else word, wanted)


def score_flag(submitted: str, flag: str) -> Score:
    """Return 1 if both are the same text and not empty, else 0."""
    same = submitted == flag != ""
    return Score(float(same), same, {"flag": float(same)})
