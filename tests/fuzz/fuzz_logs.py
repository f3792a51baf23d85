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
from shapes import DATA, damaged, spoilt

from intercode.errors import DataError, UsageError
from intercode.recordings import load_recording
from intercode.types import Task

_WORD = st.text(max_size=8)
_ACTION = st.sampled_from(["ls", "submit", "execute[ls]", "skip", ""])


@st.composite
def _entries(draw: st.DrawFn) -> dict[str, Any]:
    """One episode of a log."""
    turns = draw(st.integers(0, 3))
    kinds = {"actions": _ACTION, "observations": _WORD, "rewards": st.floats(0, 1), "valid_action": st.booleans()}
    kinds |= draw(st.sampled_from([{}, {}, {"thoughts": _WORD}, {"steps": _WORD}]))
    return {
        "environment": draw(st.sampled_from(["ic_bash", "ic_sql"])),
        "task_id": draw(st.integers(0, 3)),
        "query": draw(_WORD),
        "turn_history": {name: draw(st.lists(kind, min_size=turns, max_size=turns)) for name, kind in kinds.items()},
        "summary": {"max_reward": draw(st.floats(0, 1)), "turns_max": draw(st.integers(0, 10))},
        "hardness": "easy",
    }


_LOGS = st.dictionaries(st.sampled_from("0123"), _entries(), min_size=1, max_size=3)
_LOG = st.one_of(spoilt(_LOGS), spoilt(_LOGS), spoilt(st.fixed_dictionaries({"meta": DATA, "logs": _LOGS})), DATA)
_TURN = st.fixed_dictionaries(
    {"action": _ACTION, "observation": _WORD, "score": st.floats(0, 1), "exit_code": st.integers(0, 2)},
    optional={"after": st.integers(-2, 3)},
)
_EPISODE = st.fixed_dictionaries(
    {"task": _WORD, "query": _WORD, "epoch": st.just(0), "reward": st.floats(0, 1), "turns": st.lists(_TURN, max_size=3)}
)
_CONFIG = st.fixed_dictionaries(
    {"protocol": st.sampled_from(["submit", "paper"]), "reward": st.just("exact"), "session": st.just("persistent")},
    optional={"engine": st.just("sqlite"), "server": st.just({"engine": "sqlite"})},
)


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


def _lines(episodes: Any) -> bytes:
    return b"".join(_json(episode) + b"\n" for episode in (episodes if isinstance(episodes, list) else [episodes]))


_RUNS = st.tuples(
    damaged(spoilt(_CONFIG).map(_json)) | spoilt(_CONFIG).map(_json),
    spoilt(st.lists(_EPISODE, min_size=1, max_size=3)).map(_lines) | damaged(st.lists(_EPISODE, max_size=3).map(_lines)),
)
_SOUND: dict[str, Any] = {"task": "0", "query": "q", "epoch": 0, "reward": 1.0, "turns": []}
_HUNG = {"action": "ls", "observation": "", "score": None, "exit_code": 0, "after": 0}
TARGETS = [
    Target(
        "the importer of logs",
        _LOG.map(_json) | damaged(_LOG.map(_json)),
        _importer,
        found=(b"[" * 100_000,),
        quick=200,
    ),
    Target(
        "the reader of run folders",
        _RUNS,
        _reader,
        found=(
            (b"[]", b""),
            (b'{"protocol": null}', b""),
            (b'{"engine": null, "server": null}', b""),
            (b"{}", _lines([{**_SOUND, "task": []}])),
            (b"{}", _lines([{**_SOUND, "query": None}])),
            (b"{}", _lines([{**_SOUND, "reward": []}])),
            (b"{}", _lines([{**_SOUND, "turns": [_HUNG]}])),
        ),
        quick=200,
    ),
]
