"""Recorded runs of any content: a recording whose every field can be relied on, or an error that blames the data."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fuzzing import Attempt, Target
from hypothesis import strategies as st
from shapes import DATA, damaged, records

from intercode.errors import DataError, UsageError
from intercode.recordings import load_recording
from intercode.types import Task

_WORD = st.text(max_size=8)
_ACTION = st.sampled_from(["ls", "submit", "execute[ls]", "skip", ""])
_HISTORY = records(
    "steps", "thoughts", actions=st.lists(_ACTION, max_size=3), observations=st.lists(_WORD, max_size=3),
    rewards=st.lists(st.floats(0, 1), max_size=3), valid_action=st.lists(st.booleans(), max_size=3),
)  # fmt: skip
_ENTRY = records(
    "hardness", "data_set", "info", environment=st.sampled_from(["ic_bash", "ic_sql"]), task_id=st.integers(0, 3), query=_WORD,
    turn_history=_HISTORY, summary=records(max_reward=st.floats(0, 1), turns_max=st.integers(0, 10)),
)  # fmt: skip
_LOGS = st.dictionaries(st.sampled_from("0123"), st.one_of(_ENTRY, _ENTRY, DATA), max_size=3)
_LOG = st.one_of(_LOGS, _LOGS, records("meta", logs=_LOGS), DATA)
_TURN = records(
    "thought", "ask", action=_ACTION, observation=_WORD, score=st.floats(0, 1), exit_code=st.integers(0, 2),
    after=st.integers(-2, 3),
)  # fmt: skip
_EPISODE = records(task=_WORD, query=_WORD, epoch=st.just(0), reward=st.floats(0, 1), turns=st.lists(_TURN, max_size=3))
_CONFIG = records("server", "session", "reward", "engine", protocol=st.sampled_from(["submit", "paper"]))


def _use(path: Path) -> None:
    try:
        recording = load_recording(path)
    except (DataError, UsageError) as error:
        str(error).encode()
        return
    assert isinstance(recording.turns_max, int)
    assert 0 <= recording.success_rate <= 1
    assert recording.protocol in ("submit", "paper")
    for episode in recording.episodes:
        assert isinstance(episode.task, str)
        assert isinstance(episode.query, str)
        assert all(action is None or isinstance(action, str) for action in episode.actions)
        assert all(isinstance(observation, str) for observation in episode.observations)
        assert all(isinstance(reward, float) for reward in (*episode.rewards, episode.max_reward))
        assert recording.has(Task(episode.task, episode.query, "ls"))
        assert recording.actions_for(Task(episode.task, episode.query, "ls")) is not None


@contextmanager
def _importer() -> Iterator[Attempt]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.json"

        def attempt(content: bytes) -> None:
            path.write_bytes(content)
            _use(path)

        yield attempt


@contextmanager
def _reader() -> Iterator[Attempt]:
    with tempfile.TemporaryDirectory() as folder:

        def attempt(given: tuple[bytes, bytes]) -> None:
            for name, content in zip(("run.json", "episodes.jsonl"), given, strict=True):
                (Path(folder) / name).write_bytes(content)
            _use(Path(folder))

        yield attempt


def _json(data: Any) -> bytes:
    return json.dumps(data).encode()


def _lines(episodes: list[Any]) -> bytes:
    return b"".join(_json(episode) + b"\n" for episode in episodes)


_RUNS = st.tuples(damaged(_CONFIG.map(_json)), damaged(st.lists(st.one_of(_EPISODE, _EPISODE, DATA), max_size=3).map(_lines)))
TARGETS = [
    Target("the importer of logs", damaged(_LOG.map(_json)), _importer, quick=200),
    Target("the reader of run folders", _RUNS, _reader, quick=200),
]
