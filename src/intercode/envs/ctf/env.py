"""CtfEnv: actions are Bash, the world is a sandbox with one task's files in /ctf, the answer is a flag.

    reset ──► the task's assets are unpacked into an empty /ctf; the shell starts there
    step  ──► Bash, or `submit FLAG`: right ends the episode; wrong is told, and `submits` of them may be made

A gold is the flag itself, or, where its task says `gold_is: script`, a Bash script that finds it: the flag is then what it
prints last, in a sandbox like the agent's, once for all environments and before the agent comes. So the flag is nowhere inside
unless the task's files hold it. Tasks that cannot be played as they are (`challenges.py`) are left out unless asked for.

Under the paper's protocol `submit FLAG` is an action among others, and any number may be made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from intercode.env import EnvFactory, GoldRun, InterCodeEnv, Protocol, View
from intercode.envs.ctf.challenges import Challenge, gold_is, survey
from intercode.envs.ctf.flag import flag_exact, flag_paper
from intercode.envs.gold import GoldCache, each_gold, run_gold
from intercode.envs.rewards import best, judged, require_reward, reward_name
from intercode.envs.workspace import Workspace, WorkspaceSpec, prepare_workspaces
from intercode.errors import DataError, UsageError
from intercode.sandbox.base import Limits, Session
from intercode.sandbox.build import Backend, with_script
from intercode.submission import WORD, is_submission, submitted_word
from intercode.tasks import Preprocess, open_data
from intercode.tasks.issues import TaskIssue
from intercode.types import ExecResult, Score, Task

Reward = Literal["exact", "paper"] | Callable[[str, str, Task], Score]
PLACE = "/ctf"
_ARCHIVE = "/dev/shm/assets.tar"
_UNPACK = f"tar -C {PLACE} --no-same-owner -xpf {_ARCHIVE}; status=$?; rm {_ARCHIVE}; exit $status"


class CtfEnv(InterCodeEnv):
    """`challenges` has the assets of each task, by its id; `golds` may be shared. Other arguments: see `InterCodeEnv`."""

    language = "ctf"
    submission = WORD

    def __init__(
        self,
        tasks: Sequence[Task],
        spec: WorkspaceSpec,
        challenges: Mapping[str, Challenge],
        *,
        reward: Reward = "exact",
        golds: GoldCache[str] | None = None,
        **how: Any,
    ) -> None:
        super().__init__(tasks, **how)
        require_reward(reward, ("exact", "paper"), "submitted, flag, task")
        self.reward, self._challenges, self._gold_cache = reward, challenges, golds or GoldCache[str]()
        self._workspace, self._flags = Workspace(spec), list[tuple[Task, str]]()

    @classmethod
    def prepare(  # type: ignore[override]
        cls,
        *,
        data: str | None = None,
        assets: str | Path | None = None,
        limit: int | None = None,
        everything: bool = False,
        submits: int | None = None,
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
        """Load data once. `assets` has a folder or a tar for each task; `everything` keeps tasks that cannot be played.

        Tasks carry `needs_network`, `has_assets` and `broken_gold`; the setting's facts list what was left out, and why.
        """
        paper = protocol == "paper"
        session = session or ("stateless" if paper else "persistent")
        reward = reward or ("paper" if paper else "exact")
        records = preprocess or cls.preprocess
        found = open_data(data, env="ctf", limit=limit, preprocess=records, gold_fields=gold_fields)
        furnished = tree is not None or found.tree is not None or image is not None
        challenges = survey(found.tasks, Path(assets) if assets else found.assets, found.file, furnished=furnished)
        tasks, left_out = _playable(found.tasks, challenges, everything)
        first_system = reward == "paper" and session == "stateless"
        world = {"image": image, "tree": tree, "setup": setup, "limits": limits, "paper": first_system, "sandbox": sandbox}
        spec, _ = prepare_workspaces(found, session, **world)  # type: ignore[arg-type]
        spec = replace(spec, template=with_script(spec.template, f"mkdir -p {PLACE}", name="the folder for assets"))
        how = {"protocol": protocol, "max_turns": max_turns, "view": view, "keep_going": keep_going, "submits": submits}
        golds = GoldCache[str]()
        digests = "\n".join(f"{task.id} {challenges[task.id].digest}" for task in tasks)
        facts = {
            "data": found.name,
            "data_digest": found.digest,
            "assets_digest": hashlib.sha256(digests.encode()).hexdigest(),
            "left_out": {task.id: "; ".join(challenges[task.id].faults) for task, _ in left_out},
            "reward": reward_name(reward),
        }
        return EnvFactory(
            tasks,
            lambda: cls(tasks, spec, challenges, reward=reward, golds=golds, **how),
            lambda: {**facts, **spec.facts()},
            left_out,
        )

    def run_gold(self, task: Task) -> GoldRun:
        faults = list(self._challenges[task.id].faults)
        try:
            flag = self._find(task)
        except DataError as error:
            return GoldRun(None, "", (*faults, str(error)))
        if name := self._challenges[task.id].plain(flag):
            faults.append(TaskIssue(f"the flag stands in plain text in {name}", "plain_flag"))
        return GoldRun(flag, flag, tuple(faults))

    def start_episode(self, task: Task) -> None:
        """Each gold's flag is found in the place first. A script that finds none is left out, if it is an alternative."""
        first, *others = each_gold(task)
        self._flags = [(first, self._flag(first))]
        for other in others:
            with suppress(DataError):
                self._flags.append((other, self._flag(other)))
        self._furnish(task)

    def execute(self, action: str) -> ExecResult:
        """Under the paper's protocol a submission comes here: it is an action that is scored like any other."""
        self._word = submitted_word(self.submission, action)
        if is_submission(action, self.submission):
            score = self.score()
            told = "" if score.success else self.feedback(score)
            return ExecResult(told, None, cwd=self._workspace.last.cwd)
        return self._workspace.act(action)

    def score(self) -> Score:
        """The paper's reward knows one gold."""
        if self.reward == "paper":
            return flag_paper(self._word, self._flags[0][1])
        if callable(self.reward):
            return best(judged(self.reward, self._word, flag, task) for task, flag in self._flags)
        return best(flag_exact(self._word, flag) for _, flag in self._flags)

    def feedback(self, score: Score) -> str:
        return "That is not the flag."

    def copy_world(self, twin: Self, live: bool) -> None:
        twin._workspace = self._workspace.twin(live=live)

    def close_world(self) -> None:
        self._workspace.sandbox.close()

    def _furnish(self, task: Task) -> None:
        """An untouched place with this task's assets, and the shell in their folder."""
        workspace, challenge = self._workspace, self._challenges[task.id]
        workspace.begin()
        workspace.act(f"cd {PLACE}")
        if challenge.packed is None:
            return
        workspace.sandbox.write(_ARCHIVE, challenge.packed, mode=0o600)
        done = workspace.sandbox.exec("", argv=["sh", "-c", _UNPACK], cwd="/", timeout=60)
        if done.exit_code != 0:
            raise DataError(f"task {task.id}: {challenge.assets} cannot be unpacked in the sandbox: {last_line(done.output)}")

    def _flag(self, task: Task) -> str:
        return self._gold_cache.get((task.id, task.gold, self._workspace.spec.template.digest), lambda: self._find(task))

    def _find(self, task: Task) -> str:
        """The flag; a script is executed for it. Raises `DataError` if it finds none."""
        if gold_is(task) == "flag":
            return task.gold
        result = run_gold(lambda: self._searched(task), task.gold)
        last = last_line(result.output)
        if result.exit_code != 0 or not last:
            how = "runs out of time" if result.timed_out else f"ends with status {result.exit_code}"
            raise DataError(f"task {task.id}: the gold's script {how} and prints {last or 'nothing'!r}, where a flag should be")
        return last

    def _searched(self, task: Task) -> ExecResult:
        self._furnish(task)
        return self._workspace.sandbox.exec("", argv=["bash", "-c", task.gold], cwd=PLACE)


def last_line(output: str) -> str:
    """Where a script's flag stands."""
    return output.strip().rpartition("\n")[2].strip()


def _playable(
    tasks: Sequence[Task], challenges: Mapping[str, Challenge], everything: bool
) -> tuple[list[Task], list[tuple[Task, TaskIssue]]]:
    """The tasks to play, with what is known of them; and each reason why others are not."""
    left_out = [(task, fault) for task in tasks if not everything for fault in challenges[task.id].faults]
    kept = [
        replace(task, extra={**task.extra, "gold_is": gold_is(task), **challenges[task.id].facts})
        for task in tasks
        if everything or not challenges[task.id].faults
    ]
    if not kept:
        first, why = left_out[0][0].id, left_out[0][1]
        raise UsageError(
            f"no task can be played as it is (task {first} {why}); give their files with --assets, or play all with --all"
        )
    return kept, left_out
