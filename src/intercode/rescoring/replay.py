"""Execute a recording again and compare it turn by turn.

The environment continues after a success, so that every recorded turn is executed. Two rewards
agree if they differ by at most `TOLERANCE`, since recorded ones are sums of parts rounded to two
digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from intercode.agents import replay as replay_agent
from intercode.env import InterCodeEnv
from intercode.envs import environment_class, prepare
from intercode.errors import SandboxError, UsageError
from intercode.factory import EnvFactory
from intercode.plugins import load_plugin
from intercode.rescoring.recordings import Recording, load_recording
from intercode.rescoring.rescore import (
    options_of,
    require_data,
    require_same,
    taken_from,
    with_submission,
)
from intercode.runner.run import evaluate
from intercode.runs.trust import require_trust
from intercode.types import Episode, Task, View

TOLERANCE = 0.011


def replay(
    recording: Recording,
    make_env: Callable[[], InterCodeEnv],
    tasks: Sequence[Task],
    *,
    workers: int = 1,
    on_episode: Callable[[Episode], None] | None = None,
) -> dict[str, Any]:
    """Return the keys of `replay --json`. Rewards are compared where the recording has any: without
    them, `agreement` and `recorded_success_rate` are None.

    Raises `DataError` for a task without a recorded episode, `SandboxError` if an episode could not
    be executed.
    """
    by_id = {task.id: task for task in tasks}
    counts: Counter[str] = Counter()
    failed: list[Episode] = []
    by_task: dict[str, list[dict[str, Any]]] = {task.id: [] for task in tasks}

    def compare(now: Episode) -> None:
        if on_episode:
            on_episode(now)
        if now.error:
            failed.append(now)
            return
        then = recording.find(by_id[now.task])
        counts["scored"] += then.reward is not None
        counts["solved_then"] += then.success
        counts["solved_now"] += now.success
        keeps_reward = bool(recording.settings.get("keeps_reward"))
        by_task[now.task] = list(_disagreements(then, now, keeps_reward, counts))

    evaluate(
        make_env,
        replay_agent(recording),
        tasks=tasks,
        workers=workers,
        on_episode=compare,
        collect=False,
    )
    if failed:
        raise SandboxError(
            f"{len(failed)} episodes could not be re-executed; task {failed[0].task}: "
            f"{failed[0].error}"
        )
    agreement = recorded = None
    if counts["scored"]:
        agreement = counts["agree"] / max(1, counts["compared"])
        recorded = counts["solved_then"] / counts["scored"]
    return {
        "turns": counts["turns"],
        "agree": counts["agree"],
        "agreement": agreement,
        "observations_equal": counts["observations_equal"],
        "recorded_success_rate": recorded,
        "replayed_success_rate": counts["solved_now"] / max(1, len(tasks)),
        "disagreements": list(chain.from_iterable(by_task.values())),
    }


def _disagreements(
    then: Episode, now: Episode, keeps_reward: bool, counts: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each turn with another score, and count those that agree. `keeps_reward`: a
    turn without code keeps the score of the turn before."""
    score = None
    for number, (old, new) in enumerate(zip(then.line, now.turns, strict=False)):
        if new.action or number == 0 or not keeps_reward:
            score = new.score
        counts["turns"] += 1
        # the observation of a turn without code is a note of the agent or the driver
        is_note = old.action is None
        counts["observations_equal"] += is_note or old.observation == new.observation
        if then.reward is None:
            continue
        counts["compared"] += 1
        before, after = old.score or 0.0, score or 0.0
        if abs(before - after) <= TOLERANCE:
            counts["agree"] += 1
            continue
        yield {
            "task": now.task,
            "turn": number,
            "recorded": before,
            "replayed": after,
            "action": new.action,
            "cause": None,  # a key of the first release, always null
        }


def prepare_replay(
    log: str, env: str | None, *, reward: Any = None, trust: bool = False, **options: Any
) -> tuple[Recording, EnvFactory, Sequence[Task]]:
    """Return the recording, a factory with its settings, and the tasks with recorded episodes, at
    least one.

    Without `env` the recording's is used. Options that are not given come from the recording; for a
    log of InterCode v1, that system's reward and session are used. `trust` allows what the
    recording names, if it is not signed. Raises `UsageError` if the data are not those of a run
    folder.
    """
    recording = load_recording(log)
    then, given = recording.settings, {**options, "env": env, "reward": reward}
    if (env := env or then.get("env")) is None:
        raise UsageError(f"{log} does not say its environment; name it with --env")
    if "keeps_reward" in then:  # a log of InterCode v1
        then = {"session": "stateless", "reward": "paper", **then}
        how = options
    else:
        how = {**options_of({**then, "env": env}, options), **options}
    how["protocol"] = recording.protocol
    if engine := how.get("engine") or then.get("engine"):
        how["engine"] = engine
    how["session"] = options.get("session") or then.get("session")
    recorded = then.get("reward")
    taken = taken_from({**how, "env": env, "reward": recorded}, given)
    require_trust(then, taken, trust=trust)
    require_data(then, how)
    view = View() if recording.shortened else View(head=None)
    if reward is None:
        reward = recorded
        if recorded and ":" in recorded:
            reward = load_plugin(recorded, "reward")
    factory = prepare(env, reward=reward, max_turns=None, keep_going=True, view=view, **how)
    if "data_digest" in then:
        require_same(then, {"data_digest": factory.facts().get("data_digest")}, force=False)
    factory = with_submission(environment_class(env).submission_under(recorded), factory)
    tasks = [task for task in factory.tasks if recording.has(task)]
    if not recording.episodes:
        raise UsageError(f"{log} has no episode with a reward, so there is nothing to compare")
    if not tasks:
        raise UsageError(
            f"{log} has no episode of any of these tasks; "
            "give the data that it was recorded with (--data)"
        )
    return recording, factory, tasks
