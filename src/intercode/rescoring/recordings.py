"""Past episodes in a form that can be acted again: the first system's logs, and our own run folders.

    {"0": {turn_history, summary, info, …}, …}        Try Again: scored after every turn     protocol `paper`
    {"0": {… actions "execute[…]", "submit"}}         ReAct: scored at the submission        protocol `submit`
    {"meta": …, "logs": {"0": …}}                     Plan & Solve: as Try Again, but a turn without code keeps the reward
    RUN/run.json, RUN/episodes.jsonl                  our own

Actions are given as the first system executed them: a ReAct action without its wrapper, and None where the reply held
no code, so that nothing was executed. Fences that it did not strip are left in. What the models thought is not kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from intercode.errors import DataError, UsageError
from intercode.types import Task, Turn, line_of

_EXECUTE = re.compile(r"execute\[(.*)\]", re.DOTALL)
_LABELS = {"hardness": "hardness", "data_set": "dataset"}
_NO_CODE = re.compile(r"^No \w+ code ")


@dataclass(frozen=True, slots=True)
class RecordedEpisode:
    """What was done on one task. All sequences have one entry per turn; a reward is the number that was written then.

    `turns_max` is how many actions were allowed (a ReAct run adds a submission of its own after the last);
    `labels` are the task's `hardness` and `data_set`, where a log has them.
    """

    task: str
    query: str
    actions: Sequence[str | None]
    observations: Sequence[str]
    rewards: Sequence[float]
    valid: Sequence[bool]
    max_reward: float
    turns_max: int
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recording:
    """The episodes of one file, and how they were scored and executed: the first system's way unless a run of ours says.

    `shortened`: the observations are what the agent saw, long ones with their middle cut. `standing`: a turn without an action
    left the reward as it was (Plan & Solve); elsewhere it earned 0. `engine`: the database server of a run of ours.
    `env` is None where nothing says it. Of a log also `agent`, and `turns_allowed`, the limit on actions, where it has one.
    """

    path: str
    protocol: str
    episodes: Sequence[RecordedEpisode]
    reward: str = "paper"
    session: str = "stateless"
    shortened: bool = False
    standing: bool = False
    engine: str | None = None
    env: str | None = None
    agent: str | None = None
    turns_allowed: int | None = None

    @property
    def turns_max(self) -> int:
        return max((episode.turns_max for episode in self.episodes), default=0)

    @property
    def success_rate(self) -> float:
        """The share of episodes whose best reward is exactly 1 (the paper's measure); 0 of none is 0."""
        return sum(episode.max_reward == 1 for episode in self.episodes) / max(1, len(self.episodes))

    @cached_property
    def _by_task(self) -> dict[str, RecordedEpisode]:
        return {episode.task: episode for episode in reversed(self.episodes)}

    @cached_property
    def _by_query(self) -> dict[str, RecordedEpisode]:
        return {episode.query: episode for episode in reversed(self.episodes)}

    def find(self, task: Task) -> RecordedEpisode:
        """The episode of `task`: by id if the query agrees, else by query. Raises `DataError` if there is none."""
        named = self._by_task.get(task.id)
        if named and (named.query in task.query or task.query in named.query):
            return named
        if task.query in self._by_query:
            return self._by_query[task.query]
        raise DataError(f"{self.path} has no episode of task {task.id}; give the task file that it was recorded with")

    def has(self, task: Task) -> bool:
        return task.id in self._by_task or task.query in self._by_query

    def actions_for(self, task: Task) -> Sequence[str | None]:
        return self.find(task).actions


def load_recording(path: str | Path) -> Recording:
    """Read one of the first system's log files, or a run folder of ours (its first epoch).

    Raises `UsageError` if there is no such file, `DataError` naming the episode if it is something else.
    """
    path = Path(path)
    if path.is_dir():
        return _own_run(path)
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"the recording {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}") from error
    logs = content.get("logs", content) if isinstance(content, dict) else None
    if not isinstance(logs, dict):
        raise DataError(f"{path} is not a recorded run: an object with one entry per task is expected")
    react = any(_is_react(entry) for entry in logs.values())
    episodes = [_guarded(path, f"{key!r:.50}", lambda e: _episode(e, react), entry) for key, entry in logs.items()]
    facts = _facts(list(logs.values()), react)
    reward = "overlap" if react and facts["env"] == "sql" else "paper"
    return Recording(str(path), "submit" if react else "paper", episodes, reward, standing="logs" in content, **facts)


def _facts(entries: Sequence[Mapping[str, Any]], react: bool) -> dict[str, Any]:
    """What the entries of one log, all of them sound, say of the run."""
    planned = any("steps" in entry["turn_history"] for entry in entries)
    envs = {str(entry.get("environment", "")).removeprefix("ic_") for entry in entries}
    return {
        "env": envs.pop() or None if len(envs) == 1 else None,
        "agent": "react" if react else "plan_solve" if planned else "try_again",
        "turns_allowed": max((int(entry["summary"].get("turns_max", 0)) for entry in entries), default=0) or None,
    }


def _guarded(path: Path, key: str, read: Any, entry: Any) -> Any:
    try:
        episode: RecordedEpisode | None = read(entry)
        done = [action for action in episode.actions if action is not None] if episode else []
        for text in (episode.task, episode.query, *episode.observations, *done) if episode else ():
            if not isinstance(text, str):
                raise TypeError(f"{text!r:.50} is no text")
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise DataError(f"{path}, episode {key} is not a recorded episode: {error!r}") from error
    return episode


def _is_react(entry: Any) -> bool:
    history = entry.get("turn_history") if isinstance(entry, dict) else None
    return isinstance(history, dict) and "thoughts" in history


def _episode(entry: Mapping[str, Any], react: bool) -> RecordedEpisode:
    history, summary = entry["turn_history"], entry["summary"]
    observations = [str(observation) for observation in history["observations"]]
    actions: list[str | None] = []
    for action, seen in zip(history["actions"], observations, strict=True):
        if react and action != "submit":  # what stood between the outermost brackets of `execute[…]` was executed
            wrapped = _EXECUTE.search(action)
            actions.append(wrapped[1] if wrapped else None)
        else:
            actions.append(action if react or not _NO_CODE.match(seen) else None)
    return RecordedEpisode(
        task=str(entry["task_id"]),
        query=entry["query"],
        actions=actions,
        observations=observations,
        rewards=[float(reward) for reward in history["rewards"][: len(actions)]],
        valid=[valid is not False for valid in history["valid_action"][: len(actions)]],
        max_reward=float(summary["max_reward"]),
        turns_max=int(summary.get("turns_max", len(actions))),
        labels={name: str(entry[key]) for name, key in _LABELS.items() if entry.get(key)},
    )


def _own_run(path: Path) -> Recording:
    try:
        config = _settings(json.loads((path / "run.json").read_bytes()))
        lines = (path / "episodes.jsonl").read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise UsageError(f"{path} holds no run: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path / 'run.json'} is not a run's: {error}") from error
    read = [_guarded(path, f"on line {number}", _own_episode, line) for number, line in enumerate(lines, 1)]
    last = {episode.task: episode for episode in read if episode is not None}
    how = {key: config[key] for key in ("env", "reward", "session", "engine") if config.get(key)}
    if isinstance(server := config.get("server"), dict):  # chosen by default
        how.setdefault("engine", server.get("engine"))
    return Recording(str(path), config["protocol"], list(last.values()), shortened=True, **how)


def _settings(content: Any) -> dict[str, Any]:
    texts = ("protocol", "env", "reward", "session", "engine")
    if not isinstance(content, dict) or not all(isinstance(content.get(key) or "", str) for key in texts):
        raise ValueError("no settings")
    if content.setdefault("protocol", "submit") not in ("submit", "paper"):
        raise ValueError(f"the protocol {content['protocol']!r} is unknown")
    return content


def _own_episode(line: bytes) -> RecordedEpisode | None:
    """An episode of ours; None for one without a reward, and for all epochs but the first."""
    record = json.loads(line)
    if record["reward"] is None or record["epoch"] != 0:
        return None
    every = record["turns"]
    moves = [Turn(action=turn["action"], observation=turn["observation"], after=turn.get("after")) for turn in every]
    if any(move.after is not None and move.after >= place for place, move in enumerate(moves)):
        raise ValueError("a turn cannot come after one that comes later")
    turns = [every[place] for place in line_of(moves)]
    return RecordedEpisode(
        task=record["task"],
        query=record["query"],
        actions=[turn["action"] for turn in turns],
        observations=[turn["observation"] for turn in turns],
        rewards=[float(turn["score"] or 0) for turn in turns],
        valid=[turn["action"] is not None and turn["exit_code"] in (0, None) for turn in turns],
        max_reward=float(record["reward"]),
        turns_max=len(turns),
    )
