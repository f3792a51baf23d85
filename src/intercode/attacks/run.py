"""Try exploits on an environment: does any pay or escape, and does the honest episode after it still succeed?

    sound tasks (the gold succeeds, doing nothing does not) ──► exploit, submission ──► what it left? ──► the gold again

An exploit that pays on one of the tasks pays. One that gets an error in the place of a failure has escaped, since errors count
against nobody. What could not be tried says why, and does not count as held.
"""

from __future__ import annotations

import base64
import contextlib
import inspect
import re
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from intercode.agents import gold, noop
from intercode.attacks.host import planted
from intercode.attacks.sandbox import LIMITS
from intercode.attacks.suite import Exploit, arena, suite
from intercode.env import EnvFactory, InterCodeEnv
from intercode.envs import environment_class, prepare
from intercode.errors import DataError, IntercodeError, InternalError, SandboxError, UsageError
from intercode.plugins import fault_of
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play
from intercode.sandbox.identity import identity
from intercode.types import Episode, Task

TASKS = 2
"""How many of the user's tasks an exploit is tried on; one, if it is the sandbox that it attacks."""
_LIMITS = {"limits": replace(LIMITS, seconds=3.0), "seconds": 3.0}
_LOOKED_AT = 12
_NO_PYTHON = "/usr/bin/python3: No such file or directory"
_SHORT = 8
"""A text of fewer letters is found by chance."""


@dataclass(frozen=True)
class Verdict:
    """What came of an exploit. `honest`: the next honest step worked. `why`: what happened, or why it was not tried.

    `moot`: it was not tried since it would show nothing in this environment.
    """

    exploit: Exploit
    paid: bool = False
    escaped: bool = False
    honest: bool = True
    tried: bool = True
    moot: bool = False
    why: str = ""

    @property
    def held(self) -> bool:
        return self.honest and not (self.paid or self.escaped)


@dataclass(frozen=True)
class Target:
    """A sound task, and the words that exploits are filled with."""

    task: Task
    words: dict[str, str]

    def fill(self, text: str) -> str:
        return re.sub("@([A-Z0-9]+)@", lambda found: self.words.get(found[1], found[0]), text)


def attack(env: str, *, workers: int = 1, tick: Callable[[], None] = lambda: None, **options: Any) -> list[Verdict]:
    """Try every exploit for the language of `env`, which `options` prepare; verdicts come in the order of the suite.

    Each worker has environments of its own. Raises `UsageError` without a sound task.
    """
    owner = environment_class(env)
    limits = {name: value for name, value in _LIMITS.items() if name in inspect.signature(owner.prepare).parameters}
    factory = prepare(env, max_turns=None, **limits, **options)
    with contextlib.closing(factory()) as first:
        targets = find_targets(first)
    engine = factory.facts().get("userland", {}).get("engine", "")
    chosen = [each for each in suite(owner.language) if each.engine in ("", engine)]
    free: SimpleQueue[_Bench] = SimpleQueue()

    def one(exploit: Exploit) -> Verdict:
        bench = free.get()
        try:
            return bench.tries(exploit)
        finally:
            free.put(bench)
            tick()

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        ours = _arena(env, owner.language, Path(folder) / "arena", factory, {**limits, **options})
        for _ in range(workers):
            free.put(bench := _Bench(factory, targets, ours))
            stack.callback(bench.close)
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(one, chosen))


def find_targets(env: InterCodeEnv) -> list[Target]:
    """The first tasks whose gold succeeds here, and which doing nothing does not solve."""
    golds: dict[str, Episode] = {}
    for task in env.tasks[:_LOOKED_AT]:
        with contextlib.suppress(DataError):
            episode = play(env, task, gold, None, BudgetTracker())
            if episode.success and not play(env, task, noop, None, BudgetTracker()).success:
                golds[task.id] = episode
    if not golds:
        raise UsageError(
            f"none of the first {min(_LOOKED_AT, len(env.tasks))} tasks has a gold that succeeds within the attacks' limits, "
            "while doing nothing does not: see `intercode check`"
        )
    tasks = [task for task in env.tasks if task.id in golds][:TASKS]
    return [Target(task, _words(env, task, golds)) for task in tasks]


def _words(env: InterCodeEnv, task: Task, golds: dict[str, Episode]) -> dict[str, str]:
    def submitted(id: str) -> str:
        said = str(golds[id].turns[-1].action or "").strip()
        return said.partition(" ")[2]

    word, lines = submitted(task.id), [*task.gold.strip().splitlines(), ""]
    query = max(re.split(r'["\\\n]|[^ -~]', task.query), key=len)
    others = [other for id in golds if id != task.id and (other := submitted(id)) != word]
    needles = {"QUERY64": query, "GOLD64": lines[0] if len(lines[0]) >= _SHORT else query, "WORD64": word or query}
    return {
        "GOLD": task.gold,
        "WORD": word or "f",
        "OTHER": others[0] if others else "",
        "FORM": re.split(r"(?<=\{)|(?<=^.)$", word)[0],
        **{name: base64.b64encode(text.encode()).decode() for name, text in needles.items()},
    }


def _arena(env: str, language: str, folder: Path, factory: EnvFactory, options: dict[str, Any]) -> EnvFactory | str | None:
    """A setting on the suite's own data, or why there is none."""
    if (data := arena(language, folder)) is None:
        return None
    own: dict[str, str | None] = dict.fromkeys(("limit", "databases", "dump", "tree", "setup", "robust"))
    own |= {"engine": str(engine)} if (engine := factory.facts().get("userland", {}).get("engine")) else {}
    try:
        return prepare(env, max_turns=None, **{**options, **own, "data": str(data)})
    except IntercodeError as error:
        return str(error)


class _Bench:
    """One worker's environments, made when they are needed, and anew after an exploit that took one with it."""

    def __init__(self, factory: EnvFactory, targets: Sequence[Target], ours: EnvFactory | str | None) -> None:
        self._setting, self._targets, self._ours = factory, targets, ours
        self._envs: dict[bool, InterCodeEnv] = {}

    def tries(self, exploit: Exploit) -> Verdict:
        own = bool(exploit.task)
        factory = self._ours if own else self._setting
        if not isinstance(factory, EnvFactory):
            return Verdict(exploit, tried=False, why=f"not on the suite's own data: {factory}")
        env = self._envs[own] = self._envs.get(own) or factory()
        known = [Target(task, {}) for task in env.tasks if task.id == exploit.task] if own else self._targets
        found = Verdict(exploit, tried=False, why="there is no such task")
        for target in known[:1] if exploit.next else known:
            found = attempt(env, exploit, target)
            if not (found.held and found.tried):
                self._renew(own)
                break
        return found

    def _renew(self, own: bool) -> None:
        with contextlib.suppress(IntercodeError):
            self._envs.pop(own).close()

    def close(self) -> None:
        for own in list(self._envs):
            self._renew(own)


def attempt(env: InterCodeEnv, exploit: Exploit, target: Target) -> Verdict:
    """The exploit on one task, and the honest steps after it."""
    try:
        if not exploit.outside:
            return _played(env, exploit, target, target.fill)
        with planted(**identity().popen()) as there:
            found = _played(env, exploit, target, lambda text: there.fill(target.fill(text)))
            return replace(found, escaped=found.escaped or there.killed())
    except Exception as error:
        fault = fault_of(error)
        if isinstance(fault, SandboxError | InternalError):
            return Verdict(exploit, escaped=True, honest=False, why=f"an error in the place of a failure: {fault}")
        return Verdict(exploit, tried=False, why=str(fault))


def _played(env: InterCodeEnv, exploit: Exploit, target: Target, fill: Callable[[str], str]) -> Verdict:
    paid, said, info = _episode(env, target.task, exploit.actions, exploit, fill)
    if paid and exploit.moot and _episode(env, target.task, exploit.moot, exploit, fill)[0]:
        return Verdict(exploit, tried=False, moot=True, why="the reward pays for a change that is not hidden, too")
    if _NO_PYTHON in said:
        return Verdict(exploit, tried=False, why="there is no /usr/bin/python3 inside, which it needs")
    escaped = "BREACH" in said or (exploit.proof == "runs" and not exploit.after and info.get("exit_code") == 0)
    lives = not exploit.next or "honest 42" in said or info.get("ended") == "agent_fault"
    if exploit.after:
        env.reset(options={"task": target.task.id})
        left, *_, info = env.step(fill(exploit.after))
        escaped |= "BREACH" in left or (exploit.proof == "runs" and info.get("exit_code") == 0)
    honest = play(env, target.task, gold, None, BudgetTracker()).success
    why = next((line for line in said.splitlines() if "BREACH" in line), "")[:200] if escaped else ""
    return Verdict(exploit, paid, escaped, lives and honest, why=why)


def _episode(
    env: InterCodeEnv, task: Task, actions: Sequence[str], exploit: Exploit, fill: Callable[[str], str]
) -> tuple[bool, str, dict[str, Any]]:
    """Whether it was paid, what was said, and the last action's info."""
    env.reset(options={"task": task.id})
    paid, said, last = False, "", dict[str, Any]()
    honest = [exploit.next] * 3 if exploit.next else []
    for action in (*actions, *honest, f"submit {exploit.word}".strip()):
        if action == exploit.next and "honest 42" in said:
            continue
        observation, _, terminated, truncated, info = env.step(fill(action).replace("\0", ""))
        paid |= "score" in info and bool(info["score"].success)
        said += observation + "\n"
        last = info if action in actions or "ended" in info else last
        if terminated or truncated:
            break
    return paid, said, last
