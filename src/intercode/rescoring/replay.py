"""A recording, executed again and compared turn by turn.

The environment goes on after a success, so that every recorded turn is executed. Rewards agree if they differ by at most
`TOLERANCE` (recorded ones are sums of parts rounded to two digits). Why a turn disagrees is not judged here: `cause` is
None unless the caller names one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from intercode.agents import replay as replaying
from intercode.env import EnvFactory, InterCodeEnv, View
from intercode.envs import environment_class, load, prepare
from intercode.errors import SandboxError, UsageError
from intercode.rescoring.recordings import RecordedEpisode, Recording, load_recording
from intercode.rescoring.rescore import options_of, submitting
from intercode.runner.run import evaluate
from intercode.store import read_run
from intercode.types import Episode, Task, Turn

TOLERANCE = 0.011
Cause = Callable[[Task, RecordedEpisode, int, Turn], str | None]


def replay(
    recording: Recording,
    make_env: Callable[[], InterCodeEnv],
    tasks: Sequence[Task],
    *,
    workers: int = 1,
    cause: Cause | None = None,
    on_episode: Callable[[Episode], None] | None = None,
) -> dict[str, Any]:
    """The fixed keys of `replay --json`.

    Raises `DataError` for a task that the recording has no episode of, `SandboxError` if one could not be re-executed.
    """
    pairs = [(task, recording.find(task)) for task in tasks]
    episodes = evaluate(make_env, replaying(recording), tasks=tasks, workers=workers, on_episode=on_episode)
    if broken := [episode for episode in episodes if episode.error]:
        raise SandboxError(f"{len(broken)} episodes could not be re-executed; task {broken[0].task}: {broken[0].error}")
    played = zip(pairs, episodes, strict=True)
    turns: list[_Row] = []
    for (task, then), now in played:
        done = list(now.turns[: len(then.rewards)])
        if recording.standing:
            done = list(itertools.accumulate(done, lambda last, turn: turn if turn.action else replace(turn, score=last.score)))
        turns += [(task, then, number, turn) for number, turn in enumerate(done)]
    agree = sum(_agrees(then.rewards[number], turn.score) for _, then, number, turn in turns)
    differing = [row for row in turns if not _agrees(row[1].rewards[row[2]], row[3].score)]
    return {
        "turns": len(turns),
        "agree": agree,
        "agreement": agree / max(1, len(turns)),
        "observations_equal": sum(then.observations[n] == turn.observation for _, then, n, turn in turns),
        "recorded_success_rate": sum(then.max_reward == 1 for _, then in pairs) / max(1, len(pairs)),
        "replayed_success_rate": sum(episode.success for episode in episodes) / max(1, len(episodes)),
        "disagreements": [
            {
                "task": task.id,
                "turn": number,
                "recorded": then.rewards[number],
                "replayed": turn.score or 0.0,
                "action": turn.action,
                "cause": cause(task, then, number, turn) if cause else None,
            }
            for task, then, number, turn in differing
        ],
    }


def prepare_replay(
    log: str, env: str | None, *, reward: str | None, **options: Any
) -> tuple[Recording, EnvFactory, Sequence[Task]]:
    """The recording, a setting as it was recorded, and the tasks that it has episodes of, at least one.

    Without `env` it is the recording's; a run of ours has its other options as well, where none is given.
    """
    recording = load_recording(log)
    if (env := env or recording.env) is None:
        raise UsageError(f"{log} does not say its environment; name it with --env")
    then = options_of({**read_run(log)[0], "env": env}, options) if Path(log).is_dir() else {}
    how = {**then, **{name: value for name, value in options.items() if value or name not in then}}
    how["protocol"] = recording.protocol
    how |= {key: options.get(key) or getattr(recording, key) for key in ("session", "engine")}
    view = View() if recording.shortened else View(head=None)
    if reward is None and ":" in recording.reward:
        reward = load(recording.reward, "reward")
    factory = prepare(env, reward=reward or recording.reward, max_turns=None, keep_going=True, view=view, **how)
    factory = submitting(environment_class(env).submission_under(recording.reward), factory)
    tasks = [task for task in factory.tasks if recording.has(task)]
    if not tasks:
        raise UsageError(f"{log} has no episode of any of these tasks; give the data that it was recorded with (--data)")
    return recording, factory, tasks


_Row = tuple[Task, RecordedEpisode, int, Turn]


def _agrees(recorded: float, score: float | None) -> bool:
    return abs(recorded - (score or 0.0)) <= TOLERANCE
