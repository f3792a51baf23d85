"""Execute a recording again and compare it turn by turn.

The environment continues after a success, so that every recorded turn is executed. Two rewards
agree if they differ by at most `TOLERANCE`, since recorded ones are sums of parts rounded to two
digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from intercode.agents import replay as replay_agent
from intercode.env import EnvFactory, InterCodeEnv
from intercode.envs import environment_class, prepare
from intercode.errors import SandboxError, UsageError
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
    order = {task.id: place for place, task in enumerate(tasks)}
    counts: Counter[str] = Counter()
    failed: list[Episode] = []
    disagreements: list[dict[str, Any]] = []

    def compare(now: Episode) -> None:
        if on_episode:
            on_episode(now)
        if now.error:
            failed.append(now)
            return
        then, again = recording.find(by_id[now.task]), list(now.turns)
        counts["scored"] += then.reward is not None
        counts["solved_then"] += then.success
        counts["solved_now"] += now.success
        # a turn without code keeps the score of the turn before
        if recording.settings.get("keeps_reward"):
            for place in range(1, len(again)):
                if not again[place].action:
                    again[place] = replace(again[place], score=again[place - 1].score)
        for number, (old, new) in enumerate(zip(then.line, again, strict=False)):
            counts["turns"] += 1
            # the observation of a turn without code is a note of the agent or the driver
            noted = old.action is None
            counts["observations_equal"] += noted or old.observation == new.observation
            if then.reward is None:
                continue
            counts["compared"] += 1
            before, after = old.score or 0.0, new.score or 0.0
            if abs(before - after) <= TOLERANCE:
                counts["agree"] += 1
            else:
                row = {
                    "task": now.task,
                    "turn": number,
                    "recorded": before,
                    "replayed": after,
                    "action": new.action,
                }
                # a key of the first release, always null
                disagreements.append({**row, "cause": None})

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
    return {
        "turns": counts["turns"],
        "agree": counts["agree"],
        "agreement": counts["agree"] / max(1, counts["compared"]) if counts["scored"] else None,
        "observations_equal": counts["observations_equal"],
        "recorded_success_rate": (
            counts["solved_then"] / counts["scored"] if counts["scored"] else None
        ),
        "replayed_success_rate": counts["solved_now"] / max(1, len(tasks)),
        "disagreements": sorted(disagreements, key=lambda row: (order[row["task"]], row["turn"])),
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
    given = {**options, "env": env, "reward": reward}
    if (env := env or recording.settings.get("env")) is None:
        raise UsageError(f"{log} does not say its environment; name it with --env")
    is_log = "keeps_reward" in recording.settings
    then = {} if is_log else options_of({**recording.settings, "env": env}, options)
    how = {**then, **options, "protocol": recording.protocol}
    if engine := how.get("engine") or recording.settings.get("engine"):
        how["engine"] = engine
    how["session"] = options.get("session") or recording.settings.get(
        "session", "stateless" if is_log else None
    )
    recorded = recording.settings.get("reward", "paper" if is_log else None)
    require_trust(
        recording.settings, taken_from({**how, "env": env, "reward": recorded}, given), trust=trust
    )
    require_data(recording.settings, how)
    view = View() if recording.shortened else View(head=None)
    if reward is None and recorded:
        reward = load_plugin(recorded, "reward") if ":" in recorded else recorded
    factory = prepare(env, reward=reward, max_turns=None, keep_going=True, view=view, **how)
    if "data_digest" in recording.settings:
        digest = factory.facts().get("data_digest")
        require_same(recording.settings, {"data_digest": digest}, force=False)
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
