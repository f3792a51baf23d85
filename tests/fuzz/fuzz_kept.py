"""What is kept beside runs and in the cache, of any content: findings of a check, a judge's mark, verdicts and replies."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from fuzzing import Attempt, Target
from hypothesis import strategies as st
from shapes import DATA, damaged, spoilt

from intercode.errors import StoreError
from intercode.runner.exclusion import broken, kept
from intercode.runner.journal import Notes
from intercode.runner.judge import kept_mark, kept_verdicts

_WORD = st.text(max_size=8)
_ROW = st.fixed_dictionaries({"task": _WORD, "kind": _WORD, "why": _WORD})
_FINDINGS = st.fixed_dictionaries({"tasks": st.integers(0, 9), "broken": st.lists(_ROW, max_size=3)})
_VERDICT = st.fixed_dictionaries(
    {
        "task": _WORD, "epoch": st.integers(0, 3), "judge": _WORD, "reply": st.none() | _WORD,
        "says": st.sampled_from(["same", "different", None]),
    }
)  # fmt: skip
_USAGE = st.fixed_dictionaries(
    {"prompt_tokens": st.integers(0, 9), "completion_tokens": st.integers(0, 9), "cost": st.just(0.5)}
)
_REPLY = st.fixed_dictionaries(
    {"question": _WORD, "text": _WORD, "usage": _USAGE, "calls": st.just([]), "left_out": st.integers(0, 2)}
)


def _findings(folder: Path) -> None:
    found = kept(folder / "file")
    assert found is None or all(isinstance(text, str) for pair in broken(found).items() for text in pair)


def _mark(folder: Path) -> None:
    (folder / "mark").write_bytes((folder / "file").read_bytes())
    mark = kept_mark(folder)
    assert re.fullmatch("[0-9a-f]{32}", mark)
    assert kept_mark(folder) == mark


def _verdicts(folder: Path) -> None:
    (folder / "judged").mkdir(exist_ok=True)
    (folder / "judged" / "verdicts.jsonl").write_bytes((folder / "file").read_bytes())
    try:
        verdicts = kept_verdicts(folder)
    except StoreError as error:
        str(error).encode()
        return
    for verdict in verdicts:
        assert hash((verdict.task, verdict.epoch, verdict.judge)) is not None
        assert verdict.says in ("same", "different", None)


def _replies(folder: Path) -> None:
    try:
        notes = Notes(folder / "file")
    except StoreError as error:
        str(error).encode()
        return
    assert notes.usage.prompt_tokens + notes.usage.completion_tokens + notes.usage.cost is not None


def _reading(use: Callable[[Path], None]) -> Callable[[], AbstractContextManager[Attempt]]:
    @contextmanager
    def reader() -> Iterator[Attempt]:
        with tempfile.TemporaryDirectory() as name:

            def attempt(content: bytes) -> None:
                (Path(name) / "file").write_bytes(content)
                use(Path(name))

            yield attempt

    return reader


def _lines(records: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in (records if isinstance(records, list) else [records]))


def _bytes(whole: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return spoilt(whole).map(_lines) | damaged(whole.map(_lines)) | DATA.map(_lines)


DEEP = b"[" * 100_000
TARGETS = [
    Target("the reader of findings", _bytes(_FINDINGS), _reading(_findings), found=(b"", b"{}", DEEP), quick=200),
    Target("the reader of marks", st.binary(max_size=40), _reading(_mark), found=(b"", b"0" * 32 + b"\n"), quick=60),
    Target("the reader of verdicts", _bytes(st.lists(_VERDICT, max_size=3)), _reading(_verdicts), found=(DEEP,), quick=200),
    Target("the reader of replies", _bytes(st.lists(_REPLY, max_size=3)), _reading(_replies), found=(DEEP,), quick=200),
]
