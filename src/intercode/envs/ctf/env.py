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
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Self

from intercode.env import GoldRun, InterCodeEnv, World, none_playable, shorten_text
from intercode.envs.ctf.challenges import Challenge, gold_is, survey
from intercode.envs.ctf.language import LANGUAGE
from intercode.envs.ctf.options import CtfOptions
from intercode.envs.gold import GoldCache, blame_gold, split_golds
from intercode.envs.rewards import (
    best_score,
    call_reward,
    is_papers,
    require_reward,
    reward_name,
)
from intercode.envs.workspace import Workspace, WorkspaceSpec, prepare_workspaces, split_refused
from intercode.errors import DataError, UsageError
from intercode.submission import NOT_LITERAL, answer_in, is_submission, submitted_word
from intercode.tasks import DataSet
from intercode.types import ExecResult, Score, Task, TaskIssue

Reward = str | Callable[[str, str, Task], Score]
FOLDER = "/ctf"
_ARCHIVE = "/dev/shm/assets.tar"
_COMMENT = re.compile(r"\s+#.*$")
_SUBSTITUTES = re.compile(r"\$\(|`[^`]*\s[^`]*`")
"""A command whose output Bash would put here: `$(cat flag)`, but not a flag in marks: `FLAG`."""
_UNPACK = f"tar -C {FOLDER} --no-same-owner -xpf {_ARCHIVE}; status=$?; rm {_ARCHIVE}; exit $status"


class CtfEnv(InterCodeEnv):
    """An environment for capture-the-flag tasks. `challenges` maps task ids to assets; environments
    may share `golds`. For other arguments see `InterCodeEnv`."""

    Options = CtfOptions
    rewards: ClassVar = {
        "exact": "intercode.envs.ctf.env:flag_exact",
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
        golds: GoldCache[str] | None = None,
        **how: Any,
    ) -> None:
        super().__init__(tasks, **how)
        if reward is not None or not hasattr(type(self), "reward"):
            self.reward = reward or "exact"
        require_reward(self.reward, self.rewards, "submitted, flag, task")
        self._challenges = challenges
        self._gold_cache = golds or GoldCache[str]()
        self._workspace, self._flags = Workspace(spec), list[tuple[Task, str]]()
        self._last_score = Score(0.0, False)

    @classmethod
    def lint_files(cls, data: DataSet, options: CtfOptions) -> Mapping[str, Sequence[TaskIssue]]:
        return {
            id: (*challenge.issues, *challenge.hints())
            for id, challenge in _survey(data, options).items()
        }

    @classmethod
    def prepare_world(cls, data: DataSet, options: CtfOptions) -> World:
        """Survey the tasks' files. Tasks get the fields `needs_network`, `has_assets` and
        `broken_gold`; the facts say why tasks are left out."""
        session, (reward, named) = options.chosen_session, cls._choose_reward(options)
        challenges = _survey(data, options)
        tasks, left_out = _playable(data.tasks, challenges, options.everything)
        spec, _ = prepare_workspaces(
            data,
            session,
            image=options.image,
            tree=options.tree,
            setup=options.setup,
            limits=options.chosen_limits,
            network=options.chosen_network,
            paper=is_papers(named, cls.rewards) and session == "stateless",
            sandbox=options.sandbox,
        )
        scripted = [task for task in tasks if gold_is(task) == "script"]
        _, refused = split_refused(scripted, spec.provider)
        left_out += refused
        tasks = [task for task in tasks if task not in [other for other, _ in refused]]
        with_folder = spec.provider.add_script(
            spec.template, f"mkdir -p {FOLDER}", name="the folder for assets"
        )
        spec = replace(spec, template=with_folder)
        digests = "\n".join(f"{task.id} {challenges[task.id].digest}" for task in tasks)
        facts = {
            "assets_digest": hashlib.sha256(digests.encode()).hexdigest(),
            "left_out": {
                task.id: "; ".join(challenges[task.id].issues) or str(why) for task, why in left_out
            },
            "reward": reward_name(named),
        }
        arguments = {
            "spec": spec,
            "challenges": challenges,
            "reward": reward,
            "golds": GoldCache[str](),
        }
        return World(arguments, lambda: {**facts, **spec.facts()}, tasks, left_out)

    def run_gold(self, task: Task) -> GoldRun:
        issues = list(self._challenges[task.id].issues)
        try:
            flag = self._find_flag(task)
        except DataError as error:
            return GoldRun(None, "", (*issues, str(error)))
        issues += self._challenges[task.id].hints(flag)
        return GoldRun(flag, flag, tuple(issues))

    def start_episode(self, task: Task) -> None:
        """Find the flag of each gold, then give the agent a new sandbox. An alternative script that
        does not find a flag is skipped."""
        first, *others = split_golds(task)
        self._flags = [(first, self._flag(first))]
        for other in others:
            with suppress(DataError):
                self._flags.append((other, self._flag(other)))
        self._start_in_assets(task)

    def execute(self, action: str) -> ExecResult:
        """Execute an action. Under the paper's protocol this may be a submission, which is an
        ordinary action."""
        self._word = submitted_word(self.submission, action)
        if is_submission(action, self.submission):
            score = self.score()
            return ExecResult(
                "" if score.success else self.feedback(score), None, cwd=self._workspace.last.cwd
            )
        return self._workspace.execute(action)

    def score(self) -> Score:
        """Score the submission against each gold's flag; under the paper's reward, against the
        first flag only."""
        if is_papers(self.reward, self.rewards):
            scorer = resolve_name(self.rewards[str(self.reward)])
            self._last_score = scorer(self._word, self._flags[0][1])
        elif callable(self.reward):
            self._last_score = best_score(
                call_reward(self.reward, self._word, flag, task) for task, flag in self._flags
            )
        else:
            self._last_score = best_score(flag_exact(self._word, flag) for _, flag in self._flags)
        return self._last_score

    def reject_submission(self, word: str) -> str | None:
        return NOT_LITERAL if _SUBSTITUTES.search(word) and answer_in(word) is None else None

    def session_lost(self) -> bool:
        return self._workspace.sandbox.session_lost()

    def outcomes(self) -> dict[str, Any]:
        """Return the submission. The flag is left out, since runs are shared."""
        failed = [] if self._last_score.success else ["flag"]
        return {"failed": failed, "agent": {"submitted": shorten_text(self._word)}}

    def feedback(self, score: Score) -> str:
        return "That is not the flag."

    def copy_world(self, other: Self, live: bool) -> None:
        other._workspace = self._workspace.fork(live=live)

    def close_world(self) -> None:
        self._workspace.sandbox.close()

    def _start_in_assets(self, task: Task) -> None:
        """Start an episode with the task's assets unpacked and the shell in their folder."""
        workspace, challenge = self._workspace, self._challenges[task.id]
        workspace.start_episode()
        workspace.execute(f"cd {FOLDER}")
        if challenge.packed is None:
            return
        workspace.sandbox.write(_ARCHIVE, challenge.packed, mode=0o600)
        done = workspace.sandbox.exec("", argv=["sh", "-c", _UNPACK], cwd="/", timeout=60)
        if done.exit_code != 0:
            raise DataError(
                f"task {task.id}: {challenge.assets} cannot be unpacked in the sandbox: "
                f"{last_line(done.output)}"
            )

    def _flag(self, task: Task) -> str:
        return self._gold_cache.get(
            (task.id, task.gold, self._workspace.spec.template.digest),
            lambda: self._find_flag(task),
        )

    def _find_flag(self, task: Task) -> str:
        """Return the gold's flag; execute a gold that is a script. Raises `DataError` if it fails
        or prints nothing."""
        if gold_is(task) == "flag":
            return task.gold

        def execute() -> ExecResult:
            self._start_in_assets(task)
            return self._workspace.sandbox.exec("", argv=["bash", "-c", task.gold], cwd=FOLDER)

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
    word, wanted = submitted.strip(), flag.strip()
    quoted = word[:1] in ("'", '"') and word[:1] == word[-1:]
    plain = _COMMENT.sub("", word)
    readings = {word, plain, plain.rstrip(".;"), word.strip("*`")}
    readings |= {word[1:-1].strip()} if quoted else set()
    return score_flag(wanted if wanted in readings else word, wanted)


def score_flag(submitted: str, flag: str) -> Score:
    """Return 1 if both are the same text and not empty, else 0."""
    same = submitted == flag != ""
    return Score(float(same), same, {"flag": float(same)})


def last_line(output: str) -> str:
    """Return the last line of an output, which contains the flag of a script."""
    return output.strip().rpartition("\n")[2].strip()


def _survey(data: DataSet, options: CtfOptions) -> dict[str, Challenge]:
    assets = Path(options.assets) if options.assets else data.assets
    has_shared_files = any(part is not None for part in (options.tree, data.tree, options.image))
    return survey(data.tasks, assets, data.file, has_shared_files=has_shared_files)


def _playable(
    tasks: Sequence[Task], challenges: Mapping[str, Challenge], everything: bool
) -> tuple[list[Task], list[tuple[Task, TaskIssue]]]:
    """Return the tasks to play, with their new fields, and the reasons why tasks are left out."""
    left_out = [
        (task, issue) for task in tasks if not everything for issue in challenges[task.id].issues
    ]
    playable = [
        replace(task, extra={**task.extra, "gold_is": gold_is(task), **challenges[task.id].facts})
        for task in tasks
        if everything or not challenges[task.id].issues
    ]
    if not playable:
        raise UsageError(
            f"{none_playable(left_out)}; "
            "give the files of the tasks with --assets DIR, or add --keep-unplayable"
        )
    return playable, left_out
