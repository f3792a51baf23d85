"""One bad entry leaves only itself out, and is named: in each reader of folders and of records."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import warnings
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import intercode
from intercode.envs.sql.databases import read_databases
from intercode.errors import DataError, EntryLeftOut, IntercodeError
from intercode.interop.atif import read_trajectories
from intercode.interop.v1.trajectories import read_logs
from intercode.reading import LARGEST_TEXT, read_text, real_file

COMPOSE = "services:\n  web:\n    build: .\n    command: python3 app.py\n    ports: ['80:80']\n"
TOML = 'schema_version = "1.1"\n[environment]\ndocker_image = "debian"\n'
YAML = "instruction: Make /app/x.\n"
CHALLENGE = json.dumps({"name": "x", "description": "Read it.", "flag": "flag{x}", "files": ["x"]})
SERVED = json.dumps({**json.loads(CHALLENGE), "compose": True, "box": "web.chal.io"})
TRAJECTORY = json.dumps(
    {
        "schema_version": "ATIF-v1.6",
        "session_id": "s",
        "agent": {"name": "a", "version": "1"},
        "steps": [{"step_id": 1, "source": "user", "message": "Hi."}],
    }
)
LOG = json.dumps(
    {
        "environment": "ic_bash",
        "dataset": "d",
        "query": "Hi.",
        "query_idx": 0,
        "trajectory": [],
        "reward": 1.0,
        "info": {},
    }
)


def prepared(env: str, **options: Any) -> Callable[[Path], set[str]]:
    def entries(folder: Path) -> set[str]:
        data = folder / "t.jsonl" if (folder / "t.jsonl").exists() else folder
        tasks = intercode.prepare(env, data=str(data), **options).tasks
        return {task.id.rpartition("-")[2] for task in tasks}

    return entries


def recorded(read: Callable[[Path], Any]) -> Callable[[Path], set[str]]:
    """Returns the odd entry too, where both are read: their names do not stand in the record."""
    return lambda folder: {"good", "odd"} if len(read(folder)[1]) == 2 else {"good"}


def records(folder: Path) -> None:
    rows = [
        {"id": name, "query": "Make /srv/x.", "gold": "touch /srv/x", "verify": name}
        for name in ("good", "odd")
    ]
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


class Reader(NamedTuple):
    file: str
    """The path of an entry's file, below the folder of the set, without the entry's name."""
    content: str | bytes
    entries: Callable[[Path], Collection[str]]
    beside: dict[str, str] | None = None
    """Further files of an entry."""
    prepare: Callable[[Path], None] = lambda folder: None


def sqlite_file() -> bytes:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE t (a)")
        return db.serialize()


TESTS = {
    "tests/test.sh": "true\n",
    "instruction.md": "Make /app/x.\n",
    "environment/Dockerfile": "FROM debian\n",
}
OLD_TESTS = {
    "tests/test_outputs.py": "",
    "run-tests.sh": "true\n",
    "Dockerfile": "FROM debian\n",
}
READERS = {
    "Harbor": Reader("{}/task.toml", TOML, prepared("harbor"), TESTS),
    "Harbor's instructions": Reader(
        "{}/instruction.md", "Make /app/x.", prepared("harbor"), {**TESTS, "task.toml": TOML}
    ),
    "Harbor's tests": Reader(
        "{}/tests/test.sh", "true\n", prepared("harbor"), {**TESTS, "task.toml": TOML}
    ),
    "Terminal-Bench": Reader("{}/task.yaml", YAML, prepared("harbor"), OLD_TESTS),
    "NYU": Reader("2023/misc/{}/challenge.json", CHALLENGE, prepared("ctf"), {"x": "flag{x}"}),
    "NYU's compose files": Reader(
        "2023/web/{}/docker-compose.yml",
        COMPOSE,
        prepared("ctf"),
        {"challenge.json": SERVED, "x": "x", "Dockerfile": "FROM scratch\n"},
    ),
    "NYU's assets": Reader(
        "2023/misc/{}/x", "flag{x}", prepared("ctf"), {"challenge.json": CHALLENGE}
    ),
    "SQLite": Reader("{}.sqlite", sqlite_file(), lambda folder: read_databases(folder).names),
    "SQL": Reader("{}.sql", "CREATE TABLE t (a);\n", lambda folder: read_databases(folder).names),
    "tests": Reader("{}/test.sh", "true\n", prepared("bash"), prepare=records),
    "trajectories": Reader("{}.json", TRAJECTORY, recorded(read_trajectories)),
    "logs": Reader("{}.json", LOG, recorded(read_logs)),
}
"""Readers of folders: a file for each entry."""


def link_out(path: Path, good: bytes) -> None:
    outside = path.parents[4] / "outside"
    outside.write_bytes(good)
    path.symlink_to(outside)


def too_large(path: Path, good: bytes) -> None:
    path.write_bytes(good)
    os.truncate(path, LARGEST_TEXT + 1)


ODD: dict[str, Callable[[Path, bytes], object]] = {
    "empty": lambda path, good: path.write_bytes(b""),
    "no text": lambda path, good: path.write_bytes(b"\xff\xfe\0\x80" + good),
    "Latin-1": lambda path, good: path.write_bytes(good + b"# caf\xe9\n"),
    "null": lambda path, good: path.write_bytes(b"null"),
    "a number": lambda path, good: path.write_bytes(b"7"),
    "a list": lambda path, good: path.write_bytes(b"[1, 2]"),
    "nested": lambda path, good: path.write_bytes(b"[" * 3000),
    "cut short": lambda path, good: path.write_bytes(good[: len(good) * 2 // 3]),
    "a pipe": lambda path, good: os.mkfifo(path),
    "a device": lambda path, good: path.symlink_to("/dev/zero"),
    "a link that leads out": link_out,
    "a link that leads nowhere": lambda path, good: path.symlink_to("nowhere"),
    "a folder": lambda path, good: path.mkdir(),
    "too large": too_large,
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", READERS)
def test_an_odd_file_leaves_only_its_entry_out(tmp_path: Path, name: str, kind: str) -> None:
    reader, folder = READERS[name], tmp_path / "1/2/3"
    content = reader.content if isinstance(reader.content, bytes) else reader.content.encode()
    folder.mkdir(parents=True)
    for entry in ("good", "odd"):
        file = folder / reader.file.format(entry)
        top = folder / reader.file.partition("{}")[0] / entry
        for place, text in (reader.beside or {}).items():
            (top / place).parent.mkdir(parents=True, exist_ok=True)
            (top / place).write_text(text)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        if entry == "good":
            file.write_bytes(content)
        else:
            ODD[kind](file, content)
    reader.prepare(folder)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        entries = set(reader.entries(folder))
    assert "good" in entries
    told = " ".join(str(warning.message) for warning in warned)
    if "odd" not in entries and kind not in UNSEEN.get(name, ()):
        assert "odd" in told or "odd" in reasons(reader, folder)


NO_RECORDS = set(ODD) - {"Latin-1", "cut short", "too large"}
UNSEEN = {
    "Harbor": ("a link that leads nowhere",),
    "Terminal-Bench": ("a link that leads nowhere",),
    "NYU": ("a link that leads nowhere",),
    "trajectories": NO_RECORDS,
    "logs": NO_RECORDS | {"cut short"},
}
"""What is no entry: a folder without the file, a file that nothing marks as a record."""


def reasons(reader: Reader, folder: Path) -> str:
    """Return the ids of the tasks that the environment has left out."""
    env = {"2023": "ctf", "{}/te": "bash"}.get(reader.file[:4], "harbor")
    data = folder / "t.jsonl" if (folder / "t.jsonl").exists() else folder
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return " ".join(task.id for task, _ in intercode.prepare(env, data=str(data)).left_out)


GOOD = {"id": "good", "query": "Print 1.", "gold": "echo 1"}
DEEP: Any = "x"
for _ in range(200):
    DEEP = [DEEP]
RECORDS: dict[str, Any] = {
    "null": None,
    "a number": 7,
    "a text": "query",
    "a list": [1, 2],
    "nested": {"id": "odd", "query": "x", "gold": "y", "more": DEEP},
    "no query": {"id": "odd", "gold": "y"},
    "an empty query": {"id": "odd", "query": " ", "gold": "y"},
    "no gold": {"id": "odd", "query": "x"},
    "a number as gold": {"id": "odd", "query": "x", "gold": 7},
    "NUL": {"id": "odd", "query": "x\0", "gold": "y"},
    "half a surrogate pair": {"id": "odd", "query": "x", "gold": "y", "more": "\ud800"},
    "an id twice": {**GOOD, "query": "Print 2."},
    "a word for a truth value": {"id": "odd", "query": "x", "gold": "y", "general": "perhaps"},
    "a word for another": {"id": "odd", "query": "x", "gold": "y", "files_count": "perhaps"},
    "golds that are no list": {"id": "odd", "query": "x", "golds": "y"},
}
FORMS: dict[str, Callable[[Any], str]] = {
    ".jsonl": lambda odd: f"{json.dumps(GOOD)}\n{json.dumps(odd)}\n",
    ".json": lambda odd: json.dumps([GOOD, odd]),
}


@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize("suffix", FORMS)
def test_an_odd_record_leaves_only_itself_out(tmp_path: Path, suffix: str, kind: str) -> None:
    file = tmp_path / f"t{suffix}"
    file.write_text(FORMS[suffix](RECORDS[kind]))
    if suffix == ".json" and kind == "nested":  # the file is one value
        return
    with pytest.warns(EntryLeftOut, match=r"t\.jsonl?: .*(line|records?)"):
        factory = intercode.prepare("bash", data=str(file))
    assert [task.id for task in factory.tasks] == ["good"]
    ((task, why),) = factory.left_out
    assert why.kind == "unreadable"
    assert task.id != "good"


LINES = {
    ".jsonl": (json.dumps(GOOD), '{"id": "odd", "query": "x", "gold": "y"'),
    ".ndjson": (json.dumps(GOOD), "{'id': 'odd', 'query': 'x', 'gold': 'y'}"),
    ".csv": ("id,query,gold\ngood,Print 1.,echo 1", "odd,x"),
    ".tsv": ("id\tquery\tgold\ngood\tPrint 1.\techo 1", "odd\tx\ty\tz"),
    ".sql": ("SELECT 1\tgood", "SELECT 2"),
}


@pytest.mark.parametrize("suffix", LINES)
def test_a_line_that_is_no_record_leaves_only_itself_out(tmp_path: Path, suffix: str) -> None:
    good, odd = LINES[suffix]
    file = tmp_path / f"t{suffix}"
    file.write_text(f"{good}\n{odd}\n{good.splitlines()[-1].replace('good', 'last')}\n")
    tasks, left_out = intercode.tasks.loader.read_tasks(file)
    assert len(tasks) == 2
    assert [f"{file}: line " in why for _, why in left_out] == [True]


PARTS = {"tree": "bash", "setup.sh": "bash", "databases": "sql", "assets": "ctf"}


@pytest.mark.parametrize("part", PARTS)
def test_no_file_of_the_host_comes_in_by_a_link(tmp_path: Path, part: str) -> None:
    outside, data = tmp_path / "outside", tmp_path / "data"
    (outside / "a").mkdir(parents=True)
    (outside / "a" / "key").write_text("of the host")
    (outside / "a.sql").write_text("CREATE TABLE t (a);\n")
    data.mkdir()
    (data / "tasks.jsonl").write_text(json.dumps({"id": "a", "query": "x", "gold": "flag{a}"}))
    (data / part).symlink_to(outside / "a.sql" if part.endswith(".sh") else outside)
    with pytest.raises(DataError, match="leads out of"):
        intercode.prepare(PARTS[part], data=str(data))


def test_no_asset_is_a_link_out_of_its_folder(tmp_path: Path) -> None:
    secret, data = tmp_path / "secret", tmp_path / "data"
    secret.mkdir()
    (secret / "key").write_text("of the host")
    (data / "assets").mkdir(parents=True)
    (data / "tasks.jsonl").write_text(json.dumps({"id": "a", "query": "x", "gold": "flag{a}"}))
    (data / "assets" / "a").symlink_to(secret)
    with pytest.raises(IntercodeError, match="leads out of"):
        intercode.prepare("ctf", data=str(data))
    (data / "assets" / "a").unlink()
    shutil.copytree(secret, data / "assets" / "a")
    assert intercode.prepare("ctf", data=str(data)).tasks


def test_links_of_a_hubs_cache_are_read_and_others_are_not(tmp_path: Path) -> None:
    cache = tmp_path / "datasets--owner--name"
    commit = cache / "snapshots" / "c0ffee"
    for folder in (commit, cache / "blobs"):
        folder.mkdir(parents=True)
    (cache / "blobs" / "1").write_text("text")
    (commit / "a.txt").symlink_to("../../blobs/1")
    assert read_text(commit / "a.txt", commit) == "text"
    assert real_file(commit / "a.txt") == cache / "blobs" / "1"
    plain = tmp_path / "snapshots" / "evil"
    plain.mkdir(parents=True)
    (tmp_path / "secret").write_text("of the host")
    (plain / "a.txt").symlink_to("../../secret")
    with pytest.raises(DataError, match="leads out of"):
        read_text(plain / "a.txt", plain)


HUGE = "9" * 400
STRANGE = {
    "a size": ("harbor", "task.toml", f'[environment]\nmemory = "{HUGE}"\n'),
    "a time": ("harbor", "task.toml", f"[agent]\ntimeout_sec = {HUGE}\n"),
    "a number in base 60": ("harbor", "task.yaml", f"a: !!int '{'1:' * 9000}1'\n"),
    "a name": ("ctf", "challenge.json", json.dumps({"files": ["a" * 300], "flag": "f{x}"})),
    "a file": ("ctf", "challenge.json", json.dumps({"files": ["a\0b"], "flag": "f{x}"})),
    "a list": ("ctf", "challenge.json", json.dumps({"files": [7], "flag": "f{x}"})),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_value_leaves_only_its_entry_out(tmp_path: Path, name: str) -> None:
    env, file, text = STRANGE[name]
    good = {"harbor": ("task.toml", TOML), "ctf": ("challenge.json", CHALLENGE)}[env]
    for entry, (place, content) in {"good": good, "odd": (file, text)}.items():
        for beside, more in {**TESTS, **OLD_TESTS, "x": "x"}.items():
            (tmp_path / entry / beside).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / entry / beside).write_text(more)
        (tmp_path / entry / place).write_text(content)
        if env == "harbor":
            (tmp_path / entry / "tests" / "test.sh").write_text("true\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        factory = intercode.prepare(env, data=str(tmp_path))
    assert [task.id for task in factory.tasks] == ["good"]
    assert [task.id for task, _ in factory.left_out] == ["odd"]


def test_a_run_goes_on_where_its_data_has_been_moved(tmp_path: Path) -> None:
    facts = []
    for folder in (tmp_path / "here", tmp_path / "there"):
        folder.mkdir()
        (folder / "t.jsonl").write_text(f"{json.dumps(GOOD)}\nno record\n")
        with pytest.warns(EntryLeftOut):
            facts.append(intercode.prepare("bash", data=str(folder / "t.jsonl")).facts())
    assert facts[0]["left_out"]
    assert facts[0]["left_out"] == facts[1]["left_out"]
