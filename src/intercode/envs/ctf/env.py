"""CtfEnv: actions are Bash in a sandbox with one task's files in /ctf; the answer is a flag.

    reset ──► the task's assets are unpacked into an empty /ctf; the shell starts there
    step  ──► Bash, or `submit FLAG`: the right flag ends the episode; after a wrong flag the agent
              gets a message. At most `submits` submissions are allowed

A gold is the flag itself, or, if the task says `gold_is: script`, a Bash script that prints the
flag on its last line. The script runs in a sandbox like the agent's, once for all environments and
before the agent's first action, so the sandbox contains the flag only if the task's files do. Tasks
that cannot be played as they are (`challenges.py`) are left out, unless `everything` is set.

Under the paper's protocol `submit FLAG` is an ordinary action and may be repeated.

    reward exact    1 for the same text, ignoring whitespace around the flag and one pair of quotes,
                    as in a shell
    reward paper    also ignores case, as in InterCode v1

An empty submission is never right.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from intercode.envs.ctf.challenges import Challenge, gold_is, survey
from intercode.envs.ctf.judge import FlagJudge, Reward
from intercode.envs.ctf.language import LANGUAGE
from intercode.envs.ctf.nyu import is_nyu, read_challenges
from intercode.envs.ctf.options import CtfOptions
from intercode.envs.ctf.world import FOLDER, CtfWorld
from intercode.envs.gold import GoldCache
from intercode.envs.judged import JudgedEnv
from intercode.envs.judges import Judge
from intercode.envs.rewards import is_papers, require_reward, reward_name
from intercode.envs.workspace import WorkspaceSpec, prepare_workspaces, split_refused
from intercode.errors import DataError, IntercodeError, UsageError
from intercode.factory import chosen_reward, none_playable
from intercode.submission import NOT_LITERAL, answer_in, is_submission, submitted_word
from intercode.tasks import DataSet
from intercode.tasks.loader import Records
from intercode.types import ExecResult, Prepared, Score, Task, TaskIssue

_SUBSTITUTES = re.compile(r"\$\(|`[^`]*\s[^`]*`")
"""A command whose output Bash would put here: `$(cat flag)`, but not a flag in marks: `FLAG`."""


class CtfEnv(JudgedEnv[CtfWorld]):
    """An environment for capture-the-flag tasks. `challenges` maps task ids to assets; environments
    may share `golds`. For other arguments see `InterCodeEnv`."""

    Options = CtfOptions
    fields = ("gold_is", "setup", "services", "assets")
    rewards: ClassVar = {
        "exact": "intercode.envs.ctf.judge:flag_exact",
        "paper": "intercode.interop.v1.ctf:flag_paper",
    }
    language = LANGUAGE

    def __init__(
        self,
        tasks: Sequence[Task],
        spec: WorkspaceSpec,
        challenges: Mapping[str, Challenge],
        *,
        reward: Reward | None = None,
        golds: GoldCache[str | None] | None = None,
        **how: Any,
    ) -> None:
        super().__init__(tasks, **how)
        if reward is not None or not hasattr(type(self), "reward"):
            self.reward = reward or "exact"
        require_reward(self.reward, self.rewards, "submitted, flag, task")
        self._golds = golds or GoldCache[str | None]()
        self.world, self.judges = CtfWorld(spec, challenges), self.make_judges()

    def make_judges(self) -> Mapping[str, Judge[CtfWorld]]:
        flags = FlagJudge(self._golds, reward=self.reward, rewards=self.rewards)
        return {"outcome": flags}

    @classmethod
    def reader(cls, source: str | Path | None) -> Callable[[Path], Records] | None:
        return cls.records or (read_challenges if source and is_nyu(Path(source)) else None)

    @classmethod
    def lint_files(cls, data: DataSet, options: CtfOptions) -> Mapping[str, Sequence[TaskIssue]]:
        return {
            id: (*challenge.issues, *challenge.hints())
            for id, challenge in _survey(data, options).items()
        }

    @classmethod
    def prepare_world(cls, data: DataSet, options: CtfOptions) -> Prepared:
        """Survey the tasks' files. Tasks get the fields `needs_network`, `has_assets` and
        `broken_gold`; the facts say why tasks are left out."""
        reward, named = chosen_reward(cls, options)
        challenges = _survey(data, options)
        tasks, left_out = _playable(data.tasks, challenges, options.everything)
        papers = is_papers(named, cls.rewards)
        spec, _ = prepare_workspaces(data, options, options.chosen_session, paper=papers)
        scripted = [task for task in tasks if gold_is(task) == "script"]
        _, refused = split_refused(scripted, spec.provider)
        left_out += refused
        tasks = [task for task in tasks if task not in [other for other, _ in refused]]
        with_folder = spec.provider.add_script(
            spec.template, f"mkdir -p {FOLDER}", name="the folder for assets"
        )
        spec = replace(spec, template=with_folder)
        digests, sound = list[str](), list[Task]()
        for task in tasks:
            try:
                digests.append(f"{task.id} {challenges[task.id].digest}")
                sound.append(task)
            except IntercodeError as error:
                left_out.append((task, TaskIssue(str(error), "unreadable")))
        if not sound:
            raise UsageError(none_playable(left_out))
        facts = {
            "assets_digest": hashlib.sha256("\n".join(digests).encode()).hexdigest(),
            "left_out": {},
            "reward": reward_name(named),
        }
        arguments = {
            "spec": spec,
            "challenges": challenges,
            "reward": reward,
            "golds": GoldCache[str | None](),
        }
        return Prepared(
            arguments,
            lambda: {**facts, **spec.facts(), **spec.service_files(sound)},
            sound,
            left_out,
        )

    def execute(self, action: str) -> ExecResult:
        """Execute an action. Under the paper's protocol this may be a submission, which is an
        ordinary action."""
        self._word = submitted_word(self.submission, action)
        if is_submission(action, self.submission):
            score = self.score()
            return ExecResult(
                "" if score.success else self.feedback(score),
                None,
                cwd=self.world.workspace.last.cwd,
            )
        return super().execute(action)

    def reject_submission(self, word: str) -> str | None:
        return NOT_LITERAL if _SUBSTITUTES.search(word) and answer_in(word) is None else None

    def feedback(self, score: Score) -> str:
        return "That is not the flag."


def _survey(data: DataSet, options: CtfOptions) -> dict[str, Challenge]:
    assets = Path(options.assets) if options.assets else data.assets
    has_shared_files = any(part is not None for part in (options.tree, data.tree, options.image))
    return survey(data.tasks, assets, data.file, has_shared_files=has_shared_files)


def _playable(
    tasks: Sequence[Task], challenges: Mapping[str, Challenge], everything: bool
) -> tuple[list[Task], list[tuple[Task, TaskIssue]]]:
    """Return the tasks to play, with their new fields, and the reasons why tasks are left out."""
    left_out, playable = list[tuple[Task, TaskIssue]](), list[Task]()
    for task in tasks:
        challenge = challenges[task.id]
        if challenge.unreadable or (challenge.issues and not everything):
            left_out += [(task, issue) for issue in challenge.issues]
        else:
            fields = {**task.extra, "gold_is": gold_is(task), **challenge.facts}
            playable.append(replace(task, extra=fields))
    if all(challenges[task.id].unreadable for task in tasks):
        raise DataError(left_out[0][1])
    if not playable:
        raise UsageError(
            f"{none_playable(left_out)}; "
            "give the files of the tasks with --assets DIR, or add --keep-unplayable"
        )
    return playable, left_out
