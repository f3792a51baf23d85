"""Databases of SQL tasks: read them from files, pass them to engines, and execute golds on them.

    DUMP.sql                   a MySQL dump; each database begins at a CREATE DATABASE or USE line
    FOLDER/NAME.sql            portable SQL or a MySQL dump, one database per file
    FOLDER/NAME.sqlite         SQLite files; also .db, also FOLDER/NAME/NAME.sqlite as published by
                               BIRD and Spider

    files ──► Databases ──► DatabaseSet: engines on the databases, and on their variant data
    task, engine ──► execute_gold ──► Gold: rows, and the meaning of their order

Left out: accounts and privileges in a dump are dropped. A SQLite file that is being written is
refused.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import os
import re
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from intercode.envs.gold import blame_gold
from intercode.envs.judges.outcome import Facts
from intercode.envs.sql.compare import Order, free, order_of, sql_exact, strict
from intercode.envs.sql.content import Content, first_difference, read_content
from intercode.envs.sql.documents import Documents, read_documents
from intercode.envs.sql.engines import READ_SECONDS, Answer, Databases, Engine, engine_maker
from intercode.envs.sql.language import LANGUAGE, kind_of
from intercode.envs.sql.options import SqlOptions
from intercode.envs.sql.text import literals, ordering, split_statements
from intercode.envs.sql.variants import variant_databases
from intercode.errors import DataError, UsageError, did_you_mean_file
from intercode.reading import (
    LARGEST,
    decoded,
    leave_out,
    listed,
    open_plain,
    present,
    read_bytes,
    read_entries,
)
from intercode.tasks import DataSet
from intercode.types import Score, Table, Task, TaskIssue
from intercode.user import golds_of

_NO_ROWS = Table((), ())
_DESCRIPTION = ("original_column_name", "column_name", "column_description", "value_description")
_SUFFIXES = (".sqlite", ".sqlite3", ".db")
_LARGE = 64 << 20
_HEAD = 1000
_NAME = r"(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<bare>[\w$]+))"
_CREATE = re.compile(
    r"CREATE\s+(?:DATABASE|SCHEMA)\s+(?:/\*!\d+\s*IF NOT EXISTS\s*\*/\s*"
    rf"|IF\s+NOT\s+EXISTS\s+)?{_NAME}",
    re.I,
)
_USE = re.compile(rf"USE\s+{_NAME}\s*$", re.I)
_SETTING = re.compile(r"(?:/\*!\d*\s*)?SET\s", re.I)
_DROPPED = re.compile(
    r"(?:CREATE\s+USER|DROP\s+USER|ALTER\s+USER|GRANT|REVOKE|FLUSH|DROP\s+(?:DATABASE|SCHEMA)"
    r"|COMMIT$|(?:UN)?LOCK\s+TABLES|SET\s+@@(?:GLOBAL|SESSION)\.(?:GTID_PURGED|SQL_LOG_BIN))\b"
    r"|/\*!40000\s+ALTER\s+TABLE\s+\S+\s+(?:DIS|EN)ABLE\s+KEYS",
    re.I,
)
_FOREIGN_COLLATION = re.compile(r"utf8mb4_(?:\w+_)?0900_\w+", re.I)
_KNOWN_COLLATION = "utf8mb4_unicode_520_ci"
_DEFINER = re.compile(r"DEFINER\s*=\s*(?:`[^`]*`|'[^']*'|\w+)@(?:`[^`]*`|'[^']*'|[\w%.]+)", re.I)
"""An account in a view, trigger or routine. Accounts are dropped, and a view with a missing account
cannot be read."""
_OF_MARIADB = re.compile(r"^/\*M?!999999\\- enable the sandbox mode \*/", re.M)
"""The first line of MariaDB's dumps: a client command, without a semicolon at the end."""
_DATA = re.compile(r"INSERT|REPLACE", re.I)
_OF_MYSQL = re.compile(
    r"""
    ^\s*(?:/\*!\d{5,6}\s|(?:UN)?LOCK\ TABLES\b|USE\ |CREATE\ (?:DATABASE|SCHEMA)\b
        |SET\ (?:NAMES|@|[\w.@]+\s*=))
    | ^\s*CREATE\ TABLE\b.*
        (?:\)\s*(?:ENGINE|DEFAULT\ CHARSET|CHARSET|COLLATE|AUTO_INCREMENT)\s*=|\bAUTO_INCREMENT\b)
    """,
    re.I | re.X | re.S,
)
"""A statement that MySQL and MariaDB accept but SQLite does not: `LOCK TABLES t WRITE`, but not
`CREATE TABLE t (engine INT)`."""
_FIRST = 50
"""Statements that are examined: a dump begins with settings and a table."""


# -- files -----------------------------------------------------------------------------------------


def read_databases(path: Path, root: Path | None = None) -> Databases:
    """Read a dump, a SQLite file or a folder of databases, whose files must lie in the folder
    `root`; without it, the caller has named them, and links may lead anywhere.

    A file of a folder that cannot be read is left out with a warning. Raises `UsageError` if `path`
    does not exist or contains no database, and the error of the first file if none can be read.
    """
    kind = present(path)
    if not kind:
        raise UsageError(
            f"{path}: there is no such file or folder with databases{did_you_mean_file(path)}"
        )
    if kind != "folder" and path.suffix not in _SUFFIXES:
        return Databases.of_scripts("mysql", _dumped(path, _text(path, root)))
    entries = [path] if kind == "file" else [*map(Path, listed(path))]
    scripts = [entry for entry in entries if entry.suffix == ".sql"]
    closed = []
    for folder in [*entries]:
        if folder.suffix not in _SUFFIXES and present(folder) != "file":
            entries += map(Path, listed(folder))
            if not os.access(folder, os.R_OK | os.X_OK):
                closed.append(folder.name)
    files = [entry for entry in entries if entry.suffix in _SUFFIXES]
    if scripts and files:
        raise UsageError(f"{path} holds both .sql and SQLite files; give one kind")
    if scripts:
        named, texts = _read_by_name(scripts, _text, root)
        left_out = (*closed, *(named.keys() - texts))
        if not any(map(_is_mysqls, texts.values())):
            whole = {name: [text] for name, text in texts.items()}
            return replace(Databases.of_scripts("portable", whole), left_out=left_out)
        dumped = {}
        for stem, text in texts.items():
            for name, lines in _dumped(named[stem], text).items():
                if name in dumped:
                    raise UsageError(
                        f"{named[stem]} creates the database {name}, and so does another file; "
                        "remove one of them"
                    )
                dumped[name] = lines
        return replace(Databases.of_scripts("mysql", dumped), left_out=left_out)
    nested = []
    for file in sorted(files):
        if path in (file, file.parent) or file.stem == file.parent.name:
            nested.append(file)
    if not nested:
        raise UsageError(f"{path} holds no database: NAME.sql, NAME.sqlite or NAME/NAME.sqlite")
    named, digests = _read_by_name(nested, _file_digest, root)
    content = "\0".join(["sqlite", *digests, *digests.values()])
    digest = hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    left_out = (*closed, *(named.keys() - digests))
    sound = {name: named[name] for name in digests}
    return Databases("sqlite", digest, files=sound, left_out=left_out)


def _read_by_name(
    files: Iterable[Path], read: Callable[[Path, Path | None], str], root: Path | None
) -> tuple[dict[str, Path], dict[str, str]]:
    """Return the files by database name, and what `read` returns for those that can be read. The
    suffix and the case do not count."""
    by_name: dict[str, Path] = {}
    for file in files:
        if (other := by_name.setdefault(file.stem.lower(), file)) is not file:
            raise UsageError(
                f"{other} and {file} would both be the database {file.stem}; remove one of them"
            )
    files = by_name.values()
    contents = dict(read_entries(files, lambda file: (file.stem, read(file, root))))
    return {file.stem: file for file in files}, contents


def _dumped(path: Path, text: str) -> dict[str, tuple[str, ...]]:
    """Return the statements of each database in a dump. Raises `UsageError` if there is none, and
    `DataError` for an invalid name."""
    databases = split_dump(text) or split_dump(text, path.stem)
    if not databases:
        raise UsageError(f"{path} contains no statement that creates a database")
    for name in databases:
        if "/" in name or "\0" in name:
            raise DataError(
                f"{path}: the database name {name!r} is not a valid file name; rename the database"
            )
    return databases


def _is_mysqls(text: str) -> bool:
    """Return whether a script is only for MySQL or MariaDB, judged by its first statements. Words
    in the data do not count."""
    return any(_OF_MYSQL.match(statement) for statement in islice(split_statements(text), _FIRST))


def split_dump(text: str, default: str | None = None) -> dict[str, tuple[str, ...]]:
    """Split a dump by database; each part begins with CREATE DATABASE and USE. `default` is the
    name if the dump gives none.

    Settings before the first database apply to all. MySQL 8's collations are replaced, since
    MariaDB lacks them, and accounts are dropped; data are unchanged.
    """

    def adapt(schema: str) -> str:
        return _DEFINER.sub("", _FOREIGN_COLLATION.sub(_KNOWN_COLLATION, schema))

    databases: dict[str, list[str]] = {}
    settings: list[str] = []
    current = default

    def begin(name: str, charset: str) -> None:
        quoted = in_backticks(name)
        databases.setdefault(
            name, [f"CREATE DATABASE {quoted}{charset}", f"USE {quoted}", *settings]
        )

    if default:
        begin(default, "")
    for statement in split_statements(_OF_MARIADB.sub("", text, count=1)):
        if match := _CREATE.match(statement) or _USE.match(statement):
            current = match["bare"] or match["quoted"].replace("``", "`")
            begin(current, adapt(statement[match.end() :]))
        elif _DROPPED.match(statement):
            continue
        elif current is not None:
            databases[current].append(statement if _DATA.match(statement) else adapt(statement))
        elif _SETTING.match(statement):
            settings.append(adapt(statement))
    return {name: tuple(lines) for name, lines in databases.items() if len(lines) > 2}


def in_backticks(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _file_digest(file: Path, root: Path | None) -> str:
    """Return the digest of a SQLite file; for a large file, its size and time, since reading it
    would take longer than using it.

    Raises `DataError` if the last changes are still in a log or journal next to the file.
    """
    try:
        for ending in ("-wal", "-journal"):
            log = file.with_name(file.name + ending)
            if present(log) and log.stat().st_size > 0:
                command = f"sqlite3 {shlex.quote(str(file))} 'PRAGMA wal_checkpoint(TRUNCATE)'"
                raise DataError(
                    f"{log} holds changes that {file.name} lacks; "
                    f"close the program that has it open, then run: {command}"
                )
        with open_plain(file, root) as content:
            if content.read(16) != b"SQLite format 3\0":
                raise DataError(f"{file} is not a SQLite database")
            info = file.stat()
            if info.st_size > _LARGE:
                return f"{file.resolve()}\0{info.st_size}\0{info.st_mtime_ns}"
            content.seek(0)
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


def _text(file: Path, root: Path | None) -> str:
    content = read_bytes(file, root, most=LARGEST)
    if content.startswith(b"PGDMP") or b"\n-- PostgreSQL database dump" in content[:_HEAD]:
        raise DataError(
            f"{file} is a dump of PostgreSQL, which no engine here loads; convert it:"
            " createdb NAME, restore the dump there (psql -f, or pg_restore), and"
            " pip install 'db-to-sqlite[postgresql]' &&"
            " db-to-sqlite --all postgresql:///NAME NAME.sqlite"
        )
    return decoded(content, file)


# -- engines ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DatabaseSet:
    """Factories of engines. `robust`: play every solved task on the variant data, not only general
    ones."""

    make_engine: Callable[[], Engine]
    make_variant: Callable[[], Engine] | None
    robust: bool
    digest: str
    descriptions: dict[str, str] = field(default_factory=dict)
    """By database, what `database_description/` says of its columns."""
    documents: dict[str, Documents] = field(default_factory=dict)
    """By database, what an agent may look up."""

    def facts(self) -> dict[str, Any]:
        """Return what determines results: the databases' content and the server."""
        with self.make_engine() as engine:
            server = engine.facts()
            machine = engine.sandbox.machine_facts()
        userland = {"engine": server["engine"], "version": server["version"]}
        return {"template": self.digest, "userland": userland, "server": server, **machine}


def prepare_databases(data: DataSet, options: SqlOptions, *, paper: bool) -> DatabaseSet:
    """Prepare engines for the tasks. The databases of `options` override the data set's. Raises
    `UsageError` if there are none."""
    if options.dump and options.databases:
        raise UsageError(
            "give the databases with --dump FILE or with --databases DIR, not with both"
        )
    if source := options.dump or options.databases:
        content = read_databases(Path(source))
    elif data.databases:
        content = read_databases(data.databases, data.databases.parent)
    elif all(texts_in(task, "preprocess_sql") for task in data.tasks):
        content = Databases.of_scripts("portable", {"main": [""]})
    else:
        raise UsageError("there are no databases; name them with --dump FILE or --databases DIR")
    make_engine = engine_maker(options.engine, content)
    make_variant = None
    if options.robust or (not paper and any(task.general for task in data.tasks)):
        # Variant data keep the values that golds name. A task without a database raises when it is
        # played, not here.
        named: dict[str, set[str | int | float]] = defaultdict(set)
        with make_engine() as first:
            for task in data.tasks:
                with contextlib.suppress(DataError):
                    db = database(task, first)
                    for gold in task.golds:
                        named[db] |= literals(gold, first.dialect)
            make_variant = engine_maker(options.engine, variant_databases(first, content, named))
    databases = DatabaseSet(make_engine, make_variant, options.robust, content.digest)
    for name, file in content.files.items():
        databases.descriptions[name] = read_descriptions(file.parent)
        databases.documents[name] = read_documents(file.parent, name)
    return databases


def read_descriptions(folder: Path) -> str:
    """Return what BIRD's files `database_description/TABLE.csv` say of the columns, a line each; ""
    without these files. Their encodings differ, so letters that are not UTF-8 are replaced."""
    lines = []
    for file in sorted(folder.glob("database_description/*.csv")):
        try:
            text = read_bytes(file, folder).decode("utf-8-sig", "replace")
        except DataError as error:
            leave_out(error)
            continue
        for row in csv.DictReader(io.StringIO(text)):
            cells = [" ".join((row.get(name) or "").split()) for name in _DESCRIPTION]
            lines.append(f"{file.stem}.{cells[0]}: {'; '.join(filter(None, cells[1:]))}")
    return "\n".join(lines)


def database(task: Task, engine: Engine) -> str:
    """Return the task's database: its `db` or `db_id`, or the engine's only one, which may hold the
    tables of each `db_id` (as BIRD's mini-dev does). Raises `DataError` if there is no such
    database."""
    named = task.extra.get("db") or task.extra.get("db_id")
    if len(engine.databases) == 1 and not engine.left_out and task.extra.get("db") is None:
        return engine.databases[0]
    if named is None:
        raise DataError(
            f"task {task.id} names no database in the field `db`; "
            f"there are {', '.join(engine.databases)}"
        )
    try:
        return engine.name_of(str(named))
    except UsageError as error:
        raise DataError(f"task {task.id}: {error}; the field `db` names one of them") from None


# -- golds -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gold:
    """The outcome of a gold: the answer, and the order of its rows for `exact`. `content` is what a
    gold that writes leaves in its database; None for a query."""

    answer: Answer
    order: Order
    content: Content | None = None
    facts: Facts = frozenset()
    """The parts of the catalog and the rows that a gold adds or removes."""

    @property
    def table(self) -> Table | None:
        return self.answer.table

    @property
    def faults(self) -> tuple[str, ...]:
        """Return the gold's faults, judged only by its outcome."""
        if self.answer.timed_out:
            return ("gold runs out of time",)
        if self.answer.error is not None:
            return (f"gold fails: {self.answer.error}",)
        if self.content is not None:
            return ()
        if self.table is None:
            return ("gold returns no rows: it is not a query",)
        if self.table.cut:
            return (
                f"gold returns too many rows or bytes: only {len(self.table.rows)} rows are kept",
            )
        if all(value is None for row in self.table.rows for value in row):
            return (
                TaskIssue(
                    "gold returns nothing: any statement that finds nothing is right", "by_luck"
                ),
            )
        return ()

    @property
    def evidence(self) -> object:
        """Return a value that is equal for two executions with the same result: the rows that may
        be returned, in order except for ties."""
        content = self.content.evidence if self.content else None
        if self.table is None:
            return self.answer.error or content
        rows = sorted(zip(self.order.ties, map(repr, self.order.rows), strict=True))
        return self.table.columns, len(self.table.rows), self.order.start, rows, content

    def score(self, answer: Table | None, content: Content | None) -> Score:
        """Return the score under `exact` of an agent's answer, and of the content that it leaves
        where the gold writes."""
        if self.content is None:
            return sql_exact(answer, self.table, self.order)
        score = Score(1.0, True, rule="same changes")
        if self.table is not None:
            score = sql_exact(answer, self.table, self.order)
        rule, _ = first_difference(content, self.content)
        if rule:
            return Score(0.0, False, {**score.parts, "changes": 0.0}, rule=rule)
        return replace(score, parts={**score.parts, "changes": 1.0})


_SEVERAL = re.compile(r"one statement at a time|error in your SQL syntax")
"""Matches what SQLite and MariaDB answer to several statements at once, of which they execute
none."""


def run_in_turn(run: Callable[..., Answer], text: str, *, seconds: float) -> Answer:
    """Execute the statements of a text one after the other, up to the first that fails, and return
    the last one's answer. Together they may take `seconds`."""
    until = time.monotonic() + seconds
    answer = run(text, seconds=seconds)
    if not _SEVERAL.search(answer.error or ""):
        return answer
    statements = [*split_statements(text)]
    if len(statements) < 2:
        return answer
    for statement in statements:
        seconds = until - time.monotonic()
        if seconds <= 0:
            return Answer(error="interrupted", timed_out=True)
        answer = run(statement, seconds=seconds)
        if answer.error is not None or answer.timed_out:
            break
    return answer


def texts_in(task: Task, name: str) -> list[str]:
    """Return the texts of a list in a task's record; empty if there is none. Raises `DataError` for
    anything else."""
    texts = task.extra.get(name)
    if texts in (None, "", "[]"):
        return []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise DataError(f"task {task.id}: the field {name!r} is not a list of texts")
    return texts


def set_up(engine: Engine, task: Task) -> None:
    """Execute a task's `preprocess_sql` in the open database. Raises `DataError` if one fails."""
    for statement in texts_in(task, "preprocess_sql"):
        answer = engine.run(statement, seconds=READ_SECONDS)
        if answer.error is not None:
            raise DataError(f"task {task.id}: preprocess_sql fails: {answer.error}")


def whole_gold(task: Task) -> str:
    """Return the gold, after those of earlier rounds."""
    return LANGUAGE.between.join(golds_of(task))


def execute_gold(engine: Engine, task: Task) -> Gold:
    """Execute a task's `whole_gold` as the grader, which ends the last episode; one that writes, as
    an agent. Raises `DataError` if the gold killed its server."""

    def execute() -> Gold:
        db = database(task, engine)
        engine.open(db)
        set_up(engine, task)
        text = whole_gold(task)
        statements = [*split_statements(text)] or [text]
        run: Callable[..., Answer] = partial(engine.run_gold, db)
        before = content = None
        facts: Facts = frozenset()
        if texts_in(task, "preprocess_sql"):
            run = engine.run
        if any(kind_of(statement) == "editing" for statement in statements):
            run = engine.run
            before = read_content(engine, db, text)
        answer = run_in_turn(run, text, seconds=READ_SECONDS)
        if before is not None and not answer.error:
            content = read_content(engine, db, text)
            facts = frozenset(before.evidence.items() ^ content.evidence.items())
            if not facts:
                raise DataError(
                    f"task {task.id}: the gold changes nothing that is compared (rows, columns, "
                    "keys, indexes, triggers, routines), so any answer would be right"
                )
        last = text if len(statements) == 1 else statements[-1]
        order = ordering(last, engine.dialect)
        counts = task.extra.get("order_counts")
        if answer.table is None or counts is False or kind_of(last) == "editing":
            return Gold(answer, free(answer.table or _NO_ROWS), content, facts)
        if counts and order.free:
            return Gold(answer, strict(answer.table), content, facts)
        full = None
        for statement in order.derived:
            full = run(statement, seconds=READ_SECONDS).table
            if full is not None:
                break
        return Gold(answer, order_of(answer.table, order, full), content, facts)

    return blame_gold(execute, task.gold)
