"""Read logs of InterCode v1 as settings and episodes, in the form that `store.read_run` returns.

    {"0": {turn_history, summary, info, …}, …}    Try Again: scored after every turn (protocol
                                                  `paper`)
    {"0": {… actions "execute[…]", "submit"}}     ReAct: scored at the submission (protocol
                                                  `submit`)
    {"meta": …, "logs": {"0": …}}                 Plan & Solve: like Try Again, but a turn without
                                                  code keeps the reward

Actions are returned as InterCode v1 executed them: a ReAct action without its wrapper, and None if
the reply contained no code. Fences that InterCode v1 did not strip are kept. A log records no
tokens and no times, and for an error only that there was one: such a turn gets the exit status 1.
Python logs, and logs without `valid_action`, do not record even that, so the observation decides.
Left out: the model's thoughts; a last action without an observation, which InterCode v1 blocked; an
episode without `turn_history`, or with one that is malformed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from intercode.errors import DataError
from intercode.interop.atif import Object, Recording
from intercode.reading import read_json
from intercode.types import Ended, Episode, Turn

_EXECUTE = re.compile(r"execute\[(.*)\]", re.DOTALL)
_NO_CODE = re.compile(r"^No \w+ code ")
_ERROR = re.compile(r"Error executing (?:action|query)|\{'error': 'Error: ")
_MALFORMED = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
_LABELS = {"hardness": "hardness", "data_set": "dataset"}


def read_log(path: Path) -> Recording:
    """Return the settings and the episodes of a log. `keeps_reward` in the settings: a turn without
    code keeps the reward. `left_out`: what the episodes lack of the log, by its keys. Raises
    `UsageError` if the file cannot be read, and `DataError` if it is not a log."""
    content = read_json(path)
    logs = isinstance(content, dict) and content.get("logs", content)
    if not isinstance(logs, dict):
        raise DataError(
            f"{path} is not a recorded run: an object with one entry per task is expected"
        )
    react = has_history = False
    for entry in logs.values():
        if isinstance(entry, dict):
            history = entry.get("turn_history")
            react |= isinstance(history, dict) and "thoughts" in history
            has_history |= "turn_history" in entry
    left_out = {}
    malformed = ""
    most_turns = 0
    episodes = []
    sound = []
    labels = defaultdict[str, dict[str, str]](dict)
    for key, entry in logs.items():
        if isinstance(entry, dict) and "query" in entry and not entry.get("turn_history"):
            left_out[key] = "all, since it has no turn_history"
            continue
        try:
            episode = _episode(entry, react)
            most_turns = max(most_turns, int(entry["summary"].get("turns_max", 0)))
            actions = entry["turn_history"]["actions"]
            if len(actions) > len(episode.turns):
                left_out[key] = f"the last action, which was blocked: {actions[-1]!r:.100}"
        except _MALFORMED as error:
            lack = ""
            if isinstance(error, KeyError):
                lack = "it lacks "
            why = f"it is not a recorded episode: {lack}{error}"
            left_out[key] = f"all, since {why}"
            malformed = malformed or f"{path}, episode {key!r:.50}: {why}"
            continue
        episodes.append(episode)
        sound.append(entry)
        for name, field in _LABELS.items():
            if entry.get(field):
                labels[name][episode.task] = str(entry[field])
    if not episodes:
        if malformed and has_history:
            raise DataError(malformed)
        raise DataError(
            f"{path} has no episode: expected an object of episodes with `turn_history` by task, "
            "or of logs with `environment` and `trajectory`"
        )
    labels["left_out"] = left_out
    settings = {"run": str(path), **_setting_of(sound, react)}
    settings |= {"turns": most_turns or None, "keeps_reward": "logs" in content}
    for name, values in labels.items():
        if values:
            settings[name] = values
    return settings, episodes


def _setting_of(entries: Sequence[Object], react: bool) -> Object:
    """Return the environment, the agent, the reward and the protocol of a log's entries."""
    envs = {str(entry.get("environment", "")).removeprefix("ic_") for entry in entries}
    env = None
    if len(envs) == 1:
        env = envs.pop() or None
    if react:
        reward = "paper"
        if env == "sql":
            reward = "overlap"
        return {"env": env, "agent": "react", "reward": reward, "protocol": "submit"}
    planned = any("steps" in entry["turn_history"] for entry in entries)
    agent = "try_again"
    if planned:
        agent = "plan_solve"
    return {"env": env, "agent": agent, "reward": "paper", "protocol": "paper"}


def is_error(observation: str) -> bool:
    """Return whether an observation begins as those of actions that failed."""
    return bool(_ERROR.match(observation))


def _episode(entry: Object, react: bool) -> Episode:
    history, query = entry["turn_history"], entry["query"]
    best, observations = float(entry["summary"]["max_reward"]), history["observations"]
    count = len(observations)
    if len(history["actions"]) > count + 1:
        raise ValueError(f"{len(history['actions'])} actions and {count} observations")
    actions, rewards = history["actions"][:count], history["rewards"][:count]
    valid = history.get("valid_action", [None] * count)[:count]
    turns = []
    for action, observation, reward, is_valid in zip(
        actions, map(str, observations), rewards, valid, strict=True
    ):
        score: float | None = float(reward)
        # v1 executed the text between the outermost brackets of `execute[…]`
        if react and action != "submit":
            wrapped = _EXECUTE.search(action)
            action = wrapped and wrapped[1]
        elif not react and _NO_CODE.match(observation):
            action = None
        if not isinstance(action, str | None):
            raise TypeError(f"{action!r:.50} is not text")
        if react and action != "submit":
            score = score or None
        exit_code = None
        if action not in (None, "submit"):
            exit_code = int(is_valid is False or is_error(observation))
        turn = Turn(
            action=action,
            observation=observation,
            exit_code=exit_code,
            timed_out=observation == "Command timed out",
            score=score,
        )
        turns.append(turn)
    if not isinstance(query, str):
        raise TypeError(f"{query!r:.50} is not text")
    ended: Ended = "turns"
    if best == 1:
        ended = "solved"
    if turns and not turns[-1].exit_code and (turns[-1].action or "").split()[:1] == ["submit"]:
        ended = "submit"
    return Episode(str(entry["task_id"]), query, tuple(turns), best, best == 1, ended)
