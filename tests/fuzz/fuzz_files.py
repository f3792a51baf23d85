"""Files that users bring, of any content: tasks and recordings that can be relied on, or an error
that blames the data."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fuzzing import Attempt, Target
from hypothesis import strategies as st
from shapes import DATA, SCALARS, damaged, records, spoilt

from intercode.envs.python.layouts import LAYOUTS
from intercode.errors import DataError, UsageError
from intercode.rescoring.recordings import load_recording
from intercode.tasks.loader import load_tasks
from intercode.types import Task

pytestmark = pytest.mark.slow


def _reading(
    name: str, use: Callable[[Path], object]
) -> Callable[[], AbstractContextManager[Attempt]]:
    @contextmanager
    def reader() -> Iterator[Attempt]:
        with tempfile.TemporaryDirectory() as folder:

            def attempt(content: bytes) -> None:
                (Path(folder) / name).write_bytes(content)
                try:
                    use(Path(folder) / name)
                except (DataError, UsageError) as error:
                    str(error).encode()  # it can be shown

            yield attempt

    return reader


def _json(data: object) -> bytes:
    return json.dumps(data).encode()


# -- tasks -----------------------------------------------------------------------------------------


def _use_tasks(path: Path) -> None:
    for layouts in ((), LAYOUTS):
        tasks = load_tasks(path, layouts=layouts)
        assert tasks
        assert len({task.id for task in tasks}) == len(tasks)
        for task in tasks:
            assert all(
                text.strip() and "\0" not in text for text in (task.id, task.query, task.gold)
            )
            "".join((task.id, task.query, task.gold)).encode()
            assert isinstance(task.general, bool)


def _csv(rows: list[list[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(
        [["id", "query", "gold", "general"][: len(rows[0])] if rows else [], *rows]
    )
    return text.getvalue().encode("utf-8", "surrogatepass")


_TEXT = st.text(min_size=1, max_size=10)
_RECORDS = st.lists(
    records(
        "input_output",
        "problem_id",
        "extra",
        query=_TEXT,
        gold=st.one_of(_TEXT, st.lists(_TEXT, max_size=3)),
        id=_TEXT,
        general=st.booleans(),
        question=_TEXT,
        solutions=st.lists(_TEXT).map(json.dumps),
        starter_code=_TEXT,
        text=_TEXT,
        code=_TEXT,
    ),
    max_size=4,
)
_MIXED = st.lists(st.one_of(records("query", "gold", "id"), DATA), max_size=4)
_LINES = st.one_of(_RECORDS, _MIXED).map(lambda rows: b"\n".join(map(_json, rows)))
_ROWS = st.lists(st.lists(SCALARS, min_size=2, max_size=4), max_size=4)

# -- logs of InterCode v1 --------------------------------------------------------------------------


def _use_recording(path: Path) -> None:
    recording = load_recording(path)
    assert recording.protocol in ("submit", "paper")
    for episode in recording.episodes:
        assert isinstance(episode.task, str)
        assert all(turn.action is None or isinstance(turn.action, str) for turn in episode.turns)
        assert all(isinstance(turn.observation, str) for turn in episode.turns)
        assert all(
            isinstance(score, float | None)
            for score in (episode.reward, *(turn.score for turn in episode.turns))
        )
        assert recording.actions_for(Task(episode.task, episode.query, "ls")) is not None


_WORD = st.text(max_size=8)


@st.composite
def _entries(draw: st.DrawFn) -> dict[str, Any]:
    """One episode of a log."""
    turns = draw(st.integers(0, 3))
    action = st.sampled_from(["ls", "submit", "execute[ls]", "skip", ""])
    kinds = {
        "actions": action,
        "observations": _WORD,
        "rewards": st.floats(0, 1),
        "valid_action": st.booleans(),
    }
    kinds |= draw(st.sampled_from([{}, {}, {"thoughts": _WORD}, {"steps": _WORD}]))
    return {
        "environment": draw(st.sampled_from(["ic_bash", "ic_sql"])),
        "task_id": draw(st.integers(0, 3)),
        "query": draw(_WORD),
        "turn_history": {
            name: draw(st.lists(kind, min_size=turns, max_size=turns))
            for name, kind in kinds.items()
        },
        "summary": {"max_reward": draw(st.floats(0, 1)), "turns_max": draw(st.integers(0, 10))},
        "hardness": "easy",
    }


_LOGS = st.dictionaries(st.sampled_from("0123"), _entries(), min_size=1, max_size=3)
_LOG = st.one_of(
    spoilt(_LOGS), spoilt(st.fixed_dictionaries({"meta": DATA, "logs": _LOGS})), DATA
).map(_json)
_DEEP = b"[" * 100_000

TARGETS = [
    Target(
        "the loader of JSON",
        damaged(st.one_of(_RECORDS, _MIXED, DATA).map(_json)),
        _reading("t.json", _use_tasks),
        (_json([{"\ud800": None}]),),
    ),
    Target("the loader of JSONL", damaged(_LINES), _reading("t.jsonl", _use_tasks)),
    Target("the loader of CSV", damaged(_ROWS.map(_csv)), _reading("t.csv", _use_tasks)),
    Target(
        "the importer of logs",
        _LOG | damaged(_LOG),
        _reading("log.json", _use_recording),
        (_DEEP,),
        quick=100,
    ),
]
