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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intercode.errors import DataError
from intercode.reading import read_json
from intercode.types import Ended, Episode, Turn

_EXECUTE = re.compile(r"execute\[(.*)\]", re.DOTALL)
_NO_CODE = re.compile(r"^No \w+ code ")
_ERROR = re.compile(r"Error executing (?:action|query)|\{'error': 'Error: ")
_LABELS = {"hardness": "hardness", "data_set": "dataset"}


def read_log(path: Path) -> tuple[dict[str, Any], list[Episode]]:
    """Return the settings and the episodes of a log. `keeps_reward` in the settings: a turn without
    code keeps the reward. `left_out`: what the episodes lack of the log, by its keys.

    Raises `UsageError` if the file cannot be read, and `DataError` if it is not a log.
    """
    content = read_json(path)
    logs = content.get("logs", content) if isinstance(content, dict) else None
    if not isinstance(logs, dict):
        raise DataError(
            f"{path} is not a recorded run: an object with one entry per task is expected"
        )
    entries = [entry for entry in logs.values() if isinstance(entry, dict)]
    left_out = {
        key: "all, since it has no turn_history"
        for key, entry in logs.items()
        if isinstance(entry, dict) and "query" in entry and not entry.get("turn_history")
    }
    logs = {key: entry for key, entry in logs.items() if key not in left_out}
    histories = [entry.get("turn_history") for entry in entries]
    react = any(isinstance(history, dict) and "thoughts" in history for history in histories)
    episodes, labels, limits = [], {name: dict[str, str]() for name in _LABELS}, [0]
    malformed = dict[str, str]()
    for key, entry in logs.items():
        try:
            episode = _episode(entry, react)
            limits.append(int(entry["summary"].get("turns_max", 0)))
            actions = entry["turn_history"]["actions"]
            if len(actions) > len(episode.turns):
                left_out[key] = f"the last action, which was blocked: {actions[-1]!r:.100}"
        except (
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            why = f"it lacks {error}" if isinstance(error, KeyError) else error
            malformed[key] = f"it is not a recorded episode: {why}"
            continue
        episodes.append(episode)
        for name, field in _LABELS.items():
            if entry.get(field):
                labels[name][episode.task] = str(entry[field])
    if malformed and not episodes and any("turn_history" in entry for entry in entries):
        key, why = next(iter(malformed.items()))
        raise DataError(f"{path}, episode {key!r:.50}: {why}")
    if not episodes:
        raise DataError(
            f"{path} has no episode: expected an object of episodes with `turn_history` by task, "
            "or of logs with `environment` and `trajectory`"
        )
    logs = {key: entry for key, entry in logs.items() if key not in malformed}
    left_out |= {key: f"all, since {why}" for key, why in malformed.items()}
    envs = {str(entry.get("environment", "")).removeprefix("ic_") for entry in logs.values()}
    env = envs.pop() or None if len(envs) == 1 else None
    planned = any("steps" in entry["turn_history"] for entry in logs.values())
    return {
        "run": str(path),
        "env": env,
        "agent": "react" if react else "plan_solve" if planned else "try_again",
        "reward": "overlap" if react and env == "sql" else "paper",
        "protocol": "submit" if react else "paper",
        "turns": max(limits) or None,
        "keeps_reward": "logs" in content,
        **{name: values for name, values in labels.items() if values},
        **({"left_out": left_out} if left_out else {}),
    }, episodes


def is_error(observation: str) -> bool:
    """Return whether an observation begins as those of actions that failed."""
    return bool(_ERROR.match(observation))


def _episode(entry: Mapping[str, Any], react: bool) -> Episode:
    history, query = entry["turn_history"], entry["query"]
    best, count = float(entry["summary"]["max_reward"]), len(history["observations"])
    if len(history["actions"]) > count + 1:
        raise ValueError(f"{len(history['actions'])} actions and {count} observations")
    actions, rewards = history["actions"][:count], history["rewards"][:count]
    valid = history["valid_action"][:count] if "valid_action" in history else [None] * count
    turns = []
    for action, seen, reward, fine in zip(
        actions, history["observations"], rewards, valid, strict=True
    ):
        observation, score = str(seen), float(reward)
        # v1 executed the text between the outermost brackets of `execute[…]`
        if react and action != "submit":
            wrapped = _EXECUTE.search(action)
            action = wrapped[1] if wrapped else None
        elif not react and _NO_CODE.match(observation):
            action = None
        if not isinstance(action, str | None):
            raise TypeError(f"{action!r:.50} is not text")
        failed = fine is False or is_error(observation)
        turn = Turn(
            action=action,
            observation=observation,
            exit_code=None if action in (None, "submit") else int(failed),
            timed_out=observation == "Command timed out",
            score=score if score or not react or action == "submit" else None,
        )
        turns.append(turn)
    if not isinstance(query, str):
        raise TypeError(f"{query!r:.50} is not text")
    submitted = (
        bool(turns)
        and (turns[-1].action or "").split()[:1] == ["submit"]
        and not turns[-1].exit_code
    )
    ended: Ended = "submit" if submitted else "solved" if best == 1 else "turns"
    return Episode(str(entry["task_id"]), query, tuple(turns), best, best == 1, ended)
