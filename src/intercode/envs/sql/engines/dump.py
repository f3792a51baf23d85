"""Databases as files: what a user has, told apart and split, before any server sees it.

    DUMP.sql                   a MySQL dump; its CREATE DATABASE and USE lines say where each database begins
    FOLDER/NAME.sql            portable SQL, one database a file
    FOLDER/NAME.sqlite         SQLite files; also .db, also FOLDER/NAME/NAME.sqlite as BIRD and Spider publish them

It leaves out what is not content: accounts and rights in a dump are dropped. A SQLite file that is being written is refused.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from intercode.envs.sql.engines.quoting import quoted
from intercode.errors import DataError, UsageError

Kind = Literal["mysql", "portable", "sqlite"]

_SUFFIXES = (".sqlite", ".sqlite3", ".db")
_LARGE = 64 << 20
_HOT = bytes.fromhex("d9d505f920a163d7")
"""How a rollback journal begins that is still needed."""
_TOKEN = re.compile(
    r"""'[^'\\]*(?:\\.[^'\\]*)*' | "[^"\\]*(?:\\.[^"\\]*)*" | `[^`]*`   # strings and names
      | (?P<comment>--(?=\s)[^\n]* | --\Z | \#[^\n]* | /\*(?![!M]).*?\*/)
      | (?P<delimiter>^[ \t]*DELIMITER[ \t]+(?P<mark>\S+)[ \t]*$)
      | /\*[!M].*?\*/
      | (?P<end>;) | [^'"`\#/;\-$|\n]+ | .""",
    re.VERBOSE | re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_NAME = r"(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<bare>[\w$]+))"
_CREATE = re.compile(rf"CREATE\s+(?:DATABASE|SCHEMA)\s+(?:/\*!\d+\s*IF NOT EXISTS\s*\*/\s*|IF\s+NOT\s+EXISTS\s+)?{_NAME}", re.I)
_USE = re.compile(rf"USE\s+{_NAME}\s*$", re.I)
_SETTING = re.compile(r"(?:/\*!\d*\s*)?SET\s", re.I)
_NO_CONTENT = re.compile(
    r"(?:CREATE\s+USER|DROP\s+USER|ALTER\s+USER|GRANT|REVOKE|FLUSH|DROP\s+(?:DATABASE|SCHEMA)|COMMIT$"
    r"|SET\s+@@(?:GLOBAL|SESSION)\.(?:GTID_PURGED|SQL_LOG_BIN))\b",
    re.I,
)
_UNNEEDED = re.compile(
    r"(?:LOCK\s+TABLES|UNLOCK\s+TABLES|/\*!40000\s+ALTER\s+TABLE\s+\S+\s+(?:DISABLE|ENABLE)\s+KEYS\s*\*/)", re.I
)
_FOREIGN_COLLATION = re.compile(r"utf8mb4_0900_\w+", re.I)
_KNOWN_COLLATION = "utf8mb4_unicode_520_ci"


@dataclass(frozen=True)
class Databases:
    """`scripts`: SQL by database (`mysql`, `portable`); `files`: SQLite files by database. `digest` names the content."""

    kind: Kind
    digest: str
    scripts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({**self.scripts, **self.files}))


def databases(path: Path) -> Databases:
    """What `path` holds. Raises `UsageError` if it is not there or holds no database, `DataError` if it cannot be read."""
    if not path.exists():
        raise UsageError(f"{path}: there is no such file or folder with databases")
    if path.suffix in _SUFFIXES and not path.is_dir():
        return _sqlite_files([path])
    if not path.is_dir():
        text = _text(path)
        dumped = split(text) or split(text, path.stem)
        if not dumped:
            raise UsageError(f"{path} holds no statement that makes a database")
        if odd := [name for name in dumped if "/" in name or "\0" in name]:
            raise DataError(f"{path}: the database {odd[0]!r} cannot be a file's name; give it another one")
        return Databases("mysql", _hash("mysql", text), dumped)
    scripts = sorted(path.glob("*.sql"))
    files = sorted(file for suffix in _SUFFIXES for file in [*path.glob(f"*{suffix}"), *path.glob(f"*/*{suffix}")])
    if scripts and files:
        raise UsageError(f"{path} holds both .sql and SQLite files; give one kind")
    if scripts:
        texts = {name: _text(file) for name, file in _named(scripts).items()}
        portable = {name: (text,) for name, text in texts.items()}
        return Databases("portable", _hash("portable", *texts, *texts.values()), portable)
    if nested := [file for file in files if file.parent == path or file.stem == file.parent.name]:
        return _sqlite_files(nested)
    raise UsageError(f"{path} holds no database: NAME.sql, NAME.sqlite or NAME/NAME.sqlite")


def statements(text: str) -> Iterator[str]:
    """The statements of a MySQL script, without comments; `/*! … */` is none. DELIMITER lines change the end mark."""
    begin, mark, piece = 0, ";", list[str]()
    for token in _TOKEN.finditer(text):
        if token["delimiter"] is not None:
            mark = token["mark"]
        elif token["comment"] is not None:
            piece.append(" ")
        elif (mark == ";" and token["end"]) or (mark != ";" and text.startswith(mark, token.start())):
            yield from filter(None, ["".join(piece).strip()])
            piece.clear()
            begin = token.start() + len(mark)
        elif token.start() >= begin:
            piece.append(token[0])
    yield from filter(None, ["".join(piece).strip()])


def split(text: str, alone: str | None = None) -> dict[str, tuple[str, ...]]:
    """A dump's statements by database, beginning with CREATE DATABASE and USE; `alone` is the name if the dump gives none.

    Settings before the first database hold for all.
    """
    found = {alone: [f"CREATE DATABASE {quoted(alone, 'mysql')}", f"USE {quoted(alone, 'mysql')}"]} if alone else {}
    settings: list[str] = []
    here = alone
    for statement in statements(text):
        if match := _CREATE.match(statement) or _USE.match(statement):
            here = match["bare"] or match["quoted"].replace("``", "`")
            how = _known(statement[match.end() :]) if match.re is _CREATE else ""
            found.setdefault(here, [f"CREATE DATABASE {quoted(here, 'mysql')}{how}", f"USE {quoted(here, 'mysql')}", *settings])
        elif here is None:
            settings += [statement] if _SETTING.match(statement) and not _NO_CONTENT.match(statement) else []
        elif not _NO_CONTENT.match(statement) and not _UNNEEDED.match(statement):
            found[here].append(_known(statement) if statement[:6].upper() == "CREATE" else statement)
    return {name: tuple(lines) for name, lines in found.items() if len(lines) > 2}


def _known(statement: str) -> str:
    """MySQL 8's collations have no counterpart of the same name in MariaDB."""
    return _FOREIGN_COLLATION.sub(_KNOWN_COLLATION, statement)


def _sqlite_files(files: list[Path]) -> Databases:
    named = _named(files)
    return Databases("sqlite", _hash("sqlite", *named, *map(_stamp, named.values())), files=named)


def _named(files: list[Path]) -> dict[str, Path]:
    """By database; upper and lower case do not count, nor does the suffix."""
    found: dict[str, Path] = {}
    for file in files:
        other = found.setdefault(file.stem.lower(), file)
        if other is not file:
            raise UsageError(f"{other} and {file} would both be the database {file.stem}; leave one of them away")
    return {file.stem: file for file in found.values()}


def _stamp(file: Path) -> str:
    """The content of a file; of a large one its size and time, as reading it would take longer than using it."""
    log, journal = (file.with_name(file.name + ending) for ending in ("-wal", "-journal"))
    try:
        if journal.is_file() and journal.read_bytes()[:8] == _HOT:
            log = journal
        if log is journal or (log.is_file() and log.stat().st_size > 0):
            mend = f"sqlite3 {shlex.quote(str(file))} 'PRAGMA wal_checkpoint(TRUNCATE)'"
            raise DataError(f"{log} holds changes that {file.name} lacks; close what has it open, then: {mend}")
        with open(file, "rb") as content:
            if content.read(16) != b"SQLite format 3\0":
                raise DataError(f"{file} is no SQLite database")
            info = file.stat()
            if info.st_size > _LARGE:
                return f"{file.resolve()}\0{info.st_size}\0{info.st_mtime_ns}"
            content.seek(0)
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not text in UTF-8: {error}; convert it with iconv") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


def _hash(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()[:32]
