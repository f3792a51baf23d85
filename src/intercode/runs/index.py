"""An index next to a run's episodes: what a list of episodes shows, and where each record is in the
file.

    RUN/episodes.jsonl ──► RUN/index.sqlite      one row for each task and epoch: the last record
                                                 counts, as everywhere
                                                 covered: how many bytes of episodes.jsonl are in
                                                 the index, and their ends

`update` reads what has been appended since the last time, so an index is built while the run is
written (`eval` calls it) or when somebody looks. It may be deleted at any moment, and is rebuilt if
it does not match its file: if the first or the last indexed bytes have changed. Processes may
update it at once: each piece is a transaction.

The index is a temporary file where the folder cannot be written, and for a run without the user's
signature: a database made by a stranger can contain queries that never end, and a journal next to
it names files that SQLite then deletes.

A text is searched in the file itself, at the disk's speed, since an index of all texts would be
larger than the run.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
import threading
import time
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

from intercode.errors import DataError
from intercode.report.analysis import CATEGORIES, category_of, executed_turns, values_of
from intercode.report.summary import EpisodeRow
from intercode.report.text import one_line
from intercode.report.transcript import FAILED
from intercode.report.turns import code_turns
from intercode.runs.signing import is_signed
from intercode.runs.store import from_json, lines_of, open_inside, read_inside
from intercode.types import Episode

_APPLICATION = 0x1C0DE
"""Marks a database as an index, so that no other database is ever changed."""
COLUMNS = (
    *EpisodeRow._fields,
    "start",
    "size",
    "ended",
    "error",
    "category",
    "hardness",
    "split",
    "seen",
    "answer",
    "printed",
)
"""`start` and `size` of the record in bytes; `seen`: when it was indexed (Unix seconds). `answer`
is a digest of what the last action of a solved episode printed, `printed` the digests of all
outputs of a failed one: for the category "had the answer". All texts but the task's id are cut, and
all but id and query are on one line."""

VERSION = crc32(f"5: {COLUMNS} {CATEGORIES}".encode()) & 0x7FFFFFFF
"""Marks the content of the index; another column or category makes another version."""

FACETS = ("state", "ended", "category", "hardness", "split")
"""The columns that a list may be filtered by."""
SORTS = {
    "task": "CAST(task AS INTEGER), task, epoch",
    "state": "state",
    "reward": "reward",
    "turns": "turns",
    "tokens": "tokens",
    "cost": "cost",
    "seconds": "seconds",
    "ended": "ended",
    "category": "category",
    "query": "query",
    "finished": "start",
}
"""The columns that a list may be sorted by, as SQL."""

IS_TASK = "task = CAST(? AS TEXT)"
"""A condition; the value is `as_bytes` of the id."""

HAS_FAILED = f"state IN ({', '.join(map(repr, FAILED))})"
"""A condition."""

_LATER = list(CATEGORIES)[list(CATEGORIES).index("had the answer") + 1 :]
_PIECE = 32 << 20
"""Bytes that one transaction covers."""
_ENDS = 4096
"""Bytes at the beginning and at the end of the indexed part, which reveal another file."""
_MOST_TOKENS = 10**12
"""A server may say that a reply took any number of tokens; the sum must stay below 2**63."""
_CHUNK = 16 << 20
"""Bytes that a search reads at once."""
_SCHEMA = f"""
    CREATE TABLE episodes ({", ".join(COLUMNS)}, PRIMARY KEY (task, epoch)) WITHOUT ROWID;
    CREATE INDEX starts ON episodes (start);
    CREATE TABLE covered (bytes INTEGER, damaged INTEGER, ends TEXT);
    INSERT INTO covered VALUES (0, 0, '');
    PRAGMA user_version = {VERSION};
    PRAGMA application_id = {_APPLICATION};
"""
_LOOKUP = f"""
    UPDATE episodes SET category = 'had the answer'
    WHERE task = CAST(? AS TEXT) AND category IN ({", ".join(f"'{name}'" for name in _LATER)})
    AND EXISTS (
        SELECT 1 FROM episodes AS solved
        WHERE solved.task = episodes.task AND instr(episodes.printed, solved.answer)
    )
"""


class Index:
    """The index of one run. `config` are the run's settings. Threads may share it."""

    def __init__(self, run: Path, config: Mapping[str, Any]) -> None:
        self._run, self._path, self._config = run, run / "index.sqlite", config
        self._records = run / "episodes.jsonl"
        self.is_temporary: bool | None = None
        """True if the index is outside the run folder; None before it is opened."""
        self._lock = threading.Lock()
        self._lists: dict[object, array[int]] = {}

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the index; create it if there is none, or one of another version.

        Where it cannot be written, is a stranger's or another program's, a temporary file takes its
        place. Raises `DataError`.
        """
        if self.is_temporary is None:
            self.is_temporary = not self._is_ours()
        there = self._path if self._path.exists() else self._path.parent
        if self.is_temporary or not (os.access(self._run, os.W_OK) and os.access(there, os.W_OK)):
            self._use_temporary()
        try:
            with closing(self._connect()) as db:
                db.text_factory = lambda text: text.decode(errors="surrogatepass")
                db.execute("PRAGMA synchronous = OFF")
                if db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
                    self._make(db)
                yield db
        except sqlite3.Error as error:
            if isinstance(error, sqlite3.OperationalError):
                raise DataError(f"{self._path} cannot be used as an index: {error}") from error
            with suppress(OSError):  # damaged: the next reader rebuilds it
                self._path.unlink()
            raise DataError(
                f"{self._path} was damaged and is being rebuilt: "
                "load the page again, or repeat the command"
            ) from error

    def _connect(self) -> sqlite3.Connection:
        """Return a connection to the index, or to a temporary one if another program's database has
        its name."""
        db = sqlite3.connect(self._path, timeout=10, isolation_level=None)
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not tables or db.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION:
            return db
        db.close()
        self._use_temporary()
        return sqlite3.connect(self._path, timeout=10, isolation_level=None)

    def _is_ours(self) -> bool:
        """Return whether the run has the user's signature, and nothing but plain files where SQLite
        reads and writes."""
        files = [
            self._path.with_name(self._path.name + end) for end in ("", "-journal", "-wal", "-shm")
        ]
        if any(
            os.path.lexists(file) and (file.is_symlink() or not file.is_file()) for file in files
        ):
            return False
        with suppress(OSError, ValueError, RecursionError):
            return isinstance(
                settings := json.loads(read_inside(self._run, "run.json")), dict
            ) and is_signed(settings)
        return False

    def _open_records(self) -> BinaryIO:
        return open(open_inside(self._run, "episodes.jsonl"), "rb")

    def _use_temporary(self) -> None:
        if self._path.parent != self._run:
            return
        self.is_temporary, folder = True, tempfile.mkdtemp(prefix="intercode-index-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._path = Path(folder) / "index.sqlite"

    def _make(self, db: sqlite3.Connection) -> None:
        db.execute("BEGIN IMMEDIATE")
        if db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            for table in ("episodes", "covered"):
                db.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in _SCHEMA.split(";")[:-1]:
                db.execute(statement)
        db.execute("COMMIT")

    def update(self, seconds: float = float("inf")) -> float:
        """Index new records for about `seconds`, and return the share of the file that is covered,
        1.0 for all.

        Raises `DataError` if the run cannot be read, or the index cannot be written, for example
        because the disk is full.
        """
        deadline = time.monotonic() + seconds
        try:
            with self._lock, self._open() as db:
                while True:
                    share = self._update_piece(db, deadline)
                    if share == 1.0 or time.monotonic() > deadline:
                        return share
        except OSError as error:
            raise DataError(f"{self._records} cannot be read: {error.strerror}") from error

    def _update_piece(self, db: sqlite3.Connection, deadline: float) -> float:
        size = 0
        with suppress(FileNotFoundError), self._open_records() as file:
            size = os.fstat(file.fileno()).st_size
        done, _, ends = db.execute("SELECT * FROM covered").fetchone()
        if done == size and ends == self._ends(done):
            return 1.0
        db.execute("BEGIN IMMEDIATE")
        try:
            done, damaged, ends = db.execute("SELECT * FROM covered").fetchone()
            if ends != self._ends(done):  # the file was replaced
                db.execute("DELETE FROM episodes")
                done = damaged = 0
            first, last, rows = done, False, []
            with suppress(FileNotFoundError), self._open_records() as file:
                file.seek(done)
                for line in lines_of(file):
                    if last := not line.endswith(b"\n"):  # the run is about to write the rest
                        break
                    try:
                        if not line.isspace():
                            rows.append(self._row(line, done))
                    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
                        damaged += 1
                    done += len(line)
                    if done - first > _PIECE or time.monotonic() > deadline:
                        break
            values = ", ".join(["CAST(? AS TEXT)"] * 2 + ["?"] * (len(COLUMNS) - 2))
            db.executemany(f"INSERT OR REPLACE INTO episodes VALUES ({values})", rows)
            if self._config.get("epochs", 1) != 1 and rows:
                db.executemany(_LOOKUP, {(row[0],) for row in rows})
            db.execute(
                "UPDATE covered SET bytes = ?, damaged = ?, ends = ?",
                (done, damaged, self._ends(done)),
            )
            db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # after a full disk there is none left
                db.execute("ROLLBACK")
            raise
        return 1.0 if last or done >= size else done / size

    def _ends(self, size: int) -> str:
        """Return a digest of the beginning and the end of the file's first `size` bytes; for 0
        bytes, an empty text."""
        if size == 0:
            return ""
        with suppress(FileNotFoundError), self._open_records() as file:
            begin = file.read(min(size, _ENDS))
            file.seek(max(0, size - _ENDS))
            return hashlib.sha256(begin + file.read(min(size, _ENDS))).hexdigest()
        return "no file"

    def _row(self, line: bytes, start: int) -> tuple[object, ...]:
        episode = from_json(json.loads(line))
        row = EpisodeRow.of(episode, self._config)
        category, answer, printed = None, None, None
        if row.success:
            last = code_turns(episode)[-1:]
            answer = _digest(last[0].observation) if last and last[0].observation.strip() else None
        elif episode.reward is not None:
            category = category_of(self._config, episode)
            may_have_answer = category in _LATER and not values_of(episode.turns)
            if may_have_answer and self._config.get("epochs", 1) != 1:
                printed = " ".join(_digest(turn.observation) for turn in executed_turns(episode))
        hardness = (
            levels.get(episode.task)
            if isinstance(levels := self._config.get("hardness"), dict)
            else None
        )
        texts = (episode.ended, episode.error, hardness, episode.split)
        ended, error, level, split = (
            None if text is None else one_line(str(text)) for text in texts
        )
        return (
            as_bytes(row.task),
            as_bytes(row.query),
            *row._replace(tokens=min(row.tokens, _MOST_TOKENS))[2:],
            start,
            len(line),
            ended,
            error,
            category,
            level,
            split,
            time.time(),
            answer,
            printed,
        )

    # -- looking -----------------------------------------------------------------------------------

    @property
    def covered(self) -> tuple[int, int, str]:
        """Return how many bytes of the run are indexed, how many of their lines are not episodes,
        and a digest of their ends."""
        with self._open() as db:
            return tuple(db.execute("SELECT bytes, damaged, ends FROM covered").fetchone())

    def rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        """Return the rows of a query over the table `episodes`."""
        with self._open() as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(sql, values)]

    def all(self) -> list[EpisodeRow]:
        """Return the facts of each episode that figures read, by task and epoch."""
        with self._open() as db:
            cursor = db.execute(
                f"SELECT {', '.join(EpisodeRow._fields)} FROM episodes ORDER BY task, epoch"
            )
            return list(map(EpisodeRow._make, cursor))

    def find(self, chosen: Mapping[str, str], text: str = "", sort: str = "task") -> Sequence[int]:
        """Return the starts of the records that match, in order. The newest lists are kept, for
        pages and neighbours.

        `chosen` maps some of `FACETS` to values. `text` must occur literally in an action or an
        observation. `sort` is one of `SORTS`, with a minus before it for the reverse.
        """
        key = (self.covered, tuple(sorted(chosen.items())), text, sort)
        if (cached := self._lists.get(key)) is not None:
            return cached
        facets = {name: value for name, value in chosen.items() if name in FACETS}
        failed = facets.get("state") == "failed" and bool(facets.pop("state"))
        conditions = [*[HAS_FAILED] * failed, *(f"{name} = CAST(? AS TEXT)" for name in facets)]
        where = " AND ".join(conditions) or "1"
        hits = self.search(text) if text else None
        name, back = sort.removeprefix("-"), "DESC" if sort.startswith("-") else "ASC"
        order = f"{SORTS.get(name, SORTS['task'])}, start".replace(",", f" {back},")
        with self._open() as db:
            rows = db.execute(
                f"SELECT start FROM episodes WHERE {where} ORDER BY {order} {back}",
                [*map(as_bytes, facets.values())],
            )
            starts = array("q", (start for (start,) in rows if hits is None or start in hits))
        if len(self._lists) > 7:
            self._lists.clear()
        self._lists[key] = starts
        return starts

    def page(self, starts: Sequence[int]) -> list[dict[str, Any]]:
        """Return the rows with these starts, in their order."""
        marks = ", ".join("?" * len(starts))
        by_start = {
            row["start"]: row
            for row in self.rows(f"SELECT * FROM episodes WHERE start IN ({marks})", *starts)
        }
        return [by_start[start] for start in starts if start in by_start]

    def read(self, task: str, epoch: int) -> tuple[Episode, int] | None:
        """Return an episode and the start of its record; None if the index has none.

        Raises `DataError` if the record is not there, since the file was changed by hand; the index
        is then rebuilt.
        """
        if not (
            rows := self.rows(
                f"SELECT start, size FROM episodes WHERE {IS_TASK} AND epoch = ?",
                as_bytes(task),
                epoch,
            )
        ):
            return None
        start, size = rows[0]["start"], rows[0]["size"]
        with (
            suppress(OSError, KeyError, TypeError, ValueError, AttributeError),
            self._open_records() as file,
        ):
            file.seek(start)
            episode = from_json(json.loads(file.read(size)))
            if (episode.task, episode.epoch) == (task, epoch):
                return episode, start
        with self._open() as db:
            db.execute("PRAGMA user_version = 0")
        raise DataError(
            f"{self._records} was changed while it was being viewed; load the page again"
        )

    def search(self, text: str) -> set[int]:
        """Return the starts of all records with `text` in an action or an observation."""
        starts = set[int]()
        with suppress(FileNotFoundError), self._open_records() as file:
            start = 0
            while chunk := _whole_lines(file):
                starts.update(start + line for line in _search_lines(chunk, text))
                start += len(chunk)
        return starts


def indexing(index: Index, then: Callable[[Episode], None]) -> Callable[[Episode], None]:
    """Return a function for `on_episode` that calls `then`, and updates the index once a second,
    ignoring its errors."""
    last = 0.0

    def watch(episode: Episode) -> None:
        nonlocal last
        then(episode)
        if time.monotonic() - last > 1:
            with suppress(DataError, OSError):
                index.update()
            last = time.monotonic()

    return watch


def _whole_lines(file: BinaryIO) -> bytes:
    """Read about `_CHUNK` bytes, up to the end of a line."""
    chunk = file.read(_CHUNK)
    return chunk if chunk.endswith(b"\n") else chunk + file.readline()


def _search_lines(chunk: bytes, text: str) -> Iterator[int]:
    """Yield the start of each line with `text` in an action or an observation. Of a chunk of this
    program's own records, only lines with the text somewhere are parsed."""
    is_ours = chunk.startswith(b'{"schema": ') and chunk.isascii()
    needle = json.dumps(text)[1:-1].encode() if is_ours else b""
    at = chunk.find(needle)
    while 0 <= at < len(chunk):
        line, end = chunk.rfind(b"\n", 0, at) + 1, chunk.find(b"\n", at)
        after = len(chunk) if end < 0 else end + 1
        if _has(chunk[line:after], text):
            yield line
        at = chunk.find(needle, after)


def _has(line: bytes, text: str) -> bool:
    with suppress(KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return any(
            text in (turn.get("action") or "") or text in turn["observation"]
            for turn in json.loads(line)["turns"]
        )
    return False


def as_bytes(text: str) -> bytes:
    """Return a text as the index stores it. Ids may contain halves of surrogate pairs, which SQLite
    takes only as bytes."""
    return text.encode(errors="surrogatepass")


def _digest(text: str) -> str:
    return hashlib.sha256(as_bytes(text)).hexdigest()[:16]
