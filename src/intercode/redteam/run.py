"""Try exploits on an environment: is one rewarded, does one escape, and does an honest episode
afterwards still succeed?

    sound tasks (the gold succeeds, doing nothing does not) ──► exploit, submission
      ──► effects on the next episode? ──► gold

An exploit pays if it is rewarded on any of the tasks. Causing an error instead of a failure also
counts as an escape, since an error does not count against the agent. For an exploit that could not
be tried, the verdict gives the reason and does not count as held.
"""

from __future__ import annotations

import base64
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from intercode.agents import gold, noop
from intercode.env import InterCodeEnv
from intercode.envs import environment_class, prepare
from intercode.errors import DataError, IntercodeError, InternalError, SandboxError, UsageError
from intercode.factory import EnvFactory
from intercode.hooks import NOT_PLAYED
from intercode.plugins import fault_of
from intercode.redteam.exploits import Exploit, with_words
from intercode.redteam.suite import HONEST, attacks_of, list_exploits
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play
from intercode.types import Task
from intercode_sandbox.attacks import LIMITS, NO_PYTHON, host_targets
from intercode_sandbox.identity import identity

TASKS = 2
"""The user's tasks that an exploit is tried on; exploits against the sandbox are tried on
one."""
_FIELDS = ("query_field", "gold_fields", "id_field", "db_field", "preprocess")
_DATA = frozenset(
    {*_FIELDS, "data", "limit", "split", "databases", "dump", "tree", "setup", "robust"}
)
"""Options about data, which are dropped when the suite's own data are used."""
_LIMITS = {"limits": replace(LIMITS, seconds=3.0), "seconds": 3.0}
_CANDIDATES = 12
_MIN_LENGTH = 8
"""A search for a shorter text could match by chance."""


@dataclass(frozen=True)
class ExploitResult:
    """The result of an exploit. `honest`: the next honest step worked. `why`: what happened, or why
    the exploit was not tried.

    `moot`: the exploit was not tried, since it would prove nothing in this environment.
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
    """A sound task, and the values for the placeholders between @ in exploits."""

    task: Task
    values: dict[str, str]

    def fill(self, text: str) -> str:
        """Return the text with each known placeholder replaced by its value."""
        return with_words(text, self.values)


def attack(
    env: str,
    *,
    workers: int = 1,
    values: bool = False,
    tick: Callable[[], None] = lambda: None,
    **options: Any,
) -> list[ExploitResult]:
    """Try every exploit for the language of `env`, prepared with `options`; return verdicts in the
    order of `list_exploits`. `values` has the value asked for after each action.

    Each worker has its own environments. Raises `UsageError` if there is no sound task, or if the
    language's `shell` does not execute Bash.
    """
    owner = environment_class(env)
    accepted = {option.name for option in fields(owner.Options)}
    limits = {name: value for name, value in _LIMITS.items() if name in accepted}
    factory = prepare(env, max_turns=None, **limits, **options)
    with closing(factory()) as first:
        targets = find_targets(first)
        if owner.language.shell:
            _prove_shell(first, targets[0].task)
    engine = options.get("engine") or factory.facts().get("userland", {}).get("engine", "")
    exploits = [*list_exploits(owner.language, engine), *_hacks(owner, targets)]
    # for exploits on the suite's own data, the factory, or why there is none
    makers: dict[bool, EnvFactory | str] = {False: factory}
    # each worker's environments, made on first use
    idle: SimpleQueue[dict[bool, InterCodeEnv]] = SimpleQueue()

    def run(exploit: Exploit) -> ExploitResult:
        envs = idle.get()
        try:
            return _try_exploit(replace(exploit, values=values), makers, envs, targets)
        finally:
            idle.put(envs)
            tick()

    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        if (write := attacks_of(owner.language).write_data) is not None:
            write(data)
            suite_options = {name: value for name, value in options.items() if name not in _DATA}
            if engine:
                suite_options["engine"] = str(engine)
            try:
                makers[True] = prepare(
                    env, max_turns=None, data=str(data), **limits, **suite_options
                )
            except IntercodeError as error:
                makers[True] = str(error)
        for _ in range(workers):
            idle.put({})
        try:
            with ThreadPoolExecutor(workers) as pool:
                return list(pool.map(run, exploits))
        finally:
            for _ in range(workers):
                for env_of_worker in idle.get().values():
                    with suppress(IntercodeError):
                        env_of_worker.close()


def _hacks(owner: type[InterCodeEnv], targets: Sequence[Target]) -> Iterator[Exploit]:
    """Yield the hacks of the targets' tests."""
    hacks = defaultdict[str, dict[str, str]](dict)
    for target in targets:
        for in_process in (False, True):
            for name, action in owner.hacks(target.task, in_process=in_process).items():
                hacks[name][target.task.id] = action
    for name, actions in hacks.items():
        yield Exploit(name, "forge the tests' verdict", by_task=actions)


def _try_exploit(
    exploit: Exploit,
    makers: Mapping[bool, EnvFactory | str],
    envs: dict[bool, InterCodeEnv],
    targets: Sequence[Target],
) -> ExploitResult:
    """Try an exploit on each target, or on its own task, until it succeeds. Add an environment that
    is made to `envs`, and remove one that may be damaged."""
    on_suite = bool(exploit.task)
    maker = makers.get(on_suite, "")
    if isinstance(maker, str):
        return ExploitResult(exploit, tried=False, why=f"not on the suite's own data: {maker}")
    env = envs[on_suite] = envs.get(on_suite) or maker()
    if on_suite:
        targets = [Target(task, {}) for task in env.tasks if task.id == exploit.task]
    if exploit.by_task:
        targets = [target for target in targets if target.task.id in exploit.by_task]
    if exploit.honest_action:
        targets = targets[:1]
    result = ExploitResult(exploit, tried=False, why="there is no such task")
    for target in targets:
        with closing(maker()) if exploit.beside else nullcontext(env) as after:
            result = run_exploit(env, exploit, target, after)
        # the next exploit needs a sound environment
        if not (result.held and result.tried):
            with suppress(IntercodeError):
                envs.pop(on_suite).close()
            break
    return result


def _prove_shell(env: InterCodeEnv, task: Task) -> None:
    action = env.language.in_shell(HONEST)
    env.reset(options={"task": task.id})
    observation = env.step(action)[0]
    if "honest 42" not in observation:
        raise UsageError(
            f"{type(env).__name__}.language.shell does not execute Bash: "
            f"{HONEST!r} became {action!r:.300}, which printed {observation!r:.200}"
        )


def find_targets(env: InterCodeEnv) -> list[Target]:
    """Return the first tasks that the gold solves here and doing nothing does not. Raises
    `UsageError` if there are none."""
    golds = {}
    for task in env.tasks[:_CANDIDATES]:
        with suppress(DataError):
            episode = play(env, task, gold, None, BudgetTracker())
            if episode.success and not play(env, task, noop, None, BudgetTracker()).success:
                golds[task.id] = episode
    if not golds:
        raise UsageError(
            f"none of the first {min(_CANDIDATES, len(env.tasks))} tasks has a gold that succeeds "
            "within the attacks' limits, while doing nothing does not: see `intercode check`"
        )
    words = {}
    for id, episode in golds.items():
        words[id] = str(episode.turns[-1].action or "").strip().partition(" ")[2]
    targets = list[Target]()
    for task in env.tasks:
        if task.id not in golds or len(targets) == TASKS:
            continue
        word = words[task.id]
        lines = [*task.gold.strip().splitlines(), ""]
        query = max(re.split(r'["\\\n]|[^ -~]', task.query), key=len)
        searched = {
            "QUERY64": query,
            "GOLD64": lines[0] if len(lines[0]) >= _MIN_LENGTH else query,
            "WORD64": word or query,
        }
        values = {
            "GOLD": task.gold,
            "WORD": word or "f",
            "OTHER": next((other for other in words.values() if other != word), ""),
            "FORM": re.split(r"(?<=\{)|(?<=^.)$", word)[0],
        }
        for name, text in searched.items():
            values[name] = base64.b64encode(text.encode()).decode()
        targets.append(Target(task, values))
    return targets


def run_exploit(
    env: InterCodeEnv, exploit: Exploit, target: Target, after: InterCodeEnv | None = None
) -> ExploitResult:
    """Try an exploit on one task, then honest steps in `after`, by default the same environment.

    Errors in the environments become verdicts.
    """
    after = after or env
    try:
        if not exploit.on_host:
            return _play_exploit(env, exploit, target.task, target.fill, after)
        with host_targets(**identity().popen()) as host:
            result = _play_exploit(
                env, exploit, target.task, lambda text: host.fill(target.fill(text)), after
            )
            return replace(result, escaped=result.escaped or host.killed())
    except Exception as error:
        fault = fault_of(error)
        if isinstance(fault, SandboxError | InternalError):
            why = f"an error instead of a failure: {fault}"
            return ExploitResult(exploit, escaped=True, honest=False, why=why)
        return ExploitResult(exploit, tried=False, why=str(fault))


def _play_exploit(
    env: InterCodeEnv, exploit: Exploit, task: Task, fill: Callable[[str], str], after: InterCodeEnv
) -> ExploitResult:
    actions = exploit.actions
    if exploit.by_task:
        actions = (exploit.by_task[task.id],)
    paid, output, info = _play_actions(env, task, actions, exploit, fill)
    untried = ExploitResult(exploit, tried=False)
    moot = exploit.moot_actions
    if paid and moot and _play_actions(env, task, moot, exploit, fill)[0]:
        why = "the reward accepts even a change that is not hidden"
        return replace(untried, moot=True, why=why)
    _, is_unplayed, why = output.partition(NOT_PLAYED)
    if exploit.by_task and is_unplayed:
        return replace(untried, why=why.partition("\n")[0])
    if NO_PYTHON in output:
        return replace(untried, why="there is no /usr/bin/python3 inside, which it needs")
    escaped = "BREACH" in output
    honest = (
        not exploit.honest_action or "honest 42" in output or info.get("ended") == "agent_fault"
    )
    if exploit.after:
        after.reset(options={"task": task.id})
        effects, *_, info = after.step(fill(exploit.after))
        escaped |= "BREACH" in effects
    escaped |= exploit.succeeds and info.get("exit_code") == 0
    honest &= play(after, task, gold, None, BudgetTracker()).success
    breaches = [line for line in output.splitlines() if "BREACH" in line]
    return ExploitResult(exploit, paid, escaped, honest, why="".join(breaches[:1])[:200])


def _play_actions(
    env: InterCodeEnv,
    task: Task,
    actions: Sequence[str],
    exploit: Exploit,
    fill: Callable[[str], str],
) -> tuple[bool, str, dict[str, Any]]:
    """Play actions, up to three honest ones, and a submission.

    Return whether a step was rewarded, all observations, and the info of the last action or of the
    end.
    """
    env.reset(options={"task": task.id})
    paid = False
    output = ""
    last = dict[str, Any]()
    honest = [exploit.honest_action] * 3 if exploit.honest_action else []
    for action in (*actions, *honest, f"submit {exploit.word}".strip()):
        if action == exploit.honest_action and "honest 42" in output:
            continue
        observation, _, terminated, truncated, info = env.step(fill(action).replace("\0", ""))
        paid |= "score" in info and bool(info["score"].success)
        output += observation + "\n"
        last = info if action in actions or "ended" in info else last
        if terminated or truncated:
            break
        if exploit.values:
            env.value()
    return paid, output, last
