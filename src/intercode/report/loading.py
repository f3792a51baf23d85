"""Runs to report on: our own folders, and the first system's logs in the same form.

A log says less than a run: no thoughts, no tokens, no times, and of errors only that there was one. Its episodes get the
exit status 1 there, and in Python, where validity was not recorded, where the observation is an error's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intercode.errors import StoreError
from intercode.report.turns import is_submission
from intercode.rescoring.recordings import RecordedEpisode, Recording, load_recording
from intercode.store import read_run
from intercode.types import Ended, Episode, Turn

if TYPE_CHECKING:
    from intercode.rescoring.judge import Verdict

_PYTHON_ERROR = re.compile(r"Error executing action|\{'error': 'Error: ")
_TIMED_OUT = "Command timed out"


def runs_in(path: str | Path) -> list[Path]:
    """`path` itself; of a folder that is no run but holds some, the folders of these."""
    path = Path(path)
    found = [] if (path / "run.json").exists() else sorted(file.parent for file in path.glob("*/run.json"))
    return found or [path]


def load(path: str | Path) -> tuple[dict[str, Any], list[Episode]]:
    """The settings and episodes of a run folder, or of one of the first system's log files; the former with its `verdicts`.

    Raises as `read_run` and `load_recording` do, and `StoreError` for settings that do not name what was played.
    """
    path = Path(path)
    if not path.is_file():
        config, episodes = read_run(path)
        if lacking := [name for name in ("env", "agent", "reward") if not isinstance(config.get(name), str)]:
            raise StoreError(f"{path / 'run.json'} is damaged: {', '.join(lacking)} must be there, as text")
        return {**config, "verdicts": _verdicts(path)}, episodes
    recording = load_recording(path)
    return _config(path, recording), [_episode(recording, recorded) for recorded in recording.episodes]


def _verdicts(path: Path) -> Sequence[Verdict]:
    """Few runs are judged; only then is it worth what the judge imports."""
    if not (path / "judged").exists():
        return ()
    from intercode.rescoring.judge import kept_verdicts

    return kept_verdicts(path)


def _config(path: Path, recording: Recording) -> dict[str, Any]:
    labels = {
        name: {e.task: e.labels[name] for e in recording.episodes if name in e.labels} for name in ("hardness", "data_set")
    }
    return {
        "run": str(path),
        "env": recording.env,
        "agent": recording.agent,
        "reward": recording.reward,
        "protocol": recording.protocol,
        "turns": recording.turns_allowed,
        **{name: found for name, found in labels.items() if found},
    }


def _episode(recording: Recording, recorded: RecordedEpisode) -> Episode:
    turns = tuple(
        Turn(
            action=action,
            observation=observation,
            exit_code=None if action in (None, "submit") else int(not valid or bool(_PYTHON_ERROR.match(observation))),
            timed_out=observation == _TIMED_OUT,
            score=reward if recording.protocol == "paper" or action == "submit" else None,
        )
        for action, observation, reward, valid in zip(
            recorded.actions, recorded.observations, recorded.rewards, recorded.valid, strict=True
        )
    )
    success = recorded.max_reward == 1
    ended: Ended = "solved" if success else "turns"
    if turns and is_submission(turns[-1]):
        ended = "submit"
    return Episode(recorded.task, recorded.query, turns, recorded.max_reward, success, ended)
