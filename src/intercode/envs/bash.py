"""BashEnv: actions are Bash, the world is a sandbox, the answer is what the last action printed.

The gold acts on the same starting tree, in a cell of its own, before the agent does; its outcome is kept for all
environments that share a `Golds`. A task marked `general` is played again on second contents when it looks solved.

Persistent session: the action runs in a shell that lives on. Stateless session: as the paper did (appendix, "Bash action"):
the action between double quotes after `/bin/bash -c`, split by shlex; only `cd` carries over.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, Self

from intercode.env import InterCodeEnv, Protocol, Setting, Trial, View
from intercode.errors import SandboxDied
from intercode.rewards import bash_exact, bash_paper
from intercode.sandbox.base import Limits, Sandbox, Session
from intercode.sandbox.userland import fingerprint
from intercode.types import ExecResult, Outcome, Score, Task

_MISSING = re.compile(r"^\S*bash: line \d+: (.+): command not found$", re.MULTILINE)
BashReward = Callable[[Outcome, Outcome, Task], Score]


class Ground:
    """A starting point for episodes: sandboxes of one template, and what git would track in it."""

    def __init__(self, make: Callable[[], Sandbox], tracked: Collection[str], digest: str) -> None:
        self.make, self.tracked, self.digest = make, tracked, digest

    def facts(self) -> dict[str, Any]:
        with self.make() as sandbox:
            return {"template": self.digest, "userland": fingerprint(sandbox)}


class Golds:
    """Outcomes of gold answers: each is executed once, however many environments ask for it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outcomes: dict[tuple[str, str], Future[Outcome]] = {}

    def get(self, key: tuple[str, str], execute: Callable[[], Outcome]) -> Outcome:
        with self._lock:
            mine = key not in self._outcomes
            future = self._outcomes.setdefault(key, Future())
        if mine:
            try:
                future.set_result(execute())
            except BaseException as error:
                with self._lock:
                    del self._outcomes[key]
                future.set_exception(error)
        return future.result()


class Place:
    """One sandbox and the session that goes on in it."""

    def __init__(self, ground: Ground, session: Session) -> None:
        self.ground, self.session = ground, session
        self.sandbox = ground.make()
        self.clean = True
        self.output, self.overflow = "", None

    def begin(self) -> None:
        if not self.clean:
            self.sandbox.reset()
        self.clean, self.cwd = True, "/"
        self.output: str = ""
        self.overflow: str | None = None

    def act(self, action: str) -> ExecResult:
        self.clean = False
        result = self.sandbox.exec(action) if self.session == "persistent" else self._as_the_paper_did(action)
        self.output, self.overflow = result.output, result.overflow
        return result

    def outcome(self) -> Outcome:
        return Outcome(self.output, self.sandbox.diff(), self.overflow)

    def rebuild(self) -> None:
        self.sandbox.close()
        self.sandbox, self.clean = self.ground.make(), True

    def copy(self, live: bool) -> Place:
        twin = object.__new__(Place)
        twin.__dict__.update(self.__dict__)
        twin.sandbox = self.sandbox.fork() if live else self.ground.make()
        return twin

    def _as_the_paper_did(self, action: str) -> ExecResult:
        target = _cd_target(self.cwd, action)
        try:
            argv = shlex.split(f'/bin/bash -c "{(f"cd {target}" if target else action).strip()}"')
        except ValueError:
            return ExecResult("Malformed command", None, cwd=self.cwd)
        result = self.sandbox.exec("", argv=argv, cwd=self.cwd)
        if result.timed_out:
            return ExecResult("Command timed out", None, timed_out=True, cwd=self.cwd)
        if target and result.exit_code == 0:
            self.cwd = target
        return result


class BashEnv(InterCodeEnv):
    def __init__(
        self,
        tasks: Sequence[Task],
        ground: Ground,
        *,
        second: Ground | None = None,
        golds: Golds | None = None,
        reward: Literal["exact", "paper"] | _MISSING = re.compile(r"^\S*bash: line \d+: (.+): command not found$", re.MULTILINE)
BashReward = "exact",
        session: Session = "persistent",
        protocol: Protocol = "submit",
        max_turns: int | None = 10,
        view: View | None = None,
        keep_going: bool = False,
    ) -> None:
        super().__init__(tasks, protocol=protocol, max_turns=max_turns, view=view, keep_going=keep_going)
        self._ground, self._second, self._golds, self.reward = ground, second, golds or Golds(), reward
        self._session: Session = session
        self._place = Place(ground, session)
        self._elsewhere: Place | None = None

    @classmethod
    def prepare(
        cls,
        *,
        data: str | None = None,
        limit: int | None = None,
        image: str | None = None,
        tree: str | Path | None = None,
        setup: str | Path | None = None,
        protocol: Protocol = "submit",
        reward: Literal["exact", "paper"] | BashReward | None = None,
        session: Session | None = None,
        limits: Limits | None = None,
        max_turns: int | None = 10,
        view: View | None = None,
        keep_going: bool = False,
    ) -> Setting:
        """Load data and build templates once. `protocol="paper"` implies the paper's reward and stateless session."""
        from intercode.envs.grounds import grounds
        from intercode.tasks import open_data

        paper = protocol == "paper"
        session = session or ("stateless" if paper else "persistent")
        found = open_data(data, env="bash", limit=limit)
        where = {"image": image, "tree": tree, "setup": setup}
        ground, second = grounds(found, **where, session=session, limits=limits, paper=paper)
        options: dict[str, Any] = {"protocol": protocol, "session": session, "max_turns": max_turns, "view": view}
        options |= {"keep_going": keep_going, "reward": reward or ("paper" if paper else "exact"), "golds": Golds(), "second": second}
        facts = {"data": found.name, "data_digest": found.digest, "session": session, "reward": _name(options["reward"])}
        return Setting(found.tasks, lambda: cls(found.tasks, ground, **options), lambda: {**facts, **ground.facts()})

    def try_gold(self, task: Task) -> Trial:
        self._place.begin()
        result = self._place.act(task.gold)
        return Trial(self._place.outcome(), result.output, tuple(_faults(result)))

    def _enter(self, task: Task) -> None:
        try:
            self._gold(self._place, task)
            self._place.begin()
        except SandboxDied:
            self._place.rebuild()
            self._gold(self._place, task)
            self._place.begin()

    def _act(self, action: str) -> ExecResult:
        return self._place.act(action)

    def _score(self) -> Score:
        score = self._compare(self._place)
        if not (score.success and self.task.general and self._second):
            return score
        again = self._compare(self._play_elsewhere(self._second))
        reward = min(score.reward, again.reward)
        return Score(reward, again.success, {**score.parts, "robust": float(again.success)})

    def _branch(self, twin: Self, live: bool) -> None:
        twin._place = self._place.copy(live)
        twin._elsewhere = None

    def _leave(self) -> None:
        for place in (self._place, self._elsewhere):
            if place is not None:
                place.sandbox.close()

    # -- inside -----------------------------------------------------------------------------------------------------

    def _compare(self, place: Place) -> Score:
        agent, gold = place.outcome(), self._gold(place, self.task)
        if callable(self.reward):
            return self.reward(agent, gold, self.task)
        if self.reward == "paper":
            return bash_paper(agent, gold, place.ground.tracked)
        return bash_exact(agent, gold, self.task)

    def _gold(self, place: Place, task: Task) -> Outcome:
        where = "second" if place.ground is self._second else "first"
        return self._golds.get((task.id, where), lambda: run_alone(place, task.gold))

    def _play_elsewhere(self, ground: Ground) -> Place:
        if self._elsewhere is None:
            self._elsewhere = Place(ground, self._session)
        self._gold(self._elsewhere, self.task)
        self._elsewhere.begin()
        for action in self._actions:
            if self.protocol == "paper" or action.strip() != self.submit_word:
                self._elsewhere.act(action)
        return self._elsewhere


def _name(reward: object) -> str:
    return reward if isinstance(reward, str) else getattr(reward, "__qualname__", repr(reward))


def run_alone(place: Place, answer: str) -> Outcome:
    """The outcome of one action on the untouched tree."""
    place.begin()
    place.act(answer)
    return place.outcome()


def _faults(result: ExecResult) -> Iterator[str]:
    """What is wrong with a gold by the look of its execution alone."""
    if result.timed_out:
        yield "gold runs out of time"
    for tool in sorted(set(_MISSING.findall(result.output))):
        yield f"gold calls {tool}, which is not installed here"
    if result.exit_code and not _MISSING.search(result.output):
        last = result.output.strip().rpartition("\n")[2][:200]
        yield f"gold ends with status {result.exit_code}" + (f": {last}" if last else "")


def _cd_target(cwd: str, action: str) -> str | None:
    """Where the first system believed that an action starting with `cd` leads: by text, not by looking."""
    if not action.startswith("cd "):
        return None
    return _join(cwd, action[3:].strip())


def _join(cwd: str, path: str) -> str:
    parts: list[str] = []
    for part in (path if path.startswith("/") else f"{cwd}/{path}").split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)

